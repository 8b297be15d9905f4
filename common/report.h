// What every lesson program prints, and how: sections, cards, tables, CSV. Lines stay within 80
// columns where the content allows, 100 always; no colour unless stdout is a terminal.
#ifndef COMMON_REPORT_H
#define COMMON_REPORT_H

#include "common/attn.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// The program's first lines: "ch01  naive attention", then what the chapter shows.
void report_title(const char *chapter, const char *title, const char *shows);

// A blank line and a section heading; what is printed so far reaches the reader now.
void report_section(const char *heading);

// A paragraph, wrapped at 80 columns and indented by two (printf-style).
void report_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// One card number: name, computed value with unit, and the formula it came from.
void report_card(const char *name, const char *value, const char *formula);

// Numbers as text, into `text` (at least 32 bytes); each returns text.
char *format_iec(char *text, double bytes); // "520 MiB", "1.5 GiB", "96 B": 4 digits at most
// Powers of 1000; two decimals below 10, one above: "3.35 TB/s", "34.4 GFLOP", "549.8 GB".
char *format_si(char *text, double value, const char *unit);
char *format_count(char *text, double value);     // "4,096"
char *format_seconds(char *text, double seconds); // three digits: "1.25 ms", "164 ms"

// A table: columns sized to their content, printed when it ends.
enum { REPORT_MAX_COLUMNS = 10, REPORT_MAX_ROWS = 64, REPORT_CELL = 32 };
typedef struct Table {
    int columns, rows; // rows: the heading counts as row 0
    char cells[REPORT_MAX_ROWS][REPORT_MAX_COLUMNS][REPORT_CELL];
} Table;

// Starts a table; headings are separated by '|', as in "N|time|GFLOP/s".
void table_begin(Table *table, const char *headings);
// Adds one row; cells are separated by '|' after formatting (printf-style). Rows beyond the
// capacity abort: a program's tables have known sizes. Cells are cut after REPORT_CELL - 1 bytes.
void table_row(Table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Prints the table, first column left-aligned, the others right-aligned.
void table_print(const Table *table);

// A progress line "what: done of total" on stderr, overwritten in place; silent unless stdout and
// stderr are terminals. total = 0 clears it.
void report_progress(const char *what, int done, int total);

// Results as CSV: opened with its heading line; every row is one call. A NULL path gives a NULL
// file and every later call does nothing. On an unwritable path: message by attn_fail, *file NULL.
AttnStatus csv_open(FILE **file, const char *path, const char *heading);
void csv_row(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
AttnStatus csv_close(FILE *file); // ATTN_ERR_IO when the data did not reach the disk

#ifdef __cplusplus
}
#endif

#endif
