// The kernel that only reads, on every target that is here: it reads every byte, once, and refuses
// what it cannot read; and its timing.
#include "common/read_rate.h"

#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"

#include <stdlib.h>

typedef AttnStatus ReadEntry(const void *data, size_t bytes, unsigned *sums, GpuStream stream);
static ReadEntry *const builds[3] = GPU_BUILDS(read_rate);

// The exclusive or of all sums is that of all words, and the trace counts as many bytes as there
// are, and no sector twice.
START_TEST(reads_every_byte) {
    const GpuTarget target = gpu_tests.target[_i];
    static const size_t sizes[] = {16, 2032, 2048, 2064, 49168, 300000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t words = sizes[s] / sizeof(unsigned);
        unsigned *host = malloc(sizes[s]), *data, *sums, got[READ_RATE_SUMS], wanted = 0, sum = 0;
        ck_assert_ptr_nonnull(host);
        for (size_t i = 0; i < words; i++) {
            host[i] = (unsigned)i * 2654435761U + 12345U;
            wanted ^= host[i];
        }
        ASSERT_OK(gpu_alloc(target, (void **)&data, "data", words, sizeof *data));
        ASSERT_OK(gpu_alloc(target, (void **)&sums, "sums", READ_RATE_SUMS, sizeof *sums));
        ASSERT_OK(gpu_upload(target, data, host, sizes[s]));
        ASSERT_OK(gpu_fill(target, sums, 0, sizeof got, NULL));
        simt_trace_reset();
        ASSERT_OK(builds[target](data, sizes[s], sums, NULL));
        ASSERT_OK(gpu_download(target, got, sums, sizeof got));
        for (int i = 0; i < READ_RATE_SUMS; i++) {
            sum ^= got[i];
        }
        ck_assert_msg(sum == wanted, "%zu bytes: %u, not %u", sizes[s], sum, wanted);
        if (target == GPU_TRACE) {
            ck_assert_uint_eq(simt_trace_sum("data").load_bytes, sizes[s]);
            ck_assert_uint_eq(simt_trace_sum("data").load_sectors, (sizes[s] + 31) / 32);
        }
        gpu_free(target, data);
        gpu_free(target, sums);
        free(host);
    }
}
END_TEST

// Refused on the host, before any launch: host memory will do.
START_TEST(reads_no_other_sizes) {
    ReadEntry *const read = builds[gpu_tests.target[_i]];
    _Alignas(16) unsigned data[8] = {0};
    unsigned sums[READ_RATE_SUMS];
    ASSERT_FAILS(read(NULL, 16, sums, NULL), ATTN_ERR_ARGUMENT, "data is");
    ASSERT_FAILS(read(data, 16, NULL, NULL), ATTN_ERR_ARGUMENT, "sums is");
    ASSERT_FAILS(read(data, 0, sums, NULL), ATTN_ERR_ARGUMENT, "bytes 0");
    ASSERT_FAILS(read(data, 24, sums, NULL), ATTN_ERR_ARGUMENT, "bytes 24");
    ASSERT_FAILS(read(data + 1, 16, sums, NULL), ATTN_ERR_ARGUMENT, "bytes 16");
}
END_TEST

START_TEST(times_its_runs) {
    TimeStats seconds;
    ASSERT_OK(read_rate_measure(gpu_tests.target[_i], 4096, &seconds));
    ck_assert_int_eq(seconds.runs, READ_RATE_RUNS);
    ck_assert(seconds.min > 0 && seconds.min <= seconds.median);
    ASSERT_FAILS(read_rate_measure(gpu_tests.target[_i], 24, &seconds), ATTN_ERR_ARGUMENT,
                 "bytes 24");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("read_rate");
    TCase *tests = tcase_create("read_rate");
    gpu_tests_find();
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, reads_every_byte, 0, gpu_tests.count);
    tcase_add_loop_test(tests, reads_no_other_sizes, 0, gpu_tests.count);
    tcase_add_loop_test(tests, times_its_runs, 0, gpu_tests.count);
    return gpu_tests_run(suite);
}
