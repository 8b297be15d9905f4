// ./ch06, the recorded figures of an H200: docs/benchmarks/h200_ch06.csv, which
// tests/peers/gpu_decode.py writes: the rungs beside PyTorch, and time against splits.
#include "chapters/ch06_decode/show.h"

#include "common/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char recorded_path[] = "docs/benchmarks/h200_ch06.csv";

// The columns that are read, and their headings.
typedef enum Column {
    KERNEL = 0,
    CASE,
    BATCH,
    KEYS,
    HEADS,
    DIM,
    DTYPE,
    SPLITS,
    MEDIAN,
    P10,
    P90,
    RATE,
    OF_READS,
    GPU,
    DATE
} Column;
static const char headings[] = "kernel,case,batch,keys,heads,dim,dtype,splits,median_us,p10_us,"
                               "p90_us,tb_s,of_read_ceiling,gpu,date";

enum { KERNELS = DECODE_RUNGS + 2, PROBLEMS = 12, SWEEPS = 4, COUNTS = 24 };

// One kernel on one problem; 0 where it was not measured.
typedef struct Figure {
    double us, p10_us, p90_us, tb_s, of_reads;
} Figure;

// Problems, in the order of the file, and kernels: the rungs, then PyTorch's.
typedef struct Compared {
    char problem[PROBLEMS][SHOW_LABEL];
    Figure figure[PROBLEMS][KERNELS];
    int problems;
} Compared;

// Numbers of splits and the problems that were swept over them.
typedef struct Swept {
    char problem[SWEEPS][SHOW_LABEL];
    int64_t splits[COUNTS];
    Figure figure[SWEEPS][COUNTS];
    int problems, counts;
} Swept;

typedef struct Recorded {
    Compared compared;
    Swept swept;
    char gpu[64], date[32];
} Recorded;

// The index of `label` among `count` labels, added if there is room. -1: there is none.
static int label_index(char labels[][SHOW_LABEL], int *count, int most, const char *label) {
    for (int i = 0; i < *count; i++) {
        if (strcmp(labels[i], label) == 0) {
            return i;
        }
    }
    if (*count == most) {
        return -1;
    }
    snprintf(labels[*count], SHOW_LABEL, "%s", label);
    return (*count)++;
}

// The index of a number of splits, added in ascending order if there is room. -1: there is none.
static int splits_index(Swept *swept, int64_t splits) {
    int place = 0;
    while (place < swept->counts && swept->splits[place] < splits) {
        place++;
    }
    if (place < swept->counts && swept->splits[place] == splits) {
        return place;
    }
    if (swept->counts == COUNTS) {
        return -1;
    }
    for (int i = swept->counts++; i > place; i--) {
        swept->splits[i] = swept->splits[i - 1];
        for (int p = 0; p < SWEEPS; p++) {
            swept->figure[p][i] = swept->figure[p][i - 1];
        }
    }
    swept->splits[place] = splits;
    for (int p = 0; p < SWEEPS; p++) {
        swept->figure[p][place] = (Figure){0};
    }
    return place;
}

// A kernel's column; PyTorch's backends follow the rungs. -1: neither.
static int kernel_index(const char *name) {
    static const char *const peers[] = {"FLASH", "CUDNN"};
    for (int k = 0; k < KERNELS; k++) {
        if (strcmp(name, k < DECODE_RUNGS ? decode_rungs[k].name : peers[k - DECODE_RUNGS]) == 0) {
            return k;
        }
    }
    return -1;
}

// A RecordedUse: keeps the rows of 16 bits in bf16 that the tables show.
static void keep(void *context, char *const *values) {
    Recorded *recorded = context;
    Compared *compared = &recorded->compared;
    Swept *swept = &recorded->swept;
    char label[SHOW_LABEL];
    const AttnShape shape = {.batch = atoll(values[BATCH]),
                             .heads_q = atoll(values[HEADS]),
                             .len_kv = atoll(values[KEYS]),
                             .dim = atoll(values[DIM])};
    const Figure figure = {atof(values[MEDIAN]), atof(values[P10]), atof(values[P90]),
                           atof(values[RATE]), atof(values[OF_READS])};
    const int kernel = kernel_index(values[KERNEL]);
    if (strcmp(values[DTYPE], "bf16") != 0 || kernel < 0) {
        return;
    }
    problem_label(label, &shape);
    if (strcmp(values[CASE], "compare") == 0) {
        const int p = label_index(compared->problem, &compared->problems, PROBLEMS, label);
        if (p >= 0) {
            compared->figure[p][kernel] = figure;
        }
    } else if (strcmp(values[CASE], "splits") == 0 && kernel == SHOW_FUSED) {
        const int p = label_index(swept->problem, &swept->problems, SWEEPS, label);
        const int s = p < 0 ? -1 : splits_index(swept, atoll(values[SPLITS]));
        if (s >= 0) {
            swept->figure[p][s] = figure;
        }
    }
    snprintf(recorded->gpu, sizeof recorded->gpu, "%s", values[GPU]);
    snprintf(recorded->date, sizeof recorded->date, "%s", values[DATE]);
}

static void print_compared(const Compared *compared) {
    Table table;
    table_begin(&table, "us|decode|unfused|split|fused|FLASH|CUDNN|TB/s|of reads");
    for (int p = 0; p < compared->problems; p++) {
        const Figure *figure = compared->figure[p], *fused = &figure[SHOW_FUSED];
        char cells[KERNELS][16];
        for (int k = 0; k < KERNELS; k++) {
            snprintf(cells[k], sizeof cells[k], figure[k].us > 0 ? "%.4g" : "-", figure[k].us);
        }
        table_row(&table, "%s|%s|%s|%s|%s|%s|%s|%.2f|%.0f %%", compared->problem[p], cells[0],
                  cells[1], cells[2], cells[3], cells[4], cells[5], fused->tb_s,
                  100 * fused->of_reads);
    }
    table_print(&table);
    report_text("FLASH and CUDNN: PyTorch's backends. TB/s, and the share of what a kernel that "
                "only reads gets, are split_kv_fused's.");
}

static void print_swept(const Show *show, const Swept *swept) {
    char heading[160] = "splits", cells[160], label[SHOW_LABEL];
    AttnShape shape;
    DType dtype;
    Table table;
    show_sweep_problem(show, &shape, &dtype, label);
    for (int p = 0; p < swept->problems; p++) {
        const size_t used = strlen(heading);
        snprintf(heading + used, sizeof heading - used, "|%s", swept->problem[p]);
    }
    table_begin(&table, heading);
    for (int s = 0; s < swept->counts; s++) {
        cells[0] = '\0';
        for (int p = 0; p < swept->problems; p++) {
            const Figure *f = &swept->figure[p][s];
            const size_t used = strlen(cells);
            if (f->us > 0) {
                snprintf(cells + used, sizeof cells - used, "|%.4g (%.2f)", f->us, f->tb_s);
            } else {
                snprintf(cells + used, sizeof cells - used, "|-");
            }
            if (f->us > 0 && strcmp(swept->problem[p], label) == 0) {
                const long long splits = swept->splits[s];
                csv_row(show->csv, "recorded,%s,%lld,%.6g,%.6g,%.6g", label, splits, f->us,
                        f->p10_us, f->p90_us);
                csv_row(show->csv, "recorded-rate,%s,%lld,%.6g,0,0", label, splits, 1e3 * f->tb_s);
            }
        }
        table_row(&table, "%lld%s", (long long)swept->splits[s], cells);
    }
    table_print(&table);
    report_text("split_kv_fused: microseconds, and TB/s in brackets.");
}

void show_recorded(const Show *show) {
    Recorded recorded = {.compared.problems = 0};
    report_section("Recorded on an H200, bf16: batch x keys, heads, d");
    recorded_read(recorded_path, headings, keep, &recorded);
    if (recorded.compared.problems == 0 && recorded.swept.problems == 0) {
        report_text("%s is not here: nothing is recorded. tests/peers/gpu_decode.py writes it, on "
                    "a machine with a GPU.",
                    recorded_path);
        return;
    }
    print_compared(&recorded.compared);
    print_swept(show, &recorded.swept);
    report_text("Not measured by this run: %s, %s, medians; from %s.", recorded.gpu, recorded.date,
                recorded_path);
}
