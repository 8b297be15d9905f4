// Timing one rung: see show_timed.h. And the rate at which this GPU reads memory.
#include "chapters/ch06_decode/show_timed.h"

#include <stdio.h>

// Elements of the block of random numbers that fills a cache again and again: no multiple of any
// row, head or entry, so that these differ.
enum { ALIGNMENT = 256, FILL = (1 << 22) + 296, CHECKED_HEADS = 4, READ_RUNS = 20 };

// ---- the ceiling --------------------------------------------------------------------------------

typedef struct ReadRun {
    GpuTarget target;
    const void *data;
    size_t bytes;
    unsigned *sums;
} ReadRun;

static AttnStatus run_read(void *context, int run_number) {
    static AttnStatus (*const builds[])(const void *, size_t, unsigned *, GpuStream) =
        GPU_BUILDS(read_rate);
    const ReadRun *run = context;
    (void)run_number;
    return builds[run->target](run->data, run->bytes, run->sums, NULL);
}

// Times read_rate over a buffer of `bytes` bytes.
static TimeStats measure_read(const Show *show, size_t bytes) {
    void *data, *sums;
    TimeStats seconds;
    lesson_require(show->program, gpu_alloc(show->target, &data, "data", bytes, 1));
    lesson_require(show->program, gpu_fill(show->target, data, 0, bytes, NULL));
    lesson_require(show->program,
                   gpu_alloc(show->target, &sums, "sums", READ_RATE_SUMS, sizeof(unsigned)));
    ReadRun run = {show->target, data, bytes, sums};
    lesson_require(show->program, gpu_measure(show->target, run_read, &run, READ_RUNS, &seconds));
    gpu_free(show->target, data);
    gpu_free(show->target, sums);
    return seconds;
}

double show_read_rate(const Show *show) {
    const size_t bytes = (size_t)1 << 31;
    return show->target == GPU_CUDA ? (double)bytes / measure_read(show, bytes).median : 0.0;
}

double timed_launch(const Show *show) {
    return measure_read(show, 16).median;
}

// ---- the caches ---------------------------------------------------------------------------------

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

void timed_cache_make(const Show *show, TimedCache *cache, const AttnShape *shape, DType dtype) {
    const size_t element = dtype_size(dtype), bytes = attn_count_kv(shape) * element;
    const double twice = 2.0 * (double)show->properties.l2_bytes;
    *cache = (TimedCache){.target = show->target, .shape = *shape, .dtype = dtype};
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
    if (shape->kv_lens != NULL) {
        const size_t count = (size_t)shape->batch;
        cache->kv_lens = allocate(show, "kv_lens", count, sizeof *cache->kv_lens);
        lesson_require(show->program, gpu_upload(show->target, cache->kv_lens, shape->kv_lens,
                                                 count * sizeof *cache->kv_lens));
    }
}

void timed_cache_free(TimedCache *cache) {
    void *const buffers[] = {cache->kv, cache->q, cache->o, cache->lse, cache->kv_lens};
    for (size_t b = 0; b < sizeof buffers / sizeof buffers[0]; b++) {
        gpu_free(cache->target, buffers[b]);
    }
    *cache = (TimedCache){0};
}

// K of a set; its V is tensor_bytes behind.
static unsigned char *set_of(const TimedCache *cache, int set) {
    return cache->kv + (size_t)set * 2 * cache->tensor_bytes;
}

static AttnStatus timed_run(void *context, int run) {
    TimedCache *cache = context;
    cache->last = run % cache->sets;
    const unsigned char *k = set_of(cache, cache->last);
    return decode_rungs[cache->rung].builds[cache->target](
        &cache->shape, cache->dtype, cache->q, k, k + cache->tensor_bytes, cache->o, cache->lse,
        cache->kv_lens, cache->splits, cache->workspace, NULL);
}

// ---- checking -----------------------------------------------------------------------------------

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
static bool check_head(const Show *show, const TimedCache *cache, int64_t head) {
    const AttnShape *shape = &cache->shape;
    const int64_t entry = head / shape->heads_q, dim = shape->dim;
    const int64_t kv_head = entry * shape->heads_kv + attn_kv_head(shape, head % shape->heads_q);
    const unsigned char *k = set_of(cache, cache->last);
    AttnShape small = *shape;
    small.batch = small.heads_q = small.heads_kv = 1;
    small.len_kv = attn_keys(shape, entry);
    small.kv_lens = NULL;
    Tensor tensors[] = {
        slice(show, cache->q, head * shape->len_q, shape->len_q, dim, cache->dtype),
        slice(show, k, kv_head * shape->len_kv, small.len_kv, dim, cache->dtype),
        slice(show, k + cache->tensor_bytes, kv_head * shape->len_kv, small.len_kv, dim,
              cache->dtype),
        slice(show, cache->o, head * shape->len_q, shape->len_q, dim, cache->dtype),
        slice(show, cache->lse, head * shape->len_q, shape->len_q, 1, DTYPE_F32),
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

TimedPoint timed_cache_run(const Show *show, TimedCache *cache, int rung, int64_t splits) {
    TimedPoint point = {.passed = true};
    const AttnShape *shape = &cache->shape;
    const int64_t heads = shape->batch * shape->heads_q;
    const size_t o_bytes = attn_count_q(shape) * dtype_size(cache->dtype);
    cache->rung = rung;
    cache->splits = splits;
    lesson_require(show->program,
                   rung_workspace(rung, cache->target, shape, splits, &cache->workspace));
    lesson_require(show->program, gpu_fill(cache->target, cache->o, 0xFF, o_bytes, NULL));
    lesson_require(show->program, gpu_measure(cache->target, timed_run, cache,
                                              show->options->repeats, &point.seconds));
    lesson_require(show->program, gpu_synchronize(cache->target));
    for (int i = 0; i < CHECKED_HEADS && i < heads; i++) { // the first, the last, and between
        const int64_t head = heads > CHECKED_HEADS ? i * (heads - 1) / (CHECKED_HEADS - 1) : i;
        point.passed = check_head(show, cache, head) && point.passed;
    }
    gpu_free(cache->target, cache->workspace);
    point.rate = decode_cache_bytes(shape, cache->dtype) / point.seconds.median;
    return point;
}
