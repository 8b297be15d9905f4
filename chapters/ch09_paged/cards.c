// Chapter 9's cards: see cards.h.
#include "chapters/ch09_paged/cards.h"

#include <math.h>

double page_bytes(double page, double heads_kv, double dim, double element) {
    return 2 * heads_kv * page * dim * element;
}

int64_t page_lookups(int64_t keys, int64_t page) {
    return attn_ceil_div(keys, page);
}

int64_t page_beyond(const PageLayout *layout, int64_t limit) {
    return attn_ceil_div(limit, page_offset(layout, 1, 0, 0));
}

double page_table_bytes(const AttnShape *shape, int64_t page) {
    double entries = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        entries += (double)page_lookups(attn_keys(shape, b), page);
    }
    return TABLE_ENTRY * entries;
}

// ---- waste --------------------------------------------------------------------------------------

// The next of a series of 64-bit numbers (splitmix64).
static uint64_t next_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

void ragged_lengths(int32_t *lens, int64_t batch, double median, double spread, int32_t longest,
                    uint64_t seed) {
    for (int64_t b = 0; b < batch; b++) {
        double z = -6;
        for (int i = 0; i < 12; i++) {
            z += (double)(next_random(&seed) >> 11) / 9007199254740992.0; // 2^53
        }
        const double length = floor(median * exp(spread * z));
        lens[b] = length < 1 ? 1 : length > longest ? longest : (int32_t)length;
    }
}

PageWaste page_waste(const int32_t *lens, int64_t batch, int64_t page, int64_t reserved) {
    PageWaste waste = {.contiguous = batch * reserved};
    for (int64_t b = 0; b < batch; b++) {
        const int64_t held = attn_ceil_div(lens[b], page) * page;
        waste.used += lens[b];
        waste.paged += held;
        waste.worst = held - lens[b] > waste.worst ? held - lens[b] : waste.worst;
    }
    return waste;
}

// ---- sharing ------------------------------------------------------------------------------------

int64_t pages_apart(int64_t n, int64_t prompt, int64_t own, int64_t page) {
    return n * attn_ceil_div(prompt + own, page);
}

int64_t pages_forked(int64_t n, int64_t prompt, int64_t own, int64_t page) {
    const int64_t full = prompt / page;
    return own == 0 ? attn_ceil_div(prompt, page)
                    : full + n * (attn_ceil_div(prompt + own, page) - full);
}

int64_t pages_copied(int64_t n, int64_t prompt, int64_t own, int64_t page) {
    return own > 0 && prompt % page > 0 ? n - 1 : 0;
}
