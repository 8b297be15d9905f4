// What ./ch06 prints, a section a function, and the rungs as it runs them. main.c calls them in
// order.
#ifndef CH06_SHOW_H
#define CH06_SHOW_H

#include "chapters/ch06_decode/cards.h"
#include "chapters/ch06_decode/decode.h"

#include "common/device_problem.h"
#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

// What every section needs. Rows of the CSV: series, rung, x, value, low, high.
typedef struct Show {
    const Program *program;
    const Options *options;
    GpuTarget target;         // GPU_SIMT or GPU_CUDA
    bool traced;              // GPU_TRACE is available
    GpuProperties properties; // of the target
    double read_rate;         // bytes/s of read_rate, measured on cuda; 0 on simt
    FILE *csv;                // or NULL
} Show;
#define SHOW_CSV_HEADING "series,rung,x,value,low,high"

// The queries that the kernels are made for, at most: a problem with more is checked with one
// number of splits.
enum { SHOW_FEW_QUERIES = 16 };

// The rungs that models and tables treat apart.
enum { SHOW_DECODE = 0, SHOW_UNFUSED, SHOW_SPLIT, SHOW_FUSED };

// ---- running a rung (show_rungs.c) --------------------------------------------------------------

// One rung on one problem in the target's memory, stored as the problem's dtype.
typedef struct RungRun {
    GpuTarget target;
    int rung; // index into decode_rungs
    int64_t splits;
    Problem *problem; // whose tensors lesson_check passes
} RungRun;

// A LessonKernel whose context is a RungRun: uploads, runs, downloads.
AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse);

// The rung's workspace in the target's memory, ready for a launch; NULL when it needs none.
AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, int64_t splits,
                          void **workspace);

// Launches a rung on a device problem; `workspace` is what rung_workspace gave.
AttnStatus rung_launch(int rung, const DeviceProblem *device, int64_t splits, void *workspace);

// --splits, or decode_splits' choice for this shape where it was not given.
int64_t splits_for(const Show *show, const AttnShape *shape, DType dtype);

// Ends the program with the kernels' own message when they cannot run this shape.
void require_supported(const Program *program, const Problem *problem, int64_t splits);

// ---- problems (show_waves.c)
// ----------------------------------------------------------------------

// The caches that the sections on time look at, T = 1 and every head its own K and V.
enum { SHOW_PROBLEMS = 3, SHOW_LABEL = 64 };
extern const AttnShape show_problems[SHOW_PROBLEMS];

// "8x8192 h32 d128": batch, keys, heads and dim.
void problem_label(char label[SHOW_LABEL], const AttnShape *shape);

// The problem that is swept over the number of splits, and its label: the one asked for, else the
// first of show_problems in 16 bits.
void show_sweep_problem(const Show *show, AttnShape *shape, DType *dtype, char label[SHOW_LABEL]);

// The numbers of splits of a sweep, ascending: powers of two up to the keys, and what splits_for
// takes. Returns how many.
enum { SHOW_COUNTS = 11 };
int show_sweep_counts(const Show *show, const AttnShape *shape, DType dtype,
                      int64_t counts[SHOW_COUNTS]);

// ---- sections -----------------------------------------------------------------------------------

bool show_correctness(const Show *show, Problem *asked);
bool show_any_count(const Show *show);   // every split count of a small problem
double show_read_rate(const Show *show); // measures it on cuda; prints nothing
void show_cards(const Show *show);
void show_waves(const Show *show); // splits, blocks, waves, modelled time
void show_bytes(const Show *show);
bool show_ragged(const Show *show);       // times it on cuda; false: an output was wrong
void show_carries_over(const Show *show); // on simt, in place of times
bool show_times(const Show *show);        // on cuda; false: an output was wrong

// The H200's recorded figures, docs/benchmarks/h200_ch06.csv; a line where there are none.
void show_recorded(const Show *show);

#ifdef __cplusplus
}
#endif

#endif
