// Lab 4: the list of key blocks of each query block (CSR), from any mask that can be asked about a
// pair.
//
// The chapter's lists come from the rule of a mask. Here nothing is known of the mask, so every
// pair is asked, at most twice: once to count the blocks, and once to write them down.
#include "labs.h"

#include <stdlib.h>

int64_t blocks_of(int64_t len, int64_t block) {
    int64_t blocks = 0;
    // TODO 1: rounded up; len + block may be more than an int64_t holds
    (void)len, (void)block;
    // END 1
    return blocks;
}

TileClass block_class(const AnyMask *mask, int64_t query_block, int64_t key_block) {
    const int64_t row0 = query_block * mask->block_q, key0 = key_block * mask->block_k;
    TileClass class = TILE_SKIP;
    // TODO 2: asks mask->sees about the pairs that exist
    (void)row0, (void)key0;
    // END 2
    return class;
}

// The first pass: offsets [query_blocks + 1].
static void count_blocks(BlockCsr *csr, const AnyMask *mask) {
    // TODO 3: where each query block's list begins, and behind them where the last one ends
    (void)csr, (void)mask;
    // END 3
}

// The second pass: blocks and full.
static void list_blocks(BlockCsr *csr, const AnyMask *mask) {
    // TODO 4: every block that was counted, ascending, with its flag
    (void)csr, (void)mask;
    // END 4
}

void csr_free(BlockCsr *csr) {
    free(csr->offsets);
    free(csr->blocks);
    free(csr->full);
    *csr = (BlockCsr){0, 0, NULL, NULL, NULL};
}

static AttnStatus out_of_memory(BlockCsr *csr, int64_t elements) {
    csr_free(csr);
    return attn_fail(ATTN_ERR_MEMORY, "no memory for a list of %lld", (long long)elements);
}

AttnStatus csr_build(BlockCsr *csr, const AnyMask *mask) {
    *csr = (BlockCsr){blocks_of(mask->len_q, mask->block_q), blocks_of(mask->len_kv, mask->block_k),
                      NULL, NULL, NULL};
    // TODO 5: an error that the types of the list make necessary
    // END 5
    csr->offsets = calloc((size_t)csr->query_blocks + 1, sizeof(int64_t));
    if (csr->offsets == NULL) {
        return out_of_memory(csr, csr->query_blocks + 1);
    }
    count_blocks(csr, mask);
    const int64_t listed = csr->offsets[csr->query_blocks];
    if (listed > 0) {
        csr->blocks = malloc((size_t)listed * sizeof(int32_t));
        csr->full = malloc((size_t)listed);
        if (csr->blocks == NULL || csr->full == NULL) {
            return out_of_memory(csr, listed);
        }
        list_blocks(csr, mask);
    }
    return ATTN_OK;
}
