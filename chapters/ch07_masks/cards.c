// Chapter 7's cards: see cards.h.
#include "chapters/ch07_masks/cards.h"

#include <stdlib.h>

Mask mask_of_shape(const AttnShape *shape, int64_t batch_index) {
    enum { NO_LIMIT = 1 << 30 }; // a window that no length reaches
    return (Mask){(int)shape->len_q, (int)attn_keys(shape, batch_index), shape->causal,
                  (int)(shape->window < NO_LIMIT ? shape->window : NO_LIMIT)};
}

double mask_visible_pairs(Mask mask) {
    double pairs = 0;
    for (int row = 0; row < mask.len_q; row++) {
        const MaskRange range = mask_row_keys(mask, row);
        pairs += range.end - range.begin;
    }
    return pairs;
}

static int64_t blocks_of(int64_t length, int64_t block) {
    return (length + block - 1) / block;
}

static void add_tile(TileTally *tally, Mask mask, int row0, int block_q, int key0, int block_k) {
    const TileClass class = mask_tile(mask, row0, block_q, key0, block_k);
    if (class != TILE_SKIP) {
        tally->partial += class == TILE_PARTIAL;
        tally->full += class == TILE_FULL;
        tally->visited++;
        tally->keys += mask.keys - key0 < block_k ? mask.keys - key0 : block_k;
    }
}

TileTally mask_tally(Mask mask, int block_q, int block_k) {
    TileTally tally = {.all = blocks_of(mask.len_q, block_q) * blocks_of(mask.keys, block_k)};
    for (int64_t row0 = 0; row0 < mask.len_q; row0 += block_q) {
        for (int64_t key0 = 0; key0 < mask.keys; key0 += block_k) {
            add_tile(&tally, mask, (int)row0, block_q, (int)key0, block_k);
        }
    }
    return tally;
}

TileTally block_list_tally(const BlockList *list, Mask mask) {
    TileTally tally = {.all = list->query_blocks * list->key_blocks};
    for (int64_t i = 0; i < list->query_blocks; i++) {
        for (int32_t at = list->offsets[i]; at < list->offsets[i + 1]; at++) {
            add_tile(&tally, mask, (int)i * BLOCK_SPARSE, BLOCK_SPARSE,
                     list->blocks[at] * BLOCK_SPARSE, BLOCK_SPARSE);
        }
    }
    return tally;
}

// Keys that row `row` sees of a key block.
static int keys_of_block(Mask mask, int row, int key_block) {
    const MaskRange range = mask_row_keys(mask, row);
    const int first = key_block * BLOCK_SPARSE, last = first + BLOCK_SPARSE;
    const int begin = range.begin > first ? range.begin : first;
    const int end = range.end < last ? range.end : last;
    return end > begin ? end - begin : 0;
}

double block_list_visible_pairs(const BlockList *list, Mask mask) {
    double pairs = 0;
    for (int row = 0; row < mask.len_q; row++) {
        const int i = row / BLOCK_SPARSE;
        for (int32_t at = list->offsets[i]; at < list->offsets[i + 1]; at++) {
            pairs += keys_of_block(mask, row, list->blocks[at]);
        }
    }
    return pairs;
}

int64_t block_list_empty_rows(const BlockList *list) {
    int64_t empty = 0;
    for (int64_t i = 0; i < list->query_blocks; i++) {
        empty += list->offsets[i] == list->offsets[i + 1];
    }
    return empty;
}

// ---- formulas -----------------------------------------------------------------------------------

int64_t causal_pairs(int64_t blocks) {
    return blocks * (blocks + 1) / 2;
}

double causal_share(int64_t blocks) {
    return (double)(blocks + 1) / (2.0 * (double)blocks);
}

int64_t window_tiles(int64_t window, int64_t block_q, int64_t block_k) {
    return block_q / block_k + blocks_of(window - 1, block_k);
}

double kv_bytes(double keys, double dim, double element) {
    return 2 * keys * dim * element;
}

// ---- the order of blocks ------------------------------------------------------------------------

// The earliest place is the root of a heap: each place is free no later than the two below it.
static void sink(double *free_at, int64_t slots) {
    int64_t i = 0;
    for (;;) {
        int64_t least = 2 * i + 1;
        if (least + 1 < slots && free_at[least + 1] < free_at[least]) {
            least++;
        }
        if (least >= slots || free_at[least] >= free_at[i]) {
            return;
        }
        const double later = free_at[i];
        free_at[i] = free_at[least];
        free_at[least] = later;
        i = least;
    }
}

double launch_length(const double *costs, int64_t count, int64_t slots) {
    double *free_at = calloc((size_t)slots, sizeof *free_at);
    double length = 0;
    if (free_at == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        free_at[0] += costs[i];
        length = free_at[0] > length ? free_at[0] : length;
        sink(free_at, slots);
    }
    free(free_at);
    return length;
}
