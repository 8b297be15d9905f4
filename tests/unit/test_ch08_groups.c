// Chapter 8: random decode steps and chunks with groups of 1 to 16, any number of splits,
// workspaces that are used again, the same bits in every run, limits that go by token, and NaN that
// reaches only the rows that see it.
#include "chapters/ch08_gqa/gqa.h"

#include "common/compare.h"
#include "common/device_problem.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/gqa_run.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- random problems ----------------------------------------------------------------------------

enum { MAX_BATCH = 3, SWEEP_PROBLEMS = 30 };

// SplitMix64.
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int64_t draw(uint64_t *state, const int64_t *values, size_t count) {
    return values[next_random(state) % count];
}
#define DRAW(state, ...)                                                                           \
    draw(state, (const int64_t[]){__VA_ARGS__},                                                    \
         sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

// Decode steps and chunks: groups of 1 to 16, windows, ragged lengths, any number of splits.
static AttnShape draw_shape(uint64_t *state, GqaConfig *config, int32_t *kv_lens) {
    AttnShape shape = {.batch = DRAW(state, 1, 2, 3), .heads_kv = DRAW(state, 1, 2, 3)};
    shape.heads_q = shape.heads_kv * DRAW(state, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16);
    shape.len_q = DRAW(state, 1, 1, 1, 2, 3, 4, 5, 7, 8, 17);
    shape.len_kv = DRAW(state, 1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 129, 200, 257, 400, 700);
    shape.dim = config->rung == GQA_MMA ? DRAW(state, 64, 128)
                                        : DRAW(state, 64, 128, 64, 128, 256, 1, 7, 40, 96, 130);
    shape.causal = DRAW(state, 0, 1, 1) == 1;
    shape.window = shape.causal ? DRAW(state, 0, 0, 1, 3, 16, 40, 64, 300) : 0;
    const bool ragged = DRAW(state, 0, 1) == 1;
    for (int64_t b = 0; b < shape.batch; b++) {
        kv_lens[b] = (int32_t)(next_random(state) % (uint64_t)(shape.len_kv + 1));
    }
    shape.kv_lens = ragged ? kv_lens : NULL;
    // At most so many products of a score, and blocks, so that hundreds take seconds.
    while (shape.heads_q * shape.len_q * shape.len_kv * shape.batch > 10000 && shape.batch > 1) {
        shape.batch--;
    }
    while (shape.heads_q * shape.len_q * shape.len_kv > 10000 && shape.len_q > 1) {
        shape.len_q = (shape.len_q + 1) / 2;
    }
    config->stored = config->rung == GQA_MMA ? (DType)DRAW(state, DTYPE_F16, DTYPE_BF16)
                                             : (DType)DRAW(state, DTYPE_F32, DTYPE_F16, DTYPE_BF16);
    config->splits = DRAW(state, 1, 2, 3, 5, 8, 17, 64, 1000);
    const int64_t heads = config->rung == GQA_NAIVE ? shape.heads_q : shape.heads_kv;
    while (config->splits > 3 && config->splits * heads * shape.batch > 40) {
        config->splits /= 2;
    }
    return shape;
}

// Keys and values that no row sees become NaN.
static void spoil_unseen(Problem *problem) {
    const AttnShape *shape = &problem->shape;
    for (size_t e = 0; e < problem->k.count; e++) {
        const int64_t key = (int64_t)e / shape->dim % shape->len_kv;
        const int64_t b = (int64_t)e / (shape->dim * shape->len_kv * shape->heads_kv);
        const KeyRange first = attn_visible_keys(shape, b, 0);
        const KeyRange last = attn_visible_keys(shape, b, shape->len_q - 1);
        if (key < first.begin || key >= last.end) {
            tensor_set(&problem->k, e, NAN);
            tensor_set(&problem->v, e, NAN);
        }
    }
}

static void check_random(const GqaConfig *base, int64_t number) {
    uint64_t state = 1000 * (uint64_t)number + 8;
    int32_t kv_lens[MAX_BATCH];
    GqaConfig config = *base;
    Problem problem;
    const AttnShape shape = draw_shape(&state, &config, kv_lens);
    char what[200];
    snprintf(what, sizeof what,
             "random problem %" PRId64 ": batch %" PRId64 ", heads %" PRId64 "/%" PRId64
             ", T %" PRId64 ", S %" PRId64 ", dim %" PRId64 ", window %" PRId64 "%s%s",
             number, shape.batch, shape.heads_q, shape.heads_kv, shape.len_q, shape.len_kv,
             shape.dim, shape.window, shape.causal ? ", causal" : "",
             shape.kv_lens != NULL ? ", ragged" : "");
    ASSERT_OK(problem_random(&problem, &shape, config.stored, (uint64_t)number));
    spoil_unseen(&problem);
    gqa_check(&config, &problem, what);
    problem_free(&problem);
}

START_TEST(random_groups_and_chunks) {
    for (int64_t i = 0; i < SWEEP_PROBLEMS; i++) {
        check_random(&gqa_configs[_i], _i * SWEEP_PROBLEMS + i);
    }
}
END_TEST

// ---- splits, workspaces, the same bits ----------------------------------------------------------

// Every number of splits from 1 to more than there are keys, or steps of the matrix instruction; as
// many as the model takes, too.
START_TEST(any_number_of_splits) {
    for (int i = 0; i < gqa_config_count; i++) {
        const bool steps = gqa_configs[i].rung == GQA_MMA;
        const int64_t keys = steps ? 7 * SPLIT_KV_MMA_KEYS + 1 : 37, by = steps ? 2 : 5;
        const AttnShape shape = {1, 6, 2, 2, keys, 64, 0, true, 0, NULL};
        GpuProperties properties;
        Problem problem;
        GqaConfig config = gqa_configs[i];
        ASSERT_OK(gpu_properties(config.target, &properties));
        ASSERT_OK(problem_random(&problem, &shape, config.stored, 4));
        for (config.splits = 1; config.splits <= (steps ? 9 : keys + 5); config.splits += by) {
            gqa_check(&config, &problem, "splits");
        }
        config.splits = gqa_rungs[config.rung].splits(&shape, config.stored, &properties);
        gqa_check(&config, &problem, "the model's splits");
        problem_free(&problem);
    }
}
END_TEST

// Launches of one rung with one workspace, never cleared in between.
typedef struct Launches {
    const GqaConfig *config;
    void *workspace;
} Launches;

static void launch_and_check(const Launches *launches, const AttnShape *shape, int64_t splits) {
    const GqaConfig *config = launches->config;
    Problem problem;
    DeviceProblem device;
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(problem_random(&problem, shape, config->stored, 21));
    ASSERT_OK(expected_make(&expected, shape, &problem.q, &problem.k, &problem.v, config->stored));
    ASSERT_OK(device_problem_make(&device, config->target, &problem, config->stored));
    ASSERT_OK(gqa_rungs[config->rung].builds[config->target](
        shape, config->stored, device.q, device.k, device.v, device.o, device.lse, device.kv_lens,
        splits, launches->workspace, NULL));
    ASSERT_OK(device_problem_download(&device, &problem));
    ck_assert_msg(compare_output(&expected, &problem.o, &problem.lse, 0, &o, &lse),
                  "%s: splits %" PRId64 ": %s%s", gqa_config_name(config), splits, o.message,
                  lse.message);
    expected_free(&expected);
    device_problem_free(&device);
    problem_free(&problem);
}

START_TEST(a_workspace_serves_many_launches) {
    static const int32_t lens[] = {70, 9};
    static const AttnShape shapes[] = {
        {2, 8, 2, 1, 530, 64, 0, false, 0, NULL},
        {2, 4, 1, 3, 70, 128, 0, true, 20, lens},
        {1, 9, 3, 5, 400, 64, 0, true, 0, NULL},
    };
    const GqaConfig *config = &gqa_configs[_i];
    const size_t bytes = 1 << 20;
    Launches launches = {config, NULL};
    simt_settings()->order = config->order;
    simt_settings()->workers = 1;
    ASSERT_OK(gpu_alloc(config->target, &launches.workspace, "workspace", bytes, 1));
    ASSERT_OK(split_kv_workspace_clear(config->target, launches.workspace, bytes, NULL));
    for (int run = 0; run < 6; run++) {
        launch_and_check(&launches, &shapes[run % 3], 1 + run * 3);
    }
    gpu_free(config->target, launches.workspace);
}
END_TEST

// The same splits give the same bits: in every run, and in every order of threads.
START_TEST(the_same_bits) {
    const AttnShape shape = {1, 8, 2, 3, 450, 64, 0, true, 0, NULL};
    for (int i = 0; i < gqa_config_count; i++) {
        Problem first, other;
        GqaConfig config = gqa_configs[i];
        config.splits = 3;
        ASSERT_OK(problem_random(&first, &shape, config.stored, 6));
        ASSERT_OK(problem_random(&other, &shape, config.stored, 6));
        ASSERT_OK(gqa_run(&config, &shape, &first));
        for (int order = SIMT_FORWARD; order <= SIMT_RANDOM; order++) {
            config.order = (SimtOrder)order;
            ASSERT_OK(gqa_run(&config, &shape, &other));
            ck_assert(memcmp(first.o.data, other.o.data, first.o.count * sizeof(float)) == 0);
            ck_assert(memcmp(first.lse.data, other.lse.data, first.lse.count * sizeof(float)) == 0);
        }
        problem_free(&first);
        problem_free(&other);
    }
}
END_TEST

// ---- tokens -------------------------------------------------------------------------------------

// Keys of 0 and values j: a row's O is the mean of the numbers of its keys. With a group of 3 and 5
// tokens, a limit that went by packed row would be off from the second row on.
START_TEST(limits_go_by_token) {
    const AttnShape shape = {1, 6, 2, 5, 20, 64, 0, true, 4, NULL};
    for (int i = 0; i < gqa_config_count; i++) {
        Problem problem;
        const GqaConfig *config = &gqa_configs[i];
        ASSERT_OK(problem_random(&problem, &shape, config->stored, 1));
        for (size_t e = 0; e < problem.k.count; e++) {
            tensor_set(&problem.k, e, 0);
            const size_t row = e / 64, value = row % 20 + row / 20 * 100;
            tensor_set(&problem.v, e, (double)value);
        }
        ASSERT_OK(gqa_run(config, &shape, &problem));
        for (int row = 0; row < 6 * 5; row++) {
            const int token = row % 5, kv_head = row / 5 / 3; // keys token + 12 .. token + 15
            const double wanted =
                dtype_round(config->stored, (float)(13.5 + token + 100 * kv_head));
            const double got = tensor_get(&problem.o, (size_t)row * 64);
            ck_assert_msg(fabs(got - wanted) < 1e-4, "%s: row %d: %g, not %g",
                          gqa_config_name(config), row, got, wanted);
            ck_assert(fabs(tensor_get(&problem.lse, (size_t)row) - log(4)) < 1e-6);
        }
        problem_free(&problem);
    }
}
END_TEST

// NaN in values that some rows of a tile see: it reaches those and no other, also in the matrix
// product, where 0 times NaN would be NaN. Tokens 0 to 4 do not see key 36 yet; with a window,
// tokens from 3 on do not see key 27 any more. Neither is a border of a tile.
START_TEST(nan_reaches_only_who_sees_it) {
    static const int64_t keys[] = {36, 27}, columns[] = {7, 9};
    for (int64_t window = 0; window <= 7; window += 7) {
        const AttnShape shape = {1, 4, 1, 9, 40, 64, 0, true, window, NULL};
        for (int i = 0; i < gqa_config_count; i++) {
            Problem problem;
            ASSERT_OK(problem_random(&problem, &shape, gqa_configs[i].stored, 3));
            for (int n = 0; n < 2; n++) {
                tensor_set(&problem.v, (size_t)(keys[n] * 64 + columns[n]), NAN);
            }
            ASSERT_OK(gqa_run(&gqa_configs[i], &shape, &problem));
            for (int row = 0; row < 4 * 9; row++) {
                const KeyRange seen = attn_visible_keys(&shape, 0, row % 9);
                for (int c = 0; c < 64; c++) {
                    bool wanted = false;
                    for (int n = 0; n < 2; n++) {
                        wanted |= c == columns[n] && seen.begin <= keys[n] && keys[n] < seen.end;
                    }
                    const bool is_nan = isnan(tensor_get(&problem.o, (size_t)(row * 64 + c)));
                    ck_assert_msg(is_nan == wanted, "%s: row %d, column %d",
                                  gqa_config_name(&gqa_configs[i]), row, c);
                }
                ck_assert(isfinite(tensor_get(&problem.lse, (size_t)row)));
            }
            problem_free(&problem);
        }
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    gqa_find_configs();
    Suite *suite = suite_create("ch08_groups");
    TCase *tests = tcase_create("ch08_groups");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, random_groups_and_chunks, 0, gqa_config_count);
    tcase_add_test(tests, any_number_of_splits);
    tcase_add_loop_test(tests, a_workspace_serves_many_launches, 0, gqa_config_count);
    tcase_add_test(tests, the_same_bits);
    tcase_add_test(tests, limits_go_by_token);
    tcase_add_test(tests, nan_reaches_only_who_sees_it);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
