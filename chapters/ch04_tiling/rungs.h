// What ./ch04 runs and measures: the four rungs behind one interface, and the sections of the
// program that time them. main.c shows the rest.
#ifndef CH04_RUNGS_H
#define CH04_RUNGS_H

#include "chapters/ch04_tiling/tiled.h"

#include "common/ceilings.h"
#include "common/lesson.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum Rung { RUNG_UNTILED = 0, RUNG_TILED, RUNG_UNFUSED, RUNG_SIMD, RUNGS } Rung;

// What a rung needs besides the tensors.
typedef struct RungRun {
    Rung rung;
    int64_t block_q, block_k;   // of the tiled rungs
    int threads;                // of tiled_simd; 0: all
    float *workspace;           // rung_workspace_floats
    TileCounts tiles;           // of the last run of tiled
    OperationCounts operations; // of the last run of unfused
} RungRun;

// "untiled", "tiled", "unfused", "simd".
const char *rung_name(Rung rung);

// Floats of workspace that the rung is given; 0 for tiled_simd, which allocates its scratch memory.
size_t rung_workspace_floats(const RungRun *run, const AttnShape *shape);

// Runs it: a LessonKernel whose context is a RungRun. Storage is f32 for all rungs.
AttnStatus rung_attention(void *context, const AttnShape *shape, const float *q, const float *k,
                          const float *v, float *o, float *lse);

// Worker threads of this process: --threads, or all.
int rung_threads(const Options *options);

// What a program run costs in scalar loops, in FLOP: for lesson_announce.
double rung_planned_flops(const Options *options, const AttnShape *shape);

// What the rungs are measured against.
typedef struct RungCeilings {
    Ceilings one;   // one thread
    Ceilings all;   // rung_threads; raised to those of one thread where they came out lower
    bool disturbed; // they did: other programs held the cores
} RungCeilings;

// The sections on time. Each returns false when the output of a timed run was wrong. Series of the
// CSV: the rungs' names (x: N) and "threads" (x: threads), values in seconds.
bool show_rung_times(const Program *program, const Options *options, const RungCeilings *ceilings,
                     FILE *csv);
bool show_simd_threads(const Program *program, const Options *options, const RungCeilings *ceilings,
                       FILE *csv);
bool show_unfused_cost(const Program *program, const Options *options);

#ifdef __cplusplus
}
#endif

#endif
