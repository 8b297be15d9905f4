// The simt runtime as host code sees it: settings, findings, and what a traced launch counted.
#ifndef COMMON_SIMT_RUNTIME_H
#define COMMON_SIMT_RUNTIME_H

#include "common/attn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// In which order the threads of a block run between two collectives.
typedef enum SimtOrder { SIMT_FORWARD = 0, SIMT_REVERSE, SIMT_RANDOM } SimtOrder;

// Settings of the next launches. Their first values come from the environment: SIMT_ORDER=forward,
// reverse, random or random:SEED; SIMT_WORKERS=n; SIMT_DEVICE=name; SIMT_TIMEOUT=seconds.
typedef struct SimtSettings {
    SimtOrder order;
    uint64_t seed;
    int workers;           // processes that share the blocks of a plain launch; 0: one per CPU
    const char *device;    // "h200", "h100", "a100", ...: whose limits hold
    double timeout_s;      // a launch that takes longer is ended; 120
    double slice_s;        // a thread that meets no collective for so long is ended; 10
    bool uninitialised_ok; // do not report reads of memory that was never written
} SimtSettings;
SimtSettings *simt_settings(void);

// What went wrong in a launch, where: also the text of attn_last_error.
typedef enum SimtFindingKind {
    SIMT_NOTHING = 0,
    SIMT_LAUNCH_LIMIT,      // the launch itself was refused
    SIMT_DIVERGENT_BARRIER, // live threads wait at different barriers
    SIMT_MISSING_LANE,      // a lane named in a mask never came, or a shuffle read from no lane
    SIMT_BAD_MASK,          // the mask lacks the caller, or lanes disagree on it
    SIMT_OUT_OF_BOUNDS,
    SIMT_MISALIGNED,
    SIMT_UNINITIALISED, // a read of shared or device memory that nothing has written
    SIMT_RACE,          // two threads of a block, one writes, no barrier between
    SIMT_RACE_BLOCKS,   // two blocks of a launch, one writes
    SIMT_TIMEOUT,       // a thread, or the launch, did not end
    SIMT_CRASH,         // a signal: a bad pointer, a division by zero, a stack overflow
} SimtFindingKind;

typedef struct SimtPlace { // one access or collective
    char file[128];        // "fused_tiled.cu"; "" when not known
    int line;
    unsigned thread[3], block[3];
    bool write;
} SimtPlace;

typedef struct SimtFinding {
    SimtFindingKind kind;
    char kernel[64];
    SimtPlace here;   // the access that showed it
    SimtPlace before; // of a race: the earlier one; of a barrier: another thread's
    char buffer[64];  // "k", "shared tile", "dynamic shared memory"; "" when none
    int64_t offset;   // bytes from its beginning
    size_t size;      // bytes of the access
} SimtFinding;

// The last launch's finding; kind SIMT_NOTHING when it ran to its end.
const SimtFinding *simt_finding(void);
const char *simt_finding_name(SimtFindingKind kind); // "race", "divergent barrier", ...

// ---- what a traced launch counts ----------------------------------------------------------------

typedef struct SimtCounts {
    uint64_t load_requests, load_sectors;   // by warp; a sector is 32 bytes
    uint64_t store_requests, store_sectors; // as the GPU's counters have them
    uint64_t atomic_requests, atomic_sectors;
    uint64_t load_bytes, store_bytes;               // asked for by the threads, each access counted
    uint64_t block_unique_load, block_unique_store; // bytes of sectors, once per block
    uint64_t launch_unique_load, launch_unique_store; // bytes of sectors, once per launch
} SimtCounts;

// Shared memory, as a model: nvcc may join loads that the C compiler leaves apart.
typedef struct SimtSharedCounts {
    uint64_t load_requests, load_wavefronts, load_ideal; // ideal: wavefronts without conflicts
    uint64_t store_requests, store_wavefronts, store_ideal;
} SimtSharedCounts;

typedef struct SimtBufferTrace {
    char name[64];
    size_t bytes;
    SimtCounts counts;
} SimtBufferTrace;

typedef struct SimtLineTrace {
    char file[128];
    int line;
    SimtCounts global; // of global accesses on this line; the unique bytes are 0
    SimtSharedCounts shared;
} SimtLineTrace;

enum { SIMT_MAX_BUFFERS = 32, SIMT_TOP_LINES = 10 };
typedef struct SimtLaunchTrace {
    char kernel[64];
    unsigned grid[3], block[3];
    size_t static_shared;  // bytes, of all kernels in the file
    size_t dynamic_shared; // bytes
    SimtCounts total;      // of all global buffers
    SimtSharedCounts shared;
    int buffers; // those that were touched, by name; buffers of one name are added up
    SimtBufferTrace buffer[SIMT_MAX_BUFFERS];
    int lines; // the lines with most sectors and wavefronts
    SimtLineTrace line[SIMT_TOP_LINES];
} SimtLaunchTrace;

// Launches of the trace build since simt_trace_reset, in order (at most 256 are kept).
void simt_trace_reset(void);
int simt_trace_launches(void);
const SimtLaunchTrace *simt_trace_launch(int index);

// Sum over all kept launches of a buffer's counts (the name "" is all buffers), and of the shared
// memory's. Unique bytes are summed launch by launch.
SimtCounts simt_trace_sum(const char *buffer);
SimtSharedCounts simt_trace_sum_shared(void);

// All kept launches as text within 80 columns, which says of every number which of the four byte
// counts it is; and as CSV, one row per launch and buffer and one per line, with a heading.
void simt_trace_print(FILE *out);
void simt_trace_csv(FILE *out);

#ifdef __cplusplus
}
#endif

#endif
