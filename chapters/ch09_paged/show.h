// What ./ch09 prints, a section a function, and the rungs as it runs them. main.c calls them in
// order.
#ifndef CH09_SHOW_H
#define CH09_SHOW_H

#include "chapters/ch09_paged/cards.h"
#include "chapters/ch09_paged/paged.h"

#include "common/device_problem.h"
#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

// What every section needs. Rows of the CSV: series, order, page, value, low, high.
typedef struct Show {
    const Program *program;
    const Options *options;
    GpuTarget target;         // GPU_SIMT or GPU_CUDA
    bool traced;              // GPU_TRACE is available
    GpuProperties properties; // of the target
    FILE *csv;                // or NULL
} Show;
#define SHOW_CSV_HEADING "series,order,page,value,low,high"

// The cache of the cards and the times: 8 KV heads, d = 128, 16 bits. A shape has lengths of its
// own only where kv_lens is set; the kernels get len_kv for each sequence otherwise.
enum { SHOW_HEADS_KV = 8, SHOW_DIM = 128, SHOW_ELEMENT = 2 };
extern const AttnShape show_problem; // 16 sequences of 8,192 keys, 32 query heads

// ---- a problem in pages (show_pool.c) -----------------------------------------------------------

// How keys and values get into pages.
typedef struct PagePlan {
    int64_t page_size;
    bool shuffled;  // the free pages of the pool are in random order
    int64_t prompt; // tokens that every sequence begins with: written once, then forked
} PagePlan;

// A problem's keys and values in a pool, appended as a server would: a prompt, then the last tokens
// one at a time.
typedef struct PagedProblem {
    BlockPool *pool;
    int64_t *sequences; // [batch]
    int32_t *lens;      // [batch]
    PagedCache cache;
    AttnShape shape; // the problem's, with lens as its lengths
} PagedProblem;

AttnStatus paged_problem_make(PagedProblem *paged, GpuTarget target, const Problem *problem,
                              const PagePlan *plan);
void paged_problem_free(PagedProblem *paged);

// Launches a rung on Q, O and LSE of `device`; `workspace` as rung_workspace made it.
AttnStatus rung_workspace(int rung, GpuTarget target, const AttnShape *shape, int64_t splits,
                          void **workspace);
AttnStatus rung_launch(int rung, const PagedProblem *paged, const DeviceProblem *device,
                       int64_t splits, void *workspace);

// A LessonKernel whose context is a RungRun: makes the pages, runs, downloads.
typedef struct RungRun {
    GpuTarget target;
    int rung;
    int64_t splits;
    PagePlan plan;
    Problem *problem; // whose tensors lesson_check passes
} RungRun;
AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse);

// Whether a rung takes this problem: paged_mma does not take every dim and dtype.
bool rung_takes(int rung, const AttnShape *shape, DType dtype);

// --splits, or the rung's choice where it was not given.
int64_t splits_for(const Show *show, int rung, const AttnShape *shape, DType dtype);

// Ends the program with the kernels' own message when they cannot run this problem in pages of that
// size, or with the pool's when there is no memory for it.
void require_supported(const Show *show, const Problem *problem, int64_t page_size);

// ---- sections -----------------------------------------------------------------------------------

bool show_correctness(const Show *show, Problem *asked);
bool show_any_page(const Show *show); // every page size of a small problem
void show_cards(void);
void show_waste(const Show *show);
bool show_walk(const Show *show); // a small pool, drawn; false: a value is not where it should be
bool show_fork(const Show *show); // step by step; false: the pool's test of itself failed
bool show_prefix(const Show *show);
bool show_bytes(const Show *show); // false: a traced number is not the model's
void show_carries_over(void);      // on simt, in place of times
bool show_times(const Show *show); // on cuda; false: an output was wrong

// The H200's recorded figures, docs/benchmarks/h200_ch09.csv; a line where there are none.
void show_recorded(const Show *show);

#ifdef __cplusplus
}
#endif

#endif
