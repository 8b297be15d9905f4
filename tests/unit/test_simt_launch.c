// Launches: the indices that threads see, fresh shared memory, the limits of a device, and blocks
// over several processes.
#include "common/simt/fiber.h"
#include "tests/unit/simt_places.h"
#include "tests/unit/simt_probe.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool said(const char *text) {
    return strstr(attn_last_error(), text) != NULL;
}

// ---- what a thread sees -------------------------------------------------------------------------

static void check_indices(int place, ProbeSize grid, ProbeSize block) {
    static AttnStatus (*const probe[])(unsigned *, ProbeSize, ProbeSize) = GPU_BUILDS(probe_index);
    const GpuTarget target = simt_test_places[place].target;
    const unsigned threads = block.x * block.y * block.z;
    const size_t all = (size_t)grid.x * grid.y * grid.z * threads * 12;
    unsigned *seen = malloc(all * sizeof *seen);
    unsigned *device_seen = simt_test_array(target, "seen", all, sizeof *seen, NULL);
    ck_assert_ptr_nonnull(seen);
    ck_assert_msg(probe[target](device_seen, grid, block) == ATTN_OK, "%s", attn_last_error());
    simt_test_download(target, seen, device_seen, all * sizeof *seen);
    for (unsigned i = 0; i < all / 12; i++) {
        const unsigned t = i % threads, b = i / threads;
        const unsigned expected[12] = {t % block.x,
                                       t / block.x % block.y,
                                       t / block.x / block.y,
                                       b % grid.x,
                                       b / grid.x % grid.y,
                                       b / grid.x / grid.y,
                                       block.x,
                                       block.y,
                                       block.z,
                                       grid.x,
                                       grid.y,
                                       grid.z};
        ck_assert(memcmp(seen + 12 * (size_t)i, expected, sizeof expected) == 0);
    }
    free(seen);
    gpu_free(target, device_seen);
}

START_TEST(every_thread_has_its_index) {
    if (!simt_test_begin(_i)) {
        return;
    }
    check_indices(_i, (ProbeSize){1, 1, 1}, (ProbeSize){1, 1, 1});
    check_indices(_i, (ProbeSize){3, 2, 2}, (ProbeSize){5, 3, 2});
    check_indices(_i, (ProbeSize){1, 3, 1}, (ProbeSize){2, 1, 64});
    check_indices(_i, (ProbeSize){7, 1, 1}, (ProbeSize){1, 1024, 1});
    check_indices(_i, (ProbeSize){2, 5, 3}, (ProbeSize){33, 1, 1});
}
END_TEST

START_TEST(shared_memory_is_nan_in_every_block) {
    enum { BLOCKS = 5 };
    typedef AttnStatus Fresh(unsigned(*found)[3], int blocks, int dynamic_bytes);
    static Fresh *const builds[3] = GPU_BUILDS(probe_fresh);
    static const int sizes[] = {0, 4, 20, 1000, 48 * 1024 - 1024};
    simt_settings()->uninitialised_ok = true; // to look at it is the point
    simt_settings()->workers = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned(*found)[3] = simt_test_array(GPU_SIMT, "found", BLOCKS, sizeof *found, NULL);
        ck_assert(simt_test_begin(_i));
        ck_assert_msg(builds[simt_test_places[_i].target](found, BLOCKS, sizes[i]) == ATTN_OK, "%s",
                      attn_last_error());
        for (int block = 0; block < BLOCKS; block++) {
            ck_assert_uint_eq(found[block][0], 0xffffffffU);
            ck_assert_uint_eq(found[block][1], 0xffffffffU);
            ck_assert_uint_eq(found[block][2], 0);
        }
        gpu_free(GPU_SIMT, found);
    }
}
END_TEST

// ---- settings -----------------------------------------------------------------------------------

START_TEST(settings_come_from_the_environment) {
    setenv("SIMT_ORDER", "random:77", 1);
    setenv("SIMT_WORKERS", "3", 1);
    setenv("SIMT_TIMEOUT", "1.5", 1);
    setenv("SIMT_DEVICE", "a100", 1);
    const SimtSettings *settings = simt_settings();
    ck_assert_int_eq(settings->order, SIMT_RANDOM);
    ck_assert_uint_eq(settings->seed, 77);
    ck_assert_int_eq(settings->workers, 3);
    ck_assert_double_eq(settings->timeout_s, 1.5);
    ck_assert_double_eq(settings->slice_s, 10);
    ck_assert_str_eq(settings->device, "a100");
    ck_assert(!settings->uninitialised_ok);
}
END_TEST

START_TEST(bad_settings_are_ignored_aloud) {
    static const char *const orders[] = {"backward", "random:", "random:x", "random:-1", ""};
    setenv("SIMT_ORDER", orders[_i], 1);
    setenv("SIMT_WORKERS", "many", 1);
    setenv("SIMT_TIMEOUT", "-1", 1);
    char text[1024] = "";
    FILE *const before = stderr;
    stderr = fmemopen(text, sizeof text, "w");
    const SimtSettings *settings = simt_settings();
    fclose(stderr);
    stderr = before;
    ck_assert_int_eq(settings->order, SIMT_FORWARD);
    ck_assert_int_eq(settings->workers, 0);
    ck_assert_double_eq(settings->timeout_s, 120);
    ck_assert_str_eq(settings->device, "h200");
    ck_assert_ptr_nonnull(strstr(text, "SIMT_ORDER="));
    ck_assert_ptr_nonnull(strstr(text, "SIMT_WORKERS=many is ignored"));
    ck_assert_ptr_nonnull(strstr(text, "SIMT_TIMEOUT=-1 is ignored"));
}
END_TEST

// ---- limits -------------------------------------------------------------------------------------

static void check_refused(AttnStatus status, const char *kernel, const char *text) {
    ck_assert_msg(status == ATTN_ERR_CUDA, "%s: %s", text, attn_status_name(status));
    ck_assert_int_eq(simt_finding()->kind, SIMT_LAUNCH_LIMIT);
    ck_assert_str_eq(simt_finding()->kernel, kernel);
    ck_assert_int_gt(simt_finding()->here.line, 0);
    ck_assert_int_eq(strncmp(simt_finding()->here.file, "simt_probe", 10), 0);
    char place[160];
    snprintf(place, sizeof place, "%s, %s:%d: ", kernel, simt_finding()->here.file,
             simt_finding()->here.line);
    ck_assert_msg(said(place) && said(text) && said("invalid argument"), "\"%s\" has not \"%s\"",
                  attn_last_error(), text);
}

START_TEST(sizes_of_grids_and_blocks_have_limits) {
    const ProbeSize one = {1, 1, 1};
    const char *const kernel = "nothing_kernel";
    check_refused(probe_nothing_simt((ProbeSize){0, 1, 1}, one, 0), kernel, "grid.x is 0");
    check_refused(probe_nothing_simt((ProbeSize){1, 0, 1}, one, 0), kernel, "grid.y is 0");
    check_refused(probe_nothing_simt((ProbeSize){1, 1, 0}, one, 0), kernel, "grid.z is 0");
    check_refused(probe_nothing_simt(one, (ProbeSize){0, 1, 1}, 0), kernel, "block.x is 0");
    check_refused(probe_nothing_simt(one, (ProbeSize){1, 1, 0}, 0), kernel, "block.z is 0");
    check_refused(probe_nothing_simt((ProbeSize){1, 65536, 1}, one, 0), kernel,
                  "grid.y is 65536; it is at most 65535");
    check_refused(probe_nothing_simt((ProbeSize){1, 1, 65536}, one, 0), kernel,
                  "grid.z is 65536; it is at most 65535");
    check_refused(probe_nothing_simt((ProbeSize){2147483648U, 1, 1}, one, 0), kernel,
                  "grid.x is 2147483648; it is at most 2147483647");
    check_refused(probe_nothing_simt(one, (ProbeSize){1025, 1, 1}, 0), kernel,
                  "block.x is 1025; it is at most 1024");
    check_refused(probe_nothing_simt(one, (ProbeSize){1, 1, 65}, 0), kernel,
                  "block.z is 65; it is at most 64");
    check_refused(probe_nothing_simt(one, (ProbeSize){32, 33, 1}, 0), kernel,
                  "32 x 33 x 1 has 1056 threads; it has at most 1024");
    check_refused(probe_narrow_simt(65), "narrow_kernel", "__launch_bounds__ allows 64");
    ck_assert(probe_narrow_simt(64) == ATTN_OK);
    ck_assert(probe_nothing_simt(one, (ProbeSize){1, 16, 64}, 0) == ATTN_OK);
    ck_assert(probe_nothing_simt((ProbeSize){1, 65535, 1}, one, 0) == ATTN_OK);
    ck_assert(simt_finding()->kind == SIMT_NOTHING);
}
END_TEST

// Figures as an H200 gave them: what a launch and cudaFuncSetAttribute take and refuse.
START_TEST(shared_memory_has_limits) {
    const ProbeSize one = {1, 1, 1};
    ck_assert(probe_nothing_simt(one, one, 49152) == ATTN_OK);
    check_refused(probe_nothing_simt(one, one, 49153), "nothing_kernel", "49153 bytes");
    ck_assert(probe_opt_in_simt(232448) == ATTN_OK);
    ck_assert(probe_nothing_simt(one, one, 232448) == ATTN_OK);
    check_refused(probe_nothing_simt(one, one, 232449), "nothing_kernel", "at most 232448");
    check_refused(probe_opt_in_simt(232449), "nothing_kernel", "232449 bytes");
    check_refused(probe_opt_in_simt((size_t)-1), "nothing_kernel", "232448");
    ck_assert(probe_nothing_simt(one, one, 232448) == ATTN_OK); // the refused ones changed nothing
    ck_assert(probe_opt_in_simt(1000) == ATTN_OK);
    check_refused(probe_nothing_simt(one, one, 2000), "nothing_kernel", "at most 1000");
    simt_settings()->device = "no such device";
    ck_assert(probe_nothing_simt(one, one, 0) == ATTN_ERR_ARGUMENT);
    simt_settings()->device = "a100";
    check_refused(probe_opt_in_simt(232448), "nothing_kernel", "166912");
}
END_TEST

START_TEST(static_shared_memory_counts) {
    if (SIMT_ASAN) {
        return; // its redzones make every array larger
    }
    ck_assert(probe_static_simt(8192) == ATTN_OK);
    check_refused(probe_static_simt(8193), "static_kernel", "at most 8192");
    check_refused(probe_static_opt_in_simt(232448), "static_kernel", "40960 of static");
    ck_assert(probe_static_opt_in_simt(232448 - 40960) == ATTN_OK);
    ck_assert(probe_static_simt(232448 - 40960) == ATTN_OK);
    ck_assert(probe_large_simt() == ATTN_ERR_CUDA);
    ck_assert_int_eq(simt_finding()->kind, SIMT_LAUNCH_LIMIT);
    ck_assert_msg(said("65536 bytes") && said("49152"), "%s", attn_last_error());
}
END_TEST

// ---- workers ------------------------------------------------------------------------------------

enum { BLOCKS = 400, THREADS = 128 };

// Runs the sum over all blocks; returns how many of them the host ran itself.
static int run_sum(int workers, int rounds) {
    static float value[BLOCKS * THREADS];
    static char ran[BLOCKS]; // the host's own memory, of which a worker has a copy
    float sum[BLOCKS];
    int count = 0;
    simt_settings()->workers = workers;
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        value[i] = (float)(i * 5 % 97);
    }
    memset(ran, 0, sizeof ran);
    float *device_value = simt_test_array(GPU_SIMT, "value", BLOCKS * THREADS, 4, value);
    float *device_sum = simt_test_array(GPU_SIMT, "sum", BLOCKS, 4, NULL);
    ck_assert_msg(probe_sum_simt(device_value, device_sum, BLOCKS, THREADS, rounds, ran) == ATTN_OK,
                  "%s", attn_last_error());
    simt_test_download(GPU_SIMT, sum, device_sum, sizeof sum);
    for (int block = 0; block < BLOCKS; block++) {
        float expected = 0;
        for (int t = 0; t < THREADS; t++) {
            expected += value[block * THREADS + t];
        }
        ck_assert_float_eq(sum[block], expected);
        count += ran[block];
    }
    gpu_free(GPU_SIMT, device_value);
    gpu_free(GPU_SIMT, device_sum);
    return count;
}

START_TEST(workers_share_the_blocks) {
    ck_assert_int_eq(run_sum(1, 20), BLOCKS);
    const int alone = run_sum(4, 20); // some 100 ms of work
    ck_assert_int_lt(alone, BLOCKS);
    ck_assert_int_ge(alone, 1);
    const int again = run_sum(4, 20);
    ck_assert_int_lt(again, BLOCKS);
    ck_assert_int_ge(run_sum(0, 20), 1); // one per CPU
    ck_assert_int_ge(run_sum(1000, 5), 1);
}
END_TEST

START_TEST(short_launches_do_not_fork) {
    static char ran[2];
    float *value = simt_test_array(GPU_SIMT, "value", 128, 4, (float[128]){0});
    float *sum = simt_test_array(GPU_SIMT, "sum", 2, 4, NULL);
    simt_settings()->workers = 4;
    for (int i = 0; i < 20; i++) { // some are disturbed on a busy machine, not all
        memset(ran, 0, sizeof ran);
        ck_assert(probe_sum_simt(value, sum, 2, 64, 1, ran) == ATTN_OK);
        if (ran[0] && ran[1]) {
            return;
        }
    }
    ck_abort_msg("two blocks of some microseconds were run by two processes");
}
END_TEST

// Blocks 100 to 399 all fail: block 100 is reported, whoever ran which.
START_TEST(the_lowest_block_is_reported) {
    static const float zero[256];
    float *buffer = simt_test_array(GPU_SIMT, "data", 256, 4, zero);
    int *line = simt_test_array(GPU_SIMT, "line", 256, 4, NULL);
    for (int i = 0; i < 10; i++) {
        simt_settings()->workers = 1 + i % 5;
        ck_assert(probe_mistake_simt(MISTAKE_FROM_BLOCK_ON, buffer, 256, line, 400, 64, 100, 7) ==
                  ATTN_ERR_CUDA);
        ck_assert_int_eq(simt_finding()->kind, SIMT_OUT_OF_BOUNDS);
        ck_assert_uint_eq(simt_finding()->here.block[0], 100);
        ck_assert(said("block (100, 0, 0)"));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt_launch");
    TCase *tests = tcase_create("launches");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_thread_has_its_index, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(tests, shared_memory_is_nan_in_every_block, 0, SIMT_TEST_SIMT_PLACES);
    tcase_add_test(tests, settings_come_from_the_environment);
    tcase_add_loop_test(tests, bad_settings_are_ignored_aloud, 0, 5);
    tcase_add_test(tests, sizes_of_grids_and_blocks_have_limits);
    tcase_add_test(tests, shared_memory_has_limits);
    tcase_add_test(tests, static_shared_memory_counts);
    tcase_add_test(tests, workers_share_the_blocks);
    tcase_add_test(tests, short_launches_do_not_fork);
    tcase_add_test(tests, the_lowest_block_is_reported);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
