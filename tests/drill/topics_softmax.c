// Online softmax and the merge by hand (chapters 2 and 3): small scores, so that a table of a few
// exponentials is enough.
#include "tests/drill/drill.h"

#include <math.h>

static const char exponentials[] =
    " (e^-1=0.368, e^-2=0.135, e^-3=0.0498, e^-4=0.0183, e^-5=0.0067)";

// A smaller sum is 1 to two figures, whatever was computed.
static const double least_sum = 1.1;

// The number a draw gives, as a double.
static double small(Draw *draw, const char *name, int64_t low, int64_t high) {
    return (double)draw_range(draw, name, low, high);
}

// ---- online softmax -----------------------------------------------------------------------------

// Scores a, b | c: the state after the first block and after both.
typedef struct Blocks {
    double a, b, c;
    double m1, l1;      // maximum and sum of a, b
    double m, alpha, l; // of all three; what l1 is multiplied by
} Blocks;

static Blocks draw_blocks(Draw *draw) {
    Blocks s = {
        small(draw, "a", 1, 6), small(draw, "b", 1, 6), small(draw, "c", 1, 6), 0, 0, 0, 0, 0};
    s.m1 = fmax(s.a, s.b);
    s.l1 = exp(s.a - s.m1) + exp(s.b - s.m1);
    s.m = fmax(s.m1, s.c);
    s.alpha = exp(s.m1 - s.m);
    s.l = s.alpha * s.l1 + exp(s.c - s.m);
    return s;
}

static void ask_blocks(Question *question, const Blocks *s) {
    ask(question,
        "Online softmax, scores %.0f, %.0f | %.0f in blocks of two keys; m is the maximum so far, "
        "l the sum of exp(score - m). ",
        s->a, s->b, s->c);
}

static void reason_first(Question *question, const Blocks *s) {
    reason(question, "First block: m = %.0f, l = e^%.0f + e^%.0f = %.3f.", s->m1, s->a - s->m1,
           s->b - s->m1, s->l1);
}

static void reason_both(Question *question, const Blocks *s) {
    reason_first(question, s);
    reason(question, "Then m = %.0f, and alpha = e^(%.0f - %.0f) = %.4g.", s->m, s->m1, s->m,
           s->alpha);
    reason(question, "l = alpha x %.3f + e^%.0f = %.4g.", s->l1, s->c - s->m, s->l);
}

static void softmax_first(Question *question, Draw *draw) {
    const Blocks s = draw_blocks(draw);
    ask_blocks(question, &s);
    ask(question, "What is l after the first block?%s", exponentials);
    reason_first(question, &s);
    expect_mistake(question, exp(s.a) + exp(s.b),
                   "That is the sum of exp(score): the maximum is to be subtracted first.");
    expect_mistake(question, s.l, "That is l after both blocks.");
    expect_mistake(question, s.l1 - 1, "The largest score counts too: e^0 = 1.");
    question->trivial = s.l1 < least_sum;
    answer_near(question, s.l1, "");
}

static void softmax_alpha(Question *question, Draw *draw) {
    const Blocks s = draw_blocks(draw);
    ask_blocks(question, &s);
    ask(question, "By which factor alpha is the old l multiplied when the second block comes?%s",
        exponentials);
    reason(question, "m was %.0f and becomes max(%.0f, %.0f) = %.0f.", s.m1, s.m1, s.c, s.m);
    if (s.m == s.m1) {
        reason(question, "The maximum stays, so alpha = e^0.");
    } else {
        reason(question, "alpha = e^(old m - new m) = e^(%.0f - %.0f).", s.m1, s.m);
    }
    expect_mistake(question, 1 / s.alpha, "That is e^(new m - old m): the other way round.");
    expect_mistake(question, exp(s.m1 - s.c),
                   "The new m is the larger of the old m and the new score.");
    expect_mistake(question, exp(s.c - s.m), "That is the new key's own term in l.");
    answer_near(question, s.alpha, "");
}

static void softmax_sum(Question *question, Draw *draw) {
    const Blocks s = draw_blocks(draw);
    ask_blocks(question, &s);
    ask(question, "What is l after both blocks?%s", exponentials);
    reason_both(question, &s);
    expect_mistake(question, s.l1 + exp(s.c - s.m),
                   "The old sum was not rescaled: multiply it by e^(old m - new m).");
    expect_mistake(question, s.alpha * (s.l1 + 1), "The new key's term is not to be rescaled.");
    expect_mistake(question, exp(s.c - s.m), "That is the second block's sum alone.");
    expect_mistake(question, s.l1 / s.alpha + exp(s.c - s.m),
                   "alpha is the other way round: e^(old m - new m).");
    question->trivial = s.l < least_sum;
    answer_near(question, s.l, "");
}

static void softmax_weight(Question *question, Draw *draw) {
    const Blocks s = draw_blocks(draw);
    const int64_t key = draw_range(draw, "key", 1, 3);
    const double score = key == 1 ? s.a : key == 2 ? s.b : s.c;
    static const char *const names[] = {"first", "second", "third"};
    ask_blocks(question, &s);
    ask(question, "Which softmax weight does the %s key get in the end?%s", names[key - 1],
        exponentials);
    reason_both(question, &s);
    reason(question, "Its weight: e^(%.0f - %.0f) / l = %.4g / %.4g.", score, s.m, exp(score - s.m),
           s.l);
    expect_mistake(question, exp(score - s.m), "That is not divided by l yet.");
    expect_mistake(question, exp(score - s.m) / (s.l1 + exp(s.c - s.m)),
                   "The old sum was not rescaled by alpha.");
    expect_mistake(question, exp(score - s.m1) / s.l1,
                   "That is over the sum of the first block alone.");
    expect_mistake(question, score / (s.a + s.b + s.c),
                   "That is the share of the scores, without the exponential.");
    answer_near(question, exp(score - s.m) / s.l, "");
}

static void softmax_output(Question *question, Draw *draw) {
    const Blocks s = draw_blocks(draw);
    const double u = small(draw, "u", 1, 9), v = small(draw, "v", 1, 9), w = small(draw, "w", 1, 9);
    const double acc1 = exp(s.a - s.m1) * u + exp(s.b - s.m1) * v;
    const double acc = s.alpha * acc1 + exp(s.c - s.m) * w;
    ask_blocks(question, &s);
    ask(question, "The values are the numbers %.0f, %.0f | %.0f. What is the output O?%s", u, v, w,
        exponentials);
    reason_both(question, &s);
    reason(question, "acc: first %.4g; then alpha x %.4g + e^%.0f x %.0f = %.4g.", acc1, acc1,
           s.c - s.m, w, acc);
    reason(question, "Divided once, at the end: O = acc / l = %.4g / %.4g.", acc, s.l);
    expect_mistake(question, acc, "That is the accumulator: divide it by l.");
    expect_mistake(question, (u + v + w) / 3, "That is the plain average of the values.");
    expect_mistake(question, (acc1 + exp(s.c - s.m) * w) / s.l,
                   "The accumulator was not rescaled by alpha.");
    expect_mistake(question, acc1 / s.l1, "That is the output of the first block.");
    answer_near(question, acc / s.l, "");
}

const Topic softmax_topic = {
    "online-softmax",
    "online softmax by hand",
    "chapters/ch02_online_softmax",
    {softmax_first, softmax_alpha, softmax_sum, softmax_weight, softmax_output}};

// ---- the merge ----------------------------------------------------------------------------------

// Two parts with their log-sum-exps, at most 4 apart.
typedef struct Parts {
    double first, second, high, low;
    double share;  // of the part with the smaller LSE before dividing: e^(low - high)
    double merged; // LSE
} Parts;

static Parts draw_parts(Draw *draw) {
    Parts p = {0};
    p.first = small(draw, "lse1", 1, 9);
    p.second = small(draw, "lse2", (int64_t)fmax(1, p.first - 4), (int64_t)p.first + 4);
    p.high = fmax(p.first, p.second);
    p.low = fmin(p.first, p.second);
    p.share = exp(p.low - p.high);
    p.merged = p.high + log(1 + p.share);
    return p;
}

static void reason_merge(Question *question, const Parts *p) {
    reason(question, "Relative to the larger LSE, %.0f: 1 and e^(%.0f - %.0f) = %.4g; sum %.4g.",
           p->high, p->low, p->high, p->share, 1 + p->share);
}

static void merge_lse(Question *question, Draw *draw) {
    const Parts p = draw_parts(draw);
    ask(question,
        "Two parts of the keys have the log-sum-exps %.0f and %.0f (natural). What is the "
        "log-sum-exp of all keys?%s",
        p.first, p.second, exponentials);
    reason_merge(question, &p);
    reason(question, "LSE = %.0f + ln %.4g.", p.high, 1 + p.share);
    expect_mistake(question, p.first + p.second,
                   "Log-sum-exps are not added: their exponentials are.");
    expect_mistake(question, (p.first + p.second) / 2, "That is the average of the two.");
    expect_mistake(question, p.high + log2(1 + p.share), "That is a binary logarithm.");
    expect_mistake(question, p.high + 1 + p.share, "The logarithm of the sum is missing.");
    answer_near(question, p.merged, "");
}

static void merge_weight(Question *question, Draw *draw) {
    const Parts p = draw_parts(draw);
    const int64_t part = draw_range(draw, "part", 1, 2);
    const double own = part == 1 ? p.first : p.second, other = part == 1 ? p.second : p.first;
    const double weight = 1 / (1 + exp(other - own));
    ask(question,
        "Two parts of the keys have the log-sum-exps %.0f and %.0f (natural). With which weight "
        "does the output of the %s part enter the merged output?%s",
        p.first, p.second, part == 1 ? "first" : "second", exponentials);
    reason_merge(question, &p);
    reason(question, "The %s part's share: %.4g / %.4g.", part == 1 ? "first" : "second",
           exp(own - p.high), 1 + p.share);
    expect_mistake(question, 1 - weight, "That is the other part's weight.");
    expect_mistake(question, own / (own + other),
                   "That is the share of the LSEs themselves, "
                   "without the exponential.");
    expect_mistake(question, 1 / (1 + exp2(other - own)),
                   "That takes powers of 2: the LSEs are natural.");
    expect_mistake(question, exp(own - p.high), "That is not divided by the sum of both yet.");
    answer_near(question, weight, "");
}

static void merge_output(Question *question, Draw *draw) {
    const Parts p = draw_parts(draw);
    const double o1 = small(draw, "o1", 1, 9), o2 = small(draw, "o2", 1, 9);
    const double w1 = exp(p.first - p.merged), w2 = exp(p.second - p.merged);
    const double merged = w1 * o1 + w2 * o2;
    ask(question,
        "Part 1 has O = %.0f with LSE %.0f, part 2 has O = %.0f with LSE %.0f (one element, "
        "natural "
        "logarithms). What is the merged O?%s",
        o1, p.first, o2, p.second, exponentials);
    reason_merge(question, &p);
    reason(question, "Weights %.4g and %.4g.", w1, w2);
    reason(question, "O = %.4g x %.0f + %.4g x %.0f.", w1, o1, w2, o2);
    expect_mistake(question, (o1 + o2) / 2, "That is the average of the two outputs.");
    expect_mistake(question, w2 * o1 + w1 * o2, "The weights are swapped.");
    expect_mistake(question, (p.first * o1 + p.second * o2) / (p.first + p.second),
                   "Those are weights by the LSEs themselves, without the exponential.");
    expect_mistake(question, o1 + o2, "That is the sum: the weights are missing.");
    answer_near(question, merged, "");
}

static void merge_empty(Question *question, Draw *draw) {
    const double o = small(draw, "o", 1, 9), lse = small(draw, "lse", 1, 9);
    const int64_t asked = draw_range(draw, "asked", 0, 1); // 0: O, 1: LSE
    ask(question,
        "Part 1 has O = %.0f with LSE %.0f. Part 2 saw no key: O = 0, LSE = -inf. What is the "
        "merged "
        "%s?",
        o, lse, asked == 0 ? "O" : "LSE");
    reason(question, "Part 2's weight is e^(-inf) = 0, part 1's is 1.");
    reason(question, "An empty part is the identity of the merge: part 1 stays as it is.");
    expect_mistake(question, asked == 0 ? o / 2 : lse / 2,
                   "That gives the empty part half of the weight.");
    expect_mistake(question, 0, "An empty part adds nothing, and takes nothing away.");
    answer_near(question, asked == 0 ? o : lse, "");
}

static void merge_equal(Question *question, Draw *draw) {
    const double parts = (double)draw_power(draw, "parts", 1, 6);
    const double lse = small(draw, "lse", 1, 9);
    ask(question,
        "%.0f parts of the keys have the log-sum-exp %.0f each (natural). What is the log-sum-exp "
        "of "
        "all keys? (ln 2 = 0.693.)",
        parts, lse);
    reason(question, "%.0f equal terms: e^LSE = %.0f x e^%.0f.", parts, parts, lse);
    reason(question, "LSE = %.0f + ln %.0f = %.0f + %.0f x 0.693.", lse, parts, lse, log2(parts));
    expect_mistake(question, parts * lse, "Log-sum-exps are not added: their exponentials are.");
    expect_mistake(question, lse, "That is their average: more keys make a larger sum.");
    expect_mistake(question, lse + log2(parts), "That is a binary logarithm.");
    answer_near(question, lse + log(parts), "");
}

const Topic merge_topic = {"merge",
                           "the log-sum-exp merge",
                           "chapters/ch03_merge",
                           {merge_lse, merge_weight, merge_output, merge_empty, merge_equal}};
