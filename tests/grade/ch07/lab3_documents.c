// The suite of lab 3, packed documents: offsets, ranges and tiles by hand, then attention against
// the oracle, document by document, and which keys were loaded.
#include "common/reference.h"
#include "exercises/ch07/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <stdio.h>

const char grade_title[] = "attention over packed documents";

enum { MAX_DOCUMENTS = 12 };

// ---- offsets ------------------------------------------------------------------------------------

static void expect_offsets(int64_t count, const int64_t *lens) {
    int64_t *offsets = grade_alloc((size_t)(count + 1) * sizeof(int64_t)), next = 0;
    document_offsets(count, lens, offsets);
    for (int64_t d = 0; d <= count; d++) {
        char name[32];
        snprintf(name, sizeof(name), "offsets[%lld]", (long long)d);
        expect_int(name, offsets[d], next);
        next += d < count ? lens[d] : 0;
    }
}

static void test_offsets(void) {
    grade_case("documents of 3, 1 and 5 tokens");
    expect_offsets(3, (const int64_t[]){3, 1, 5});
    grade_case("one document of 7 tokens");
    expect_offsets(1, (const int64_t[]){7});
    grade_case("documents of 0, 2, 0, 0, 4 and 0 tokens");
    expect_offsets(6, (const int64_t[]){0, 2, 0, 0, 4, 0});
    grade_case("documents of 2^31 and 2^31 tokens");
    expect_offsets(2, (const int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31});
}

// ---- the keys of a query ------------------------------------------------------------------------

// Packs documents by the suite's own sums, so that a later test does not depend on gap 1.
typedef struct Pack {
    int64_t q_offsets[MAX_DOCUMENTS + 1], k_offsets[MAX_DOCUMENTS + 1];
    Documents documents;
    int64_t queries, keys;
    char text[256]; // "3/3 0/2": queries and keys of each document
} Pack;

static void make_pack(Pack *pack, int64_t count, const int64_t (*lens)[2]) {
    int at = 0;
    pack->q_offsets[0] = pack->k_offsets[0] = 0;
    for (int64_t d = 0; d < count; d++) {
        pack->q_offsets[d + 1] = pack->q_offsets[d] + lens[d][0];
        pack->k_offsets[d + 1] = pack->k_offsets[d] + lens[d][1];
        at += snprintf(pack->text + at, sizeof(pack->text) - (size_t)at, "%s%lld/%lld",
                       d > 0 ? ", " : "", (long long)lens[d][0], (long long)lens[d][1]);
    }
    pack->documents = (Documents){count, pack->q_offsets, pack->k_offsets};
    pack->queries = pack->q_offsets[count];
    pack->keys = pack->k_offsets[count];
}

// What each query sees, by counting down from the end of its document.
static KeyRange range_of(const Pack *pack, int64_t row) {
    for (int64_t d = 0; d < pack->documents.count; d++) {
        int64_t end = pack->k_offsets[d + 1];
        for (int64_t i = pack->q_offsets[d + 1] - 1; i >= pack->q_offsets[d]; i--) {
            if (i == row) {
                return (KeyRange){pack->k_offsets[d], end};
            }
            end -= end > pack->k_offsets[d] ? 1 : 0;
        }
    }
    return (KeyRange){0, 0};
}

static void expect_ranges(int64_t count, const int64_t (*lens)[2]) {
    Pack pack;
    make_pack(&pack, count, lens);
    for (int64_t i = 0; i < pack.queries; i++) {
        const KeyRange got = document_keys(&pack.documents, i), want = range_of(&pack, i);
        grade_case("queries/keys of the documents: %s; row %lld", pack.text, (long long)i);
        if (want.begin == want.end) {
            expect_int("keys that it sees", got.end - got.begin, 0);
        } else {
            expect_int("begin", got.begin, want.begin);
            expect_int("end", got.end, want.end);
        }
    }
}

static void test_ranges(void) {
    expect_ranges(1, (const int64_t[][2]){{4, 4}});
    expect_ranges(3, (const int64_t[][2]){{3, 3}, {1, 1}, {5, 5}});
}

static void test_ranges_of_chunks(void) {
    expect_ranges(3, (const int64_t[][2]){{1, 6}, {3, 4}, {2, 9}});
}

static void test_ranges_of_nothing(void) {
    expect_ranges(5, (const int64_t[][2]){{0, 3}, {2, 2}, {0, 0}, {0, 4}, {3, 3}});
    expect_ranges(4, (const int64_t[][2]){{2, 0}, {4, 1}, {3, 0}, {2, 5}});
}

// ---- tiles --------------------------------------------------------------------------------------

static const char *class_name(TileClass class) {
    return class == TILE_SKIP ? "SKIP" : class == TILE_PARTIAL ? "PARTIAL" : "FULL";
}

static TileClass class_by_pairs(const KeyRange *ranges, int64_t rows, int64_t key0, int64_t keys) {
    int64_t seen = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = key0; j < key0 + keys; j++) {
            seen += j >= ranges[r].begin && j < ranges[r].end ? 1 : 0;
        }
    }
    return seen == 0 ? TILE_SKIP : seen < rows * keys ? TILE_PARTIAL : TILE_FULL;
}

// Every tile of up to 12 keys.
static void expect_classes(const KeyRange *ranges, int64_t rows) {
    for (int64_t t = 0; t < 12 * 12; t++) {
        const int64_t key0 = t % 12, keys = t / 12 + 1;
        const TileClass got = document_tile(ranges, rows, key0, keys);
        const TileClass want = class_by_pairs(ranges, rows, key0, keys);
        if (got != want) {
            grade_case("%lld rows, the first of which sees keys %lld..%lld, the last %lld..%lld; "
                       "tile of keys %lld..%lld",
                       (long long)rows, (long long)ranges[0].begin, (long long)ranges[0].end - 1,
                       (long long)ranges[rows - 1].begin, (long long)ranges[rows - 1].end - 1,
                       (long long)key0, (long long)(key0 + keys - 1));
            grade_fail("got %s, expected %s", class_name(got), class_name(want));
        }
    }
}

static void test_tiles(void) {
    expect_classes((const KeyRange[]){{0, 3}, {0, 4}, {0, 5}, {0, 6}}, 4); // one document
    expect_classes((const KeyRange[]){{2, 9}}, 1);
    expect_classes((const KeyRange[]){{0, 2}, {0, 3}, {3, 4}, {3, 5}}, 4); // two documents
    expect_classes((const KeyRange[]){{0, 3}, {7, 8}, {7, 9}}, 3);         // nobody sees 3 to 6
    expect_classes((const KeyRange[]){{4, 4}, {4, 4}}, 2);                 // nobody sees anything
    expect_classes((const KeyRange[]){{0, 9}, {9, 9}, {9, 10}}, 3);        // the second one nothing
    expect_classes((const KeyRange[]){{3, 3}, {3, 8}, {3, 9}}, 3);         // the first one nothing
}

// ---- attention ----------------------------------------------------------------------------------

typedef struct Case {
    Pack pack;
    int64_t dim;
    float *q, *k, *v;
    double *o, *lse; // expected
    double *o_tolerance, *lse_tolerance;
} Case;

static void make_case(Case *c, int64_t count, const int64_t (*lens)[2], int64_t dim,
                      uint64_t seed) {
    make_pack(&c->pack, count, lens);
    const size_t queries = (size_t)(c->pack.queries * dim), keys = (size_t)(c->pack.keys * dim);
    c->dim = dim;
    c->q = grade_floats(queries);
    c->k = grade_floats(keys);
    c->v = grade_floats(keys);
    c->o = grade_alloc(queries * sizeof(double));
    c->o_tolerance = grade_alloc(queries * sizeof(double));
    c->lse = grade_alloc((size_t)c->pack.queries * sizeof(double));
    c->lse_tolerance = grade_alloc((size_t)c->pack.queries * sizeof(double));
    for (size_t e = 0; e < queries; e++) {
        c->q[e] = 0.3f + grade_normal(seed, e);
    }
    for (size_t e = 0; e < keys; e++) {
        c->k[e] = 0.2f + grade_normal(seed + 1, e);
        c->v[e] = 1.0f + grade_normal(seed + 2, e);
    }
}

static const float scale = 0.4f;

// The oracle, on one document after the other. How far a float32 program may be off, with u = 2^-24
// and A the largest scale * sum |q_c k_c|: a score (dim + 1) u A, and sums, rescalings and the
// division less than (4 keys + 16) u.
static void compute(Case *c) {
    const Pack *pack = &c->pack;
    for (int64_t d = 0; d < pack->documents.count; d++) {
        const int64_t q0 = pack->q_offsets[d], k0 = pack->k_offsets[d], dim = c->dim;
        const AttnShape shape = {.batch = 1,
                                 .heads_q = 1,
                                 .heads_kv = 1,
                                 .len_q = pack->q_offsets[d + 1] - q0,
                                 .len_kv = pack->k_offsets[d + 1] - k0,
                                 .dim = dim,
                                 .scale = (double)scale,
                                 .causal = true};
        const size_t rows = (size_t)shape.len_q;
        if (rows == 0) {
            continue;
        }
        double *o_abs = grade_alloc(rows * (size_t)dim * sizeof(double));
        double *score_abs = grade_alloc(rows * sizeof(double));
        const ReferenceForward out = {c->o + q0 * dim, c->lse + q0, o_abs, score_abs};
        if (reference_forward(&shape, c->q + q0 * dim, c->k + k0 * dim, c->v + k0 * dim, &out) !=
            ATTN_OK) {
            grade_fail("the oracle failed: %s", attn_last_error());
        }
        for (int64_t i = 0; i < shape.len_q; i++) {
            const double keys = (double)shape.len_kv, a = score_abs[i];
            const double error =
                ((double)(dim + 5) * a + 4.0 * (keys + log(keys + 1.0)) + 16.0) * 0x1p-24;
            const bool empty = c->lse[q0 + i] == -INFINITY;
            c->lse_tolerance[q0 + i] = empty ? 0.0 : error;
            for (int64_t e = i * dim; e < (i + 1) * dim; e++) {
                c->o_tolerance[q0 * dim + e] = empty ? 0.0 : 2.0 * error * o_abs[e];
            }
        }
    }
}

// The tiles and rows of K that blocks of block_q queries need, by a look at every pair.
typedef struct Load {
    int64_t keys, masked;
} Load;

static Load load_of(const Pack *pack, int64_t block_q, int64_t block_k) {
    Load load = {0, 0};
    for (int64_t i = 0; i < pack->queries; i += block_q) {
        const int64_t left = pack->queries - i, rows = left < block_q ? left : block_q;
        KeyRange *ranges = grade_alloc((size_t)rows * sizeof(KeyRange));
        for (int64_t r = 0; r < rows; r++) {
            ranges[r] = range_of(pack, i + r);
        }
        for (int64_t j = 0; j < pack->keys; j += block_k) {
            const TileClass class = class_by_pairs(ranges, rows, j, block_k);
            const int64_t keys = pack->keys - j < block_k ? pack->keys - j : block_k;
            load.masked += class == TILE_PARTIAL ? 1 : 0;
            load.keys += class != TILE_SKIP ? keys : 0;
        }
    }
    return load;
}

// Runs the lab's function; everything that it must write holds NaN before.
static DocumentAttention run_case(const Case *c, int64_t block_q, int64_t block_k) {
    const size_t dim = (size_t)c->dim, queries = (size_t)c->pack.queries;
    DocumentAttention a = {.documents = c->pack.documents,
                           .dim = c->dim,
                           .block_q = block_q,
                           .block_k = block_k,
                           .scale = scale,
                           .q = c->q,
                           .k = {c->k, c->pack.keys, c->dim, 0},
                           .v = {c->v, c->pack.keys, c->dim, 0},
                           .o = grade_floats(queries * dim),
                           .lse = grade_floats(queries),
                           .masked = 0,
                           .ranges = grade_alloc((size_t)block_q * sizeof(KeyRange)),
                           .m = grade_floats((size_t)block_q),
                           .l = grade_floats((size_t)block_q),
                           .k_tile = grade_floats((size_t)block_k * dim),
                           .v_tile = grade_floats((size_t)block_k * dim),
                           .scores = grade_floats((size_t)block_k)};
    grade_case("queries/keys of the documents: %s; d = %lld, blocks of %lld x %lld", c->pack.text,
               (long long)c->dim, (long long)block_q, (long long)block_k);
    grade_freeze("q", c->q, sizeof(float));
    grade_freeze("k", c->k, sizeof(float));
    grade_freeze("v", c->v, sizeof(float));
    document_attention(&a);
    return a;
}

static void expect_attention(Case *c, int64_t block_q, int64_t block_k) {
    compute(c);
    const DocumentAttention a = run_case(c, block_q, block_k);
    for (int64_t i = 0; i < c->pack.queries; i++) {
        char name[64];
        for (int64_t e = i * c->dim; e < (i + 1) * c->dim; e++) {
            snprintf(name, sizeof(name), "o[row %lld][%lld]", (long long)i,
                     (long long)(e - i * c->dim));
            expect_close(name, (double)a.o[e], c->o[e], c->o_tolerance[e]);
        }
        snprintf(name, sizeof(name), "lse[row %lld]", (long long)i);
        expect_close(name, (double)a.lse[i], c->lse[i], c->lse_tolerance[i]);
    }
}

static void expect_packed(int64_t count, const int64_t (*lens)[2], int64_t dim, int64_t block_q,
                          int64_t block_k) {
    Case c;
    make_case(&c, count, lens, dim, 7);
    expect_attention(&c, block_q, block_k);
}

static void test_one_document(void) {
    expect_packed(1, (const int64_t[][2]){{4, 4}}, 2, 4, 4);
    expect_packed(1, (const int64_t[][2]){{9, 9}}, 3, 4, 4);
    expect_packed(1, (const int64_t[][2]){{3, 20}}, 1, 2, 8);
}

static void test_several_documents(void) {
    expect_packed(2, (const int64_t[][2]){{4, 4}, {4, 4}}, 2, 4, 4);
    expect_packed(3, (const int64_t[][2]){{3, 3}, {6, 6}, {2, 2}}, 4, 4, 4);
    expect_packed(5, (const int64_t[][2]){{1, 1}, {2, 2}, {1, 1}, {7, 7}, {3, 3}}, 2, 8, 4);
    expect_packed(3, (const int64_t[][2]){{5, 9}, {1, 12}, {4, 4}}, 3, 3, 5);
}

// Rows of a block whose first tiles are all of earlier documents.
static void test_late_rows(void) {
    expect_packed(2, (const int64_t[][2]){{4, 40}, {4, 30}}, 2, 8, 4);
    expect_packed(4, (const int64_t[][2]){{2, 9}, {0, 20}, {3, 8}, {3, 17}}, 2, 8, 4);
}

static void test_any_blocks(void) {
    const int64_t lens[][2] = {{5, 5}, {0, 6}, {7, 10}, {1, 1}, {3, 0}, {9, 9}, {4, 2}};
    for (int64_t n = 0; n < 9 * 9; n++) {
        expect_packed(7, lens, 2, n % 9 < 8 ? n % 9 + 1 : 50, n / 9 < 8 ? n / 9 + 1 : 50);
    }
}

static void expect_loads(int64_t count, const int64_t (*lens)[2], int64_t block_q,
                         int64_t block_k) {
    Case c;
    make_case(&c, count, lens, 1, 8);
    const Load want = load_of(&c.pack, block_q, block_k);
    expect_attention(&c, block_q, block_k);
    const DocumentAttention a = run_case(&c, block_q, block_k);
    expect_int("rows of K loaded", a.k.loaded, want.keys);
    expect_int("rows of V loaded", a.v.loaded, want.keys);
    expect_int("tiles that are not full", a.masked, want.masked);
}

static void test_loads(void) {
    expect_loads(3, (const int64_t[][2]){{16, 16}, {16, 16}, {16, 16}}, 8, 8);
    expect_loads(3, (const int64_t[][2]){{4, 24}, {0, 32}, {4, 16}}, 8, 8); // a hole
    expect_loads(4, (const int64_t[][2]){{11, 11}, {3, 3}, {1, 30}, {20, 20}}, 8, 4);
    expect_loads(2, (const int64_t[][2]){{8, 3}, {4, 21}}, 4, 8);
}

// A NaN in K and in V of one document's last key: of its last query alone. All else is as before.
static void test_nan_stays_at_home(void) {
    Case c;
    make_case(&c, 3, (const int64_t[][2]){{5, 5}, {4, 6}, {6, 6}}, 2, 9);
    compute(&c);
    c.k[10 * 2] = c.v[10 * 2 + 1] = NAN;
    for (int64_t n = 1; n <= 16; n++) {
        const DocumentAttention a = run_case(&c, n, 17 - n);
        for (int64_t i = 0; i < c.pack.queries; i++) {
            char name[48];
            snprintf(name, sizeof(name), "lse[row %lld]", (long long)i);
            if (i != 8) {
                expect_close(name, (double)a.lse[i], c.lse[i], c.lse_tolerance[i]);
            } else if (!isnan(a.lse[i])) {
                grade_fail("%s: got %g: the NaN was lost", name, (double)a.lse[i]);
            }
            for (int64_t e = 2 * i; e < 2 * i + 2 && i != 8; e++) {
                snprintf(name, sizeof(name), "o[row %lld][%lld]", (long long)i,
                         (long long)(e - 2 * i));
                expect_close(name, (double)a.o[e], c.o[e], c.o_tolerance[e]);
            }
        }
    }
}

static void test_empty_documents(void) {
    expect_packed(1, (const int64_t[][2]){{3, 0}}, 2, 2, 4);
    expect_packed(3, (const int64_t[][2]){{3, 0}, {2, 2}, {1, 0}}, 2, 4, 4);
    expect_packed(4, (const int64_t[][2]){{0, 0}, {6, 2}, {0, 3}, {0, 0}}, 2, 4, 2);
    expect_packed(2, (const int64_t[][2]){{0, 5}, {0, 0}}, 2, 4, 4);
}

const GradeTest grade_tests[] = {
    {"offsets", 1, false, test_offsets,
     "Each offset is the sum of all lengths before it; there is one more offset than lengths."},
    {"ranges", 1, false, test_ranges,
     "Row q_offsets[d] is the first of document d, and no longer of document d - 1. The range "
     "begins with the document's first key, and its end is exclusive."},
    {"ranges_of_chunks", 1, false, test_ranges_of_chunks,
     "The document's last query sees its last key, the query before it one key less: S - T is the "
     "document's own."},
    {"ranges_of_nothing", 1, false, test_ranges_of_nothing,
     "A document without queries has two equal offsets: no row is of it. With more queries than "
     "keys the first ones see nothing, and their range is empty, not negative."},
    {"tiles", 2, false, test_tiles,
     "A tile is skipped when it shares no key with any range, and full when it lies inside every "
     "one of them; the first and the last row do not decide alone."},
    {"one_document", 1, false, test_one_document,
     "Plain causal attention: see that the tile's keys are numbered from key0, and that O is "
     "divided by l once, at the end."},
    {"several_documents", 2, false, test_several_documents,
     "A key counts when it lies in the query's own range: both ends, not the causal one alone."},
    {"late_rows", 1, false, test_late_rows,
     "While a query has seen no key, m is -infinity: -infinity minus -infinity is NaN."},
    {"any_blocks", 1, false, test_any_blocks,
     "Behind the last key a tile holds NaN; only keys of the range are looked at."},
    {"loads", 1, false, test_loads,
     "Between the ranges of two queries there may be tiles that neither sees; and only a tile "
     "inside every range is full."},
    {"nan_stays_at_home", 1, true, test_nan_stays_at_home,
     "0 * NaN is NaN: a hidden key's value must not be multiplied by a weight of 0. The one query "
     "that sees the NaN must get it."},
    {"empty_documents", 1, true, test_empty_documents,
     "A row that saw no key ends with l = 0: O is 0 and the LSE -INFINITY, without a division by "
     "an l of 0, whose result is NaN."},
    {NULL, 0, false, NULL, NULL, NULL},
};
