// Running a rung: the problem's keys and values go into a pool's pages as a server would put them
// there, the kernels run, the outputs come back.
#include "chapters/ch09_paged/show.h"

#include "chapters/ch09_paged/page_walk.h"

#include <stdlib.h>
#include <string.h>

// Tokens that are appended one at a time, at most; claims that shuffle a pool, at most.
enum { SINGLE_TOKENS = 3, MOST_CLAIMS = 1024 };

// ---- appending ----------------------------------------------------------------------------------

// Memory of the target from which tokens are appended.
typedef struct Staging {
    GpuTarget target;
    void *host, *k, *v; // [heads_kv][tokens][dim], room for the longest sequence
} Staging;

static AttnStatus staging_make(Staging *staging, GpuTarget target, size_t elements, DType dtype) {
    *staging = (Staging){.target = target, .host = calloc(elements + 1, dtype_size(dtype))};
    if (staging->host == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for %zu elements", elements);
    }
    const AttnStatus status =
        gpu_alloc(target, &staging->k, "new keys", elements, dtype_size(dtype));
    return status != ATTN_OK
               ? status
               : gpu_alloc(target, &staging->v, "new values", elements, dtype_size(dtype));
}

static void staging_free(Staging *staging) {
    free(staging->host);
    gpu_free(staging->target, staging->k);
    gpu_free(staging->target, staging->v);
}

// Tokens from .. to - 1 of sequence b, of a tensor [batch][heads_kv][len_kv][dim].
static AttnStatus stage(const Staging *staging, void *device, const Tensor *tensor, int64_t b,
                        int64_t from, int64_t to) {
    const int64_t *dims = tensor->dims;
    const size_t row = (size_t)dims[3] * dtype_size(tensor->dtype);
    const size_t part = (size_t)(to - from) * row;
    for (int64_t head = 0; head < dims[1]; head++) {
        const size_t first = (size_t)((b * dims[1] + head) * dims[2] + from);
        memcpy((char *)staging->host + (size_t)head * part,
               (const char *)tensor->data + first * row, part);
    }
    return gpu_upload(staging->target, device, staging->host, (size_t)dims[1] * part);
}

static AttnStatus append(const PagedProblem *paged, const Staging *staging, const Tensor *k,
                         const Tensor *v, int64_t b, int64_t to) {
    const int64_t from = block_pool_length(paged->pool, paged->sequences[b]);
    if (from >= to) {
        return ATTN_OK;
    }
    AttnStatus status = stage(staging, staging->k, k, b, from, to);
    if (status == ATTN_OK) {
        status = stage(staging, staging->v, v, b, from, to);
    }
    return status != ATTN_OK ? status
                             : block_pool_append(paged->pool, paged->sequences[b], to - from,
                                                 staging->k, staging->v, NULL);
}

// Every sequence's tokens: the common prompt once, the rest of each at once, but for the last ones,
// which come one by one.
static AttnStatus append_all(PagedProblem *paged, const Staging *staging, const Tensor *k,
                             const Tensor *v, int64_t prompt) {
    AttnStatus status = ATTN_OK;
    for (int64_t b = 0; status == ATTN_OK && b < paged->shape.batch; b++) {
        status = b == 0 || prompt == 0
                     ? block_pool_open(paged->pool, &paged->sequences[b])
                     : block_pool_fork(paged->pool, paged->sequences[0], &paged->sequences[b]);
        if (status == ATTN_OK && b == 0 && prompt > 0) {
            status = append(paged, staging, k, v, 0, prompt);
        }
    }
    for (int64_t b = 0; status == ATTN_OK && b < paged->shape.batch; b++) {
        const int64_t keys = paged->lens[b];
        for (int64_t single = SINGLE_TOKENS; status == ATTN_OK && single >= 0; single--) {
            status = append(paged, staging, k, v, b, keys - single);
        }
    }
    return status;
}

// ---- the order of the free pages ----------------------------------------------------------------

// Puts the pool's free pages into random order: claims them all, by sequences that hold a token or
// a few pages each, and closes these in random order. `zero`: memory of the target for a claim's
// tokens.
static AttnStatus shuffle(BlockPool *pool, int64_t claims, const void *zero) {
    const int64_t pages = block_pool_pages(pool), page_size = block_pool_layout(pool)->page_size;
    int64_t *sequences = calloc((size_t)claims, sizeof(*sequences));
    if (sequences == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory to shuffle %lld pages", (long long)pages);
    }
    AttnStatus status = ATTN_OK;
    for (int64_t c = 0; status == ATTN_OK && c < claims; c++) {
        const int64_t taken = pages * (c + 1) / claims - pages * c / claims;
        status = block_pool_open(pool, &sequences[c]);
        if (status == ATTN_OK) {
            status = block_pool_append(pool, sequences[c], (taken - 1) * page_size + 1, zero, zero,
                                       NULL);
        }
    }
    uint64_t random = 88172645463325252U; // xorshift
    for (int64_t left = claims; status == ATTN_OK && left > 0; left--) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const int64_t chosen = (int64_t)(random % (uint64_t)left);
        status = block_pool_close(pool, sequences[chosen]);
        sequences[chosen] = sequences[left - 1];
    }
    free(sequences);
    return status;
}

static AttnStatus shuffle_pool(BlockPool *pool, int64_t claims) {
    const PageLayout *layout = block_pool_layout(pool);
    const GpuTarget target = block_pool_target(pool);
    const int64_t most = block_pool_pages(pool) / claims + 1; // pages of a claim
    const size_t element = dtype_size(layout->dtype);
    const size_t tokens = (size_t)((most - 1) * layout->page_size + 1);
    const size_t elements = (size_t)(layout->heads_kv * layout->dim) * tokens;
    void *zero;
    AttnStatus status = gpu_alloc(target, &zero, "claims", elements, element);
    if (status == ATTN_OK) {
        status = gpu_fill(target, zero, 0xFF, elements * element, NULL); // NaN, and written
    }
    if (status == ATTN_OK) {
        status = shuffle(pool, claims, zero);
    }
    gpu_free(target, zero);
    return status;
}

// ---- a problem ----------------------------------------------------------------------------------

static int64_t claims_of(int64_t pages) {
    return pages < MOST_CLAIMS ? pages : MOST_CLAIMS;
}

// The pool of a problem: its sequences' pages, none shared, and one more.
static AttnStatus make_pool(BlockPool **pool, GpuTarget target, const Problem *problem,
                            const PagePlan *plan) {
    const AttnShape *shape = &problem->shape;
    const PageLayout layout = {plan->page_size, shape->heads_kv, shape->dim, problem->dtype};
    int64_t pages = 1;
    for (int64_t b = 0; b < shape->batch; b++) {
        pages += page_lookups(attn_keys(shape, b), plan->page_size);
    }
    return block_pool_make(pool, target, &layout, pages, shape->batch + claims_of(pages));
}

static AttnStatus fill_pool(PagedProblem *paged, const Problem *problem, const PagePlan *plan) {
    const AttnShape *shape = &paged->shape;
    Tensor k = {0}, v = {0};
    Staging staging = {0};
    AttnStatus status = tensor_convert(&k, &problem->k, problem->dtype);
    if (status == ATTN_OK) {
        status = tensor_convert(&v, &problem->v, problem->dtype);
    }
    if (status == ATTN_OK) {
        const size_t elements = (size_t)(shape->heads_kv * shape->len_kv * shape->dim);
        status = staging_make(&staging, block_pool_target(paged->pool), elements, problem->dtype);
    }
    if (status == ATTN_OK && plan->shuffled) {
        status = shuffle_pool(paged->pool, claims_of(block_pool_pages(paged->pool)));
    }
    if (status == ATTN_OK) {
        status = append_all(paged, &staging, &k, &v, plan->prompt);
    }
    staging_free(&staging);
    tensor_free(&k);
    tensor_free(&v);
    return status;
}

// The pool of a problem and the lengths of its sequences; no page is in use.
static AttnStatus plan_problem(PagedProblem *paged, GpuTarget target, const Problem *problem,
                               const PagePlan *plan) {
    const size_t batch = (size_t)problem->shape.batch;
    *paged = (PagedProblem){.shape = problem->shape,
                            .sequences = calloc(batch + 1, sizeof(*paged->sequences)),
                            .lens = calloc(batch + 1, sizeof(*paged->lens))};
    if (paged->sequences == NULL || paged->lens == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "no memory for %zu sequences", batch);
    }
    for (size_t b = 0; b < batch; b++) {
        paged->lens[b] = (int32_t)attn_keys(&problem->shape, (int64_t)b);
    }
    paged->shape.kv_lens = paged->lens;
    return make_pool(&paged->pool, target, problem, plan);
}

AttnStatus paged_problem_make(PagedProblem *paged, GpuTarget target, const Problem *problem,
                              const PagePlan *plan) {
    AttnStatus status = plan_problem(paged, target, problem, plan);
    if (status == ATTN_OK) {
        status = fill_pool(paged, problem, plan);
    }
    if (status == ATTN_OK) {
        status = paged_cache_make(&paged->cache, paged->pool, paged->sequences, paged->shape.batch);
    }
    if (status != ATTN_OK) {
        paged_problem_free(paged);
    }
    return status;
}

void paged_problem_free(PagedProblem *paged) {
    paged_cache_free(&paged->cache);
    block_pool_free(paged->pool);
    free(paged->sequences);
    free(paged->lens);
    *paged = (PagedProblem){0};
}

// ---- rungs --------------------------------------------------------------------------------------

AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, int64_t splits,
                          void **workspace) {
    const size_t bytes = paged_rungs[rung].workspace_bytes(shape, splits);
    const AttnStatus status = gpu_alloc(target, workspace, "workspace", bytes, 1);
    return status != ATTN_OK ? status : split_kv_workspace_clear(target, *workspace, bytes, NULL);
}

AttnStatus rung_launch(int rung, const PagedProblem *paged, const DeviceProblem *device,
                       int64_t splits, void *workspace) {
    return paged_rungs[rung].builds[device->target](&paged->shape, device->dtype, device->q,
                                                    &paged->cache, device->o, device->lse, splits,
                                                    workspace, NULL);
}

AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse) {
    const RungRun *run = context;
    (void)shape, (void)q, (void)k, (void)v, (void)o, (void)lse; // the problem's own
    PagedProblem paged;
    DeviceProblem device = {0};
    void *workspace = NULL;
    AttnStatus status = paged_problem_make(&paged, run->target, run->problem, &run->plan);
    if (status != ATTN_OK) {
        return status;
    }
    status = device_problem_make(&device, run->target, run->problem, run->problem->dtype);
    if (status == ATTN_OK) {
        status = rung_workspace(run->rung, run->target, &paged.shape, run->splits, &workspace);
    }
    if (status == ATTN_OK) {
        status = rung_launch(run->rung, &paged, &device, run->splits, workspace);
    }
    if (status == ATTN_OK) {
        status = device_problem_download(&device, run->problem);
    }
    if (status == ATTN_OK) {
        status = gpu_check_guard(run->target, workspace);
    }
    if (status == ATTN_OK) {
        status = block_pool_check(paged.pool);
    }
    gpu_free(run->target, workspace);
    device_problem_free(&device);
    paged_problem_free(&paged);
    return status;
}

bool rung_takes(int rung, const AttnShape *shape, DType dtype) {
    return rung != PAGED_MMA || (dtype != DTYPE_F32 && (shape->dim == 64 || shape->dim == 128));
}

int64_t splits_for(const Show *show, int rung, const AttnShape *shape, DType dtype) {
    return show->options->splits > 0 ? show->options->splits
                                     : paged_rungs[rung].splits(shape, dtype, &show->properties);
}

void require_supported(const Show *show, const Problem *problem, int64_t page_size) {
    const PagePlan plan = {.page_size = page_size};
    const int64_t splits = splits_for(show, PAGED_CORES, &problem->shape, problem->dtype);
    PagedParams params;
    PagedProblem planned;
    lesson_require(show->program, plan_problem(&planned, show->target, problem, &plan));
    const PagedCache cache = {.target = show->target,
                              .layout = *block_pool_layout(planned.pool),
                              .pages = block_pool_pages(planned.pool),
                              .k = block_pool_k(planned.pool),
                              .v = block_pool_v(planned.pool),
                              .table = planned.lens, // nothing is launched, any pointer will do
                              .columns = page_lookups(planned.shape.len_kv, page_size),
                              .batch = planned.shape.batch,
                              .kv_lens = planned.lens};
    lesson_require(show->program,
                   paged_prepare(&params, PAGED_CORES, &planned.shape, problem->dtype,
                                 problem->q.data, &cache, problem->o.data, problem->lse.data,
                                 splits, planned.lens)); // nor is a workspace needed
    paged_problem_free(&planned);
}
