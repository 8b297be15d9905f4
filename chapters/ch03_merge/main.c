// ./ch03: the log-sum-exp merge, measured. The worked table, the error against the number of parts,
// random orders and groupings of the merges, parts that are empty, the memory that parts need, and
// the time of one query with more and more threads.
#include "chapters/ch03_merge/merge.h"
#include "chapters/ch03_merge/parts.h"

#include "common/ceilings.h"
#include "common/lesson.h"
#include "common/touch.h"

#include <stdlib.h>
#include <string.h>

static const Program program = {
    .name = "ch03",
    .title = "the log-sum-exp merge",
    .summary = "Attention over any split of the keys: each part leaves (O, LSE), and the parts\n"
               "are merged in any order and any grouping to the same answer.",
    .flags = OPTION_SPLITS | OPTION_THREADS,
};

enum { SHORT_KEYS = 96, LONG_KEYS = 4096, MOST_SPLITS = 96 };

static const char plot_script[] = "chapters/ch03_merge/plot.gp";

// ---- the kernel, as the common programs call it -------------------------------------------------

typedef struct Split {
    int64_t splits;
    int threads; // 0: all
} Split;

// context: a Split. The workspace is allocated here, once a call.
static AttnStatus run_split(void *context, const AttnShape *shape, const float *q, const float *k,
                            const float *v, float *o, float *lse) {
    const Split *split = context;
    const int64_t floats = (int64_t)split_workspace_floats(shape, split->splits);
    Tensor workspace;
    AttnStatus status = tensor_alloc(&workspace, DTYPE_F32, 1, &floats);
    if (status != ATTN_OK) {
        return status;
    }
    status = split_attention(shape, q, k, v, split->splits, split->threads, o, lse, workspace.data);
    if (status == ATTN_OK && !tensor_guards_intact(&workspace)) {
        status = attn_fail(ATTN_ERR_MEMORY, "written outside the workspace");
    }
    tensor_free(&workspace);
    return status;
}

// ---- correctness --------------------------------------------------------------------------------

static bool show_correctness(Problem *problem, const Options *options, Split *split) {
    report_section("Correctness: largest error against the float64 oracle");
    lesson_describe("As asked", problem);
    Table table;
    table_begin(&table, LESSON_CHECK_HEADINGS);
    LessonCheck check;
    lesson_require(&program, lesson_check(run_split, split, problem, 0, &check));
    lesson_require(&program, lesson_save(problem, options));
    lesson_check_row(&table, options->q ? "your files" : "as asked", &check);
    bool passed = check.passed;

    static const int32_t lens[] = {0, 13, 40};
    const struct {
        const char *name;
        AttnShape shape;
        DType dtype;
    } cases[] = {
        {"T=17 S=33", {1, 2, 2, 17, 33, 40, 0, false, 0, NULL}, DTYPE_F32},
        {"S=5: more parts than keys", {1, 2, 2, 3, 5, 8, 0, false, 0, NULL}, DTYPE_F32},
        {"causal, T=9 S=5 (empty rows)", {1, 2, 2, 9, 5, 8, 0, true, 0, NULL}, DTYPE_F32},
        {"window 32, GQA 8 on 2", {2, 8, 2, 70, 131, 64, 0, true, 32, NULL}, DTYPE_F32},
        {"key lengths 0, 13, 40", {3, 2, 1, 7, 40, 32, 0, false, 0, lens}, DTYPE_F32},
        {"bf16 storage", {1, 2, 2, 64, 64, 128, 0, true, 0, NULL}, DTYPE_BF16},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) && options->q == NULL; c++) {
        Problem small;
        lesson_require(&program,
                       problem_random(&small, &cases[c].shape, cases[c].dtype, options->seed + c));
        lesson_require(&program, lesson_check(run_split, split, &small, 0, &check));
        lesson_check_row(&table, cases[c].name, &check);
        passed = check.passed && passed;
        problem_free(&small);
    }
    table_print(&table);
    report_text("%lld parts. \"of bound\" is error / allowed error, at most 1; docs/numerics.md "
                "derives it.",
                (long long)split->splits);
    return passed;
}

// ---- number of parts ----------------------------------------------------------------------------

static bool show_splits(const Options *options, FILE *csv) {
    report_section("Error against the number of parts: one query, d = 64, four heads");
    Problem problems[2];
    Expected expected[2];
    for (int i = 0; i < 2; i++) {
        const AttnShape shape = {1,  4, 4,     1, i == 0 ? SHORT_KEYS : LONG_KEYS,
                                 64, 0, false, 0, NULL};
        Problem *p = &problems[i];
        lesson_require(&program, problem_random(p, &shape, DTYPE_F32, options->seed));
        lesson_require(&program,
                       expected_make(&expected[i], &shape, &p->q, &p->k, &p->v, DTYPE_F32));
    }
    Table table;
    table_begin(&table, "parts|96 keys: O|LSE|4,096 keys: O|LSE|result");
    bool passed = true;
    for (Split split = {1, 1}; split.splits <= MOST_SPLITS; split.splits++) {
        Comparison o[2], lse[2];
        bool ok = true;
        for (int i = 0; i < 2; i++) {
            Problem *p = &problems[i];
            lesson_require(&program, run_split(&split, &p->shape, p->q.data, p->k.data, p->v.data,
                                               p->o.data, p->lse.data));
            ok = compare_output(&expected[i], &p->o, &p->lse, 0, &o[i], &lse[i]) && ok;
        }
        const long long splits = split.splits;
        csv_row(csv, "short_o,%lld,%.9g", splits, o[0].max_error);
        csv_row(csv, "long_o,%lld,%.9g", splits, o[1].max_error);
        csv_row(csv, "long_lse,%lld,%.9g", splits, lse[1].max_error);
        const bool power = (splits & (splits - 1)) == 0;
        if (power || splits == 7 || splits == 95 || splits == MOST_SPLITS || !ok) {
            table_row(&table, "%lld|%.1e|%.1e|%.1e|%.1e|%s", splits, o[0].max_error,
                      lse[0].max_error, o[1].max_error, lse[1].max_error, ok ? "ok" : "FAILED");
        }
        passed = ok && passed;
    }
    table_print(&table);
    report_text("All of 1 to %d parts were run; the others are in the CSV and the plot.",
                MOST_SPLITS);
    for (int i = 0; i < 2; i++) {
        expected_free(&expected[i]);
        problem_free(&problems[i]);
    }
    return passed;
}

// ---- bytes --------------------------------------------------------------------------------------

// Bytes that one call touches, per buffer: q, k, v, o, lse, workspace.
static AttnStatus measure_bytes(const AttnShape *shape, int64_t splits, size_t touched[6]) {
    const size_t counts[6] = {attn_count_q(shape),   attn_count_kv(shape),
                              attn_count_kv(shape),  attn_count_q(shape),
                              attn_count_lse(shape), split_workspace_floats(shape, splits)};
    TouchBuffer buffers[6] = {0};
    AttnStatus status = ATTN_OK;
    for (int i = 0; i < 6 && status == ATTN_OK; i++) {
        status = touch_alloc(&buffers[i], counts[i] * sizeof(float));
    }
    status = status == ATTN_OK ? touch_begin(buffers, 6) : status;
    if (status == ATTN_OK) {
        status = split_attention(shape, buffers[0].data, buffers[1].data, buffers[2].data, splits,
                                 1, buffers[3].data, buffers[4].data, buffers[5].data);
        touch_end();
    }
    for (int i = 0; i < 6; i++) {
        touched[i] = buffers[i].touched;
        touch_free(&buffers[i]);
    }
    return status;
}

static void show_bytes(const AttnShape *problem, int64_t splits) {
    report_section("Bytes: model against measured, one head, no mask, 4 bytes an element");
    AttnShape shape = *problem;
    shape.batch = shape.heads_q = shape.heads_kv = 1;
    shape.causal = false;
    shape.window = 0;
    const double f = sizeof(float), n = (double)shape.len_kv, d = (double)shape.dim;
    const double t = (double)shape.len_q;
    int64_t parts[] = {1, splits, 4 * splits};
    Table table;
    char what[32], a[32], b[32], c[32];
    table_begin(&table, "what|model|asked for|touched|formula");
    for (int i = 0; i < 3; i++) {
        size_t bytes[6];
        parts[i] = parts[i] < shape.len_kv ? parts[i] : shape.len_kv; // no more than keys are made
        if (i > 0 && parts[i] == parts[i - 1]) {
            continue;
        }
        if (measure_bytes(&shape, parts[i], bytes) != ATTN_OK) {
            report_text("Not measured: %s.", attn_last_error());
            return;
        }
        if (i == 0) {
            const size_t tensors = bytes[0] + bytes[1] + bytes[2] + bytes[3] + bytes[4];
            table_row(&table, "Q K V O LSE, once|%s||%s|2Td + 2Sd + T",
                      format_iec(a, f * (2 * t * d + 2 * n * d + t)),
                      format_iec(b, (double)tensors));
        }
        snprintf(what, sizeof(what), "parts, %lld a row", (long long)parts[i]);
        const size_t floats = split_workspace_floats(&shape, parts[i]);
        table_row(&table, "%s|%s|%s|%s|T parts (d + 1)", what,
                  format_iec(a, f * t * (double)parts[i] * (d + 1)),
                  format_iec(b, f * (double)floats), format_iec(c, (double)bytes[5]));
    }
    table_print(&table);
    report_text("Each part is written once and read once, by the merge: with %lld parts %.2g %% of "
                "the bytes of K and V, T parts (d + 1) / 2Sd.",
                (long long)parts[1], 100.0 * (d + 1) * (double)parts[1] * t / (2 * n * d));
}

// ---- time ---------------------------------------------------------------------------------------

// 1, 2, 4, ... and `most` itself; beyond it after that.
static int next_threads(int threads, int most) {
    return threads < most && 2 * threads > most ? most : 2 * threads;
}

// Whether 1, 2, 4, ... `most` threads give the same bits.
static bool same_for_all_threads(Problem *problem, int64_t splits, int most) {
    const size_t bytes = problem->o.count * sizeof(float);
    float *first = malloc(bytes);
    if (first == NULL) {
        lesson_require(&program, attn_fail(ATTN_ERR_MEMORY, "no memory for an output"));
        return false;
    }
    bool same = true;
    for (int threads = 1; threads <= most; threads = next_threads(threads, most)) {
        Split split = {splits, threads};
        lesson_require(&program,
                       run_split(&split, &problem->shape, problem->q.data, problem->k.data,
                                 problem->v.data, problem->o.data, problem->lse.data));
        if (threads == 1) {
            memcpy(first, problem->o.data, bytes);
        }
        same = same && memcmp(first, problem->o.data, bytes) == 0;
    }
    free(first);
    return same;
}

// Bytes of K and V, once: the keys from the first that the first row sees to the last row's last.
static double kv_bytes(const AttnShape *shape) {
    double keys = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        const int64_t begin = attn_visible_keys(shape, b, 0).begin;
        keys += (double)(attn_visible_keys(shape, b, shape->len_q - 1).end - begin);
    }
    return 2.0 * sizeof(float) * keys * (double)(shape->heads_kv * shape->dim);
}

static bool show_time(Problem *problem, const Options *options, FILE *csv) {
    report_section("Time on this machine");
    Ceilings all = ceilings_measure(options->threads);
    const int most = all.threads;
    const Ceilings one = most > 1 ? ceilings_measure(1) : all;
    const bool disturbed = ceilings_raise(&all, &one);
    const AttnShape *shape = &problem->shape;
    const double bytes = kv_bytes(shape);
    Table table;
    table_begin(&table, "parts|threads|median [p10, p90]|GB/s|of copy ceiling|speed-up");
    bool passed = true, plausible = true;
    double one_thread = 0, speed_up = 1;
    // First unsplit, with one and with all threads; then split, with 1, 2, 4, ... all.
    for (int row = 0, threads = 1; threads <= most;) {
        const bool unsplit = row < 2;
        Split split = {unsplit ? 1 : options->splits, row == 1 ? most : threads};
        LessonTiming timing;
        lesson_require(&program, lesson_time(run_split, &split, shape, problem->dtype,
                                             options->seed, options->repeats, &timing));
        Ceilings ceilings = split.threads == most ? all
                            : split.threads == 1  ? one
                                                  : ceilings_measure(split.threads);
        ceilings_raise(&ceilings, &one);
        const double ceiling = ceilings.copy_bytes_per_s;
        const double rate = bytes / timing.seconds.median;
        char time[64];
        one_thread = row == 0 ? timing.seconds.median : one_thread;
        speed_up = one_thread / timing.seconds.median;
        passed = timing.last.passed && passed;
        if (!rate_is_plausible(rate, ceiling)) {
            table_row(&table, "%lld|%d|measurement error", (long long)split.splits, split.threads);
            plausible = false;
        } else {
            table_row(&table, "%lld|%d|%s|%.2f|%.1f %%|%.2f", (long long)split.splits,
                      split.threads, lesson_time_text(time, &timing.seconds), rate / 1e9,
                      100.0 * rate / ceiling, speed_up);
            const char *series = unsplit ? "unsplit" : "split";
            csv_row(csv, "%s_p10,%d,%.9g", series, split.threads, timing.seconds.p10);
            csv_row(csv, "%s_median,%d,%.9g", series, split.threads, timing.seconds.median);
            csv_row(csv, "%s_p90,%d,%.9g", series, split.threads, timing.seconds.p90);
        }
        threads = unsplit ? 1 : next_threads(threads, most);
        row += row == 0 && most == 1 ? 2 : 1; // with one thread, row 1 would repeat row 0
    }
    table_print(&table);
    const bool same = same_for_all_threads(problem, options->splits, most);
    report_text("%d timed runs on rotating inputs; the last outputs were compared with the oracle: "
                "%s. Bytes: K and V once. Ceiling: a copy by as many threads, measured here. Any "
                "number of threads gives the same bits: %s.",
                options->repeats, passed ? "right" : "WRONG", same ? "yes" : "NO");
    if (disturbed) {
        report_text("The ceiling of %d threads was disturbed: it came out below that of one "
                    "thread, whose figure stands in. Close other programs.",
                    most);
    }
    if (most > 1 && speed_up < 0.8) { // the last row is the split with all threads
        report_text("Slower with all threads than with one: either the problem is small, or other "
                    "programs hold the cores. OMP_WAIT_POLICY=passive ./ch03 lets waiting threads "
                    "sleep instead of spin.");
    }
    if (!plausible) {
        report_text("A rate above the ceiling is no result: a cache has served K and V. Ask for "
                    "more --keys.");
    }
    return passed && same;
}

// What a program run costs, in FLOP: the correctness check, and four timings where there are two
// threads. The other sections do not grow with the problem.
static double planned_flops(const Options *options, const AttnShape *shape) {
    double runs = 1 + LESSON_ORACLE_RUNS;
    if (options->q == NULL) {
        runs += 4 * (options->repeats + 1 + LESSON_ORACLE_RUNS);
    }
    return runs * lesson_flops(shape);
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 1, .len_kv = 32768, .dim = 64},
        .seed = 1,
        .splits = 32,
        .repeats = 20,
    };
    options_parse(&options, &program, argc, argv);
    lesson_require_cpu(&program, &options);
    lesson_require_no_series(&program, &options);
    lesson_require_script(&program, plot_script, &options);
    if (options.quick && !options.shape_given) {
        options.shape.len_kv = 8192;
    }
    Problem problem;
    lesson_require(&program, problem_load(&problem, &options));
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, &options, "series,x,value"));

    report_title(program.name, program.title, program.summary);
    report_section("Backend");
    report_text("cpu, OpenMP threads. simt and cuda: this chapter has no kernel for them.");
    lesson_announce(&options, planned_flops(&options, &problem.shape));
    Split split = {options.splits, options.threads};
    bool passed = show_correctness(&problem, &options, &split);
    if (options.q == NULL) {
        show_merge_by_hand(&program);
        passed = show_splits(&options, csv.file) && passed;
        passed = show_groupings(&program, options.seed) && passed;
        passed = show_empty_parts(&program, options.seed) && passed;
        if (lesson_flops(&problem.shape) > 0) {
            show_bytes(&problem.shape, options.splits);
            passed = show_time(&problem, &options, csv.file) && passed;
        } else {
            report_section("Bytes and time");
            report_text("Not measured: no query of this problem sees a key.");
        }
        report_section("Next");
        report_text("%sTry --heads 8: is a split still needed? The lesson is "
                    "chapters/ch03_merge/README.md, the labs are in exercises/ch03.",
                    options.plot != PLOT_NONE
                        ? ""
                        : "./ch03 --plot draws the error against the number of parts and the "
                          "time against the threads. ");
    }
    problem_free(&problem);
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, &options));
    return lesson_exit_status(&program, passed);
}
