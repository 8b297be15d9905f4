// Plots: runs a chapter's gnuplot script on the CSV the program has just written.
#ifndef COMMON_PLOT_H
#define COMMON_PLOT_H

#include "common/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum PlotKind { PLOT_NONE = 0, PLOT_TERM, PLOT_SVG, PLOT_PNG } PlotKind;

// Runs `gnuplot script` with the variables csv (the data file), kind ("term", "svg" or "png") and
// out (where pictures go: build/plots/CHAPTER, to which the script appends "-name.svg") set.
// term draws on stdout at 79 columns; svg and png create build/plots/ and the files' names are
// printed. Without gnuplot: one line on stdout that names the package to install, and ATTN_OK.
// Errors: ATTN_ERR_IO when gnuplot fails, with its message.
AttnStatus plot_run(const char *chapter, const char *script, const char *csv, PlotKind kind);

#ifdef __cplusplus
}
#endif

#endif
