// Running chapter 9's kernels in the suites. See paged_run.h.
#include "tests/unit/paged_run.h"

#include "common/problem.h"
#include "tests/unit/gpu_targets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_PAGES = 3, SPARE_COLUMNS = 2 }; // in nobody's use
enum { NO_PAGE = 0x7ffffff0 };

const char *paged_run_text(const PagedRun *run, char *text) {
    static const char *const orders[] = {"forward", "reverse", "random"};
    static const char *const pages[] = {"ordered", "reversed", "shuffled"};
    snprintf(text, 128, "%s, %s, %s, %s, page %" PRId64 ", %s, %" PRId64 " splits",
             paged_rungs[run->rung].name, gpu_target_name(run->target),
             run->target == GPU_CUDA ? "device" : orders[run->order], dtype_name(run->dtype),
             run->page_size, pages[run->pages], run->splits);
    return text;
}

void paged_pack(void *to, const float *from, size_t count, DType dtype) {
    for (size_t i = 0; i < count; i++) {
        if (dtype == DTYPE_F32) {
            ((float *)to)[i] = from[i];
        } else {
            ((uint16_t *)to)[i] =
                dtype == DTYPE_F16 ? f16_from_f32(from[i]) : bf16_from_f32(from[i]);
        }
    }
}

void paged_unpack(float *to, const void *from, size_t count, DType dtype) {
    for (size_t i = 0; i < count; i++) {
        const uint16_t bits = dtype == DTYPE_F32 ? 0 : ((const uint16_t *)from)[i];
        to[i] = dtype == DTYPE_F32   ? ((const float *)from)[i]
                : dtype == DTYPE_F16 ? f32_from_f16(bits)
                                     : f32_from_bf16(bits);
    }
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- the cache ----------------------------------------------------------------------------------

// A permutation of 0 .. pages - 1. Freed by free.
static int32_t *page_numbers(int64_t pages, PageOrder order) {
    int32_t *numbers = calloc((size_t)pages, sizeof(*numbers));
    uint64_t random = 88172645463325252U;
    ck_assert_ptr_nonnull(numbers);
    for (int64_t i = 0; i < pages; i++) {
        numbers[i] = (int32_t)(order == PAGES_REVERSED ? pages - 1 - i : i);
    }
    for (int64_t i = pages - 1; i > 0 && order == PAGES_SHUFFLED; i--) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const int64_t j = (int64_t)(random % (uint64_t)(i + 1));
        const int32_t swapped = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = swapped;
    }
    return numbers;
}

// Uploads rows [count][dim] of a tensor with rows of `narrow` elements, zeros behind them.
static void upload_rows(const PagedCache *cache, const void *pages, int64_t at, const float *from,
                        int64_t count, int64_t narrow) {
    const int64_t dim = cache->layout.dim;
    const size_t element = dtype_size(cache->layout.dtype);
    float *wide = calloc((size_t)(count * dim), sizeof(*wide));
    void *packed = calloc((size_t)(count * dim), element);
    ck_assert(wide != NULL && packed != NULL);
    for (int64_t row = 0; row < count; row++) {
        memcpy(wide + row * dim, from + row * narrow, (size_t)narrow * sizeof(*wide));
    }
    paged_pack(packed, wide, (size_t)(count * dim), cache->layout.dtype);
    char *to;
    memcpy(&to, &pages, sizeof to); // the cache's own memory
    ASSERT_OK(gpu_upload(cache->target, to + (size_t)at * element, packed,
                         (size_t)(count * dim) * element));
    free(wide);
    free(packed);
}

// The pages of one sequence: column c of its row of the table is numbers[c].
static void fill_pages(const PagedCache *cache, const Tensor *k, const Tensor *v, int64_t b,
                       int64_t keys, const int32_t *numbers) {
    const int64_t heads = k->dims[1], len_kv = k->dims[2], narrow = k->dims[3];
    const int64_t page_size = cache->layout.page_size;
    for (int64_t first = 0; first < keys; first += page_size) {
        const int64_t count = smaller(page_size, keys - first);
        for (int64_t head = 0; head < heads; head++) {
            const int64_t from = ((b * heads + head) * len_kv + first) * narrow;
            const int64_t at = page_offset(&cache->layout, numbers[first / page_size], head, 0);
            upload_rows(cache, cache->k, at, (const float *)k->data + from, count, narrow);
            upload_rows(cache, cache->v, at, (const float *)v->data + from, count, narrow);
        }
    }
}

// Uploads a row of the table; what is behind its `used` entries names no page, or is not written.
static void upload_table_row(const PagedCache *cache, int64_t b, const int32_t *numbers,
                             int64_t used) {
    int32_t *table;
    memcpy(&table, &cache->table, sizeof table);
    table += b * cache->columns;
    ASSERT_OK(gpu_upload(cache->target, table, numbers, (size_t)used * sizeof(*table)));
    for (int64_t c = used; c < cache->columns && cache->target != GPU_TRACE; c++) {
        const int32_t garbage = c % 2 == 0 ? NO_PAGE : -7;
        ASSERT_OK(gpu_upload(cache->target, table + c, &garbage, sizeof garbage));
    }
}

// A cache of the tensors' keys, lens[b] of them for each sequence.
static void make_cache(PagedCache *cache, const PagedRun *run, const Tensor *k, const Tensor *v,
                       int64_t dim, const int32_t *lens) {
    const int64_t batch = k->dims[0], page_size = run->page_size;
    void *memory[4];
    *cache = (PagedCache){.target = run->target,
                          .layout = {page_size, k->dims[1], dim, run->dtype},
                          .pages = SPARE_PAGES,
                          .batch = batch};
    for (int64_t b = 0; b < batch; b++) {
        const int64_t used = (lens[b] + page_size - 1) / page_size;
        cache->pages += used;
        cache->columns = used > cache->columns ? used : cache->columns;
    }
    cache->columns += SPARE_COLUMNS;
    const size_t elements = (size_t)page_offset(&cache->layout, cache->pages, 0, 0);
    const size_t element = dtype_size(run->dtype);
    ASSERT_OK(gpu_alloc(run->target, &memory[0], "k", elements, element));
    ASSERT_OK(gpu_alloc(run->target, &memory[1], "v", elements, element));
    ASSERT_OK(gpu_alloc(run->target, &memory[2], "table", (size_t)(batch * cache->columns),
                        sizeof(int32_t)));
    ASSERT_OK(gpu_alloc(run->target, &memory[3], "kv_lens", (size_t)batch, sizeof(int32_t)));
    cache->k = memory[0];
    cache->v = memory[1];
    cache->table = memory[2];
    cache->kv_lens = memory[3];
    ASSERT_OK(gpu_upload(run->target, cache->kv_lens, lens, (size_t)batch * sizeof(*lens)));
    int32_t *numbers = page_numbers(cache->pages, run->pages);
    int64_t taken = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t used = (lens[b] + page_size - 1) / page_size;
        fill_pages(cache, k, v, b, lens[b], numbers + taken);
        upload_table_row(cache, b, numbers + taken, used);
        taken += used;
    }
    free(numbers);
}

static void free_cache(const PagedCache *cache) {
    const void *const memory[] = {cache->k, cache->v, cache->table, cache->kv_lens};
    for (int i = 0; i < 4; i++) {
        void *made;
        memcpy(&made, &memory[i], sizeof made);
        ASSERT_OK(gpu_check_guard(cache->target, made));
        gpu_free(cache->target, made);
    }
}

// ---- a run --------------------------------------------------------------------------------------

// Q, O and LSE of a run in the target's memory.
typedef struct Buffers {
    void *q, *o, *lse, *workspace;
} Buffers;

static void make_buffers(Buffers *buffers, const PagedRun *run, const Tensor *q, int64_t dim,
                         size_t workspace_bytes) {
    const size_t element = dtype_size(run->dtype);
    const int64_t rows = q->dims[0] * q->dims[1] * q->dims[2], narrow = q->dims[3];
    const size_t elements = (size_t)(rows * dim);
    float *wide = calloc(elements + 1, sizeof(*wide));
    void *packed = calloc(elements + 1, element);
    ck_assert(wide != NULL && packed != NULL);
    for (int64_t row = 0; row < rows; row++) {
        memcpy(wide + row * dim, (const float *)q->data + row * narrow,
               (size_t)narrow * sizeof(*wide));
    }
    paged_pack(packed, wide, elements, run->dtype);
    ASSERT_OK(gpu_alloc(run->target, &buffers->q, "q", elements, element));
    ASSERT_OK(gpu_alloc(run->target, &buffers->o, "o", elements, element));
    ASSERT_OK(gpu_alloc(run->target, &buffers->lse, "lse", (size_t)rows, sizeof(float)));
    ASSERT_OK(gpu_alloc(run->target, &buffers->workspace, "workspace", workspace_bytes, 1));
    ASSERT_OK(gpu_upload(run->target, buffers->q, packed, elements * element));
    ASSERT_OK(split_kv_workspace_clear(run->target, buffers->workspace, workspace_bytes, NULL));
    free(wide);
    free(packed);
}

static void take_buffers(Buffers *buffers, const PagedRun *run, Tensor *o, Tensor *lse,
                         int64_t dim) {
    const size_t element = dtype_size(run->dtype);
    const int64_t rows = o->dims[0] * o->dims[1] * o->dims[2], narrow = o->dims[3];
    const size_t elements = (size_t)(rows * dim);
    float *wide = calloc(elements + 1, sizeof(*wide));
    void *packed = calloc(elements + 1, element);
    ck_assert(wide != NULL && packed != NULL);
    ASSERT_OK(gpu_synchronize(run->target));
    ASSERT_OK(gpu_download(run->target, packed, buffers->o, elements * element));
    ASSERT_OK(gpu_download(run->target, lse->data, buffers->lse, lse->count * sizeof(float)));
    paged_unpack(wide, packed, elements, run->dtype);
    for (int64_t row = 0; row < rows; row++) {
        memcpy((float *)o->data + row * narrow, wide + row * dim, (size_t)narrow * sizeof(*wide));
    }
    void *const memory[] = {buffers->q, buffers->o, buffers->lse, buffers->workspace};
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(gpu_check_guard(run->target, memory[i]));
        gpu_free(run->target, memory[i]);
    }
    free(wide);
    free(packed);
}

AttnStatus paged_run(const AttnShape *shape, const Tensor *q, const Tensor *k, const Tensor *v,
                     Tensor *o, Tensor *lse, const void *context) {
    const PagedRun *run = context;
    const PagedRung *rung = &paged_rungs[run->rung];
    const bool legal = attn_check_shape(shape) == ATTN_OK;
    const int64_t batch = k->dims[0], narrow = k->dims[3];
    AttnShape asked = *shape;
    int64_t dim = narrow;
    if (legal && run->rung == PAGED_MMA && dim <= 128) {
        dim = dim <= 64 ? 64 : 128;
        asked.dim = dim;
        asked.scale = attn_scale(shape);
    }
    int32_t *lens = calloc((size_t)batch + 1, sizeof(*lens));
    ck_assert_ptr_nonnull(lens);
    for (int64_t b = 0; b < batch; b++) {
        lens[b] = legal && shape->kv_lens != NULL ? shape->kv_lens[b] : (int32_t)k->dims[2];
    }
    asked.kv_lens = shape->kv_lens == NULL ? lens : shape->kv_lens;
    PagedCache cache;
    Buffers buffers;
    make_cache(&cache, run, k, v, dim, lens);
    make_buffers(&buffers, run, q, dim, legal ? rung->workspace_bytes(&asked, run->splits) : 0);
    simt_settings()->order = run->order;
    simt_settings()->workers = 1;
    const AttnStatus status =
        rung->builds[run->target](&asked, run->dtype, buffers.q, &cache, buffers.o, buffers.lse,
                                  run->splits, buffers.workspace, NULL);
    char message[512];
    snprintf(message, sizeof message, "%s", attn_last_error());
    take_buffers(&buffers, run, o, lse, dim);
    free_cache(&cache);
    free(lens);
    return attn_fail(status, "%s", message);
}
