// A pool of pages beside a model of it. See pool_model.h.
#include "tests/unit/pool_model.h"

#include "common/device_problem.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/paged_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- tokens -------------------------------------------------------------------------------------

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

float model_element(uint32_t token, int which, int64_t h, int64_t c) {
    const uint64_t key = (uint64_t)token * 0x9e3779b97f4a7c15U + (uint64_t)(which + 2 * h) * 7919 +
                         (uint64_t)c * 104729;
    return (float)((int)(mix(key) % 129) - 64) / 64;
}

void *model_rows(GpuTarget target, const PageLayout *layout, uint32_t first, int64_t count,
                 int which) {
    const size_t elements = (size_t)(layout->heads_kv * count * layout->dim);
    const size_t element = dtype_size(layout->dtype);
    float *wide = calloc(elements, sizeof(*wide));
    void *packed = calloc(elements, element), *device;
    ck_assert(wide != NULL && packed != NULL);
    for (size_t e = 0; e < elements; e++) {
        const int64_t row = (int64_t)e / layout->dim;
        wide[e] = model_element(first + (uint32_t)(row % count), which, row / count,
                                (int64_t)e % layout->dim);
    }
    paged_pack(packed, wide, elements, layout->dtype);
    ASSERT_OK(gpu_alloc(target, &device, which == 0 ? "new k" : "new v", elements, element));
    ASSERT_OK(gpu_upload(target, device, packed, elements * element));
    free(wide);
    free(packed);
    return device;
}

AttnStatus model_append_to_pool(BlockPool *pool, int64_t sequence, uint32_t first, int64_t count) {
    const GpuTarget target = block_pool_target(pool);
    const PageLayout *layout = block_pool_layout(pool);
    void *k = model_rows(target, layout, first, count, 0);
    void *v = model_rows(target, layout, first, count, 1);
    const AttnStatus status = block_pool_append(pool, sequence, count, k, v, NULL);
    char message[256];
    snprintf(message, sizeof message, "%s", attn_last_error());
    ASSERT_OK(gpu_synchronize(target));
    gpu_free(target, k);
    gpu_free(target, v);
    return attn_fail(status, "%s", message);
}

BlockPool *model_pool(GpuTarget target, const PageLayout *layout, int64_t pages) {
    BlockPool *pool;
    simt_settings()->workers = 1;
    ASSERT_OK(block_pool_make(&pool, target, layout, pages, MODEL_SEQUENCES));
    return pool;
}

// ---- the model ----------------------------------------------------------------------------------

// A copy of the pool's K and V in host floats.
typedef struct Pages {
    float *of[2];
} Pages;

static Pages download_pages(const BlockPool *pool) {
    const PageLayout *layout = block_pool_layout(pool);
    const size_t elements = (size_t)page_offset(layout, block_pool_pages(pool), 0, 0);
    const size_t element = dtype_size(layout->dtype);
    const void *const from[] = {block_pool_k(pool), block_pool_v(pool)};
    void *packed = calloc(elements, element);
    Pages pages;
    ck_assert_ptr_nonnull(packed);
    for (int which = 0; which < 2; which++) {
        pages.of[which] = calloc(elements, sizeof(float));
        ck_assert_ptr_nonnull(pages.of[which]);
        ASSERT_OK(gpu_download(block_pool_target(pool), packed, from[which], elements * element));
        paged_unpack(pages.of[which], packed, elements, layout->dtype);
    }
    free(packed);
    return pages;
}

// One token: what its slot holds is what the model says. ck_assert in a loop this long would take
// most of the time.
static void check_token(const PageLayout *layout, const Pages *pages, int64_t page, int64_t slot,
                        uint32_t token) {
    for (int64_t h = 0; h < layout->heads_kv; h++) {
        const int64_t at = page_offset(layout, page, h, slot);
        for (int64_t c = 0; c < layout->dim; c++) {
            for (int which = 0; which < 2; which++) {
                const float expected = model_element(token, which, h, c);
                if (pages->of[which][at + c] != expected) {
                    ck_abort_msg("page %" PRId64 ", slot %" PRId64 ", head %" PRId64
                                 ", column %" PRId64 ": %s is %g, not %g",
                                 page, slot, h, c, which == 0 ? "K" : "V",
                                 (double)pages->of[which][at + c], (double)expected);
                }
            }
        }
    }
}

void model_check_pool(const BlockPool *pool, const Model *models, int count) {
    const PageLayout *layout = block_pool_layout(pool);
    ASSERT_OK(block_pool_check(pool));
    Pages pages = download_pages(pool);
    for (int s = 0; s < count; s++) {
        const Model *model = &models[s];
        const int32_t *table = block_pool_table(pool, s);
        ck_assert_int_eq(block_pool_length(pool, s), model->open ? model->length : -1);
        for (int64_t i = 0; model->open && i < model->length; i++) {
            check_token(layout, &pages, table[i / layout->page_size], i % layout->page_size,
                        model->tokens[i]);
        }
    }
    free(pages.of[0]);
    free(pages.of[1]);
}

void model_append(Model *model, uint32_t first, int64_t count) {
    ck_assert_int_le(model->length + count, MODEL_TOKENS);
    for (int64_t i = 0; i < count; i++) {
        model->tokens[model->length++] = first + (uint32_t)i;
    }
}

// ---- decoding
// ------------------------------------------------------------------------------------

void model_fill(Problem *problem, const Model *const *models) {
    const AttnShape *shape = &problem->shape;
    Tensor *const tensors[] = {&problem->k, &problem->v};
    for (size_t e = 0; e < problem->k.count; e++) {
        const int64_t row = (int64_t)e / shape->dim, i = row % shape->len_kv;
        const int64_t h = row / shape->len_kv % shape->heads_kv;
        const Model *model = models[row / shape->len_kv / shape->heads_kv];
        for (int which = 0; which < 2; which++) {
            tensor_set(tensors[which], e,
                       i < model->length ? (double)model_element(model->tokens[i], which, h,
                                                                 (int64_t)e % shape->dim)
                                         : (double)NAN);
        }
    }
}

void model_decode(int rung, const BlockPool *pool, const int64_t *sequences, int64_t splits,
                  Problem *problem) {
    const GpuTarget target = block_pool_target(pool);
    const PagedRung *kernel = &paged_rungs[rung];
    const DType dtype = block_pool_layout(pool)->dtype;
    const AttnShape *shape = &problem->shape;
    const size_t bytes = kernel->workspace_bytes(shape, splits);
    PagedCache cache;
    DeviceProblem device;
    void *workspace;
    ASSERT_OK(device_problem_make(&device, target, problem, dtype));
    ASSERT_OK(paged_cache_make(&cache, pool, sequences, shape->batch));
    ASSERT_OK(gpu_alloc(target, &workspace, "workspace", bytes, 1));
    ASSERT_OK(split_kv_workspace_clear(target, workspace, bytes, NULL));
    ASSERT_OK(kernel->builds[target](shape, dtype, device.q, &cache, device.o, device.lse, splits,
                                     workspace, NULL));
    ASSERT_OK(device_problem_download(&device, problem));
    ASSERT_OK(gpu_check_guard(target, workspace));
    gpu_free(target, workspace);
    paged_cache_free(&cache);
    device_problem_free(&device);
}
