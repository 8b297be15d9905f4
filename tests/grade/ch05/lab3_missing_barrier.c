// The suite of lab 3, the missing barrier: values in several thread orders, the tracer's findings,
// and how many barriers there are.
#include "common/compare.h"
#include "exercises/ch05/labs.h"
#include "tests/grade/kernels.h"

#include <string.h>

const char grade_title[] = "find the missing barrier (all or nothing)";
const bool grade_debugging = true;

typedef AttnStatus Entry(const LoaderAttention *attention, GpuStream stream);
static Entry *const builds[] = GPU_BUILDS(loader_attention);

// Heads, T, S and d: whole tiles, one tile, tails, fewer keys than a tile has.
static const int shapes[][4] = {{1, 32, 64, 8}, {2, 33, 40, 5}, {1, 3, 16, 64},
                                {1, 1, 1, 1},   {3, 20, 17, 9}, {1, 64, 33, 16}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

// A tensor of random numbers [1][heads][rows][dim], with a mean.
static Tensor make_tensor(int heads, int rows, int dim, float mean, uint64_t seed) {
    const int64_t dims[] = {1, heads, rows, dim};
    Tensor tensor;
    if (tensor_alloc(&tensor, DTYPE_F32, 4, dims) != ATTN_OK) {
        grade_fail("the suite is out of memory");
    }
    for (size_t e = 0; e < tensor.count; e++) {
        ((float *)tensor.data)[e] = mean + grade_normal(seed, e);
    }
    return tensor;
}

static void expect_shape(const KernelRun *run, const int *sizes) {
    const int heads = sizes[0], len_q = sizes[1], len_kv = sizes[2], dim = sizes[3];
    const AttnShape shape = {.batch = 1,
                             .heads_q = heads,
                             .heads_kv = heads,
                             .len_q = len_q,
                             .len_kv = len_kv,
                             .dim = dim,
                             .scale = 0.5};
    Tensor q = make_tensor(heads, len_q, dim, 0.3f, 1),
           k = make_tensor(heads, len_kv, dim, 0.2f, 2);
    Tensor v = make_tensor(heads, len_kv, dim, 1.0f, 3), o = make_tensor(heads, len_q, dim, 0, 4);
    Tensor lse = make_tensor(heads, len_q, 1, 0, 5);
    Expected expected;
    Comparison result[2];

    grade_case("heads %d, T = %d, S = %d, d = %d; %s", heads, len_q, len_kv, dim, run->order);
    const LoaderAttention a = {grade_device_floats("q", q.data, q.count),
                               grade_device_floats("k", k.data, k.count),
                               grade_device_floats("v", v.data, v.count),
                               grade_device_floats("o", NULL, o.count),
                               grade_device_floats("lse", NULL, lse.count),
                               heads,
                               len_q,
                               len_kv,
                               dim,
                               0.5f};
    expect_launch(builds[run->target](&a, NULL));
    grade_download(o.data, a.o, o.count * sizeof(float));
    grade_download(lse.data, a.lse, lse.count * sizeof(float));
    if (expected_make(&expected, &shape, &q, &k, &v, DTYPE_F32) != ATTN_OK) {
        grade_fail("the oracle failed: %s", attn_last_error());
    }
    lse.rank = 3;
    if (!compare_output(&expected, &o, &lse, 32, &result[0], &result[1])) {
        grade_fail("%s", result[0].failed > 0 ? result[0].message : result[1].message);
    }
    grade_device_free();
    expected_free(&expected);
    Tensor *const used[] = {&q, &k, &v, &o, &lse};
    for (int t = 0; t < 5; t++) {
        tensor_free(used[t]);
    }
}

static void test_every_order(void) {
    for (KernelRun run = {0}; grade_plain_run(&run);) {
        for (int i = 0; i < SHAPES; i++) {
            expect_shape(&run, shapes[i]);
        }
    }
}

static void test_no_finding(void) {
    for (KernelRun run = {0}; grade_traced_run(&run);) {
        for (int i = 0; i < SHAPES; i++) {
            expect_shape(&run, shapes[i]);
        }
    }
}

static void test_few_barriers(void) {
    const int lengths[] = {16, 64, 200};
    for (int i = 0; i < 3; i++) {
        const int sizes[] = {1, 8, lengths[i], 8};
        const int64_t tiles = (lengths[i] + LOADER_KEYS - 1) / LOADER_KEYS;
        KernelRun run = {0};
        grade_plain_run(&run);
        expect_shape(&run, sizes);
        const int64_t most = 2 * tiles + 1;
        if (grade_barriers() > most) {
            grade_fail("%lld tiles: got %lld barriers, expected at most %lld", (long long)tiles,
                       (long long)grade_barriers(), (long long)most);
        }
    }
}

const GradeTest grade_tests[] = {
    {"every_order", 2, false, test_every_order,
     "Between two barriers the threads of a block may run in any order. Suppose that the loading "
     "warp runs ahead of the computing one as far as it can: what does it overwrite?"},
    {"no_finding", 2, false, test_no_finding,
     "A race has two lines: the access that showed it and the one before it. Which barrier would "
     "have to stand between them, so that all threads of the block come to it?"},
    {"few_barriers", 1, false, test_few_barriers,
     "One barrier is missing, and one is enough: all threads come to it once for every tile."},
    {NULL, 0, false, NULL, NULL},
};
