// What ./ch07 prints, a section a function, and the kernels as it runs them. main.c calls them in
// order.
#ifndef CH07_SHOW_H
#define CH07_SHOW_H

#include "chapters/ch07_masks/cards.h"
#include "chapters/ch07_masks/masks.h"

#include "common/device_problem.h"
#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

// What every section needs. Rows of the CSV: series, name, x, value, low, high.
typedef struct Show {
    const Program *program;
    const Options *options;
    GpuTarget target;         // GPU_SIMT or GPU_CUDA
    bool traced;              // GPU_TRACE is available
    GpuProperties properties; // of the target
    FILE *csv;                // or NULL
} Show;
#define SHOW_CSV_HEADING "series,name,x,value,low,high"

// The window that cards, times and plots show.
enum { SHOW_WINDOW = 1024 };

// ---- running a kernel (show_runs.c) -------------------------------------------------------------

// What can be run: causal_attention in its three ways of visiting, and block_sparse_attention.
typedef enum MaskKernel {
    KERNEL_CAUSAL = MASK_SKIP,
    KERNEL_EVERY_SCORE = MASK_EVERY_SCORE,
    KERNEL_EVERY_TILE = MASK_EVERY_TILE,
    KERNEL_SPARSE,
    MASK_KERNELS
} MaskKernel;

// "causal", "every score", "every tile", "sparse": for columns and plots.
extern const char *const show_names[MASK_KERNELS];

// One kernel on one problem, stored as the problem's dtype, in the target's memory.
typedef struct MaskRun {
    GpuTarget target;
    MaskKernel kernel;
    const BlockList *list; // KERNEL_SPARSE only
    Problem *problem;      // whose tensors lesson_check passes
} MaskRun;

// A LessonKernel whose context is a MaskRun: uploads, runs, downloads.
AttnStatus mask_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse);

// Launches a kernel on a device problem; `list` is for KERNEL_SPARSE.
AttnStatus mask_launch(MaskKernel kernel, const DeviceProblem *device, const DeviceBlockList *list);

// Compares one row of the problem's outputs with the oracle's; head counts over the batch. *worst
// is raised to the largest error over what is allowed, of O and LSE; infinite where something is
// NaN. (show_rows.c)
AttnStatus check_row(const Problem *problem, const BlockList *list, int64_t head, int64_t row,
                     double *worst);

// Ends the program with the kernels' own message when they cannot run this shape.
void require_supported(const Program *program, const Problem *problem);

// ---- sections -----------------------------------------------------------------------------------

bool show_correctness(const Show *show, Problem *asked);
void show_gallery(const Show *show);                       // masks key by key
void show_tiles(const Show *show, const AttnShape *asked); // masks by tiles
bool show_alignment(const Show *show);                     // false: the kernel was wrong
void show_cards(const Show *show);                         // tiles visited, by formula
void show_order(const Show *show);                         // heaviest blocks first
void show_bytes(const Show *show);                         // traced
bool show_times(const Show *show);                         // on cuda; false: an output was wrong
void show_recorded(const Show *show);                      // docs/benchmarks/h200_ch07.csv

#ifdef __cplusplus
}
#endif

#endif
