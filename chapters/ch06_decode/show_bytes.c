// ./ch06, bytes: what every rung reads of K and V and moves through its workspace, traced, beside
// the models; and why a launch for every operation cannot show what splitting gains.
#include "chapters/ch06_decode/show.h"

#include "common/model.h"
#include "common/simt/runtime.h"

#include <stdio.h>

enum { HEADS = 2, DIM = 64 };

// What one rung's launches counted: bytes.
typedef struct Traced {
    int launches;
    double requested, unique; // of K and V, reads
    double written, read;     // of the workspace, launch-unique
} Traced;

static Traced trace_rung(const Show *show, const AttnShape *shape, int rung, int64_t splits) {
    Problem problem;
    DeviceProblem device;
    void *workspace;
    const DType dtype = show->options->dtype;
    lesson_require(show->program, problem_random(&problem, shape, dtype, show->options->seed));
    lesson_require(show->program, device_problem_make(&device, GPU_TRACE, &problem, dtype));
    lesson_require(show->program, rung_workspace(rung, GPU_TRACE, shape, splits, &workspace));
    simt_trace_reset();
    lesson_require(show->program, rung_launch(rung, &device, splits, workspace));
    const SimtCounts k = simt_trace_sum("k"), v = simt_trace_sum("v");
    const SimtCounts w = simt_trace_sum("workspace");
    const Traced traced = {
        .launches = simt_trace_launches(),
        .requested = (double)(k.load_bytes + v.load_bytes),
        .unique = (double)(k.launch_unique_load + v.launch_unique_load),
        .written = (double)w.launch_unique_store,
        .read = (double)w.launch_unique_load,
    };
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
    problem_free(&problem);
    return traced;
}

static void show_cache(const Show *show, const AttnShape *shape, const Traced *traced) {
    const double model = attn_kv_bytes(shape, dtype_size(show->options->dtype));
    char a[32], b[32], c[32], heading[80];
    Table table;
    snprintf(heading, sizeof heading, "Bytes of K and V, traced: %d heads, S = %lld, d = %d, %s",
             HEADS, (long long)shape->len_kv, DIM, dtype_name(show->options->dtype));
    report_section(heading);
    table_begin(&table, "rung|launches|requested|launch-unique|model|off");
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        table_row(&table, "%s|%d|%s|%s|%s|%.2f %%", decode_rungs[rung].name, traced[rung].launches,
                  format_iec(a, traced[rung].requested), format_iec(b, traced[rung].unique),
                  format_iec(c, model), 100 * (traced[rung].unique / model - 1));
    }
    table_print(&table);
    report_text("Requested: every read of every thread. Launch-unique: 32-byte sectors, counted "
                "once a launch. The model is 2 S d elements a head, and the number it models is "
                "the last: splitting reads nothing twice.");
}

static void show_workspace(const AttnShape *shape, const Traced *traced, int64_t splits) {
    const double rows = (double)attn_count_lse(shape);
    const double parts = rows * decode_part_bytes(splits, DIM);
    char a[32], b[32], c[32], d[32], heading[80];
    Table table;
    snprintf(heading, sizeof heading, "Bytes of the workspace, traced, launch-unique, %lld splits",
             (long long)splits);
    report_section(heading);
    table_begin(&table, "rung|written|model|read|model");
    for (int rung = SHOW_UNFUSED; rung < DECODE_RUNGS; rung++) {
        const bool unfused = rung == SHOW_UNFUSED;
        const double written = rows * decode_unfused_written(shape->len_kv, splits, DIM);
        const double read = rows * decode_unfused_read(shape->len_kv, splits, DIM);
        table_row(&table, "%s|%s|%s|%s|%s", decode_rungs[rung].name,
                  format_iec(a, traced[rung].written), format_iec(b, unfused ? written : parts),
                  format_iec(c, traced[rung].read), format_iec(d, unfused ? read : parts));
    }
    table_print(&table);
    report_text("Models: 4 (d + 1) B a part each way, an O and an LSE in float32. Unfused, of the "
                "scores 8 S B written and 16 S B read, and 4 (d + 3) and 4 (d + 4) B a part.");
}

// Launches as arithmetic: the unfused rung pays for each of its operations before it has read a
// key.
static void show_launches(const Show *show) {
    const double each = 5e-6;
    const AttnShape *shape = &show_problems[0];
    const double bytes = attn_kv_bytes(shape, dtype_size(DTYPE_BF16));
    const double rate = show->read_rate > 0 ? show->read_rate : show->properties.bytes_per_s;
    const int launches = decode_rungs[SHOW_UNFUSED].launches;
    char a[32], b[64];
    report_section("Cards: why a launch for every operation cannot show what splitting gains");
    snprintf(b, sizeof b, "%d launches x 5 us", launches);
    report_card("unfused, launches alone", format_seconds(a, launches * each), b);
    report_card("fused, launches alone", format_seconds(a, each), "1 launch x 5 us");
    if (rate > 0) {
        report_card("a 48 MiB cache, read once", format_seconds(a, seconds_at(bytes, rate)),
                    "the floor above, of this device");
    }
    const double scores = decode_unfused_written(shape->len_kv, 0, shape->dim) +
                          decode_unfused_read(shape->len_kv, 0, shape->dim);
    report_card("unfused, scores in memory", format_iec(a, (double)shape->heads_q * scores),
                "12 heads x 24 S B, beside the 48 MiB");
    report_text("5 us is what a launch takes from the host to its end, roughly; ./ch06 measures it "
                "on a GPU. Splitting makes the reading shorter. Where launches take longer than "
                "the reading, nobody sees it.");
}

// ---- against splits, for the plot ---------------------------------------------------------------

static void trace_sweep(const Show *show, const AttnShape *shape) {
    const double kv = attn_kv_bytes(shape, dtype_size(show->options->dtype));
    const double rows = (double)attn_count_lse(shape);
    for (int64_t splits = 1; splits <= 32; splits *= 2) {
        const Traced traced = trace_rung(show, shape, SHOW_FUSED, splits);
        const double model = splits > 1 ? rows * decode_part_bytes(splits, DIM) : 0;
        const long long s = splits;
        csv_row(show->csv, "kv-requested,split_kv_fused,%lld,%.9g,0,0", s, traced.requested);
        csv_row(show->csv, "kv-unique,split_kv_fused,%lld,%.9g,0,0", s, traced.unique);
        csv_row(show->csv, "kv-model,split_kv_fused,%lld,%.9g,0,0", s, kv);
        csv_row(show->csv, "parts,split_kv_fused,%lld,%.9g,0,0", s, traced.written);
        csv_row(show->csv, "parts-model,split_kv_fused,%lld,%.9g,0,0", s, model);
    }
}

void show_bytes(const Show *show) {
    if (!show->traced) {
        report_section("Bytes");
        report_text("Not counted: the kernels' trace build needs gcc 12 or newer.");
        return;
    }
    const int64_t keys = show->options->quick ? 256 : 1024, splits = 8;
    const AttnShape shape = {1, HEADS, HEADS, 1, keys, DIM, 0, false, 0, NULL};
    Traced traced[DECODE_RUNGS];
    for (int rung = 0; rung < DECODE_RUNGS; rung++) {
        report_progress("tracing", rung, DECODE_RUNGS);
        traced[rung] = trace_rung(show, &shape, rung, splits);
    }
    report_progress("tracing", 0, 0);
    show_cache(show, &shape, traced);
    show_workspace(&shape, traced, splits);
    show_launches(show);
    if (show->csv != NULL) {
        trace_sweep(show, &shape);
    }
}
