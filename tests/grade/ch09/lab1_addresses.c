// The suite of lab 1, addresses: numbers of pages, strides and rows by hand, rows beyond 32 bits,
// the way back, then tables that a kernel may use and tables that it may not.
#include "exercises/ch09/labs.h"
#include "tests/grade/grade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char grade_title[] = "addresses in pages";

static void set_layout_case(const KvLayout *layout, const char *what) {
    grade_case("pages of %lld, %lld heads, d = %lld: %s", (long long)layout->page_size,
               (long long)layout->heads_kv, (long long)layout->dim, what);
}

// ---- pages, strides, rows -----------------------------------------------------------------------

static void expect_pages(int64_t page_size, int64_t tokens, int64_t want) {
    const KvLayout layout = {page_size, 1, 1};
    grade_case("%lld tokens, pages of %lld", (long long)tokens, (long long)page_size);
    expect_int("pages", pages_of(&layout, tokens), want);
}

static void test_pages(void) {
    expect_pages(16, 32, 2);
    expect_pages(16, 33, 3);
    expect_pages(16, 47, 3);
    expect_pages(16, 1, 1);
    expect_pages(16, 0, 0);
    expect_pages(1, 7, 7);
    expect_pages(24, 1000, 42);
}

static void test_pages_of_any_size(void) {
    expect_pages(INT64_MAX, 3, 1);
    expect_pages(INT64_MAX, INT64_MAX, 1);
    expect_pages(2, INT64_MAX, INT64_MAX / 2 + 1);
    expect_pages(16, INT64_MAX, INT64_MAX / 16 + 1);
}

static void expect_strides(KvLayout layout, KvStrides want) {
    set_layout_case(&layout, "strides in elements");
    const KvStrides got = kv_strides(&layout);
    expect_int("part", got.part, want.part);
    expect_int("head", got.head, want.head);
    expect_int("slot", got.slot, want.slot);
    expect_int("page", got.page, want.page);
}

static void test_strides(void) {
    expect_strides((KvLayout){4, 3, 5}, (KvStrides){120, 30, 10, 5});
    expect_strides((KvLayout){16, 8, 128}, (KvStrides){32768, 2048, 256, 128});
    expect_strides((KvLayout){1 << 20, 512, 256}, (KvStrides){INT64_C(1) << 38, 1 << 18, 512, 256});
}

// All rows in the order in which they lie: the k-th begins at element k * dim.
static void test_rows(void) {
    const KvLayout layout = {3, 4, 5};
    int64_t row = 0;
    set_layout_case(&layout, "rows");
    for (int page = 0; page < 4; page++) {
        for (int slot = 0; slot < 3; slot++) {
            for (int head = 0; head < 4; head++) {
                for (int part = 0; part < 2; part++, row++) {
                    char what[64];
                    snprintf(what, sizeof(what), "offset of page %d, slot %d, head %d, %c", page,
                             slot, head, part == PART_K ? 'K' : 'V');
                    expect_int(what, kv_offset(&layout, page, slot, head, (KvPart)part), row * 5);
                }
            }
        }
    }
}

static void expect_row(KvLayout layout, const int64_t at[4], int64_t want) {
    char what[128];
    snprintf(what, sizeof(what), "page %lld, slot %lld, head %lld, %c", (long long)at[0],
             (long long)at[1], (long long)at[2], at[3] == PART_K ? 'K' : 'V');
    set_layout_case(&layout, what);
    expect_int("offset", kv_offset(&layout, at[0], at[1], at[2], (KvPart)at[3]), want);
}

static void test_far_rows(void) {
    const KvLayout usual = {16, 8, 128}, large = {256, 16, 256};
    expect_row(usual, (int64_t[]){65535, 15, 7, PART_V}, INT64_C(2147483520));
    expect_row(usual, (int64_t[]){65536, 0, 0, PART_K}, INT64_C(2147483648));
    expect_row(usual, (int64_t[]){131072, 3, 5, PART_V}, INT64_C(4294974848));
    expect_row(large, (int64_t[]){INT32_MAX, 255, 15, PART_V}, INT64_C(4503599627370240));
}

// ---- tokens -------------------------------------------------------------------------------------

enum { BATCH = 3, COLUMNS = 4 };

// Three sequences of 9, 16 and 5 tokens in pages of 4; what lies behind their pages is garbage.
static const int32_t pages[BATCH * COLUMNS] = {7, 2, 11, -1, 0, 5, 3, 9, 4, 8, 12, INT32_MAX};
static const int32_t lens[BATCH] = {9, 16, 5};
static const KvLayout small = {4, 2, 3};

static KvTable small_table(void) {
    int32_t *p = grade_alloc(sizeof(pages)), *l = grade_alloc(sizeof(lens));
    memcpy(p, pages, sizeof(pages));
    memcpy(l, lens, sizeof(lens));
    grade_freeze("pages", p, sizeof(int32_t));
    grade_freeze("lens", l, sizeof(int32_t));
    return (KvTable){small, BATCH, COLUMNS, p, l};
}

static void test_tokens(void) {
    const KvTable table = small_table();
    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < lens[b]; t++) {
            const int page = pages[b * COLUMNS + t / 4];
            for (int n = 0; n < 4; n++) {
                const KvPart part = n % 2 == 0 ? PART_K : PART_V;
                grade_case("3 sequences, 4 columns, pages of 4: token %d of sequence %d, in page "
                           "%d, head %d, %c",
                           t, b, page, n / 2, part == PART_K ? 'K' : 'V');
                expect_int("offset", token_offset(&table, b, t, n / 2, part),
                           (((int64_t)page * 4 + t % 4) * 4 + n) * 3);
            }
        }
    }
}

// One page size after the other; a long sequence.
static void test_page_sizes(void) {
    enum { LEN = 200 };
    int32_t *ids = grade_alloc(2 * LEN * sizeof(int32_t));
    int32_t *two = grade_alloc(2 * sizeof(int32_t));
    for (int i = 0; i < 2 * LEN; i++) {
        ids[i] = INT32_MAX - i * 37 % 401;
    }
    two[0] = two[1] = LEN;
    for (int size = 1; size <= 64; size += 7) {
        const KvTable table = {{size, 8, 64}, 2, LEN, ids, two};
        for (int t = 0; t < LEN; t += 9) {
            const int64_t page = ids[LEN + t / size];
            grade_case("pages of %d, 200 columns: token %d of sequence 1, in page %lld, head 5, V",
                       size, t, (long long)page);
            expect_int("offset", token_offset(&table, 1, t, 5, PART_V),
                       (((page * size + t % size) * 8 + 5) * 2 + 1) * 64);
        }
    }
}

// ---- the way back -------------------------------------------------------------------------------

static void expect_place(const KvLayout *layout, int64_t offset, KvPlace want) {
    char what[64];
    snprintf(what, sizeof(what), "whose is element %lld?", (long long)offset);
    set_layout_case(layout, what);
    const KvPlace got = kv_place(layout, offset);
    expect_int("page", got.page, want.page);
    expect_int("slot", got.slot, want.slot);
    expect_int("head", got.head, want.head);
    expect_int("part", got.part, want.part);
    expect_int("c", got.c, want.c);
}

static void test_way_back(void) {
    const KvLayout layout = {3, 4, 5}, usual = {16, 8, 128};
    int64_t e = 0;
    for (int row = 0; row < 5 * 3 * 4 * 2; row++) {
        for (int c = 0; c < 5; c++, e++) {
            expect_place(&layout, e, (KvPlace){row / 24, row / 8 % 3, row / 2 % 4, row % 2, c});
        }
    }
    expect_place(&usual, INT64_C(131073) * 32768 + 15 * 2048 + 6 * 256 + 128 + 77,
                 (KvPlace){131073, 15, 6, PART_V, 77});
}

// ---- tables -------------------------------------------------------------------------------------

static void expect_fault(const KvTable *table, int64_t pool, const char *const names[3],
                         const int64_t numbers[3]) {
    grade_case("pages of %lld, %lld columns, %lld pages: %s %lld, %s %lld, %s %lld",
               (long long)table->layout.page_size, (long long)table->columns, (long long)pool,
               names[0], (long long)numbers[0], names[1], (long long)numbers[1], names[2],
               (long long)numbers[2]);
    const AttnStatus status = check_table(table, pool);
    if (status != ATTN_ERR_ARGUMENT) {
        grade_fail("status: got %s, expected ATTN_ERR_ARGUMENT", attn_status_name(status));
    }
    for (int i = 0; i < 3; i++) {
        if (!grade_has_number(attn_last_error(), numbers[i])) {
            grade_fail("message: got \"%s\", expected one with the %s, %lld", attn_last_error(),
                       names[i], (long long)numbers[i]);
        }
    }
}

static const char *const of_id[] = {"sequence", "column", "id"};
static const char *const of_length[] = {"sequence", "length", "columns"};

// Twelve sequences of 30 columns of pages of 4, all of them full, all ids legal.
enum { MANY = 12, WIDE = 30 };

static KvTable wide_table(int32_t **ids, int32_t **sizes) {
    *ids = grade_alloc(MANY * WIDE * sizeof(int32_t));
    *sizes = grade_alloc(MANY * sizeof(int32_t));
    for (int i = 0; i < MANY * WIDE; i++) {
        (*ids)[i] = 777 - i;
    }
    for (int b = 0; b < MANY; b++) {
        (*sizes)[b] = 4 * WIDE - b % 4;
    }
    return (KvTable){small, MANY, WIDE, *ids, *sizes};
}

static void test_wrong_ids(void) {
    const int32_t wrong[] = {-1, 778, 1000, INT32_MIN, INT32_MAX};
    int32_t *ids, *sizes;
    const KvTable table = wide_table(&ids, &sizes);
    for (int i = 0; i < 5; i++) {
        for (int n = 0; n < 2; n++) {
            const int b = n == 0 ? 10 : 7, column = n == 0 ? 17 : 29; // 29: the last one in use
            const int32_t right = ids[b * WIDE + column];
            ids[b * WIDE + column] = wrong[i];
            expect_fault(&table, 778, of_id, (int64_t[]){b, column, wrong[i]});
            ids[b * WIDE + column] = right;
        }
    }
}

static void test_wrong_lengths(void) {
    const int32_t wrong[] = {121, 125, -1, INT32_MAX, INT32_MIN};
    int32_t *ids, *sizes;
    const KvTable table = wide_table(&ids, &sizes);
    for (int i = 0; i < 5; i++) {
        sizes[9] = wrong[i];
        expect_fault(&table, 778, of_length, (int64_t[]){9, wrong[i], WIDE});
    }
}

// Of two faults the first one is told.
static void test_first_fault(void) {
    int32_t *ids, *sizes;
    const KvTable table = wide_table(&ids, &sizes);
    ids[5 * WIDE + 11] = 900;
    ids[5 * WIDE + 13] = 901;
    ids[6 * WIDE + 2] = 902;
    sizes[8] = 500;
    expect_fault(&table, 778, of_id, (int64_t[]){5, 11, 900});
    sizes[5] = -44;
    expect_fault(&table, 778, of_length, (int64_t[]){5, -44, WIDE});
}

static void expect_legal(const KvTable *table, int64_t pool, const char *what) {
    grade_case("%s", what);
    const AttnStatus status = check_table(table, pool);
    if (status != ATTN_OK) {
        grade_fail("status: got %s (%s), expected ATTN_OK", attn_status_name(status),
                   attn_last_error());
    }
}

static void test_legal_tables(void) {
    int32_t *ids, *sizes;
    KvTable table = small_table();
    expect_legal(&table, 13, "ids 0 to 12 of 13 pages, garbage behind the pages in use");
    table = wide_table(&ids, &sizes);
    expect_legal(&table, 778, "lengths up to the last slot of the last column, 120 tokens");
    memset(ids, 0xFF, MANY * WIDE * sizeof(int32_t));
    memset(sizes, 0, MANY * sizeof(int32_t));
    expect_legal(&table, 778, "sequences without tokens, all entries -1");
    table.batch = 0;
    expect_legal(&table, 778, "no sequences");
}

const GradeTest grade_tests[] = {
    {"pages", 1, false, test_pages,
     "A last page that is not full is a page too; without tokens there is none."},
    {"pages_of_any_size", 1, false, test_pages_of_any_size,
     "tokens + page_size does not fit into an int64_t here. What remains of tokens / page_size?"},
    {"strides", 1, false, test_strides,
     "From the last dimension to the first: each stride is the one behind it times the number of "
     "elements of that dimension. Count in elements, not in bytes."},
    {"rows", 1, false, test_rows,
     "[page][slot][head][2][dim]: a slot has all heads, a head its K and then its V."},
    {"far_rows", 1, false, test_far_rows,
     "A pool may have far more than 2^31 elements: multiply in 64 bits."},
    {"tokens", 2, false, test_tokens,
     "table[token / page_size] of the sequence's own row, which has `columns` entries, says which "
     "page; token % page_size which slot."},
    {"page_sizes", 1, false, test_page_sizes,
     "Any page size from 1 on, ids up to 2^31 - 1: nothing here is a shift, and nothing has 32 "
     "bits."},
    {"way_back", 2, false, test_way_back,
     "Divide by a stride to get the number, and take the remainder on to the next smaller stride."},
    {"wrong_ids", 1, false, test_wrong_ids,
     "Legal are 0 .. pages - 1, in every column in use, the last one included. The message has "
     "sequence, column and id."},
    {"wrong_lengths", 1, false, test_wrong_lengths,
     "A length may be negative, or need more pages than there are columns: look before the ids "
     "are looked at. The message has sequence, length and columns."},
    {"first_fault", 1, true, test_first_fault,
     "Sequence after sequence, its length first, then its columns from 0 on; stop at the first "
     "fault."},
    {"legal_tables", 1, true, test_legal_tables,
     "Entries behind the pages in use may hold anything, and a sequence without tokens has no "
     "pages. A table may be full to its last slot."},
    {NULL, 0, false, NULL, NULL, NULL},
};
