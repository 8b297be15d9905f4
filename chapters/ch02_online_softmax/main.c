// ./ch02: online softmax, measured. The worked table, the identities the lesson proves, the error
// against order, block size and size of the scores, the memory that is left, and the time.
#include "chapters/ch02_online_softmax/online.h"
#include "chapters/ch02_online_softmax/rows.h"

#include "common/ceilings.h"
#include "common/lesson.h"
#include "common/touch.h"

#include <math.h>

static const Program program = {
    .name = "ch02",
    .title = "online softmax",
    .summary = "Attention in one pass over the keys: maximum, sum and output are corrected as\n"
               "blocks of keys arrive, and no row of scores is stored.",
    .flags = OPTION_BLOCK_K,
};

static const char plot_script[] = "chapters/ch02_online_softmax/plot.gp";

// ---- the kernel, as the common programs call it -------------------------------------------------

// context: the block size, an int64_t. The workspace is allocated here, once a call.
static AttnStatus run_online(void *context, const AttnShape *shape, const float *q, const float *k,
                             const float *v, float *o, float *lse) {
    const int64_t block_k = *(const int64_t *)context;
    const int64_t floats = (int64_t)online_workspace_floats(shape, block_k);
    Tensor workspace;
    AttnStatus status = tensor_alloc(&workspace, DTYPE_F32, 1, &floats);
    if (status != ATTN_OK) {
        return status;
    }
    status = online_attention(shape, q, k, v, block_k, o, lse, workspace.data);
    if (status == ATTN_OK && !tensor_guards_intact(&workspace)) {
        status = attn_fail(ATTN_ERR_MEMORY, "written outside the workspace");
    }
    tensor_free(&workspace);
    return status;
}

// ---- correctness --------------------------------------------------------------------------------

// tests/golden/real_kjv: Q, K, V of a trained model, causal. False when the files are not there.
static bool load_real(Problem *problem) {
    Options options = {.q = "tests/golden/real_kjv/q.npy",
                       .k = "tests/golden/real_kjv/k.npy",
                       .v = "tests/golden/real_kjv/v.npy"};
    options.shape.causal = true;
    return problem_load(problem, &options) == ATTN_OK;
}

static bool show_correctness(Problem *problem, Problem *real, Options *options) {
    report_section("Correctness: largest error against the float64 oracle");
    Table table;
    table_begin(&table, LESSON_CHECK_HEADINGS);
    LessonCheck check;
    lesson_require(&program, lesson_check(run_online, &options->block_k, problem, 0, &check));
    lesson_require(&program, problem_save(problem, options));
    lesson_check_row(&table, options->q ? "your files" : "as asked", &check);
    bool passed = check.passed;

    static const int32_t lens[] = {0, 13, 40};
    const struct {
        const char *name;
        AttnShape shape;
        DType dtype;
    } cases[] = {
        {"T=17 S=33", {1, 2, 2, 17, 33, 40, 0, false, 0, NULL}, DTYPE_F32},
        {"causal, T=9 S=5 (empty rows)", {1, 2, 2, 9, 5, 8, 0, true, 0, NULL}, DTYPE_F32},
        {"window 32, GQA 8 on 2", {2, 8, 2, 70, 131, 64, 0, true, 32, NULL}, DTYPE_F32},
        {"key lengths 0, 13, 40", {3, 2, 1, 7, 40, 32, 0, false, 0, lens}, DTYPE_F32},
        {"bf16 storage", {1, 2, 2, 64, 64, 128, 0, true, 0, NULL}, DTYPE_BF16},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) && options->q == NULL; c++) {
        Problem small;
        lesson_require(&program,
                       problem_random(&small, &cases[c].shape, cases[c].dtype, options->seed + c));
        lesson_require(&program, lesson_check(run_online, &options->block_k, &small, 0, &check));
        lesson_check_row(&table, cases[c].name, &check);
        passed = check.passed && passed;
        problem_free(&small);
    }
    if (real->q.data != NULL) {
        lesson_require(&program, lesson_check(run_online, &options->block_k, real, 0, &check));
        lesson_check_row(&table, "real_kjv (a trained model)", &check);
        passed = check.passed && passed;
    }
    table_print(&table);
    report_text(
        "block_k = %lld. \"of bound\" is error / allowed error, at most 1; docs/numerics.md "
        "derives it.",
        (long long)options->block_k);
    return passed;
}

// ---- block size ---------------------------------------------------------------------------------

static bool show_block_sizes(Problem *problem, FILE *csv) {
    report_section("Error against block size: this problem");
    Expected expected;
    const Problem *p = problem;
    lesson_require(&program, expected_make(&expected, &p->shape, &p->q, &p->k, &p->v, DTYPE_F32));
    Table table;
    table_begin(&table, "block_k|O: max error|of bound|LSE: max error|of bound|result");
    bool passed = true, last = false;
    for (int64_t block = 1; !last; block *= 2) {
        last = block >= p->shape.len_kv;
        int64_t block_k = last && p->shape.len_kv > 0 ? p->shape.len_kv : block;
        Comparison o, lse;
        lesson_require(&program, run_online(&block_k, &p->shape, p->q.data, p->k.data, p->v.data,
                                            p->o.data, p->lse.data));
        const bool ok = compare_output(&expected, &p->o, &p->lse, 0, &o, &lse);
        passed = ok && passed;
        table_row(&table, "%lld|%.1e|%.4f|%.1e|%.4f|%s", (long long)block_k, o.max_error,
                  o.worst_ratio, lse.max_error, lse.worst_ratio, ok ? "ok" : "FAILED");
        csv_row(csv, "block_error_o,%lld,%.9g", (long long)block_k, o.max_error);
        csv_row(csv, "block_error_lse,%lld,%.9g", (long long)block_k, lse.max_error);
    }
    table_print(&table);
    expected_free(&expected);
    return passed;
}

// ---- bytes --------------------------------------------------------------------------------------

// Bytes that one call touches, per buffer: q, k, v, o, lse, workspace. One head of the shape.
static AttnStatus measure_bytes(const AttnShape *shape, int64_t block_k, size_t touched[6]) {
    const size_t counts[6] = {attn_count_q(shape),   attn_count_kv(shape),
                              attn_count_kv(shape),  attn_count_q(shape),
                              attn_count_lse(shape), online_workspace_floats(shape, block_k)};
    TouchBuffer buffers[6] = {0};
    AttnStatus status = ATTN_OK;
    for (int i = 0; i < 6 && status == ATTN_OK; i++) {
        status = touch_alloc(&buffers[i], counts[i] * sizeof(float));
    }
    status = status == ATTN_OK ? touch_begin(buffers, 6) : status;
    if (status == ATTN_OK) {
        status = online_attention(shape, buffers[0].data, buffers[1].data, buffers[2].data, block_k,
                                  buffers[3].data, buffers[4].data, buffers[5].data);
        touch_end();
    }
    for (int i = 0; i < 6; i++) {
        touched[i] = buffers[i].touched;
        touch_free(&buffers[i]);
    }
    return status;
}

static void bytes_row(Table *table, const char *what, double model, size_t measured,
                      const char *formula) {
    char a[32], b[32];
    table_row(table, "%s|%s|%s|%s", what, format_iec(a, model), format_iec(b, (double)measured),
              formula);
}

static void show_bytes(const AttnShape *problem, int64_t block_k) {
    report_section("Bytes: model against measured, one head, no mask, 4 bytes an element");
    const double f = sizeof(float), n = (double)problem->len_kv, d = (double)problem->dim;
    const double t = (double)problem->len_q;
    AttnShape shape = *problem;
    shape.batch = shape.heads_q = shape.heads_kv = 1;
    shape.causal = false;
    shape.window = 0;
    size_t whole[6], one[6];
    AttnStatus status = measure_bytes(&shape, block_k, whole);
    shape.len_q = 1;
    status = status == ATTN_OK ? measure_bytes(&shape, block_k, one) : status;
    if (status != ATTN_OK) {
        report_text("Not measured: %s.", attn_last_error());
        return;
    }
    Table table;
    char formula[32], text[32];
    table_begin(&table, "what|model|touched|formula");
    snprintf(formula, sizeof(formula), "min(%lld, S)", (long long)block_k);
    bytes_row(&table, "extra memory", f * (double)online_workspace_floats(problem, block_k),
              whole[5], formula);
    bytes_row(&table, "Q K V O LSE, once", f * (2 * t * d + 2 * n * d + t),
              whole[0] + whole[1] + whole[2] + whole[3] + whole[4], "2Td + 2Sd + T");
    bytes_row(&table, "K and V, for one query", f * 2 * n * d, one[1] + one[2], "2Sd");
    table_print(&table);
    report_text("Score matrix of the naive version, for comparison: %s (T S). What is touched is "
                "counted once a call, in whole pages. K and V are passed over once per query: "
                "%s are asked for (2 T S d), and a cache has to serve them.",
                format_iec(formula, f * t * n), format_iec(text, f * 2 * t * n * d));
}

// ---- time ---------------------------------------------------------------------------------------

static bool show_time(const Problem *problem, const Options *options, FILE *csv) {
    report_section("Time on this machine, one thread");
    const Ceilings ceilings = ceilings_measure(1);
    const double flops = lesson_flops(&problem->shape);
    const int64_t len_kv = problem->shape.len_kv;
    int64_t blocks[] = {1, options->block_k < len_kv ? options->block_k : len_kv, len_kv};
    Table table;
    table_begin(&table, "block_k|median [p10, p90]|GFLOP/s|of FMA ceiling|extra memory");
    bool passed = true;
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (i > 0 && blocks[i] == blocks[i - 1]) {
            continue;
        }
        LessonTiming timing;
        lesson_require(&program,
                       lesson_time(run_online, &blocks[i], &problem->shape, problem->dtype,
                                   options->seed, options->repeats, &timing));
        const double rate = flops / timing.seconds.median;
        char time[64], memory[32];
        if (!timing.last.passed) {
            report_text("block_k = %lld: the last timed run's output is wrong: %s%s",
                        (long long)blocks[i], timing.last.o.message, timing.last.lse.message);
            passed = false;
        }
        if (!rate_is_plausible(rate, ceilings.fma_flops_per_s)) {
            table_row(&table, "%lld|measurement error", (long long)blocks[i]);
            continue;
        }
        const size_t floats = online_workspace_floats(&problem->shape, blocks[i]);
        table_row(&table, "%lld|%s|%.2f|%.1f %%|%s", (long long)blocks[i],
                  lesson_time_text(time, &timing.seconds), rate / 1e9,
                  100.0 * rate / ceilings.fma_flops_per_s,
                  format_iec(memory, (double)(floats * sizeof(float))));
        csv_row(csv, "time_p10,%lld,%.9g", (long long)blocks[i], timing.seconds.p10);
        csv_row(csv, "time_median,%lld,%.9g", (long long)blocks[i], timing.seconds.median);
        csv_row(csv, "time_p90,%lld,%.9g", (long long)blocks[i], timing.seconds.p90);
    }
    table_print(&table);
    report_text("%d timed runs on rotating inputs; the last one's output was compared with the "
                "oracle: %s. Ceiling, measured here, one thread: %.1f GFLOP/s, fused "
                "multiply-adds in %s registers.",
                options->repeats, passed ? "right" : "WRONG", ceilings.fma_flops_per_s / 1e9,
                ceilings.vector_unit);
    return passed;
}

// What a program run costs, in FLOP: the correctness check; the block sizes 1, 2, 4 ... S against
// one oracle; and three timings.
static double planned_flops(const Options *options, const AttnShape *shape) {
    double runs = 1 + LESSON_ORACLE_RUNS;
    if (options->q == NULL) {
        runs += LESSON_ORACLE_RUNS + 1 + ceil(log2(fmax(1, (double)shape->len_kv)));
        runs += 3 * (options->repeats + 1 + LESSON_ORACLE_RUNS);
    }
    return runs * lesson_flops(shape);
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 512, .len_kv = 512, .dim = 64},
        .seed = 1,
        .block_k = 64,
        .repeats = 10,
    };
    options_parse(&options, &program, argc, argv);
    lesson_require_cpu(&program, &options);
    lesson_require_no_series(&program, &options);
    lesson_require_script(&program, plot_script, &options);
    if (options.quick && !options.shape_given) {
        options.shape.len_q = options.shape.len_kv = 256;
    }
    Problem problem, real = {0};
    lesson_require(&program, problem_load(&problem, &options));
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, "series,x,value"));
    if (options.q == NULL) {
        load_real(&real);
    }

    report_title(program.name, program.title, program.summary);
    report_section("Backend");
    report_text("cpu, one thread. simt and cuda: this chapter has no kernel for them.");
    lesson_announce(&options, planned_flops(&options, &problem.shape));
    bool passed = show_correctness(&problem, &real, &options);
    if (options.q == NULL) {
        passed = show_block_sizes(&problem, csv.file) && passed;
        show_worked_table();
        passed = show_large_scores(&program, options.seed, run_online, &options.block_k) && passed;
        show_divisions_and_order(&program, options.seed);
        show_real_row(&program, &real, csv.file);
        if (lesson_flops(&problem.shape) > 0) {
            show_bytes(&problem.shape, options.block_k);
            passed = show_time(&problem, &options, csv.file) && passed;
        } else {
            report_section("Bytes and time");
            report_text("Not measured: no query of this problem sees a key.");
        }
        report_section("Next");
        report_text("%sThe lesson is chapters/ch02_online_softmax/README.md, the labs are in "
                    "exercises/ch02.",
                    options.plot != PLOT_NONE
                        ? ""
                        : "./ch02 --plot draws the running maximum and sum of the model's row and "
                          "the error against the block size. ");
    }
    problem_free(&problem);
    problem_free(&real);
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
