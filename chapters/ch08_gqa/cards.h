// Chapter 8's cards: the cache of a model, what its sharing saves, what a matrix instruction has of
// a group, and which unit has time for it. Every number of the lesson that is computed rather than
// measured comes from here or from gqa.h, which declares three of them.
#ifndef CH08_CARDS_H
#define CH08_CARDS_H

#include "chapters/ch08_gqa/gqa.h"

#ifdef __cplusplus
extern "C" {
#endif

// A served model: `tokens` of all sequences together in the cache, on `gpus` GPUs that each have
// the same number of its heads (tensor parallelism).
typedef struct GqaModel {
    double layers, heads_q, heads_kv, dim, element, tokens, gpus;
} GqaModel;

// 80 layers, 64 query heads, 8 KV heads, d = 128, 16 bits (its configuration file), with 64
// sequences of 8,192 tokens on 8 GPUs.
extern const GqaModel gqa_llama_70b;

// Bytes of a GPU's part of the cache: tokens * gqa_token_bytes / gpus. With `heads` KV heads in
// place of the model's own.
double gqa_gpu_bytes(const GqaModel *model, double heads);

// The share of its rows that a matrix instruction of `height` rows uses for so many packed rows:
// rows / (ceil(rows / height) height). 0 for no rows.
double gqa_rows_used(double rows, double height);

// ---- which unit ---------------------------------------------------------------------------------

// A GPU as the lesson measured it.
typedef struct GqaDevice {
    double multiprocessors, clock_hz;
    double issue;        // instructions of a warp that an SM starts in a clock
    double bytes_per_s;  // of a kernel that only reads
    double fma_flops;    // of float32 multiply-adds outside the matrix unit, each counting 2
    double sm_registers; // of an SM
    double latency_s;    // of a load while memory is busy: a report of others
} GqaDevice;
extern const GqaDevice gqa_h200;

// One step of a rung's loop where all rows see all keys, for bf16 and d = 128: what the compiler
// made of it (nvcc 13.0 for sm_90a, the loop's instructions counted in its machine code).
typedef struct GqaStep {
    const char *name;
    int rows;         // of a tile
    int warp_bytes;   // of K and V that a warp reads in the step
    int instructions; // of the warp
    int multiplies;   // FFMA of the two products, or HMMA, among them
    int ahead;        // bytes that a thread has asked for before it waits for the first
    int registers;    // of a thread
    int threads;      // of a block
} GqaStep;
enum { GQA_STEP_ONE = 0, GQA_STEP_FOUR, GQA_STEP_EIGHT, GQA_STEP_MMA_8, GQA_STEP_MMA_16 };
enum { GQA_STEPS = GQA_STEP_MMA_16 + 1 };
extern const GqaStep gqa_steps[GQA_STEPS];

// The step that a rung runs for this shape.
const GqaStep *gqa_step(int rung, const AttnShape *shape);

// Instructions for which there is time while `bytes` reach one SM: bytes / (rate / SMs / clock)
// times those it starts in a clock.
double gqa_issue_slots(const GqaDevice *device, double bytes);

// The instructions of a problem over those that there is time for while its cache is read once: the
// step's, as often as a rung requests the cache. Above 1 arithmetic decides.
double gqa_issue_share(const GqaDevice *device, int rung, const AttnShape *shape);

// The same for multiply-adds alone: FLOP per byte over what the device has of them.
double gqa_fma_share(const GqaDevice *device, double intensity);

// Bytes that a step's blocks keep under way on an SM, as many as its registers allow.
double gqa_ahead_bytes(const GqaDevice *device, const GqaStep *step);

// ---- the instruction ----------------------------------------------------------------------------

// Which lane of the warp holds an element of mma.m16n8k16's matrices, and in which of its
// registers. A is 16 x 16 and B 16 x 8, two elements a register; C is 16 x 8, one a register.
typedef enum GqaFragment { GQA_FRAGMENT_A = 0, GQA_FRAGMENT_B, GQA_FRAGMENT_C } GqaFragment;
int gqa_fragment_lane(GqaFragment matrix, int row, int column);
int gqa_fragment_register(GqaFragment matrix, int row, int column);

#ifdef __cplusplus
}
#endif

#endif
