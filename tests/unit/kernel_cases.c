// The known answers: small problems whose right result can be written down, each named for the
// fault that it catches. Most have one head, dim 1, scale 1 and queries of 1, so that a key is its
// score; with keys of 0 the output is the mean of the visible values and LSE the log of their
// number. Where tile borders matter, a case runs at the size it is written for and again at the
// kernel's own tile size.
#include "tests/unit/kernel_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEYS = 1024 }; // of the cases built for a kernel's tile size

// The tile size the cases are written for, and the kernel's own where it has one that fits.
static int tile_sizes(const KernelUnderTest *kernel, int64_t written_for, int64_t *sizes) {
    sizes[0] = written_for;
    sizes[1] = kernel->block_k;
    bool own = kernel->block_k > 0 && kernel->block_k != written_for;
    return own && 3 * kernel->block_k <= MAX_KEYS ? 2 : 1;
}

// One head of dim 1: every query 1, keys k, values v [len_kv]; expects o and lse [len_q].
static void check_head(const KernelUnderTest *kernel, const char *name, const AttnShape *shape,
                       const float *k, const float *v, const double *o, const double *lse) {
    Trial trial;
    trial_begin(&trial, kernel, shape, "%s", name);
    fill_value(&trial.q, 1);
    memcpy(trial.k.data, k, trial.k.count * sizeof(float));
    memcpy(trial.v.data, v, trial.v.count * sizeof(float));
    trial_run_ok(&trial);
    trial_check_known(&trial, o, lse);
    trial_end(&trial);
}

// ---- tails and tiles ----------------------------------------------------------------------------

static void tail_leak(const KernelUnderTest *kernel) {
    int64_t sizes[2];
    int size_count = tile_sizes(kernel, 32, sizes);
    for (int s = 0; s < size_count; s++) {
        for (int64_t keys = sizes[s] + 1; keys >= sizes[s] - 1; keys--) {
            static const float zeros[MAX_KEYS];
            float v[MAX_KEYS] = {0};
            double o[MAX_KEYS], lse[MAX_KEYS];
            for (int64_t j = 0; j < keys; j++) {
                v[j] = (float)j;
                o[j] = (double)(keys - 1) / 2;
                lse[j] = log((double)keys);
            }
            AttnShape shape = one_head(keys, keys); // a tail of rows as well
            check_head(kernel, "tail_leak", &shape, zeros, v, o, lse);
        }
    }
}

// A key that leaks in with score 0 outweighs all others. First nothing but guard words behind the
// last key, then unused keys that are NaN.
static void tail_leak_negative(const KernelUnderTest *kernel) {
    int64_t sizes[2];
    int size_count = tile_sizes(kernel, 32, sizes);
    for (int s = 0; s < size_count; s++) {
        for (int64_t unused = 0; unused <= 7; unused += 7) {
            int64_t keys = sizes[s] + 1;
            int32_t in_use[] = {(int32_t)keys};
            AttnShape shape = one_head(1, keys + unused);
            shape.heads_q = 2;
            shape.heads_kv = 2;
            shape.kv_lens = unused > 0 ? in_use : NULL;
            Trial trial;
            trial_begin(&trial, kernel, &shape, "tail_leak_negative");
            fill_value(&trial.q, 1);
            for (int64_t h = 0; h < 2; h++) {
                for (int64_t j = 0; j < keys; j++) {
                    tensor_set(&trial.k, (size_t)(h * shape.len_kv + j), -20);
                    tensor_set(&trial.v, (size_t)(h * shape.len_kv + j), 1);
                }
            }
            double lse = -20 + log((double)keys);
            trial_run_ok(&trial);
            trial_check_known(&trial, (double[]){1, 1}, (double[]){lse, lse});
            trial_end(&trial);
        }
    }
}

// A window hides the first tile; the visible scores are `score`, the hidden ones 0.
static void check_masked_tile(const KernelUnderTest *kernel, const char *name, float score) {
    int64_t sizes[2];
    int size_count = tile_sizes(kernel, 4, sizes);
    for (int s = 0; s < size_count; s++) {
        int64_t tile = sizes[s];
        float k[MAX_KEYS] = {0}, v[MAX_KEYS] = {0};
        for (int64_t j = 0; j < tile; j++) {
            v[j] = 9;
            k[tile + j] = score;
            v[tile + j] = (float)(j + 1);
        }
        AttnShape shape = one_head(1, 2 * tile);
        shape.causal = true;
        shape.window = tile;
        double o = (double)(tile + 1) / 2, lse = (double)score + log((double)tile);
        check_head(kernel, name, &shape, k, v, &o, &lse);
    }
}

static void masked_first_tile(const KernelUnderTest *kernel) {
    check_masked_tile(kernel, "masked_first_tile", 0);
}

static void masked_then_very_negative(const KernelUnderTest *kernel) {
    check_masked_tile(kernel, "masked_then_very_negative", -200);
}

// ---- the size of scores -------------------------------------------------------------------------

// Scores `top` and top - 1 with values 1 and 0: O = 1 / (1 + 1/e), LSE = top + log(1 + 1/e).
static void check_two_scores(const KernelUnderTest *kernel, const char *name, float top) {
    AttnShape shape = one_head(1, 2);
    Trial trial;
    trial_begin(&trial, kernel, &shape, "%s", name);
    fill_value(&trial.q, 1);
    memcpy(trial.k.data, (float[]){top, top - 1}, 2 * sizeof(float));
    memcpy(trial.v.data, (float[]){1, 0}, 2 * sizeof(float));
    trial_run_ok(&trial);
    double o = 1 / (1 + exp(-1)), lse = (double)top + log1p(exp(-1));
    trial_check_known(&trial, &o, &lse);
    // The maximum is exact here, so that m + log(l) loses nothing but its own last rounding.
    double unit = 2 * dtype_rounding_error(DTYPE_F32, lse);
    if (kernel->dtype == DTYPE_F32 && !(fabs(tensor_get(&trial.lse, 0) - lse) <= unit)) {
        trial_fail(&trial, "LSE is %.9g, not within one unit in the last place of %.9g",
                   tensor_get(&trial.lse, 0), lse);
    }
    trial_end(&trial);
}

static void very_negative_scores(const KernelUnderTest *kernel) {
    check_two_scores(kernel, "very_negative_scores", -1000);
    check_two_scores(kernel, "very_negative_scores", -60000);
}

static void large_scores(const KernelUnderTest *kernel) {
    check_two_scores(kernel, "large_scores", 1000);
}

// A tile of scores 100 with values 1, then a tile of scores 0 with values 5.
static void max_must_not_fall(const KernelUnderTest *kernel) {
    int64_t sizes[2];
    int size_count = tile_sizes(kernel, 1, sizes);
    for (int s = 0; s < size_count; s++) {
        int64_t tile = sizes[s];
        float k[MAX_KEYS] = {0}, v[MAX_KEYS] = {0};
        for (int64_t j = 0; j < 2 * tile; j++) {
            k[j] = j < tile ? 100 : 0;
            v[j] = j < tile ? 1 : 5;
        }
        AttnShape shape = one_head(1, 2 * tile);
        double o = (1 + 5 * exp(-100)) / (1 + exp(-100)), lse = 100 + log((double)tile);
        check_head(kernel, "max_must_not_fall", &shape, k, v, &o, &lse);
    }
}

// score_j = j ln 2, v_j = j: weights 1, 2, 4, ..., so that every key moves the maximum.
static void rising_ladder(const KernelUnderTest *kernel) {
    int64_t sizes[2];
    int size_count = tile_sizes(kernel, 4, sizes);
    for (int s = 0; s < size_count; s++) {
        int64_t keys = 2 * sizes[s];
        float k[MAX_KEYS] = {0}, v[MAX_KEYS] = {0};
        for (int64_t j = 0; j < keys; j++) {
            k[j] = (float)((double)j * M_LN2);
            v[j] = (float)j;
        }
        AttnShape shape = one_head(1, keys);
        // sum_j 2^j = 2^keys - 1 and sum_j j 2^j = (keys - 2) 2^keys + 2, both over 2^keys.
        double rest = ldexp(1, (int)-keys), count = (double)keys;
        double o = (count - 2 + 2 * rest) / (1 - rest), lse = count * M_LN2 + log1p(-rest);
        check_head(kernel, "rising_ladder", &shape, k, v, &o, &lse);
    }
}

// Weights 3 and 1: scale * q * k is ln 3 for the first key, at 1/sqrt(dim) and at another scale.
static void scale_and_base(const KernelUnderTest *kernel) {
    static const double scales[] = {0.5, 0, 0.25};
    for (int i = 0; i < 3; i++) {
        AttnShape shape = one_head(1, 2);
        shape.dim = 4;
        shape.scale = scales[i];
        Trial trial;
        trial_begin(&trial, kernel, &shape, "scale_and_base");
        fill_value(&trial.q, 0);
        fill_value(&trial.k, 0);
        tensor_set(&trial.q, 0, 2);
        tensor_set(&trial.k, 0, log(3) / (2 * attn_scale(&shape)));
        memcpy(trial.v.data, (float[]){1, 1, 1, 1, 0, 0, 0, 0}, 8 * sizeof(float));
        double lse = log(4);
        trial_run_ok(&trial);
        trial_check_known(&trial, (double[]){0.75, 0.75, 0.75, 0.75}, &lse);
        trial_end(&trial);
    }
}

// ---- masks --------------------------------------------------------------------------------------

// Keys of 0, values first, first + 1, ...; causal with the given window. The answer follows from
// the keys that a row sees, found here by trying each.
static void check_causal(const KernelUnderTest *kernel, const char *name, int64_t len_q,
                         int64_t len_kv, int64_t window, double first) {
    static const float zeros[MAX_KEYS];
    float v[MAX_KEYS];
    double o[MAX_KEYS], lse[MAX_KEYS];
    AttnShape shape = one_head(len_q, len_kv);
    shape.causal = true;
    shape.window = window;
    for (int64_t j = 0; j < len_kv; j++) {
        v[j] = (float)(first + (double)j);
    }
    for (int64_t i = 0; i < len_q; i++) {
        double sum = 0, count = 0;
        for (int64_t j = 0; j < len_kv; j++) {
            int64_t last = i + (len_kv - len_q);
            if (j <= last && (window == 0 || j > last - window)) {
                sum += (double)v[j];
                count++;
            }
        }
        o[i] = count > 0 ? sum / count : 0;
        lse[i] = log(count);
    }
    check_head(kernel, name, &shape, zeros, v, o, lse);
}

static void decode_alignment(const KernelUnderTest *kernel) {
    AttnShape shape = one_head(2, 5);
    shape.causal = true;
    check_head(kernel, "decode_alignment", &shape, (float[5]){0}, (float[]){1, 2, 3, 4, 5},
               (double[]){2.5, 3}, (double[]){log(4), log(5)});
    check_causal(kernel, "decode_alignment", 1, 5, 0, 1);
    int64_t tile = kernel->block_k > 0 && 3 * kernel->block_k <= MAX_KEYS ? kernel->block_k : 8;
    check_causal(kernel, "decode_alignment", tile + 1, 2 * tile + 3, 0, 1);
}

static void rows_without_keys(const KernelUnderTest *kernel) {
    AttnShape shape = one_head(5, 2);
    shape.causal = true;
    check_head(kernel, "rows_without_keys", &shape, (float[2]){0}, (float[]){1, 3},
               (double[]){0, 0, 0, 1, 2}, (double[]){-INFINITY, -INFINITY, -INFINITY, 0, log(2)});
    int64_t rows = kernel->block_q > 0 && 3 * kernel->block_q <= MAX_KEYS ? kernel->block_q : 8;
    check_causal(kernel, "rows_without_keys", 2 * rows + 1, 3, 0, 1);
}

static void window_count(const KernelUnderTest *kernel) {
    AttnShape shape = one_head(8, 8);
    shape.causal = true;
    shape.window = 3;
    double lse[8] = {log(1), log(2), log(3), log(3), log(3), log(3), log(3), log(3)};
    check_head(kernel, "window_count", &shape, (float[8]){0}, (float[]){0, 1, 2, 3, 4, 5, 6, 7},
               (double[]){0, 0.5, 1, 2, 3, 4, 5, 6}, lse);
    int64_t tile = kernel->block_k > 0 && 3 * kernel->block_k <= MAX_KEYS ? kernel->block_k : 8;
    for (int64_t window = tile - 1; window <= tile + 1; window++) {
        check_causal(kernel, "window_count", tile + 2, 2 * tile + 3, window > 0 ? window : 1, 0);
    }
}

static void window_larger_than_s(const KernelUnderTest *kernel) {
    AttnShape shape = one_head(4, 4);
    shape.causal = true;
    shape.window = 100;
    check_head(kernel, "window_larger_than_s", &shape, (float[4]){0}, (float[]){1, 2, 3, 4},
               (double[]){1, 1.5, 2, 2.5}, (double[]){0, log(2), log(3), log(4)});
}

static void window_negative(const KernelUnderTest *kernel) {
    AttnShape legal = one_head(4, 4), illegal = legal;
    illegal.causal = true;
    illegal.window = -1;
    trial_check_refused(kernel, "window_negative", &legal, &illegal, "window");
}

// ---- heads and batches --------------------------------------------------------------------------

static void gqa_map(const KernelUnderTest *kernel) {
    AttnShape shape = one_head(1, 1);
    shape.heads_q = 6;
    shape.heads_kv = 2;
    check_head(kernel, "gqa_map", &shape, (float[2]){0}, (float[]){0, 1},
               (double[]){0, 0, 0, 1, 1, 1}, (double[6]){0});
}

static void empty_dimensions(const KernelUnderTest *kernel) {
    static const int64_t sizes[][3] = {{0, 4, 4}, {1, 0, 4}, {1, 4, 0}};
    for (int i = 0; i < 3; i++) {
        AttnShape shape = one_head(sizes[i][1], sizes[i][2]);
        shape.batch = sizes[i][0];
        Trial trial;
        trial_begin(&trial, kernel, &shape, "empty_dimensions");
        trial_fill(&trial, 1);
        trial_run_ok(&trial);
        trial_check_known(&trial, (double[4]){0},
                          (double[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY});
        trial_end(&trial);
    }
    // Ragged: the first sequence has no key, what lies in its place is not read.
    AttnShape shape = one_head(1, 3);
    shape.batch = 2;
    shape.kv_lens = (int32_t[]){0, 3};
    check_head(kernel, "empty_dimensions", &shape, (float[]){NAN, NAN, NAN, 0, 0, 0},
               (float[]){NAN, NAN, NAN, 1, 2, 3}, (double[]){0, 2}, (double[]){-INFINITY, log(3)});
}

// ---- the table ----------------------------------------------------------------------------------

static const struct {
    const char *name;
    void (*run)(const KernelUnderTest *kernel);
} cases[] = {
    {"tail_leak", tail_leak},
    {"tail_leak_negative", tail_leak_negative},
    {"masked_first_tile", masked_first_tile},
    {"masked_then_very_negative", masked_then_very_negative},
    {"very_negative_scores", very_negative_scores},
    {"max_must_not_fall", max_must_not_fall},
    {"rising_ladder", rising_ladder},
    {"large_scores", large_scores},
    {"last_column", case_last_column},
    {"odd_dims", case_odd_dims},
    {"decode_alignment", decode_alignment},
    {"rows_without_keys", rows_without_keys},
    {"window_count", window_count},
    {"window_larger_than_s", window_larger_than_s},
    {"window_negative", window_negative},
    {"gqa_map", gqa_map},
    {"gqa_reject", case_gqa_reject},
    {"scale_and_base", scale_and_base},
    {"empty_dimensions", empty_dimensions},
    {"many_heads", case_many_heads},
    {"nan_isolation", case_nan_isolation},
    {"repeatable", case_repeatable},
};

size_t kernel_suite_case_count(void) {
    return sizeof cases / sizeof cases[0];
}

const char *kernel_suite_case_name(size_t index) {
    return cases[index].name;
}

void kernel_suite_case(const KernelUnderTest *kernel, const char *name) {
    for (size_t i = 0; i < kernel_suite_case_count(); i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run(kernel);
            return;
        }
    }
    ck_abort_msg("%s: there is no case named %s", kernel->name, name);
}
