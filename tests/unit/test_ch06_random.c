// Chapter 6 with problems as decoding has them: random ones of up to 16 queries, ragged lengths,
// one workspace for launch after launch, and the same bits each time.
#include "tests/unit/ch06_run.h"

#include "common/compare.h"
#include "tests/unit/gpu_targets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static DecodeConfig config_of(int rung, int64_t splits, DType dtype, GpuTarget target) {
    return (DecodeConfig){rung, splits, dtype, target, SIMT_FORWARD};
}

// ---- random problems ----------------------------------------------------------------------------

static uint64_t random_state;

static int64_t draw(int64_t limit) { // SplitMix64
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)limit);
}

enum { PROBLEMS = 300, LOTS = 10, MAX_BATCH = 3 };

static void check_random(int number) {
    static const int64_t dims[] = {64, 128, 256, 64, 128, 8, 46, 72, 96, 200};
    random_state = 1000 + (uint64_t)number;
    AttnShape shape = {.batch = 1 + draw(MAX_BATCH), .heads_kv = 1 + draw(2)};
    int32_t kv_lens[MAX_BATCH];
    char what[64];
    shape.heads_q = shape.heads_kv * (1 + draw(2));
    shape.len_q = draw(2) == 0 ? 1 : 1 + draw(16);
    shape.dim = dims[draw(10)];
    shape.len_kv = 1 + draw(draw(4) == 0 ? 8 : 8192 / shape.dim);
    shape.causal = draw(2) == 0;
    shape.scale = draw(4) == 0 ? 0.7 : 0;
    for (int b = 0; b < MAX_BATCH; b++) {
        kv_lens[b] = (int32_t)draw(shape.len_kv + 1);
    }
    if (draw(2) == 0) {
        shape.kv_lens = kv_lens;
    }
    const int64_t splits = 1 + draw(draw(3) == 0 ? shape.len_kv + 3 : 6);
    GpuTarget target = GPU_SIMT;
    if (gpu_tests.device && number % 2 == 1) {
        target = GPU_CUDA;
    }
    // The last two rungs twice as often.
    static const int rungs[] = {DECODE, UNFUSED, SPLIT, FUSED, SPLIT, FUSED};
    const DecodeConfig config = config_of(rungs[number % 6], splits, (DType)draw(3), target);
    snprintf(what, sizeof what, "random problem %d", number);
    decode_check(&config, &shape, (uint64_t)number, what);
}

START_TEST(random_problems) {
    for (int number = _i; number < PROBLEMS; number += LOTS) {
        check_random(number);
    }
}
END_TEST

// More heads than a workspace has counters for: each is one part.
START_TEST(more_units_than_counters) {
    const AttnShape shape = {DECODE_MAX_UNITS + 1, 1, 1, 1, 2, 2, 0, false, 0, NULL};
    const AttnShape fits = {DECODE_MAX_UNITS, 1, 1, 1, 2, 2, 0, false, 0, NULL};
    const DecodeConfig config =
        config_of(FUSED, 2, DTYPE_F32, gpu_tests.device ? GPU_CUDA : GPU_SIMT);
    const size_t bytes = decode_rungs[FUSED].workspace_bytes(&shape, 2);
    ck_assert_uint_eq(bytes, decode_rungs[FUSED].workspace_bytes(&shape, 1));
    ck_assert_uint_lt(bytes, decode_rungs[FUSED].workspace_bytes(&fits, 2));
    decode_check(&config, &shape, 1, "units");
}
END_TEST

// ---- one workspace, many launches ---------------------------------------------------------------

static void run_in(const DecodeConfig *config, const AttnShape *shape, void *workspace,
                   uint64_t seed) {
    Problem problem;
    DeviceProblem device;
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(problem_random(&problem, shape, config->dtype, seed));
    ASSERT_OK(device_problem_make(&device, config->target, &problem, config->dtype));
    ASSERT_OK(expected_make(&expected, shape, &problem.q, &problem.k, &problem.v, config->dtype));
    for (int run = 0; run < 2; run++) {
        ASSERT_OK(device_problem_poison(&device));
        ASSERT_OK(decode_launch(config, &device, workspace));
        ASSERT_OK(device_problem_download(&device, &problem));
        ck_assert_msg(compare_output(&expected, &problem.o, &problem.lse, 0, &o, &lse),
                      "%s, %" PRId64 " splits, run %d: %s%s", decode_rungs[config->rung].name,
                      config->splits, run, o.message, lse.message);
    }
    expected_free(&expected);
    device_problem_free(&device);
    problem_free(&problem);
}

// The same workspace for launches of all rungs that use one, with other heads, lengths, splits,
// types, one after the other: counters are left as they were found.
START_TEST(a_workspace_serves_launch_after_launch) {
    static const int32_t lens[] = {40, 0, 7};
    static const struct {
        AttnShape shape;
        int64_t splits;
        DType dtype;
    } launches[] = {
        {{1, 2, 2, 1, 70, 64, 0, false, 0, NULL}, 5, DTYPE_F32},
        {{3, 4, 2, 1, 40, 16, 0, false, 0, lens}, 7, DTYPE_BF16},
        {{1, 1, 1, 16, 33, 128, 0, true, 0, NULL}, 3, DTYPE_F16},
        {{1, 1, 1, 1, 200, 8, 0, true, 0, NULL}, 100, DTYPE_F32},
        {{2, 8, 8, 5, 9, 8, 0, true, 0, NULL}, 2, DTYPE_F32},
        {{1, 2, 2, 1, 70, 64, 0, false, 0, NULL}, 6, DTYPE_F32},
    };
    enum { LAUNCHES = sizeof launches / sizeof launches[0] };
    for (int t = 0; t < gpu_tests.count; t++) {
        const GpuTarget target = gpu_tests.target[t];
        void *workspace;
        size_t bytes = 0;
        for (int rung = UNFUSED; rung <= FUSED; rung++) {
            for (int i = 0; i < LAUNCHES; i++) {
                const size_t needed =
                    decode_rungs[rung].workspace_bytes(&launches[i].shape, launches[i].splits);
                bytes = needed > bytes ? needed : bytes;
            }
        }
        ASSERT_OK(gpu_alloc(target, &workspace, "workspace", bytes, 1));
        ASSERT_OK(decode_workspace_clear(target, workspace, bytes, NULL));
        for (int i = 0; i < LAUNCHES; i++) {
            for (int rung = UNFUSED; rung <= FUSED; rung++) {
                const DecodeConfig config =
                    config_of(rung, launches[i].splits, launches[i].dtype, target);
                run_in(&config, &launches[i].shape, workspace, (uint64_t)i);
            }
        }
        ASSERT_OK(gpu_check_guard(target, workspace));
        gpu_free(target, workspace);
    }
}
END_TEST

// ---- the same bits ------------------------------------------------------------------------------

// Twenty launches give the same bits, in one thread order after the other. Whichever block comes
// last, parts are merged in the order of their numbers.
START_TEST(launches_agree_to_the_bit) {
    static const int32_t lens[] = {150, 31};
    const AttnShape shape = {2, 2, 2, 6, 150, 64, 0, true, 0, lens};
    for (int t = 0; t < gpu_tests.count; t++) {
        DecodeConfig config = config_of(_i, 7, DTYPE_BF16, gpu_tests.target[t]);
        if (config.target == GPU_TRACE) {
            continue; // the same code as GPU_SIMT
        }
        const size_t o_bytes = attn_count_q(&shape) * 2, lse_bytes = attn_count_lse(&shape) * 4;
        char *first = malloc(o_bytes + lse_bytes), *now = malloc(o_bytes + lse_bytes);
        Problem problem;
        DeviceProblem device;
        ASSERT_OK(problem_random(&problem, &shape, config.dtype, 5));
        ASSERT_OK(device_problem_make(&device, config.target, &problem, config.dtype));
        void *workspace = decode_workspace(&config, &shape);
        for (int run = 0; run < 20; run++) {
            config.order = (SimtOrder)(run % 3);
            ASSERT_OK(device_problem_poison(&device));
            ASSERT_OK(decode_launch(&config, &device, workspace));
            ASSERT_OK(gpu_download(config.target, now, device.o, o_bytes));
            ASSERT_OK(gpu_download(config.target, now + o_bytes, device.lse, lse_bytes));
            if (run == 0) {
                memcpy(first, now, o_bytes + lse_bytes);
            }
            ck_assert_msg(memcmp(first, now, o_bytes + lse_bytes) == 0, "%s: run %d differs",
                          decode_rungs[_i].name, run);
        }
        free(first);
        free(now);
        gpu_free(config.target, workspace);
        device_problem_free(&device);
        problem_free(&problem);
    }
}
END_TEST

// ---- lengths of their own -----------------------------------------------------------------------

START_TEST(ragged_lengths) {
    static const int32_t lens[] = {0, 1, 130, 64, 65};
    for (int t = 0; t < gpu_tests.count; t++) {
        for (int64_t splits = 1; splits <= 9; splits += 4) {
            const DecodeConfig config = config_of(_i, splits, DTYPE_F32, gpu_tests.target[t]);
            const AttnShape one = {5, 2, 1, 1, 130, 16, 0, false, 0, lens};
            AttnShape chunk = one;
            chunk.len_q = 7;
            chunk.causal = true;
            decode_check(&config, &one, 71, "ragged");
            decode_check(&config, &chunk, 72, "ragged, causal");
        }
    }
}
END_TEST

// kv_lens of the device alone count, and are clamped: -5 is 0, 1000 is len_kv.
START_TEST(lengths_are_clamped) {
    static const int32_t asked[] = {-5, 1000, 9}, clamped[] = {0, 20, 9};
    const AttnShape shape = {3, 1, 1, 1, 20, 8, 0, false, 0, NULL};
    AttnShape ragged = shape;
    ragged.kv_lens = clamped;
    const DecodeConfig config = config_of(_i, 4, DTYPE_F32, GPU_SIMT);
    Problem problem;
    DeviceProblem device;
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(problem_random(&problem, &shape, DTYPE_F32, 8));
    ASSERT_OK(expected_make(&expected, &ragged, &problem.q, &problem.k, &problem.v, DTYPE_F32));
    ASSERT_OK(device_problem_make(&device, GPU_SIMT, &problem, DTYPE_F32));
    ASSERT_OK(gpu_alloc(GPU_SIMT, (void **)&device.kv_lens, "kv_lens", 3, sizeof(int32_t)));
    ASSERT_OK(gpu_upload(GPU_SIMT, device.kv_lens, asked, sizeof asked));
    void *workspace = decode_workspace(&config, &shape);
    ASSERT_OK(decode_launch(&config, &device, workspace));
    ASSERT_OK(device_problem_download(&device, &problem));
    ck_assert_msg(compare_output(&expected, &problem.o, &problem.lse, 0, &o, &lse), "%s%s",
                  o.message, lse.message);
    gpu_free(GPU_SIMT, workspace);
    expected_free(&expected);
    device_problem_free(&device);
    problem_free(&problem);
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch06 random");
    TCase *tests = tcase_create("ch06 random");
    tcase_set_timeout(tests, 400);
    tcase_add_loop_test(tests, random_problems, 0, LOTS);
    tcase_add_test(tests, more_units_than_counters);
    tcase_add_test(tests, a_workspace_serves_launch_after_launch);
    tcase_add_loop_test(tests, launches_agree_to_the_bit, 0, DECODE_RUNGS);
    tcase_add_loop_test(tests, ragged_lengths, 0, DECODE_RUNGS);
    tcase_add_loop_test(tests, lengths_are_clamped, 0, DECODE_RUNGS);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
