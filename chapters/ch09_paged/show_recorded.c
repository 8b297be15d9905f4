// ./ch09, the recorded figures of an H200: docs/benchmarks/h200_ch09.csv, which
// tests/peers/gpu_gqa.py writes: both rungs against page size beside chapter 8's contiguous ones,
// and mixed lengths beside equal ones.
#include "chapters/ch09_paged/show.h"

#include "common/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char recorded_path[] = "docs/benchmarks/h200_ch09.csv";

// The columns that are read, and their headings.
typedef enum Column {
    KERNEL = 0,
    CASE,
    BATCH,
    KEYS,
    HEADS_Q,
    HEADS_KV,
    DIM,
    DTYPE,
    PAGE,
    ORDER,
    MEDIAN,
    P10,
    P90,
    RATE,
    OF_READS,
    GPU,
    DATE
} Column;
static const char headings[] = "kernel,case,batch,keys,heads_q,heads_kv,dim,dtype,page,order,"
                               "median_us,p10_us,p90_us,tb_s,of_read_ceiling,gpu,date";

enum { SIZES = 16, ORDERS = 2 };

// 0 where it was not measured.
typedef struct Figure {
    double us, p10_us, p90_us, tb_s, of_reads;
} Figure;

typedef struct Recorded {
    int sizes;
    int64_t page[SIZES]; // in the order of the file
    Figure figure[SIZES][ORDERS][PAGED_RUNGS];
    Figure contiguous[PAGED_RUNGS]; // gqa and gqa_mma
    Figure equal, mixed;            // of paged_mma
    char problem[64], gpu[64], date[32];
} Recorded;

// The index of `name` among the rungs, or of chapter 8's kernel that the rung follows. -1: neither.
static int rung_of(const char *name) {
    static const char *const contiguous[PAGED_RUNGS] = {"gqa", "gqa_mma"};
    for (int rung = 0; rung < PAGED_RUNGS; rung++) {
        if (strcmp(name, paged_rungs[rung].name) == 0 || strcmp(name, contiguous[rung]) == 0) {
            return rung;
        }
    }
    return -1;
}

// The index of a page size, added if there is room. -1: there is none.
static int size_index(Recorded *recorded, int64_t page) {
    for (int i = 0; i < recorded->sizes; i++) {
        if (recorded->page[i] == page) {
            return i;
        }
    }
    if (recorded->sizes == SIZES) {
        return -1;
    }
    recorded->page[recorded->sizes] = page;
    return recorded->sizes++;
}

static void keep_pages(Recorded *recorded, char *const *values, int rung, Figure figure) {
    if (strcmp(values[ORDER], "contiguous") == 0) {
        recorded->contiguous[rung] = figure;
        snprintf(recorded->problem, sizeof recorded->problem, "%s x %s keys, heads %s on %s, d %s",
                 values[BATCH], values[KEYS], values[HEADS_Q], values[HEADS_KV], values[DIM]);
        return;
    }
    const int size = size_index(recorded, atoll(values[PAGE]));
    if (size >= 0) {
        recorded->figure[size][strcmp(values[ORDER], "shuffled") == 0][rung] = figure;
    }
}

// A RecordedUse: keeps the rows in bf16 that the tables show.
static void keep(void *context, char *const *values) {
    Recorded *recorded = context;
    const Figure figure = {atof(values[MEDIAN]), atof(values[P10]), atof(values[P90]),
                           atof(values[RATE]), atof(values[OF_READS])};
    const int rung = rung_of(values[KERNEL]);
    if (strcmp(values[DTYPE], "bf16") != 0 || rung < 0) {
        return;
    }
    if (strcmp(values[CASE], "pages") == 0) {
        keep_pages(recorded, values, rung, figure);
    } else if (strcmp(values[CASE], "equal") == 0) {
        recorded->equal = figure;
    } else if (strcmp(values[CASE], "mixed") == 0) {
        recorded->mixed = figure;
    }
    snprintf(recorded->gpu, sizeof recorded->gpu, "%s", values[GPU]);
    snprintf(recorded->date, sizeof recorded->date, "%s", values[DATE]);
}

// "123.4 (+1.2 %)": microseconds, and how much longer than contiguous; "-" where not measured.
static const char *cell(char text[32], const Figure *figure, const Figure *contiguous) {
    if (figure->us <= 0) {
        snprintf(text, 32, "-");
    } else if (contiguous->us <= 0) {
        snprintf(text, 32, "%.4g", figure->us);
    } else {
        snprintf(text, 32, "%.4g (%+.1f %%)", figure->us, 100 * (figure->us / contiguous->us - 1));
    }
    return text;
}

static void print_sizes(const Show *show, const Recorded *recorded) {
    static const char *const orders[ORDERS] = {"ordered", "shuffled"};
    const Figure *contiguous = recorded->contiguous;
    Table table;
    table_begin(&table, "page|paged, ordered|shuffled|paged_mma, ordered|shuffled|TB/s");
    table_row(&table, "contiguous|%.4g|-|%.4g|-|%.2f", contiguous[PAGED_CORES].us,
              contiguous[PAGED_MMA].us, contiguous[PAGED_MMA].tb_s);
    for (int i = 0; i < recorded->sizes; i++) {
        char cells[ORDERS][PAGED_RUNGS][32];
        for (int order = 0; order < ORDERS; order++) {
            for (int rung = 0; rung < PAGED_RUNGS; rung++) {
                const Figure *figure = &recorded->figure[i][order][rung];
                const double over = contiguous[rung].us;
                cell(cells[order][rung], figure, &contiguous[rung]);
                if (figure->us > 0 && over > 0) {
                    csv_row(show->csv, "recorded-%s,%s,%lld,%.6g,%.6g,%.6g", paged_rungs[rung].name,
                            orders[order], (long long)recorded->page[i], figure->us / over,
                            figure->p10_us / over, figure->p90_us / over);
                }
            }
        }
        table_row(&table, "%lld|%s|%s|%s|%s|%.2f", (long long)recorded->page[i],
                  cells[0][PAGED_CORES], cells[1][PAGED_CORES], cells[0][PAGED_MMA],
                  cells[1][PAGED_MMA], recorded->figure[i][1][PAGED_MMA].tb_s);
    }
    table_print(&table);
    report_text("%s, bf16: microseconds, and how much more than chapter 8's gqa and gqa_mma on a "
                "contiguous cache. TB/s: paged_mma's, shuffled.",
                recorded->problem);
}

void show_recorded(const Show *show) {
    Recorded recorded = {.sizes = 0};
    report_section("Recorded on an H200");
    recorded_read(recorded_path, headings, keep, &recorded);
    if (recorded.sizes == 0) {
        report_text("%s is not here: nothing is recorded. tests/peers/gpu_gqa.py writes it, on a "
                    "machine with a GPU.",
                    recorded_path);
        return;
    }
    print_sizes(show, &recorded);
    if (recorded.equal.us > 0 && recorded.mixed.us > 0) {
        report_text("64 sequences of 1 to 16,384 keys, page 16, shuffled: %.2f TB/s, beside %.2f "
                    "for as many keys in equal lengths: %.0f %%.",
                    recorded.mixed.tb_s, recorded.equal.tb_s,
                    100 * recorded.mixed.tb_s / recorded.equal.tb_s);
    }
    report_text("Not measured by this run: %s, %s, medians; from %s.", recorded.gpu, recorded.date,
                recorded_path);
}
