// The suite of lab 3, one query over ragged chunks: how the chunks are made, then attention by
// hand, then many ways to cut the same keys, against the oracle.
#include "common/reference.h"
#include "exercises/ch03/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char grade_title[] = "decoding over ragged chunks";

enum { CHUNKS_MAX = 320, DIM_MAX = 8 };

static const float ln2 = 0.69314718f, ln3 = 1.09861229f;

// ---- how the chunks are made --------------------------------------------------------------------

// Every range of len keys over `chunks` chunks, against dealing the keys out one by one.
static void expect_ranges(int64_t len, int64_t chunks) {
    const int64_t size = len / chunks + (len % chunks != 0 ? 1 : 0);
    int64_t next = 0;
    for (int64_t i = 0; i < chunks; i++) {
        const KeyRange got = chunk_range(len, chunks, i);
        const int64_t left = len - next;
        grade_case("chunk_range(%lld, %lld, %lld)", (long long)len, (long long)chunks,
                   (long long)i);
        expect_int("begin", got.begin, next);
        next += left < size ? left : size;
        expect_int("end", got.end, next);
    }
}

static void test_even_ranges(void) {
    expect_ranges(8, 4);
    expect_ranges(12, 1);
    expect_ranges(3, 3);
}

static void test_ragged_ranges(void) {
    expect_ranges(10, 4);
    expect_ranges(33, 2);
    expect_ranges(100, 7);
}

static void test_more_chunks_than_keys(void) {
    expect_ranges(5, 4);
    expect_ranges(3, 8);
    expect_ranges(100, 64);
    for (int64_t len = 0; len <= 12; len++) {
        for (int64_t chunks = 1; chunks <= 15; chunks++) {
            expect_ranges(len, chunks);
        }
    }
}

static void test_long_cache(void) {
    const int64_t len = (INT64_C(1) << 33) + 5;
    expect_ranges(len, 7);
    expect_ranges(len, 3); // the size of a chunk, too, is beyond 32 bits
    expect_ranges(len, 1);
}

// ---- attention ----------------------------------------------------------------------------------

typedef struct Case {
    DecodeRow row;
    float *q, *k, *v; // [dim], [len][dim], [len][dim]; the row points to the same memory
} Case;

// A case without values yet, scale 1. Behind the last key are `behind` more, with NaN.
static Case make_case(int64_t len, int64_t behind, int64_t dim) {
    const size_t values = (size_t)((len + behind) * dim);
    Case c = {.q = grade_floats((size_t)dim), .k = grade_floats(values), .v = grade_floats(values)};
    c.row = (DecodeRow){len, dim, c.q, c.k, c.v, 1.0f};
    return c;
}

// Dimension 1 and q = 1: the scores are the keys.
static Case case_of_scores(int64_t len, const float *scores, const float *values) {
    Case c = make_case(len, 0, 1);
    c.q[0] = 1.0f;
    memcpy(c.k, scores, (size_t)len * sizeof(float));
    memcpy(c.v, values, (size_t)len * sizeof(float));
    return c;
}

// The attention over keys begin .. end - 1 by the oracle, and how far a float32 program may be off.
// With u = 2^-24 and A the largest scale * sum |q_c k_c|: a score is off by (dim + 1) u A, and
// sums, rescalings and a merge of `chunks` parts add less than (4 keys + chunks + 16) u. Each
// part's LSE was rounded by up to (A + log keys) u, and may be subtracted once more from a rounded
// one.
typedef struct Answer {
    double o[DIM_MAX], lse, o_tolerance, lse_tolerance;
} Answer;

static Answer answer_of(const DecodeRow *row, int64_t begin, int64_t end, int64_t chunks) {
    const AttnShape shape = {.batch = 1,
                             .heads_q = 1,
                             .heads_kv = 1,
                             .len_q = 1,
                             .len_kv = end - begin,
                             .dim = row->dim,
                             .scale = (double)row->scale};
    double o_abs[DIM_MAX], score_abs = 0.0, o_max = 0.0;
    Answer a;
    const ReferenceForward out = {a.o, &a.lse, o_abs, &score_abs};
    if (reference_forward(&shape, row->q, row->k + begin * row->dim, row->v + begin * row->dim,
                          &out) != ATTN_OK) {
        grade_fail("the oracle failed: %s", attn_last_error());
    }
    for (int64_t c = 0; c < row->dim; c++) {
        o_max = fmax(o_max, o_abs[c]);
    }
    const double keys = (double)(end - begin), u = 0x1p-24;
    const double error = ((double)(row->dim + 1) * score_abs + 4.0 * keys + (double)chunks + 16.0 +
                          4.0 * (score_abs + log(keys + 1.0))) *
                         u;
    a.lse_tolerance = isinf(a.lse) ? 0.0 : error;
    a.o_tolerance = isinf(a.lse) ? 0.0 : 2.0 * error * o_max;
    return a;
}

// Decodes, with NaN in all outputs before, and checks the partials of the chunks and the result.
static void expect_decoded(const Case *c, int64_t chunks, const int64_t *boundaries) {
    const DecodeRow *row = &c->row;
    const size_t dim = (size_t)row->dim;
    float *part_o = grade_floats((size_t)chunks * dim), *part_lse = grade_floats((size_t)chunks);
    float *o = grade_floats(dim), *lse = grade_floats(1);
    const Answer want = answer_of(row, 0, row->len, chunks);

    decode_chunks(row, chunks, boundaries, part_o, part_lse, o, lse);
    for (int64_t i = 0; i < chunks; i++) {
        char name[64];
        const Answer part = answer_of(row, boundaries[i], boundaries[i + 1], 1);
        snprintf(name, sizeof(name), "part_lse[%lld]", (long long)i);
        expect_close(name, (double)part_lse[i], part.lse, part.lse_tolerance);
        if (part.lse != -INFINITY) {
            snprintf(name, sizeof(name), "part_o of chunk %lld", (long long)i);
            expect_array(name, part_o + (size_t)i * dim, part.o, 1, dim, part.o_tolerance);
        }
    }
    expect_array("o", o, want.o, 1, dim, want.o_tolerance);
    expect_close("lse", (double)*lse, want.lse, want.lse_tolerance);
}

static void test_two_chunks(void) {
    const float keys[] = {0.0f, 2.0f * ln2, 2.0f * ln3}, values[] = {9.0f, 0.0f, 7.0f};
    Case c = case_of_scores(3, keys, values);
    c.row.scale = 0.5f;
    grade_case("q = 1, scale 1/2, keys 0, 2 ln 2 | 2 ln 3, values 9, 0 | 7");
    expect_decoded(&c, 2, (int64_t[]){0, 2, 3});
    grade_case("q = 1, scale 1/2, keys 0 | 2 ln 2, 2 ln 3, values 9 | 0, 7");
    expect_decoded(&c, 2, (int64_t[]){0, 1, 3});
    grade_case("q = 1, scale 1/2, keys 0, 2 ln 2, 2 ln 3 in one chunk");
    expect_decoded(&c, 1, (int64_t[]){0, 3});
}

static void test_unequal_chunks(void) {
    Case c = make_case(8, 0, 1);
    c.q[0] = 1.0f;
    for (int j = 0; j < 8; j++) {
        c.k[j] = 0.0f;
        c.v[j] = (float)j;
    }
    grade_case("8 keys of score 0, values 0..7, chunks of 1 and 7 keys");
    expect_decoded(&c, 2, (int64_t[]){0, 1, 8});
    grade_case("8 keys of score 0, values 0..7, chunks of 5, 1 and 2 keys");
    expect_decoded(&c, 3, (int64_t[]){0, 5, 6, 8});
}

static void test_large_scores(void) {
    const float levels[] = {-200.0f, 1000.0f, -60000.0f};
    for (int i = 0; i < 3; i++) {
        const float scores[] = {levels[i] - 100.0f, levels[i], levels[i] - 1.0f};
        const float values[] = {5.0f, 1.0f, 0.0f};
        const Case c = case_of_scores(3, scores, values);
        grade_case("scores %g | %g | %g, values 5, 1, 0", (double)scores[0], (double)scores[1],
                   (double)scores[2]);
        expect_decoded(&c, 3, (int64_t[]){0, 1, 2, 3});
    }
}

static void test_empty_chunks(void) {
    const float scores[] = {0.0f, ln2, ln3, 0.0f, ln2}, values[] = {6.0f, 0.0f, 10.0f, 1.0f, 2.0f};
    const Case c = case_of_scores(5, scores, values);
    grade_case("5 keys, chunks of 3, 0 and 2");
    expect_decoded(&c, 3, (int64_t[]){0, 3, 3, 5});
    grade_case("5 keys, chunks of 0, 0, 5 and 0");
    expect_decoded(&c, 4, (int64_t[]){0, 0, 0, 5, 5});
}

static void expect_split(int64_t len, int64_t chunks, const float *values) {
    Case c = make_case(len, 0, 1);
    int64_t boundaries[16] = {0};
    c.q[0] = 1.0f;
    for (int64_t j = 0; j < len; j++) {
        c.k[j] = 0.0f;
        c.v[j] = values[j];
    }
    grade_case("%lld keys of score 0, values %g, %g, ..., over %lld chunks by chunk_range",
               (long long)len, (double)values[0], (double)values[1], (long long)chunks);
    for (int64_t i = 0; i < chunks; i++) {
        const KeyRange range = chunk_range(len, chunks, i);
        if (range.begin != boundaries[i] || range.end < range.begin || range.end > len) {
            grade_fail("chunk %lld: keys %lld to %lld", (long long)i, (long long)range.begin,
                       (long long)range.end);
        }
        boundaries[i + 1] = range.end;
    }
    expect_decoded(&c, chunks, boundaries);
}

static void test_more_splits_than_keys(void) {
    const float three[] = {3.0f, 6.0f, 9.0f}, five[] = {3.0f, 6.0f, 9.0f, 1.0f, -4.0f};
    expect_split(3, 8, three);
    expect_split(5, 4, five);
    for (int64_t chunks = 1; chunks <= 10; chunks++) {
        expect_split(5, chunks, five);
    }
}

static Case random_case(int64_t len, int64_t behind, int64_t dim, float spread, uint64_t seed) {
    Case c = make_case(len, behind, dim);
    c.row.scale = (float)(1.0 / sqrt((double)dim));
    for (int64_t i = 0; i < dim; i++) {
        c.q[i] = spread * grade_normal(seed, (uint64_t)i);
    }
    for (int64_t e = 0; e < len * dim; e++) {
        c.k[e] = grade_normal(seed + 1, (uint64_t)e);
        c.v[e] = (float)(e % 5) - 1.5f + grade_normal(seed + 2, (uint64_t)e);
    }
    return c;
}

static void test_every_cut(void) {
    const Case c = random_case(11, 0, 3, 2.0f, 7);
    for (int64_t first = 0; first <= 11; first++) {
        for (int64_t second = first; second <= 11; second++) {
            grade_case("11 keys, dim 3, boundaries 0, %lld, %lld, 11", (long long)first,
                       (long long)second);
            expect_decoded(&c, 3, (int64_t[]){0, first, second, 11});
        }
    }
}

static void test_random_chunks(void) {
    const int64_t lens[] = {1, 31, 33, 257}, counts[] = {1, 2, 5, 64, 300};
    for (int i = 0; i < 4 * 5 * 2; i++) {
        const int64_t len = lens[i / 10], chunks = counts[i / 2 % 5];
        const Case c = random_case(len, 3, 8, i % 2 ? 30.0f : 1.0f, 400 + 8 * (uint64_t)i);
        int64_t boundaries[CHUNKS_MAX] = {0};
        for (int64_t b = 1; b < chunks; b++) { // steps of 0 in half of the cases
            const double step = fmax(0.0, (double)grade_normal(9 + (uint64_t)i, (uint64_t)b));
            const double keys = 2.0 * step * (double)len / (double)chunks;
            const int64_t next = boundaries[b - 1] + (int64_t)keys;
            boundaries[b] = next < len ? next : len;
        }
        boundaries[chunks] = len;
        grade_case("%lld keys in %lld random chunks, dim 8, q times %d, NaN behind the last key",
                   (long long)len, (long long)chunks, i % 2 ? 30 : 1);
        expect_decoded(&c, chunks, boundaries);
    }
}

static void test_no_keys(void) {
    const Case c = make_case(0, 2, 2);
    c.q[0] = c.q[1] = 1.0f;
    for (int64_t chunks = 1; chunks <= 3; chunks++) {
        grade_case("no keys, %lld chunks, dim 2", (long long)chunks);
        expect_decoded(&c, chunks, (int64_t[]){0, 0, 0, 0});
    }
}

static void test_visible_nan(void) {
    const float scores[] = {0.0f, -200.0f, 1.0f}, values[] = {1.0f, NAN, 2.0f};
    const Case c = case_of_scores(3, scores, values);
    float *part_o = grade_floats(3), *part_lse = grade_floats(3), *o = grade_floats(1);
    float *lse = grade_floats(1);
    grade_case("scores 0 | -200 | 1, values 1, NaN, 2");
    decode_chunks(&c.row, 3, (int64_t[]){0, 1, 2, 3}, part_o, part_lse, o, lse);
    if (!isnan(*o)) {
        grade_fail("o: got %g, expected nan", (double)*o);
    }
    expect_close("lse", (double)*lse, 1.0 + log1p(exp(-1.0)), 2e-6);
}

const GradeTest grade_tests[] = {
    {"even_ranges", 1, false, test_even_ranges,
     "Chunk i has len / chunks keys, from i times that."},
    {"ragged_ranges", 1, false, test_ragged_ranges,
     "The size is rounded up, (len + chunks - 1) / chunks; the last chunk takes what is left."},
    {"more_chunks_than_keys", 1, false, test_more_chunks_than_keys,
     "index * size may lie beyond len; cut begin and end to len, both."},
    {"long_cache", 1, false, test_long_cache,
     "Keys are counted in 64 bits, and so is the size of a chunk."},
    {"two_chunks", 1, false, test_two_chunks,
     "The weight of a part is exp(its LSE), over the sum of them; not the number of its keys. Its "
     "keys and values start at boundaries[i] * dim, and row->scale multiplies its scores."},
    {"unequal_chunks", 1, false, test_unequal_chunks,
     "All scores are equal, so every key weighs the same: a part with 7 keys weighs 7 times one."},
    {"large_scores", 1, false, test_large_scores,
     "exp(1000) overflows and exp(-200) is 0: take the largest LSE of all parts off before "
     "exp, and add it to the log in the end."},
    {"empty_chunks", 1, false, test_empty_chunks,
     "An empty chunk has LSE -INFINITY and an O that nobody wrote: leave it out of the sums."},
    {"more_splits_than_keys", 1, false, test_more_splits_than_keys,
     "8 chunks over 3 keys: five are empty. Neither chunk_range nor the merge may stumble."},
    {"every_cut", 2, false, test_every_cut,
     "The same keys cut in every way give the same answer. See which cut fails first."},
    {"random_chunks", 2, false, test_random_chunks,
     "Long rows, many chunks, large scores; see which case fails first."},
    {"no_keys", 1, true, test_no_keys,
     "All parts are empty: O = 0 and LSE = -INFINITY; 0 / 0 and -INFINITY - -INFINITY are NaN."},
    {"visible_nan", 1, true, test_visible_nan,
     "Leave a part out because its LSE is -INFINITY, not because its weight rounds to 0."},
    {NULL, 0, false, NULL, NULL},
};
