// Lab 4: the list of key blocks of each query block (CSR), from any mask that can be asked about a
// pair.
//
// The chapter's lists come from the rule of a mask. Here nothing is known of the mask, so every
// pair is asked, at most twice: once to count the blocks, and once to write them down.
#include "labs.h"

#include <stdlib.h>

int64_t blocks_of(int64_t len, int64_t block) {
    int64_t blocks = 0;
    // GAP 1: rounded up; len + block may be more than an int64_t holds
    blocks = len / block + (len % block != 0 ? 1 : 0);
    // END 1
    return blocks;
}

TileClass block_class(const AnyMask *mask, int64_t query_block, int64_t key_block) {
    const int64_t row0 = query_block * mask->block_q, key0 = key_block * mask->block_k;
    TileClass class = TILE_SKIP;
    // GAP 2: asks mask->sees about the pairs that exist
    const int64_t rows_left = mask->len_q - row0, keys_left = mask->len_kv - key0;
    const int64_t rows = rows_left < mask->block_q ? rows_left : mask->block_q;
    const int64_t keys = keys_left < mask->block_k ? keys_left : mask->block_k;
    bool some = false, all = keys == mask->block_k;
    for (int64_t r = 0; r < rows && !(some && !all); r++) {
        for (int64_t j = 0; j < keys && !(some && !all); j++) {
            const bool visible = mask->sees(mask->context, row0 + r, key0 + j);
            some = some || visible;
            all = all && visible;
        }
    }
    class = !some ? TILE_SKIP : all ? TILE_FULL : TILE_PARTIAL;
    // END 2
    return class;
}

// The first pass: offsets [query_blocks + 1].
static void count_blocks(BlockCsr *csr, const AnyMask *mask) {
    // GAP 3: where each query block's list begins, and behind them where the last one ends
    csr->offsets[0] = 0;
    for (int64_t i = 0; i < csr->query_blocks; i++) {
        csr->offsets[i + 1] = csr->offsets[i];
        for (int64_t j = 0; j < csr->key_blocks; j++) {
            csr->offsets[i + 1] += block_class(mask, i, j) != TILE_SKIP ? 1 : 0;
        }
    }
    // END 3
}

// The second pass: blocks and full.
static void list_blocks(BlockCsr *csr, const AnyMask *mask) {
    // GAP 4: every block that was counted, ascending, with its flag
    for (int64_t i = 0; i < csr->query_blocks; i++) {
        int64_t at = csr->offsets[i];
        for (int64_t j = 0; j < csr->key_blocks; j++) {
            const TileClass class = block_class(mask, i, j);
            if (class != TILE_SKIP) {
                csr->blocks[at] = (int32_t)j;
                csr->full[at] = class == TILE_FULL ? 1 : 0;
                at++;
            }
        }
    }
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
    // GAP 5: an error that the types of the list make necessary
    if (csr->key_blocks > INT32_MAX) {
        const long long key_blocks = csr->key_blocks;
        csr_free(csr);
        return attn_fail(ATTN_ERR_UNSUPPORTED, "%lld key blocks: at most %d", key_blocks,
                         INT32_MAX);
    }
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
