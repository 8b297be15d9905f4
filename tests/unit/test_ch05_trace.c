// Chapter 5 traced: requests and sectors of every rung as numbers, the models of the lesson as
// formulas, no finding in any thread order, and where the grids put the heads.
#include "chapters/ch05_fused_cuda/fused.h"

#include "common/device_problem.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAIVE, THREAD_PER_ROW, KEYS_OUTSIDE, TILED, REGISTER_TILED, F16 };
enum { SECTOR = 32, WARP_FOURS = 128 }; // bytes; elements of a warp's request of float4

static const char *kernel_name(int kernel) {
    return kernel == F16 ? "fused_register_tiled_f16" : fused_rungs[kernel].name;
}

static AttnShape square(int64_t len, int64_t dim) {
    return (AttnShape){
        .batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = len, .len_kv = len, .dim = dim};
}

// Traces one call of a rung on a random problem; its outputs are left in *problem.
static void trace(int kernel, const AttnShape *shape, Problem *problem) {
    DeviceProblem device;
    void *workspace = NULL;
    const DType stored = kernel == F16 ? DTYPE_F16 : DTYPE_F32;
    const size_t floats = kernel == F16 ? 0 : fused_rungs[kernel].workspace_floats(shape);
    ASSERT_OK(problem_random(problem, shape, stored, 7));
    ASSERT_OK(device_problem_make(&device, GPU_TRACE, problem, stored));
    ASSERT_OK(gpu_alloc(GPU_TRACE, &workspace, "workspace", floats, sizeof(float)));
    simt_trace_reset();
    const AttnStatus status =
        kernel == F16
            ? fused_f16_builds[GPU_TRACE](shape, device.q, device.k, device.v, device.o, device.lse,
                                          NULL)
            : fused_rungs[kernel].builds[GPU_TRACE](shape, device.q, device.k, device.v, device.o,
                                                    device.lse, workspace, NULL);
    ck_assert_msg(status == ATTN_OK, "%s: %s", kernel_name(kernel), attn_last_error());
    ck_assert_int_eq(simt_finding()->kind, SIMT_NOTHING);
    const int launches = kernel == F16 ? 1 : fused_rungs[kernel].launches;
    ck_assert_int_eq(simt_trace_launches(), shape->len_kv > 0 || kernel > 0 ? launches : 2);
    ASSERT_OK(device_problem_download(&device, problem));
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
}

// ---- numbers ------------------------------------------------------------------------------------

// What the counters of a GPU show: l1tex__t_requests and l1tex__t_sectors of global loads, stores.
typedef struct Counters {
    uint64_t load_requests, load_sectors, store_requests, store_sectors;
} Counters;

static void expect_counters(int kernel, int launch, Counters wanted) {
    const SimtCounts *got = &simt_trace_launch(launch)->total;
    const Counters counted = {got->load_requests, got->load_sectors, got->store_requests,
                              got->store_sectors};
    ck_assert_msg(
        memcmp(&counted, &wanted, sizeof wanted) == 0,
        "%s, launch %d: loads %llu requests, %llu sectors; stores %llu, %llu; expected "
        "%llu, %llu; %llu, %llu",
        kernel_name(kernel), launch, (unsigned long long)counted.load_requests,
        (unsigned long long)counted.load_sectors, (unsigned long long)counted.store_requests,
        (unsigned long long)counted.store_sectors, (unsigned long long)wanted.load_requests,
        (unsigned long long)wanted.load_sectors, (unsigned long long)wanted.store_requests,
        (unsigned long long)wanted.store_sectors);
}

// One head, N = 512, d = 64. LSE adds a store of 1 sector for each row or group of rows.
START_TEST(counters_at_512) {
    const AttnShape shape = square(512, 64);
    Problem problem;
    trace(NAIVE, &shape, &problem);
    expect_counters(NAIVE, 0, (Counters){65536, 262144, 8192, 32768});
    expect_counters(NAIVE, 1, (Counters){24576, 98304, 8192 + 512, 32768 + 512});
    expect_counters(NAIVE, 2, (Counters){65536, 262144, 1024, 4096});
    problem_free(&problem);

    static const Counters fused[] = {
        {1024 + 8 * 2048, 32768 + 8 * 8192, 1024 + 16, 32768 + 64}, // Q, O: a sector an element
        {512 + 16 * 256 + 15 * (256 + 128), 8192 + 16 * 4096 + 15 * (4096 + 128),
         15 * (256 + 128) + 256 + 64, 15 * (4096 + 128) + 4096 + 64},
        {8448, 135168, 256 + 64, 4096 + 64},
        {256 + 8 * 512, 4096 + 8 * 8192, 256 + 256, 4096 + 256},
        {256 + 8 * 512, 2048 + 8 * 4096, 256 + 256, 2048 + 256}, // as many requests, of 8 bytes
    };
    for (int kernel = THREAD_PER_ROW; kernel <= F16; kernel++) {
        trace(kernel, &shape, &problem);
        expect_counters(kernel, 0, fused[kernel - THREAD_PER_ROW]);
        problem_free(&problem);
    }
}
END_TEST

// ---- models -------------------------------------------------------------------------------------

static void expect_bytes(const char *what, uint64_t got, uint64_t elements, size_t element) {
    ck_assert_msg(got == elements * element, "%s: %llu bytes, the model says %llu elements of %zu",
                  what, (unsigned long long)got, (unsigned long long)elements, element);
}

static const uint64_t lens[] = {64, 192}, dims[] = {64, 128};

// Naive, counted once a launch: 4 N^2 + 4 N d elements, and LSE.
START_TEST(naive_is_launch_unique) {
    const uint64_t n = lens[_i % 2], d = dims[_i / 2];
    const AttnShape shape = square((int64_t)n, (int64_t)d);
    Problem problem;
    trace(NAIVE, &shape, &problem);
    const SimtCounts all = simt_trace_sum("");
    expect_bytes("naive", all.launch_unique_load + all.launch_unique_store,
                 4 * n * n + 4 * n * d + n, sizeof(float));
    const SimtCounts scores = simt_trace_sum("workspace");
    expect_bytes("scores", scores.launch_unique_load + scores.launch_unique_store, 4 * n * n,
                 sizeof(float));
    problem_free(&problem);
}
END_TEST

// Queries outside, counted once a block: Q + (N / Bq)(K + V) loaded, O and LSE stored; and the
// sectors are no more than that: no block reads anything twice.
START_TEST(queries_outside_is_block_unique) {
    const uint64_t n = lens[_i % 2], d = dims[_i / 2];
    const AttnShape shape = square((int64_t)n, (int64_t)d);
    for (int kernel = TILED; kernel <= F16; kernel++) {
        int block_q, block_k;
        Problem problem;
        const size_t element = kernel == F16 ? 2 : 4;
        fused_rungs[kernel == F16 ? REGISTER_TILED : kernel].tile((int64_t)d, &block_q, &block_k);
        const uint64_t blocks = (n + (uint64_t)block_q - 1) / (uint64_t)block_q;
        trace(kernel, &shape, &problem);
        const SimtCounts all = simt_trace_sum(""), lse = simt_trace_sum("lse");
        expect_bytes(kernel_name(kernel), all.block_unique_load, n * d + blocks * 2 * n * d,
                     element);
        expect_bytes(kernel_name(kernel), SECTOR * all.load_sectors, n * d + blocks * 2 * n * d,
                     element);
        expect_bytes("O", all.block_unique_store - lse.block_unique_store, n * d, element);
        expect_bytes("LSE", lse.block_unique_store, n, sizeof(float));
        expect_bytes("compulsory reads", all.launch_unique_load, 3 * n * d, element);
        ck_assert_uint_eq(all.load_requests, (n * d + blocks * 2 * n * d) / WARP_FOURS);
        problem_free(&problem);
    }
}
END_TEST

// Keys outside: a block reads its head's K and V once; Q for every tile of keys; O, m and l for
// every tile but the first. What a block touches is each tensor once, so that the sectors have to
// tell.
START_TEST(keys_outside_rereads_the_rows) {
    const uint64_t n = lens[_i % 2], d = dims[_i / 2], tiles = n / 32;
    const AttnShape shape = square((int64_t)n, (int64_t)d);
    Problem problem;
    trace(KEYS_OUTSIDE, &shape, &problem);
    const SimtCounts all = simt_trace_sum("");
    expect_bytes("loads", SECTOR * all.load_sectors,
                 2 * n * d + tiles * n * d + (tiles - 1) * (n * d + 2 * n), sizeof(float));
    expect_bytes("stores", SECTOR * all.store_sectors, (tiles - 1) * (n * d + 2 * n) + n * d + n,
                 sizeof(float));
    expect_bytes("block-unique", all.block_unique_load, 4 * n * d + 2 * n, sizeof(float));
    problem_free(&problem);
}
END_TEST

// A thread for each row: the bytes of the model, block by block, but a sector for every element of
// Q and O.
START_TEST(thread_per_row_is_not_coalesced) {
    const uint64_t n = lens[_i % 2], d = dims[_i / 2], blocks = n / 64;
    const AttnShape shape = square((int64_t)n, (int64_t)d);
    Problem problem;
    trace(THREAD_PER_ROW, &shape, &problem);
    const SimtCounts all = simt_trace_sum("");
    expect_bytes("block-unique", all.block_unique_load, n * d + blocks * 2 * n * d, sizeof(float));
    ck_assert_uint_eq(simt_trace_sum("q").load_sectors, n * d);
    ck_assert_uint_eq(simt_trace_sum("o").store_sectors, n * d);
    expect_bytes("K", SECTOR * simt_trace_sum("k").load_sectors, blocks * n * d, sizeof(float));
    problem_free(&problem);
}
END_TEST

// ---- shared memory ------------------------------------------------------------------------------

// The padding of the tiles does what it is there for: no access takes more wavefronts than its
// bytes need. But a warp of the naive kernels stores two rows of 16 at once, and the padding puts
// the last bank of the one on the first of the other: one wavefront more for each store to K's
// tile, 8 x 8 blocks, 4 tiles and 8 warps.
START_TEST(no_bank_conflicts) {
    const AttnShape shape = square(128, 64);
    for (int kernel = NAIVE; kernel <= F16; kernel++) {
        Problem problem;
        trace(kernel, &shape, &problem);
        const SimtSharedCounts shared = simt_trace_sum_shared();
        const uint64_t more = kernel == NAIVE ? 8 * 8 * 4 * 8 : 0;
        ck_assert_msg(
            shared.load_wavefronts == shared.load_ideal &&
                shared.store_wavefronts == shared.store_ideal + more,
            "%s: loads %llu wavefronts of %llu, stores %llu of %llu", kernel_name(kernel),
            (unsigned long long)shared.load_wavefronts, (unsigned long long)shared.load_ideal,
            (unsigned long long)shared.store_wavefronts, (unsigned long long)shared.store_ideal);
        problem_free(&problem);
    }
}
END_TEST

// ---- findings, grids ----------------------------------------------------------------------------

static const AttnShape awkward[] = {
    {2, 4, 2, 37, 70, 20, 0, false, 0, NULL}, {1, 3, 1, 65, 33, 6, 0.3, false, 0, NULL},
    {1, 1, 1, 5, 129, 96, 0, false, 0, NULL}, {1, 2, 2, 33, 17, 131, 0, false, 0, NULL},
    {1, 1, 1, 3, 0, 8, 0, false, 0, NULL},
};
enum { AWKWARD = sizeof(awkward) / sizeof(awkward[0]) };

// No race, no read of what nobody wrote, nothing out of bounds; and the same bits in every order.
START_TEST(no_findings_in_any_order) {
    for (int kernel = NAIVE; kernel <= F16; kernel++) {
        Problem forward, other;
        simt_settings()->order = SIMT_FORWARD;
        trace(kernel, &awkward[_i], &forward);
        for (int order = SIMT_REVERSE; order <= SIMT_RANDOM; order++) {
            simt_settings()->order = (SimtOrder)order;
            trace(kernel, &awkward[_i], &other);
            ck_assert(memcmp(forward.o.data, other.o.data, forward.o.count * sizeof(float)) == 0);
            ck_assert(memcmp(forward.lse.data, other.lse.data, forward.lse.count * sizeof(float)) ==
                      0);
            problem_free(&other);
        }
        problem_free(&forward);
    }
}
END_TEST

// y and z of a grid end at 65,535; heads, and tiles of queries, lie along x.
START_TEST(heads_lie_along_x) {
    static const unsigned x[][3] = {{24, 3 * 4 * 17 / 4, 24}, {12}, {12}, {12}, {12}, {12}};
    const AttnShape shape = {3, 4, 2, 17, 40, 24, 0, false, 0, NULL};
    for (int kernel = NAIVE; kernel <= F16; kernel++) {
        Problem problem;
        trace(kernel, &shape, &problem);
        for (int launch = 0; launch < simt_trace_launches(); launch++) {
            const SimtLaunchTrace *traced = simt_trace_launch(launch);
            ck_assert_uint_eq(traced->grid[0], x[kernel][launch]);
            ck_assert_uint_le(traced->grid[1], 3);
            ck_assert_uint_eq(traced->grid[2], 1);
        }
        problem_free(&problem);
    }
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch05_trace");
    TCase *tests = tcase_create("ch05_trace");
    tcase_set_timeout(tests, 240);
    char why[256];
    if (gpu_available(GPU_TRACE, why)) {
        tcase_add_test(tests, counters_at_512);
        tcase_add_loop_test(tests, naive_is_launch_unique, 0, 4);
        tcase_add_loop_test(tests, queries_outside_is_block_unique, 0, 4);
        tcase_add_loop_test(tests, keys_outside_rereads_the_rows, 0, 4);
        tcase_add_loop_test(tests, thread_per_row_is_not_coalesced, 0, 4);
        tcase_add_test(tests, no_bank_conflicts);
        tcase_add_loop_test(tests, no_findings_in_any_order, 0, AWKWARD);
        tcase_add_test(tests, heads_lie_along_x);
    } else {
        printf("not traced: %s\n", why);
    }
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
