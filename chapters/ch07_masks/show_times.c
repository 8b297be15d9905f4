// ./ch07, time on cuda: no mask, the causal one in its three ways of visiting, windows, lists; by
// events, over rotating inputs. Rows of every head of the last output are compared with the oracle.
#include "chapters/ch07_masks/fma_rate.h"
#include "chapters/ch07_masks/show.h"

#include <stdio.h>

enum { SETS = LESSON_INPUT_SETS, SAMPLE_ROWS = 2 };
enum { QUERIES = 1 << 17 }; // of all heads together, whatever N: heads = QUERIES / N

// ---- checking -----------------------------------------------------------------------------------

// SAMPLE_ROWS rows of each head; they differ from head to head, and the last head's are the last.
static bool check_sample(const Show *show, const Problem *problem, const BlockList *list) {
    const AttnShape *shape = &problem->shape;
    const int64_t heads = shape->batch * shape->heads_q;
    double worst = 0;
    for (int64_t head = 0; head < heads; head++) {
        for (int64_t i = 0; i < SAMPLE_ROWS && i < shape->len_q; i++) {
            const int64_t places = shape->len_q - 1;
            const int64_t row = heads > 1 ? places * head / (heads - 1) : places;
            lesson_require(show->program,
                           check_row(problem, list, head, row >= i ? row - i : i, &worst));
        }
    }
    return worst <= 1;
}

// ---- measuring ----------------------------------------------------------------------------------

typedef struct Point {
    TimeStats seconds;
    double flops, ns_query; // of the visible pairs; nanoseconds for a query of a head
    bool passed;
} Point;

typedef struct TimedKernel {
    MaskKernel kernel;
    DeviceProblem sets[SETS];
    DeviceBlockList list;
    int last;
} TimedKernel;

static AttnStatus timed_run(void *context, int run) {
    TimedKernel *timed = context;
    timed->last = run % SETS;
    return mask_launch(timed->kernel, &timed->sets[timed->last], &timed->list);
}

// Times a kernel on the problems, under this mask.
static Point measure(const Show *show, Problem problems[SETS], MaskKernel kernel, bool causal,
                     int64_t window, const BlockList *list) {
    TimedKernel timed = {.kernel = kernel};
    Point point;
    for (int set = 0; set < SETS; set++) {
        problems[set].shape.causal = causal;
        problems[set].shape.window = window;
        lesson_require(show->program, device_problem_make(&timed.sets[set], show->target,
                                                          &problems[set], problems[set].dtype));
    }
    const AttnShape *shape = &problems[0].shape;
    const double heads = (double)(shape->batch * shape->heads_q);
    point.flops = lesson_flops(shape);
    if (list != NULL) {
        lesson_require(show->program,
                       device_block_list_make(&timed.list, show->target, list, shape));
        point.flops = 4 * (double)shape->dim * heads *
                      block_list_visible_pairs(list, mask_of_shape(shape, 0));
    }
    lesson_require(show->program, gpu_measure(show->target, timed_run, &timed,
                                              show->options->repeats, &point.seconds));
    point.ns_query = 1e9 * point.seconds.median / (heads * (double)shape->len_q);
    Problem *last = &problems[timed.last];
    lesson_require(show->program, device_problem_download(&timed.sets[timed.last], last));
    point.passed = check_sample(show, last, list);
    device_block_list_free(&timed.list);
    for (int set = 0; set < SETS; set++) {
        device_problem_free(&timed.sets[set]);
    }
    return point;
}

static void problems_make(const Show *show, const AttnShape *shape, Problem problems[SETS]) {
    for (int set = 0; set < SETS; set++) {
        lesson_require(show->program, problem_random(&problems[set], shape, show->options->dtype,
                                                     show->options->seed + (uint64_t)set));
    }
}

static void problems_free(Problem problems[SETS]) {
    for (int set = 0; set < SETS; set++) {
        problem_free(&problems[set]);
    }
}

// FLOP/s of multiply-adds, from the fastest of 10 runs.
typedef struct FmaRun {
    GpuTarget target;
    float *y;
    int blocks, rounds;
} FmaRun;

static AttnStatus fma_run(void *context, int run_number) {
    static AttnStatus (*const builds[])(float *, int, int, GpuStream) = GPU_BUILDS(fma_rate);
    const FmaRun *run = context;
    (void)run_number;
    return builds[run->target](run->y, run->blocks, run->rounds, NULL);
}

static double fma_ceiling(const Show *show) {
    FmaRun run = {show->target, NULL, 8 * show->properties.multiprocessors, 16384};
    const double threads = (double)run.blocks * FMA_RATE_THREADS;
    TimeStats seconds;
    void *y;
    lesson_require(show->program, gpu_alloc(show->target, &y, "y", (size_t)threads, sizeof(float)));
    run.y = y;
    lesson_require(show->program, gpu_measure(show->target, fma_run, &run, 10, &seconds));
    gpu_free(show->target, y);
    return 2.0 * FMA_RATE_CHAINS * threads * run.rounds / seconds.min;
}

// ---- tables -------------------------------------------------------------------------------------

// The columns that all tables have: time, TFLOP/s, share of the ceiling, output.
static char *point_cells(char cells[128], const Point *point, double ceiling) {
    const double rate = point->flops / point->seconds.median;
    char time[64];
    lesson_time_text(time, &point->seconds);
    if (point->flops > 0 && !rate_is_plausible(rate, ceiling)) {
        snprintf(cells, 128, "%s|measurement|error|%s", time, point->passed ? "right" : "WRONG");
    } else {
        snprintf(cells, 128, "%s|%.1f|%.1f %%|%s", time, rate / 1e12, 100 * rate / ceiling,
                 point->passed ? "right" : "WRONG");
    }
    return cells;
}

static void csv_point(const Show *show, const char *name, int64_t len, const Point *point) {
    const double scale = point->ns_query / point->seconds.median;
    csv_row(show->csv, "cuda,%s,%lld,%.6g,%.6g,%.6g", name, (long long)len, point->ns_query,
            scale * point->seconds.p10, scale * point->seconds.p90);
}

// Every way of visiting on one shape, over the same shape without a mask.
static bool masks_at(const Show *show, Table *table, const AttnShape *shape, double ceiling) {
    static const struct {
        const char *name;
        MaskKernel kernel;
        bool causal;
    } ways[] = {{"full", KERNEL_CAUSAL, false},
                {"causal", KERNEL_CAUSAL, true},
                {"every score", KERNEL_EVERY_SCORE, true},
                {"every tile", KERNEL_EVERY_TILE, true}};
    Problem problems[SETS];
    double full = 0;
    bool passed = true;
    char cells[128];
    problems_make(show, shape, problems);
    for (int i = 0; i < 4; i++) {
        const Point point = measure(show, problems, ways[i].kernel, ways[i].causal, 0, NULL);
        full = i == 0 ? point.seconds.median : full;
        table_row(table, "%lld|%s|%.3f|%s", (long long)shape->len_kv, ways[i].name,
                  point.seconds.median / full, point_cells(cells, &point, ceiling));
        csv_point(show, ways[i].name, shape->len_kv, &point);
        passed = point.passed && passed;
    }
    problems_free(problems);
    return passed;
}

static bool window_at(const Show *show, Table *table, const AttnShape *shape, int64_t window,
                      double ceiling) {
    Problem problems[SETS];
    char cells[128], name[32];
    problems_make(show, shape, problems);
    const Point point = measure(show, problems, KERNEL_CAUSAL, true, window, NULL);
    table_row(table, "%lld|%lld|%.1f|%s", (long long)shape->len_kv, (long long)shape->heads_q,
              point.ns_query, point_cells(cells, &point, ceiling));
    snprintf(name, sizeof name, "window %lld", (long long)window);
    csv_point(show, name, shape->len_kv, &point);
    problems_free(problems);
    return point.passed;
}

static bool densities_at(const Show *show, const AttnShape *shape, double ceiling) {
    static const double densities[] = {1, 0.5, 0.25, 0.125, 0.0625};
    Problem problems[SETS];
    double dense = 0;
    bool passed = true;
    char cells[128], heading[96];
    Table table;
    snprintf(heading, sizeof heading, "Time against density: random lists, T = %lld, S = %lld",
             (long long)shape->len_q, (long long)shape->len_kv);
    problems_make(show, shape, problems);
    table_begin(&table, "density|blocks|of all|median [p10, p90]|TFLOP/s|of FMA|output");
    for (int i = 0; i < 5; i++) {
        BlockList list;
        report_progress("timing lists", i, 5);
        lesson_require(show->program,
                       block_list_random(&list, shape, densities[i], false, show->options->seed));
        const Point point = measure(show, problems, KERNEL_SPARSE, false, 0, &list);
        const TileTally tally = block_list_tally(&list, mask_of_shape(&problems[0].shape, 0));
        const double share = (double)tally.visited / (double)tally.all;
        dense = i == 0 ? point.seconds.median : dense;
        table_row(&table, "%g|%.3f|%.3f|%s", densities[i], share, point.seconds.median / dense,
                  point_cells(cells, &point, ceiling));
        csv_row(show->csv, "density,time,%.6g,%.6g,0,0", share, point.seconds.median / dense);
        passed = point.passed && passed;
        block_list_free(&list);
    }
    report_progress("timing lists", 0, 0);
    problems_free(problems);
    report_section(heading);
    table_print(&table);
    return passed;
}

// ---- the section --------------------------------------------------------------------------------

// One head for every N of QUERIES queries.
static AttnShape shape_at(int64_t len) {
    return (AttnShape){1, QUERIES / len, QUERIES / len, len, len, 64, 0, false, 0, NULL};
}

bool show_times(const Show *show) {
    const Options *options = show->options;
    AttnShape shape = options->shape;
    const bool own = options->shape_given;
    const int64_t first = own ? shape.len_kv : options->quick ? 2048 : 1024;
    const int64_t last = own ? shape.len_kv : options->quick ? 2048 : 8192;
    const int64_t longest = own ? shape.len_kv : options->quick ? 4096 : 32768;
    const int64_t window = shape.window != 0 ? shape.window : SHOW_WINDOW;
    bool passed = true;
    shape.causal = false;
    shape.window = 0;
    if (shape.batch * shape.len_q * shape.len_kv == 0) {
        report_section("Time");
        report_text("Not measured: no query of this problem sees a key.");
        return true;
    }
    const double ceiling = fma_ceiling(show);
    char heading[96];
    Table masks, windows;
    table_begin(&masks, "N|mask|of full|median [p10, p90]|TFLOP/s|of FMA|output");
    table_begin(&windows, "N|heads|ns a query|median [p10, p90]|TFLOP/s|of FMA|output");
    for (int64_t len = first; len <= longest; len *= 2) {
        const AttnShape at = own ? shape : shape_at(len);
        report_progress("timing", (int)(len / first), (int)(longest / first));
        if (len <= last) {
            passed = masks_at(show, &masks, &at, ceiling) && passed;
        }
        passed = window_at(show, &windows, &at, window, ceiling) && passed;
    }
    report_progress("timing", 0, 0);
    const AttnShape named = own ? shape : shape_at(last);
    snprintf(heading, sizeof heading, "Time on cuda: batch %lld, %lld heads%s, d = %lld, %s",
             (long long)named.batch, (long long)named.heads_q, own ? "" : " at the longest",
             (long long)named.dim, dtype_name(options->dtype));
    report_section(heading);
    table_print(&masks);
    report_text(
        "Of full: over the same kernel's time without a mask. Causal visits (n + 1) / 2n of "
        "the tiles, and masks those on the diagonal. TFLOP/s count visible pairs only, so "
        "that \"every tile\" is charged for what it need not do.");
    snprintf(heading, sizeof heading, "Time of a window of %lld against N", (long long)window);
    report_section(heading);
    table_print(&windows);
    report_text(
        "Nanoseconds over the queries of all heads; by tiles they should stay the same once "
        "N is well above the window.%s",
        own ? "" : " The heads are as many as make 131,072 queries in all.");
    passed = densities_at(show, &named, ceiling) && passed;
    report_text(
        "Blocks: those listed, of all. Of all: the time over that of a list with every "
        "block. %d timed runs each, by events, on rotating inputs; of the last output %d rows of "
        "each head were compared with the oracle. FMA: %.1f TFLOP/s of multiply-adds, "
        "measured here.",
        options->repeats, SAMPLE_ROWS, ceiling / 1e12);
    return passed;
}
