// Figures that were recorded elsewhere, docs/benchmarks/*.csv, for programs that print them.
#ifndef COMMON_RECORDED_H
#define COMMON_RECORDED_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RECORDED_COLUMNS = 32 }; // at most, of a file

// Gets the values of one row, in the order of the headings asked for.
typedef void RecordedUse(void *context, char *const *values);

// Reads a CSV file with a heading line, and calls `use` for each row with the values of the columns
// that `headings` names ("rung,n,dim"), whatever their order in the file. Rows that are too short
// are left out. Returns false, having called nothing, when the file or a column is not there.
bool recorded_read(const char *path, const char *headings, RecordedUse *use, void *context);

#ifdef __cplusplus
}
#endif

#endif
