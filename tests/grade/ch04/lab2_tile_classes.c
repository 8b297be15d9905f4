// The suite of lab 2, tile classes: tiles by hand, then every tile of every small problem against a
// look at each pair; the counter against the cards and against the suite's own count.
#include "exercises/ch04/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>

const char grade_title[] = "tile classes and block pairs";

static const char *class_name(TileClass class) {
    return class == TILE_SKIP ? "SKIP" : class == TILE_PARTIAL ? "PARTIAL" : "FULL";
}

static void set_case(const TileMask *mask, const Tile *tile) {
    char window[48] = "";
    if (mask->window > 0) {
        snprintf(window, sizeof(window), ", window %lld", (long long)mask->window);
    }
    grade_case("T = %lld, S = %lld, %s%s; rows %lld..%lld, keys %lld..%lld", (long long)mask->len_q,
               (long long)mask->len_kv, mask->causal ? "causal" : "not causal", window,
               (long long)tile->row_begin, (long long)tile->row_end - 1, (long long)tile->key_begin,
               (long long)tile->key_end - 1);
}

static void expect_class(TileMask mask, Tile tile, TileClass want) {
    set_case(&mask, &tile);
    const TileClass got = classify_tile(&mask, &tile);
    if (got != want) {
        grade_fail("got %s, expected %s", class_name(got), class_name(want));
    }
}

// ---- one tile -----------------------------------------------------------------------------------

static void test_square_causal(void) {
    const TileMask mask = {12, 12, true, 0};
    expect_class(mask, (Tile){4, 8, 0, 4}, TILE_FULL);
    expect_class(mask, (Tile){4, 8, 4, 8}, TILE_PARTIAL);
    expect_class(mask, (Tile){4, 8, 8, 12}, TILE_SKIP);
    expect_class((TileMask){12, 12, false, 0}, (Tile){0, 4, 8, 12}, TILE_FULL);
}

static void test_corner_of_the_diagonal(void) {
    const TileMask mask = {12, 12, true, 0};
    expect_class(mask, (Tile){4, 8, 7, 12}, TILE_PARTIAL); // row 7 sees key 7 and nothing else
    expect_class(mask, (Tile){4, 8, 0, 5}, TILE_FULL);     // row 4 sees keys 0 to 4
    expect_class(mask, (Tile){4, 8, 0, 6}, TILE_PARTIAL);  // row 4 does not see key 5
    expect_class(mask, (Tile){7, 8, 7, 8}, TILE_FULL);
    expect_class(mask, (Tile){7, 8, 8, 9}, TILE_SKIP);
}

static void test_bottom_right(void) {
    const TileMask decode = {1, 4096, true, 0}; // one query sees all keys
    expect_class(decode, (Tile){0, 1, 4032, 4096}, TILE_FULL);
    expect_class(decode, (Tile){0, 1, 0, 64}, TILE_FULL);
    const TileMask chunk = {4, 12, true, 0}; // row 0 sees keys 0 to 8
    expect_class(chunk, (Tile){0, 4, 4, 8}, TILE_FULL);
    expect_class(chunk, (Tile){0, 4, 8, 12}, TILE_PARTIAL);
    expect_class(chunk, (Tile){0, 2, 10, 12}, TILE_SKIP);
}

static void test_window(void) {
    const TileMask mask = {16, 16, true, 4}; // row 7 sees keys 4 to 7
    expect_class(mask, (Tile){7, 8, 4, 8}, TILE_FULL);
    expect_class(mask, (Tile){7, 8, 3, 8}, TILE_PARTIAL);
    expect_class(mask, (Tile){7, 8, 0, 4}, TILE_SKIP);
    expect_class(mask, (Tile){6, 8, 0, 4}, TILE_PARTIAL); // row 6 sees key 3
    expect_class(mask, (Tile){8, 12, 8, 12}, TILE_PARTIAL);
    const TileMask chunk = {4, 16, true, 4}; // row 0 sees keys 9 to 12
    expect_class(chunk, (Tile){0, 1, 9, 13}, TILE_FULL);
    expect_class(chunk, (Tile){0, 4, 4, 9}, TILE_SKIP);
}

static bool sees(const TileMask *mask, int64_t i, int64_t j) {
    const int64_t last = i + mask->len_kv - mask->len_q; // the query's own key
    return !mask->causal || (j <= last && (mask->window == 0 || j > last - mask->window));
}

static TileClass class_by_pairs(const TileMask *mask, const Tile *tile) {
    int64_t seen = 0, pairs = 0;
    for (int64_t i = tile->row_begin; i < tile->row_end; i++) {
        for (int64_t j = tile->key_begin; j < tile->key_end; j++) {
            seen += sees(mask, i, j) ? 1 : 0;
            pairs++;
        }
    }
    return seen == 0 ? TILE_SKIP : seen < pairs ? TILE_PARTIAL : TILE_FULL;
}

// Every tile of every problem with at most 6 queries and 6 keys.
static void test_every_small_tile(void) {
    for (int64_t n = 0; n < 6 * 6 * 8; n++) {
        const int64_t setting = n % 8; // 0: not causal, 1: causal, 2..7: a window of 1..6
        const TileMask mask = {n / 8 % 6 + 1, n / 48 + 1, setting > 0,
                               setting > 1 ? setting - 1 : 0};
        for (int64_t t = 0; t < 6 * 6 * 6 * 6; t++) {
            const Tile tile = {t % 6, t / 6 % 6 + 1, t / 36 % 6, t / 216 + 1};
            if (tile.row_begin < tile.row_end && tile.row_end <= mask.len_q &&
                tile.key_begin < tile.key_end && tile.key_end <= mask.len_kv) {
                const TileClass want = class_by_pairs(&mask, &tile);
                if (classify_tile(&mask, &tile) != want) {
                    expect_class(mask, tile, want);
                }
            }
        }
    }
}

// ---- the counter --------------------------------------------------------------------------------

static void expect_totals(TileMask mask, int64_t block_q, int64_t block_k, int64_t heads,
                          TileTotals want) {
    grade_case("T = %lld, S = %lld, causal %d, window %lld, blocks of %lld x %lld, %lld heads",
               (long long)mask.len_q, (long long)mask.len_kv, mask.causal, (long long)mask.window,
               (long long)block_q, (long long)block_k, (long long)heads);
    const TileTotals got = count_tiles(&mask, block_q, block_k, heads);
    expect_int("all", got.all, want.all);
    expect_int("visited", got.visited, want.visited);
    expect_int("full", got.full, want.full);
    expect_int("partial", got.partial, want.partial);
}

static void test_causal_cards(void) {
    const TileMask two_thousand = {2048, 2048, true, 0}, eight = {8192, 8192, true, 0};
    expect_totals(two_thousand, 128, 128, 1, (TileTotals){136, 120, 16, 256});    // 53 %
    expect_totals(two_thousand, 64, 64, 1, (TileTotals){528, 496, 32, 1024});     // 52 %
    expect_totals(eight, 128, 128, 1, (TileTotals){2080, 2016, 64, 4096});        // 51 %
    expect_totals(eight, 128, 128, 32, (TileTotals){66560, 64512, 2048, 131072}); // 32 heads
}

static void test_rows_without_keys(void) {
    const TileMask mask = {12, 4, true, 0}; // rows 0 to 7 see nothing
    expect_totals(mask, 4, 2, 1, (TileTotals){2, 0, 2, 6});
    expect_totals(mask, 8, 4, 1, (TileTotals){1, 0, 1, 2});
    expect_totals((TileMask){12, 4, true, 1}, 1, 1, 1, (TileTotals){4, 4, 0, 48});
}

static void test_windowed_rows(void) {
    const TileMask mask = {64, 64, true, 16};
    expect_totals(mask, 16, 16, 1, (TileTotals){7, 0, 7, 16});
    expect_totals(mask, 8, 8, 1, (TileTotals){21, 7, 14, 64});
    expect_totals((TileMask){64, 64, true, 17}, 16, 16, 1, (TileTotals){7, 0, 7, 16});
    expect_totals((TileMask){1, 4096, true, 100}, 16, 64, 8, (TileTotals){16, 8, 8, 512});
}

static TileTotals totals_by_tiles(const TileMask *mask, int64_t block_q, int64_t block_k) {
    TileTotals totals = {0, 0, 0, 0};
    for (int64_t i = 0; i < mask->len_q; i += block_q) {
        for (int64_t j = 0; j < mask->len_kv; j += block_k) {
            const int64_t i_end = i + block_q, j_end = j + block_k;
            const Tile tile = {i, i_end < mask->len_q ? i_end : mask->len_q, j,
                               j_end < mask->len_kv ? j_end : mask->len_kv};
            const TileClass class = class_by_pairs(mask, &tile);
            totals.all++;
            totals.full += class == TILE_FULL ? 1 : 0;
            totals.partial += class == TILE_PARTIAL ? 1 : 0;
        }
    }
    totals.visited = totals.full + totals.partial;
    return totals;
}

static void test_every_small_problem(void) {
    const int64_t lens[] = {1, 2, 7, 16, 33}, windows[] = {0, 1, 2, 5, 16, 40};
    const int64_t blocks[] = {1, 3, 4, 8, 50};
    for (int n = 0; n < 5 * 5 * 7 * 5 * 5; n++) {
        const int setting = n / 25 % 7; // 6: not causal
        const TileMask mask = {lens[n % 5], lens[n / 5 % 5], setting < 6, windows[setting % 6]};
        const int64_t block_q = blocks[n / 175 % 5], block_k = blocks[n / 875];
        expect_totals(mask, block_q, block_k, 1, totals_by_tiles(&mask, block_q, block_k));
    }
}

// More than 2^31 tiles, in a problem that is ordinary but long.
static void test_past_32_bits(void) {
    const int64_t blocks = 65536; // 2^20 tokens in blocks of 16
    const TileMask million = {16 * blocks, 16 * blocks, true, 0};
    const int64_t below = blocks * (blocks - 1) / 2;
    expect_totals(million, 16, 16, 1, (TileTotals){below + blocks, below, blocks, blocks * blocks});
    expect_totals(
        million, 16, 16, 48,
        (TileTotals){48 * (below + blocks), 48 * below, 48 * blocks, 48 * blocks * blocks});
    const int64_t keys = INT64_C(3000000000);
    expect_totals((TileMask){2, keys, true, 0}, 1, 1, 1,
                  (TileTotals){2 * keys - 1, 2 * keys - 1, 0, 2 * keys});
}

const GradeTest grade_tests[] = {
    {"square_causal", 1, false, test_square_causal,
     "The smallest distance is that of the first key to the last row, the largest that of the last "
     "key to the first row. All above 0: skip. None above 0: full."},
    {"corner_of_the_diagonal", 1, false, test_corner_of_the_diagonal,
     "A tile is skipped only when its last row does not see its first key, and full only when its "
     "first row sees its last key; both ends of a tile are exclusive."},
    {"bottom_right", 1, false, test_bottom_right,
     "The last query's own key is the last key: query i stands at key i + (S - T)."},
    {"window", 1, false, test_window,
     "A window of W keys counts the query's own: the distances -W + 1 to 0 are visible, -W is "
     "not."},
    {"every_small_tile", 2, false, test_every_small_tile,
     "Look at the tile of the case pair by pair: which of its distances are visible?"},
    {"causal_cards", 1, false, test_causal_cards,
     "Some row of a block sees keys up to the last row's own key, every row those up to the first "
     "row's. A half-visible block counts as touched, and not as inside."},
    {"rows_without_keys", 1, false, test_rows_without_keys,
     "With T > S the first T - S rows see nothing; a block of such rows visits no tile."},
    {"windowed_rows", 1, false, test_windowed_rows,
     "Some row sees keys from the first row's window on, every row those from the last row's "
     "window on."},
    {"every_small_problem", 2, false, test_every_small_problem,
     "The last block of keys may be short: it is inside when the range reaches key S. And where no "
     "key is seen by every row, no block is inside: not a negative number of them."},
    {"past_32_bits", 1, false, test_past_32_bits, "Keep every count in int64_t.",
     "The case has 2^32 tiles: count those of a block of rows by arithmetic, not one by one."},
    {NULL, 0, false, NULL, NULL, NULL},
};
