// The suite of lab 3, online top-k with softmax: rows with closed forms, then a sweep against a
// float64 reference. The scores come through a stream that overwrites each block with NaN when the
// next one is asked for, so that a second look at them is no use.
#include "exercises/ch02/labs.h"
#include "tests/grade/grade.h"

#include <math.h>

const char grade_title[] = "online top-k with softmax";

static const float ln2 = 0.69314718f, ln3 = 1.09861229f;

// ---- the stream ---------------------------------------------------------------------------------

typedef struct Feed {
    const float *scores; // [len] the whole row, which the learner does not see
    float *shown;        // [len] what the learner sees: NaN outside the current block
    int64_t len;
    int64_t block; // scores per block
    int64_t begin; // of the current block
    int64_t end;
    bool over; // the end was reported
} Feed;

static int64_t feed_next(void *context, const float **scores) {
    Feed *feed = context;

    if (feed->over) {
        grade_fail("next was called again after it had returned 0");
    }
    for (int64_t j = feed->begin; j < feed->end; j++) {
        if (feed->shown[j] != feed->scores[j]) {
            grade_fail("your code changed score %lld of the row", (long long)j);
        }
        feed->shown[j] = NAN;
    }
    feed->begin = feed->end;
    for (; feed->end < feed->len && feed->end < feed->begin + feed->block; feed->end++) {
        feed->shown[feed->end] = feed->scores[feed->end];
    }
    feed->over = feed->begin == feed->len;
    *scores = feed->shown + feed->begin;
    return feed->end - feed->begin;
}

// ---- the reference ------------------------------------------------------------------------------

typedef struct Row {
    const float *scores; // [len]
    int64_t len;
    double m, lse;
    int64_t *order; // [len] positions: largest score first, of equal ones the lower position first
} Row;

// Sorted by insertion from the front, in float64, the whole row at hand.
static Row make_row(const float *scores, int64_t len) {
    Row row = {scores, len, -INFINITY, -INFINITY, grade_alloc((size_t)len * sizeof(int64_t))};
    double l = 0.0;
    for (int64_t j = 0; j < len; j++) {
        int64_t place = j;
        for (; place > 0 && scores[row.order[place - 1]] < scores[j]; place--) {
            row.order[place] = row.order[place - 1];
        }
        row.order[place] = j;
        row.m = fmax(row.m, (double)scores[j]);
    }
    for (int64_t j = 0; j < len; j++) {
        l += scores[j] == -INFINITY ? 0.0 : exp((double)scores[j] - row.m);
    }
    row.lse = l > 0.0 ? row.m + log(l) : -INFINITY;
    return row;
}

// Runs the learner's function and checks everything.
//
// Tolerance, with u = 2^-24: score - m is rounded once (|score - m| u, an absolute error in the
// exponent), exp and the division cost a few u, the sum of len terms with its corrections at most
// (2 len + 8) u: the probability is right within that, relative to itself. FLT_MIN lets it be
// denormal. lse = m + log(l) adds the rounding of its own size.
static void expect_topk(const Row *row, int64_t block, int64_t k) {
    const double u = 0x1p-24;
    Feed feed = {.scores = row->scores,
                 .shown = grade_floats((size_t)row->len),
                 .len = row->len,
                 .block = block};
    const ScoreStream stream = {feed_next, &feed};
    int64_t *index = grade_alloc((size_t)k * sizeof(int64_t));
    float *prob = grade_floats((size_t)k), *lse = grade_floats(1);
    const double sum_error = (2.0 * (double)row->len + 8.0) * u;

    const int64_t seen = online_topk(&stream, k, index, prob, lse);
    if (!feed.over) {
        grade_fail("the row was not read to its end: next never returned 0");
    }
    expect_int("scores delivered", seen, row->len);
    for (int64_t i = 0; i < k; i++) {
        const bool real = i < row->len && row->scores[row->order[i]] > -INFINITY;
        const int64_t at = real ? row->order[i] : -1;
        if (index[i] != at) {
            grade_fail("index[%lld]: got %lld, expected %lld", (long long)i, (long long)index[i],
                       (long long)at);
        }
        const double below = real ? row->m - (double)row->scores[at] : 0.0;
        const double want = real ? exp((double)row->scores[at] - row->lse) : 0.0;
        const double tolerance = real ? want * (below * u + sum_error) + 0x1p-126 : 0.0;
        if (!(fabs((double)prob[i] - want) <= tolerance)) {
            grade_fail("prob[%lld], of score %.9g: got %.9g, expected %.9g", (long long)i,
                       real ? (double)row->scores[at] : -INFINITY, (double)prob[i], want);
        }
    }
    expect_close("lse", (double)lse[0], row->lse,
                 isinf(row->lse) ? 0.0 : sum_error + fabs(row->lse) * u);
}

// ---- the tests ----------------------------------------------------------------------------------

static void test_largest_two(void) {
    const float scores[] = {0.0f, 2.0f * ln2, ln3};
    const Row row = make_row(scores, 3);
    grade_case("scores 0, 2 ln 2, ln 3 in one block, k = 2: probabilities 1/2 and 3/8");
    expect_topk(&row, 3, 2);
}

static void test_whole_row_counts(void) {
    const float scores[] = {0.0f, 0.0f, 0.0f, 0.0f, ln2, 0.0f};
    const Row row = make_row(scores, 6);
    grade_case("scores 0, 0, 0, 0, ln 2, 0 in one block, k = 1: probability 2/7");
    expect_topk(&row, 6, 1);
}

static void fill_ladder(float scores[8], float step) {
    for (int j = 0; j < 8; j++) {
        scores[j] = (float)j * step;
    }
}

static void test_rising_ladder(void) {
    float scores[8];
    fill_ladder(scores, ln2);
    const Row row = make_row(scores, 8);
    for (int64_t block = 4; block >= 1; block /= 2) {
        grade_case("scores j ln 2 for j = 0..7, blocks of %lld, k = 3", (long long)block);
        expect_topk(&row, block, 3);
    }
}

static void test_falling_ladder(void) {
    float scores[8];
    fill_ladder(scores, -ln2);
    const Row row = make_row(scores, 8);
    for (int64_t block = 4; block >= 1; block /= 2) {
        grade_case("scores -j ln 2 for j = 0..7, blocks of %lld, k = 3", (long long)block);
        expect_topk(&row, block, 3);
    }
}

static void test_max_must_not_fall(void) {
    const float scores[] = {100.0f, 0.0f, 99.0f};
    const Row row = make_row(scores, 3);
    grade_case("scores 100 | 0 | 99, k = 2");
    expect_topk(&row, 1, 2);
}

static void test_ties_lower_index_first(void) {
    const float scores[] = {1.0f, 2.0f, 2.0f, 0.0f, 2.0f, 1.0f}, pushed[] = {1.0f, 1.0f, 3.0f};
    const Row row = make_row(scores, 6), small = make_row(pushed, 3);
    for (int64_t block = 3; block >= 1; block--) {
        grade_case("scores 1, 1, 3, blocks of %lld, k = 2: positions 2, 0", (long long)block);
        expect_topk(&small, block, 2);
    }
    for (int64_t block = 6; block >= 1; block--) {
        grade_case("scores 1, 2, 2, 0, 2, 1, blocks of %lld, k = 4: positions 1, 2, 4, 0",
                   (long long)block);
        expect_topk(&row, block, 4);
    }
}

static void test_tie_for_the_last_place(void) {
    const float scores[] = {3.0f, 1.0f, 1.0f, 1.0f};
    const Row row = make_row(scores, 4);
    for (int64_t block = 4; block >= 1; block /= 2) {
        grade_case("scores 3, 1, 1, 1, blocks of %lld, k = 2: positions 0, 1", (long long)block);
        expect_topk(&row, block, 2);
    }
}

static void test_large_scores(void) {
    const float bases[] = {89.0f, 1000.0f, 60000.0f};
    for (int b = 0; b < 3; b++) {
        const float scores[] = {bases[b], bases[b] - 1.0f, bases[b] - 2.0f};
        const Row row = make_row(scores, 3);
        grade_case("scores %g | %g | %g, k = 2", (double)scores[0], (double)scores[1],
                   (double)scores[2]);
        expect_topk(&row, 1, 2);
    }
}

static void test_very_negative_scores(void) {
    const float bases[] = {-200.0f, -1000.0f, -60000.0f};
    for (int b = 0; b < 3; b++) {
        const float scores[] = {bases[b] - 1.0f, bases[b]};
        const Row row = make_row(scores, 2);
        for (int64_t block = 1; block <= 2; block++) {
            grade_case("scores %g, %g, blocks of %lld, k = 2", (double)scores[0], (double)scores[1],
                       (long long)block);
            expect_topk(&row, block, 2);
        }
    }
}

static void test_k_larger_than_the_row(void) {
    const float scores[] = {0.0f, ln3};
    const Row row = make_row(scores, 2);
    grade_case("scores 0, ln 3, k = 5: positions 1, 0, then -1 three times");
    expect_topk(&row, 1, 5);
}

static void expect_first_block_hidden(float score) {
    const float scores[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, score, score, -INFINITY};
    const Row row = make_row(scores, 7);
    for (int64_t block = 4; block >= 1; block /= 2) {
        grade_case("scores -inf four times, %g, %g, -inf, blocks of %lld, k = 3", (double)score,
                   (double)score, (long long)block);
        expect_topk(&row, block, 3);
    }
}

static void test_masked_first_tile(void) {
    expect_first_block_hidden(0.0f);
}

static void test_masked_then_very_negative(void) {
    expect_first_block_hidden(-200.0f);
}

static void test_tail_leak(void) {
    float *scores = grade_floats(33);
    for (int j = 0; j < 33; j++) {
        scores[j] = j == 32 ? ln2 : 0.0f;
    }
    const Row row = make_row(scores, 33);
    grade_case("32 scores of 0, then ln 2 in a block of its own, k = 1");
    expect_topk(&row, 32, 1);
}

static void test_k_zero(void) {
    const float scores[] = {0.0f, 0.0f, ln2};
    const Row row = make_row(scores, 3);
    grade_case("scores 0, 0 | ln 2, k = 0: the LSE alone");
    expect_topk(&row, 2, 0);
}

static void test_empty_row(void) {
    const float hidden[] = {-INFINITY, -INFINITY, -INFINITY};
    const Row none = make_row(hidden, 0), row = make_row(hidden, 3);
    grade_case("no scores, k = 2");
    expect_topk(&none, 4, 2);
    grade_case("three scores of -inf, blocks of 2, k = 2");
    expect_topk(&row, 2, 2);
}

// Scores on a grid of 1/4, so that ties are common; hundreds and hidden keys among them.
static void test_every_block_size(void) {
    const int64_t lens[] = {1, 2, 31, 33, 257}, blocks[] = {1, 7, 32, 300}, ks[] = {1, 5, 40, 300};
    for (int i = 0; i < 5 * 4 * 4; i++) {
        const int64_t len = lens[i / 16], block = blocks[i / 4 % 4], k = ks[i % 4];
        const double spread = i % 3 == 0 ? 200.0 : 2.0, slope = (double)(i % 5) - 2.0;
        float *scores = grade_floats((size_t)len);
        for (int64_t j = 0; j < len; j++) {
            const double normal = (double)grade_normal(40 + (uint64_t)i, (uint64_t)j);
            const double score = spread * normal + 10.0 * slope * (double)j / (double)len;
            const bool hidden = j % 11 == 0 && i % 2 == 0;
            scores[j] = hidden ? -INFINITY : (float)(floor(4.0 * score) / 4.0);
        }
        const Row row = make_row(scores, len);
        grade_case("%lld random scores with ties, blocks of %lld, k = %lld", (long long)len,
                   (long long)block, (long long)k);
        expect_topk(&row, block, k);
    }
}

const GradeTest grade_tests[] = {
    {"largest_two", 1, false, test_largest_two,
     "Keep each entry's score and position, sorted; at the end its probability is exp(score - m) / "
     "l. The position is counted from the start of the row."},
    {"whole_row_counts", 1, false, test_whole_row_counts,
     "The denominator is the sum over the whole row, not over the k entries."},
    {"rising_ladder", 2, false, test_rising_ladder,
     "When the maximum rises, the sum is multiplied by exp(m_old - m_new). Later blocks push "
     "earlier entries down the list, position and score together."},
    {"falling_ladder", 1, false, test_falling_ladder,
     "A block with smaller scores leaves m and the list as they are and still adds to the sum."},
    {"max_must_not_fall", 1, false, test_max_must_not_fall,
     "The new maximum is the larger of the old one and the block's; taking the block's alone gives "
     "exp(100 - 0), which overflows."},
    {"ties_lower_index_first", 1, false, test_ties_lower_index_first,
     "A score goes behind the equal ones that are already in the list, and an entry that is pushed "
     "down stays in front of its equals."},
    {"tie_for_the_last_place", 1, false, test_tie_for_the_last_place,
     "A score equal to the last entry of a full list does not replace it."},
    {"tail_leak", 1, false, test_tail_leak,
     "next returns how many scores this block has; the last one may be shorter than the others."},
    {"large_scores", 1, false, test_large_scores,
     "exp(score) overflows above 88.7, and exp(score - lse) carries the rounding of lse: at 60000 "
     "floats are 0.004 apart. exp(score - m) / l loses nothing."},
    {"very_negative_scores", 1, false, test_very_negative_scores,
     "m starts at -INFINITY, and so does a score in the list that was never filled: 0 or -10000 "
     "would be larger than these scores."},
    {"k_larger_than_the_row", 1, false, test_k_larger_than_the_row,
     "An entry that was never filled has index -1 and probability exactly 0."},
    {"masked_first_tile", 1, false, test_masked_first_tile,
     "While m is -INFINITY, exp(m - m) is NaN: give exp another argument. A score of -INFINITY is "
     "never among the k."},
    {"masked_then_very_negative", 1, false, test_masked_then_very_negative,
     "After a block of -INFINITY m must stay -INFINITY. Was it replaced by 0? Then exp(-200) is "
     "0."},
    {"k_zero", 1, false, test_k_zero,
     "With k = 0 the list has no entries: do not look at its last one. The LSE is still wanted."},
    {"every_block_size", 2, false, test_every_block_size,
     "The answer does not depend on the blocks. See which length, block and k fail."},
    {"empty_row", 1, true, test_empty_row,
     "A row without a score above -INFINITY has index -1, probability 0 and LSE -INFINITY, no "
     "NaN."},
    {NULL, 0, false, NULL, NULL},
};
