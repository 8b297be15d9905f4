// How the CPU benchmark measures one point: see bench.h.
#include "chapters/ch04_tiling/tiled.h"
#include "common/compare.h"
#include "common/lesson.h"
#include "common/tensor.h"
#include "tests/bench/allocations.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_Q = 64, // of the tiled and the unfused rung
    BLOCK_K = 64,
    MAX_SETS = 16,
    MAX_RUNS = 50,
    CHECKED_ROWS = 16,
};

static const double SECONDS_EACH = 0.7;   // of timed runs of one point
static const double UNCACHED_BYTES = 1e9; // of the inputs of a memory-bound point, all sets

const char *bench_kernel_name(BenchKernel kernel) {
    static const char *const names[] = {"untiled", "tiled", "unfused", "simd"};
    return names[kernel];
}

// Everything that one point needs in memory.
typedef struct Bench {
    const Point *point;
    Tensor q[MAX_SETS], k[MAX_SETS], v[MAX_SETS]; // the same values in every set
    int sets;
    Tensor o, lse;
    float *workspace; // NULL where the kernel takes none
} Bench;

static size_t workspace_floats(const Point *point) {
    switch (point->kernel) {
    case BENCH_UNTILED:
        return untiled_workspace_floats(&point->shape);
    case BENCH_TILED:
        return tiled_workspace_floats(&point->shape, BLOCK_Q, BLOCK_K);
    case BENCH_UNFUSED:
        return tiled_unfused_workspace_floats(&point->shape, BLOCK_Q, BLOCK_K);
    case BENCH_SIMD:
        break;
    }
    return 0;
}

static AttnStatus run_kernel(const Bench *bench, int set) {
    const Point *point = bench->point;
    const void *q = bench->q[set].data, *k = bench->k[set].data, *v = bench->v[set].data;
    switch (point->kernel) {
    case BENCH_UNTILED:
        return untiled_attention(&point->shape, q, k, v, bench->o.data, bench->lse.data,
                                 bench->workspace);
    case BENCH_TILED:
        return tiled_attention(&point->shape, q, k, v, BLOCK_Q, BLOCK_K, bench->o.data,
                               bench->lse.data, bench->workspace, NULL);
    case BENCH_UNFUSED:
        return tiled_unfused_attention(&point->shape, q, k, v, BLOCK_Q, BLOCK_K, bench->o.data,
                                       bench->lse.data, bench->workspace, NULL);
    case BENCH_SIMD:
        break;
    }
    return tiled_simd_attention(&point->shape, point->dtype, q, k, v, bench->o.data,
                                bench->lse.data, point->threads);
}

// A set of inputs: seeded values in the first, copies of them in the others.
static AttnStatus prepare_set(Bench *bench, int set) {
    const AttnShape *shape = &bench->point->shape;
    const DType dtype = bench->point->dtype;
    Tensor *tensors[3] = {&bench->q[set], &bench->k[set], &bench->v[set]};
    AttnStatus status = ATTN_OK;
    for (int i = 0; i < 3 && status == ATTN_OK; i++) {
        status = i == 0 ? tensor_alloc_q(tensors[i], dtype, shape)
                        : tensor_alloc_kv(tensors[i], dtype, shape);
        if (status == ATTN_OK && set == 0) {
            tensor_fill_random(tensors[i], (uint64_t)i + 1, 1.0);
        } else if (status == ATTN_OK) {
            memcpy(tensors[i]->data, (tensors[i] - set)->data,
                   tensors[i]->count * dtype_size(dtype));
        }
    }
    return status;
}

static AttnStatus prepare(Bench *bench, double input_bytes) {
    const Point *point = bench->point;
    const bool decode = point->shape.len_q == 1;
    const double wanted = decode ? ceil(UNCACHED_BYTES / input_bytes) : 3.0;
    const int sets = (int)fmin(fmax(wanted, 3.0), MAX_SETS);
    const size_t floats = workspace_floats(point);
    AttnStatus status = tensor_alloc_q(&bench->o, point->dtype, &point->shape);
    status = status == ATTN_OK ? tensor_alloc_lse(&bench->lse, &point->shape) : status;
    if (status == ATTN_OK && floats > 0) {
        bench->workspace = malloc(floats * sizeof(float));
        if (bench->workspace == NULL) {
            status = attn_fail(ATTN_ERR_MEMORY, "no memory for a workspace");
        }
    }
    for (; bench->sets < sets && status == ATTN_OK; bench->sets++) {
        status = prepare_set(bench, bench->sets);
    }
    return status;
}

static void release(Bench *bench) {
    for (int set = 0; set < MAX_SETS; set++) {
        tensor_free(&bench->q[set]);
        tensor_free(&bench->k[set]);
        tensor_free(&bench->v[set]);
    }
    tensor_free(&bench->o);
    tensor_free(&bench->lse);
    free(bench->workspace);
}

// The last `rows` rows of a tensor [..][row_dims] as a tensor [1][1][rows][dim] of its own.
static AttnStatus last_rows(Tensor *part, const Tensor *whole, int64_t rows, int64_t dim) {
    const int64_t dims[4] = {1, 1, rows, dim};
    const AttnStatus status = tensor_alloc(part, whole->dtype, 4, dims);
    if (status == ATTN_OK) {
        const size_t element = dtype_size(whole->dtype);
        memcpy(part->data, (const char *)whole->data + (whole->count - part->count) * element,
               part->count * element);
    }
    return status;
}

// Bottom-right alignment makes the last rows of a head a problem of their own with all its keys.
static AttnStatus check_last_rows(const Bench *bench, Measured *measured) {
    const Point *point = bench->point;
    AttnShape shape = point->shape;
    shape.batch = shape.heads_q = shape.heads_kv = 1;
    shape.len_q = shape.len_q < CHECKED_ROWS ? shape.len_q : CHECKED_ROWS;
    Tensor q = {0}, k = {0}, v = {0}, o = {0}, lse = {0};
    Expected expected = {0};
    AttnStatus status = last_rows(&q, &bench->q[0], shape.len_q, shape.dim);
    status = status == ATTN_OK ? last_rows(&k, &bench->k[0], shape.len_kv, shape.dim) : status;
    status = status == ATTN_OK ? last_rows(&v, &bench->v[0], shape.len_kv, shape.dim) : status;
    status = status == ATTN_OK ? last_rows(&o, &bench->o, shape.len_q, shape.dim) : status;
    status = status == ATTN_OK ? last_rows(&lse, &bench->lse, shape.len_q, 1) : status;
    status =
        status == ATTN_OK ? expected_make(&expected, &shape, &q, &k, &v, point->dtype) : status;
    if (status == ATTN_OK) {
        Comparison o_result, lse_result;
        measured->right = compare_output(&expected, &o, &lse, 0, &o_result, &lse_result);
        snprintf(measured->message, sizeof(measured->message), "%s%s", o_result.message,
                 lse_result.message);
    }
    expected_free(&expected);
    tensor_free(&q);
    tensor_free(&k);
    tensor_free(&v);
    tensor_free(&o);
    tensor_free(&lse);
    return status;
}

static bool all_finite(const Tensor *tensor) {
    for (size_t i = 0; i < tensor->count; i++) {
        if (!isfinite(tensor_get(tensor, i))) {
            return false;
        }
    }
    return true;
}

static AttnStatus check_output(const Bench *bench, Measured *measured) {
    if (!all_finite(&bench->o) || !all_finite(&bench->lse)) {
        snprintf(measured->message, sizeof(measured->message), "an element is not finite");
        return ATTN_OK;
    }
    if (!tensor_guards_intact(&bench->o) || !tensor_guards_intact(&bench->lse)) {
        snprintf(measured->message, sizeof(measured->message), "written outside O or LSE");
        return ATTN_OK;
    }
    return check_last_rows(bench, measured);
}

static int choose_runs(double seconds, bool quick) {
    const double fit = (quick ? 0.1 : SECONDS_EACH) / seconds;
    const int fewest = quick ? 2 : seconds > 0.5 ? 5 : 10;
    return (int)fmax(fewest, fmin(fit, MAX_RUNS));
}

// Runs once to learn what the kernel allocates and how long it takes, then times it.
static AttnStatus time_point(Bench *bench, bool quick, Measured *measured) {
    const size_t before = allocated_bytes();
    double start = timer_now();
    AttnStatus status = run_kernel(bench, 0);
    const int runs = choose_runs(timer_now() - start, quick);
    measured->workspace =
        workspace_floats(bench->point) * sizeof(float) + (allocated_bytes() - before);
    tensor_poison(&bench->o);
    tensor_poison(&bench->lse);
    double seconds[MAX_RUNS] = {0};
    for (int run = 0; run < runs && status == ATTN_OK; run++) {
        start = timer_now();
        status = run_kernel(bench, (run + 1) % bench->sets);
        seconds[run] = timer_now() - start;
    }
    measured->seconds = time_stats(seconds, runs);
    return status;
}

AttnStatus bench_measure(const Point *point, bool quick, Measured *measured) {
    const AttnShape *shape = &point->shape;
    const double element = (double)dtype_size(point->dtype);
    const double q = element * (double)attn_count_q(shape);
    const double kv = element * (double)attn_count_kv(shape);
    *measured = (Measured){
        .flops = lesson_flops(shape),
        .bytes = 2.0 * q + 2.0 * kv + sizeof(float) * (double)attn_count_lse(shape),
    };
    Bench *bench = calloc(1, sizeof(*bench));
    if (bench == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for a benchmark");
    }
    bench->point = point;
    AttnStatus status = prepare(bench, q + 2.0 * kv);
    status = status == ATTN_OK ? time_point(bench, quick, measured) : status;
    status = status == ATTN_OK ? check_output(bench, measured) : status;
    release(bench);
    free(bench);
    return status;
}
