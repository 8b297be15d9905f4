// Tiled attention made fast for a CPU: vectors, register blocks, threads.
//
// The loop is that of tiled.c. What is added: a tile's two products run on register blocks, the
// softmax handles vectors of queries with a vectorised exp, and panels of queries are shared out
// over threads. Scores lie transposed, [key][query]: a lane is a query, so that K and V are used as
// they lie in memory, one element broadcast to all lanes, and the maximum of a row needs no look
// across lanes. A problem of few queries (decode) has nothing to fill the lanes with; there they go
// along dim. Where there are fewer pieces of work than threads, the keys are split and the parts
// are merged (ch03).
#include "chapters/ch04_tiling/tiled.h"
#include "common/device.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    BLOCK_K = 128,        // keys of a tile
    PANEL_VECS = 3,       // vectors of queries in a panel
    MAX_PANEL = 3 * 16,   // queries of the widest panel
    FEW_QUERIES = 8,      // up to here a problem counts as one of few queries
    ROW_KEYS = 4,         // keys that one of few queries takes side by side
    MIN_SPLIT = 4 * 128,  // keys of a split, at least
    UNITS_PER_THREAD = 4, // pieces of work that keep the threads evenly busy
};

// The K and V of one head.
typedef struct Head {
    const void *k, *v; // [len_kv][dim] each, stored as `dtype`
    DType dtype;
    int64_t dim;
} Head;

// A panel of queries in work; a query is a lane. PANEL is PANEL_VECS times the lanes of a vector.
typedef struct Panel {
    float *q;                    // [dim][PANEL]     scaled queries
    float *p;                    // [BLOCK_K][PANEL] a tile's scores, then their exponentials
    float *acc;                  // [dim][PANEL]     output, not yet divided
    float *m, *l;                // [PANEL]          running maximum and sum
    KeyRange visible[MAX_PANEL]; // keys each query sees; lanes without a query repeat the last one
    int32_t *begin, *end;        // [PANEL]          the same within the tile at hand
} Panel;

// One of few queries in work; the lanes go along dim.
typedef struct Row {
    float *q;         // [dim] the scaled query
    float *acc;       // [dim] output, not yet divided
    float m, l;       // running maximum and sum
    KeyRange visible; // keys it sees
} Row;

// The keys of a tile that any query of a panel sees, and those that all of them see.
typedef struct TileLimits {
    KeyRange any, all;
} TileLimits;

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// The part of a key range in [first, first + length), counted from `first`; begin <= end.
static KeyRange range_within(KeyRange range, int64_t first, int64_t length) {
    const int64_t begin = min_i64(max_i64(range.begin - first, 0), length);
    return (KeyRange){begin, max_i64(begin, min_i64(range.end - first, length))};
}

// Sets the panel's limits within a tile. any.begin <= all.begin <= all.end <= any.end.
static TileLimits panel_limits(const Panel *panel, int64_t tile, int64_t length, int lanes) {
    TileLimits limits = {{length, 0}, {0, length}};
    for (int r = 0; r < lanes; r++) {
        const KeyRange seen = range_within(panel->visible[r], tile, length);
        panel->begin[r] = (int32_t)seen.begin;
        panel->end[r] = (int32_t)seen.end;
        if (seen.begin < seen.end) {
            limits.any.begin = min_i64(limits.any.begin, seen.begin);
            limits.any.end = max_i64(limits.any.end, seen.end);
        }
        limits.all.begin = max_i64(limits.all.begin, seen.begin);
        limits.all.end = min_i64(limits.all.end, seen.end);
    }
    if (limits.any.begin > limits.any.end) {
        limits.any = (KeyRange){0, 0};
    }
    if (limits.all.begin >= limits.all.end) {
        limits.all = (KeyRange){limits.any.end, limits.any.end};
    }
    return limits;
}

// The loops, once per vector width. The compiler may use the wider instructions inside of TARGET
// functions only; which of them run is decided below, on the machine at hand.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
typedef float Quad __attribute__((vector_size(16)));
#define SIMD_JOIN(name, lanes) name##_##lanes
#define SIMD_NAME(name, lanes) SIMD_JOIN(name, lanes)
#define SIMD(name)             SIMD_NAME(name, LANES)

#if defined(__x86_64__)
#define LANES      16
#define GROUP_ROWS 8
#define TARGET     __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#include "tiled_simd_panel.h"
#include "tiled_simd_row.h"
#define LANES      8
#define GROUP_ROWS 4
#define TARGET     __attribute__((target("avx2,fma")))
#include "tiled_simd_panel.h"
#include "tiled_simd_row.h"
#endif
#define LANES      4
#define GROUP_ROWS 4
#define TARGET
#include "tiled_simd_panel.h"
#include "tiled_simd_row.h"

// A vector width and its loops.
typedef struct Width {
    int lanes;
    void (*panel)(const Panel *panel, const Head *head, KeyRange keys, float *room);
    void (*rows)(Row *rows, int count, const Head *head, KeyRange keys, float *p, float *room);
    void (*exp)(const float *x, float *y, int64_t count);
} Width;

static const Width widths[] = {
#if defined(__x86_64__)
    {16, panel_attention_16, rows_attention_16, exp_all_16},
    {8, panel_attention_8, rows_attention_8, exp_all_8},
#endif
    {4, panel_attention_4, rows_attention_4, exp_all_4},
};

static bool machine_has(int lanes) {
#if defined(__x86_64__)
    switch (lanes) {
    case 16:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case 8:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    default:
        break;
    }
#endif
    return lanes == 4;
}

// The widest loops of at most `lanes` lanes that this machine can run.
static const Width *choose_width(int lanes) {
    const Width *width = widths;
    while (width->lanes > lanes || !machine_has(width->lanes)) {
        width++;
    }
    return width;
}

// A call: the problem, and how it is cut into units of work [batch][heads_q][blocks][splits].
typedef struct Job {
    const AttnShape *shape;
    DType dtype;
    const void *q, *k, *v;
    void *o;
    float *lse;
    const Width *width;
    int64_t block_q, blocks; // queries of a unit, and units that cover len_q
    int64_t splits, chunk;   // parts that the keys are cut into, keys of a part
    float *part_o;           // [rows][splits][dim] the parts' outputs, when splits > 1
    float *part_lse;         // [rows][splits]
} Job;

static float load(const void *data, DType dtype, int64_t index) {
    switch (dtype) {
    case DTYPE_F16:
        return f32_from_f16(((const uint16_t *)data)[index]);
    case DTYPE_BF16:
        return f32_from_bf16(((const uint16_t *)data)[index]);
    default:
        return ((const float *)data)[index];
    }
}

static void store(void *data, DType dtype, int64_t index, float x) {
    switch (dtype) {
    case DTYPE_F16:
        ((uint16_t *)data)[index] = f16_from_f32(x);
        break;
    case DTYPE_BF16:
        ((uint16_t *)data)[index] = bf16_from_f32(x);
        break;
    default:
        ((float *)data)[index] = x;
    }
}

// Divides once and stores a row's result: O and LSE, or its part of them. acc [dim] in steps.
static void finish_row(const Job *job, int64_t row, int64_t split, const float *acc, int64_t step,
                       float m, float l) {
    const int64_t dim = job->shape->dim, part = row * job->splits + split;
    for (int64_t c = 0; c < dim; c++) {
        const float x = l == 0.0F ? 0.0F : acc[c * step] / l; // l = 0: no key was seen
        if (job->splits > 1) {
            job->part_o[part * dim + c] = x;
        } else {
            store(job->o, job->dtype, row * dim + c, x);
        }
    }
    (job->splits > 1 ? job->part_lse : job->lse)[part] = m + logf(l);
}

// Floats of a thread's scratch memory, enough for a panel and for few queries; whole cache lines.
static size_t scratch_floats(int64_t dim) {
    const int64_t floats =
        2 * MAX_PANEL * dim + BLOCK_K * MAX_PANEL + BLOCK_K * dim + 4 * MAX_PANEL;
    return (size_t)(floats + 15) / 16 * 16;
}

// One panel of queries against one part of the keys. `first` is the panel's first row in Q.
static void run_panel(const Job *job, const Head *head, int64_t b, int64_t first, int64_t i,
                      int64_t count, int64_t split, float *scratch) {
    const int64_t dim = head->dim;
    const int lanes = PANEL_VECS * job->width->lanes;
    const float scale = (float)attn_scale(job->shape);
    Panel panel;
    panel.q = scratch;
    panel.acc = panel.q + dim * lanes;
    panel.p = panel.acc + dim * lanes;
    panel.m = panel.p + BLOCK_K * lanes;
    panel.l = panel.m + lanes;
    panel.begin = (int32_t *)(void *)(panel.l + lanes);
    panel.end = panel.begin + lanes;
    float *room = panel.l + 3 * lanes; // [BLOCK_K][dim]
    memset(panel.acc, 0, (size_t)(dim * lanes) * sizeof(float));
    KeyRange keys = {INT64_MAX, 0};
    for (int r = 0; r < lanes; r++) {
        const int64_t row = min_i64(r, count - 1);
        const KeyRange visible = attn_visible_keys(job->shape, b, i + row);
        const KeyRange part = range_within(visible, split * job->chunk, job->chunk);
        panel.visible[r] =
            (KeyRange){split * job->chunk + part.begin, split * job->chunk + part.end};
        if (part.begin < part.end) {
            keys.begin = min_i64(keys.begin, panel.visible[r].begin);
            keys.end = max_i64(keys.end, panel.visible[r].end);
        }
        panel.m[r] = -INFINITY;
        panel.l[r] = 0.0F;
        for (int64_t c = 0; c < dim; c++) {
            panel.q[c * lanes + r] = scale * load(job->q, job->dtype, (first + row) * dim + c);
        }
    }
    job->width->panel(&panel, head, keys, room);
    for (int64_t r = 0; r < count; r++) {
        finish_row(job, first + r, split, panel.acc + r, lanes, panel.m[r], panel.l[r]);
    }
}

// All of the few queries of a head against one part of the keys.
static void run_rows(const Job *job, const Head *head, int64_t b, int64_t first, int64_t split,
                     float *scratch) {
    const int64_t dim = head->dim, count = job->shape->len_q;
    const float scale = (float)attn_scale(job->shape);
    Row rows[FEW_QUERIES];
    float *p = scratch + 2 * FEW_QUERIES * dim; // [FEW_QUERIES][BLOCK_K]
    float *room = p + FEW_QUERIES * BLOCK_K;    // [BLOCK_K][dim]
    KeyRange keys = {INT64_MAX, 0};
    for (int64_t r = 0; r < count; r++) {
        const KeyRange visible = attn_visible_keys(job->shape, b, r);
        const KeyRange part = range_within(visible, split * job->chunk, job->chunk);
        rows[r] = (Row){scratch + 2 * r * dim,
                        scratch + (2 * r + 1) * dim,
                        -INFINITY,
                        0.0F,
                        {split * job->chunk + part.begin, split * job->chunk + part.end}};
        if (part.begin < part.end) {
            keys.begin = min_i64(keys.begin, rows[r].visible.begin);
            keys.end = max_i64(keys.end, rows[r].visible.end);
        }
        for (int64_t c = 0; c < dim; c++) {
            rows[r].q[c] = scale * load(job->q, job->dtype, (first + r) * dim + c);
            rows[r].acc[c] = 0.0F;
        }
    }
    job->width->rows(rows, (int)count, head, keys, p, room);
    for (int64_t r = 0; r < count; r++) {
        finish_row(job, first + r, split, rows[r].acc, 1, rows[r].m, rows[r].l);
    }
}

static void run_unit(const Job *job, int64_t unit, float *scratch) {
    const AttnShape *shape = job->shape;
    const int64_t split = unit % job->splits;
    const int64_t block = unit / job->splits % job->blocks;
    const int64_t q_head = unit / job->splits / job->blocks; // of batch * heads_q
    const int64_t b = q_head / shape->heads_q;
    const int64_t kv_head = b * shape->heads_kv + attn_kv_head(shape, q_head % shape->heads_q);
    const size_t offset = (size_t)(kv_head * shape->len_kv * shape->dim) * dtype_size(job->dtype);
    const Head head = {(const char *)job->k + offset, (const char *)job->v + offset, job->dtype,
                       shape->dim};
    const int64_t i = block * job->block_q, first = q_head * shape->len_q + i;
    if (shape->len_q <= FEW_QUERIES) {
        run_rows(job, &head, b, first, split, scratch);
    } else {
        run_panel(job, &head, b, first, i, min_i64(job->block_q, shape->len_q - i), split, scratch);
    }
}

// Merges the parts of one row, in their order, into the first, and stores O and LSE.
static void merge_row(const Job *job, int64_t row) {
    const int64_t dim = job->shape->dim;
    float *o = job->part_o + row * job->splits * dim, *lse = job->part_lse + row * job->splits;
    for (int64_t s = 1; s < job->splits; s++) {
        merge_partials(dim, o, lse, o + s * dim, lse[s]);
    }
    for (int64_t c = 0; c < dim; c++) {
        store(job->o, job->dtype, row * dim + c, o[c]);
    }
    job->lse[row] = lse[0];
}

// Cuts the problem into units of work, and the keys into parts where units are few.
static void plan_units(Job *job, int threads) {
    const AttnShape *shape = job->shape;
    job->block_q = shape->len_q <= FEW_QUERIES ? shape->len_q : PANEL_VECS * job->width->lanes;
    job->blocks = (shape->len_q + job->block_q - 1) / job->block_q;
    const int64_t units = shape->batch * shape->heads_q * job->blocks;
    const int64_t wanted = (threads * UNITS_PER_THREAD + units - 1) / units;
    job->splits = threads == 1 ? 1 : max_i64(1, min_i64(wanted, shape->len_kv / MIN_SPLIT));
    const int64_t tiles = (shape->len_kv + BLOCK_K - 1) / BLOCK_K;
    job->chunk = max_i64(1, (tiles + job->splits - 1) / job->splits) * BLOCK_K;
}

// Decides on the units of work, replaces *threads (0: all) by what is used, and returns the bytes
// of all scratch memory: each thread's, and the parts of the rows where the keys are split.
static size_t plan_job(Job *job, int *threads) {
    const AttnShape *shape = job->shape;
#ifdef _OPENMP
    *threads = *threads == 0 ? omp_get_max_threads() : *threads;
#else
    *threads = 1;
#endif
    plan_units(job, *threads);
    const int64_t units = shape->batch * shape->heads_q * job->blocks * job->splits;
    *threads = (int)min_i64(*threads, units);
    const size_t parts =
        job->splits > 1 ? attn_count_lse(shape) * (size_t)job->splits * (size_t)(shape->dim + 1)
                        : 0;
    return (scratch_floats(shape->dim) * (size_t)*threads + parts) * sizeof(float);
}

size_t tiled_simd_scratch_bytes(const AttnShape *shape, int threads) {
    Job job = {.shape = shape, .width = choose_width(16)};
    return plan_job(&job, &threads);
}

AttnStatus tiled_simd_attention_lanes(const AttnShape *shape, DType dtype, const void *q,
                                      const void *k, const void *v, void *o, float *lse,
                                      int threads, int lanes) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status != ATTN_OK || attn_count_lse(shape) == 0) {
        return status;
    }
    if (dtype != DTYPE_F32 && dtype != DTYPE_F16 && dtype != DTYPE_BF16) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dtype %s: only f32, f16 and bf16 are stored",
                         dtype_name(dtype));
    }
    if (threads < 0) {
        return attn_fail(ATTN_ERR_ARGUMENT, "threads %d must not be negative (0: all)", threads);
    }
    if ((lanes != 16 && lanes != 8 && lanes != 4) || !machine_has(lanes)) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "lanes %d: this machine has no such vectors", lanes);
    }
    Job job = {shape, dtype, q, k, v, o, lse, choose_width(lanes), 0, 0, 0, 0, NULL, NULL};
    const int64_t rows = (int64_t)attn_count_lse(shape);
    const size_t bytes = plan_job(&job, &threads);
    const int64_t units = shape->batch * shape->heads_q * job.blocks * job.splits;
    const size_t scratch = scratch_floats(shape->dim);
    const size_t parts = job.splits > 1 ? (size_t)(rows * job.splits) : 0;
    float *memory = NULL;
    if (posix_memalign((void **)&memory, 64, bytes) != 0) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for the scratch of %d threads", threads);
    }
    job.part_o = memory + scratch * (size_t)threads;
    job.part_lse = job.part_o + parts * (size_t)shape->dim;

    // Causal: the last blocks have the most keys, and go first so that no thread ends late.
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t unit = units - 1; unit >= 0; unit--) {
#ifdef _OPENMP
        run_unit(&job, unit, memory + scratch * (size_t)omp_get_thread_num());
#else
        run_unit(&job, unit, memory);
#endif
    }
    if (job.splits > 1) {
#pragma omp parallel for num_threads(threads)
        for (int64_t row = 0; row < rows; row++) {
            merge_row(&job, row);
        }
    }
    free(memory);
    return ATTN_OK;
}

AttnStatus tiled_simd_attention(const AttnShape *shape, DType dtype, const void *q, const void *k,
                                const void *v, void *o, float *lse, int threads) {
    return tiled_simd_attention_lanes(shape, dtype, q, k, v, o, lse, threads,
                                      choose_width(16)->lanes);
}

int tiled_simd_lanes(void) {
    return choose_width(16)->lanes;
}

void tiled_simd_exp(int lanes, const float *x, float *y, int64_t count) {
    choose_width(lanes)->exp(x, y, count);
}
