// Chapter 5's cards: every number of the lesson that is computed rather than measured, and the two
// demonstrations of shared memory.
#include "chapters/ch05_fused_cuda/cards.h"
#include "chapters/ch05_fused_cuda/shared_demos.h"
#include "chapters/ch05_fused_cuda/tier_rates.h"

#include "common/gpu.h"
#include "common/model.h"
#include "common/simt/runtime.h"

#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <stdlib.h>

static const double mebi = 1024 * 1024;

// Within half a unit of the last digit that a card shows.
static void assert_shown(double value, double shown, double unit) {
    ck_assert_msg(fabs(value - shown) <= unit / 2, "%.10g is not %.10g at a resolution of %g",
                  value, shown, unit);
}

// ---- computed -----------------------------------------------------------------------------------

START_TEST(tiers) {
    const CardDevice *device = &card_h200;
    ck_assert_double_eq(card_register_bytes(device), 33 * mebi);        // 132 x 65,536 x 4 B
    assert_shown(card_shared_bytes(device), 29.39 * mebi, 0.01 * mebi); // 132 x 228 KiB
    assert_shown(card_shared_bytes_per_s(device), 33.5e12, 0.1e12);     // 132 x 128 B x 1.98 GHz
    assert_shown(card_shared_bytes_per_s(device) / device->hbm_bytes_per_s, 7.0, 0.1);
    assert_shown(card_fma_flops_per_s(device), 66.9e12, 0.1e12); // 2 x 132 x 128 x 1.98 GHz
    // At 1.7 GHz, which a loaded H200 may run at, shared memory is 6 times HBM.
    CardDevice loaded = *device;
    loaded.clock_hz = 1.7e9;
    assert_shown(card_shared_bytes_per_s(&loaded) / loaded.hbm_bytes_per_s, 6.0, 0.1);
}
END_TEST

START_TEST(score_matrix_and_l2) {
    ck_assert_double_eq(card_score_bytes(2048), 16 * mebi);
    ck_assert_double_eq(card_h200.l2_bytes, 60 * mebi);
    ck_assert_int_eq(card_longest_in_cache(card_h200.l2_bytes, 1), 3965);
    ck_assert_int_eq(card_longest_in_cache(card_h200.l2_bytes, 12), 1144);
    ck_assert_double_le(card_score_bytes(3965), card_h200.l2_bytes);
    ck_assert_double_gt(card_score_bytes(3966), card_h200.l2_bytes);
}
END_TEST

// 12 heads, N = 4,096, d = 64, f32.
START_TEST(large_problem) {
    const double n = 4096, d = 64, f = 12 * 4, hbm = card_h200.hbm_bytes_per_s;
    const double flops = 12 * attention_flops(n, n, d);
    assert_shown(flops, 51.5e9, 0.1e9);
    assert_shown(flops / card_fma_flops_per_s(&card_h200), 770e-6, 1e-6);
    assert_shown(flops / 33e12, 1.56e-3, 0.01e-3); // at PyTorch's 33 TFLOP/s
    const double naive = f * naive_hbm_elements(n, d, false);
    assert_shown(naive / (1024 * mebi), 3.05, 0.01);
    assert_shown(seconds_at(naive, hbm), 682e-6, 1e-6);
    const double compulsory = f * compulsory_elements(n, d);
    ck_assert_double_eq(compulsory, 48 * mebi);
    assert_shown(seconds_at(compulsory, hbm), 10.5e-6, 0.1e-6);
    assert_shown(f * tiled_hbm_elements(n, d, 64, false) / (1024 * mebi), 1.52, 0.01);
    ck_assert_double_eq(f * tiled_hbm_elements(n, d, 64, false), (24 + 1536) * mebi);
}
END_TEST

START_TEST(wavefronts) {
    ck_assert_double_eq(card_fma_per_wavefront(1, 1), 16);
    ck_assert_double_eq(card_fma_per_wavefront(4, 4), 64);
    ck_assert_double_eq(card_fma_per_wavefront(8, 8), 128);
    assert_shown(card_fma_per_wavefront(8, 4), 85.3, 0.1);
    ck_assert_double_eq(card_shared_limit(&card_h200, 16), 0.125);
    ck_assert_double_eq(card_shared_limit(&card_h200, 128), 1);
    ck_assert_double_eq(card_shared_limit(&card_h200, 1000), 1);
    // The busiest bank, as gcd(stride, 32) has it; all lanes at one word are one wavefront.
    for (int stride = 1; stride <= 130; stride++) {
        int gcd = 32;
        while (stride % gcd != 0) {
            gcd /= 2;
        }
        ck_assert_int_eq(card_wavefronts(stride), gcd);
    }
    ck_assert_int_eq(card_wavefronts(0), 1);
}
END_TEST

START_TEST(launch_limits) {
    GpuProperties h200;
    ASSERT_OK(gpu_properties(GPU_SIMT, &h200));
    ck_assert_uint_eq(card_tile_bytes(32, 32, 128), 53248);
    ck_assert_uint_gt(card_tile_bytes(32, 32, 128), h200.shared_per_block);
    ck_assert_uint_lt(card_tile_bytes(32, 32, 128), h200.shared_per_block_optin);
    ck_assert_uint_eq(h200.shared_per_block, 49152);
    ck_assert_int_eq(card_registers(h200.registers_per_multiprocessor, 128, 3), 168);
    ck_assert_int_eq(card_registers(h200.registers_per_multiprocessor, 256, 2), 128);
    ck_assert_int_eq(card_registers(h200.registers_per_multiprocessor, 128, 1), 255);
    ck_assert_double_eq((double)h200.l2_bytes, card_h200.l2_bytes);
    ck_assert_int_eq(h200.multiprocessors, (int)card_h200.multiprocessors);
    ck_assert_double_eq((double)h200.shared_per_multiprocessor, card_h200.shared_bytes);
    // 12 heads of 64 blocks on 132 SMs, one block an SM: 5.8 waves.
    assert_shown(card_waves(12 * 64, h200.multiprocessors, 1), 5.8, 0.1);
}
END_TEST

// ---- the demonstrations -------------------------------------------------------------------------

// Fills x with 0, 1, 2, ...; y stays NaN.
static void make_vectors(GpuTarget target, size_t count, float **x, float **y) {
    float *values = malloc(count * sizeof *values);
    void *memory;
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)i;
    }
    ASSERT_OK(gpu_alloc(target, &memory, "x", count, sizeof(float)));
    *x = memory;
    ASSERT_OK(gpu_alloc(target, &memory, "y", count, sizeof(float)));
    *y = memory;
    ASSERT_OK(gpu_upload(target, *x, values, count * sizeof *values));
    free(values);
}

static void download(GpuTarget target, float *host, const float *device, size_t count) {
    ASSERT_OK(gpu_synchronize(target));
    ASSERT_OK(gpu_download(target, host, device, count * sizeof *host));
}

START_TEST(transposition_and_its_conflicts) {
    static AttnStatus (*const builds[])(const float *, float *, int, GpuStream) =
        GPU_BUILDS(transpose_tile);
    enum { TILE = TRANSPOSE_TILE };
    for (int t = 0; t < gpu_tests.count; t++) {
        const GpuTarget target = gpu_tests.target[t];
        for (int pitch = TILE; pitch <= TILE + 1; pitch++) {
            float *x, *y, got[TILE * TILE];
            make_vectors(target, (size_t)TILE * TILE, &x, &y);
            simt_trace_reset();
            ASSERT_OK(builds[target](x, y, pitch, NULL));
            download(target, got, y, (size_t)TILE * TILE);
            for (int i = 0; i < TILE; i++) {
                for (int j = 0; j < TILE; j++) {
                    ck_assert_float_eq(got[i * TILE + j], (float)(j * TILE + i));
                }
            }
            if (target == GPU_TRACE) {
                const SimtSharedCounts shared = simt_trace_sum_shared();
                ck_assert_uint_eq(shared.store_requests, 32);
                ck_assert_uint_eq(shared.store_wavefronts, 32);
                ck_assert_uint_eq(shared.load_requests, 32);
                ck_assert_uint_eq(shared.load_wavefronts, pitch == TILE ? 1024 : 32);
            }
            gpu_free(target, x);
            gpu_free(target, y);
        }
    }
    ck_assert_int_eq(builds[GPU_SIMT](NULL, NULL, 40, NULL), ATTN_ERR_ARGUMENT);
}
END_TEST

// With its barrier the shift is right in every order; without, it is right forward and wrong in
// reverse, and the trace reports a race whatever the order.
START_TEST(the_missing_barrier_shows) {
    static AttnStatus (*const builds[])(const float *, float *, bool, GpuStream) =
        GPU_BUILDS(shift_by_one);
    for (int order = SIMT_FORWARD; order <= SIMT_RANDOM; order++) {
        simt_settings()->order = (SimtOrder)order;
        for (int barrier = 0; barrier < 2; barrier++) {
            float *x, *y, got[SHIFT_THREADS];
            int wrong = 0;
            make_vectors(GPU_SIMT, SHIFT_THREADS, &x, &y);
            ASSERT_OK(builds[GPU_SIMT](x, y, barrier != 0, NULL));
            download(GPU_SIMT, got, y, SHIFT_THREADS);
            for (int i = 0; i < SHIFT_THREADS; i++) {
                wrong += !(got[i] == (float)(i == 0 ? 0 : i - 1));
            }
            ck_assert_msg((wrong == 0) == (barrier != 0 || order == SIMT_FORWARD),
                          "order %d, barrier %d: %d wrong", order, barrier, wrong);
            if (gpu_tests.count > 1 && gpu_tests.target[1] == GPU_TRACE) {
                const AttnStatus status = builds[GPU_TRACE](x, y, barrier != 0, NULL);
                ck_assert_int_eq(status == ATTN_OK, barrier != 0);
                ck_assert_int_eq(simt_finding()->kind == SIMT_NOTHING, barrier != 0);
            }
            gpu_free(GPU_SIMT, x);
            gpu_free(GPU_SIMT, y);
        }
    }
}
END_TEST

// The kernels that measure tiers compute what they should.
START_TEST(tier_kernels_compute) {
    static AttnStatus (*const fma[])(float *, int, int, GpuStream) = GPU_BUILDS(tier_fma);
    static AttnStatus (*const shared[])(float *, int, int, GpuStream) = GPU_BUILDS(tier_shared);
    static AttnStatus (*const global[])(const float *, int64_t, float *, int, int, GpuStream) =
        GPU_BUILDS(tier_global);
    enum { BLOCKS = 3, COUNT = BLOCKS * TIER_THREADS, QUADS = 1000 };
    for (int t = 0; t < gpu_tests.count; t++) {
        const GpuTarget target = gpu_tests.target[t];
        float *x, *y, got[COUNT];
        make_vectors(target, (size_t)4 * QUADS, &x, &y);
        ASSERT_OK(fma[target](y, BLOCKS, 200, NULL));
        download(target, got, y, COUNT);
        ck_assert_float_eq_tol(got[COUNT - 1], 2.0F * TIER_CHAINS, 1e-5F); // fixed point of x/2 + 1
        ASSERT_OK(shared[target](y, BLOCKS, 40, NULL));
        download(target, got, y, COUNT);
        ck_assert_float_eq(got[0], 160.0F);
        ASSERT_OK(global[target](x, QUADS, y, BLOCKS, 2, NULL));
        download(target, got, y, COUNT);
        double sum = 0;
        for (int i = 0; i < COUNT; i++) {
            sum += (double)got[i];
        }
        ck_assert_double_eq_tol(sum, 2.0 * (4.0 * QUADS - 1) * (4.0 * QUADS) / 2, 1e3);
        gpu_free(target, x);
        gpu_free(target, y);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch05_cards");
    TCase *computed = tcase_create("computed"), *demos = tcase_create("demonstrations");
    suite_add_tcase(suite, computed);
    tcase_set_timeout(computed, 60);
    tcase_add_test(computed, tiers);
    tcase_add_test(computed, score_matrix_and_l2);
    tcase_add_test(computed, large_problem);
    tcase_add_test(computed, wavefronts);
    tcase_add_test(computed, launch_limits);
    suite_add_tcase(suite, demos);
    tcase_set_timeout(demos, 60);
    tcase_add_test(demos, transposition_and_its_conflicts);
    tcase_add_test(demos, the_missing_barrier_shows);
    tcase_add_test(demos, tier_kernels_compute);
    return gpu_tests_run(suite);
}
