// Caches that take turns: what is measured and compared, with kernels that are right, that leave
// something out, or that are wrong in one head.
#include "common/timed_cache.h"

#include "common/reference.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"

#include <math.h>
#include <stdlib.h>

static const Program program = {.name = "test"};
static const Options options = {.seed = 7, .repeats = 3};
static const int32_t lens[] = {9, 0, 4};
static const AttnShape shape = {3, 4, 2, 2, 9, 8, 0, false, 0, lens};

static struct {
    int calls;
    int different; // calls whose K was not that of the call before
    const void *k;
} seen;

// simt's memory is the host's: the oracle's answer, in float32.
static AttnStatus right(const AttnShape *a, DType dtype, const void *q, const void *k,
                        const void *v, void *o, float *lse, const int32_t *kv_lens, int64_t splits,
                        void *workspace, GpuStream stream) {
    const size_t elements = attn_count_q(a), rows = attn_count_lse(a);
    double *wide_o = malloc(elements * sizeof(double)), *wide_lse = malloc(rows * sizeof(double));
    (void)dtype, (void)splits, (void)workspace, (void)stream;
    ck_assert(wide_o != NULL && wide_lse != NULL);
    ck_assert(kv_lens != NULL);
    ASSERT_OK(reference_forward(a, q, k, v, &(ReferenceForward){.o = wide_o, .lse = wide_lse}));
    for (size_t i = 0; i < elements; i++) {
        ((float *)o)[i] = (float)wide_o[i];
    }
    for (size_t i = 0; i < rows; i++) {
        lse[i] = (float)wide_lse[i];
    }
    free(wide_o);
    free(wide_lse);
    seen.different += k != seen.k;
    seen.k = k;
    seen.calls++;
    return ATTN_OK;
}

static AttnStatus no_lse(const AttnShape *a, DType dtype, const void *q, const void *k,
                         const void *v, void *o, float *lse, const int32_t *kv_lens, int64_t splits,
                         void *workspace, GpuStream stream) {
    float *unused = malloc(attn_count_lse(a) * sizeof(float));
    ck_assert_ptr_nonnull(unused);
    (void)lse;
    const AttnStatus status =
        right(a, dtype, q, k, v, o, unused, kv_lens, splits, workspace, stream);
    free(unused);
    return status;
}

static AttnStatus nothing(const AttnShape *a, DType dtype, const void *q, const void *k,
                          const void *v, void *o, float *lse, const int32_t *kv_lens,
                          int64_t splits, void *workspace, GpuStream stream) {
    (void)a, (void)dtype, (void)q, (void)k, (void)v, (void)o, (void)lse, (void)kv_lens;
    (void)splits, (void)workspace, (void)stream;
    return ATTN_OK;
}

// The last head of the last entry is off by 1 %.
static AttnStatus wrong_head(const AttnShape *a, DType dtype, const void *q, const void *k,
                             const void *v, void *o, float *lse, const int32_t *kv_lens,
                             int64_t splits, void *workspace, GpuStream stream) {
    const AttnStatus status = right(a, dtype, q, k, v, o, lse, kv_lens, splits, workspace, stream);
    const size_t elements = attn_count_q(a);
    for (size_t i = elements - (size_t)(a->len_q * a->dim); i < elements; i++) {
        ((float *)o)[i] *= 1.01f;
    }
    return status;
}

// All on one cache, as the programs have it: what one kernel left must not count for the next.
START_TEST(only_right_outputs_pass) {
    TimedCache cache;
    simt_settings()->device = "rtx3090"; // its L2 is small
    timed_cache_make(&cache, &program, &options, GPU_SIMT, &shape, DTYPE_F32);
    seen.calls = seen.different = 0;
    const TimedPoint point = timed_cache_run(&cache, right, 1, NULL);
    ck_assert(point.passed);
    ck_assert_int_ge(seen.calls, options.repeats);
    ck_assert_int_eq(seen.different, seen.calls); // each run has another cache
    ck_assert_double_eq_tol(point.rate * point.seconds.median, 2.0 * 13 * 2 * 8 * 4, 1e-6);
    ck_assert(!timed_cache_run(&cache, no_lse, 1, NULL).passed);
    ck_assert(timed_cache_run(&cache, right, 1, NULL).passed);
    ck_assert(!timed_cache_run(&cache, nothing, 1, NULL).passed);
    ck_assert(!timed_cache_run(&cache, wrong_head, 1, NULL).passed);
    timed_cache_free(&cache);
}
END_TEST

START_TEST(caches_exceed_twice_the_l2) {
    TimedProblem problem;
    GpuProperties properties;
    timed_problem_make(&problem, &program, &options, GPU_SIMT, &shape, DTYPE_F32);
    ASSERT_OK(gpu_properties(GPU_SIMT, &properties));
    const double twice = 2.0 * (double)properties.l2_bytes;
    for (double bytes = 4096; bytes < 4 * twice; bytes *= 3) {
        const int sets = timed_sets(&problem, bytes);
        ck_assert_int_ge(sets, 2);
        ck_assert_double_gt(sets * bytes, twice);
        ck_assert(sets == 2 || (sets - 1) * bytes <= twice);
    }
    ck_assert_int_ge(timed_sets(&problem, 0), 2);
    timed_problem_free(&problem);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("timed_cache");
    TCase *tests = tcase_create("simt");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, only_right_outputs_pass);
    tcase_add_test(tests, caches_exceed_twice_the_l2);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
