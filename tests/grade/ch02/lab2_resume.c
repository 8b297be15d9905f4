// The suite of lab 2, a pass that is paused and resumed: first the two conversions by hand, then
// passes interrupted at every block, against a float64 reference.
#include "tests/grade/ch02/row_case.h"

const char grade_title[] = "the state as (O, LSE), and back";

static const float ln2 = 0.69314718f;

// One unit in the last place of a float of this size, and a few roundings of 1.
static double lse_tolerance(double lse) {
    return isinf(lse) ? 0.0 : 1e-6 + fabs(lse) * 0x1p-23;
}

// ---- the two conversions ------------------------------------------------------------------------

// Saves (m, l, (o0, o1)) and checks the result, into other memory and in place.
static void expect_saved(float m, float l, float o0, float o1, const double want[2],
                         double lse_want) {
    for (int in_place = 0; in_place < 2; in_place++) {
        float *o = grade_floats(2), *other = grade_floats(2);
        o[0] = o0;
        o[1] = o1;
        if (!in_place) {
            grade_freeze("state->o", o, sizeof(float));
        }
        const SoftmaxState state = {.m = m, .l = l, .o = o, .next = 5};
        PausedRow paused = {.lse = NAN, .o = in_place ? o : other, .next = -1};
        grade_case("save m = %g, l = %g, o = (%g, %g)%s", (double)m, (double)l, (double)o0,
                   (double)o1, in_place ? ", in place" : "");
        state_save(&state, 2, &paused);
        expect_close("lse", (double)paused.lse, lse_want, lse_tolerance(lse_want));
        expect_array("o", paused.o, want, 1, 2, 1e-6 * fmax(fabs(want[0]), fabs(want[1])));
        expect_int("next", paused.next, 5);
    }
}

static void test_save_by_hand(void) {
    expect_saved(2.0f, 4.0f, 8.0f, 2.0f, (double[]){2.0, 0.5}, 2.0 + log(4.0));
    expect_saved(-3.0f, 1.0f, -7.0f, 2.0f, (double[]){-7.0, 2.0}, -3.0);
}

static void test_lse_is_natural(void) {
    expect_saved(0.0f, 2.0f, 2.0f, 6.0f, (double[]){1.0, 3.0}, log(2.0));
    expect_saved(0.0f, 100.0f, 50.0f, 25.0f, (double[]){0.5, 0.25}, log(100.0));
}

static void test_save_large(void) {
    const float m[] = {90.0f, 1000.0f, -1000.0f, -60000.0f};
    for (int i = 0; i < 4; i++) {
        expect_saved(m[i], 2.0f, 8.0f, 2.0f, (double[]){4.0, 1.0}, (double)m[i] + log(2.0));
    }
}

// Restores (O, LSE) and checks that the state stands for it: m + log(l) = LSE and o / l = O, with
// finite m and l, whichever m the learner chose.
static void expect_restored(float lse, float o0, float o1) {
    for (int in_place = 0; in_place < 2; in_place++) {
        float *o = grade_floats(2), *other = grade_floats(2);
        o[0] = o0;
        o[1] = o1;
        if (!in_place) {
            grade_freeze("paused->o", o, sizeof(float));
        }
        const PausedRow paused = {.lse = lse, .o = o, .next = 5};
        SoftmaxState state = {.m = NAN, .l = NAN, .o = in_place ? o : other, .next = -1};
        grade_case("restore lse = %g, o = (%g, %g)%s", (double)lse, (double)o0, (double)o1,
                   in_place ? ", in place" : "");
        state_restore(&state, 2, &paused);
        if (!isfinite(state.m) || !isfinite(state.l) || !(state.l > 0.0f)) {
            grade_fail("got m = %g, l = %g: both must be finite and l above 0", (double)state.m,
                       (double)state.l);
        }
        expect_close("m + log(l)", (double)state.m + log((double)state.l), (double)lse,
                     lse_tolerance((double)lse));
        expect_close("o[0] / l", (double)state.o[0] / (double)state.l, (double)o0, 1e-6);
        expect_close("o[1] / l", (double)state.o[1] / (double)state.l, (double)o1, 1e-6);
        expect_int("next", state.next, 5);
    }
}

static void test_restore_by_hand(void) {
    expect_restored(3.5f, 2.0f, 0.5f);
    expect_restored(0.0f, -1.0f, 1.0f);
}

static void test_restore_large(void) {
    const float lse[] = {90.0f, 1000.0f, -1000.0f, -60000.0f};
    for (int i = 0; i < 4; i++) {
        expect_restored(lse[i], 2.0f, 0.5f);
    }
}

static void test_save_empty(void) {
    expect_saved(-INFINITY, 0.0f, 0.0f, 0.0f, (double[]){0.0, 0.0}, -INFINITY);
}

static void expect_empty_state(float garbage) {
    float *saved = grade_floats(2), *o = grade_floats(2);
    const double zeros[] = {0.0, 0.0};
    saved[0] = saved[1] = garbage;
    grade_freeze("paused->o", saved, sizeof(float));
    const PausedRow paused = {.lse = -INFINITY, .o = saved, .next = 0};
    SoftmaxState state = {.m = NAN, .l = NAN, .o = o, .next = -1};
    grade_case("restore lse = -inf, o = (%g, %g)", (double)garbage, (double)garbage);
    state_restore(&state, 2, &paused);
    expect_close("m", (double)state.m, -INFINITY, 0.0);
    expect_close("l", (double)state.l, 0.0, 0.0);
    expect_array("o", state.o, zeros, 1, 2, 0.0);
}

static void test_restore_empty(void) {
    expect_empty_state(0.0f);
}

static void test_restore_empty_garbage(void) {
    expect_empty_state(7.0f);
    expect_empty_state(NAN);
}

// ---- interrupted passes -------------------------------------------------------------------------

// Runs a whole pass, `blocks` blocks at a time, and checks next after each step. The output starts
// as NaN: the LSE of -INFINITY alone says that nothing has been seen. Returns the pauses.
static int64_t run_pass(const RowCase *c, int64_t blocks, PausedRow *paused) {
    const KeyRow row = c->row;
    int64_t pauses = 0;
    *paused = (PausedRow){-INFINITY, grade_floats((size_t)c->row.dim), 0};
    freeze_case(c);
    do {
        const int64_t reach = paused->next + blocks * c->row.block_k;
        const int64_t want = reach < c->row.len ? reach : c->row.len;
        attend_some(&row, blocks, paused);
        expect_int("next after the step", paused->next, want);
        pauses++;
    } while (paused->next < c->row.len);
    return pauses;
}

// What one pause may cost, relative to the weights so far: LSE is rounded when it is saved, and a
// restored m that is not LSE itself is rounded once more, each by half a unit in the last place.
static double pause_cost(double lse) {
    return isinf(lse) ? 0.0 : (fabs(lse) + 8.0) * 0x1p-23;
}

static void expect_pass(const RowCase *c, int64_t blocks, double o_want, double lse_want) {
    PausedRow paused;
    const double cost = (double)run_pass(c, blocks, &paused) * pause_cost(lse_want);
    expect_close("o", (double)paused.o[0], o_want, (2e-6 + cost) * fmax(1.0, fabs(o_want)));
    expect_close("lse", (double)paused.lse, lse_want, isinf(lse_want) ? 0.0 : 2e-6 + cost);
}

static void test_resume_rising_ladder(void) {
    float scores[8], values[8];
    for (int j = 0; j < 8; j++) {
        scores[j] = (float)j * ln2;
        values[j] = (float)j;
    }
    const RowCase c = case_of_scores(8, scores, values, 4);
    grade_case("scores j ln 2 and values j for j = 0..7, blocks of 4, one pass");
    expect_pass(&c, 2, 1538.0 / 255.0, log(255.0));
    grade_case("scores j ln 2 and values j for j = 0..7, paused after keys 0-3");
    expect_pass(&c, 1, 1538.0 / 255.0, log(255.0));
}

static void test_resume_max_must_not_fall(void) {
    const float scores[] = {100.0f, 0.0f, 99.0f}, values[] = {1.0f, 5.0f, 2.0f};
    const RowCase c = case_of_scores(3, scores, values, 1);
    const double p = 1.0 / (1.0 + exp(-1.0));
    grade_case("scores 100 | 0 | 99, values 1, 5, 2, paused at each bar");
    expect_pass(&c, 1, p + 2.0 * (1.0 - p), 100.0 - log(p));
}

static void test_resume_large_scores(void) {
    const float scores[] = {1000.0f, 999.0f}, values[] = {1.0f, 0.0f};
    const RowCase c = case_of_scores(2, scores, values, 1);
    grade_case("scores 1000 | 999, paused between");
    expect_pass(&c, 1, 1.0 / (1.0 + exp(-1.0)), 1000.0 + log1p(exp(-1.0)));
}

static void test_resume_very_negative(void) {
    const float bases[] = {-200.0f, -1000.0f, -60000.0f};
    for (int b = 0; b < 3; b++) {
        const float scores[] = {bases[b], bases[b] - 1.0f}, values[] = {1.0f, 0.0f};
        const RowCase c = case_of_scores(2, scores, values, 1);
        grade_case("scores %g | %g, paused between", (double)scores[0], (double)scores[1]);
        expect_pass(&c, 1, 1.0 / (1.0 + exp(-1.0)), (double)bases[b] + log1p(exp(-1.0)));
    }
}

static void test_resume_tail_leak(void) {
    enum { LEN = 33, BLOCK = 32, BEHIND = 2 * BLOCK - LEN };
    RowCase c = make_case(LEN + BEHIND, 1, BLOCK);
    c.row.len = LEN; // behind it the next head: keys and values of 0, all visible
    c.q[0] = 1.0f;
    for (int j = 0; j < LEN + BEHIND; j++) {
        c.k[j] = 0.0f;
        c.v[j] = j < LEN ? (float)j : 0.0f;
    }
    grade_case("33 keys of score 0, values 0..32, blocks of 32, paused after key 31");
    expect_pass(&c, 1, 16.0, log(33.0));
}

// Keys 0-3 are not visible and hold NaN; keys 4-7 have the score given.
static void expect_first_block_hidden(float score) {
    const float values[] = {NAN, NAN, NAN, NAN, 1.0f, 2.0f, 3.0f, 4.0f};
    const float scores[] = {NAN, NAN, NAN, NAN, score, score, score, score};
    for (int64_t block = 4; block >= 1; block /= 2) {
        RowCase c = case_of_scores(8, scores, values, block);
        for (int j = 0; j < 4; j++) {
            c.visible[j] = false;
        }
        grade_case("8 keys, blocks of %lld, keys 0-3 not visible, NaN in their places, keys 4-7 of "
                   "score %g, paused after each block",
                   (long long)block, (double)score);
        expect_pass(&c, 1, 2.5, (double)score + log(4.0));
    }
}

static void test_masked_first_tile(void) {
    expect_first_block_hidden(0.0f);
}

static void test_masked_then_very_negative(void) {
    expect_first_block_hidden(-200.0f);
}

static void test_nothing_to_do(void) {
    const float scores[] = {0.0f, ln2}, values[] = {4.0f, 1.0f};
    const RowCase c = case_of_scores(2, scores, values, 1);
    PausedRow paused = {-INFINITY, grade_floats(1), 0};
    freeze_case(&c);
    attend_some(&c.row, 1, &paused);
    for (int64_t blocks = 0; blocks < 2; blocks++) {
        if (blocks == 1) {
            attend_some(&c.row, 7, &paused);
        }
        const double o_want = blocks == 0 ? 4.0 : 2.0, lse_want = blocks == 0 ? 0.0 : log(3.0);
        grade_case("scores 0 | ln 2, values 4, 1: %s",
                   blocks == 0 ? "0 more blocks after the first" : "1 more block after the last");
        attend_some(&c.row, blocks, &paused);
        expect_int("next", paused.next, blocks == 0 ? 1 : 2);
        expect_close("o", (double)paused.o[0], o_want, 2e-6 * o_want);
        expect_close("lse", (double)paused.lse, lse_want, lse_tolerance(lse_want));
    }
}

static void test_empty_rows(void) {
    const RowCase none = make_case(0, 1, 4);
    RowCase hidden = make_case(9, 1, 4);
    for (int j = 0; j < 9; j++) {
        hidden.visible[j] = false;
    }
    grade_case("no keys");
    expect_pass(&none, 1, 0.0, -INFINITY);
    grade_case("9 keys, none visible, blocks of 4, paused after each");
    expect_pass(&hidden, 1, 0.0, -INFINITY);
}

static void expect_nan(const PausedRow *paused) {
    if (!isnan(paused->o[0]) || !isnan(paused->lse)) {
        grade_fail("got o = %g, lse = %g: the NaN was lost", (double)paused->o[0],
                   (double)paused->lse);
    }
}

static void test_nan_reaches_its_row(void) {
    const float scores[] = {0.0f, NAN, 0.0f}, values[] = {1.0f, 2.0f, 3.0f};
    float *o = grade_floats(1), *saved = grade_floats(1);
    PausedRow paused = {.lse = 7.0f, .o = saved};
    o[0] = NAN;
    saved[0] = 7.0f;
    const SoftmaxState state = {.m = 0.0f, .l = NAN, .o = o, .next = 2};
    grade_case("save m = 0, l = nan, o = nan");
    state_save(&state, 1, &paused);
    expect_nan(&paused);
    for (int64_t first = 0; first < 2; first++) {
        const RowCase c = case_of_scores(3 - first, scores + first, values + first, 1);
        grade_case("a NaN in visible key %lld of %lld, blocks of 1, paused after each",
                   (long long)(1 - first), (long long)(3 - first));
        run_pass(&c, 1, &paused);
        expect_nan(&paused);
    }
}

// Besides the tolerance of one pass, every pause costs, at the largest LSE that the row can have.
static void expect_interrupted(const RowCase *c, int64_t blocks) {
    const RowAnswer want = answer_of(c);
    PausedRow paused;
    const int64_t pauses = run_pass(c, blocks, &paused);
    const double cost = (double)pauses * pause_cost(want.score_max + log((double)c->row.len));
    double v_max = 0.0;
    for (int64_t i = 0; i < c->row.len * c->row.dim; i++) {
        v_max = fmax(v_max, fabs((double)c->v[i]));
    }
    expect_array("o", paused.o, want.o, 1, (size_t)c->row.dim,
                 want.o_tolerance + 2.0 * cost * v_max);
    expect_close("lse", (double)paused.lse, want.lse, want.lse_tolerance + cost);
}

static void test_every_interruption(void) {
    const int64_t lens[] = {1, 31, 33, 257}, sizes[] = {1, 7, 32, 300}, budgets[] = {1, 2, 5};
    for (int i = 0; i < 4 * 4 * 3; i++) {
        const int64_t len = lens[i / 12], block = sizes[i / 3 % 4], budget = budgets[i % 3];
        for (Course course = LEVEL; course < COURSES; course++) {
            RowCase c = random_case(len, 8, block, course, 100 + (uint64_t)i);
            for (int64_t j = 0; j < len - 1; j++) { // the first fifth hidden, and some others
                c.visible[j] = j >= len / 5 && grade_normal(7 + (uint64_t)i, (uint64_t)j) > -1.0f;
            }
            grade_case("%lld keys, blocks of %lld, paused after every %lld, dim 8, scores %s, some "
                       "keys hidden",
                       (long long)len, (long long)block, (long long)budget, course_name(course));
            expect_interrupted(&c, budget);
        }
    }
}

const GradeTest grade_tests[] = {
    {"save_by_hand", 1, false, test_save_by_hand,
     "O is o / l, element by element, and LSE is m + log(l)."},
    {"lse_is_natural", 1, false, test_lse_is_natural,
     "LSE is the natural log; log2 gives 1 instead of 0.693147 for m = 0, l = 2."},
    {"save_large", 1, false, test_save_large,
     "Keep m out of exp: log(l * exp(m)) overflows at m = 90 and is -inf at m = -1000."},
    {"restore_by_hand", 1, false, test_restore_by_hand,
     "The state must satisfy m + log(l) = LSE and o / l = O. One choice makes both plain copies."},
    {"restore_large", 1, false, test_restore_large,
     "m = 0, l = exp(LSE) overflows or becomes 0. Put LSE itself where nothing can overflow."},
    {"nothing_to_do", 1, false, test_nothing_to_do,
     "Zero blocks, or no keys left: restore and save alone, and nothing may change."},
    {"resume_rising_ladder", 2, false, test_resume_rising_ladder,
     "Right in one pass and wrong when paused: a conversion loses something. Wrong in both: the "
     "loop. Look at m, l and o before and after the pause."},
    {"resume_max_must_not_fall", 1, false, test_resume_max_must_not_fall,
     "A restored state must know how large its scores were: with m lost, a later, smaller score "
     "takes over."},
    {"resume_large_scores", 1, false, test_resume_large_scores,
     "exp(LSE) is infinite in float at 1000: restore without it."},
    {"resume_very_negative", 1, false, test_resume_very_negative,
     "exp(LSE) is 0 in float at -200, and a finite number in place of -INFINITY becomes the "
     "maximum."},
    {"resume_tail_leak", 1, false, test_resume_tail_leak,
     "The last block has len - next keys, not block_k, and it must not be left out."},
    {"masked_first_tile", 1, false, test_masked_first_tile,
     "A pass paused before its first visible key is empty: it must come back as m = -INFINITY, "
     "l = 0, o = 0. Hidden keys have the score -INFINITY, whatever k holds."},
    {"masked_then_very_negative", 1, false, test_masked_then_very_negative,
     "An empty pass that comes back with m = 0 makes exp(-200 - 0) = 0 of all that follows."},
    {"every_interruption", 2, false, test_every_interruption,
     "Lengths, blocks and budgets that do not divide one another; see which one fails."},
    {"save_empty", 1, true, test_save_empty,
     "l = 0 gives O = 0 and LSE = -INFINITY: 0 / 0 is NaN."},
    {"restore_empty", 1, true, test_restore_empty,
     "LSE = -INFINITY gives m = -INFINITY, l = 0, o = 0."},
    {"restore_empty_garbage", 1, true, test_restore_empty_garbage,
     "When LSE is -INFINITY set o to 0; do not multiply what stands there, 0 * NaN is NaN."},
    {"empty_rows", 1, true, test_empty_rows,
     "A row that sees no key stays empty through any number of pauses."},
    {"nan_reaches_its_row", 1, true, test_nan_reaches_its_row,
     "A state whose l is NaN is not empty, and neither is an LSE of NaN: `l > 0` and `lse > x` are "
     "false for NaN."},
    {NULL, 0, false, NULL, NULL},
};
