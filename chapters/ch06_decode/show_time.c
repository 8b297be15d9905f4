// ./ch06, time on cuda: the rungs, time and bandwidth against the number of splits, caches from
// small to large, and a case in which splitting loses. Beside each the share of what read_rate
// reads in this run; heads of every last output are compared with the oracle.
#include "chapters/ch06_decode/show_timed.h"

#include <math.h>
#include <stdio.h>

// "3,721|85.9 %": GB/s and the share of reads, or that it cannot be.
static const char *rate_text(const Show *show, char text[80], const TimedPoint *point) {
    char count[32];
    if (rate_is_plausible(point->rate, show->read_rate)) {
        snprintf(text, 80, "%s|%.1f %%", format_count(count, point->rate / 1e9),
                 100 * point->rate / show->read_rate);
    } else {
        snprintf(text, 80, "measurement error|-");
    }
    return text;
}

static const char *verdict(const TimedPoint *point) {
    return point->passed ? "right" : "WRONG";
}

// ---- the rungs ----------------------------------------------------------------------------------

static bool show_rungs(const Show *show, const AttnShape *shape, DType dtype) {
    const int64_t splits = splits_for(show, shape, dtype);
    char label[SHOW_LABEL], heading[128], time[64], rate[80];
    bool passed = true;
    TimedCache cache;
    Table table;
    problem_label(label, shape);
    snprintf(heading, sizeof heading, "Time on cuda: %s %s, %lld splits", label, dtype_name(dtype),
             (long long)splits);
    report_section(heading);
    make_cache(show, &cache, shape, dtype);
    table_begin(&table, "rung|median [p10, p90]|GB/s|of reads|output");
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        report_progress("timing", rung, DECODE_RUNGS);
        const TimedPoint point = time_rung(show, &cache, rung, splits);
        table_row(&table, "%s|%s|%s|%s", decode_rungs[rung].name,
                  lesson_time_text(time, &point.seconds), rate_text(show, rate, &point),
                  verdict(&point));
        csv_row(show->csv, "cuda-rungs,%s,%lld,%.6g,%.6g,%.6g", decode_rungs[rung].name,
                (long long)shape->len_kv, 1e6 * point.seconds.median, 1e6 * point.seconds.p10,
                1e6 * point.seconds.p90);
        passed = point.passed && passed;
    }
    report_progress("timing", 0, 0);
    timed_cache_free(&cache);
    table_print(&table);
    return passed;
}

// ---- against splits -----------------------------------------------------------------------------

static bool show_sweep(const Show *show) {
    AttnShape shape;
    DType dtype;
    char label[SHOW_LABEL], heading[128], time[64], rate[80], a[32];
    int64_t counts[SHOW_COUNTS];
    bool passed = true;
    TimedCache cache;
    Table table;
    show_sweep_problem(show, &shape, &dtype, label);
    const int count = show_sweep_counts(show, &shape, dtype, counts);
    const int64_t chosen = decode_splits(&shape, dtype, &show->properties);
    snprintf(heading, sizeof heading, "Time against splits: split_kv_fused, %s %s", label,
             dtype_name(dtype));
    report_section(heading);
    make_cache(show, &cache, &shape, dtype);
    table_begin(&table, "splits|keys a block|median [p10, p90]|GB/s|of reads|output|");
    for (int i = 0; i < count; i++) {
        const long long s = counts[i];
        report_progress("timing", i, count);
        const TimedPoint point = time_rung(show, &cache, SHOW_FUSED, counts[i]);
        table_row(&table, "%lld|%s|%s|%s|%s|%s", s,
                  format_count(a, (double)decode_part_keys(shape.len_kv, s)),
                  lesson_time_text(time, &point.seconds), rate_text(show, rate, &point),
                  verdict(&point), s == chosen ? "chosen" : "");
        csv_row(show->csv, "cuda,%s,%lld,%.6g,%.6g,%.6g", label, s, 1e6 * point.seconds.median,
                1e6 * point.seconds.p10, 1e6 * point.seconds.p90);
        csv_row(show->csv, "cuda-rate,%s,%lld,%.6g,0,0", label, s, point.rate / 1e9);
        passed = point.passed && passed;
    }
    report_progress("timing", 0, 0);
    timed_cache_free(&cache);
    table_print(&table);
    return passed;
}

// ---- from which size on -------------------------------------------------------------------------

// Times split_kv_fused with the chosen splits and adds a row. Returns whether the output was right.
static bool size_row(const Show *show, Table *table, const AttnShape *shape, double launch,
                     double *share) {
    const int64_t splits = decode_splits(shape, DTYPE_BF16, &show->properties);
    char a[32], b[32], time[64], rate[80];
    TimedCache cache;
    make_cache(show, &cache, shape, DTYPE_BF16);
    const TimedPoint point = time_rung(show, &cache, SHOW_FUSED, splits);
    timed_cache_free(&cache);
    *share = point.rate / show->read_rate;
    table_row(table, "%lld|%s|%s|%lld|%s|%.1f|%s", (long long)shape->batch,
              format_count(a, (double)shape->len_kv),
              format_iec(b, attn_kv_bytes(shape, dtype_size(DTYPE_BF16))), (long long)splits,
              lesson_time_text(time, &point.seconds), point.seconds.median / launch,
              rate_text(show, rate, &point));
    csv_row(show->csv, "%s,split_kv_fused,%lld,%.6g,0,0", shape->batch > 1 ? "sequences" : "keys",
            (long long)(shape->batch > 1 ? shape->batch : shape->len_kv), point.rate / 1e9);
    return point.passed;
}

static bool show_sizes(const Show *show) {
    const double launch = timed_launch(show), enough = 0.8;
    bool passed = true;
    int64_t first = 0;
    Table table;
    char a[32];
    report_section("From which size on: 8 heads, d = 128, bf16, the chosen splits");
    table_begin(&table, "batch|keys|cache|splits|median [p10, p90]|launches|GB/s|reads");
    for (int64_t keys = 256; keys <= 262144; keys *= 4) {
        const AttnShape shape = {1, 8, 8, 1, keys, 128, 0, false, 0, NULL};
        double share;
        passed = size_row(show, &table, &shape, launch, &share) && passed;
        first = first == 0 && share >= enough ? keys : first;
    }
    for (int64_t batch = 4; batch <= 256; batch *= 4) {
        const AttnShape shape = {batch, 8, 8, 1, 2048, 128, 0, false, 0, NULL};
        double share;
        passed = size_row(show, &table, &shape, launch, &share) && passed;
    }
    table_print(&table);
    report_text("\"Launches\": the time over that of a launch that reads 16 bytes, %s here; a "
                "kernel that takes a few of them is mostly launch. ",
                format_seconds(a, launch));
    if (first > 0) {
        report_text("With one sequence %s of the rate of reads, or more, is reached from %s keys "
                    "on.",
                    "80 %", format_count(a, (double)first));
    } else {
        report_text("With one sequence 80 %% of the rate of reads is not reached.");
    }
    return passed;
}

// ---- where splitting loses ----------------------------------------------------------------------

static bool show_losing(const Show *show) {
    const AttnShape shape = {128, 32, 32, 1, 128, 128, 0, false, 0, NULL};
    const double cache_bytes = attn_kv_bytes(&shape, dtype_size(DTYPE_BF16));
    const int64_t units = decode_units(&shape);
    const double slots = (double)decode_slots(&shape, DTYPE_BF16, &show->properties);
    char label[SHOW_LABEL], heading[128], time[64], rate[80], a[32];
    double one = 0;
    bool passed = true;
    TimedCache cache;
    Table table;
    problem_label(label, &shape);
    snprintf(heading, sizeof heading, "Where splitting loses: split_kv_fused, %s bf16", label);
    report_section(heading);
    make_cache(show, &cache, &shape, DTYPE_BF16);
    table_begin(&table, "splits|waves|parts|median [p10, p90]|over 1|GB/s|reads|output");
    for (int64_t splits = 1; splits <= 16; splits *= 2) {
        const TimedPoint point = time_rung(show, &cache, SHOW_FUSED, splits);
        // Written and read again; one part goes straight to O.
        const double parts =
            splits > 1 ? 2 * (double)units * decode_part_bytes(splits, shape.dim) : 0;
        one = splits == 1 ? point.seconds.median : one;
        snprintf(a, sizeof a, "%.1f %%", 100 * parts / cache_bytes);
        table_row(&table, "%lld|%.1f|%s|%s|%.2f|%s|%s", (long long)splits,
                  decode_waves((double)(units * splits), slots), a,
                  lesson_time_text(time, &point.seconds), point.seconds.median / one,
                  rate_text(show, rate, &point), verdict(&point));
        passed = point.passed && passed;
    }
    timed_cache_free(&cache);
    table_print(&table);
    report_text("%s units fill the device without splits. Parts then only cost: their results are "
                "written, read again and merged, and each block has fewer keys to spread its "
                "beginning and end over. \"Parts\": their bytes, of the cache's. \"Reads\": the "
                "share of the rate of reads.",
                format_count(a, (double)units));
    return passed;
}

// ---- the section --------------------------------------------------------------------------------

bool show_times(const Show *show) {
    AttnShape shape;
    DType dtype;
    char label[SHOW_LABEL], a[32];
    show_sweep_problem(show, &shape, &dtype, label);
    if (lesson_flops(&shape) == 0) {
        report_section("Time");
        report_text("Not measured: no query of this problem sees a key.");
        return true;
    }
    const int problems = show->options->shape_given || show->options->quick ? 1 : SHOW_PROBLEMS;
    bool passed = show_rungs(show, &shape, dtype);
    for (int p = 1; p < problems; p++) {
        passed = show_rungs(show, &show_problems[p], dtype) && passed;
    }
    passed = show_sweep(show) && passed;
    if (problems > 1) {
        passed = show_sizes(show) && passed;
        passed = show_losing(show) && passed;
    }
    report_text("%d timed runs each, by events, over caches that take turns and together exceed "
                "twice the L2. GB/s: K and V once, by the median. Reads: read_rate over 2 GiB, %s, "
                "measured here. Of each last output some heads were compared with the oracle.",
                show->options->repeats, format_si(a, show->read_rate, "B/s"));
    return passed;
}
