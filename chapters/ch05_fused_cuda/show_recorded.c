// ./ch05, the recorded figures of an H200: docs/benchmarks/h200_ch05.csv, which
// tests/peers/gpu_sdpa.py writes, as a table of TFLOP/s.
#include "chapters/ch05_fused_cuda/show.h"

#include "common/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char recorded_path[] = "docs/benchmarks/h200_ch05.csv";
enum { LENGTHS = 4, PEERS = 2 };

// The columns that are read, and their headings.
typedef enum Column { RUNG = 0, LEN, DIM, HEADS, MEDIAN, TFLOPS, GPU, DATE } Column;
static const char headings[] = "rung,n,dim,heads,median_ms,tflops,gpu,date";

// One d, all rungs and peers, the lengths in the order of the file.
typedef struct Recorded {
    char gpu[64], date[32];
    int64_t dim;
    int heads, lengths;
    int64_t len[LENGTHS];
    double tflops[FUSED_RUNGS + PEERS][LENGTHS], milliseconds[FUSED_RUNGS + PEERS][LENGTHS];
} Recorded;

// A rung's row of the table; the peers follow the rungs. -1: neither.
static int row_of(const char *name) {
    static const char *const peers[PEERS] = {"EFFICIENT", "MATH"};
    for (int rung = 0; rung < FUSED_RUNGS; rung++) {
        if (strcmp(name, fused_rungs[rung].name) == 0) {
            return rung;
        }
    }
    for (int peer = 0; peer < PEERS; peer++) {
        if (strcmp(name, peers[peer]) == 0) {
            return FUSED_RUNGS + peer;
        }
    }
    return -1;
}

// The index of a length, added if there is room. -1: there is none.
static int column_of(Recorded *recorded, int64_t len) {
    for (int i = 0; i < recorded->lengths; i++) {
        if (recorded->len[i] == len) {
            return i;
        }
    }
    if (recorded->lengths == LENGTHS) {
        return -1;
    }
    recorded->len[recorded->lengths] = len;
    return recorded->lengths++;
}

// A RecordedUse: keeps a row of this d.
static void keep(void *context, char *const *values) {
    Recorded *recorded = context;
    const int row = atoll(values[DIM]) == recorded->dim ? row_of(values[RUNG]) : -1;
    const int column = row < 0 ? -1 : column_of(recorded, atoll(values[LEN]));
    if (column >= 0) {
        recorded->tflops[row][column] = atof(values[TFLOPS]);
        recorded->milliseconds[row][column] = atof(values[MEDIAN]);
        recorded->heads = atoi(values[HEADS]);
        snprintf(recorded->gpu, sizeof recorded->gpu, "%s", values[GPU]);
        snprintf(recorded->date, sizeof recorded->date, "%s", values[DATE]);
    }
}

static void print_recorded(const Show *show, const Recorded *recorded) {
    char heading[128] = "TFLOP/s (ms)", cells[160];
    for (int i = 0; i < recorded->lengths; i++) {
        const size_t used = strlen(heading);
        snprintf(heading + used, sizeof heading - used, "|N = %lld", (long long)recorded->len[i]);
    }
    Table table;
    table_begin(&table, heading);
    for (int row = 0; row < FUSED_RUNGS + PEERS; row++) {
        const char *name = row < FUSED_RUNGS    ? show_names[row]
                           : row == FUSED_RUNGS ? "PyTorch EFFICIENT"
                                                : "PyTorch MATH";
        cells[0] = '\0';
        for (int i = 0; i < recorded->lengths; i++) {
            const size_t used = strlen(cells);
            if (recorded->tflops[row][i] > 0) {
                snprintf(cells + used, sizeof cells - used, "|%.2f (%.3g)",
                         recorded->tflops[row][i], recorded->milliseconds[row][i]);
                csv_row(show->csv, "recorded,%s,%lld,%.6g,0,0", name, (long long)recorded->len[i],
                        recorded->tflops[row][i]);
            } else {
                snprintf(cells + used, sizeof cells - used, "|-");
            }
        }
        table_row(&table, "%s%s", name, cells);
    }
    table_print(&table);
}

void show_recorded(const Show *show) {
    Recorded recorded = {.dim = 64};
    report_section("Recorded on an H200, f32, d = 64");
    recorded_read(recorded_path, headings, keep, &recorded);
    if (recorded.lengths == 0) {
        report_text("%s is not here: nothing is recorded. tests/peers/gpu_sdpa.py writes it, on a "
                    "machine with a GPU.",
                    recorded_path);
        return;
    }
    print_recorded(show, &recorded);
    report_text("Not measured by this run: %s, %d heads, %s, medians in milliseconds in brackets; "
                "from %s.",
                recorded.gpu, recorded.heads, recorded.date, recorded_path);
}
