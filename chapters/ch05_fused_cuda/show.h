// What ./ch05 prints, a section a function, and the rungs as it runs them. main.c calls them in
// order.
#ifndef CH05_SHOW_H
#define CH05_SHOW_H

#include "chapters/ch05_fused_cuda/fused.h"

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
    FILE *csv;                // or NULL
} Show;
#define SHOW_CSV_HEADING "series,rung,x,value,low,high"

// The rungs that models and tables treat apart.
enum { SHOW_NAIVE = 0, SHOW_KEYS_OUTSIDE = 2, SHOW_FAST = FUSED_RUNGS - 1 };

// The rungs' short names, for columns and plots: "naive", "thread per row", ...
extern const char *const show_names[FUSED_RUNGS];

// ---- running a rung (show_rungs.c) --------------------------------------------------------------

// One rung on one problem in the target's memory.
typedef struct RungRun {
    GpuTarget target;
    int rung;         // index into fused_rungs
    bool f16;         // fused_register_tiled_f16 in its place
    Problem *problem; // whose tensors lesson_check passes
} RungRun;

// A LessonKernel whose context is a RungRun: uploads, runs, downloads.
AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse);

// Launches a rung on a device problem; `workspace` has what the rung asks for.
AttnStatus rung_launch(int rung, bool f16, const DeviceProblem *device, float *workspace);

// The rung's workspace in the target's memory; NULL when it needs none.
AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, float **workspace);

// Ends the program with the kernels' own message when they cannot run this shape.
void require_supported(const Program *program, const Problem *problem);

// ---- sections -----------------------------------------------------------------------------------

bool show_correctness(const Show *show, Problem *asked);
void show_cards(const Show *show); // measures the tiers on cuda
void show_bytes(const Show *show);
void show_shared_memory(const Show *show); // bank conflicts, a missing barrier
// FLOP/s of multiply-adds, measured on cuda; 0 on simt.
double show_fma_ceiling(const Show *show);
void show_filling(const Show *show); // on simt: blocks, waves
bool show_times(const Show *show);   // on cuda; false: an output was wrong

// The H200's recorded figures, docs/benchmarks/h200_ch05.csv, for d = 64, as a table; a line where
// there are none. (show_recorded.c)
void show_recorded(const Show *show);

#ifdef __cplusplus
}
#endif

#endif
