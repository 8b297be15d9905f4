// The command line of the lesson programs: the same flags everywhere, by getopt_long.
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "common/attn.h"
#include "common/dtype.h"
#include "common/plot.h"

#ifdef __cplusplus
extern "C" {
#endif

// Flags that only some programs have; the shape, data, repeats, csv and plot flags are everywhere.
enum {
    OPTION_BLOCK_Q = 1 << 0,
    OPTION_BLOCK_K = 1 << 1,
    OPTION_SPLITS = 1 << 2,
    OPTION_PAGE = 1 << 3,
    OPTION_THREADS = 1 << 4,
};

typedef enum Backend { BACKEND_AUTO = 0, BACKEND_CPU, BACKEND_SIMT, BACKEND_CUDA } Backend;

typedef struct Options {
    AttnShape shape;  // from --batch --heads --kv-heads --queries --keys --len --dim --scale ...
    bool shape_given; // any of the size flags was given
    DType dtype;
    uint64_t seed;
    int64_t block_q, block_k, splits, page;
    int threads; // 0: all
    Backend backend;
    int repeats; // timed runs, at least 10 unless --quick
    bool quick;
    const char *csv; // NULL: none
    PlotKind plot;
    const char *q, *k, *v, *out, *lse; // NPY files, or NULL
} Options;

// What a program tells about itself.
typedef struct Program {
    const char *name;    // "ch01"
    const char *title;   // "naive attention"
    const char *summary; // two lines for --help
    unsigned flags;      // OPTION_* that apply
} Program;

// Parses argv over the defaults already in *options. --help prints every flag that applies with
// its default and exits 0. A bad flag, value or combination prints one line on stderr
// ("ch01: --dim 0: ...") and exits 2. --kv-heads defaults to --heads; --len sets queries and keys;
// --q, --k and --v come together and then decide every size, so that a size flag or --seed beside
// them is an error; --out and --lse save the result of a seeded problem as well. Files that cannot
// be written, and outputs that are an input's or another output's file, are refused here already;
// nothing is created. Call it once.
void options_parse(Options *options, const Program *program, int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
