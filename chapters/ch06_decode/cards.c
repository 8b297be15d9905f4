// Chapter 6's cards: see cards.h.
#include "chapters/ch06_decode/cards.h"

#include "chapters/ch06_decode/decode.h"

#include <math.h>

int64_t decode_tile_queries(int64_t len_q) {
    return len_q > 1 ? DECODE_ROWS : 1;
}

int64_t decode_units(const AttnShape *shape) {
    return shape->batch * shape->heads_q *
           attn_ceil_div(shape->len_q, decode_tile_queries(shape->len_q));
}

double decode_busy(double blocks, double multiprocessors) {
    return multiprocessors > 0 ? fmin(1.0, blocks / multiprocessors) : 0.0;
}

int64_t decode_part_keys(int64_t keys, int64_t splits) {
    const int64_t part = attn_ceil_div(keys, splits);
    return part > 1 ? part : 1;
}

int64_t decode_parts(int64_t keys, int64_t splits) {
    const int64_t parts = attn_ceil_div(keys, decode_part_keys(keys, splits));
    return parts > 1 ? parts : 1;
}

double decode_model_keys(int64_t units, int64_t keys, int64_t slots, int64_t block_cost,
                         int64_t splits) {
    if (slots <= 0) {
        return 0.0;
    }
    const double waves = (double)attn_ceil_div(units * decode_parts(keys, splits), slots);
    return waves * (double)(attn_ceil_div(keys, splits) + block_cost);
}

double decode_part_bytes(int64_t parts, int64_t dim) {
    return sizeof(float) * (double)parts * (double)(dim + 1);
}

double decode_unfused_written(int64_t keys, int64_t parts, int64_t dim) {
    return sizeof(float) * (2.0 * (double)keys + (double)parts * (double)(dim + 3));
}

double decode_unfused_read(int64_t keys, int64_t parts, int64_t dim) {
    return sizeof(float) * (4.0 * (double)keys + (double)parts * (double)(dim + 4));
}

// Adds an entry of `keys` keys in blocks of `part_keys`; *total sums the keys.
static void add_entry(DecodeBalance *balance, int64_t *total, int64_t keys, int64_t part_keys) {
    const int64_t longest = keys < part_keys ? keys : part_keys;
    balance->blocks += attn_ceil_div(keys, part_keys);
    balance->longest = longest > balance->longest ? longest : balance->longest;
    *total += keys;
}

static DecodeBalance with_mean(DecodeBalance balance, int64_t total) {
    balance.mean = balance.blocks > 0 ? (double)total / (double)balance.blocks : 0.0;
    return balance;
}

DecodeBalance decode_equal_parts(const int32_t *lens, int64_t batch, int64_t part_keys) {
    DecodeBalance balance = {0, 0, 0};
    int64_t total = 0;
    for (int64_t b = 0; b < batch; b++) {
        add_entry(&balance, &total, lens[b], part_keys);
    }
    return with_mean(balance, total);
}

DecodeBalance decode_equal_counts(const int32_t *lens, int64_t batch, int64_t splits) {
    DecodeBalance balance = {0, 0, 0};
    int64_t total = 0;
    for (int64_t b = 0; b < batch; b++) {
        add_entry(&balance, &total, lens[b], decode_part_keys(lens[b], splits));
    }
    return with_mean(balance, total);
}
