// The suite of lab 4, block lists from any mask: numbers of blocks, classes and lists by hand, then
// many masks against a look at every pair.
#include "exercises/ch07/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>
#include <string.h>

const char grade_title[] = "block lists from any mask";

// ---- blocks_of ----------------------------------------------------------------------------------

static void expect_blocks_of(int64_t len, int64_t block, int64_t want) {
    grade_case("blocks_of(%lld, %lld)", (long long)len, (long long)block);
    expect_int("blocks", blocks_of(len, block), want);
}

static void test_number_of_blocks(void) {
    expect_blocks_of(8, 4, 2);
    expect_blocks_of(9, 4, 3);
    expect_blocks_of(11, 4, 3);
    expect_blocks_of(3, 4, 1);
    expect_blocks_of(0, 4, 0);
}

static void test_block_of_any_size(void) {
    expect_blocks_of(5, INT64_MAX, 1);
    expect_blocks_of(INT64_MAX, INT64_MAX, 1);
    expect_blocks_of(INT64_MAX, 2, INT64_MAX / 2 + 1);
    expect_blocks_of(INT64_MAX, 1, INT64_MAX);
    expect_blocks_of(0, INT64_MAX, 0);
}

// ---- masks --------------------------------------------------------------------------------------

// A mask of this suite: a rule with a parameter, or a drawing; it counts how often it is asked.
typedef enum Rule { DRAWN, CAUSAL, WINDOW, STRIDED, SCATTERED } Rule;

typedef struct Pattern {
    Rule rule;
    int64_t len_q, len_kv;
    int64_t number;          // of WINDOW, STRIDED and SCATTERED
    const char *const *rows; // of DRAWN: x is seen
    int64_t *asked;          // so far
} Pattern;

static bool rule_says(const Pattern *p, int64_t row, int64_t key) {
    const int64_t own = row + p->len_kv - p->len_q;
    switch (p->rule) {
    case DRAWN:
        return p->rows[row][key] == 'x';
    case CAUSAL:
        return key <= own;
    case WINDOW:
        return key <= own && key > own - p->number;
    case STRIDED:
        return key % p->number == row % p->number;
    default:
        return grade_normal((uint64_t)p->number, (uint64_t)(row * p->len_kv + key)) > 1.0f;
    }
}

static bool pattern_sees(const void *context, int64_t row, int64_t key) {
    const Pattern *p = context;
    if (row < 0 || row >= p->len_q || key < 0 || key >= p->len_kv) {
        grade_fail("the mask was asked about row %lld and key %lld: there are %lld rows and %lld "
                   "keys",
                   (long long)row, (long long)key, (long long)p->len_q, (long long)p->len_kv);
    }
    (*p->asked)++;
    return rule_says(p, row, key);
}

static int64_t asked;

static AnyMask mask_of(const Pattern *p, int64_t block_q, int64_t block_k) {
    return (AnyMask){pattern_sees, p, p->len_q, p->len_kv, block_q, block_k};
}

static Pattern drawing(const char *const *rows, int64_t len_q) {
    return (Pattern){DRAWN, len_q, (int64_t)strlen(rows[0]), 0, rows, &asked};
}

static void set_case(const Pattern *p, int64_t block_q, int64_t block_k) {
    static const char *const names[] = {"drawn", "causal", "window", "strided", "scattered"};
    grade_case("%s (%lld), %lld x %lld, blocks of %lld x %lld", names[p->rule],
               (long long)p->number, (long long)p->len_q, (long long)p->len_kv, (long long)block_q,
               (long long)block_k);
}

// ---- the class of a block -----------------------------------------------------------------------

static const char *class_name(TileClass class) {
    return class == TILE_SKIP ? "SKIP" : class == TILE_PARTIAL ? "PARTIAL" : "FULL";
}

// By a look at every pair of the block; keys that do not exist are hidden.
static TileClass class_by_pairs(const Pattern *p, int64_t block_q, int64_t block_k, int64_t i,
                                int64_t j) {
    int64_t seen = 0, pairs = 0;
    for (int64_t row = i * block_q; row < p->len_q && row - i * block_q < block_q; row++) {
        for (int64_t key = j * block_k; key < (j + 1) * block_k; key++) {
            seen += key < p->len_kv && rule_says(p, row, key) ? 1 : 0;
            pairs++;
        }
    }
    return seen == 0 ? TILE_SKIP : seen < pairs ? TILE_PARTIAL : TILE_FULL;
}

static void expect_classes(const Pattern *p, int64_t block_q, int64_t block_k) {
    const AnyMask mask = mask_of(p, block_q, block_k);
    for (int64_t i = 0; i * block_q < p->len_q; i++) {
        for (int64_t j = 0; j * block_k < p->len_kv; j++) {
            set_case(p, block_q, block_k);
            const TileClass got = block_class(&mask, i, j);
            const TileClass want = class_by_pairs(p, block_q, block_k, i, j);
            if (got != want) {
                grade_fail("query block %lld, key block %lld: got %s, expected %s", (long long)i,
                           (long long)j, class_name(got), class_name(want));
            }
        }
    }
}

static void test_classes(void) {
    const char *const rows[] = {"xx..x...", "xx......", "..xxxx..", "..xx.x.x"};
    const Pattern p = drawing(rows, 4);
    expect_classes(&p, 2, 2);
    expect_classes(&p, 1, 4);
    expect_classes(&p, 4, 1);
}

// Blocks of which one pair alone is different.
static void test_one_pair(void) {
    for (int n = 0; n < 18; n++) {
        char text[3][4] = {"...", "...", "..."};
        for (int e = 0; e < 9; e++) {
            text[e / 3][e % 3] = (e == n % 9) == (n < 9) ? 'x' : '.';
        }
        const char *const rows[] = {text[0], text[1], text[2]};
        const Pattern p = drawing(rows, 3);
        expect_classes(&p, 3, 3);
    }
}

static void test_tails(void) {
    const char *const rows[] = {"xxxxx", "xxxxx", "xxxxx", "xxxx.", "xxxx."};
    const Pattern p = drawing(rows, 5);
    expect_classes(&p, 2, 4); // the fifth row alone; the fifth key alone
    expect_classes(&p, 3, 3);
    expect_classes(&p, 8, 5);
    expect_classes(&p, 8, 8);
}

// ---- lists --------------------------------------------------------------------------------------

// Checks the list that was built, its order, its flags, and how often the mask was asked.
static void expect_csr(const Pattern *p, int64_t block_q, int64_t block_k) {
    const AnyMask mask = mask_of(p, block_q, block_k);
    BlockCsr csr;
    char name[64];
    int64_t listed = 0;

    memset(&csr, 0xFF, sizeof(csr));
    set_case(p, block_q, block_k);
    asked = 0;
    const AttnStatus status = csr_build(&csr, &mask);
    if (status != ATTN_OK) {
        grade_fail("status: got %s (%s)", attn_status_name(status), attn_last_error());
    }
    const int64_t pairs = p->len_q * p->len_kv;
    if (asked > 2 * pairs) {
        grade_fail("the mask has %lld pairs: got %lld questions, expected at most two for each",
                   (long long)pairs, (long long)asked);
    }
    const int64_t query_blocks = p->len_q / block_q + (p->len_q % block_q > 0 ? 1 : 0);
    const int64_t key_blocks = p->len_kv / block_k + (p->len_kv % block_k > 0 ? 1 : 0);
    expect_int("query_blocks", csr.query_blocks, query_blocks);
    expect_int("key_blocks", csr.key_blocks, key_blocks);
    if (csr.offsets == NULL) {
        grade_fail("offsets is NULL, expected %lld entries", (long long)query_blocks + 1);
        return;
    }
    expect_int("offsets[0]", csr.offsets[0], 0);
    for (int64_t i = 0, next = 1; i < query_blocks; i++, next++) {
        int64_t at = listed;
        for (int64_t j = 0; j < key_blocks; j++) {
            listed += class_by_pairs(p, block_q, block_k, i, j) != TILE_SKIP ? 1 : 0;
        }
        snprintf(name, sizeof(name), "offsets[%lld]", (long long)next);
        expect_int(name, csr.offsets[next], listed);
        if (listed > at && (csr.blocks == NULL || csr.full == NULL)) {
            grade_fail("%s is NULL, expected %lld entries or more",
                       csr.blocks == NULL ? "blocks" : "full", (long long)listed);
            return;
        }
        for (int64_t j = 0; j < key_blocks; j++) {
            const TileClass class = class_by_pairs(p, block_q, block_k, i, j);
            if (class != TILE_SKIP) {
                snprintf(name, sizeof(name), "query block %lld: blocks[%lld]", (long long)i,
                         (long long)at);
                expect_int(name, csr.blocks[at], j);
                snprintf(name, sizeof(name), "query block %lld: full[%lld]", (long long)i,
                         (long long)at);
                expect_int(name, csr.full[at], class == TILE_FULL ? 1 : 0);
                at++;
            }
        }
    }
    csr_free(&csr);
}

static void test_small_list(void) {
    const char *const rows[] = {"xx..xx..", "xx..xx..", "..xxx..x", "..xx..x."};
    const Pattern p = drawing(rows, 4);
    expect_csr(&p, 2, 2);
    expect_csr(&p, 1, 1);
}

static void test_every_block_counts(void) {
    const Pattern p = {STRIDED, 7, 10, 2, NULL, &asked};
    const Pattern causal = {CAUSAL, 12, 12, 0, NULL, &asked};
    expect_csr(&p, 2, 3);
    expect_csr(&p, 4, 5);
    expect_csr(&causal, 4, 4);
    expect_csr(&causal, 5, 5);
}

static void test_empty_lists(void) {
    const char *const rows[] = {"....", "....", "xx..", "x...", "....", "....", "...."};
    const Pattern p = drawing(rows, 7);
    const char *const nothing[] = {"......", "......"};
    const Pattern none = drawing(nothing, 2);
    expect_csr(&p, 2, 2);
    expect_csr(&p, 3, 4);
    expect_csr(&none, 1, 2);
}

static void test_many_masks(void) {
    const int64_t lens[] = {1, 5, 8, 13}, blocks[] = {1, 3, 4, 8, 16};
    for (int n = 0; n < 4 * 4 * 5 * 5; n++) {
        const int64_t len_q = lens[n % 4], len_kv = lens[n / 4 % 4];
        const int64_t block_q = blocks[n / 16 % 5], block_k = blocks[n / 80];
        for (int rule = CAUSAL; rule <= SCATTERED; rule++) {
            const Pattern p = {(Rule)rule, len_q, len_kv, 3, NULL, &asked};
            expect_csr(&p, block_q, block_k);
        }
    }
}

// A long window: 300 x 300 blocks of two, all in one array.
static void test_long_list(void) {
    const Pattern p = {WINDOW, 600, 600, 9, NULL, &asked};
    expect_csr(&p, 2, 2);
}

// ---- borders ------------------------------------------------------------------------------------

static void test_huge_blocks(void) {
    const Pattern p = {CAUSAL, 5, 7, 0, NULL, &asked};
    const AnyMask mask = mask_of(&p, INT64_MAX, INT64_MAX);
    BlockCsr csr;
    grade_case("5 x 7, causal, one block of 2^63 - 1 rows and keys");
    if (csr_build(&csr, &mask) != ATTN_OK) {
        grade_fail("csr_build failed: %s", attn_last_error());
    }
    expect_int("offsets[1]", csr.offsets[1], 1);
    expect_int("blocks[0]", csr.blocks[0], 0);
    expect_int("full[0]", csr.full[0], 0);
    csr_free(&csr);
}

static void test_no_rows_or_keys(void) {
    const int64_t lens[][2] = {{0, 9}, {9, 0}, {0, 0}};
    for (int i = 0; i < 3; i++) {
        const Pattern p = {CAUSAL, lens[i][0], lens[i][1], 0, NULL, &asked};
        expect_csr(&p, 4, 4);
    }
}

static void test_too_many_key_blocks(void) {
    const Pattern p = {CAUSAL, 0, INT64_C(1) << 40, 0, NULL, &asked};
    const AnyMask mask = mask_of(&p, 1, 512); // 2^31 key blocks
    BlockCsr csr;
    memset(&csr, 0xFF, sizeof(csr));
    grade_case("no queries, 2^31 key blocks: one more than a block number can count");
    const AttnStatus status = csr_build(&csr, &mask);
    if (status != ATTN_ERR_UNSUPPORTED) {
        grade_fail("status: got %s, expected ATTN_ERR_UNSUPPORTED", attn_status_name(status));
    }
    expect_int("key_blocks", csr.key_blocks, 0);
    expect_int("offsets is NULL", csr.offsets == NULL ? 1 : 0, 1);
}

const GradeTest grade_tests[] = {
    {"number_of_blocks", 1, false, test_number_of_blocks,
     "A last block that is not whole is a block too; without rows there is none."},
    {"block_of_any_size", 1, false, test_block_of_any_size,
     "len + block does not fit into an int64_t here. What remains of len / block?"},
    {"classes", 1, false, test_classes,
     "Skip when no pair of the block is visible, full when all are, partial otherwise."},
    {"one_pair", 1, false, test_one_pair,
     "One visible pair anywhere makes a block partial, and so does one hidden pair; neither its "
     "first row nor its corners decide."},
    {"tails", 1, false, test_tails,
     "Rows that do not exist neither count nor are asked about. A block with keys that do not "
     "exist is never full."},
    {"small_list", 1, false, test_small_list,
     "List i goes from offsets[i] to offsets[i + 1]: each offset is the sum of all counts before "
     "it. Both passes must take the same blocks."},
    {"every_block_counts", 1, false, test_every_block_counts,
     "query_blocks and key_blocks are rounded up: the last one may be short."},
    {"empty_lists", 1, false, test_empty_lists,
     "A query block that visits nothing has two equal offsets."},
    {"many_masks", 2, false, test_many_masks,
     "Blocks may be larger than the problem, and the last ones short."},
    {"long_list", 1, false, test_long_list,
     "Is each block listed at its own place? A pair is asked at most twice."},
    {"huge_blocks", 1, true, test_huge_blocks,
     "A block may be far larger than the problem: only the pairs that exist are looked at."},
    {"no_rows_or_keys", 1, true, test_no_rows_or_keys,
     "Without queries there is offsets[0] alone; without keys all offsets are 0."},
    {"too_many_key_blocks", 1, true, test_too_many_key_blocks,
     "blocks[] has 32 bits: what happens to block number 2^31? And on an error *csr is zeroed."},
    {NULL, 0, false, NULL, NULL, NULL},
};
