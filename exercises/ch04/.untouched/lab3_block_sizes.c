// Lab 3: the block sizes that a fast memory of M bytes allows, and the bytes they cost.
//
// The chapter takes its block sizes from the command line. A kernel has to choose them: its tiles
// must fit, and of those that fit, the ones with the least traffic are wanted.
#include "labs.h"

enum { FLOAT_SIZE = 4 };

// x rounded up to a multiple of `step`, at least one step.
static int64_t round_up(int64_t x, int64_t step) {
    return x <= step ? step : (x + step - 1) / step * step;
}

int64_t tiles_bytes(const CacheBudget *cache, int64_t block_q, int64_t block_k) {
    int64_t stored = 0;  // elements in the storage type
    int64_t working = 0; // elements in float
    // TODO 1: the elements of Q, K and V; of O, the scores, m and l
    (void)block_q, (void)block_k;
    // END 1
    return stored * cache->element_size + working * FLOAT_SIZE;
}

// The largest block_q (with one granule of keys) that fits, by the rule in labs.h. One granule of
// each is known to fit.
static int64_t largest_block_q(const CacheBudget *cache) {
    const int64_t most = round_up(cache->len_q, cache->granule);
    int64_t block_q = cache->granule;
    // TODO 2: block_q
    (void)most;
    // END 2
    return block_q;
}

// The largest block_k that fits beside block_q.
static int64_t largest_block_k(const CacheBudget *cache, int64_t block_q) {
    const int64_t most = round_up(cache->len_kv, cache->granule);
    int64_t block_k = cache->granule;
    // TODO 3: block_k
    (void)most, (void)block_q;
    // END 3
    return block_k;
}

// Bytes between slow memory and the tiles: Q and O once, K and V once for every block of queries.
// The last block of queries may be short, and needs all of K and V like the others.
static int64_t tiled_traffic(const CacheBudget *cache, int64_t block_q) {
    int64_t elements = 0;
    // TODO 4: elements
    (void)block_q;
    // END 4
    return elements * cache->element_size;
}

AttnStatus choose_blocks(const CacheBudget *cache, BlockChoice *choice) {
    // TODO 5: the error, with a message that names the bytes needed and the bytes there are
    // END 5
    choice->block_q = largest_block_q(cache);
    choice->block_k = largest_block_k(cache, choice->block_q);
    choice->tile_bytes = tiles_bytes(cache, choice->block_q, choice->block_k);
    choice->traffic = tiled_traffic(cache, choice->block_q);
    return ATTN_OK;
}
