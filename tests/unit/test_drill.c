// The drill's questions: every shape against a formula written here once more, for thousands of
// seeds and for the card numbers of the curriculum; and that what is printed fits and is accepted.
#include "tests/drill/drill.h"
#include "tests/unit/capture.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double mebi = 1024 * 1024, gibi = 1024.0 * 1024 * 1024;

// ---- the same answers by other means ------------------------------------------------------------

static double ceil_of(double a, double b) {
    return ceil(a / b);
}

// The drawn value of a name, 1 where the shape has none.
static double of(const Draw *draw, const char *name) {
    return (double)draw_value(draw, name, 1);
}

static double naive_value(const Draw *p, int shape) {
    const double n = of(p, "N"), d = of(p, "d"), f = of(p, "bytes");
    const double values[] = {f * (4 * n * n + 4 * n * d), f * of(p, "heads") * n * n,
                             f * (6 * n * n + 4 * n * d),
                             8 * n * n * of(p, "heads") * of(p, "layers") / (of(p, "GB/s") * 1e9)};
    return values[shape];
}

static double compulsory_value(const Draw *p, int shape) {
    const double n = of(p, "N"), d = of(p, "d"), f = of(p, "bytes");
    const double values[] = {4 * n * d * f * of(p, "heads"), 2 * d * f * (of(p, "T") + of(p, "S")),
                             (n + d) / d};
    return values[shape];
}

static double intensity_value(const Draw *p, int shape) {
    const double n = of(p, "N"), d = of(p, "d"), f = of(p, "bytes");
    const double values[] = {4 * of(p, "T") * of(p, "S") * d, n / f, n * d / (f * (n + d)),
                             2 * of(p, "group") * of(p, "T") / f};
    return values[shape];
}

// Softmax of the three scores at once, not online.
static double softmax_value(const Draw *p, int shape) {
    const double x[] = {of(p, "a"), of(p, "b"), of(p, "c")};
    const double v[] = {of(p, "u"), of(p, "v"), of(p, "w")};
    const double m1 = fmax(x[0], x[1]), m = fmax(m1, x[2]);
    double sum = 0, weighted = 0;
    for (int i = 0; i < 3; i++) {
        sum += exp(x[i]);
        weighted += exp(x[i]) * v[i];
    }
    const double values[] = {(exp(x[0]) + exp(x[1])) / exp(m1), exp(m1) / exp(m), sum / exp(m),
                             exp(x[(int)of(p, "key") - 1]) / sum, weighted / sum};
    return values[shape];
}

static double merge_value(const Draw *p, int shape) {
    const double e1 = exp(of(p, "lse1")), e2 = exp(of(p, "lse2"));
    const double values[] = {log(e1 + e2), (of(p, "part") == 1 ? e1 : e2) / (e1 + e2),
                             (e1 * of(p, "o1") + e2 * of(p, "o2")) / (e1 + e2),
                             of(p, "asked") == 0 ? of(p, "o") : of(p, "lse"),
                             log(of(p, "parts") * exp(of(p, "lse")))};
    return values[shape];
}

static double waves_value(const Draw *p, int shape) {
    const double units = of(p, "batch") * of(p, "heads"), splits = of(p, "splits");
    const double slots = of(p, "SMs") * of(p, "resident");
    int dealt = 0; // splits that get keys, dealt out one by one
    while (shape == 5 &&
           dealt * ceil_of(10 * of(p, "tens of keys"), splits) < 10 * of(p, "tens of keys")) {
        dealt++;
    }
    const double values[] = {fmin(100, 100 * units / slots),
                             units * splits / slots,
                             ceil_of(units * splits, slots),
                             floor(slots / units),
                             ceil_of(100 * of(p, "hundreds of keys"), splits),
                             dealt};
    return values[shape];
}

// Keys that a query sees, tried one by one; *first and *pairs as well.
static double see(double t, double s, double row, double window, double *first) {
    double seen = 0;
    for (int j = 0; j < (int)s; j++) {
        if (j <= row + s - t && j > row + s - t - window) {
            *first = seen == 0 ? j : *first;
            seen++;
        }
    }
    return seen;
}

static double visible_value(const Draw *p, int shape) {
    double t = of(p, "T"), s = of(p, "S"), first = -1, empty = 0, pairs = 0;
    const double n = of(p, "blocks");
    if (shape == 3) {
        t = s + of(p, "more");
    } else if (shape == 4) {
        s = t + (double)draw_value(p, "before", 0);
    }
    const double window = shape == 1 || shape == 2 ? of(p, "W") : s + t;
    const double seen = see(t, s, (double)draw_value(p, "row", 0), window, &first);
    for (int row = 0; row < (int)t && (shape == 3 || shape == 4); row++) {
        double ignored = 0;
        pairs += see(t, s, row, s + t, &ignored);
        empty += see(t, s, row, s + t, &ignored) == 0;
    }
    const double values[] = {
        seen, seen, first, empty, pairs, n * n - n * (n - 1) / 2, 50 * (1 + 1 / n)};
    return values[shape];
}

static double backward_value(const Draw *p, int shape) {
    const double h = of(p, "heads"), n = of(p, "N"), f = of(p, "bytes");
    const double values[] = {4 * h * n, h * n * n * f, n * f / 4,
                             of(p, "layers") * h * n * (n * f - 4), 8 * h * n};
    return values[shape];
}

static double kv_value(const Draw *p, int shape) {
    const double token = 2 * of(p, "layers") * of(p, "kv heads") * of(p, "d") * of(p, "bytes");
    const double cache = token * of(p, "batch") * of(p, "tokens");
    const double values[] = {token,
                             cache,
                             cache * of(p, "group") / of(p, "GPUs"),
                             cache / (1e9 * of(p, "GB/s")),
                             token * of(p, "batch"),
                             gibi * of(p, "GiB") / token};
    return values[shape];
}

static double pages_value(const Draw *p, int shape) {
    const double page = of(p, "page"), tokens = 10 * of(p, "tens of tokens");
    const double size = 2 * page * of(p, "kv heads") * of(p, "d") * of(p, "bytes");
    const double prompt = 10 * of(p, "tens of prompt"), own = 10 * of(p, "tens of own");
    const double full = floor(prompt / page), n = of(p, "sequences");
    const double table = ceil_of(50 * of(p, "len 1"), page) + ceil_of(50 * of(p, "len 2"), page) +
                         ceil_of(50 * of(p, "len 3"), page);
    const double values[] = {size,
                             400 / size,
                             ceil_of(10 * of(p, "tens of keys"), page),
                             ceil_of(of(p, "tile"), page),
                             4 * table,
                             fmod(page - fmod(tokens, page), page),
                             full + n * ceil_of(prompt - full * page + own, page)};
    return values[shape];
}

typedef double (*Formula)(const Draw *draw, int shape);
static const Formula formulas[TOPICS] = {
    naive_value, compulsory_value, intensity_value, softmax_value, merge_value,
    waves_value, visible_value,    backward_value,  kv_value,      pages_value};

// ---- thousands of seeds -------------------------------------------------------------------------

// The answer that is shown must be accepted: what stands behind the last "= ".
static void assert_accepts_its_answer(const Question *question) {
    char number[NUMBER_BYTES], why[TEXT_BYTES];
    format_answer(number, question);
    ck_assert_msg(judge(question, number, why) == ANSWER_RIGHT, "%s\n%s: %s", question->text,
                  number, why);
    snprintf(number, sizeof number, "%.12g", question->value / question->unit.scale);
    ck_assert_msg(judge(question, number, why) == ANSWER_RIGHT, "%s: %s", number, why);
}

// A slip that the question names must not be taken for right, and has a value of its own.
static void assert_refuses_its_mistakes(const Question *question) {
    char number[NUMBER_BYTES], why[TEXT_BYTES];
    for (int i = 0; i < question->mistake_count; i++) {
        const Mistake *mistake = &question->mistakes[i];
        snprintf(number, sizeof number, "%.12g", mistake->value / question->unit.scale);
        ck_assert_msg(judge(question, number, why) == ANSWER_WRONG, "%s\n%s is taken for right: %s",
                      question->text, number, mistake->why);
        for (int k = 0; k < i; k++) {
            ck_assert_msg(mistake->value != question->mistakes[k].value, "%s\n%s is there twice",
                          question->text, number);
        }
    }
}

START_TEST(values_for_many_seeds) {
    const Topic *topic = topics[_i];
    for (int shape = 0; shape < shape_count(topic); shape++) {
        for (uint64_t seed = 0; seed < 1000; seed++) {
            Draw draw = {.state = seed};
            const Question question = make_question(topic, shape, &draw);
            const double value = formulas[_i](&draw, shape);
            const double shown = question.value / question.unit.scale;
            ck_assert_msg(fabs(question.value - value) <= 1e-9 * fabs(value),
                          "%s shape %d seed %d: %.10g, not %.10g", topic->name, shape, (int)seed,
                          question.value, value);
            ck_assert(isfinite(value) && (value > 0 || (question.exact && value == 0)));
            ck_assert_msg(value == 0 || (shown >= 1e-5 && shown < 1e8), "%s shape %d: %g %s",
                          topic->name, shape, shown, question.unit.name);
            ck_assert(!question.exact || value == nearbyint(value));
            ck_assert_msg(!question.cut, "%s shape %d: a text was cut", topic->name, shape);
            ck_assert_int_gt(strlen(question.chain), 0);
            assert_accepts_its_answer(&question);
            assert_refuses_its_mistakes(&question);
        }
    }
}
END_TEST

// Two draws of the same seed are the same; another seed gives something else.
START_TEST(seeds_decide) {
    Draw one = {.state = 7}, two = {.state = 7}, three = {.state = 8};
    ck_assert_uint_eq(draw_bits(&one), 7191089600892374487U); // splitmix64's first value for 7
    ck_assert_uint_eq(draw_bits(&two), 7191089600892374487U);
    ck_assert_uint_ne(draw_bits(&three), 7191089600892374487U);
    int different = 0;
    for (int i = 0; i < 20; i++) {
        const Question a = make_question(topics[0], 0, &one);
        const Question b = make_question(topics[0], 0, &two);
        const Question c = make_question(topics[0], 0, &three);
        ck_assert_str_eq(a.text, b.text);
        different += strcmp(a.text, c.text) != 0;
    }
    ck_assert_int_gt(different, 5);
}
END_TEST

static void print_all(void *context) {
    (void)context;
    for (int i = 0; i < TOPICS; i++) {
        for (int shape = 0; shape < shape_count(topics[i]); shape++) {
            Draw draw = {.state = (uint64_t)(31 * i + shape)};
            for (int k = 0; k < 100; k++) {
                const Question question = make_question(topics[i], shape, &draw);
                print_text(stdout, 2, 2, question.text);
                print_chain(stdout, &question);
                for (int m = 0; m < question.mistake_count; m++) {
                    print_text(stdout, 2, 2, question.mistakes[m].why);
                }
            }
        }
    }
}

START_TEST(eighty_columns) {
    Captured output = capture(print_all, NULL);
    ck_assert_int_eq(output.status, 0);
    ck_assert_int_le(longest_line(output.out), COLUMNS);
    ck_assert_int_gt(count_lines(output.out), 20000);
    ck_assert_ptr_null(strstr(output.out, "nan"));
    ck_assert_ptr_null(strstr(output.out, "1 heads")); // and other plurals of one
    ck_assert_ptr_null(strstr(output.out, "= 1 queries"));
    ck_assert_ptr_null(strstr(output.out, " 1 sequences"));
    ck_assert_ptr_nonnull(strstr(output.out, "4 N d"));
    ck_assert_ptr_nonnull(strstr(output.out, "8,192"));
    captured_free(&output);
}
END_TEST

// ---- the card numbers ---------------------------------------------------------------------------

typedef struct Card {
    const char *topic;
    int shape;
    Param params[6];
    double value, resolution; // in base units; within half a unit of the last digit that is printed
    const char *unit;
} Card;

static const Card cards[] = {
    // Chapter 1, one head, N = 8192, d = 128, 16 bits: 128 MiB, 520 MiB, 8 MiB, 34.4 GFLOP, 4,096.
    {"naive-bytes", 0, {{"N", 8192}, {"d", 128}, {"bytes", 2}}, 520 * mebi, 0, "MiB"},
    {"naive-bytes", 1, {{"N", 8192}, {"heads", 1}, {"bytes", 2}}, 128 * mebi, 0, "MiB"},
    {"naive-bytes", 2, {{"N", 8192}, {"d", 128}, {"bytes", 2}}, 776 * mebi, 0, "MiB"},
    {"naive-bytes",
     3,
     {{"N", 8192}, {"heads", 32}, {"layers", 32}, {"GB/s", 3350}},
     .164,
     .001,
     "ms"},
    {"compulsory", 0, {{"N", 8192}, {"d", 128}, {"heads", 1}, {"bytes", 2}}, 8 * mebi, 0, "MiB"},
    {"compulsory", 2, {{"N", 8192}, {"d", 128}}, 65, 0, ""},
    {"intensity", 0, {{"T", 8192}, {"S", 8192}, {"d", 128}}, 34.4e9, .1e9, "GFLOP"},
    {"intensity", 1, {{"N", 8192}, {"d", 128}, {"bytes", 2}}, 4096, 0, "FLOP/B"},
    {"intensity", 3, {{"group", 8}, {"T", 1}, {"bytes", 2}}, 8, 0, "FLOP/B"},
    // Chapter 2, scores 1, 2 | 3: l = 1.368, alpha 0.368, l = 1.503, weights 0.090 0.245 0.665.
    {"online-softmax", 0, {{"a", 1}, {"b", 2}, {"c", 3}}, 1.368, .001, ""},
    {"online-softmax", 1, {{"a", 1}, {"b", 2}, {"c", 3}}, .368, .001, ""},
    {"online-softmax", 2, {{"a", 1}, {"b", 2}, {"c", 3}}, 1.503, .001, ""},
    {"online-softmax", 3, {{"a", 1}, {"b", 2}, {"c", 3}, {"key", 1}}, .090, .001, ""},
    {"online-softmax", 3, {{"a", 1}, {"b", 2}, {"c", 3}, {"key", 2}}, .245, .001, ""},
    {"online-softmax", 3, {{"a", 1}, {"b", 2}, {"c", 3}, {"key", 3}}, .665, .001, ""},
    // Chapter 6: 8 of 132 SMs; 16 splits are 0.97 wave, 17 need a second one.
    {"waves", 0, {{"batch", 1}, {"heads", 8}, {"SMs", 132}}, 6, 1, "%"},
    {"waves",
     1,
     {{"batch", 1}, {"heads", 8}, {"SMs", 132}, {"resident", 1}, {"splits", 16}},
     .97,
     .01,
     "waves"},
    {"waves",
     2,
     {{"batch", 1}, {"heads", 8}, {"SMs", 132}, {"resident", 1}, {"splits", 17}},
     2,
     0,
     "waves"},
    {"waves", 3, {{"batch", 1}, {"heads", 8}, {"SMs", 132}, {"resident", 1}}, 16, 0, "splits"},
    // Chapter 7: a decode step sees all; 2,080 pairs at 8192 / 128; 53 % and 52 % at 2048.
    {"visible", 0, {{"T", 1}, {"S", 4096}, {"row", 0}}, 4096, 0, "keys"},
    {"visible", 5, {{"block", 128}, {"blocks", 64}}, 2080, 0, "tiles"},
    {"visible", 6, {{"block", 128}, {"blocks", 16}}, 53, 1, "%"},
    {"visible", 6, {{"block", 64}, {"blocks", 32}}, 52, 1, "%"},
    // The backward: 1 MiB of log-sum-exp against 4 GiB of P (32 heads, 8,192, 16 bits).
    {"backward", 0, {{"heads", 32}, {"N", 8192}, {"bytes", 2}}, mebi, 0, "MiB"},
    {"backward", 1, {{"heads", 32}, {"N", 8192}, {"bytes", 2}}, 4 * gibi, 0, "GiB"},
    {"backward", 2, {{"heads", 32}, {"N", 8192}, {"bytes", 2}}, 4096, 0, ""},
    // Chapter 8: 320 KiB a token; 20 GiB grouped and 160 GiB not, on each of 8 GPUs.
    {"kv", 0, {{"layers", 80}, {"kv heads", 8}, {"d", 128}, {"bytes", 2}}, 320 * 1024, 0, "KiB"},
    // Chapter 9: 64 KiB a page of 16 tokens, a table of 0.006 %, 8 lookups for a tile of 128.
    {"pages", 0, {{"page", 16}, {"kv heads", 8}, {"d", 128}, {"bytes", 2}}, 65536, 0, "KiB"},
    {"pages", 1, {{"page", 16}, {"kv heads", 8}, {"d", 128}, {"bytes", 2}}, .006, .001, "%"},
    {"pages", 3, {{"page", 16}, {"tile", 128}}, 8, 0, "lookups"},
};

static Question fixed_question(const char *topic, int shape, const Param *params, int count) {
    Draw draw = {.state = 1, .fixed = params, .fixed_count = count};
    return make_question(topics[find_topic(topic)], shape, &draw);
}

static int param_count(const Param *params, int most) {
    int count = 0;
    while (count < most && params[count].name != NULL) {
        count++;
    }
    return count;
}

START_TEST(card_numbers) {
    const Card *card = &cards[_i];
    const Question question =
        fixed_question(card->topic, card->shape, card->params, param_count(card->params, 6));
    ck_assert_msg(fabs(question.value - card->value) <= card->resolution / 2 + 1e-9 * card->value,
                  "%s %d: %.6g, not %.6g", card->topic, card->shape, question.value, card->value);
    ck_assert_str_eq(question.unit.name, card->unit);
}
END_TEST

// Chapter 8's caches have more sizes than a card's table.
START_TEST(llama_cache) {
    const Param params[] = {{"layers", 80}, {"kv heads", 8}, {"d", 128},  {"bytes", 2},
                            {"group", 8},   {"batch", 64},   {"GPUs", 8}, {"tokens", 8192}};
    ck_assert_double_eq(fixed_question("kv", 1, params, 8).value / 8, 20 * gibi);
    ck_assert_double_eq(fixed_question("kv", 2, params, 8).value, 160 * gibi);
}
END_TEST

// Chapter 3: [1, 2] | [3] have the log-sum-exps 2.313 and 3, merged 3.408, weights 0.335 and 0.665.
// Scores there are no whole numbers, so two equal parts and an empty one stand for them here.
START_TEST(merge_cards) {
    const Param equal[] = {{"lse1", 3}, {"lse2", 3}, {"part", 2}, {"o1", 2}, {"o2", 6}};
    ck_assert_double_eq_tol(fixed_question("merge", 0, equal, 5).value, 3 + log(2), 1e-12);
    ck_assert_double_eq_tol(fixed_question("merge", 1, equal, 5).value, 0.5, 1e-12);
    ck_assert_double_eq_tol(fixed_question("merge", 2, equal, 5).value, 4, 1e-12);
    const Param chapter[] = {{"lse1", 1}, {"lse2", 3}, {"part", 1}, {"o1", 6}, {"o2", 2}};
    ck_assert_double_eq_tol(fixed_question("merge", 2, chapter, 5).value, 2.4768, 5e-5); // its q5
    const Param empty[] = {{"o", 5}, {"lse", 2}, {"asked", 0}};
    ck_assert_double_eq(fixed_question("merge", 3, empty, 3).value, 5);
}
END_TEST

static Suite *drill_suite(void) {
    Suite *suite = suite_create("drill");
    TCase *tcase = tcase_create("questions");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, values_for_many_seeds, 0, TOPICS);
    tcase_add_test(tcase, seeds_decide);
    tcase_add_test(tcase, eighty_columns);
    tcase_add_loop_test(tcase, card_numbers, 0, (int)(sizeof cards / sizeof cards[0]));
    tcase_add_test(tcase, llama_cache);
    tcase_add_test(tcase, merge_cards);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void) {
    SRunner *runner = srunner_create(drill_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
