// The suite of lab 1, one-pass attention of a row with a sink. The cases with a closed form come
// first; the sweeps at the end compare with a float64 reference.
#include "tests/grade/ch02/row_case.h"

const char grade_title[] = "one-pass attention with a sink";

static const float ln2 = 0.69314718f, ln3 = 1.09861229f;

// Runs the learner's function on outputs that hold NaN.
static void attend(const RowCase *c, float *o, float *lse) {
    const KeyRow row = c->row;
    freeze_case(c);
    sink_attention(&row, o, lse);
}

// Checks a case of dimension 1 against the numbers given. o may be off by some twenty roundings of
// its size (exp, alpha, sums of at most 64 terms, division), the LSE by as many roundings of 1 and
// one unit in its own last place.
static void expect_row(const RowCase *c, double o_want, double lse_want) {
    float *o = grade_floats(1), *lse = grade_floats(1);
    attend(c, o, lse);
    expect_close("o", (double)o[0], o_want, 2e-6 * fmax(1.0, fabs(o_want)));
    expect_close("lse", (double)lse[0], lse_want,
                 isinf(lse_want) ? 0.0 : 2e-6 + fabs(lse_want) * 0x1p-23);
}

static void expect_answer(const RowCase *c) {
    const RowAnswer want = answer_of(c);
    float *o = grade_floats((size_t)c->row.dim), *lse = grade_floats(1);
    attend(c, o, lse);
    expect_array("o", o, want.o, 1, (size_t)c->row.dim, want.o_tolerance);
    expect_close("lse", (double)lse[0], want.lse, want.lse_tolerance);
}

static void test_one_block(void) {
    const float scores[] = {0.0f, ln2, 0.0f}, values[] = {1.0f, 6.0f, 3.0f};
    const RowCase one = case_of_scores(1, scores + 1, values + 1, 4);
    const RowCase three = case_of_scores(3, scores, values, 4);

    grade_case("one key, score ln 2, value 6, block of 4");
    expect_row(&one, 6.0, log(2.0));
    grade_case("scores 0, ln 2, 0, values 1, 6, 3, all in one block of 4");
    expect_row(&three, 4.0, log(4.0));
}

static void test_rising_ladder(void) {
    float scores[8], values[8];
    for (int j = 0; j < 8; j++) {
        scores[j] = (float)j * ln2;
        values[j] = (float)j;
    }
    for (int64_t block = 4; block >= 1; block /= 2) {
        const RowCase c = case_of_scores(8, scores, values, block);
        grade_case("scores j ln 2 and values j for j = 0..7, blocks of %lld", (long long)block);
        expect_row(&c, 1538.0 / 255.0, log(255.0));
    }
}

static void test_max_must_not_fall(void) {
    const float scores[] = {100.0f, 0.0f}, values[] = {1.0f, 5.0f};
    const RowCase c = case_of_scores(2, scores, values, 1);
    grade_case("score 100, then score 0, in blocks of 1; values 1, 5");
    expect_row(&c, 1.0, 100.0);
}

static void test_falling_by_little(void) {
    const float scores[] = {2.0f * ln2, ln2, 0.0f, 0.0f}, values[] = {1.0f, 2.0f, 3.0f, 5.0f};
    const RowCase c = case_of_scores(4, scores, values, 2);
    grade_case("scores 2 ln 2, ln 2 | 0, 0 and values 1, 2, 3, 5");
    expect_row(&c, 2.0, log(8.0));
}

static void test_large_scores(void) {
    const float scores[] = {1000.0f, 999.0f}, values[] = {1.0f, 0.0f};
    for (int64_t block = 1; block <= 2; block++) {
        const RowCase c = case_of_scores(2, scores, values, block);
        grade_case("scores 1000, 999, blocks of %lld", (long long)block);
        expect_row(&c, 1.0 / (1.0 + exp(-1.0)), 1000.0 + log1p(exp(-1.0)));
    }
}

static void test_very_negative_scores(void) {
    const float bases[] = {-200.0f, -1000.0f, -60000.0f};
    for (int b = 0; b < 3; b++) {
        const float scores[] = {bases[b], bases[b] - 1.0f}, values[] = {1.0f, 0.0f};
        for (int64_t block = 1; block <= 2; block++) {
            const RowCase c = case_of_scores(2, scores, values, block);
            grade_case("scores %g, %g, blocks of %lld", (double)scores[0], (double)scores[1],
                       (long long)block);
            expect_row(&c, 1.0 / (1.0 + exp(-1.0)), (double)bases[b] + log1p(exp(-1.0)));
        }
    }
}

// 33 keys of score 0 with V[j] = j, in blocks of 32. Behind key 32 stands more of the same memory:
// the keys and values of the next head, all 0, all visible.
static void test_tail_leak(void) {
    enum { LEN = 33, BLOCK = 32, BEHIND = 2 * BLOCK - LEN };
    RowCase c = make_case(LEN + BEHIND, 1, BLOCK);
    c.row.len = LEN;
    c.q[0] = 1.0f;
    for (int j = 0; j < LEN + BEHIND; j++) {
        c.k[j] = 0.0f;
        c.v[j] = j < LEN ? (float)j : 0.0f;
    }
    grade_case("33 keys of score 0, values 0..32, blocks of 32: the last block has one key");
    expect_row(&c, 16.0, log(33.0));
}

static void test_scale_and_base(void) {
    RowCase c = make_case(2, 4, 1);
    c.row.scale = 0.5f;
    for (int i = 0; i < 4; i++) {
        c.q[i] = i == 0 ? 2.0f : 0.0f;
        c.k[i] = i == 0 ? ln3 : 0.0f;
        c.k[4 + i] = 0.0f;
        c.v[i] = 1.0f;
        c.v[4 + i] = 0.0f;
    }
    const double want[] = {0.75, 0.75, 0.75, 0.75};
    float *o = grade_floats(4), *lse = grade_floats(1);
    grade_case("scale 1/2, q = (2, 0, 0, 0), keys (ln 3, 0, 0, 0) and 0, values 1 and 0");
    attend(&c, o, lse);
    expect_array("o", o, want, 1, 4, 2e-6);
    expect_close("lse", (double)lse[0], log(4.0), 2e-6);
}

// Keys 0-3 are not visible, though their scores would be 0; keys 4-7 have the score given.
static RowCase first_block_hidden(float score) {
    const float values[] = {9.0f, 9.0f, 9.0f, 9.0f, 1.0f, 2.0f, 3.0f, 4.0f};
    float scores[8];
    for (int j = 0; j < 8; j++) {
        scores[j] = j < 4 ? 0.0f : score;
    }
    RowCase c = case_of_scores(8, scores, values, 4);
    for (int j = 0; j < 4; j++) {
        c.visible[j] = false;
    }
    return c;
}

static void test_masked_first_tile(void) {
    const RowCase c = first_block_hidden(0.0f);
    grade_case("8 keys, blocks of 4, keys 0-3 not visible, keys 4-7 of score 0");
    expect_row(&c, 2.5, log(4.0));
}

static void test_masked_then_very_negative(void) {
    const RowCase c = first_block_hidden(-200.0f);
    grade_case("8 keys, blocks of 4, keys 0-3 not visible, keys 4-7 of score -200");
    expect_row(&c, 2.5, -200.0 + log(4.0));
}

static void test_hidden_keys_hold_nan(void) {
    for (int64_t block = 1; block <= 8; block++) {
        RowCase c = first_block_hidden(-3.0f);
        for (int j = 0; j < 4; j++) {
            c.k[j] = c.v[j] = NAN;
        }
        c.visible[6] = false;
        c.v[6] = NAN;
        grade_case("keys 0-3 and 6 not visible, NaN in their places, blocks of %lld",
                   (long long)block);
        expect_row(&c, 7.0 / 3.0, -3.0 + log(3.0));
    }
}

// Two keys of the score given, values 4 and 8, with a sink; one block each.
static RowCase two_keys_and_sink(float score, float sink) {
    const float scores[] = {score, score}, values[] = {4.0f, 8.0f};
    RowCase c = case_of_scores(2, scores, values, 1);
    c.row.sink = sink;
    return c;
}

static void test_sink_takes_its_share(void) {
    RowCase c = two_keys_and_sink(0.0f, 0.0f);
    grade_case("scores 0, 0, sink 0, values 4, 8: three equal shares");
    expect_row(&c, 4.0, log(3.0));
    c = two_keys_and_sink(0.0f, ln2);
    grade_case("scores 0, 0, sink ln 2, values 4, 8: half goes to the sink");
    expect_row(&c, 3.0, log(4.0));
    c = two_keys_and_sink(3.0f, 3.0f - ln2);
    grade_case("scores 3, 3, sink 3 - ln 2: a sink below the scores takes its share too");
    expect_row(&c, 4.8, 3.0 + log(2.5));
}

static void test_sink_far_above(void) {
    const RowCase c = two_keys_and_sink(0.0f, 200.0f);
    grade_case("scores 0, 0, sink 200, where exp overflows");
    expect_row(&c, 0.0, 200.0);
    const RowCase near = two_keys_and_sink(-60000.0f, -60000.0f + 1.0f);
    grade_case("scores -60000, -60000, sink -59999");
    expect_row(&near, 12.0 / (2.0 + exp(1.0)), -60000.0 + log(2.0 + exp(1.0)));
}

static void test_sink_far_below(void) {
    const RowCase c = two_keys_and_sink(0.0f, -200.0f);
    grade_case("scores 0, 0, sink -200");
    expect_row(&c, 6.0, log(2.0));
    const RowCase large = two_keys_and_sink(300.0f, 299.0f);
    grade_case("scores 300, 300, sink 299");
    expect_row(&large, 12.0 / (2.0 + exp(-1.0)), 300.0 + log(2.0 + exp(-1.0)));
}

static const int64_t lens[] = {1, 2, 31, 33, 257};
static const int64_t blocks[] = {1, 7, 32, 300};
static const int64_t dims[] = {1, 7, 40};
enum { LENS = 5, BLOCKS = 4, DIMS = 3 };

static void test_every_block_size(void) {
    for (int i = 0; i < LENS * BLOCKS * DIMS; i++) {
        const int64_t len = lens[i / (BLOCKS * DIMS)], block = blocks[i / DIMS % BLOCKS];
        const int64_t dim = dims[i % DIMS];
        for (Course course = LEVEL; course < COURSES; course++) {
            const RowCase c = random_case(len, dim, block, course, 100 + (uint64_t)i);
            grade_case("%lld keys, blocks of %lld, dim %lld, scores %s", (long long)len,
                       (long long)block, (long long)dim, course_name(course));
            expect_answer(&c);
        }
    }
}

static void test_masks_and_sinks(void) {
    const float sinks[] = {-INFINITY, -2.0f, 0.5f, 25.0f};
    for (int i = 0; i < LENS * BLOCKS * DIMS; i++) {
        const int64_t len = lens[i / (BLOCKS * DIMS)], block = blocks[i / DIMS % BLOCKS];
        const int64_t dim = dims[i % DIMS];
        const Course course = (Course)(i % COURSES);
        RowCase c = random_case(len, dim, block, course, 500 + (uint64_t)i);
        c.row.sink = sinks[i / 2 % 4];
        for (int64_t j = 0; j < len - 1; j++) { // the first third hidden, then about a quarter
            c.visible[j] = j >= len / 3 && grade_normal(900 + (uint64_t)i, (uint64_t)j) > -0.7f;
        }
        grade_case("%lld keys, blocks of %lld, dim %lld, scores %s, sink %g, some keys hidden",
                   (long long)len, (long long)block, (long long)dim, course_name(course),
                   (double)c.row.sink);
        expect_answer(&c);
    }
}

static void test_rows_without_keys(void) {
    const RowCase none = make_case(0, 1, 4);
    grade_case("no keys, no sink");
    expect_row(&none, 0.0, -INFINITY);
    RowCase c = first_block_hidden(0.0f);
    for (int j = 4; j < 8; j++) {
        c.visible[j] = false;
    }
    grade_case("8 keys, none visible, no sink");
    expect_row(&c, 0.0, -INFINITY);
}

static void test_only_the_sink(void) {
    const float sinks[] = {1.5f, -200.0f, 200.0f};
    for (int s = 0; s < 3; s++) {
        RowCase none = make_case(0, 1, 4);
        RowCase c = first_block_hidden(0.0f);
        for (int j = 4; j < 8; j++) {
            c.visible[j] = false;
        }
        none.row.sink = c.row.sink = sinks[s];
        grade_case("no keys, sink %g", (double)sinks[s]);
        expect_row(&none, 0.0, (double)sinks[s]);
        grade_case("8 keys, none visible, sink %g", (double)sinks[s]);
        expect_row(&c, 0.0, (double)sinks[s]);
    }
}

static void test_nan_reaches_its_row(void) {
    const float scores[] = {0.0f, NAN, 0.0f}, values[] = {1.0f, 2.0f, 3.0f};
    for (int64_t first = 0; first < 2; first++) { // the second row is NaN and nothing else
        const int64_t len = first == 0 ? 3 : 1;
        const RowCase c = case_of_scores(len, scores + first, values + first, 1);
        float *o = grade_floats(1), *lse = grade_floats(1);
        o[0] = lse[0] = 7.0f;
        grade_case("a NaN in a visible key, %s", first == 0 ? "among others" : "the only one");
        attend(&c, o, lse);
        if (!isnan(o[0]) || !isnan(lse[0])) {
            grade_fail("got o = %g, lse = %g: the NaN was lost", (double)o[0], (double)lse[0]);
        }
    }
}

const GradeTest grade_tests[] = {
    {"one_block", 1, false, test_one_block,
     "Within one block: m is its largest score, l the sum of exp(score - m), o the sum of "
     "exp(score - m) * v; at the end o / l and m + log(l), natural."},
    {"rising_ladder", 2, false, test_rising_ladder,
     "The second block raises the maximum: both l and o must be multiplied by alpha = "
     "exp(m_old - m_new) before it is added, and carried from block to block."},
    {"falling_by_little", 1, false, test_falling_by_little,
     "The second block's scores are lower: its weights are exp(score - m) with the kept maximum, "
     "not with the block's own."},
    {"max_must_not_fall", 1, false, test_max_must_not_fall,
     "The new maximum is the larger of the old one and the block's; taking the block's alone gives "
     "exp(100 - 0), which overflows."},
    {"large_scores", 1, false, test_large_scores,
     "Every exp needs the maximum taken off its argument; exp(1000) is infinite in float."},
    {"very_negative_scores", 1, false, test_very_negative_scores,
     "A maximum that starts at 0 or at a finite number such as -10000 is no maximum of these "
     "scores: every weight becomes 0. Start from -INFINITY."},
    {"tail_leak", 1, false, test_tail_leak,
     "The last block has len - begin keys, not block_k, and it must not be left out."},
    {"scale_and_base", 1, false, test_scale_and_base,
     "key_score has the scale in it, once. exp and log are the natural ones."},
    {"masked_first_tile", 1, false, test_masked_first_tile,
     "After a block without a visible key m is still -INFINITY, and -INFINITY - -INFINITY is NaN: "
     "give exp another argument there."},
    {"masked_then_very_negative", 1, false, test_masked_then_very_negative,
     "After a block without a visible key m must stay -INFINITY. Was it replaced by 0, the "
     "score of nothing? Then exp(-200 - 0) is 0."},
    {"hidden_keys_hold_nan", 1, false, test_hidden_keys_hold_nan,
     "A key that is not visible is skipped, in K and in V: 0 * NaN is NaN."},
    {"sink_takes_its_share", 1, false, test_sink_takes_its_share,
     "The sink adds exp(sink - m) to l, with the same m as the rest, and nothing to o."},
    {"sink_far_above", 1, false, test_sink_far_above,
     "A sink above every score is the new maximum: l and o are corrected to it before it joins."},
    {"sink_far_below", 1, false, test_sink_far_below,
     "A sink below the scores leaves m as it is, and its weight is exp(sink - m), not 1."},
    {"every_block_size", 2, false, test_every_block_size,
     "The answer does not depend on block_k. See which length and block fail: the last block, or a "
     "block larger than the row?"},
    {"masks_and_sinks", 2, false, test_masks_and_sinks,
     "Hidden keys, hidden blocks and a sink together; the tests above take them one at a time."},
    {"rows_without_keys", 1, true, test_rows_without_keys,
     "Without a key and a sink o = 0 and lse = -INFINITY: guard the division 0 / 0 and exp."},
    {"only_the_sink", 1, true, test_only_the_sink,
     "With the sink alone o = 0 and lse = sink: m goes from -INFINITY to the sink, l from 0 to 1."},
    {"nan_reaches_its_row", 1, true, test_nan_reaches_its_row,
     "Leaving a block out because m is still -INFINITY loses a NaN; guard exp's argument instead. "
     "And `l > 0` is false for NaN."},
    {NULL, 0, false, NULL, NULL},
};
