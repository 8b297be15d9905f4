// Chapter 6's cards: how much of a GPU one query keeps busy, how long a cache takes to read at
// least, what parts cost, and how even the blocks of a ragged batch are. Every number of the lesson
// that is computed rather than measured comes from here or from decode_waves and choose_splits.
#ifndef CH06_CARDS_H
#define CH06_CARDS_H

#include "common/attn.h"
#include "common/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

// Queries of a head that share a block: one where there is one, else DECODE_ROWS.
int64_t decode_tile_queries(int64_t len_q);

// Blocks without splits: batch * heads_q * tiles of queries.
int64_t decode_units(const AttnShape *shape);

// The share of the SMs that have a block to work on: at most 1. 0 where there are no SMs.
double decode_busy(double blocks, double multiprocessors);

// Keys of a part: ceil(keys / splits), at least 1.
int64_t decode_part_keys(int64_t keys, int64_t splits);

// Parts that have keys: as many of decode_part_keys each as it takes, at least 1.
int64_t decode_parts(int64_t keys, int64_t splits);

// The model that choose_splits minimises, in keys: a wave of blocks takes as long as its keys and
// `block_cost` more, so ceil(units s / slots) (ceil(keys / s) + block_cost), where s counts the
// parts that have keys. 0 where slots is 0.
double decode_model_keys(int64_t units, int64_t keys, int64_t slots, int64_t block_cost,
                         int64_t splits);

// Bytes that one query row's parts write, and the merge reads again: parts 4 (dim + 1), a float32 O
// and an LSE each.
double decode_part_bytes(int64_t parts, int64_t dim);

// Bytes that split_kv_unfused writes and reads in its workspace for one query row. Its scores are
// written twice (once as exponentials) and read four times: 8 S and 16 S bytes. Of a part it writes
// O, the maximum, the sum and the weight, and reads the maximum once more: 4 (dim + 3) and
// 4 (dim + 4).
double decode_unfused_written(int64_t keys, int64_t parts, int64_t dim);
double decode_unfused_read(int64_t keys, int64_t parts, int64_t dim);

// ---- ragged batches -----------------------------------------------------------------------------

// The blocks of one head over a batch.
typedef struct DecodeBalance {
    int64_t blocks;  // with keys
    int64_t longest; // keys of the longest
    double mean;     // keys of a block
} DecodeBalance;

// Blocks of at most `part_keys` keys each: an entry has as many as it needs.
DecodeBalance decode_equal_parts(const int32_t *lens, int64_t batch, int64_t part_keys);

// Every entry cut into `splits` parts of its own ceil(length / splits) keys.
DecodeBalance decode_equal_counts(const int32_t *lens, int64_t batch, int64_t splits);

#ifdef __cplusplus
}
#endif

#endif
