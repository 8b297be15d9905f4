// What the kernels of chapter 7 share on the host: the checks, their parameters, the lists of
// blocks, the tables of builds.
#include "chapters/ch07_masks/masks.h"

#include "chapters/ch07_masks/mask.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_LEN = 1 << 30 };

CausalEntry *const causal_builds[3] = GPU_BUILDS(causal_attention);
BlockSparseEntry *const block_sparse_builds[3] = GPU_BUILDS(block_sparse_attention);

void causal_tile(int64_t dim, int *block_q, int *block_k) {
    *block_q = dim > 64 && dim <= 128 ? 128 : 64;
    *block_k = 64;
}

// ---- the checks ---------------------------------------------------------------------------------

static AttnStatus check_supported(const AttnShape *shape, DType dtype) {
    if (dtype != DTYPE_F32 && dtype != DTYPE_F16 && dtype != DTYPE_BF16) {
        return attn_fail(ATTN_ERR_ARGUMENT, "dtype %d: these kernels read f32, f16 or bf16",
                         (int)dtype);
    }
    if (shape->dim > MASKS_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %" PRId64 ": these kernels go up to %d",
                         shape->dim, MASKS_MAX_DIM);
    }
    // Kernels count rows and keys in int, and blocks along an axis that ends at 2^31 - 1.
    if (attn_count_lse(shape) > MAX_LEN) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "batch * heads_q * len_q %zu: these kernels go up to 2^30",
                         attn_count_lse(shape));
    }
    if (shape->len_kv > MAX_LEN) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "len_kv %" PRId64 ": these kernels go up to 2^30",
                         shape->len_kv);
    }
    return ATTN_OK;
}

static bool is_aligned(const void *pointer, size_t bytes) {
    return (uintptr_t)pointer % bytes == 0;
}

AttnStatus masks_prepare(MasksParams *params, const AttnShape *shape, DType dtype, const void *q,
                         const void *k, const void *v, void *o, float *lse,
                         const int32_t *kv_lens) {
    AttnStatus status = attn_check_shape(shape);
    if (status == ATTN_OK) {
        status = check_supported(shape, dtype);
    }
    if (status == ATTN_OK) {
        status = attn_check_pointers(shape, q, k, v, o, lse);
    }
    if (status == ATTN_OK && shape->kv_lens != NULL && kv_lens == NULL && shape->batch > 0) {
        status = attn_fail(ATTN_ERR_ARGUMENT,
                           "kv_lens is a null pointer, but the shape has key lengths: the kernel "
                           "reads them in its target's memory");
    }
    if (status != ATTN_OK) {
        return status;
    }
    const size_t four = 4 * dtype_size(dtype);
    *params = (MasksParams){
        .q = q,
        .k = k,
        .v = v,
        .o = o,
        .lse = lse,
        .kv_lens = kv_lens,
        .heads = attn_count_lse(shape) > 0 ? (int)(shape->batch * shape->heads_q) : 0,
        .heads_q = (int)shape->heads_q,
        .group = (int)(shape->heads_q / shape->heads_kv),
        .len_q = (int)shape->len_q,
        .len_kv = (int)shape->len_kv,
        .dim = (int)shape->dim,
        .causal = shape->causal,
        .window = (int)(shape->window < MAX_LEN ? shape->window : MAX_LEN), // both limit nothing
        .visit = MASK_SKIP,
        .dtype = (int)dtype,
        .scale = fmaxf((float)attn_scale(shape), FLT_MIN), // not 0: -inf * 0 is NaN
        .vectors = shape->dim % 4 == 0 && is_aligned(q, four) && is_aligned(k, four) &&
                   is_aligned(v, four) && is_aligned(o, four),
    };
    return ATTN_OK;
}

// ---- block-sparse lists -------------------------------------------------------------------------

static int64_t blocks_of(int64_t len) {
    return len / BLOCK_SPARSE + (len % BLOCK_SPARSE != 0);
}

AttnStatus block_list_alloc(BlockList *list, int64_t len_q, int64_t len_kv, int64_t listed) {
    *list = (BlockList){0};
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"len_q", len_q}, {"len_kv", len_kv}, {"listed", listed}};
    for (int i = 0; i < 3; i++) {
        if (numbers[i].value < 0) {
            return attn_fail(ATTN_ERR_ARGUMENT, "%s %" PRId64 " is negative", numbers[i].name,
                             numbers[i].value);
        }
    }
    if (listed > INT32_MAX) { // offsets are int32
        return attn_fail(ATTN_ERR_ARGUMENT, "listed %" PRId64 ": a list has at most 2^31 - 1",
                         listed);
    }
    const int64_t query_blocks = blocks_of(len_q);
    int32_t *offsets = calloc((size_t)query_blocks + 1, sizeof *offsets);
    int32_t *blocks = calloc((size_t)listed + 1, sizeof *blocks); // + 1: none is not NULL
    if (offsets == NULL || blocks == NULL) {
        free(offsets);
        free(blocks);
        return attn_fail(ATTN_ERR_MEMORY,
                         "no memory for a list of %" PRId64 " key blocks for %" PRId64
                         " blocks of queries",
                         listed, query_blocks);
    }
    *list = (BlockList){query_blocks, blocks_of(len_kv), offsets, blocks};
    return ATTN_OK;
}

void block_list_free(BlockList *list) {
    free(list->offsets);
    free(list->blocks);
    *list = (BlockList){0};
}

// Whether a list has key block `key_block` for query block `query_block`.
typedef bool ListRule(const void *context, int64_t query_block, int64_t key_block);

// The list that a rule describes: the blocks are counted first.
static AttnStatus list_by_rule(BlockList *list, const AttnShape *shape, ListRule *rule,
                               const void *context) {
    *list = (BlockList){0};
    AttnStatus status = attn_check_shape(shape);
    const int64_t rows = status == ATTN_OK ? blocks_of(shape->len_q) : 0;
    const int64_t columns = status == ATTN_OK ? blocks_of(shape->len_kv) : 0;
    int64_t listed = 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        listed += rule(context, i / columns, i % columns);
    }
    if (status == ATTN_OK) {
        status = block_list_alloc(list, shape->len_q, shape->len_kv, listed);
    }
    for (int64_t i = 0; i < rows && status == ATTN_OK; i++) {
        list->offsets[i + 1] = list->offsets[i];
        for (int64_t j = 0; j < columns; j++) {
            if (rule(context, i, j)) {
                list->blocks[list->offsets[i + 1]++] = (int32_t)j;
            }
        }
    }
    return status;
}

static bool is_not_skipped(const void *context, int64_t query_block, int64_t key_block) {
    return mask_tile(*(const Mask *)context, (int)query_block * BLOCK_SPARSE, BLOCK_SPARSE,
                     (int)key_block * BLOCK_SPARSE, BLOCK_SPARSE) != TILE_SKIP;
}

AttnStatus block_list_of_shape(BlockList *list, const AttnShape *shape) {
    Mask mask = {0};
    if (attn_check_shape(shape) == ATTN_OK) {
        const int64_t window = shape->window < MAX_LEN ? shape->window : MAX_LEN;
        const int64_t keys = shape->batch > 0 ? attn_keys(shape, 0) : shape->len_kv;
        mask = (Mask){(int)shape->len_q, (int)keys, shape->causal, (int)window};
    }
    return list_by_rule(list, shape, is_not_skipped, &mask);
}

typedef struct RandomList {
    const AttnShape *shape;
    double density;
    bool keep_diagonal;
    uint64_t seed;
    int64_t key_blocks;
} RandomList;

static bool is_drawn(const void *context, int64_t query_block, int64_t key_block) {
    const RandomList *random = context;
    const AttnShape *shape = random->shape;
    const int64_t end = (query_block + 1) * BLOCK_SPARSE; // of the block's queries
    const int64_t last = (end < shape->len_q ? end : shape->len_q) - 1;
    const int64_t own = last + shape->len_kv - shape->len_q; // its key
    if (random->keep_diagonal && own >= 0 && key_block == own / BLOCK_SPARSE) {
        return true;
    }
    // SplitMix64's output function: 53 bits of it are a number from 0 to 1.
    const int64_t place = query_block * random->key_blocks + key_block;
    uint64_t z = random->seed + 0x9e3779b97f4a7c15u * (uint64_t)(place + 1);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53 < random->density;
}

AttnStatus block_list_random(BlockList *list, const AttnShape *shape, double density,
                             bool keep_diagonal, uint64_t seed) {
    *list = (BlockList){0};
    if (!(density >= 0 && density <= 1)) {
        return attn_fail(ATTN_ERR_ARGUMENT, "density %g is not from 0 to 1", density);
    }
    const RandomList random = {shape, density, keep_diagonal, seed, blocks_of(shape->len_kv)};
    return list_by_rule(list, shape, is_drawn, &random);
}

// The blocks of one query block: numbers that exist, rising.
static AttnStatus check_blocks(const BlockList *list, int64_t query_block) {
    for (int64_t i = list->offsets[query_block]; i < list->offsets[query_block + 1]; i++) {
        if (list->blocks[i] < 0 || list->blocks[i] >= list->key_blocks) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "blocks[%" PRId64 "] is %" PRId32 ": key blocks are 0 to %" PRId64, i,
                             list->blocks[i], list->key_blocks - 1);
        }
        if (i > list->offsets[query_block] && list->blocks[i] <= list->blocks[i - 1]) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "blocks[%" PRId64 "] is %" PRId32 " after %" PRId32
                             ": the blocks of a query block rise",
                             i, list->blocks[i], list->blocks[i - 1]);
        }
    }
    return ATTN_OK;
}

static AttnStatus check_counts(int64_t query_blocks, int64_t key_blocks, const AttnShape *shape) {
    const struct {
        const char *name;
        int64_t got, len;
    } counts[] = {{"query_blocks", query_blocks, shape->len_q},
                  {"key_blocks", key_blocks, shape->len_kv}};
    for (int i = 0; i < 2; i++) {
        if (counts[i].got != blocks_of(counts[i].len)) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "%s %" PRId64 ": a length of %" PRId64 " has %" PRId64 " blocks of %d",
                             counts[i].name, counts[i].got, counts[i].len, blocks_of(counts[i].len),
                             BLOCK_SPARSE);
        }
    }
    return ATTN_OK;
}

AttnStatus block_list_check(const BlockList *list, const AttnShape *shape) {
    AttnStatus status = check_counts(list->query_blocks, list->key_blocks, shape);
    if (status != ATTN_OK) {
        return status;
    }
    if (list->offsets == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "offsets is a null pointer");
    }
    if (list->offsets[0] != 0) {
        return attn_fail(ATTN_ERR_ARGUMENT, "offsets[0] is %" PRId32 ": offsets begin at 0",
                         list->offsets[0]);
    }
    for (int64_t i = 0; i < list->query_blocks; i++) {
        if (list->offsets[i + 1] < list->offsets[i]) {
            return attn_fail(ATTN_ERR_ARGUMENT,
                             "offsets[%" PRId64 "] is %" PRId32 " after %" PRId32
                             ": offsets do not fall",
                             i + 1, list->offsets[i + 1], list->offsets[i]);
        }
    }
    if (list->blocks == NULL && list->offsets[list->query_blocks] > 0) {
        return attn_fail(ATTN_ERR_ARGUMENT, "blocks is a null pointer");
    }
    for (int64_t i = 0; i < list->query_blocks && status == ATTN_OK; i++) {
        status = check_blocks(list, i);
    }
    return status;
}

// `count` numbers in the target's memory.
static AttnStatus upload(GpuTarget target, int32_t **device, const char *name, const int32_t *host,
                         size_t count) {
    void *memory = NULL;
    AttnStatus status = gpu_alloc(target, &memory, name, count, sizeof *host);
    if (status == ATTN_OK) {
        status = gpu_upload(target, memory, host, count * sizeof *host);
    }
    *device = memory;
    return status;
}

AttnStatus device_block_list_make(DeviceBlockList *device, GpuTarget target, const BlockList *list,
                                  const AttnShape *shape) {
    *device = (DeviceBlockList){.target = target};
    AttnStatus status = block_list_check(list, shape);
    if (status == ATTN_OK) {
        device->query_blocks = list->query_blocks;
        device->key_blocks = list->key_blocks;
        status = upload(target, &device->offsets, "offsets", list->offsets,
                        (size_t)list->query_blocks + 1);
    }
    if (status == ATTN_OK) {
        status = upload(target, &device->blocks, "blocks", list->blocks,
                        (size_t)list->offsets[list->query_blocks]);
    }
    if (status != ATTN_OK) {
        device_block_list_free(device);
    }
    return status;
}

void device_block_list_free(DeviceBlockList *device) {
    gpu_free(device->target, device->offsets);
    gpu_free(device->target, device->blocks);
    *device = (DeviceBlockList){0};
}

AttnStatus masks_prepare_list(MasksParams *params, const AttnShape *shape,
                              const DeviceBlockList *list) {
    if (list == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "list is a null pointer");
    }
    const AttnStatus status = check_counts(list->query_blocks, list->key_blocks, shape);
    if (status == ATTN_OK) {
        params->offsets = list->offsets;
        params->blocks = list->blocks;
    }
    return status;
}
