// ./ch08, bytes: what every rung requests of K and V, traced, beside the model: g times, or once
// for each tile of packed rows; by g, and under masks, windows and ragged lengths.
#include "chapters/ch08_gqa/show.h"

#include "common/simt/runtime.h"

#include <stdio.h>

enum { HEADS_KV = 2, DIM = 64, SPLITS = 3 };

// What one launch counted of K and V: bytes.
typedef struct Traced {
    double requested, unique; // by the threads; of sectors, once a launch
    double model;             // of requested
} Traced;

static Traced trace_rung(const Show *show, const AttnShape *shape, DType dtype, int rung) {
    Problem problem;
    DeviceProblem device;
    void *workspace;
    lesson_require(show->program, problem_random(&problem, shape, dtype, show->options->seed));
    lesson_require(show->program, device_problem_make(&device, GPU_TRACE, &problem, dtype));
    lesson_require(show->program, rung_workspace(rung, GPU_TRACE, shape, SPLITS, &workspace));
    simt_trace_reset();
    lesson_require(show->program, rung_launch(rung, &device, SPLITS, workspace));
    const SimtCounts k = simt_trace_sum("k"), v = simt_trace_sum("v");
    const Traced traced = {
        .requested = (double)(k.load_bytes + v.load_bytes),
        .unique = (double)(k.launch_unique_load + v.launch_unique_load),
        .model = gqa_requested_bytes(shape, gqa_rungs[rung].tile_rows(shape), rung != GQA_NAIVE,
                                     (double)dtype_size(dtype)),
    };
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
    problem_free(&problem);
    return traced;
}

// A row for every rung. `label` stands in the first.
static void trace_row(const Show *show, Table *table, const char *label, const AttnShape *shape,
                      DType dtype) {
    const double cache = attn_kv_bytes(shape, dtype_size(dtype));
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        const Traced traced = trace_rung(show, shape, dtype, rung);
        char a[32], b[32], c[32];
        table_row(table, "%s|%s|%lld|%s|%s|%s|%.3g|%s", rung == 0 ? label : "",
                  gqa_rungs[rung].name, (long long)gqa_rungs[rung].tile_rows(shape),
                  format_iec(a, traced.requested), format_iec(b, traced.model),
                  traced.requested == traced.model ? "equal" : "DIFFERS",
                  cache > 0 ? traced.requested / cache : 0.0, format_iec(c, traced.unique));
        if (shape->len_q == 1 && shape->kv_lens == NULL) {
            const int group = (int)(shape->heads_q / shape->heads_kv);
            csv_row(show->csv, "requested,%s,%d,%.6g,0,0", gqa_rungs[rung].name, group,
                    traced.requested / cache);
            csv_row(show->csv, "requested-model,%s,%d,%.6g,0,0", gqa_rungs[rung].name, group,
                    traced.model / cache);
        }
    }
}

static const char headings[] = "g|rung|tile|requested|model|are|x cache|unique";

static void show_by_group(const Show *show, int64_t keys, DType dtype) {
    char heading[96], label[16];
    Table table;
    snprintf(heading, sizeof heading,
             "Bytes of K and V, traced: %d KV heads, T = 1, S = %lld, d = %d, %s", HEADS_KV,
             (long long)keys, DIM, dtype_name(dtype));
    report_section(heading);
    table_begin(&table, headings);
    for (int i = 0; i < SHOW_GROUPS; i++) {
        const AttnShape shape = {1, HEADS_KV << i, HEADS_KV, 1, keys, DIM, 0, false, 0, NULL};
        report_progress("tracing", i, SHOW_GROUPS);
        snprintf(label, sizeof label, "%d", 1 << i);
        trace_row(show, &table, label, &shape, dtype);
    }
    report_progress("tracing", 0, 0);
    table_print(&table);
    report_text("Requested: every read of every thread. Unique: 32-byte sectors, once a launch. "
                "Tile: rows of a block's tile. The model: each tile requests the keys that a row "
                "of it sees, once; a KV head has ceil(g T / rows) tiles, and of gqa_naive every "
                "query head has its own.");
}

static void show_limits(const Show *show, int64_t keys, DType dtype) {
    const int32_t lens[] = {(int32_t)keys, 0, 17};
    const AttnShape chunk = {1, 6, 2, 6, keys, DIM, 0, true, 0, NULL};
    const AttnShape window = {1, 6, 2, 6, keys, DIM, 0, true, 20, NULL};
    const AttnShape ragged = {3, 6, 2, 1, keys, DIM, 0, false, 0, lens};
    Table table;
    report_section("The same under limits, g = 3: what no row of a tile sees is not requested");
    table_begin(&table, headings);
    trace_row(show, &table, "T=6, causal", &chunk, dtype);
    trace_row(show, &table, "window 20", &window, dtype);
    trace_row(show, &table, "ragged", &ragged, dtype);
    table_print(&table);
    report_text("Ragged: entries of %lld, 0 and 17 keys.", (long long)keys);
}

void show_bytes(const Show *show) {
    const int64_t keys = show->options->quick ? 64 : 256;
    const DType dtype = show->options->dtype == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16;
    if (!show->traced) {
        report_section("Bytes");
        report_text("Not counted: the kernels' trace build needs gcc 12 or newer.");
        return;
    }
    show_by_group(show, keys, dtype);
    show_limits(show, keys, dtype);
}
