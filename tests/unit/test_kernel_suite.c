// The kernel suite itself: a small correct kernel passes it at several tile sizes, and each classic
// fault, planted in that kernel, fails it with a message that names the case.
#include "common/attn.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Fault {
    FAULT_NONE,
    FAULT_TAIL_LEAK,         // the last tile's missing keys count as keys of 0
    FAULT_LAST_TILE_DROPPED, // a tile that is not full is skipped
    FAULT_TOP_LEFT,          // causal is aligned to the first key
    FAULT_WINDOW_COUNT,      // the window does not count the query's own key
    FAULT_NO_MAX,            // exp without taking the maximum off
    FAULT_MAX_FALLS,         // a tile's maximum replaces the kept one
    FAULT_SUM_KEPT,          // the sum is not rescaled
    FAULT_ACC_KEPT,          // the accumulator is not rescaled
    FAULT_SENTINEL,          // the maximum starts at -100 instead of -inf
    FAULT_NO_GUARD,          // -inf minus -inf in a row without keys
    FAULT_LSE_BASE_2,        // the log-sum-exp in base 2
    FAULT_SCALE_IGNORED,     // always 1/sqrt(dim)
    FAULT_LAST_COLUMN,       // the last column of q and k is not read
    FAULT_HEAD_MODULO,       // KV head h % heads_kv
    FAULT_LENS_IGNORED,      // every key counts as in use
    FAULT_MASK_BY_ZERO,      // hidden keys are multiplied by 0: NaN passes
    FAULT_WEIGHTS_BF16,      // weights rounded to bf16
    FAULT_WRITES_PAST_END,   // one element behind O
    FAULT_CHANGES_INPUT,     // scales Q in place
    FAULT_UNCHECKED,         // takes any shape, and writes nothing
    FAULT_WRITES_FIRST,      // clears O before it checks the shape
    FAULT_NOT_REPEATABLE,    // the order of the sum depends on the run
    FAULT_REFUSES_ALL,       // refuses every problem, without saying why
} Fault;

typedef struct Config {
    int64_t block_k;
    Fault fault;
} Config;

// Is key j visible to row i of batch entry b? With the mask's faults.
static bool visible(const AttnShape *shape, Fault fault, int64_t b, int64_t i, int64_t j) {
    int64_t keys = fault == FAULT_LENS_IGNORED ? shape->len_kv : attn_keys(shape, b);
    int64_t last = !shape->causal            ? keys - 1
                   : fault == FAULT_TOP_LEFT ? i
                                             : i + keys - shape->len_q;
    int64_t window = shape->window + (fault == FAULT_WINDOW_COUNT && shape->window > 0 ? 1 : 0);
    return j < keys && j <= last && (window == 0 || j > last - window);
}

// One row, online softmax over tiles of block_k keys; returns its log-sum-exp. k, v [len_kv][dim].
static float simple_row(const AttnShape *shape, const Config *config, int64_t b, int64_t i,
                        const float *q, const float *k, const float *v, float *o) {
    Fault fault = config->fault;
    int64_t dim = shape->dim, block = config->block_k;
    float scale = (float)(fault == FAULT_SCALE_IGNORED ? 1 / sqrt((double)dim) : attn_scale(shape));
    float m = fault == FAULT_SENTINEL ? -100 : -INFINITY, l = 0;
    float *s = calloc((size_t)block, sizeof(float));
    memset(o, 0, (size_t)dim * sizeof(float));
    for (int64_t begin = 0; begin < shape->len_kv; begin += block) {
        int64_t count = shape->len_kv - begin < block ? shape->len_kv - begin : block;
        int64_t padded = fault == FAULT_TAIL_LEAK ? block : count;
        if (fault == FAULT_LAST_TILE_DROPPED && count < block) {
            continue;
        }
        float m_new = fault == FAULT_MAX_FALLS ? -INFINITY : m;
        for (int64_t j = 0; j < padded; j++) {
            s[j] = j < count ? -INFINITY : 0;
            if (j < count && visible(shape, fault, b, i, begin + j)) {
                float dot = 0;
                for (int64_t c = 0; c < dim - (fault == FAULT_LAST_COLUMN); c++) {
                    dot += q[c] * k[(begin + j) * dim + c];
                }
                s[j] = scale * dot;
            }
            m_new = s[j] > m_new ? s[j] : m_new;
        }
        m_new = fault == FAULT_NO_MAX ? 0 : m_new;
        float shift = m_new == -INFINITY && fault != FAULT_NO_GUARD ? 0 : m_new;
        float alpha = expf(m - shift);
        alpha = fault == FAULT_NO_MAX ? 1 : alpha;
        l *= fault == FAULT_SUM_KEPT ? 1 : alpha;
        for (int64_t c = 0; c < dim; c++) {
            o[c] *= fault == FAULT_ACC_KEPT ? 1 : alpha;
        }
        for (int64_t j = 0; j < padded; j++) {
            float p = expf(s[j] - shift);
            l += p;
            p = fault == FAULT_WEIGHTS_BF16 ? dtype_round(DTYPE_BF16, p) : p;
            bool reads = visible(shape, fault, b, i, begin + j) || fault == FAULT_MASK_BY_ZERO;
            for (int64_t c = 0; c < dim && j < count && reads; c++) {
                o[c] += p * v[(begin + j) * dim + c];
            }
        }
        m = m_new;
    }
    free(s);
    for (int64_t c = 0; c < dim; c++) {
        o[c] = l == 0 ? 0 : o[c] / l;
    }
    return fault == FAULT_LSE_BASE_2 ? (m + logf(l)) / (float)M_LN2 : m + logf(l);
}

static AttnStatus simple_run(const AttnShape *shape, const Tensor *q, const Tensor *k,
                             const Tensor *v, Tensor *o, Tensor *lse, const void *config) {
    static int runs;
    Fault fault = ((const Config *)config)->fault;
    float *o_data = o->data, *lse_data = lse->data;
    if (fault == FAULT_WRITES_FIRST) {
        memset(o_data, 0, o->count * sizeof(float));
    }
    AttnStatus status = attn_check_shape(shape);
    if (status != ATTN_OK) {
        return fault == FAULT_UNCHECKED ? ATTN_OK : status;
    }
    if (fault == FAULT_REFUSES_ALL) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "no");
    }
    for (int64_t row = 0; row < (int64_t)attn_count_lse(shape); row++) {
        int64_t i = row % shape->len_q, h = row / shape->len_q % shape->heads_q;
        int64_t b = row / (shape->len_q * shape->heads_q);
        int64_t kv_head = fault == FAULT_HEAD_MODULO ? h % shape->heads_kv : attn_kv_head(shape, h);
        int64_t first = (b * shape->heads_kv + kv_head) * shape->len_kv * shape->dim;
        lse_data[row] = simple_row(shape, config, b, i, (float *)q->data + row * shape->dim,
                                   (float *)k->data + first, (float *)v->data + first,
                                   o_data + row * shape->dim);
    }
    if (fault == FAULT_WRITES_PAST_END) {
        o_data[o->count] = 0;
    }
    if (fault == FAULT_CHANGES_INPUT && q->count > 0) {
        *(float *)q->data *= 0.5F;
    }
    if (fault == FAULT_NOT_REPEATABLE && ++runs == 7) {
        o_data[0] = nextafterf(o_data[0], 2);
    }
    return ATTN_OK;
}

// ---- the correct kernel -------------------------------------------------------------------------

static const Config configs[] = {{1, FAULT_NONE}, {4, FAULT_NONE}, {32, FAULT_NONE}};
static const KernelUnderTest kernels[] = {
    {"simple, block_k 1", simple_run, &configs[0], 0, 1, false, false, 0, DTYPE_F32},
    {"simple, block_k 4", simple_run, &configs[1], 0, 4, false, false, 0, DTYPE_F32},
    {"simple, block_k 32", simple_run, &configs[2], 0, 32, false, false, 0, DTYPE_F32},
};
enum { KERNEL_COUNT = sizeof kernels / sizeof kernels[0] };

START_TEST(correct_golden) {
    kernel_suite_golden(&kernels[_i]);
}
END_TEST

START_TEST(correct_case) {
    for (int k = 0; k < KERNEL_COUNT; k++) {
        kernel_suite_case(&kernels[k], kernel_suite_case_name((size_t)_i));
    }
}
END_TEST

START_TEST(correct_random) {
    kernel_suite_random(&kernels[_i], 1, 100 * _i, 100);
}
END_TEST

START_TEST(correct_errors) {
    kernel_suite_errors(&kernels[_i]);
}
END_TEST

START_TEST(correct_dtypes) {
    kernel_suite_dtype(&kernels[_i], DTYPE_F16);
    kernel_suite_dtype(&kernels[_i], DTYPE_BF16);
}
END_TEST

// ---- planted faults -----------------------------------------------------------------------------

// `check` is golden, random, errors, declares_no_masks, declares_no_window, or the name of a known
// answer; the failure's message must hold `text`.
static const struct {
    Fault fault;
    const char *check, *text;
} faults[] = {
    {FAULT_TAIL_LEAK, "tail_leak", "got 8.25, expected 16"},
    {FAULT_TAIL_LEAK, "tail_leak_negative", "tail_leak_negative"},
    {FAULT_TAIL_LEAK, "golden", "ragged"},
    {FAULT_LAST_TILE_DROPPED, "tail_leak", "tail_leak"},
    {FAULT_LAST_TILE_DROPPED, "random", "random problem"},
    {FAULT_TOP_LEFT, "decode_alignment", "got 1, expected 2.5"},
    {FAULT_TOP_LEFT, "rows_without_keys", "rows_without_keys"},
    {FAULT_TOP_LEFT, "golden", "causal_chunk"},
    {FAULT_WINDOW_COUNT, "window_count", "got 1.5, expected 2"},
    {FAULT_WINDOW_COUNT, "golden", "window8"},
    {FAULT_NO_MAX, "very_negative_scores", "very_negative_scores"},
    {FAULT_NO_MAX, "large_scores", "got NaN"},
    {FAULT_NO_MAX, "golden", "large_scores"},
    {FAULT_MAX_FALLS, "max_must_not_fall", "max_must_not_fall"},
    {FAULT_SUM_KEPT, "rising_ladder", "rising_ladder"},
    {FAULT_ACC_KEPT, "rising_ladder", "rising_ladder"},
    {FAULT_SENTINEL, "masked_then_very_negative", "masked_then_very_negative"},
    {FAULT_SENTINEL, "very_negative_scores", "very_negative_scores"},
    {FAULT_NO_GUARD, "masked_first_tile", "expected 2.5"},
    {FAULT_NO_GUARD, "rows_without_keys", "rows_without_keys"},
    {FAULT_NO_GUARD, "golden", "empty_rows"},
    {FAULT_LSE_BASE_2, "scale_and_base", "expected 1.386294"},
    {FAULT_LSE_BASE_2, "random", "LSE"},
    {FAULT_SCALE_IGNORED, "scale_and_base", "scale 0.25"},
    {FAULT_SCALE_IGNORED, "golden", "custom_scale"},
    {FAULT_LAST_COLUMN, "last_column", "got 0.5, expected 0.75"},
    {FAULT_LAST_COLUMN, "odd_dims", "odd_dims"},
    {FAULT_HEAD_MODULO, "gqa_map", "got 1, expected 0"},
    {FAULT_HEAD_MODULO, "golden", "causal_chunk"},
    {FAULT_LENS_IGNORED, "empty_dimensions", "kv_lens 0 3"},
    {FAULT_LENS_IGNORED, "nan_isolation", "kv_lens"},
    {FAULT_LENS_IGNORED, "random", "kv_lens"},
    {FAULT_MASK_BY_ZERO, "nan_isolation", "nan_isolation"},
    {FAULT_WEIGHTS_BF16, "golden", "square_tiny"},
    {FAULT_WEIGHTS_BF16, "random", "random problem"},
    {FAULT_WRITES_PAST_END, "many_heads", "wrote outside o"},
    {FAULT_CHANGES_INPUT, "odd_dims", "changed its input q"},
    {FAULT_UNCHECKED, "errors", "names batch"},
    {FAULT_UNCHECKED, "gqa_reject", "names heads_kv"},
    {FAULT_UNCHECKED, "window_negative", "names window"},
    {FAULT_WRITES_FIRST, "errors", "wrote 0 to element 0 of O"},
    {FAULT_NOT_REPEATABLE, "repeatable", "differs from run 1"},
    {FAULT_NONE, "declares_no_masks", "ran, but declares that it refuses causal"},
    {FAULT_REFUSES_ALL, "decode_alignment", "returned ATTN_ERR_UNSUPPORTED"},
    {FAULT_REFUSES_ALL, "declares_no_masks", "a refusal is ATTN_ERR_UNSUPPORTED and names causal"},
    {FAULT_NONE, "declares_no_window", "ran, but declares that it refuses window"},
    {FAULT_REFUSES_ALL, "declares_no_window", "a refusal is ATTN_ERR_UNSUPPORTED and names window"},
    {FAULT_NONE, "no_such_case", "there is no case named no_such_case"},
};
enum { FAULT_COUNT = sizeof faults / sizeof faults[0] };

// The messages of the failed runs, "" where the run passed or ended in another way than by failing.
static char messages[FAULT_COUNT][1024];

START_TEST(run_fault) {
    int64_t block = strcmp(faults[_i].check, "tail_leak") == 0 ? 32 : 4;
    const Config config = {block, faults[_i].fault};
    const bool no_masks = strcmp(faults[_i].check, "declares_no_masks") == 0;
    const bool no_window = strcmp(faults[_i].check, "declares_no_window") == 0;
    const KernelUnderTest kernel = {"planted fault", simple_run, &config, 0,        block,
                                    no_masks,        no_window,  0,       DTYPE_F32};
    if (strcmp(faults[_i].check, "golden") == 0) {
        kernel_suite_golden(&kernel);
    } else if (strcmp(faults[_i].check, "random") == 0) {
        kernel_suite_random(&kernel, 1, 0, 50);
    } else if (strcmp(faults[_i].check, "errors") == 0) {
        kernel_suite_errors(&kernel);
    } else if (no_masks) {
        kernel_suite_case(&kernel, "decode_alignment");
    } else if (no_window) {
        kernel_suite_case(&kernel, "window_count");
    } else {
        kernel_suite_case(&kernel, faults[_i].check);
    }
}
END_TEST

// Runs every planted fault in a silent runner of its own and keeps what it said.
static void run_faults(void) {
    Suite *suite = suite_create("planted faults");
    for (int i = 0; i < FAULT_COUNT; i++) {
        TCase *tcase = tcase_create("fault");
        tcase_set_timeout(tcase, 60);
        tcase_add_loop_test(tcase, run_fault, i, i + 1);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_SILENT);
    TestResult **results = srunner_results(runner);
    for (int i = 0; i < srunner_ntests_run(runner) && i < FAULT_COUNT; i++) {
        if (tr_rtype(results[i]) == CK_FAILURE) {
            snprintf(messages[i], sizeof messages[i], "%s", tr_msg(results[i]));
        }
    }
    free(results);
    srunner_free(runner);
}

START_TEST(fault_fails) {
    ck_assert_msg(strstr(messages[_i], faults[_i].text) != NULL,
                  "fault %d must fail %s with a message that holds \"%s\"; it said \"%s\"",
                  (int)faults[_i].fault, faults[_i].check, faults[_i].text, messages[_i]);
}
END_TEST

int main(void) {
    run_faults();
    if (getenv("SHOW_FAULTS") != NULL) {
        for (int i = 0; i < FAULT_COUNT; i++) {
            printf("%s\n", messages[i]);
        }
    }
    Suite *suite = suite_create("kernel_suite");
    TCase *tcase = tcase_create("correct kernel");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, correct_golden, 0, KERNEL_COUNT);
    tcase_add_loop_test(tcase, correct_case, 0, (int)kernel_suite_case_count());
    tcase_add_loop_test(tcase, correct_random, 0, KERNEL_COUNT);
    tcase_add_loop_test(tcase, correct_errors, 0, KERNEL_COUNT);
    tcase_add_loop_test(tcase, correct_dtypes, 0, KERNEL_COUNT);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("planted faults");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, fault_fails, 0, FAULT_COUNT);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
