// ./ch05, time on cuda: every rung by events, over rotating inputs; rows of every head of the last
// output are compared with the oracle. What a ratio of bytes has to do with a ratio of times.
#include "chapters/ch05_fused_cuda/show.h"

#include "common/model.h"

#include <stdio.h>
#include <string.h>

enum { LENGTHS = 3, SETS = LESSON_INPUT_SETS, ROWS = FUSED_RUNGS + 1, F16 = FUSED_RUNGS };
enum { SAMPLE_ROWS = 4 }; // of each head, compared after timing

// One rung at one length.
typedef struct Point {
    int64_t len;
    double flops;
    TimeStats seconds;
    bool passed;
} Point;

typedef struct TimedRung {
    int rung;
    bool f16;
    DeviceProblem sets[SETS];
    float *workspace;
    int last;
} TimedRung;

static AttnStatus timed_run(void *context, int run) {
    TimedRung *timed = context;
    timed->last = run % SETS;
    return rung_launch(timed->rung, timed->f16, &timed->sets[timed->last], timed->workspace);
}

// `rows` rows of `dim` floats from row `first` on, as a tensor [1][1][rows][dim].
static AttnStatus slice(Tensor *part, const Tensor *whole, int64_t first, int64_t rows,
                        int64_t dim) {
    const int64_t dims[] = {1, 1, rows, dim};
    const AttnStatus status = tensor_alloc(part, DTYPE_F32, 4, dims);
    if (status == ATTN_OK) {
        memcpy(part->data, (const float *)whole->data + first * dim,
               (size_t)(rows * dim) * sizeof(float));
    }
    return status;
}

// Compares SAMPLE_ROWS rows of head `head` (over the batch) with the oracle. The rows differ from
// head to head, and the last head's are the last ones.
static AttnStatus check_head(const Problem *problem, int64_t head, bool *passed) {
    const AttnShape *shape = &problem->shape;
    const int64_t heads = shape->batch * shape->heads_q, group = shape->heads_q / shape->heads_kv;
    const int64_t rows = shape->len_q < SAMPLE_ROWS ? shape->len_q : SAMPLE_ROWS;
    const int64_t places = shape->len_q - rows;
    const int64_t row = heads > 1 ? places * head / (heads - 1) : places;
    const AttnShape small = {1,     1, 1,   rows, shape->len_kv, shape->dim, shape->scale,
                             false, 0, NULL};
    Tensor q = {0}, k = {0}, v = {0}, o = {0}, lse = {0};
    Expected expected = {0};
    AttnStatus status = slice(&q, &problem->q, head * shape->len_q + row, rows, shape->dim);
    if (status == ATTN_OK) {
        status = slice(&k, &problem->k, head / group * shape->len_kv, shape->len_kv, shape->dim);
    }
    if (status == ATTN_OK) {
        status = slice(&v, &problem->v, head / group * shape->len_kv, shape->len_kv, shape->dim);
    }
    if (status == ATTN_OK) {
        status = slice(&o, &problem->o, head * shape->len_q + row, rows, shape->dim);
    }
    if (status == ATTN_OK) {
        status = slice(&lse, &problem->lse, head * shape->len_q + row, rows, 1);
    }
    if (status == ATTN_OK) {
        status = expected_make(&expected, &small, &q, &k, &v, problem->dtype);
    }
    if (status == ATTN_OK) {
        tensor_round_to(&o, problem->dtype);
        *passed = compare_output(&expected, &o, &lse, 0, NULL, NULL) && *passed;
        expected_free(&expected);
    }
    Tensor *const tensors[] = {&q, &k, &v, &o, &lse};
    for (int t = 0; t < 5; t++) {
        tensor_free(tensors[t]);
    }
    return status;
}

// Rounds the inputs to f16, for the rung that stores them so.
static void round_inputs(Problem problems[SETS]) {
    for (int set = 0; set < SETS; set++) {
        tensor_round_to(&problems[set].q, DTYPE_F16);
        tensor_round_to(&problems[set].k, DTYPE_F16);
        tensor_round_to(&problems[set].v, DTYPE_F16);
        problems[set].dtype = DTYPE_F16;
    }
}

static Point measure(const Show *show, int row, Problem problems[SETS]) {
    const bool f16 = row == F16;
    const AttnShape *shape = &problems[0].shape;
    TimedRung timed = {.rung = f16 ? SHOW_FAST : row, .f16 = f16};
    Point point = {.len = shape->len_kv, .flops = lesson_flops(shape), .passed = true};
    if (f16) {
        round_inputs(problems);
    }
    for (int set = 0; set < SETS; set++) {
        lesson_require(show->program,
                       device_problem_make(&timed.sets[set], show->target, &problems[set],
                                           f16 ? DTYPE_F16 : DTYPE_F32));
    }
    lesson_require(show->program,
                   rung_workspace(timed.rung, show->target, shape, &timed.workspace));
    lesson_require(show->program, gpu_measure(show->target, timed_run, &timed,
                                              show->options->repeats, &point.seconds));
    Problem *last = &problems[timed.last];
    lesson_require(show->program, device_problem_download(&timed.sets[timed.last], last));
    for (int64_t head = 0; head < shape->batch * shape->heads_q && shape->len_q > 0; head++) {
        lesson_require(show->program, check_head(last, head, &point.passed));
    }
    gpu_free(show->target, timed.workspace);
    for (int set = 0; set < SETS; set++) {
        device_problem_free(&timed.sets[set]);
    }
    return point;
}

// All rungs on one shape, the f16 one last.
static void measure_all(const Show *show, const AttnShape *shape, Point points[ROWS]) {
    Problem problems[SETS];
    for (int set = 0; set < SETS; set++) {
        lesson_require(show->program, problem_random(&problems[set], shape, show->options->dtype,
                                                     show->options->seed + (uint64_t)set));
    }
    for (int row = 0; row < ROWS; row++) {
        report_progress("timing", row, ROWS);
        points[row] = measure(show, row, problems);
    }
    report_progress("timing", 0, 0);
    for (int set = 0; set < SETS; set++) {
        problem_free(&problems[set]);
    }
}

static const char *row_name(int row) {
    return row == F16 ? "register f16" : show_names[row];
}

// The bytes that a rung's model counts, a head: naive by launch, tiled by block.
static double model_bytes(int row, double n, double d) {
    int block_q, block_k;
    const double f = row == F16 ? 2 : sizeof(float);
    fused_rungs[SHOW_FAST].tile((int64_t)d, &block_q, &block_k);
    return f *
           (row == 0 ? naive_hbm_elements(n, d, false) : tiled_hbm_elements(n, d, block_q, false));
}

static void compare(const AttnShape *shape, const Point points[ROWS]) {
    static const int pairs[][2] = {{0, SHOW_FAST}, {SHOW_FAST, F16}};
    const double n = (double)shape->len_kv, d = (double)shape->dim;
    Table table;
    char heading[80];
    snprintf(heading, sizeof heading, "Ratio of traffic against ratio of times, N = %.0f", n);
    report_section(heading);
    table_begin(&table, "of|over|traffic, by the models|times");
    for (int i = 0; i < 2; i++) {
        const int a = pairs[i][0], b = pairs[i][1];
        table_row(&table, "%s|%s|%.2f|%.2f", row_name(a), row_name(b),
                  model_bytes(a, n, d) / model_bytes(b, n, d),
                  points[a].seconds.median / points[b].seconds.median);
    }
    table_print(&table);
    report_text(
        "A kernel that waits for memory gains what it saves in bytes. Where the two differ, "
        "something else is waited for.");
}

bool show_times(const Show *show) {
    const Options *options = show->options;
    AttnShape shape = options->shape;
    const int lengths = options->shape_given || options->quick ? 1 : LENGTHS;
    bool passed = true;
    if (!options->shape_given) {
        shape = (AttnShape){1, 12, 12, 1024, 1024, 64, 0, false, 0, NULL};
    }
    if (lesson_flops(&shape) == 0) {
        report_section("Time");
        report_text("Not measured: no query of this problem sees a key.");
        return true;
    }
    const double ceiling = show_fma_ceiling(show);
    Point points[ROWS];
    Table table;
    char heading[96], time[64];
    snprintf(heading, sizeof heading, "Time on cuda: batch %lld, %lld heads, d = %lld",
             (long long)shape.batch, (long long)shape.heads_q, (long long)shape.dim);
    report_section(heading);
    table_begin(&table, "rung|N|median [p10, p90]|TFLOP/s|of FMA|output");
    for (int i = 0; i < lengths; i++) {
        measure_all(show, &shape, points);
        for (int row = 0; row < ROWS; row++) {
            const Point *point = &points[row];
            const double rate = point->flops / point->seconds.median;
            char cells[64];
            snprintf(cells, sizeof cells, "%.2f|%.1f %%", rate / 1e12, 100 * rate / ceiling);
            table_row(&table, "%s|%lld|%s|%s|%s", row_name(row), (long long)point->len,
                      lesson_time_text(time, &point->seconds),
                      rate_is_plausible(rate, ceiling) ? cells : "measurement error|",
                      point->passed ? "right" : "WRONG");
            csv_row(show->csv, "cuda,%s,%lld,%.6g,%.6g,%.6g", row_name(row), (long long)point->len,
                    rate / 1e12, point->flops / point->seconds.p90 / 1e12,
                    point->flops / point->seconds.p10 / 1e12);
            passed = point->passed && passed;
        }
        shape.len_q *= i + 1 < lengths ? 2 : 1;
        shape.len_kv *= i + 1 < lengths ? 2 : 1;
    }
    table_print(&table);
    report_text("%d timed runs each, by events, on rotating inputs; of the last output %d rows of "
                "each head were compared with the oracle. FMA: %.1f TFLOP/s of multiply-adds, "
                "measured here. Launches that follow one another at once do not show the time that "
                "a single one takes to begin.",
                options->repeats, SAMPLE_ROWS, ceiling / 1e12);
    if (shape.len_q == shape.len_kv) {
        compare(&shape, points);
    }
    return passed;
}
