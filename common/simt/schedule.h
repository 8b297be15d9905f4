// What the parts of the scheduler share: schedule.c (a block's threads), warp.c (collectives of a
// warp), diagnose.c (who waits for whom), finding.c, crash.c (signals), launch.c, workers.c.
#ifndef COMMON_SIMT_SCHEDULE_H
#define COMMON_SIMT_SCHEDULE_H

#include "common/simt/fiber.h"
#include "common/simt/internal.h"
#define SIMT_UNIT simt_runtime // has no kernels
#include "common/simt/simt_cpu.h"

#include <signal.h>

// ---- a block's threads (schedule.c) -------------------------------------------------------------

typedef struct Thread {
    Fiber *fiber; // NULL before its first turn and after its end
    // The collective at which it waits or waited last; file is NULL before the first.
    const char *what; // "__syncthreads"
    const char *file;
    int line;
    unsigned mask; // of a warp collective; 0 at a barrier of the block
} Thread;

// A warp collective, as a lane that comes to it describes it.
typedef struct Collective {
    const char *what;     // "__shfl_xor_sync"
    SimtCombine *combine; // NULL: nothing to exchange
    int kind;             // tells collectives of one combine apart
    unsigned mask;
    const char *file;
    int line;
    bool one_place; // lanes must come to the same file and line
    bool all_live;  // every named lane must live
    bool orders;    // memory, as __syncwarp does
} Collective;

// One that some lanes have reached and that is not complete.
typedef struct Group {
    Collective at; // of the first to come
    unsigned arrived;
    const void *in[SIMT_WARP];
    void *out[SIMT_WARP];
} Group;

typedef struct Warp {
    unsigned live;  // lanes that have not ended
    unsigned ready; // lanes that run or may run
    int groups;
    Group group[SIMT_WARP];
} Warp;

typedef struct Block {
    unsigned live;        // threads that have not ended
    unsigned ready_warps; // warps with a ready lane
    unsigned waiting;     // threads at a barrier of the block
    unsigned first_waiting, other_waiting;
    bool divergent; // other_waiting waits at another barrier than first_waiting
    Thread thread[SIMT_MAX_THREADS];
    Warp warp[SIMT_MAX_WARPS];
} Block;
extern Block simt_block;

// A fiber runs (not the host), and how often a thread began or came to a collective.
extern volatile sig_atomic_t simt_on_fiber;
extern volatile uint64_t simt_progress;

// Prepares for blocks of simt_running's size.
void schedule_launch_begin(void (*call)(const void *params), const void *params);

// Runs every thread of the block that simt_running names. false: abandoned, see abandoned_*.
bool schedule_block(void);

// The running thread gives way until its lane is ready; the lanes of a warp become ready.
void schedule_wait(Thread *self);
void schedule_ready(unsigned warp, unsigned lanes);

// Abandons the launch from a fiber, or from a signal handler that interrupted one.
_Noreturn void schedule_leave(void);

// A lane of the warp has ended: collectives that waited only for it are complete (warp.c).
void warp_lane_ended(unsigned warp);

// Nothing is ready and some threads live, or all wait at barriers of the block that differ.
_Noreturn void diagnose_deadlock(void);
_Noreturn void diagnose_divergent_barrier(void);

// Writes lane numbers as text: "0-15, 17".
void diagnose_lanes(char *text, size_t bytes, unsigned lanes);

// ---- findings (finding.c) -----------------------------------------------------------------------

enum { FINDING_TEXT = 1024 };

// As simt_abandon, for a thread that need not be the running one and with a sentence of its own
// (NULL: made from the finding).
_Noreturn void finding_abandon(SimtFinding *finding, unsigned thread, const char *detail);

// Records a finding of the launch; the message goes to attn_last_error. Its place must be complete.
void finding_record(const SimtFinding *finding, const char *detail);
void finding_restore(const SimtFinding *finding, const char *text); // a worker's, with its message
void finding_clear(void);

// Fills in kernel, thread and block; a place's file from a path.
void finding_locate(SimtFinding *finding, unsigned thread);
void finding_place(SimtPlace *place, const char *path, int line, unsigned thread);
const char *finding_basename(const char *path);

// ---- limits of a launch (limits.c) --------------------------------------------------------------

// ATTN_OK, or ATTN_ERR_CUDA with the finding recorded.
AttnStatus limits_check(const SimtKernel *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                        const char *file, int line);

// ---- signals and the watchdog (crash.c) ---------------------------------------------------------

// Handlers and timer for a launch; the second restores what was there before. In a forked worker
// only the timer starts anew.
void crash_begin(void);
void crash_end(void);
void crash_begin_worker(void);

// Whether the time of the launch is up: between two blocks.
bool crash_timed_out(void);

// After an abandoned block: records the finding of the signal that ended it, if one did.
void crash_finding(void);

// ---- blocks of a launch (workers.c) -------------------------------------------------------------

// Runs one block by its number; false: abandoned, and the finding is recorded (launch.c).
bool launch_block(uint64_t number);

// Runs all blocks, on several processes where that pays. false: abandoned.
bool workers_run(uint64_t blocks);

#endif
