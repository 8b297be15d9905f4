// The questions of chapter 9: the expected answers, counted page by page where that is possible.
#include "tests/grade/grade.h"

#include <math.h>
#include <stddef.h>

// A cache: tokens of a page, KV heads, dimension, layers, bytes of an element.
typedef struct Cache {
    int64_t page_size, heads_kv, dim, layers, element;
} Cache;

static double page_bytes(Cache c) { // K and V, all layers
    return (double)(2 * c.page_size * c.heads_kv * c.dim * c.layers * c.element);
}

static int64_t pages(int64_t tokens, int64_t page_size) {
    int64_t count = 0;
    for (int64_t first = 0; first < tokens; first += page_size) {
        count++;
    }
    return count;
}

static const double kib = 1024, gib = 1024.0 * 1024 * 1024;

static double block_bytes(void) {
    return page_bytes((Cache){32, 8, 128, 1, 2}) / kib;
}

static double cache_tokens(void) {
    const Cache c = {16, 8, 128, 28, 2};
    return floor(40 * gib / page_bytes(c)) * (double)c.page_size;
}

static double table_share(void) {
    return 100 * 4 / page_bytes((Cache){32, 4, 64, 1, 1});
}

// The pages that keys 128 .. 255 lie in.
static double tile_lookups(void) {
    double lookups = 1;
    for (int64_t key = 129; key <= 255; key++) {
        lookups += key / 48 != (key - 1) / 48 ? 1 : 0;
    }
    return lookups;
}

static const int64_t lens[] = {100, 700, 3000, 8001};
enum { SEQUENCES = sizeof(lens) / sizeof(lens[0]) };

static double all_tokens(void) {
    double tokens = 0;
    for (size_t i = 0; i < SEQUENCES; i++) {
        tokens += (double)lens[i];
    }
    return tokens;
}

static double all_pages(int64_t page_size) {
    double count = 0;
    for (size_t i = 0; i < SEQUENCES; i++) {
        count += (double)pages(lens[i], page_size);
    }
    return count;
}

static double preallocation_waste(void) {
    return 100 * (1 - all_tokens() / (SEQUENCES * 16384.0));
}

static double batch_pages(void) {
    return all_pages(64);
}

static double fragmentation(void) {
    return 100 * (1 - all_tokens() / (256 * all_pages(256)));
}

// 48 sequences of 2,010 + 300 tokens in pages of 16: only full pages of the prompt are in common.
static double prefix_saving(void) {
    const double shared = floor(2010.0 / 16), alone = (double)pages(2310, 16);
    return 100 * (1 - (shared + 48 * (alone - shared)) / (48 * alone));
}

static double first_page_beyond(void) {
    const int64_t elements = (int64_t)24 * 4 * 2 * 96;
    int64_t page = 0;
    while (page * elements <= INT32_MAX) {
        page++;
    }
    return (double)page;
}

// What does not come from the cache: the rest, or one token at least.
static double computed_tokens(void) {
    const int64_t prompt = 1600, page_size = 16;
    int64_t found = 0;
    while (found + page_size < prompt) {
        found += page_size;
    }
    return (double)(prompt - found);
}

// A sequence of 1,003 tokens, pages of 16; each of 4 forks appends 20: a copy of the last page, and
// what the fork needs behind it.
static double fork_pages(void) {
    const double old = (double)pages(1003, 16);
    return old + 4 * (1 + (double)pages(1023, 16) - old);
}

static double pages_back(void) {
    double back = 0;
    for (int64_t b = 0; b < 16; b++) { // sequence b has 1000 + b tokens
        back += (double)(pages(1000 + b + 8, 16) - pages(1000 + b + 2, 16));
    }
    return back;
}

const GradeQuestion grade_questions[] = {
    {"q1", 1, block_bytes, 0.001, "KiB",
     "Tokens times KV heads times dim, for K and for V, of 2 bytes each."},
    {"q2", 1, cache_tokens, 1e-6, "tokens",
     "Bytes of a page over all layers; the pages that fit, rounded down; 16 tokens each."},
    {"q3", 1, table_share, 0.005, "%", "4 bytes over those of the page, K and V."},
    {"q4", 1, tile_lookups, 1e-6, "pages",
     "The pages of the first and of the last key, and those between: the tile does not begin where "
     "a page does."},
    {"q5", 1, preallocation_waste, 0.002, "%",
     "Slots that no token uses, over all that were set aside: 4 x 16384."},
    {"q6", 1, batch_pages, 1e-6, "pages", "Each length rounds up on its own."},
    {"q7", 1, fragmentation, 0.005, "%",
     "Slots behind the lengths, over all slots of the pages in use."},
    {"q8", 1, prefix_saving, 0.005, "%",
     "Full pages of the prompt are shared; the tokens behind them lie in each sequence's own "
     "pages, with its own."},
    {"q9", 1, first_page_beyond, 1e-6, "",
     "A page has page_size * heads_kv * 2 * dim elements; the first multiple from 2^31 on."},
    {"q10", 1, computed_tokens, 1e-6, "tokens",
     "At most count - 1 tokens may come from the cache, and only whole blocks."},
    {"q11", 1, fork_pages, 1e-6, "pages",
     "The old sequence keeps its last page, so every fork copies it; then the pages behind it."},
    {"q12", 1, pages_back, 1e-6, "pages",
     "For each length: pages with 8 drafts less pages with 2 of them."},
    {NULL, 0, NULL, 0.0, NULL, NULL},
};
