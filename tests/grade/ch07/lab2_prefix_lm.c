// The suite of lab 2, prefix-LM: the predicate and tiles by hand, then every tile of every small
// problem against a look at each pair; totals by hand, against the suite's own count, and large.
#include "exercises/ch07/labs.h"
#include "tests/grade/grade.h"

const char grade_title[] = "tile classes of a prefix-LM mask";

static const char *class_name(TileClass class) {
    return class == TILE_SKIP ? "SKIP" : class == TILE_PARTIAL ? "PARTIAL" : "FULL";
}

// The suite's own rule, counted from the end of the keys.
static bool sees(const PrefixMask *mask, int64_t row, int64_t key) {
    const int64_t queries_behind = mask->len_q - 1 - row;
    return key < mask->prefix || key < mask->len_kv - queries_behind;
}

// ---- the predicate ------------------------------------------------------------------------------

// `want` has a text of x and . for every query, one character a key.
static void expect_mask(PrefixMask mask, const char *const *want) {
    for (int64_t i = 0; i < mask.len_q; i++) {
        grade_case("T = %lld, S = %lld, prefix %lld; row %lld sees %s", (long long)mask.len_q,
                   (long long)mask.len_kv, (long long)mask.prefix, (long long)i, want[i]);
        for (int64_t j = 0; want[i][j] != '\0'; j++) {
            if (prefix_sees(&mask, i, j) != (want[i][j] == 'x')) {
                grade_fail("key %lld: got %s, expected %s", (long long)j,
                           want[i][j] == 'x' ? "hidden" : "visible",
                           want[i][j] == 'x' ? "visible" : "hidden");
            }
        }
    }
}

static void test_square_mask(void) {
    expect_mask((PrefixMask){5, 5, 3},
                (const char *[]){"xxx..", "xxx..", "xxx..", "xxxx.", "xxxxx"});
    expect_mask((PrefixMask){3, 3, 0}, (const char *[]){"x..", "xx.", "xxx"});
}

static void test_mask_of_a_chunk(void) {
    expect_mask((PrefixMask){2, 6, 3}, (const char *[]){"xxxxx.", "xxxxxx"});
    expect_mask((PrefixMask){3, 6, 5}, (const char *[]){"xxxxx.", "xxxxx.", "xxxxxx"});
    expect_mask((PrefixMask){1, 4, 1}, (const char *[]){"xxxx"});
}

// ---- one tile -----------------------------------------------------------------------------------

typedef struct Place {
    int64_t row0, rows, key0, keys;
} Place;

static void expect_class(PrefixMask mask, Place at, TileClass want) {
    grade_case("T = %lld, S = %lld, prefix %lld; rows %lld..%lld, keys %lld..%lld",
               (long long)mask.len_q, (long long)mask.len_kv, (long long)mask.prefix,
               (long long)at.row0, (long long)(at.row0 + at.rows - 1), (long long)at.key0,
               (long long)(at.key0 + at.keys - 1));
    const TileClass got = prefix_tile(&mask, at.row0, at.rows, at.key0, at.keys);
    if (got != want) {
        grade_fail("got %s, expected %s", class_name(got), class_name(want));
    }
}

static void test_square_tiles(void) {
    const PrefixMask mask = {12, 12, 4};
    expect_class(mask, (Place){0, 4, 0, 4}, TILE_FULL);
    expect_class(mask, (Place){4, 4, 4, 4}, TILE_PARTIAL);
    expect_class(mask, (Place){0, 4, 4, 4}, TILE_SKIP);
    expect_class(mask, (Place){8, 4, 4, 4}, TILE_FULL);
}

static void test_prefix_border(void) {
    const PrefixMask mask = {12, 12, 6}; // rows 0 to 5 see keys 0 to 5
    expect_class(mask, (Place){0, 4, 4, 2}, TILE_FULL);
    expect_class(mask, (Place){0, 4, 4, 4}, TILE_PARTIAL);
    expect_class(mask, (Place){0, 4, 6, 2}, TILE_SKIP);
    expect_class(mask, (Place){4, 4, 0, 7}, TILE_PARTIAL); // row 6 sees key 6, rows 4 and 5 do not
    expect_class(mask, (Place){6, 2, 0, 7}, TILE_FULL);
}

static void test_bottom_right(void) {
    expect_class((PrefixMask){1, 4096, 100}, (Place){0, 1, 4032, 64}, TILE_FULL);
    const PrefixMask chunk = {4, 12, 3}; // row 0 sees keys 0 to 8
    expect_class(chunk, (Place){0, 4, 4, 4}, TILE_FULL);
    expect_class(chunk, (Place){0, 4, 8, 4}, TILE_PARTIAL);
    expect_class(chunk, (Place){0, 2, 10, 2}, TILE_SKIP);
    const PrefixMask wide = {4, 12, 10};
    expect_class(wide, (Place){0, 2, 8, 2}, TILE_FULL);
    expect_class(wide, (Place){0, 4, 8, 4}, TILE_PARTIAL);
}

static void test_tails(void) {
    const PrefixMask mask = {6, 6, 6}; // everything is visible
    expect_class(mask, (Place){0, 4, 0, 4}, TILE_FULL);
    expect_class(mask, (Place){0, 4, 4, 4}, TILE_PARTIAL); // keys 6 and 7 do not exist
    expect_class(mask, (Place){4, 4, 0, 4}, TILE_FULL);    // rows 6 and 7 do not count
    expect_class(mask, (Place){0, 4, 8, 4}, TILE_SKIP);
    expect_class(mask, (Place){8, 4, 0, 4}, TILE_SKIP);
    expect_class((PrefixMask){6, 6, 0}, (Place){4, 4, 5, 1}, TILE_PARTIAL); // row 4 lacks key 5
}

static TileClass class_by_pairs(const PrefixMask *mask, Place at) {
    int64_t seen = 0, pairs = 0;
    for (int64_t i = at.row0; i < at.row0 + at.rows && i < mask->len_q; i++) {
        for (int64_t j = at.key0; j < at.key0 + at.keys; j++) {
            seen += j < mask->len_kv && sees(mask, i, j) ? 1 : 0;
            pairs++;
        }
    }
    return seen == 0 ? TILE_SKIP : seen < pairs ? TILE_PARTIAL : TILE_FULL;
}

// Every tile, also across the ends, of every problem with at most 6 queries and 6 keys.
static void test_every_small_tile(void) {
    for (int64_t n = 0; n < 6 * 6 * 7; n++) {
        const PrefixMask mask = {n % 6 + 1, n / 6 % 6 + 1, n / 36};
        for (int64_t t = 0; t < 7 * 4 * 8 * 4 && mask.prefix <= mask.len_kv; t++) {
            const Place at = {t % 7, t / 7 % 4 + 1, t / 28 % 8, t / 224 + 1};
            const TileClass want = class_by_pairs(&mask, at);
            if (prefix_tile(&mask, at.row0, at.rows, at.key0, at.keys) != want) {
                expect_class(mask, at, want);
            }
        }
    }
}

// ---- totals -------------------------------------------------------------------------------------

static void expect_totals(PrefixMask mask, int64_t block_q, int64_t block_k, PrefixTotals want) {
    grade_case("T = %lld, S = %lld, prefix %lld, tiles of %lld x %lld", (long long)mask.len_q,
               (long long)mask.len_kv, (long long)mask.prefix, (long long)block_q,
               (long long)block_k);
    const PrefixTotals got = prefix_totals(&mask, block_q, block_k);
    expect_int("pairs", got.pairs, want.pairs);
    expect_int("visited", got.visited, want.visited);
    expect_int("partial", got.partial, want.partial);
}

static void test_totals(void) {
    expect_totals((PrefixMask){5, 5, 3}, 2, 2, (PrefixTotals){18, 7, 3});
    expect_totals((PrefixMask){2, 6, 3}, 2, 2, (PrefixTotals){11, 3, 1});
    expect_totals((PrefixMask){8, 8, 0}, 4, 4, (PrefixTotals){36, 3, 2});
    expect_totals((PrefixMask){8, 8, 8}, 4, 4, (PrefixTotals){64, 4, 0});
}

static PrefixTotals totals_by_pairs(const PrefixMask *mask, int64_t block_q, int64_t block_k) {
    PrefixTotals totals = {0, 0, 0};
    for (int64_t i = 0; i < mask->len_q; i++) {
        for (int64_t j = 0; j < mask->len_kv; j++) {
            totals.pairs += sees(mask, i, j) ? 1 : 0;
        }
    }
    for (int64_t i = 0; i < mask->len_q; i += block_q) {
        for (int64_t j = 0; j < mask->len_kv; j += block_k) {
            const TileClass class = class_by_pairs(mask, (Place){i, block_q, j, block_k});
            totals.visited += class != TILE_SKIP ? 1 : 0;
            totals.partial += class == TILE_PARTIAL ? 1 : 0;
        }
    }
    return totals;
}

static void test_every_small_problem(void) {
    const int64_t lens[] = {1, 3, 4, 7, 8, 9, 17}, blocks[] = {1, 3, 4, 8, 20};
    for (int n = 0; n < 7 * 7 * 5 * 5; n++) {
        const int64_t len_q = lens[n % 7], len_kv = lens[n / 7 % 7];
        const int64_t block_q = blocks[n / 49 % 5], block_k = blocks[n / 245];
        for (int64_t prefix = 0; prefix <= len_kv; prefix += prefix < 9 ? 1 : 4) {
            const PrefixMask mask = {len_q, len_kv, prefix};
            expect_totals(mask, block_q, block_k, totals_by_pairs(&mask, block_q, block_k));
        }
    }
}

// Sums far beyond 32 bits, and so many pairs that they cannot be counted one by one.
static void test_past_32_bits(void) {
    const int64_t n = INT64_C(1) << 30, block = INT64_C(1) << 14, blocks = n / block;
    expect_totals((PrefixMask){n, n, 0}, block, block,
                  (PrefixTotals){n * (n + 1) / 2, blocks * (blocks + 1) / 2, blocks});
    expect_totals((PrefixMask){n, n, n}, block, block, (PrefixTotals){n * n, blocks * blocks, 0});
    const int64_t half = n / 2, few = blocks / 2; // the queries of the second half rise
    expect_totals((PrefixMask){n, n, half}, block, block,
                  (PrefixTotals){half * half + half * (half + 1 + n) / 2,
                                 few * few + few * (few + 1 + blocks) / 2, few});
}

// ---- masks of their own kind --------------------------------------------------------------------

static void test_rows_without_keys(void) {
    const PrefixMask mask = {12, 4, 0}; // rows 0 to 7 see nothing
    expect_mask((PrefixMask){4, 2, 0}, (const char *[]){"..", "..", "x.", "xx"});
    expect_class(mask, (Place){4, 4, 0, 4}, TILE_SKIP);
    expect_class(mask, (Place){6, 4, 0, 2}, TILE_PARTIAL);
    expect_totals(mask, 4, 2, (PrefixTotals){10, 2, 2});
    expect_totals(mask, 1, 4, (PrefixTotals){10, 4, 3});
}

static void test_more_queries_than_keys(void) {
    expect_mask((PrefixMask){4, 2, 1}, (const char *[]){"x.", "x.", "x.", "xx"});
    expect_totals((PrefixMask){12, 4, 2}, 4, 2, (PrefixTotals){27, 4, 1});
}

const GradeTest grade_tests[] = {
    {"square_mask", 1, false, test_square_mask,
     "A key below the prefix is visible to every query, also to those before it; any other up to "
     "the query's own key."},
    {"mask_of_a_chunk", 1, false, test_mask_of_a_chunk,
     "The queries are the last T of S positions: a query's own key is row + (S - T). The prefix "
     "counts from key 0, whatever T is."},
    {"square_tiles", 1, false, test_square_tiles,
     "Each query sees the keys before row_end(row), and row_end does not fall from one query to "
     "the next. Which query of the tile sees most, and which least?"},
    {"prefix_border", 1, false, test_prefix_border,
     "The border of the prefix need not be one of tiles. A tile is skipped only when its last "
     "query does not see its first key, and full only when its first query sees its last key."},
    {"bottom_right", 1, false, test_bottom_right,
     "The last query's own key is the last key, in row_end as well as in prefix_sees."},
    {"tails", 1, false, test_tails,
     "A tile across key S has keys that nobody sees: it is never full. Rows from T on do not make "
     "it partial, and do not make it visited."},
    {"every_small_tile", 2, false, test_every_small_tile,
     "Look at the tile of the case pair by pair: which of them are visible?"},
    {"totals", 1, false, test_totals,
     "A tile counts as visited when the block's last query sees its first key, and as full when "
     "the first query sees its last key. Pairs: queries, not keys, are of two kinds."},
    {"every_small_problem", 2, false, test_every_small_problem,
     "Visited tiles are rounded up, full ones down, also at key S. In the pairs, the number of "
     "queries that see just the prefix lies between 0 and T."},
    {"past_32_bits", 1, false, test_past_32_bits, "Keep every count in int64_t.",
     "2^30 queries and 2^32 tiles: look once at each block of queries, and sum the pairs by a "
     "formula."},
    {"rows_without_keys", 1, true, test_rows_without_keys,
     "With T > S and no prefix the first T - S queries see nothing: the end of their range is 0, "
     "not a negative number."},
    {"more_queries_than_keys", 1, true, test_more_queries_than_keys,
     "With T > S the first queries see the prefix all the same."},
    {NULL, 0, false, NULL, NULL, NULL},
};
