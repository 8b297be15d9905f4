// ./ch09, correctness: both rungs against the float64 oracle, which reads the contiguous tensors
// that the pages were filled from. The problem asked for, small ones that put page ends, shuffled
// tables, forks, masks, ragged lengths and grouped heads in the way, and every page size of one.
#include "chapters/ch09_paged/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int32_t ragged_lens[] = {97, 0, 3, 200};
static const int32_t forked_lens[] = {41, 37, 64, 40};

typedef struct Case {
    const char *name;
    AttnShape shape;
    DType dtype;
    PagePlan plan;
    int splits;
} Case;

static const Case cases[] = {
    {"bf16, d=128", {2, 8, 2, 1, 300, 128, 0, false, 0, NULL}, DTYPE_BF16, {16, true, 0}, 3},
    {"one after the other",
     {2, 8, 2, 1, 300, 128, 0, false, 0, NULL},
     DTYPE_BF16,
     {16, false, 0},
     3},
    {"page 6, f16", {2, 4, 2, 1, 100, 64, 0, false, 0, NULL}, DTYPE_F16, {6, true, 0}, 2},
    {"page 1", {1, 4, 1, 1, 40, 64, 0, false, 0, NULL}, DTYPE_BF16, {1, true, 0}, 2},
    {"ragged: 97, 0, 3, 200",
     {4, 8, 2, 1, 200, 64, 0, false, 0, ragged_lens},
     DTYPE_BF16,
     {16, true, 0},
     4},
    {"forked after 37 tokens",
     {4, 4, 2, 1, 64, 64, 0, false, 0, forked_lens},
     DTYPE_F16,
     {16, true, 37},
     2},
    {"causal, T=5", {2, 6, 2, 5, 90, 64, 0, true, 0, NULL}, DTYPE_BF16, {16, true, 0}, 3},
    {"window 20, T=3", {1, 8, 1, 3, 150, 128, 0, true, 20, NULL}, DTYPE_F16, {8, true, 0}, 4},
    {"page > keys", {2, 2, 2, 1, 40, 64, 0, false, 0, NULL}, DTYPE_BF16, {256, true, 0}, 1},
    {"no keys", {1, 2, 2, 2, 0, 64, 0, false, 0, NULL}, DTYPE_BF16, {16, true, 0}, 2},
    {"d=131, f16", {1, 2, 1, 1, 90, 131, 0, false, 0, NULL}, DTYPE_F16, {16, true, 0}, 3},
    {"64 heads on 2, f32", {1, 64, 2, 1, 70, 32, 0, false, 0, NULL}, DTYPE_F32, {10, true, 0}, 2},
};
enum { CASES = sizeof cases / sizeof cases[0], QUICK_CASES = 8 };

// Runs a rung on the problem and writes its larger error, of O and LSE, as a part of what is
// allowed into `cell` (16 bytes); "-" where the rung does not take the problem. *nans: elements
// that the inputs make NaN.
static bool check_rung(const Show *show, const char *name, Problem *problem, const PagePlan *plan,
                       int rung, int64_t splits, char *cell, size_t *nans) {
    if (!rung_takes(rung, &problem->shape, problem->dtype)) {
        snprintf(cell, 16, "-");
        return true;
    }
    RungRun run = {show->target, rung, splits, *plan, problem};
    LessonCheck check;
    lesson_require(show->program, lesson_check(rung_attention, &run, problem, 1, &check));
    snprintf(cell, 16, "%.3f", fmax(check.o.worst_ratio, check.lse.worst_ratio));
    if (!check.passed) {
        snprintf(cell, 16, "FAILED");
        report_text("%s, %s: %s", name, paged_rungs[rung].name,
                    check.o.message[0] ? check.o.message : check.lse.message);
    }
    *nans = check.required_nans;
    return check.passed;
}

static bool check_row(const Show *show, Table *table, const char *name, Problem *problem,
                      const PagePlan *plan, int64_t splits, size_t *nans) {
    char cells[PAGED_RUNGS][16];
    bool passed = true;
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        passed = check_rung(show, name, problem, plan, rung, splits, cells[rung], nans) && passed;
    }
    table_row(table, "%s|%s|%lld|%s|%lld|%s|%s|%s", name, dtype_name(problem->dtype),
              (long long)plan->page_size, plan->shuffled ? "shuffled" : "ordered",
              (long long)splits, cells[PAGED_CORES], cells[PAGED_MMA], passed ? "ok" : "FAILED");
    return passed;
}

// The problem asked for in one part, and in as many as asked or chosen, which is last so that its
// output is what is saved.
static bool check_asked(const Show *show, Table *table, const char *name, Problem *asked) {
    const int rung = rung_takes(PAGED_MMA, &asked->shape, asked->dtype) ? PAGED_MMA : PAGED_CORES;
    const int64_t chosen = splits_for(show, rung, &asked->shape, asked->dtype);
    const PagePlan ordered = {show->options->page, false, 0};
    const PagePlan shuffled = {show->options->page, true, 0};
    bool passed = true;
    size_t nans = 0;
    if (chosen > 1) {
        passed = check_row(show, table, name, asked, &ordered, 1, &nans);
    }
    passed = check_row(show, table, name, asked, &shuffled, chosen, &nans) && passed;
    if (nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, nans);
    }
    return passed;
}

// Gives every sequence the first `tokens` tokens of the first one.
static void share_prompt(Problem *problem, int64_t tokens) {
    const AttnShape *shape = &problem->shape;
    const size_t head = (size_t)(shape->len_kv * shape->dim);
    const size_t bytes = (size_t)(tokens * shape->dim) * sizeof(float);
    for (int64_t i = shape->heads_kv; i < shape->batch * shape->heads_kv; i++) {
        const size_t to = (size_t)i * head, from = (size_t)(i % shape->heads_kv) * head;
        memcpy((float *)problem->k.data + to, (const float *)problem->k.data + from, bytes);
        memcpy((float *)problem->v.data + to, (const float *)problem->v.data + from, bytes);
    }
}

bool show_correctness(const Show *show, Problem *asked) {
    const Options *options = show->options;
    const char *name = options->q ? "your files" : "as asked";
    const int count = options->q != NULL ? 0 : options->quick ? QUICK_CASES : CASES;
    report_section("Correctness: error against the float64 oracle");
    lesson_describe(name, asked);
    Table table;
    table_begin(&table, "error / allowed|type|page|table|splits|paged|mma|result");
    bool passed = check_asked(show, &table, name, asked);
    lesson_require(show->program, lesson_save(asked, options)); // the last rung's output
    for (int c = 0; c < count; c++) {
        const Case *each = &cases[c];
        Problem small;
        size_t nans;
        lesson_require(show->program, problem_random(&small, &each->shape, each->dtype,
                                                     options->seed + (uint64_t)c));
        if (each->plan.prompt > 0) {
            share_prompt(&small, each->plan.prompt);
        }
        passed =
            check_row(show, &table, each->name, &small, &each->plan, each->splits, &nans) && passed;
        problem_free(&small);
    }
    table_print(&table);
    report_text("Columns paged, on CUDA cores, and mma, paged_mma, which takes f16 and bf16 with "
                "d 64 and 128. The larger ratio of O and LSE, at most 1; docs/numerics.md derives "
                "the bound. The oracle reads the contiguous tensors that the pages were filled "
                "from. Slots that hold no token were NaN.");
    return passed;
}

// ---- any page size ------------------------------------------------------------------------------

// The largest difference between two tensors of one shape.
static double largest_difference(const Tensor *a, const Tensor *b) {
    double largest = 0;
    for (size_t i = 0; i < a->count; i++) {
        const double difference = fabs(tensor_get(a, i) - tensor_get(b, i));
        largest = difference > largest ? difference : largest;
    }
    return largest;
}

bool show_any_page(const Show *show) {
    enum { S = 37, MOST = S + 3, SPLITS = 2 };
    const AttnShape shape = {1, 4, 1, 1, S, 64, 0, false, 0, NULL};
    Problem problem;
    Tensor whole; // O of one page
    Table table;
    bool passed = true;
    char heading[64];
    snprintf(heading, sizeof heading, "Any page size, 1 to %d: S = %d, d = 64, bf16", MOST, S);
    report_section(heading);
    lesson_require(show->program,
                   problem_random(&problem, &shape, DTYPE_BF16, show->options->seed));
    table_begin(&table, "rung|sizes|difference from one page|error / allowed|result");
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        double difference = 0, ratio = 0;
        bool all = true;
        for (int64_t page = MOST; page >= 1; page--) {
            RungRun run = {show->target, rung, SPLITS, {page, true, 0}, &problem};
            LessonCheck check;
            lesson_require(show->program, lesson_check(rung_attention, &run, &problem, 1, &check));
            if (page == MOST) {
                lesson_require(show->program, tensor_convert(&whole, &problem.o, DTYPE_F32));
            }
            difference = fmax(difference, largest_difference(&problem.o, &whole));
            ratio = fmax(ratio, fmax(check.o.worst_ratio, check.lse.worst_ratio));
            all = all && check.passed;
        }
        tensor_free(&whole);
        table_row(&table, "%s|%d|%g|%.3f|%s", paged_rungs[rung].name, MOST, difference, ratio,
                  all ? "ok" : "FAILED");
        passed = passed && all;
    }
    problem_free(&problem);
    table_print(&table);
    report_text("Tables are shuffled. A page size changes where a key lies, and nothing that is "
                "computed from it: a difference of 0 is every bit the same. A page of %d tokens "
                "and more is a contiguous cache.",
                S);
    return passed;
}
