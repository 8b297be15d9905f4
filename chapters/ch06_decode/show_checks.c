// ./ch06, correctness: every rung and several numbers of splits against the float64 oracle, on the
// problem asked for and on small ones that put tails, masks, ragged lengths, grouped heads and
// unaligned rows in the way; and every number of splits of one small problem.
#include "chapters/ch06_decode/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int32_t ragged_lens[] = {97, 0, 3, 200};

typedef struct Case {
    const char *name;
    AttnShape shape;
    DType dtype;
    int splits;
} Case;

static const Case cases[] = {
    {"bf16, d=128", {1, 2, 2, 1, 500, 128, 0, false, 0, NULL}, DTYPE_BF16, 6},
    {"f16, T=4, d=256", {1, 1, 1, 4, 300, 256, 0, false, 0, NULL}, DTYPE_F16, 5},
    {"causal, T=3 S=200", {1, 2, 2, 3, 200, 64, 0, true, 0, NULL}, DTYPE_F32, 4},
    {"causal, T=16, bf16", {1, 2, 2, 16, 200, 64, 0, true, 0, NULL}, DTYPE_BF16, 4},
    {"causal, T=7 S=4", {1, 2, 2, 7, 4, 16, 0, true, 0, NULL}, DTYPE_F32, 3},
    {"ragged: 97, 0, 3, 200", {4, 2, 2, 1, 200, 64, 0, false, 0, ragged_lens}, DTYPE_F32, 7},
    {"no keys", {1, 2, 2, 2, 0, 16, 0, false, 0, NULL}, DTYPE_F32, 2},
    {"GQA 6 on 2, batch 2", {2, 6, 2, 1, 150, 32, 0, false, 0, NULL}, DTYPE_F32, 5},
    {"d=1", {1, 1, 1, 2, 70, 1, 0, false, 0, NULL}, DTYPE_F32, 3},
    {"d=131, f16", {1, 1, 1, 1, 90, 131, 0, false, 0, NULL}, DTYPE_F16, 3},
    {"scores in the hundreds", {1, 1, 1, 1, 300, 64, 6, false, 0, NULL}, DTYPE_F32, 9},
};
enum { CASES = sizeof cases / sizeof cases[0], QUICK_CASES = 8 };

// Runs a rung on the problem and writes its larger error, of O and LSE, as a part of what is
// allowed into `cell` (16 bytes). *nans: elements that the inputs make NaN.
static bool check_rung(const Show *show, const char *name, Problem *problem, int rung,
                       int64_t splits, char *cell, size_t *nans) {
    RungRun run = {.target = show->target, .rung = rung, .splits = splits, .problem = problem};
    LessonCheck check;
    lesson_require(show->program, lesson_check(rung_attention, &run, problem,
                                               decode_tile_queries(problem->shape.len_q), &check));
    snprintf(cell, 16, "%.3f", fmax(check.o.worst_ratio, check.lse.worst_ratio));
    if (!check.passed) {
        snprintf(cell, 16, "FAILED");
        report_text("%s, %s: %s", name, decode_rungs[rung].name,
                    check.o.message[0] ? check.o.message : check.lse.message);
    }
    *nans = check.required_nans;
    return check.passed;
}

static bool check_row(const Show *show, Table *table, const char *name, Problem *problem,
                      int64_t splits, size_t *nans) {
    char cells[DECODE_RUNGS][16];
    bool passed = true;
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        passed = check_rung(show, name, problem, rung, splits, cells[rung], nans) && passed;
    }
    table_row(table, "%s|%lld|%s|%s|%s|%s|%s", name, (long long)splits, cells[0], cells[1],
              cells[2], cells[3], passed ? "ok" : "FAILED");
    return passed;
}

// The problem asked for in one part, in three, in as many as asked or chosen, which is last so that
// its output is what is saved; with many queries the last only.
static bool check_asked(const Show *show, Table *table, const char *name, Problem *asked) {
    const int64_t chosen = splits_for(show, &asked->shape, asked->dtype);
    const int64_t counts[] = {1, 3, chosen};
    bool passed = true;
    size_t nans = 0;
    for (int i = asked->shape.len_q > SHOW_FEW_QUERIES ? 2 : 0; i < 3; i++) {
        if (i == 2 || counts[i] != chosen) {
            passed = check_row(show, table, name, asked, counts[i], &nans) && passed;
        }
    }
    if (nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, nans);
    }
    return passed;
}

bool show_correctness(const Show *show, Problem *asked) {
    const Options *options = show->options;
    const char *name = options->q ? "your files" : "as asked";
    const int count = options->q != NULL ? 0 : options->quick ? QUICK_CASES : CASES;
    report_section("Correctness: error against the float64 oracle");
    lesson_describe(name, asked);
    Table table;
    table_begin(&table, "error / allowed|splits|decode|unfused|split_kv|fused|result");
    bool passed = check_asked(show, &table, name, asked);
    lesson_require(show->program, lesson_save(asked, options)); // the last rung's output
    for (int c = 0; c < count; c++) {
        Problem small;
        size_t nans;
        lesson_require(show->program, problem_random(&small, &cases[c].shape, cases[c].dtype,
                                                     options->seed + (uint64_t)c));
        passed = check_row(show, &table, cases[c].name, &small, cases[c].splits, &nans) && passed;
        problem_free(&small);
    }
    table_print(&table);
    report_text("Columns: decode, which does not split, split_kv_unfused, split_kv and "
                "split_kv_fused. The larger ratio of O and LSE, at most 1; docs/numerics.md "
                "derives the bound.%s",
                options->out || options->lse ? " What was saved is split_kv_fused's." : "");
    return passed;
}

// ---- any number of splits -----------------------------------------------------------------------

// The largest difference between two tensors of one shape.
static double largest_difference(const Tensor *a, const Tensor *b) {
    double largest = 0;
    for (size_t i = 0; i < a->count; i++) {
        const double difference = fabs(tensor_get(a, i) - tensor_get(b, i));
        largest = difference > largest ? difference : largest;
    }
    return largest;
}

bool show_any_count(const Show *show) {
    const int keys = show->options->quick ? 9 : 23, most = keys + 5;
    const AttnShape shape = {1, 2, 2, 1, keys, 64, 0, false, 0, NULL};
    Problem problem;
    Tensor whole; // O of one part
    Table table;
    bool passed = true;
    char heading[64];
    snprintf(heading, sizeof heading, "Any number of splits, 1 to %d: S = %d, d = 64, f32", most,
             keys);
    report_section(heading);
    lesson_require(show->program, problem_random(&problem, &shape, DTYPE_F32, show->options->seed));
    table_begin(&table, "rung|counts|difference from one part|error / allowed|result");
    for (int rung = SHOW_UNFUSED; rung < DECODE_RUNGS; rung++) {
        double difference = 0, ratio = 0;
        bool all = true;
        for (int64_t splits = 1; splits <= most; splits++) {
            RungRun run = {show->target, rung, splits, &problem};
            LessonCheck check;
            lesson_require(show->program, lesson_check(rung_attention, &run, &problem, 1, &check));
            if (splits == 1) {
                lesson_require(show->program, tensor_convert(&whole, &problem.o, DTYPE_F32));
            }
            difference = fmax(difference, largest_difference(&problem.o, &whole));
            ratio = fmax(ratio, fmax(check.o.worst_ratio, check.lse.worst_ratio));
            all = all && check.passed;
        }
        tensor_free(&whole);
        table_row(&table, "%s|%d|%.1e|%.3f|%s", decode_rungs[rung].name, most, difference, ratio,
                  all ? "ok" : "FAILED");
        passed = passed && all;
    }
    problem_free(&problem);
    table_print(&table);
    report_text("The largest difference of an element of O, and the largest ratio. Every number of "
                "parts, more parts than keys among them, gives the same answer but for the last "
                "digits of a float32.");
    return passed;
}
