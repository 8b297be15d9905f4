// What ./ch08 prints, a section a function, and the rungs as it runs them. main.c calls them in
// order.
#ifndef CH08_SHOW_H
#define CH08_SHOW_H

#include "chapters/ch08_gqa/cards.h"

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

// ---- running a rung (show_rungs.c) --------------------------------------------------------------

// One rung on one problem in the target's memory, stored as the problem's dtype.
typedef struct RungRun {
    GpuTarget target;
    int rung; // GQA_NAIVE, ...
    int64_t splits;
    Problem *problem; // whose tensors lesson_check passes
} RungRun;

// A LessonKernel whose context is a RungRun: uploads, runs, downloads.
AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse);

// The rung's workspace in the target's memory, ready for a launch.
AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, int64_t splits,
                          void **workspace);

// Launches a rung on a device problem; `workspace` is what rung_workspace gave.
AttnStatus rung_launch(int rung, const DeviceProblem *device, int64_t splits, void *workspace);

// Whether the rung takes the problem.
bool rung_takes(int rung, const AttnShape *shape, DType dtype);

// --splits, or the rung's own choice for this shape where it was not given.
int64_t splits_for(const Show *show, int rung, const AttnShape *shape, DType dtype);

// Ends the program with the kernels' own message when gqa cannot run this shape.
void require_supported(const Show *show, const Problem *problem);

// ---- problems (show_rungs.c) --------------------------------------------------------------------

// The caches that the sections on time look at: T = 1, 32 query heads on 8, d = 128.
enum { SHOW_PROBLEMS = 3, SHOW_LABEL = 64 };
extern const AttnShape show_problems[SHOW_PROBLEMS];

// The second of them with other numbers of query heads to a KV head: 1, 2, 4, ..., 32.
enum { SHOW_GROUPS = 6 };
AttnShape show_group_problem(int index);

// "16x8192 32/8 T1 d128": batch, keys, query and KV heads, queries, dim.
void problem_label(char label[SHOW_LABEL], const AttnShape *shape);

// ---- sections -----------------------------------------------------------------------------------

bool show_correctness(const Show *show, Problem *asked);
void show_packing(void);           // packed rows: token, head, limits
void show_model(const Show *show); // a model's cache
void show_units(const Show *show); // rows of the instruction; which unit has time
void show_fragments(void);
void show_bytes(const Show *show);
void show_carries_over(const Show *show); // on simt, in place of times
bool show_times(const Show *show);        // on cuda; false: an output was wrong

// The H200's recorded figures, docs/benchmarks/h200_ch08.csv; a line where there are none.
void show_recorded(const Show *show);

#ifdef __cplusplus
}
#endif

#endif
