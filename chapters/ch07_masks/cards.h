// Chapter 7's cards: how many tiles a mask leaves to visit, counted with mask.h and by formula, how
// many bytes of K and V that is, and what the order of unequal blocks does to the end of a launch.
// Every number that the lesson quotes comes from here.
#ifndef CH07_CARDS_H
#define CH07_CARDS_H

#include "chapters/ch07_masks/mask.h"
#include "chapters/ch07_masks/masks.h"

#ifdef __cplusplus
extern "C" {
#endif

// The mask of one batch entry of a shape; lengths of up to 2^30.
Mask mask_of_shape(const AttnShape *shape, int64_t batch_index);

// (query, key) pairs that are visible: the arithmetic that has to be done.
double mask_visible_pairs(Mask mask);

// Pairs of a block of queries and a block of keys, one head.
typedef struct TileTally {
    int64_t all;     // of the whole T x S matrix
    int64_t partial; // visited, and a border of the mask runs through the tile
    int64_t full;    // visited, and everything is visible
    int64_t visited; // partial + full; the rest is skipped
    int64_t keys;    // keys of all visited tiles, those behind the last key not counted
} TileTally;

// Counts every tile by what mask_tile says of it. Block sizes are at least 1.
TileTally mask_tally(Mask mask, int block_q, int block_k);

// The same for a list: a listed tile is visited where the mask leaves something of it.
TileTally block_list_tally(const BlockList *list, Mask mask);

// (query, key) pairs that a list and the mask together leave visible.
double block_list_visible_pairs(const BlockList *list, Mask mask);

// Blocks of queries whose list is empty.
int64_t block_list_empty_rows(const BlockList *list);

// ---- formulas -----------------------------------------------------------------------------------

// Causal, T = S = n blocks, square tiles: n (n + 1) / 2 pairs are visited, n of them partial, and
// that is (n + 1) / (2 n) of all.
int64_t causal_pairs(int64_t blocks);
double causal_share(int64_t blocks);

// Tiles that a block of queries visits under a window when neither end of the keys is near: block_q
// / block_k + ceil((window - 1) / block_k), whatever the length. block_q is a multiple of block_k,
// and S - T one of block_k.
int64_t window_tiles(int64_t window, int64_t block_q, int64_t block_k);

// Bytes of K and V of `keys` keys: 2 d bytes-per-element each.
double kv_bytes(double keys, double dim, double element);

// ---- the order of blocks ------------------------------------------------------------------------

// How long a launch takes whose blocks cost costs[0], costs[1], ... and start in this order, each
// where a place is free first; there are `slots` places. In the unit of the costs. -1: no memory.
double launch_length(const double *costs, int64_t count, int64_t slots);

#ifdef __cplusplus
}
#endif

#endif
