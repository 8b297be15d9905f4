// ./ch07, the recorded figures of an H200: docs/benchmarks/h200_ch07.csv, which
// tests/peers/gpu_masks.py writes, as tables: masks against N, lists against density, and the same
// ratio of PyTorch's kernels.
#include "chapters/ch07_masks/show.h"

#include "common/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char recorded_path[] = "docs/benchmarks/h200_ch07.csv";

// The columns that are read, and their headings.
typedef enum Column {
    KERNEL = 0,
    CASE,
    LEN,
    HEADS,
    DIM,
    DTYPE,
    WINDOW,
    DENSITY,
    MEDIAN,
    GPU,
    DATE
} Column;
static const char headings[] =
    "kernel,case,len_kv,heads,dim,dtype,window,density,median_ms,gpu,date";

typedef enum Case { FULL = 0, CAUSAL, EVERY_SCORE, EVERY_TILE, WINDOWED, CASES } Case;
static const char *const cases[CASES] = {"full", "causal", "every_score", "every_tile", "window"};

// PyTorch's backends, beside the chapter's kernel.
typedef enum Side { OURS = 0, FLASH, CUDNN, SIDES } Side;
static const char *const sides[SIDES] = {"causal_attention", "FLASH", "CUDNN"};

enum { MOST = 12 };

// One (d, N), all cases, in milliseconds; 0 where it is not recorded.
typedef struct Length {
    int64_t dim, len;
    double ms[SIDES][CASES];
} Length;

typedef struct Listed { // one list
    int64_t dim, len;
    double density, ms;
} Listed;

typedef struct Recorded {
    char gpu[64], date[32], dtype[8];
    int heads, window, lengths, lists;
    Length length[MOST];
    Listed list[MOST];
} Recorded;

static int index_of(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

// The entry of (d, N), added if there is room; NULL: there is none.
static Length *length_of(Recorded *recorded, int64_t dim, int64_t len) {
    for (int i = 0; i < recorded->lengths; i++) {
        if (recorded->length[i].dim == dim && recorded->length[i].len == len) {
            return &recorded->length[i];
        }
    }
    if (recorded->lengths == MOST) {
        return NULL;
    }
    Length *added = &recorded->length[recorded->lengths++];
    *added = (Length){.dim = dim, .len = len};
    return added;
}

// A RecordedUse: keeps a row.
static void keep(void *context, char *const *values) {
    Recorded *recorded = context;
    const int64_t dim = atoll(values[DIM]), len = atoll(values[LEN]);
    const double ms = atof(values[MEDIAN]);
    const int side = index_of(values[KERNEL], sides, SIDES);
    const int which = index_of(values[CASE], cases, CASES);
    Length *length = side >= 0 && which >= 0 ? length_of(recorded, dim, len) : NULL;
    if (length != NULL) {
        length->ms[side][which] = ms;
        recorded->window = which == WINDOWED ? atoi(values[WINDOW]) : recorded->window;
    } else if (strcmp(values[CASE], "sparse") == 0 && recorded->lists < MOST) {
        recorded->list[recorded->lists++] = (Listed){dim, len, atof(values[DENSITY]), ms};
    }
    recorded->heads = atoi(values[HEADS]);
    snprintf(recorded->gpu, sizeof recorded->gpu, "%s", values[GPU]);
    snprintf(recorded->date, sizeof recorded->date, "%s", values[DATE]);
    snprintf(recorded->dtype, sizeof recorded->dtype, "%s", values[DTYPE]);
}

// "0.532", or "-" where either is not recorded.
static char *ratio_text(char text[16], double ms, double full) {
    snprintf(text, 16, "-");
    if (ms > 0 && full > 0) {
        snprintf(text, 16, "%.3f", ms / full);
    }
    return text;
}

static void print_lengths(const Show *show, const Recorded *recorded) {
    char a[16], b[16], c[16], band[16];
    Table table;
    table_begin(&table, "d|N|full, ms|causal, ms|of full|every score|every tile|window");
    for (int i = 0; i < recorded->lengths; i++) {
        const Length *length = &recorded->length[i];
        const double *ms = length->ms[OURS], full = ms[FULL];
        const double queries = (double)length->len * recorded->heads;
        snprintf(band, sizeof band, "-");
        if (ms[WINDOWED] > 0) {
            snprintf(band, sizeof band, "%.1f ns", 1e6 * ms[WINDOWED] / queries);
        }
        table_row(&table, "%lld|%lld|%.3f|%.3f|%s|%s|%s|%s", (long long)length->dim,
                  (long long)length->len, full, ms[CAUSAL], ratio_text(a, ms[CAUSAL], full),
                  ratio_text(b, ms[EVERY_SCORE], full), ratio_text(c, ms[EVERY_TILE], full), band);
        static const char *const names[CASES] = {"full", "causal", "every score", "every tile",
                                                 "window 1024"};
        for (int which = FULL; which < CASES; which++) {
            if (length->dim == 64 && ms[which] > 0) { // nanoseconds for a query of a head
                csv_row(show->csv, "recorded,%s,%lld,%.6g,0,0", names[which],
                        (long long)length->len, 1e6 * ms[which] / queries);
            }
        }
    }
    table_print(&table);
    report_text("Causal and its other two ways of visiting: over full. The window, of %d keys: for "
                "a query of a head.",
                recorded->window);
}

static void print_sides(const Recorded *recorded) {
    char ratio[16];
    Table table;
    table_begin(&table, "kernel|d|N|full, ms|causal, ms|of full");
    for (int i = 0; i < recorded->lengths; i++) {
        const Length *length = &recorded->length[i];
        for (int side = OURS; side < SIDES && length->ms[FLASH][FULL] > 0; side++) {
            const double *ms = length->ms[side];
            table_row(&table, "%s%s|%lld|%lld|%.3f|%.3f|%s", side == OURS ? "" : "PyTorch ",
                      sides[side], (long long)length->dim, (long long)length->len, ms[FULL],
                      ms[CAUSAL], ratio_text(ratio, ms[CAUSAL], ms[FULL]));
        }
    }
    if (table.rows > 1) {
        table_print(&table);
        report_text("PyTorch's kernels multiply with tensor cores, in 16 bits (chapters 11 and "
                    "12): compare what the mask saves, not the times.");
    }
}

static void print_lists(const Show *show, const Recorded *recorded) {
    char ratio[16];
    Table table;
    table_begin(&table, "d|N|blocks of the causal half|ms|over causal_attention");
    for (int i = 0; i < recorded->lists; i++) {
        const Listed *list = &recorded->list[i];
        double causal = 0;
        for (int j = 0; j < recorded->lengths; j++) {
            const Length *length = &recorded->length[j];
            if (length->dim == list->dim && length->len == list->len) {
                causal = length->ms[OURS][CAUSAL];
            }
        }
        table_row(&table, "%lld|%lld|%.1f %%|%.3f|%s", (long long)list->dim, (long long)list->len,
                  100 * list->density, list->ms, ratio_text(ratio, list->ms, causal));
        if (list->dim == 64 && causal > 0) {
            csv_row(show->csv, "density,recorded,%.6g,%.6g,0,0", list->density, list->ms / causal);
        }
    }
    if (table.rows > 1) {
        table_print(&table);
    }
}

void show_recorded(const Show *show) {
    Recorded recorded = {0};
    report_section("Recorded on an H200");
    recorded_read(recorded_path, headings, keep, &recorded);
    if (recorded.lengths == 0) {
        report_text("%s is not here: nothing is recorded. tests/peers/gpu_masks.py writes it, on "
                    "a machine with a GPU.",
                    recorded_path);
        return;
    }
    print_lengths(show, &recorded);
    print_lists(show, &recorded);
    print_sides(&recorded);
    report_text("Not measured by this run: %s, %d heads, %s, %s, medians; from %s.", recorded.gpu,
                recorded.heads, recorded.dtype, recorded.date, recorded_path);
}
