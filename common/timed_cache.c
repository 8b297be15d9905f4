// Caches that take turns: see timed_cache.h.
#include "common/timed_cache.h"

#include <math.h>

// Elements of the block of random numbers that fills a cache again and again: no multiple of any
// row, head, page or entry, so that these differ.
enum { ALIGNMENT = 256, FILL = (1 << 22) + 296, CHECKED_HEADS = 4, Q_SEED = 2 };

// ---- memory -------------------------------------------------------------------------------------

void *timed_alloc(const TimedProblem *problem, const char *name, size_t count, size_t element) {
    void *memory;
    lesson_require(problem->program, gpu_alloc(problem->target, &memory, name, count, element));
    return memory;
}

void timed_fill(const TimedProblem *problem, void *memory, size_t bytes, uint64_t seed) {
    Tensor block;
    const int64_t dims[] = {1, 1, 1, FILL};
    lesson_require(problem->program, tensor_alloc(&block, problem->dtype, 4, dims));
    tensor_fill_random(&block, problem->options->seed + seed, 1.0);
    const size_t step = block.count * dtype_size(problem->dtype);
    for (size_t done = 0; done < bytes; done += step) {
        const size_t part = bytes - done < step ? bytes - done : step;
        lesson_require(problem->program,
                       gpu_upload(problem->target, (char *)memory + done, block.data, part));
    }
    tensor_free(&block);
}

void timed_problem_make(TimedProblem *problem, const Program *program, const Options *options,
                        GpuTarget target, const AttnShape *shape, DType dtype) {
    const size_t element = dtype_size(dtype), count = attn_count_q(shape);
    *problem = (TimedProblem){
        .program = program, .options = options, .target = target, .shape = *shape, .dtype = dtype};
    problem->q = timed_alloc(problem, "q", count, element);
    timed_fill(problem, problem->q, count * element, Q_SEED);
    problem->o = timed_alloc(problem, "o", count, element);
    problem->lse = timed_alloc(problem, "lse", attn_count_lse(shape), sizeof *problem->lse);
    if (shape->kv_lens != NULL) {
        const size_t batch = (size_t)shape->batch, size = sizeof *problem->kv_lens;
        problem->kv_lens = timed_alloc(problem, "kv_lens", batch, size);
        lesson_require(program, gpu_upload(target, problem->kv_lens, shape->kv_lens, batch * size));
    }
}

void timed_problem_free(TimedProblem *problem) {
    void *const buffers[] = {problem->q, problem->o, problem->lse, problem->kv_lens};
    for (size_t b = 0; b < sizeof buffers / sizeof buffers[0]; b++) {
        gpu_free(problem->target, buffers[b]);
    }
    *problem = (TimedProblem){0};
}

int timed_sets(const TimedProblem *problem, double cache_bytes) {
    GpuProperties properties;
    lesson_require(problem->program, gpu_properties(problem->target, &properties));
    const double sets = 1 + floor(2.0 * (double)properties.l2_bytes / fmax(cache_bytes, 1));
    return sets < 2 ? 2 : (int)sets;
}

// ---- checking -----------------------------------------------------------------------------------

Tensor timed_rows(const TimedProblem *problem, const void *memory, int64_t first, int64_t rows,
                  int64_t dim, DType dtype) {
    Tensor part;
    const int64_t dims[] = {1, 1, rows, dim};
    const size_t element = dtype_size(dtype);
    lesson_require(problem->program, tensor_alloc(&part, dtype, 4, dims));
    lesson_require(problem->program,
                   gpu_download(problem->target, part.data,
                                (const char *)memory + (size_t)(first * dim) * element,
                                part.count * element));
    return part;
}

// Compares head `head`, counted over the batch, of the last output with the oracle.
static bool check_head(const TimedProblem *problem, TimedKeys *keys, void *context, int64_t head) {
    const AttnShape *shape = &problem->shape;
    const int64_t entry = head / shape->heads_q, dim = shape->dim, rows = shape->len_q;
    const int64_t kv_head = attn_kv_head(shape, head % shape->heads_q);
    AttnShape small = *shape;
    small.batch = small.heads_q = small.heads_kv = 1;
    small.len_kv = attn_keys(shape, entry);
    small.kv_lens = NULL;
    Tensor tensors[] = {
        timed_rows(problem, problem->q, head * rows, rows, dim, problem->dtype),
        keys(context, entry, kv_head, 0),
        keys(context, entry, kv_head, 1),
        timed_rows(problem, problem->o, head * rows, rows, dim, problem->dtype),
        timed_rows(problem, problem->lse, head * rows, rows, 1, DTYPE_F32),
    };
    Expected expected;
    lesson_require(problem->program, expected_make(&expected, &small, &tensors[0], &tensors[1],
                                                   &tensors[2], problem->dtype));
    const bool passed = compare_output(&expected, &tensors[3], &tensors[4], 0, NULL, NULL);
    expected_free(&expected);
    for (int t = 0; t < 5; t++) {
        tensor_free(&tensors[t]);
    }
    return passed;
}

TimedPoint timed_measure(const TimedProblem *problem, GpuTimedRun *run, TimedKeys *keys,
                         void *context) {
    TimedPoint point = {.passed = true};
    const int64_t heads = problem->shape.batch * problem->shape.heads_q;
    const size_t o_bytes = attn_count_q(&problem->shape) * dtype_size(problem->dtype);
    const size_t lse_bytes = attn_count_lse(&problem->shape) * sizeof *problem->lse;
    lesson_require(problem->program, gpu_fill(problem->target, problem->o, 0xFF, o_bytes, NULL));
    lesson_require(problem->program,
                   gpu_fill(problem->target, problem->lse, 0xFF, lse_bytes, NULL));
    lesson_require(problem->program, gpu_measure(problem->target, run, context,
                                                 problem->options->repeats, &point.seconds));
    lesson_require(problem->program, gpu_synchronize(problem->target));
    for (int i = 0; i < CHECKED_HEADS && i < heads; i++) { // the first, the last, and between
        const int64_t head = heads > CHECKED_HEADS ? i * (heads - 1) / (CHECKED_HEADS - 1) : i;
        point.passed = check_head(problem, keys, context, head) && point.passed;
    }
    point.rate = attn_kv_bytes(&problem->shape, dtype_size(problem->dtype)) / point.seconds.median;
    return point;
}

// ---- contiguous caches --------------------------------------------------------------------------

void timed_cache_make(TimedCache *cache, const Program *program, const Options *options,
                      GpuTarget target, const AttnShape *shape, DType dtype) {
    const size_t bytes = attn_count_kv(shape) * dtype_size(dtype);
    *cache = (TimedCache){.tensor_bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT};
    timed_problem_make(&cache->problem, program, options, target, shape, dtype);
    cache->sets = timed_sets(&cache->problem, 2.0 * (double)cache->tensor_bytes);
    const size_t all = (size_t)cache->sets * 2 * cache->tensor_bytes;
    cache->kv = timed_alloc(&cache->problem, "k and v", all, 1);
    timed_fill(&cache->problem, cache->kv, all, 0);
}

void timed_cache_free(TimedCache *cache) {
    gpu_free(cache->problem.target, cache->kv);
    timed_problem_free(&cache->problem);
    *cache = (TimedCache){0};
}

// K (which = 0) or V (1) of the set that was read last.
static unsigned char *last_tensor(const TimedCache *cache, int which) {
    return cache->kv + (size_t)(2 * cache->last + which) * cache->tensor_bytes;
}

static AttnStatus run_cache(void *context, int run) {
    TimedCache *cache = context;
    const TimedProblem *problem = &cache->problem;
    cache->last = run % cache->sets;
    return cache->entry(&problem->shape, problem->dtype, problem->q, last_tensor(cache, 0),
                        last_tensor(cache, 1), problem->o, problem->lse, problem->kv_lens,
                        cache->splits, cache->workspace, NULL);
}

static Tensor cache_keys(void *context, int64_t entry, int64_t kv_head, int which) {
    const TimedCache *cache = context;
    const AttnShape *shape = &cache->problem.shape;
    const int64_t first = (entry * shape->heads_kv + kv_head) * shape->len_kv;
    return timed_rows(&cache->problem, last_tensor(cache, which), first, attn_keys(shape, entry),
                      shape->dim, cache->problem.dtype);
}

TimedPoint timed_cache_run(TimedCache *cache, TimedEntry *entry, int64_t splits, void *workspace) {
    cache->entry = entry;
    cache->splits = splits;
    cache->workspace = workspace;
    return timed_measure(&cache->problem, run_cache, cache_keys, cache);
}
