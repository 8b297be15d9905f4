// Tests of the devices: what a GPU says of itself, what simt's profiles say, and how many blocks of
// a kernel fit on a multiprocessor.
#include "common/gpu.h"

#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

// ---- devices ------------------------------------------------------------------------------------

START_TEST(properties_are_those_of_a_gpu) {
    GpuProperties p;
    ASSERT_OK(gpu_properties(gpu_tests.target[_i], &p));
    ck_assert_int_eq(p.warp_size, 32);
    ck_assert_int_eq(p.max_threads_per_block, 1024);
    ck_assert_int_eq(p.max_block[0], 1024);
    ck_assert_int_eq(p.max_block[1], 1024);
    ck_assert_int_eq(p.max_block[2], 64);
    ck_assert_int_eq(p.max_grid[0], INT32_MAX);
    ck_assert_int_eq(p.max_grid[1], 65535);
    ck_assert_int_eq(p.max_grid[2], 65535);
    ck_assert_int_ge(p.compute_major, 7);
    ck_assert_int_eq(p.registers_per_multiprocessor, 65536);
    ck_assert_uint_eq(p.shared_per_block, 49152);
    // CUDA keeps 1 KB a block for itself.
    ck_assert_uint_eq(p.shared_per_multiprocessor, p.shared_per_block_optin + 1024);
    ck_assert_int_gt(p.multiprocessors, 0);
    ck_assert_uint_gt(p.l2_bytes, 1 << 20);
    ck_assert_uint_gt(p.memory_bytes, (size_t)1 << 30);
    ck_assert_uint_gt(strlen(p.name), 0);
}
END_TEST

// The profile says what the device itself says, where this is one of those devices.
START_TEST(a_profile_equals_its_device) {
    GpuProperties device, profile;
    ASSERT_OK(gpu_properties(GPU_CUDA, &device));
    simt_settings()->device = strstr(device.name, "H200") != NULL   ? "h200"
                              : strstr(device.name, "H100") != NULL ? "h100"
                                                                    : NULL;
    if (simt_settings()->device != NULL) {
        ASSERT_OK(gpu_properties(GPU_SIMT, &profile));
        ck_assert_int_eq(profile.compute_major, device.compute_major);
        ck_assert_int_eq(profile.compute_minor, device.compute_minor);
        ck_assert_int_eq(profile.multiprocessors, device.multiprocessors);
        ck_assert_int_eq(profile.max_threads_per_multiprocessor,
                         device.max_threads_per_multiprocessor);
        ck_assert_int_eq(profile.max_blocks_per_multiprocessor,
                         device.max_blocks_per_multiprocessor);
        ck_assert_uint_eq(profile.shared_per_block_optin, device.shared_per_block_optin);
        ck_assert_uint_eq(profile.shared_per_multiprocessor, device.shared_per_multiprocessor);
        ck_assert_uint_eq(profile.l2_bytes, device.l2_bytes);
    }
    simt_settings()->device = NULL;
}
END_TEST

START_TEST(simt_stands_for_several_devices) {
    static const struct {
        const char *name, *title;
        int major, minor, multiprocessors, threads, blocks;
        size_t opt_in;
        double l2;
    } devices[] = {
        {"h200", "simt as an H200", 9, 0, 132, 2048, 32, 232448, 60},
        {"h100", "simt as an H100", 9, 0, 132, 2048, 32, 232448, 50},
        {"a100", "simt as an A100", 8, 0, 108, 2048, 32, 166912, 40},
        {"rtx4090", "simt as an RTX 4090", 8, 9, 128, 1536, 24, 101376, 72},
        {"rtx3090", "simt as an RTX 3090", 8, 6, 82, 1536, 16, 101376, 6},
    };
    GpuProperties p;
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
        simt_settings()->device = devices[d].name;
        ASSERT_OK(gpu_properties(GPU_SIMT, &p));
        ck_assert_str_eq(p.name, devices[d].title);
        ck_assert_int_eq(p.compute_major, devices[d].major);
        ck_assert_int_eq(p.compute_minor, devices[d].minor);
        ck_assert_int_eq(p.multiprocessors, devices[d].multiprocessors);
        ck_assert_int_eq(p.max_threads_per_multiprocessor, devices[d].threads);
        ck_assert_int_eq(p.max_blocks_per_multiprocessor, devices[d].blocks);
        ck_assert_uint_eq(p.shared_per_block_optin, devices[d].opt_in);
        ck_assert_double_eq((double)p.l2_bytes, devices[d].l2 * 1024 * 1024);
        ck_assert_double_gt(p.bytes_per_s, 0.9e12);
    }
    simt_settings()->device = NULL;
    ASSERT_OK(gpu_properties(GPU_TRACE, &p));
    ck_assert_str_eq(p.name, "simt as an H200");
    simt_settings()->device = "tpu";
    ASSERT_FAILS(gpu_properties(GPU_SIMT, &p), ATTN_ERR_ARGUMENT,
                 "SIMT_DEVICE=tpu: simt knows h200, h100, a100, rtx4090, rtx3090");
    simt_settings()->device = NULL;
}
END_TEST

// ---- occupancy ----------------------------------------------------------------------------------

// Known figures; the rules agree with cuda_occupancy.h.
START_TEST(occupancy_of_known_kernels) {
    static const struct {
        const char *device;
        int threads, registers;
        size_t shared;
        int blocks;
        const char *limit;
    } cases[] = {
        {"h200", 256, 32, 0, 8, "threads"},           // 2048 threads
        {"h200", 128, 64, 0, 8, "registers"},         // 32 warps of 2048 registers
        {"h200", 128, 65, 0, 7, "registers"},         // 72 * 32 = 2304: 7 warps a partition, 28
        {"h200", 128, 128, 0, 4, "registers"},        // 16 warps
        {"h200", 256, 255, 0, 1, "registers"},        // 8 warps of 8192
        {"h200", 512, 255, 0, 0, "registers"},        // one block needs more than there are
        {"h200", 32, 16, 0, 32, "blocks"},            // 64 would fit
        {"h200", 128, 32, 49152, 4, "shared memory"}, // 228 KB / 49 KB
        {"h200", 128, 32, 232448, 1, "shared memory"},
        {"h200", 128, 32, 232449, 0, "shared memory"},
        {"h200", 384, 168, 0, 1, "registers"}, // 5376 a warp: 3 a partition, 12 warps
        {"h200", 1024, 64, 0, 1, "registers"},
        {"h200", 96, 40, 0, 16, "registers"},         // 1280: 12 a partition, 48 warps, 16 blocks
        {"a100", 128, 32, 49152, 3, "shared memory"}, // 164 KB / 49 KB
        {"a100", 128, 32, 166912, 1, "shared memory"},
        {"rtx4090", 1024, 32, 0, 1, "threads"}, // 1536 threads
        {"rtx4090", 32, 16, 0, 24, "blocks"},
        {"rtx3090", 32, 16, 0, 16, "blocks"},
        {"rtx3090", 128, 32, 101376, 1, "shared memory"},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        GpuProperties p;
        simt_settings()->device = cases[c].device;
        ASSERT_OK(gpu_properties(GPU_SIMT, &p));
        const int blocks = gpu_blocks_per_multiprocessor(&p, cases[c].threads, cases[c].registers,
                                                         cases[c].shared);
        ck_assert_msg(blocks == cases[c].blocks, "case %zu: %d blocks, not %d", c, blocks,
                      cases[c].blocks);
        ck_assert_str_eq(
            gpu_occupancy_limit(&p, cases[c].threads, cases[c].registers, cases[c].shared),
            cases[c].limit);
    }
    simt_settings()->device = NULL;
}
END_TEST

START_TEST(occupancy_is_a_share_of_the_warps) {
    GpuProperties p;
    ASSERT_OK(gpu_properties(GPU_SIMT, &p));
    ck_assert_double_eq(gpu_occupancy(&p, 256, 32, 0), 1);
    ck_assert_double_eq(gpu_occupancy(&p, 128, 64, 0), 0.5);
    ck_assert_double_eq(gpu_occupancy(&p, 128, 32, 232448), 4.0 / 64);
    ck_assert_double_eq(gpu_occupancy(&p, 33, 32, 0), 1); // 2 warps, 32 blocks
    ck_assert_double_eq(gpu_occupancy(&p, 512, 255, 0), 0);
    // Arguments that no launch can have.
    ck_assert_int_eq(gpu_blocks_per_multiprocessor(&p, 0, 32, 0), 0);
    ck_assert_int_eq(gpu_blocks_per_multiprocessor(&p, 1025, 32, 0), 0);
    ck_assert_int_eq(gpu_blocks_per_multiprocessor(&p, 128, 256, 0), 0);
    ck_assert_int_eq(gpu_blocks_per_multiprocessor(&p, 128, -1, 0), 0);
    ck_assert_str_eq(gpu_occupancy_limit(&p, 1025, 32, 0), "threads");
    ck_assert_str_eq(gpu_occupancy_limit(&p, 128, 256, 0), "registers");
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("gpu_device");
    TCase *tests = tcase_create("devices");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, properties_are_those_of_a_gpu, 0, gpu_tests.count);
    tcase_add_test(tests, simt_stands_for_several_devices);
    if (gpu_tests.device) {
        tcase_add_test(tests, a_profile_equals_its_device);
    }
    tcase_add_test(tests, occupancy_of_known_kernels);
    tcase_add_test(tests, occupancy_is_a_share_of_the_warps);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
