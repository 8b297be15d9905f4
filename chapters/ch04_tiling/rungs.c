// The rungs behind one interface, and what ./ch04 prints about their time.
#include "chapters/ch04_tiling/rungs.h"

#include "common/model.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { SCALAR_POINTS = 3, SIMD_POINTS = 5 }; // N, 2N, 4N; tiled_simd goes on to 8N and 16N

const char *rung_name(Rung rung) {
    static const char *const names[RUNGS] = {"untiled", "tiled", "unfused", "simd"};
    return names[rung];
}

size_t rung_workspace_floats(const RungRun *run, const AttnShape *shape) {
    switch (run->rung) {
    case RUNG_UNTILED:
        return untiled_workspace_floats(shape);
    case RUNG_TILED:
        return tiled_workspace_floats(shape, run->block_q, run->block_k);
    case RUNG_UNFUSED:
        return tiled_unfused_workspace_floats(shape, run->block_q, run->block_k);
    default:
        return 0;
    }
}

AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse) {
    RungRun *run = context;
    switch (run->rung) {
    case RUNG_UNTILED:
        return untiled_attention(shape, q, k, v, o, lse, run->workspace);
    case RUNG_TILED:
        return tiled_attention(shape, q, k, v, run->block_q, run->block_k, o, lse, run->workspace,
                               &run->tiles);
    case RUNG_UNFUSED:
        return tiled_unfused_attention(shape, q, k, v, run->block_q, run->block_k, o, lse,
                                       run->workspace, &run->operations);
    default:
        return tiled_simd_attention(shape, DTYPE_F32, q, k, v, o, lse, run->threads);
    }
}

int rung_threads(const Options *options) {
#ifdef _OPENMP
    return options->threads > 0 ? options->threads : omp_get_max_threads();
#else
    (void)options;
    return 1;
#endif
}

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// ---- one measurement ----------------------------------------------------------------------------

typedef struct Point {
    int64_t len;
    double flops;
    double elapsed; // seconds that measuring took, the oracle included
    LessonTiming timing;
} Point;

static AttnShape scaled_shape(const AttnShape *shape, int64_t factor) {
    AttnShape scaled = *shape;
    scaled.len_q *= factor;
    scaled.len_kv *= factor;
    return scaled;
}

static Point measure_rung(const Program *program, const Options *options, RungRun *run,
                          const AttnShape *shape) {
    Point point = {.len = shape->len_kv, .flops = lesson_flops(shape)};
    const double start = timer_now();
    const int64_t floats = (int64_t)rung_workspace_floats(run, shape);
    Tensor workspace;
    lesson_require(program, tensor_alloc(&workspace, DTYPE_F32, 1, &floats));
    run->workspace = workspace.data;
    lesson_require(program, lesson_time(rung_attention, run, shape, options->dtype, options->seed,
                                        options->repeats, &point.timing));
    tensor_free(&workspace);
    run->workspace = NULL;
    point.elapsed = timer_now() - start;
    if (!point.timing.last.passed) {
        printf("  %s, N = %lld: the last timed run's output is wrong: %s%s\n", rung_name(run->rung),
               (long long)point.len, point.timing.last.o.message, point.timing.last.lse.message);
    }
    return point;
}

// "2.01|1.1 %", or that the figure cannot be.
static const char *rate_cells(char text[64], const Point *point, const Ceilings *ceilings) {
    const double rate = point->flops / point->timing.seconds.median;
    if (rate_is_plausible(rate, ceilings->fma_flops_per_s)) {
        snprintf(text, 64, "%.2f|%.1f %%", rate / 1e9, 100 * rate / ceilings->fma_flops_per_s);
    } else {
        snprintf(text, 64, "measurement error|");
    }
    return text;
}

// Seconds that a point of the time table may take, the first excepted.
static double point_limit(const Options *options) {
    return options->shape_given ? 150 : options->quick ? 0.6 : 2.5;
}

double rung_planned_flops(const Options *options, const AttnShape *shape) {
    const double once = lesson_flops(shape), timed = options->repeats + 1 + LESSON_ORACLE_RUNS;
    double runs = RUNGS * (1 + LESSON_ORACLE_RUNS);
    for (Rung rung = RUNG_UNTILED; rung < RUNGS && options->q == NULL; rung++) {
        const double each = rung == RUNG_SIMD ? LESSON_ORACLE_RUNS : timed;
        const int most = rung == RUNG_SIMD ? SIMD_POINTS : SCALAR_POINTS;
        for (int i = 0; i < most; i++) {
            const double point = each * (double)(1 << 2 * i); // N^2
            if (i == 0 || point * once / LESSON_SCALAR_RATE < point_limit(options)) {
                runs += point;
            }
        }
    }
    runs += options->q == NULL ? 8 * timed : 0; // the table of tile sizes
    return runs * once;
}

// ---- time against N -----------------------------------------------------------------------------

// Says why simd may have been slow for a reason that is not its own.
static void note_busy_cores(const char *symptom) {
    report_text("%s: other programs hold the cores, or the problem is small. "
                "OMP_WAIT_POLICY=passive ./ch04 lets waiting threads sleep instead of spin.",
                symptom);
}

// Four times the work in hardly more time: what was measured was waiting, not work. Whoever waits
// for a core does so for milliseconds; below one, starting the threads counts.
static bool grows_too_little(const Point *points, int count) {
    bool little = false;
    for (int i = 1; i < count; i++) {
        const double before = points[i - 1].timing.seconds.median;
        little = little || (before > 1e-3 && points[i].timing.seconds.median < 1.5 * before);
    }
    return little;
}

// Says what the last lengths mean, from the medians of this run.
static void compare_rungs(const Options *options, Point points[RUNGS][SIMD_POINTS],
                          const int counts[RUNGS], const Ceilings *ceilings) {
    int last = SIMD_POINTS; // the longest that all rungs have run
    for (Rung rung = RUNG_UNTILED; rung < RUNGS; rung++) {
        last = counts[rung] - 1 < last ? counts[rung] - 1 : last;
    }
    if (last < 0) {
        return;
    }
    const AttnShape shape = scaled_shape(&options->shape, (int64_t)1 << last);
    const double untiled = points[RUNG_UNTILED][last].timing.seconds.median;
    const double simd = points[RUNG_SIMD][last].timing.seconds.median;
    char a[32], b[32];
    report_text("At N = %lld, in parts of untiled's time: tiled %.2f, unfused %.2f, simd %.3f.",
                (long long)shape.len_kv, points[RUNG_TILED][last].timing.seconds.median / untiled,
                points[RUNG_UNFUSED][last].timing.seconds.median / untiled, simd / untiled);
    if (shape.len_q == shape.len_kv && shape.window == 0) {
        // untiled.c has its mask inside the first pass: 4 N^2 + 4 N d whatever the mask.
        const double bytes = sizeof(float) * (double)(shape.batch * shape.heads_q) *
                             naive_hbm_elements((double)shape.len_kv, (double)shape.dim, false);
        const double copying = seconds_at(bytes, ceilings->copy_bytes_per_s);
        report_text(
            "Untiled passes move %s; at the copy rate measured here, one thread, that alone "
            "takes %s: %.1f %% of untiled's own time, and %.0f %% of the %s that simd needs for "
            "everything.",
            format_iec(a, bytes), format_seconds(b, copying), 100 * copying / untiled,
            100 * copying / simd, format_seconds((char[32]){0}, simd));
    }
}

bool show_rung_times(const Program *program, const Options *options, const RungCeilings *ceilings,
                     FILE *csv) {
    const int threads = rung_threads(options);
    const Ceilings *one = &ceilings->one, *all = &ceilings->all;
    const double limit = point_limit(options);
    Point points[RUNGS][SIMD_POINTS];
    int counts[RUNGS] = {0};
    bool passed = true;
    for (Rung rung = RUNG_UNTILED; rung < RUNGS; rung++) {
        const int most = rung == RUNG_SIMD ? SIMD_POINTS : SCALAR_POINTS;
        RungRun run = {.rung = rung,
                       .block_q = options->block_q,
                       .block_k = options->block_k,
                       .threads = threads};
        for (int i = 0; i < most && (i == 0 || 4 * points[rung][i - 1].elapsed < limit); i++) {
            const AttnShape shape = scaled_shape(&options->shape, (int64_t)1 << i);
            points[rung][i] = measure_rung(program, options, &run, &shape);
            passed = points[rung][i].timing.last.passed && passed;
            counts[rung]++;
        }
    }
    char heading[64], time[64], rate[64];
    snprintf(heading, sizeof heading, "Time: one thread; simd %d", threads);
    report_section(heading);
    Table table;
    table_begin(&table, "rung|N|median [p10, p90]|growth|GFLOP/s|of peak");
    for (Rung rung = RUNG_UNTILED; rung < RUNGS; rung++) {
        for (int i = 0; i < counts[rung]; i++) {
            const Point *point = &points[rung][i];
            const TimeStats *seconds = &point->timing.seconds;
            char growth[32] = "";
            if (i > 0) {
                snprintf(growth, sizeof growth, "%.2f",
                         seconds->median / points[rung][i - 1].timing.seconds.median);
            }
            table_row(&table, "%s|%lld|%s|%s|%s", rung_name(rung), (long long)point->len,
                      lesson_time_text(time, seconds), growth,
                      rate_cells(rate, point, rung == RUNG_SIMD ? all : one));
            csv_row(csv, "%s,%lld,%.9g,%.9g,%.9g", rung_name(rung), (long long)point->len,
                    seconds->median, seconds->p10, seconds->p90);
        }
    }
    table_print(&table);
    report_text("%d timed runs each on rotating inputs; each last output was compared with the "
                "oracle: %s. Ceilings measured here: %.1f GFLOP/s on one thread, %.1f on %d, "
                "multiply-adds in %s registers.",
                options->repeats, passed ? "right" : "WRONG", one->fma_flops_per_s / 1e9,
                all->fma_flops_per_s / 1e9, threads, one->vector_unit);
    if (ceilings->disturbed) {
        report_text("The ceilings of %d threads were disturbed: they came out below those of one "
                    "thread, whose figure stands in. Close other programs.",
                    threads);
    }
    if (threads > 1 && grows_too_little(points[RUNG_SIMD], counts[RUNG_SIMD])) {
        note_busy_cores("simd's time hardly grows from one N to the next");
    }
    if (counts[RUNG_UNTILED] < SCALAR_POINTS || counts[RUNG_SIMD] < SIMD_POINTS) {
        report_text("Longer sequences are left out: each would take more than %.3g s, for simd in "
                    "the oracle. --len sets the shortest N.",
                    limit);
    }
    compare_rungs(options, points, counts, one);
    return passed;
}

// ---- time against threads -----------------------------------------------------------------------

bool show_simd_threads(const Program *program, const Options *options, const RungCeilings *ceilings,
                       FILE *csv) {
    const int most = rung_threads(options);
    const AttnShape shape = scaled_shape(&options->shape, options->shape_given ? 1 : 4);
    char heading[64], time[64], rate[64];
    snprintf(heading, sizeof heading, "tiled_simd against threads: N = %lld",
             (long long)shape.len_kv);
    report_section(heading);
    Table table;
    table_begin(&table, "threads|median [p10, p90]|speed-up|GFLOP/s|of their peak");
    bool passed = true;
    double first = 0, speed_up = 1;
    for (int threads = 1; threads <= most; threads *= 2) {
        threads = 2 * threads > most ? most : threads; // powers of two, and all
        RungRun run = {.rung = RUNG_SIMD, .threads = threads};
        const Point point = measure_rung(program, options, &run, &shape);
        const TimeStats *seconds = &point.timing.seconds;
        Ceilings their = threads == 1      ? ceilings->one
                         : threads == most ? ceilings->all
                                           : ceilings_measure(threads);
        ceilings_raise(&their, &ceilings->one);
        first = threads == 1 ? seconds->median : first;
        speed_up = first / seconds->median;
        passed = point.timing.last.passed && passed;
        table_row(&table, "%d|%s|%.2f|%s", threads, lesson_time_text(time, seconds), speed_up,
                  rate_cells(rate, &point, &their));
        csv_row(csv, "threads,%d,%.9g,%.9g,%.9g", threads, seconds->median, seconds->p10,
                seconds->p90);
    }
    table_print(&table);
    if (most > 1 && speed_up < 0.8) { // the last row is all threads
        note_busy_cores("Slower with all threads than with one");
    }
    return passed;
}

// ---- what an operation costs --------------------------------------------------------------------

bool show_unfused_cost(const Program *program, const Options *options) {
    const AttnShape *shape = &options->shape;
    char heading[80], unfused_time[64], fused_time[32], launches[32], count[32], bytes[32];
    snprintf(heading, sizeof heading, "Unfused against fused: N = %lld, tiles of B x B",
             (long long)shape->len_kv);
    report_section(heading);
    Table table;
    table_begin(&table, "B|operations|x 40 us|move|unfused [p10, p90]|tiled|x");
    bool passed = true;
    double each = 0; // seconds that an operation on the smallest tile costs besides its arithmetic
    for (int64_t block = 4; block == 4 || block <= min_i64(shape->len_kv, 256); block *= 4) {
        RungRun fused = {.rung = RUNG_TILED, .block_q = block, .block_k = block};
        RungRun unfused = {.rung = RUNG_UNFUSED, .block_q = block, .block_k = block};
        const Point a = measure_rung(program, options, &fused, shape);
        const Point b = measure_rung(program, options, &unfused, shape);
        const double operations = (double)unfused.operations.operations;
        const double difference = b.timing.seconds.min - a.timing.seconds.min;
        passed = a.timing.last.passed && b.timing.last.passed && passed;
        each = block == 4 ? difference / operations : each;
        table_row(&table, "%lld|%s|%s|%s|%s|%s|%.2f", (long long)block,
                  format_count(count, operations), format_seconds(launches, 40e-6 * operations),
                  format_iec(bytes, sizeof(float) * (double)unfused.operations.elements),
                  lesson_time_text(unfused_time, &b.timing.seconds),
                  format_seconds(fused_time, a.timing.seconds.median),
                  b.timing.seconds.median / a.timing.seconds.median);
    }
    table_print(&table);
    report_text("\"Move\": elements that the operations read and write, counted while they run, 4 "
                "B each. In C an operation is a call, and costs little more than its arithmetic: "
                "at B = 4, %.0f ns beyond the fused loop's share (fastest runs). In a framework it "
                "is nearer 40 us, with which the third column reckons.",
                each > 0 ? 1e9 * each : 0);
    if (shape->len_q == shape->len_kv) {
        const double heads = (double)(shape->batch * shape->heads_q);
        report_text("The untiled passes move %s, by the model.",
                    format_iec(bytes, sizeof(float) * heads *
                                          naive_hbm_elements((double)shape->len_kv,
                                                             (double)shape->dim, false)));
    }
    return passed;
}
