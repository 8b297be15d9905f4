// ./ch08, the recorded figures of an H200: docs/benchmarks/h200_ch08.csv, which
// tests/peers/gpu_gqa.py writes: the rungs beside PyTorch.
#include "chapters/ch08_gqa/show.h"

#include "common/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char recorded_path[] = "docs/benchmarks/h200_ch08.csv";

// The columns that are read, and their headings.
typedef enum Column {
    KERNEL = 0,
    CASE,
    BATCH,
    KEYS,
    HEADS_Q,
    HEADS_KV,
    LEN_Q,
    DIM,
    DTYPE,
    MEDIAN,
    P10,
    P90,
    RATE,
    OF_READS,
    GPU,
    DATE
} Column;
static const char headings[] = "kernel,case,batch,keys,heads_q,heads_kv,len_q,dim,dtype,median_us,"
                               "p10_us,p90_us,tb_s,of_read_ceiling,gpu,date";

enum { KERNELS = GQA_RUNGS + 2, PROBLEMS = 24 };

// One kernel on one problem; 0 where it was not measured.
typedef struct Figure {
    double us, p10_us, p90_us, tb_s, of_reads;
} Figure;

// Problems, in the order of the file, and kernels: the rungs, then PyTorch's.
typedef struct Recorded {
    AttnShape problem[PROBLEMS];
    Figure figure[PROBLEMS][KERNELS];
    int problems;
    char gpu[64], date[32];
} Recorded;

// The index of a problem, added if there is room. -1: there is none.
static int problem_index(Recorded *recorded, const AttnShape *shape) {
    char label[SHOW_LABEL], other[SHOW_LABEL];
    problem_label(label, shape);
    for (int p = 0; p < recorded->problems; p++) {
        problem_label(other, &recorded->problem[p]);
        if (strcmp(label, other) == 0) {
            return p;
        }
    }
    if (recorded->problems == PROBLEMS) {
        return -1;
    }
    recorded->problem[recorded->problems] = *shape;
    return recorded->problems++;
}

// A kernel's column; PyTorch's backends follow the rungs. -1: neither.
static int kernel_index(const char *name) {
    static const char *const peers[] = {"FLASH", "CUDNN"};
    for (int k = 0; k < KERNELS; k++) {
        if (strcmp(name, k < GQA_RUNGS ? gqa_rungs[k].name : peers[k - GQA_RUNGS]) == 0) {
            return k;
        }
    }
    return -1;
}

// A RecordedUse: keeps the rows in bf16 that the table shows.
static void keep(void *context, char *const *values) {
    Recorded *recorded = context;
    const AttnShape shape = {.batch = atoll(values[BATCH]),
                             .heads_q = atoll(values[HEADS_Q]),
                             .heads_kv = atoll(values[HEADS_KV]),
                             .len_q = atoll(values[LEN_Q]),
                             .len_kv = atoll(values[KEYS]),
                             .dim = atoll(values[DIM])};
    const int kernel = kernel_index(values[KERNEL]);
    if (strcmp(values[CASE], "compare") != 0 || strcmp(values[DTYPE], "bf16") != 0 || kernel < 0 ||
        shape.heads_kv < 1) {
        return;
    }
    const int p = problem_index(recorded, &shape);
    if (p >= 0) {
        recorded->figure[p][kernel] =
            (Figure){atof(values[MEDIAN]), atof(values[P10]), atof(values[P90]), atof(values[RATE]),
                     atof(values[OF_READS])};
    }
    snprintf(recorded->gpu, sizeof recorded->gpu, "%s", values[GPU]);
    snprintf(recorded->date, sizeof recorded->date, "%s", values[DATE]);
}

// Rows of the CSV for the problems by g: time over that of reading the cache once.
static void keep_points(const Show *show, const AttnShape *shape, const Figure figures[KERNELS]) {
    const AttnShape *like = &show_problems[1];
    if (shape->batch != like->batch || shape->len_kv != like->len_kv || shape->len_q != 1 ||
        shape->heads_kv != like->heads_kv || shape->dim != like->dim) {
        return;
    }
    for (int rung = 0; rung < GQA_RUNGS; rung++) {
        const Figure *f = &figures[rung];
        if (f->us > 0 && f->of_reads > 0) {
            csv_row(show->csv, "recorded,%s,%lld,%.6g,%.6g,%.6g", gqa_rungs[rung].name,
                    (long long)(shape->heads_q / shape->heads_kv), 1 / f->of_reads,
                    f->p10_us / f->us / f->of_reads, f->p90_us / f->us / f->of_reads);
        }
    }
}

void show_recorded(const Show *show) {
    Recorded recorded = {.problems = 0};
    Table table;
    report_section("Recorded on an H200, bf16: batch x keys, query/KV heads, queries, d");
    recorded_read(recorded_path, headings, keep, &recorded);
    if (recorded.problems == 0) {
        report_text("%s is not here: nothing is recorded. tests/peers/gpu_gqa.py writes it, on a "
                    "machine with a GPU.",
                    recorded_path);
        return;
    }
    table_begin(&table, "us|naive|gqa|mma|FLASH|CUDNN|TB/s|reads");
    for (int p = 0; p < recorded.problems; p++) {
        const Figure *figure = recorded.figure[p], *mma = &figure[GQA_MMA];
        char label[SHOW_LABEL], cells[KERNELS][16];
        for (int k = 0; k < KERNELS; k++) {
            snprintf(cells[k], sizeof cells[k], figure[k].us > 0 ? "%.4g" : "-", figure[k].us);
        }
        problem_label(label, &recorded.problem[p]);
        table_row(&table, "%s|%s|%s|%s|%s|%s|%.2f|%.0f %%", label, cells[0], cells[1], cells[2],
                  cells[3], cells[4], mma->tb_s, 100 * mma->of_reads);
        keep_points(show, &recorded.problem[p], figure);
    }
    table_print(&table);
    report_text("FLASH and CUDNN: PyTorch's backends. TB/s, and the share of what a kernel that "
                "only reads gets, are gqa_mma's. Not measured by this run: %s, %s, medians; from "
                "%s.",
                recorded.gpu, recorded.date, recorded_path);
}
