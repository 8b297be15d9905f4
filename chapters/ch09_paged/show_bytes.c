// ./ch09, bytes: what both rungs read of K, V and the table, traced, beside the models, at several
// page sizes, the table in order and shuffled. And what carries over to a GPU from a machine
// without one.
#include "chapters/ch09_paged/show.h"

#include "common/simt/runtime.h"

#include <stdio.h>

enum { SECTOR = 32, HEADS_Q = 8, HEADS_KV = 2, DIM = 64, SPLITS = 2, SIZES = 6 };

// What one launch counted: bytes.
typedef struct Traced {
    double requested, unique;           // of K and V
    double kv_sectors;                  // of K and V: every request's sectors
    double table_unique, table_sectors; // of the table
} Traced;

static Traced trace_run(const Show *show, Problem *problem, int rung, const PagePlan *plan) {
    PagedProblem paged;
    DeviceProblem device;
    void *workspace;
    const Program *program = show->program;
    lesson_require(program, paged_problem_make(&paged, GPU_TRACE, problem, plan));
    lesson_require(program, device_problem_make(&device, GPU_TRACE, problem, problem->dtype));
    lesson_require(program, rung_workspace(rung, GPU_TRACE, &paged.shape, SPLITS, &workspace));
    simt_trace_reset(); // the appends were traced, too
    lesson_require(program, rung_launch(rung, &paged, &device, SPLITS, workspace));
    const SimtCounts k = simt_trace_sum("k_pages"), v = simt_trace_sum("v_pages");
    const SimtCounts table = simt_trace_sum("table");
    const Traced traced = {
        .requested = (double)(k.load_bytes + v.load_bytes),
        .unique = (double)(k.launch_unique_load + v.launch_unique_load),
        .kv_sectors = SECTOR * (double)(k.load_sectors + v.load_sectors),
        .table_unique = (double)table.launch_unique_load,
        .table_sectors = SECTOR * (double)table.load_sectors,
    };
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
    paged_problem_free(&paged);
    return traced;
}

// Of the two orders of one page size, whether everything was the same that should be.
static bool same(const Traced *a, const Traced *b) {
    return a->requested == b->requested && a->unique == b->unique &&
           a->kv_sectors == b->kv_sectors && a->table_unique == b->table_unique &&
           a->table_sectors == b->table_sectors;
}

// Traces both rungs at one page size and adds a row. Returns whether K and V were read once, the
// table as modelled, and shuffling changed nothing.
static bool bytes_row(const Show *show, Table *table, Problem *problem, int64_t page) {
    const PagePlan ordered = {page, false, 0}, shuffled = {page, true, 0};
    const double kv = attn_kv_bytes(&problem->shape, dtype_size(problem->dtype));
    const double entries = page_table_bytes(&problem->shape, page); // rows of the table are full
    const double sectors = SECTOR * (double)page_lookups((int64_t)entries, SECTOR);
    Traced traced[PAGED_RUNGS];
    bool passed = true, equal = true;
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        traced[rung] = trace_run(show, problem, rung, &ordered);
        const Traced other = trace_run(show, problem, rung, &shuffled);
        equal = equal && same(&traced[rung], &other);
        passed = passed && traced[rung].requested == kv && traced[rung].unique == kv &&
                 traced[rung].table_unique == sectors;
        csv_row(show->csv, "table-traced,%s,%lld,%.9g,0,0", paged_rungs[rung].name, (long long)page,
                100 * traced[rung].table_unique / kv);
    }
    csv_row(show->csv, "table-model,-,%lld,%.9g,0,0", (long long)page, 100 * entries / kv);
    const Traced *cores = &traced[PAGED_CORES], *mma = &traced[PAGED_MMA];
    char a[32], b[32], c[32], d[32];
    table_row(table, "%lld|%s|%s|%s|%s|%.2f %%|%.1f %%|%.1f %%|%s", (long long)page,
              format_iec(a, mma->requested), format_iec(b, mma->unique), format_iec(c, entries),
              format_iec(d, mma->table_unique), 100 * entries / kv,
              100 * cores->table_sectors / cores->kv_sectors,
              100 * mma->table_sectors / mma->kv_sectors,
              !equal   ? "DIFFERS"
              : passed ? "equal"
                       : "NOT AS MODELLED");
    return passed && equal;
}

bool show_bytes(const Show *show) {
    if (!show->traced) {
        report_section("Bytes");
        report_text("Not counted: the kernels' trace build needs gcc 12 or newer.");
        return true;
    }
    const int64_t keys = show->options->quick ? 128 : 512;
    const AttnShape shape = {2, HEADS_Q, HEADS_KV, 1, keys, DIM, 0, false, 0, NULL};
    const int64_t sizes[SIZES] = {1, 4, 8, 16, 64, keys};
    bool passed = true;
    char heading[96], a[32];
    Problem problem;
    Table table;
    lesson_require(show->program,
                   problem_random(&problem, &shape, DTYPE_BF16, show->options->seed));
    const double kv = attn_kv_bytes(&shape, 2);
    snprintf(heading, sizeof heading,
             "Bytes, traced: 2 sequences, heads %d on %d, S = %lld, d = %d, bf16", HEADS_Q,
             HEADS_KV, (long long)keys, DIM);
    report_section(heading);
    table_begin(&table, "page|K, V req.|unique|table|unique|of K, V|paged|mma|orders");
    for (int i = 0; i < SIZES; i++) {
        report_progress("tracing", i, SIZES);
        passed = bytes_row(show, &table, &problem, sizes[i]) && passed;
    }
    report_progress("tracing", 0, 0);
    problem_free(&problem);
    table_print(&table);
    report_text("The model of K and V is 2 heads_kv S d elements a sequence, %s. Requested: all "
                "reads of all threads, by paged_mma; paged's are the same. Unique: sectors of 32 "
                "bytes, once a launch. Table: 4 bytes a page; of K, V: their share. Last: what the "
                "rungs request of the table in sectors, of those of K and V; caches serve most of "
                "them. Orders: ordered and shuffled tables gave the same counts.",
                format_iec(a, kv));
    return passed;
}

// ---- in place of times --------------------------------------------------------------------------

void show_carries_over(void) {
    static const int64_t sizes[] = {1, 8, 16, 32, 64, 128, 256, 8192};
    const double kv = attn_kv_bytes(&show_problem, SHOW_ELEMENT);
    char heading[128], a[32], b[32];
    Table table;
    snprintf(heading, sizeof heading, "In place of times: 16 x 8,192 keys, heads 32 on 8, d = 128");
    report_section(heading);
    table_begin(&table, "page|entries|table|of K, V|for 128 keys|a lane, paged|a lane, mma");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t page = sizes[i];
        const double bytes = page_table_bytes(&show_problem, page);
        table_row(&table, "%lld|%s|%s|%.4f %%|%lld|4 / 32 keys|%d / %d keys", (long long)page,
                  format_count(a, bytes / TABLE_ENTRY), format_iec(b, bytes), 100 * bytes / kv,
                  (long long)page_lookups(128, page), page % 16 == 0 ? 1 : 6, SPLIT_KV_MMA_KEYS);
    }
    table_print(&table);
    report_text(
        "K and V are %s at every page size. A lane, for each step of its block: the "
        "entries that it reads ahead of their keys. That the loads of a step need not wait for "
        "a load of the table carries over to a GPU; how long they would have waited does "
        "not: simt knows no latency, and its times are not printed.",
        format_iec(a, kv));
}
