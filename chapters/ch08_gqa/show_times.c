// ./ch08, time on cuda: the rungs on the problems of the lesson, by the number of query heads to a
// KV head, and for a chunk of queries, beside the rate of a kernel that only reads; heads of every
// last output are compared with the oracle. On simt, in their place, what carries over.
#include "chapters/ch08_gqa/show.h"

#include "common/model.h"
#include "common/read_rate.h"
#include "common/timed_cache.h"

#include <math.h>
#include <stdio.h>

// Bytes/s of read_rate over 2 GiB.
static double reading_rate(const Show *show) {
    const size_t bytes = (size_t)1 << 31;
    TimeStats seconds;
    lesson_require(show->program, read_rate_measure(show->target, bytes, &seconds));
    return (double)bytes / seconds.median;
}

// Times a rung and compares heads of its last output with the oracle.
static TimedPoint time_rung(const Show *show, TimedCache *cache, int rung, int64_t splits) {
    void *workspace;
    lesson_require(show->program,
                   rung_workspace(rung, show->target, &cache->problem.shape, splits, &workspace));
    const TimedPoint point =
        timed_cache_run(cache, gqa_rungs[rung].builds[show->target], splits, workspace);
    gpu_free(show->target, workspace);
    return point;
}

// ---- times --------------------------------------------------------------------------------------

// The rungs on one problem. Rows of the CSV where it is one of the problems by g.
static bool time_problem(const Show *show, Table *table, const AttnShape *shape, DType dtype,
                         double reads, bool by_group) {
    char label[SHOW_LABEL], time[64], count[32];
    double naive = 0;
    bool passed = true;
    TimedCache cache;
    problem_label(label, shape);
    timed_cache_make(&cache, show->program, show->options, show->target, shape, dtype);
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        if (!rung_takes(rung, shape, dtype)) {
            continue;
        }
        report_progress("timing", rung, GQA_RUNGS);
        const int64_t splits = splits_for(show, rung, shape, dtype);
        const TimedPoint point = time_rung(show, &cache, rung, splits);
        const bool plausible = rate_is_plausible(point.rate, reads);
        naive = rung == GQA_NAIVE ? point.seconds.median : naive;
        table_row(table, "%s|%s|%lld|%s|%s|%.0f %%|%.2f|%s", rung == 0 ? label : "",
                  gqa_rungs[rung].name, (long long)splits, lesson_time_text(time, &point.seconds),
                  plausible ? format_count(count, point.rate / 1e9) : "measurement error",
                  plausible ? 100 * point.rate / reads : 0.0, naive / point.seconds.median,
                  point.passed ? "right" : "WRONG");
        if (by_group && plausible) {
            csv_row(show->csv, "cuda,%s,%lld,%.6g,%.6g,%.6g", gqa_rungs[rung].name,
                    (long long)(shape->heads_q / shape->heads_kv), reads / point.rate,
                    point.seconds.p10 / point.seconds.median * reads / point.rate,
                    point.seconds.p90 / point.seconds.median * reads / point.rate);
        }
        passed = point.passed && passed;
    }
    report_progress("timing", 0, 0);
    timed_cache_free(&cache);
    return passed;
}

static const char time_headings[] =
    "problem|rung|splits|median [p10, p90]|GB/s|reads|x naive|output";

bool show_times(const Show *show) {
    const Options *options = show->options;
    const DType dtype =
        options->dtype == DTYPE_F32 && !options->shape_given ? DTYPE_BF16 : options->dtype;
    bool passed = true;
    Table table;
    char a[32];
    report_section("Time on cuda");
    if (options->shape_given && lesson_flops(&options->shape) == 0) {
        report_text("Not measured: no query of this problem sees a key.");
        return true;
    }
    const double reads = reading_rate(show);
    table_begin(&table, time_headings);
    if (options->shape_given) {
        passed = time_problem(show, &table, &options->shape, dtype, reads, false);
    }
    for (int p = 0; p < SHOW_PROBLEMS && !options->shape_given && !options->quick; p++) {
        passed = time_problem(show, &table, &show_problems[p], dtype, reads, false) && passed;
    }
    if (!options->shape_given) {
        AttnShape chunk = show_problems[1];
        chunk.len_q = 4;
        chunk.causal = true;
        passed = time_problem(show, &table, &chunk, dtype, reads, false) && passed;
    }
    table_print(&table);
    if (!options->shape_given) {
        report_section("Time by the query heads of a KV head, g = 1 to 32");
        table_begin(&table, time_headings);
        for (int i = 0; i < SHOW_GROUPS; i += options->quick ? 3 : 1) {
            const AttnShape shape = show_group_problem(i);
            passed = time_problem(show, &table, &shape, dtype, reads, true) && passed;
        }
        table_print(&table);
    }
    report_text("%d timed runs each, by events, over caches that take turns and together exceed "
                "twice the L2. GB/s: K and V once, by the median; \"reads\" is its share of "
                "read_rate's rate over 2 GiB, %s, measured here. Of each last output some heads "
                "were compared with the oracle.",
                options->repeats, format_si(a, reads, "B/s"));
    return passed;
}

// ---- on simt ------------------------------------------------------------------------------------

void show_carries_over(const Show *show) {
    Table table;
    char heading[128], a[32], b[32], c[32];
    snprintf(heading, sizeof heading, "In place of times: 16 x 8,192 keys, 8 KV heads, %s",
             show->properties.name);
    report_section(heading);
    table_begin(&table, "g|rung|splits|blocks|requested|x cache|arithmetic|at least");
    for (int i = 0; i < SHOW_GROUPS; i++) {
        const AttnShape shape = show_group_problem(i);
        const double cache = attn_kv_bytes(&shape, 2);
        const double floor_s = seconds_at(cache, gqa_h200.bytes_per_s);
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            const int64_t splits = splits_for(show, rung, &shape, DTYPE_BF16);
            const int64_t rows = gqa_rungs[rung].tile_rows(&shape);
            const double requested = gqa_requested_bytes(&shape, rows, rung != GQA_NAIVE, 2);
            const int64_t group = shape.heads_q / shape.heads_kv;
            const int64_t tiles = rung == GQA_NAIVE ? group : (group + rows - 1) / rows;
            const double share = gqa_issue_share(&gqa_h200, rung, &shape);
            table_row(&table, "%s|%s|%lld|%s|%s|%.3g|%.0f %%|%s",
                      rung == 0 ? format_count(c, (double)group) : "", gqa_rungs[rung].name,
                      (long long)splits,
                      format_count(a, (double)(shape.batch * shape.heads_kv * tiles * splits)),
                      format_iec(b, requested), requested / cache, 100 * share,
                      format_seconds((char[32]){0}, floor_s * fmax(1, share)));
        }
    }
    table_print(&table);
    report_text("Requests and instructions carry over to a GPU; the emulator's time does not, and "
                "is not printed. At least: the longer of reading the cache once at 4.6 TB/s and "
                "starting all instructions, on an H200. A kernel that waits takes longer.");
}
