// ./ch05, correctness: every rung against the float64 oracle, on the problem asked for and on small
// ones that put tails, empty problems, grouped heads and every head dimension in the way.
#include "chapters/ch05_fused_cuda/show.h"

#include <stdio.h>

typedef struct Case {
    const char *name;
    AttnShape shape;
    DType dtype;
} Case;

static const Case cases[] = {
    {"T=133 S=270, d=40", {1, 2, 2, 133, 270, 40, 0, false, 0, NULL}, DTYPE_F32},
    {"decode, T=1 S=500", {1, 2, 2, 1, 500, 64, 0, false, 0, NULL}, DTYPE_F32},
    {"no keys, T=5 S=0", {1, 2, 2, 5, 0, 16, 0, false, 0, NULL}, DTYPE_F32},
    {"GQA 6 on 2, batch 2", {2, 6, 2, 65, 97, 32, 0, false, 0, NULL}, DTYPE_F32},
    {"d=1", {1, 1, 1, 70, 33, 1, 0, false, 0, NULL}, DTYPE_F32},
    {"d=131", {1, 1, 1, 70, 77, 131, 0, false, 0, NULL}, DTYPE_F32},
    {"d=256", {1, 1, 1, 70, 77, 256, 0, false, 0, NULL}, DTYPE_F32},
    {"scores in the hundreds", {1, 1, 1, 64, 100, 64, 6, false, 0, NULL}, DTYPE_F32},
    {"f16 values, d=128", {1, 2, 2, 90, 90, 128, 0, false, 0, NULL}, DTYPE_F16},
    {"bf16 values, d=128", {1, 2, 2, 90, 90, 128, 0, false, 0, NULL}, DTYPE_BF16},
};
enum { CASES = sizeof cases / sizeof cases[0] };

// Runs a rung on the problem and writes its larger error, of O and LSE, as a part of what is
// allowed into `cell` (16 bytes). *nans: elements that the inputs make NaN.
static bool check_rung(const Show *show, const char *name, Problem *problem, int rung, bool f16,
                       char *cell, size_t *nans) {
    RungRun run = {.target = show->target, .rung = rung, .f16 = f16, .problem = problem};
    LessonCheck check;
    int block_q, block_k;
    fused_rungs[rung].tile(problem->shape.dim, &block_q, &block_k);
    lesson_require(show->program, lesson_check(rung_attention, &run, problem, block_q, &check));
    const double o = check.o.worst_ratio, lse = check.lse.worst_ratio;
    snprintf(cell, 16, "%.3f", o > lse ? o : lse);
    if (!check.passed) {
        snprintf(cell, 16, "FAILED");
        report_text("%s, %s: %s", name, show_names[rung],
                    check.o.message[0] ? check.o.message : check.lse.message);
    }
    *nans = check.required_nans;
    return check.passed;
}

static bool check_row(const Show *show, Table *table, const char *name, Problem *problem) {
    char cells[FUSED_RUNGS][16];
    bool passed = true;
    size_t nans = 0;
    for (int rung = 0; rung < FUSED_RUNGS; rung++) {
        passed = check_rung(show, name, problem, rung, false, cells[rung], &nans) && passed;
    }
    if (nans > 0) {
        report_text("%s: %zu elements NaN, as the inputs require.", name, nans);
    }
    table_row(table, "%s|%s|%s|%s|%s|%s|%s", name, cells[0], cells[1], cells[2], cells[3], cells[4],
              passed ? "ok" : "FAILED");
    return passed;
}

// fused_register_tiled_f16: the tensors themselves hold 16 bits.
static bool check_f16_storage(const Show *show, Table *table) {
    const AttnShape shape = {1, 2, 2, 90, 130, 64, 0, false, 0, NULL};
    Problem problem;
    char cell[16];
    size_t nans;
    lesson_require(show->program,
                   problem_random(&problem, &shape, DTYPE_F16, show->options->seed + CASES));
    const bool passed = check_rung(show, "f16 storage", &problem, SHOW_FAST, true, cell, &nans);
    table_row(table, "f16 storage|-|-|-|-|%s|%s", cell, passed ? "ok" : "FAILED");
    problem_free(&problem);
    return passed;
}

bool show_correctness(const Show *show, Problem *asked) {
    const Options *options = show->options;
    const char *name = options->q ? "your files" : "as asked";
    report_section("Correctness: error against the float64 oracle");
    lesson_describe(name, asked);
    Table table;
    table_begin(&table, "error / allowed|naive|a row|outside|tiled|register|result");
    bool passed = check_row(show, &table, name, asked);
    lesson_require(show->program, lesson_save(asked, options)); // the last rung's output
    for (int c = 0; c < CASES && options->q == NULL; c++) {
        Problem small;
        lesson_require(show->program, problem_random(&small, &cases[c].shape, cases[c].dtype,
                                                     options->seed + (uint64_t)c));
        passed = check_row(show, &table, cases[c].name, &small) && passed;
        problem_free(&small);
    }
    if (options->q == NULL) {
        passed = check_f16_storage(show, &table) && passed;
    }
    table_print(&table);
    report_text("Columns: naive_three_kernels, fused_thread_per_row, fused_keys_outside, "
                "fused_tiled, fused_register_tiled. The larger ratio of O and LSE, at most 1; "
                "docs/numerics.md derives the bound.%s",
                options->out || options->lse ? " What was saved is fused_register_tiled's." : "");
    return passed;
}
