// The suite of lab 1, packed rows: rows and tiles by hand in both orders, then every small problem
// against a look at every query.
#include "exercises/ch08/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>

const char grade_title[] = "packed rows";

static void set_case(const PackedRows *p) {
    grade_case("%s, %lld heads, %lld KV heads, T = %lld, S = %lld, window %lld, tiles of %lld rows",
               p->order == TOKEN_MAJOR ? "token-major" : "head-major", (long long)p->heads_q,
               (long long)p->heads_kv, (long long)p->len_q, (long long)p->len_kv,
               (long long)p->window, (long long)p->tile_rows);
}

// ---- rows ---------------------------------------------------------------------------------------

static void expect_source(const PackedRows *p, int64_t kv_head, int64_t row, int64_t head,
                          int64_t token) {
    char what[96];
    set_case(p);
    const HeadToken got = packed_source(p, kv_head, row);
    snprintf(what, sizeof(what), "KV head %lld, row %lld: head", (long long)kv_head,
             (long long)row);
    expect_int(what, got.head, head);
    snprintf(what, sizeof(what), "KV head %lld, row %lld: token", (long long)kv_head,
             (long long)row);
    expect_int(what, got.token, token);
}

static void expect_place(const PackedRows *p, int64_t head, int64_t token, int64_t kv_head,
                         int64_t row) {
    char what[96];
    set_case(p);
    const PackedPlace got = packed_place(p, (HeadToken){head, token});
    snprintf(what, sizeof(what), "head %lld, token %lld: KV head", (long long)head,
             (long long)token);
    expect_int(what, got.kv_head, kv_head);
    snprintf(what, sizeof(what), "head %lld, token %lld: row", (long long)head, (long long)token);
    expect_int(what, got.row, row);
}

// Every row of every KV head, in the order in which the rows are counted, and back.
static void expect_all_rows(const PackedRows *p) {
    const bool by_token = p->order == TOKEN_MAJOR;
    const int64_t group = p->heads_q / p->heads_kv, outer = by_token ? p->len_q : group;
    for (int64_t h = 0; h < p->heads_kv; h++) {
        int64_t row = 0;
        for (int64_t i = 0; i < outer; i++) {
            for (int64_t j = 0; j < (by_token ? group : p->len_q); j++, row++) {
                const int64_t head = h * group + (by_token ? j : i), token = by_token ? i : j;
                expect_source(p, h, row, head, token);
                expect_place(p, head, token, h, row);
            }
        }
    }
}

static void test_token_major(void) {
    const PackedRows p = {4, 2, 3, 3, 0, 16, TOKEN_MAJOR};
    expect_source(&p, 0, 0, 0, 0);
    expect_source(&p, 0, 1, 1, 0);
    expect_source(&p, 0, 4, 0, 2);
    expect_source(&p, 1, 5, 3, 2);
}

static void test_head_major(void) {
    const PackedRows p = {4, 2, 3, 3, 0, 16, HEAD_MAJOR};
    expect_source(&p, 0, 2, 0, 2);
    expect_source(&p, 0, 3, 1, 0);
    expect_source(&p, 1, 4, 3, 1);
}

static void test_place(void) {
    const PackedRows p = {4, 2, 3, 3, 0, 16, TOKEN_MAJOR}, q = {4, 2, 3, 3, 0, 16, HEAD_MAJOR};
    expect_place(&p, 0, 0, 0, 0);
    expect_place(&p, 3, 2, 1, 5);
    expect_place(&p, 2, 1, 1, 2);
    expect_place(&q, 3, 2, 1, 5);
    expect_place(&q, 2, 1, 1, 1);
    expect_place(&q, 1, 1, 0, 4);
}

// Groups of every kind; 64 heads and 8 KV heads alone have heads_q = heads_kv squared.
static void test_groups(void) {
    const int64_t heads[][2] = {{6, 2}, {6, 3}, {8, 1}, {5, 5}, {12, 4}, {64, 8}, {71, 71}};
    for (int i = 0; i < 7 * 4; i++) {
        const int64_t *h = heads[i / 4];
        const PackedRows p = {
            h[0], h[1], i % 4 < 2 ? 1 : 5, 9, 0, 8, i % 2 ? TOKEN_MAJOR : HEAD_MAJOR};
        expect_all_rows(&p);
    }
}

// ---- keys ---------------------------------------------------------------------------------------

static void expect_range(const char *what, KeyRange got, int64_t begin, int64_t end) {
    if (begin == end ? got.begin != got.end : got.begin != begin || got.end != end) {
        grade_fail("%s: got keys %lld .. %lld (end excluded), expected %lld .. %lld", what,
                   (long long)got.begin, (long long)got.end, (long long)begin, (long long)end);
    }
}

static void expect_keys(const PackedRows *p, int64_t row, int64_t begin, int64_t end) {
    char what[64];
    set_case(p);
    const KeyRange got = packed_keys(p, row);
    snprintf(what, sizeof(what), "row %lld", (long long)row);
    expect_range(what, got, begin, end);
    if (begin == end) {
        expect_int("begin where nothing is seen", got.begin, 0);
    }
}

static void test_causal(void) {
    const PackedRows p = {4, 2, 3, 3, 0, 16, TOKEN_MAJOR}, q = {4, 2, 3, 10, 0, 16, HEAD_MAJOR};
    const int64_t p_ends[] = {1, 1, 2, 2, 3, 3}, q_ends[] = {8, 9, 10, 8, 9, 10};
    for (int row = 0; row < 6; row++) {
        expect_keys(&p, row, 0, p_ends[row]);
        expect_keys(&q, row, 0, q_ends[row]);
    }
}

static void test_window(void) {
    const PackedRows p = {6, 2, 4, 10, 3, 16, TOKEN_MAJOR}, q = {6, 2, 4, 4, 2, 16, HEAD_MAJOR};
    for (int row = 0; row < 12; row++) {
        expect_keys(&p, row, row / 3 + 4, row / 3 + 7);
        expect_keys(&q, row, row % 4 > 1 ? row % 4 - 1 : 0, row % 4 + 1);
    }
}

// ---- tiles --------------------------------------------------------------------------------------

static void expect_tile(const PackedRows *p, int64_t tile, PackedTile want) {
    char what[64];
    set_case(p);
    const PackedTile got = packed_tile(p, tile);
    snprintf(what, sizeof(what), "tile %lld: rows", (long long)tile);
    expect_int(what, got.rows, want.rows);
    snprintf(what, sizeof(what), "tile %lld: any", (long long)tile);
    expect_range(what, got.any, want.any.begin, want.any.end);
    snprintf(what, sizeof(what), "tile %lld: all", (long long)tile);
    expect_range(what, got.all, want.all.begin, want.all.end);
}

// By a look at every row of the tile.
static PackedTile tile_by_rows(const PackedRows *p, int64_t tile) {
    const int64_t group = p->heads_q / p->heads_kv;
    PackedTile t = {0, {INT64_MAX, 0}, {0, INT64_MAX}};
    for (int64_t row = tile * p->tile_rows;
         row < (tile + 1) * p->tile_rows && row < group * p->len_q; row++) {
        const int64_t token = p->order == TOKEN_MAJOR ? row / group : row % p->len_q;
        const int64_t own = token + p->len_kv - p->len_q, end = own >= 0 ? own + 1 : 0;
        const int64_t begin = p->window > 0 && end > p->window ? end - p->window : 0;
        t.rows++;
        t.any.begin = begin < t.any.begin ? begin : t.any.begin;
        t.any.end = end > t.any.end ? end : t.any.end;
        t.all.begin = begin > t.all.begin ? begin : t.all.begin;
        t.all.end = end < t.all.end ? end : t.all.end;
    }
    t.all.end = t.all.end > t.all.begin ? t.all.end : t.all.begin;
    return t;
}

static void test_tile(void) {
    const PackedRows p = {6, 2, 4, 20, 0, 4, TOKEN_MAJOR}; // tokens 0 0 0 1 | 1 1 2 2 | 2 3 3 3
    const PackedRows q = {6, 2, 4, 20, 5, 4, TOKEN_MAJOR};
    expect_tile(&p, 0, (PackedTile){4, {0, 18}, {0, 17}});
    expect_tile(&p, 1, (PackedTile){4, {0, 19}, {0, 18}});
    expect_tile(&q, 0, (PackedTile){4, {12, 18}, {13, 17}});
    expect_tile(&q, 2, (PackedTile){4, {14, 20}, {15, 19}});
}

static void test_remainder(void) {
    const PackedRows p = {7, 1, 3, 9, 0, 8, TOKEN_MAJOR}; // 21 rows: 8, 8 and 5
    expect_tile(&p, 1, (PackedTile){8, {0, 9}, {0, 8}});
    expect_tile(&p, 2, (PackedTile){5, {0, 9}, {0, 9}});
    const PackedRows whole = {8, 2, 4, 9, 0, 8, TOKEN_MAJOR},
                     large = {8, 2, 4, 9, 0, 64, HEAD_MAJOR};
    expect_tile(&whole, 1, (PackedTile){8, {0, 9}, {0, 8}});
    expect_tile(&large, 0, (PackedTile){16, {0, 9}, {0, 6}});
}

// From the end of one head to the beginning of the next.
static void test_tile_of_two_heads(void) {
    const PackedRows p = {3, 1, 6, 6, 2, 4, HEAD_MAJOR}; // tokens 0 1 2 3 | 4 5 0 1 | 2 3 4 5 | ...
    expect_tile(&p, 0, (PackedTile){4, {0, 4}, {2, 2}});
    expect_tile(&p, 1, (PackedTile){4, {0, 6}, {4, 4}});
    expect_tile(&p, 2, (PackedTile){4, {1, 6}, {4, 4}});
    expect_tile(&p, 4, (PackedTile){2, {3, 6}, {4, 5}});
    const PackedRows q = {3, 1, 6, 9, 0, 6, HEAD_MAJOR}, r = {4, 1, 2, 9, 0, 5, HEAD_MAJOR};
    expect_tile(&q, 1, (PackedTile){6, {0, 9}, {0, 4}}); // one whole head
    expect_tile(&r, 0, (PackedTile){5, {0, 9}, {0, 8}});
}

// ---- totals -------------------------------------------------------------------------------------

static void expect_totals(const PackedRows *p, PackedTotals want) {
    set_case(p);
    const PackedTotals got = packed_totals(p);
    expect_int("tiles", got.tiles, want.tiles);
    expect_int("idle", got.idle, want.idle);
    expect_int("requested", got.requested, want.requested);
}

static PackedTotals totals_by_rows(const PackedRows *p) {
    const int64_t rows = p->heads_q / p->heads_kv * p->len_q;
    PackedTotals totals = {0, 0, 0};
    for (int64_t i = 0; i * p->tile_rows < rows; i++) {
        const PackedTile t = tile_by_rows(p, i);
        totals.tiles += p->heads_kv;
        totals.idle += p->heads_kv * (p->tile_rows - t.rows);
        totals.requested += p->heads_kv * (t.any.end - t.any.begin);
    }
    return totals;
}

static void test_totals(void) {
    const PackedRows step = {32, 8, 1, 1000, 0, 16, TOKEN_MAJOR};
    const PackedRows chunk = {12, 2, 5, 100, 10, 8, TOKEN_MAJOR}; // 30 rows: 8, 8, 8 and 6
    const PackedRows heads = {12, 2, 5, 100, 10, 8, HEAD_MAJOR};
    expect_totals(&step, (PackedTotals){8, 96, 8000});
    expect_totals(&chunk, (PackedTotals){8, 4, 2 * (11 + 11 + 11 + 10)});
    expect_totals(&heads, (PackedTotals){8, 4, 2 * (14 + 14 + 14 + 14)});
}

// Every problem of up to 3 KV heads in groups of up to 5, 5 tokens and 7 keys; both orders.
static void test_every_small_problem(void) {
    for (int n = 0; n < 3 * 5 * 5 * 7 * 4; n++) {
        const int64_t heads_kv = n % 3 + 1, group = n / 3 % 5 + 1, len_q = n / 15 % 5 + 1;
        const int64_t len_kv = n / 75 % 7 + 1, window = n / 525;
        for (int64_t tile_rows = 1; tile_rows <= 9; tile_rows += 1 + tile_rows / 4) {
            for (int order = 0; order < 2; order++) {
                const PackedRows p = {heads_kv * group, heads_kv,  len_q,          len_kv,
                                      window,           tile_rows, (RowOrder)order};
                for (int64_t i = 0; i * tile_rows < group * len_q; i++) {
                    expect_tile(&p, i, tile_by_rows(&p, i));
                }
                expect_totals(&p, totals_by_rows(&p));
            }
        }
    }
}

// 2^30 tokens in groups of 64: 2^36 packed rows.
static void test_large_numbers(void) {
    const int64_t t = INT64_C(1) << 30;
    const PackedRows p = {64, 1, t, t, 4096, 64, TOKEN_MAJOR};
    const PackedRows q = {64, 1, t, t, 4096, t, HEAD_MAJOR};
    expect_source(&p, 0, 64 * t - 1, 63, t - 1);
    expect_source(&q, 0, 63 * t + 5, 63, 5);
    expect_place(&p, 63, t - 2, 0, 64 * t - 65);
    expect_place(&q, 63, t - 2, 0, 64 * t - 2);
    expect_keys(&p, 64 * t - 1, t - 4096, t);
    expect_tile(&p, t - 1, (PackedTile){64, {t - 4096, t}, {t - 4096, t}});
    expect_tile(&q, 63, (PackedTile){t, {0, t}, {t - 4096, t - 4096}});
    expect_totals(&q, (PackedTotals){64, 0, 64 * t});
}

static void test_rows_without_keys(void) {
    const PackedRows p = {4, 2, 5, 2, 0, 4, TOKEN_MAJOR}; // tokens 0 to 2 see nothing
    const PackedRows q = {4, 2, 5, 2, 1, 4, HEAD_MAJOR};
    for (int row = 0; row < 10; row++) {
        expect_keys(&p, row, 0, row / 2 > 3 ? 2 : row / 2 > 2 ? 1 : 0);
    }
    expect_keys(&q, 4, 1, 2);
    expect_tile(&p, 0, (PackedTile){4, {0, 0}, {0, 0}});
    expect_tile(&p, 1, (PackedTile){4, {0, 1}, {0, 0}});
    expect_tile(&q, 0, (PackedTile){4, {0, 1}, {0, 0}});
    expect_tile(&q, 1, (PackedTile){4, {0, 2}, {0, 0}});
    expect_totals(&p, (PackedTotals){6, 4, 2 * 3});
}

const GradeTest grade_tests[] = {
    {"token_major", 1, false, test_token_major,
     "Row r is token r / group, and head r % group of the group, whose first head is kv_head * "
     "group."},
    {"head_major", 1, false, test_head_major, "Row r is head r / T of the group, and token r % T."},
    {"place", 1, false, test_place,
     "The KV head is head / group; the head's number in its group is what remains."},
    {"groups", 1, false, test_groups,
     "group = heads_q / heads_kv. Where heads_q = heads_kv squared, the two are equal, and "
     "dividing by the wrong one goes unnoticed."},
    {"causal", 1, false, test_causal,
     "A row's limit goes by its token: token i stands at key i + (S - T), and sees it."},
    {"window", 1, false, test_window,
     "A window of W keys ends with the token's own key, and counts it; it does not begin before "
     "key 0."},
    {"tile", 1, false, test_tile,
     "`any` begins with the first token's keys and ends with the last one's; `all` the other way "
     "round."},
    {"remainder", 1, false, test_remainder,
     "The last tile has what remains, and its last row is the KV head's last."},
    {"tile_of_two_heads", 1, false, test_tile_of_two_heads,
     "In head-major order the tokens begin anew with each head: a tile with the end of one head "
     "and the beginning of the next has the tokens T - 1 and 0."},
    {"totals", 1, false, test_totals,
     "The number of tiles is rounded up for one KV head, then multiplied: tiles do not go on from "
     "one KV head to the next."},
    {"every_small_problem", 2, false, test_every_small_problem,
     "Windows are 0 to 3, and T may be more than S. See which case fails first."},
    {"large_numbers", 1, false, test_large_numbers,
     "2^30 tokens of 64 heads are 2^36 rows: more than 32 bits hold. No row is looked at singly.",
     "A tile has up to 2^30 rows: it may not be gone through row by row."},
    {"rows_without_keys", 1, true, test_rows_without_keys,
     "With T > S the first tokens stand before key 0: begin and end are 0. `all` is then empty: "
     "its end may not lie before its begin."},
    {NULL, 0, false, NULL, NULL, NULL},
};
