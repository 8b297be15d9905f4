// ch01: naive attention. Prints its error, what it costs on paper, the bytes its passes touch and
// the time it takes at N, 2N and 4N beside this machine's measured ceilings.
#include "chapters/ch01_naive/naive.h"

#include "common/ceilings.h"
#include "common/lesson.h"
#include "common/model.h"
#include "common/touch.h"

#include <stdio.h>
#include <string.h>

static const Program program = {
    .name = "ch01",
    .title = "naive attention",
    .summary = "Attention as it is written down: scores, softmax, weighted sum, three passes.\n"
               "The arithmetic is not the problem; two N x N matrices between passes are.\n"
               "Bytes and time are measured at the lengths asked for (N), and at 2N and 4N.",
};

static const char plot_script[] = "chapters/ch01_naive/plot.gp";

enum { LENGTHS = 3 }; // N, 2N, 4N

// ---- the kernel, as the common programs call it -------------------------------------------------

// context: the workspace, a Tensor of at least naive_workspace_floats elements.
static AttnStatus run_naive(void *context, const AttnShape *shape, const float *q, const float *k,
                            const float *v, float *o, float *lse) {
    const Tensor *workspace = context;
    return naive_attention(shape, q, k, v, o, lse, workspace->data);
}

static AttnStatus alloc_workspace(Tensor *workspace, const AttnShape *shape) {
    return tensor_alloc(workspace, DTYPE_F32, 3, (int64_t[]){2, shape->len_q, shape->len_kv});
}

// ---- correctness --------------------------------------------------------------------------------

// Runs one problem and adds its row. Returns false when the output is outside its bound.
static bool check_problem(Table *table, const char *name, Problem *problem) {
    Tensor workspace;
    LessonCheck check;
    lesson_require(&program, alloc_workspace(&workspace, &problem->shape));
    lesson_require(&program, lesson_check(run_naive, &workspace, problem, 0, &check));
    if (!tensor_guards_intact(&workspace)) {
        check.passed = false;
        snprintf(check.o.message, sizeof(check.o.message), "written outside the workspace");
    }
    lesson_check_row(table, name, &check);
    tensor_free(&workspace);
    return check.passed;
}

// The problem of the command line, then a few small ones that show each rule of AttnShape.
static bool show_correctness(const Options *options, Problem *asked) {
    static const int32_t lens[] = {0, 13, 40};
    const struct {
        const char *name;
        AttnShape shape;
        DType dtype;
    } cases[] = {
        {"T=33 S=70", {1, 2, 2, 33, 70, 40, 0, false, 0, NULL}, DTYPE_F32},
        {"causal, T=5 S=70", {2, 2, 2, 5, 70, 64, 0, true, 0, NULL}, DTYPE_F32},
        {"causal, T=9 S=5 (empty rows)", {1, 2, 2, 9, 5, 8, 0, true, 0, NULL}, DTYPE_F32},
        {"window 8", {1, 2, 2, 37, 37, 40, 0, true, 8, NULL}, DTYPE_F32},
        {"GQA, 6 heads on 2", {1, 6, 2, 20, 50, 64, 0, true, 0, NULL}, DTYPE_F32},
        {"key lengths 0, 13, 40", {3, 2, 1, 7, 40, 32, 0, false, 0, lens}, DTYPE_F32},
        {"f16 storage", {1, 2, 2, 64, 64, 128, 0, true, 0, NULL}, DTYPE_F16},
        {"bf16 storage", {1, 2, 2, 64, 64, 128, 0, true, 0, NULL}, DTYPE_BF16},
    };
    report_section("Correctness: largest error against the float64 oracle");
    Table table;
    table_begin(&table, LESSON_CHECK_HEADINGS);

    const char *name = options->q ? "your files" : "as asked";
    lesson_describe(name, asked);
    bool passed = check_problem(&table, name, asked);
    lesson_require(&program, lesson_save(asked, options));
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]) && options->q == NULL; c++) {
        Problem problem;
        lesson_require(
            &program, problem_random(&problem, &cases[c].shape, cases[c].dtype, options->seed + c));
        passed = check_problem(&table, cases[c].name, &problem) && passed;
        problem_free(&problem);
    }
    table_print(&table);
    report_text("\"of bound\" is error / allowed error, at most 1; docs/numerics.md derives it.");
    return passed;
}

// ---- the cards ----------------------------------------------------------------------------------

static void show_cards(void) {
    const double n = 8192, d = 128, bytes = 2, layers_heads = 32 * 32;
    const double hbm = 3.35e12, tensor_cores = 989e12; // NVIDIA's data sheet of the H100 SXM
    const double flops = attention_flops(n, n, d);
    const double naive = bytes * naive_hbm_elements(n, d, false);
    const double compulsory = bytes * compulsory_elements(n, d);
    const double model = layers_heads * bytes * 4 * score_elements(n);
    char a[32], count[32];

    report_section("Cards: one head, N = 8,192, d = 128, 16-bit elements");
    report_card("score matrix", format_iec(a, bytes * score_elements(n)), "N^2 x 2 B");
    report_card("naive traffic", format_iec(a, naive), "(4N^2 + 4Nd) x 2 B");
    report_card("compulsory traffic", format_iec(a, compulsory), "4Nd x 2 B: Q, K, V in, O out");
    report_card("extra memory", format_iec(a, bytes * 2 * score_elements(n)),
                "2N^2 x 2 B: S and P");
    report_card("arithmetic", format_si(a, flops, "FLOP"), "4 N^2 d");
    format_count(count, arithmetic_intensity(flops, compulsory));
    snprintf(a, sizeof a, "%.20s FLOP/B", count);
    report_card("intensity, compulsory", a, "N / 2");
    format_count(count, arithmetic_intensity(flops, naive));
    snprintf(a, sizeof a, "%.20s FLOP/B", count);
    report_card("intensity, naive", a, "4 N^2 d / naive traffic");
    report_section("Cards: a model of 32 layers x 32 heads, one forward pass");
    report_card("traffic of S and P", format_si(a, model, "B"), "1,024 x 4N^2 x 2 B");
    report_card("time to move it", format_seconds(a, seconds_at(model, hbm)),
                "at 3.35 TB/s (H100 data sheet)");
    report_card("time to compute", format_seconds(a, layers_heads * flops / tensor_cores),
                "1,024 x 4 N^2 d at 989 TFLOP/s (same)");
}

// ---- bytes --------------------------------------------------------------------------------------

// The tensors that the passes of one head use.
enum { Q, K, V, SCORES, PROBS, O, LSE, TENSORS };
static const char *const tensor_names[TENSORS] = {"Q", "K", "V", "S", "P", "O", "LSE"};
static const char *const pass_names[3] = {"1 scores", "2 softmax", "3 weighted sum"};

// Which tensors a pass reads or writes: what the model counts, each once per pass.
static const bool pass_uses[3][TENSORS] = {
    {[Q] = true, [K] = true, [SCORES] = true},
    {[SCORES] = true, [PROBS] = true, [LSE] = true},
    {[PROBS] = true, [V] = true, [O] = true},
};

// Bytes of one head's run: by the model, and touched, which is measured.
typedef struct Traffic {
    double model[3][TENSORS], touched[3][TENSORS];
    double model_sum, touched_sum;
} Traffic;

static void run_pass(int pass, const AttnShape *shape, const TouchBuffer *buffers) {
    if (pass == 0) {
        naive_scores(shape, 0, buffers[Q].data, buffers[K].data, buffers[SCORES].data);
    } else if (pass == 1) {
        naive_softmax(shape, buffers[SCORES].data, buffers[PROBS].data, buffers[LSE].data);
    } else {
        naive_weighted_sum(shape, 0, buffers[PROBS].data, buffers[V].data, buffers[O].data);
    }
}

// Runs the three passes of one head on watched pages.
static Traffic measure_traffic(const AttnShape *shape, uint64_t seed) {
    AttnShape head = *shape;
    head.batch = head.heads_q = head.heads_kv = 1;
    Problem problem;
    lesson_require(&program, problem_random(&problem, &head, DTYPE_F32, seed));
    const size_t row_q = attn_count_q(&head), row_kv = attn_count_kv(&head);
    const size_t matrix = naive_workspace_floats(&head) / 2;
    const size_t counts[TENSORS] = {
        row_q, row_kv, row_kv, matrix, matrix, row_q, attn_count_lse(&head)};
    const void *inputs[3] = {problem.q.data, problem.k.data, problem.v.data};
    TouchBuffer buffers[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        lesson_require(&program, touch_alloc(&buffers[t], counts[t] * sizeof(float)));
        if (t <= V) {
            memcpy(buffers[t].data, inputs[t], buffers[t].bytes);
        }
    }
    Traffic traffic = {0};
    for (int pass = 0; pass < 3; pass++) {
        lesson_require(&program, touch_begin(buffers, TENSORS));
        run_pass(pass, &head, buffers);
        touch_end();
        for (int t = 0; t < TENSORS; t++) {
            traffic.model[pass][t] = pass_uses[pass][t] ? (double)buffers[t].bytes : 0;
            traffic.touched[pass][t] = (double)buffers[t].touched;
            traffic.model_sum += traffic.model[pass][t];
            traffic.touched_sum += traffic.touched[pass][t];
        }
    }
    for (int t = 0; t < TENSORS; t++) {
        touch_free(&buffers[t]);
    }
    problem_free(&problem);
    return traffic;
}

// ---- what is measured at N, 2N and 4N -----------------------------------------------------------

typedef struct Point {
    AttnShape shape;
    Traffic traffic;  // of one head, f32
    double extra;     // bytes of workspace
    double inputs;    // bytes of one head's Q, K, V and O, f32
    double flops;     // all heads
    double intensity; // FLOP per byte of the model
    LessonTiming timing;
} Point;

static Point measure_point(const Options *options, int factor) {
    Point point = {.shape = options->shape};
    point.shape.len_q *= factor;
    point.shape.len_kv *= factor;
    Tensor workspace;
    lesson_require(&program, alloc_workspace(&workspace, &point.shape));
    lesson_require(&program, lesson_time(run_naive, &workspace, &point.shape, options->dtype,
                                         options->seed, options->repeats, &point.timing));
    point.extra = (double)(workspace.count * dtype_size(workspace.dtype));
    point.inputs = 2.0 * sizeof(float) * (double)point.shape.dim *
                   (double)(point.shape.len_q + point.shape.len_kv);
    tensor_free(&workspace);
    point.traffic = measure_traffic(&point.shape, options->seed);
    point.flops = lesson_flops(&point.shape);
    const double heads = (double)(point.shape.batch * point.shape.heads_q);
    point.intensity = arithmetic_intensity(point.flops, heads * point.traffic.model_sum);
    return point;
}

enum { LONGEST_SECONDS = 30 }; // of the timed runs at one of the longer lengths

// What a program run may cost, in FLOP: the kernel and the oracle once, and then at each length the
// warm-up, the timed runs and the oracle; lengths that measure_points would leave out are not
// counted, as far as that can be told beforehand.
static double planned_flops(const Options *options, const AttnShape *shape) {
    const double once = lesson_flops(shape);
    double sum = (1 + LESSON_ORACLE_RUNS) * once;
    double runs = options->q == NULL ? options->repeats + 1 : 0;
    for (double factor = 1; factor <= 16 && runs > 0; factor *= 4) {
        if (factor > 1 && runs * factor * once > LONGEST_SECONDS * LESSON_SCALAR_RATE) {
            break;
        }
        sum += (runs + LESSON_ORACLE_RUNS) * factor * once;
    }
    return sum;
}

// Measures up to LENGTHS points, none where no query sees a key; leaves out a longer one that would
// take more than half a minute. Returns how many.
static int measure_points(const Options *options, Point *points) {
    int count = 0;
    for (int factor = 1; count < LENGTHS && lesson_flops(&options->shape) > 0; factor *= 2) {
        if (count > 0) {
            const double expected =
                4 * points[count - 1].timing.seconds.median * (options->repeats + 1);
            if (expected > LONGEST_SECONDS) {
                break;
            }
        }
        points[count++] = measure_point(options, factor);
    }
    return count;
}

static void show_bytes(const Point *points, int count) {
    const Traffic *first = &points[0].traffic;
    char a[32], b[32], c[32], d[32];
    Table table;
    report_section("Bytes: model against measured (one head, f32)");
    report_text(
        "The model counts every tensor once in each pass. \"Touched\" is measured: the pages "
        "(usually 4 KiB) that the pass really accessed, found by protecting them.");
    table_begin(&table, "pass|tensor|model|touched");
    for (int pass = 0; pass < 3; pass++) {
        for (int t = 0; t < TENSORS; t++) {
            if (first->model[pass][t] > 0 || first->touched[pass][t] > 0) {
                table_row(&table, "%s|%s|%s|%s", pass_names[pass], tensor_names[t],
                          format_iec(a, first->model[pass][t]),
                          format_iec(b, first->touched[pass][t]));
            }
        }
    }
    const bool square = points[0].shape.len_q == points[0].shape.len_kv;
    table_row(&table, "all|%s|%s|%s", square ? "4N^2+4Nd+N" : "4TS+2(T+S)d+T",
              format_iec(a, first->model_sum), format_iec(b, first->touched_sum));
    table_print(&table);
    putchar('\n');
    table_begin(&table, "N|Q, K, V, O|S and P|traffic, model|touched|x before");
    for (int i = 0; i < count; i++) {
        char growth[32] = "";
        if (i > 0) {
            snprintf(growth, sizeof(growth), "%.2f",
                     points[i].traffic.touched_sum / points[i - 1].traffic.touched_sum);
        }
        table_row(&table, "%lld|%s|%s|%s|%s|%s", (long long)points[i].shape.len_kv,
                  format_iec(a, points[i].inputs), format_iec(b, points[i].extra),
                  format_iec(c, points[i].traffic.model_sum),
                  format_iec(d, points[i].traffic.touched_sum), growth);
    }
    table_print(&table);
}

static bool show_times(const Point *points, int count, const Ceilings *ceilings) {
    bool passed = true;
    char a[64], b[32], c[32];
    Table table;
    report_section("Time: median [p10, p90], one thread, inputs rotated");
    table_begin(&table, "N|time|growth|GFLOP/s|of peak|FLOP/B|of roof");
    for (int i = 0; i < count; i++) {
        const Point *point = &points[i];
        const double rate = point->flops / point->timing.seconds.median;
        const double roof = ceilings_roofline(ceilings, point->intensity);
        char growth[32] = "";
        if (i > 0) {
            snprintf(growth, sizeof(growth), "%.2f",
                     point->timing.seconds.median / points[i - 1].timing.seconds.median);
        }
        lesson_time_text(a, &point->timing.seconds);
        if (rate_is_plausible(rate, ceilings->fma_flops_per_s)) {
            table_row(&table, "%lld|%s|%s|%.2f|%.1f %%|%.1f|%.1f %%",
                      (long long)point->shape.len_kv, a, growth, rate / 1e9,
                      100 * rate / ceilings->fma_flops_per_s, point->intensity, 100 * rate / roof);
        } else {
            table_row(&table, "%lld|%s|%s|error|||", (long long)point->shape.len_kv, a, growth);
            report_text("Measurement error at N = %lld: a rate above the FMA peak.",
                        (long long)point->shape.len_kv);
        }
        if (!point->timing.last.passed) {
            report_text("N = %lld: the last timed run's output is wrong: %s%s",
                        (long long)point->shape.len_kv, point->timing.last.o.message,
                        point->timing.last.lse.message);
            passed = false;
        }
    }
    table_print(&table);
    report_text("The last timed run's output at each N was compared with the oracle: %s.",
                passed ? "right" : "WRONG");
    report_text(
        "Ceilings measured here, one thread: copy %s, FMA %s (%s). They meet at %.1f FLOP/B.",
        format_si(b, ceilings->copy_bytes_per_s, "B/s"),
        format_si(c, ceilings->fma_flops_per_s, "FLOP/s"), ceilings->vector_unit,
        ceilings->fma_flops_per_s / ceilings->copy_bytes_per_s);
    const Point *last = &points[count - 1];
    const double bytes =
        (double)(last->shape.batch * last->shape.heads_q) * last->traffic.model_sum;
    report_text(
        "At N = %lld the model's bytes take %s at the copy rate, and the arithmetic takes %s "
        "at the FMA peak; this code took %s.",
        (long long)last->shape.len_kv,
        format_seconds(a, seconds_at(bytes, ceilings->copy_bytes_per_s)),
        format_seconds(b, last->flops / ceilings->fma_flops_per_s),
        format_seconds(c, last->timing.seconds.median));
    return passed;
}

static void write_csv(const LessonCsv *csv, const Point *points, int count, const Ceilings *c) {
    for (int i = 0; i < count; i++) {
        const Point *point = &points[i];
        csv_row(csv->file, "%lld,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g",
                (long long)point->shape.len_kv, point->timing.seconds.median,
                point->timing.seconds.p10, point->timing.seconds.p90, point->flops,
                point->traffic.model_sum, point->traffic.touched_sum, point->extra, point->inputs,
                point->intensity, c->copy_bytes_per_s, c->fma_flops_per_s);
    }
}

// Bytes are those of one head, time and FLOP those of all.
static const char csv_heading[] =
    "n,median_s,p10_s,p90_s,flop,model_bytes,touched_bytes,"
    "extra_bytes,compulsory_bytes,intensity,copy_bytes_per_s,fma_flop_per_s";

// Bytes and times at N, 2N and 4N, and their plot. Returns false when a timed run's output was
// wrong.
static bool show_measurements(const Options *options) {
    Point points[LENGTHS];
    const int count = measure_points(options, points);
    if (count == 0) {
        report_section("Bytes and time");
        report_text("Nothing to measure: no query of this shape sees a key.");
        return true;
    }
    const Ceilings ceilings = ceilings_measure(1);
    show_bytes(points, count);
    if (count < LENGTHS) {
        report_text("Longer sequences are left out: each would take more than half a minute.");
    }
    const bool passed = show_times(points, count, &ceilings);
    report_section("Next");
    report_text("%sThe lesson is chapters/ch01_naive/README.md, the labs are in exercises/ch01.",
                options->plot != PLOT_NONE
                    ? ""
                    : "./ch01 --plot draws time and bytes against N, and the roofline. ");
    LessonCsv csv;
    lesson_require(&program, lesson_csv_open(&csv, options, csv_heading));
    write_csv(&csv, points, count, &ceilings);
    lesson_require(&program, lesson_csv_finish(&csv, &program, plot_script, options));
    return passed;
}

int main(int argc, char **argv) {
    Options options = {
        .shape = {.batch = 1, .heads_q = 1, .heads_kv = 1, .len_q = 256, .len_kv = 256, .dim = 64},
        .seed = 1,
        .repeats = 10,
    };
    options_parse(&options, &program, argc, argv);
    if (options.quick && !options.shape_given) {
        options.shape.len_q = options.shape.len_kv = 128;
    }
    lesson_require_cpu(&program, &options);
    lesson_require_no_series(&program, &options);
    lesson_require_script(&program, plot_script, &options);
    Problem asked;
    lesson_require(&program, problem_load(&asked, &options));

    report_title(program.name, program.title, program.summary);
    report_section("Backend");
    report_text("cpu, one thread. simt and cuda: this chapter has no kernel for them.");
    lesson_announce(&options, planned_flops(&options, &asked.shape));
    bool passed = show_correctness(&options, &asked);
    problem_free(&asked);
    if (options.q == NULL) {
        show_cards();
        passed = show_measurements(&options) && passed;
    }
    return lesson_exit_status(&program, passed);
}
