// ./ch08, time on cuda: the rungs on the problems of the lesson, by the number of query heads to a
// KV head, and for a chunk of queries, beside the rate of a kernel that only reads; heads of every
// last output are compared with the oracle. On simt, in their place, what carries over.
#include "chapters/ch08_gqa/gqa_read.h"
#include "chapters/ch08_gqa/show.h"

#include "common/model.h"

#include <math.h>
#include <stdio.h>

// Elements of the block of random numbers that fills a cache again and again: no multiple of any
// row, head or entry, so that these differ.
enum { ALIGNMENT = 256, FILL = (1 << 22) + 296, CHECKED_HEADS = 4, READ_RUNS = 20 };

// ---- the ceiling --------------------------------------------------------------------------------

typedef struct ReadRun {
    const void *data;
    size_t bytes;
    unsigned *sums;
} ReadRun;

static AttnStatus run_read(void *context, int run_number) {
    static AttnStatus (*const builds[])(const void *, size_t, unsigned *, GpuStream) =
        GPU_BUILDS(gqa_read);
    const ReadRun *run = context;
    (void)run_number;
    return builds[GPU_CUDA](run->data, run->bytes, run->sums, NULL);
}

// Bytes/s of gqa_read over 2 GiB.
static double read_rate(const Show *show) {
    const size_t bytes = (size_t)1 << 31;
    void *data, *sums;
    TimeStats seconds;
    lesson_require(show->program, gpu_alloc(show->target, &data, "data", bytes, 1));
    lesson_require(show->program, gpu_fill(show->target, data, 0, bytes, NULL));
    lesson_require(show->program,
                   gpu_alloc(show->target, &sums, "sums", GQA_READ_SUMS, sizeof(unsigned)));
    ReadRun run = {data, bytes, sums};
    lesson_require(show->program, gpu_measure(show->target, run_read, &run, READ_RUNS, &seconds));
    gpu_free(show->target, data);
    gpu_free(show->target, sums);
    return (double)bytes / seconds.median;
}

// ---- caches that take turns ---------------------------------------------------------------------

// A problem in device memory with several caches, so that none is still in the L2 when its turn
// comes again.
typedef struct TimedCache {
    const Show *show;
    AttnShape shape;
    DType dtype;
    int sets;            // enough to exceed twice the L2, at least two
    size_t tensor_bytes; // from K to V, and from V to the next set's K
    unsigned char *kv;   // [sets][2][tensor_bytes]
    void *q, *o;         // one for all sets
    float *lse;
    // of the run under way
    int rung;
    int64_t splits;
    void *workspace;
    int last; // the set that was read last
} TimedCache;

typedef struct TimedPoint {
    TimeStats seconds;
    double rate; // bytes/s of K and V in use, by the median
    bool passed; // sampled heads of the last run's output
} TimedPoint;

// Uploads a block of random numbers, rounded to the storage type, over and over.
static void fill(const Show *show, unsigned char *memory, size_t bytes, DType dtype) {
    Tensor block;
    const int64_t dims[] = {1, 1, 1, FILL};
    lesson_require(show->program, tensor_alloc(&block, dtype, 4, dims));
    tensor_fill_random(&block, show->options->seed, 1.0);
    const size_t step = block.count * dtype_size(dtype);
    for (size_t done = 0; done < bytes; done += step) {
        const size_t part = bytes - done < step ? bytes - done : step;
        lesson_require(show->program, gpu_upload(show->target, memory + done, block.data, part));
    }
    tensor_free(&block);
}

static void *allocate(const Show *show, const char *name, size_t count, size_t element) {
    void *memory;
    lesson_require(show->program, gpu_alloc(show->target, &memory, name, count, element));
    return memory;
}

static void make_cache(TimedCache *cache, const Show *show, const AttnShape *shape, DType dtype) {
    const size_t element = dtype_size(dtype), bytes = attn_count_kv(shape) * element;
    const double twice = 2.0 * (double)show->properties.l2_bytes;
    *cache = (TimedCache){.show = show, .shape = *shape, .dtype = dtype};
    cache->tensor_bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    cache->sets = 1 + (int)(twice / (2.0 * (double)cache->tensor_bytes));
    cache->sets = cache->sets < 2 ? 2 : cache->sets;
    const size_t all = (size_t)cache->sets * 2 * cache->tensor_bytes;
    cache->kv = allocate(show, "k and v", all, 1);
    fill(show, cache->kv, all, dtype);
    cache->q = allocate(show, "q", attn_count_q(shape), element);
    fill(show, cache->q, attn_count_q(shape) * element, dtype);
    cache->o = allocate(show, "o", attn_count_q(shape), element);
    cache->lse = allocate(show, "lse", attn_count_lse(shape), sizeof *cache->lse);
}

static void free_cache(TimedCache *cache) {
    void *const buffers[] = {cache->kv, cache->q, cache->o, cache->lse};
    for (size_t b = 0; b < sizeof buffers / sizeof buffers[0]; b++) {
        gpu_free(cache->show->target, buffers[b]);
    }
}

// K of a set; its V is tensor_bytes behind.
static unsigned char *set_of(const TimedCache *cache, int set) {
    return cache->kv + (size_t)set * 2 * cache->tensor_bytes;
}

static AttnStatus timed_run(void *context, int run) {
    TimedCache *cache = context;
    cache->last = run % cache->sets;
    const unsigned char *k = set_of(cache, cache->last);
    return gqa_rungs[cache->rung].builds[GPU_CUDA](&cache->shape, cache->dtype, cache->q, k,
                                                   k + cache->tensor_bytes, cache->o, cache->lse,
                                                   NULL, cache->splits, cache->workspace, NULL);
}

// `rows` rows from row `first` on of a tensor in device memory, as [1][1][rows][dim].
static Tensor slice(const Show *show, const void *memory, int64_t first, int64_t rows, int64_t dim,
                    DType dtype) {
    Tensor part;
    const int64_t dims[] = {1, 1, rows, dim};
    const size_t element = dtype_size(dtype);
    lesson_require(show->program, tensor_alloc(&part, dtype, 4, dims));
    lesson_require(show->program,
                   gpu_download(show->target, part.data,
                                (const char *)memory + (size_t)(first * dim) * element,
                                part.count * element));
    return part;
}

// Compares head `head`, counted over the batch, of the last output with the oracle.
static bool check_head(const TimedCache *cache, int64_t head) {
    const Show *show = cache->show;
    const AttnShape *shape = &cache->shape;
    const int64_t group = shape->heads_q / shape->heads_kv, dim = shape->dim, keys = shape->len_kv;
    const unsigned char *k = set_of(cache, cache->last);
    const int64_t rows = shape->len_q, kv_row = head / group * keys;
    AttnShape small = *shape;
    small.batch = small.heads_q = small.heads_kv = 1;
    Tensor tensors[] = {
        slice(show, cache->q, head * rows, rows, dim, cache->dtype),
        slice(show, k, kv_row, keys, dim, cache->dtype),
        slice(show, k + cache->tensor_bytes, kv_row, keys, dim, cache->dtype),
        slice(show, cache->o, head * rows, rows, dim, cache->dtype),
        slice(show, cache->lse, head * rows, rows, 1, DTYPE_F32),
    };
    Expected expected;
    lesson_require(show->program, expected_make(&expected, &small, &tensors[0], &tensors[1],
                                                &tensors[2], cache->dtype));
    const bool passed = compare_output(&expected, &tensors[3], &tensors[4], 0, NULL, NULL);
    expected_free(&expected);
    for (int t = 0; t < 5; t++) {
        tensor_free(&tensors[t]);
    }
    return passed;
}

// Times a rung and compares heads of its last output with the oracle.
static TimedPoint run_cache(TimedCache *cache, int rung) {
    const Show *show = cache->show;
    const AttnShape *shape = &cache->shape;
    const int64_t heads = shape->batch * shape->heads_q;
    const size_t o_bytes = attn_count_q(shape) * dtype_size(cache->dtype);
    TimedPoint point = {.passed = true};
    cache->rung = rung;
    cache->splits = splits_for(show, rung, shape, cache->dtype);
    lesson_require(show->program,
                   rung_workspace(rung, show->target, shape, cache->splits, &cache->workspace));
    lesson_require(show->program, gpu_fill(show->target, cache->o, 0xFF, o_bytes, NULL));
    lesson_require(show->program, gpu_measure(show->target, timed_run, cache,
                                              show->options->repeats, &point.seconds));
    lesson_require(show->program, gpu_synchronize(show->target));
    for (int i = 0; i < CHECKED_HEADS && i < heads; i++) { // the first, the last, and between
        const int64_t head = heads > CHECKED_HEADS ? i * (heads - 1) / (CHECKED_HEADS - 1) : i;
        point.passed = check_head(cache, head) && point.passed;
    }
    gpu_free(show->target, cache->workspace);
    point.rate = gqa_cache_bytes(shape, (double)dtype_size(cache->dtype)) / point.seconds.median;
    return point;
}

// ---- times --------------------------------------------------------------------------------------

// The rungs on one problem. Rows of the CSV where it is one of the problems by g.
static bool time_problem(const Show *show, Table *table, const AttnShape *shape, DType dtype,
                         double reads, bool by_group) {
    char label[SHOW_LABEL], time[64], count[32];
    double naive = 0;
    bool passed = true;
    TimedCache cache;
    problem_label(label, shape);
    make_cache(&cache, show, shape, dtype);
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        if (!rung_takes(rung, shape, dtype)) {
            continue;
        }
        report_progress("timing", rung, GQA_RUNGS);
        const TimedPoint point = run_cache(&cache, rung);
        const bool plausible = rate_is_plausible(point.rate, reads);
        naive = rung == GQA_NAIVE ? point.seconds.median : naive;
        table_row(table, "%s|%s|%lld|%s|%s|%.0f %%|%.2f|%s", rung == 0 ? label : "",
                  gqa_rungs[rung].name, (long long)cache.splits,
                  lesson_time_text(time, &point.seconds),
                  plausible ? format_count(count, point.rate / 1e9) : "measurement error",
                  plausible ? 100 * point.rate / reads : 0.0, naive / point.seconds.median,
                  point.passed ? "right" : "WRONG");
        if (by_group && plausible) {
            csv_row(show->csv, "cuda,%s,%lld,%.6g,%.6g,%.6g", gqa_rungs[rung].name,
                    (long long)(shape->heads_q / shape->heads_kv), reads / point.rate,
                    point.seconds.p10 / point.seconds.median * reads / point.rate,
                    point.seconds.p90 / point.seconds.median * reads / point.rate);
        }
        passed = point.passed && passed;
    }
    report_progress("timing", 0, 0);
    free_cache(&cache);
    return passed;
}

static const char time_headings[] =
    "problem|rung|splits|median [p10, p90]|GB/s|reads|x naive|output";

bool show_times(const Show *show) {
    const Options *options = show->options;
    const DType dtype =
        options->dtype == DTYPE_F32 && !options->shape_given ? DTYPE_BF16 : options->dtype;
    bool passed = true;
    Table table;
    char a[32];
    report_section("Time on cuda");
    if (options->shape_given && lesson_flops(&options->shape) == 0) {
        report_text("Not measured: no query of this problem sees a key.");
        return true;
    }
    const double reads = read_rate(show);
    table_begin(&table, time_headings);
    if (options->shape_given) {
        passed = time_problem(show, &table, &options->shape, dtype, reads, false);
    }
    for (int p = 0; p < SHOW_PROBLEMS && !options->shape_given && !options->quick; p++) {
        passed = time_problem(show, &table, &show_problems[p], dtype, reads, false) && passed;
    }
    if (!options->shape_given) {
        AttnShape chunk = show_problems[1];
        chunk.len_q = 4;
        chunk.causal = true;
        passed = time_problem(show, &table, &chunk, dtype, reads, false) && passed;
    }
    table_print(&table);
    if (!options->shape_given) {
        report_section("Time by the query heads of a KV head, g = 1 to 32");
        table_begin(&table, time_headings);
        for (int i = 0; i < SHOW_GROUPS; i += options->quick ? 3 : 1) {
            const AttnShape shape = show_group_problem(i);
            passed = time_problem(show, &table, &shape, dtype, reads, true) && passed;
        }
        table_print(&table);
    }
    report_text("%d timed runs each, by events, over caches that take turns and together exceed "
                "twice the L2. GB/s: K and V once, by the median; \"reads\" is its share of "
                "gqa_read's rate over 2 GiB, %s, measured here. Of each last output some heads "
                "were compared with the oracle.",
                options->repeats, format_si(a, reads, "B/s"));
    return passed;
}

// ---- on simt ------------------------------------------------------------------------------------

void show_carries_over(const Show *show) {
    Table table;
    char heading[128], a[32], b[32], c[32];
    snprintf(heading, sizeof heading, "In place of times: 16 x 8,192 keys, 8 KV heads, %s",
             show->properties.name);
    report_section(heading);
    table_begin(&table, "g|rung|splits|blocks|requested|x cache|arithmetic|at least");
    for (int i = 0; i < SHOW_GROUPS; i++) {
        const AttnShape shape = show_group_problem(i);
        const double cache = gqa_cache_bytes(&shape, 2);
        const double floor_s = seconds_at(cache, gqa_h200.bytes_per_s);
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            const int64_t splits = splits_for(show, rung, &shape, DTYPE_BF16);
            const int64_t rows = gqa_rungs[rung].tile_rows(&shape);
            const double requested = gqa_requested_bytes(&shape, rows, rung != GQA_NAIVE, 2);
            const int64_t group = shape.heads_q / shape.heads_kv;
            const int64_t tiles = rung == GQA_NAIVE ? group : (group + rows - 1) / rows;
            const double share = gqa_issue_share(&gqa_h200, rung, &shape);
            table_row(&table, "%s|%s|%lld|%s|%s|%.3g|%.0f %%|%s",
                      rung == 0 ? format_count(c, (double)group) : "", gqa_rungs[rung].name,
                      (long long)splits,
                      format_count(a, (double)(shape.batch * shape.heads_kv * tiles * splits)),
                      format_iec(b, requested), requested / cache, 100 * share,
                      format_seconds((char[32]){0}, floor_s * fmax(1, share)));
        }
    }
    table_print(&table);
    report_text("Requests and instructions carry over to a GPU; the emulator's time does not, and "
                "is not printed. At least: the longer of reading the cache once at 4.6 TB/s and "
                "starting all instructions, on an H200. A kernel that waits takes longer.");
}
