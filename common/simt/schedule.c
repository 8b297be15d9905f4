// The threads of a block: who runs, who waits, who is next. A thread runs until it ends or must
// wait at a collective; then the next ready one goes on, without a detour through the host. A
// thread gets a stack when its first turn comes, and one that ends without having waited hands its
// stack straight to the next, so that kernels without collectives switch never.
//
// One host thread launches at a time: all of this is one process-wide state.
#include "common/simt/schedule.h"

#include <string.h>

// A warp that is never without a ready lane gives way to the others after so many turns.
enum { TURNS_OF_A_WARP = 1024 };

SimtRunning simt_running;
Block simt_block;
volatile sig_atomic_t simt_on_fiber;
volatile uint64_t simt_progress;

static Fiber host;
static Fiber fibers[FIBER_COUNT];
static int fibers_made;          // fibers[0..fibers_made) are prepared
static Fiber *idle[FIBER_COUNT]; // those that run no thread
static int idle_count;
static bool abandoned; // the block; no stack holds anything of use

static void (*kernel_call)(const void *params);
static const void *kernel_params;
static uint3 thread_idx[SIMT_MAX_THREADS];

// Where the search for the next thread stands.
static struct {
    SimtOrder order;
    uint64_t random; // state, never 0
    int warp, lane;  // the last choice; -1: none yet
    int turns;       // of this warp, one after the other
} search;

// Of the last complete barrier: how many threads gave a predicate that holds, of how many.
static unsigned predicates, predicates_result, barrier_threads;

// ---- the next thread ----------------------------------------------------------------------------

// 32 random bits.
static uint64_t random_next(void) {
    search.random ^= search.random << 13;
    search.random ^= search.random >> 7;
    search.random ^= search.random << 17;
    return search.random >> 32;
}

static int random_bit(unsigned bits) {
    const uint64_t count = (uint64_t)__builtin_popcount(bits);
    for (uint64_t skip = random_next() * count >> 32; skip > 0; skip--) {
        bits &= bits - 1;
    }
    return __builtin_ctz(bits);
}

// The next of the set bits after bit `last`, round and round; the first when last is -1.
static inline int next_bit(unsigned bits, int last) {
    unsigned beyond = bits;
    if (search.order == SIMT_FORWARD) {
        beyond = last < 0 ? bits : bits & ~((2U << last) - 1);
        return __builtin_ctz(beyond != 0 ? beyond : bits);
    }
    beyond = last < 0 ? bits : bits & ((1U << last) - 1);
    return 31 - __builtin_clz(beyond != 0 ? beyond : bits);
}

// Chooses a ready thread, or ends the launch when there is none. A warp is run as far as it goes
// before the next one.
static inline unsigned choose(void) {
    const unsigned warps = simt_block.ready_warps;
    if (warps == 0) {
        diagnose_deadlock();
    }
    if (search.order == SIMT_RANDOM) {
        search.warp = random_bit(warps);
        search.lane = random_bit(simt_block.warp[search.warp].ready);
    } else {
        const bool stay = search.warp >= 0 && (warps >> search.warp & 1) != 0;
        if (!stay || ++search.turns >= TURNS_OF_A_WARP) {
            search.warp = next_bit(warps, search.warp);
            search.lane = -1;
            search.turns = 0;
        }
        search.lane = next_bit(simt_block.warp[search.warp].ready, search.lane);
    }
    return (unsigned)search.warp * SIMT_WARP + (unsigned)search.lane;
}

static void set_running(unsigned thread) {
    simt_running.thread = thread;
    simt_running.thread_idx = thread_idx[thread];
}

// ---- fibers -------------------------------------------------------------------------------------

static void thread_ended(void);

static void run_threads(void) {
    fiber_entered();
    for (;;) {
        simt_on_fiber = 1;
        simt_progress++;
        kernel_call(kernel_params);
        thread_ended();
    }
}

static Fiber *take_fiber(void) {
    if (idle_count > 0) {
        return idle[--idle_count];
    }
    Fiber *fiber = &fibers[fibers_made];
    return fiber_prepare(fiber, fibers_made, run_threads) ? (fibers_made++, fiber) : NULL;
}

// Gives the thread a fiber if it has none.
static Fiber *fiber_of(unsigned thread) {
    Thread *chosen = &simt_block.thread[thread];
    if (chosen->fiber == NULL) {
        chosen->fiber = take_fiber();
        if (chosen->fiber == NULL) {
            SimtFinding finding = {.kind = SIMT_CRASH};
            finding_place(&finding.here, simt_running.launch_file, simt_running.launch_line,
                          thread);
            finding_abandon(&finding, thread, "there is no memory for the thread's stack");
        }
    }
    return chosen->fiber;
}

void schedule_wait(Thread *self) {
    const unsigned next = choose();
    if (&simt_block.thread[next] != self) {
        Fiber *fiber = fiber_of(next);
        set_running(next);
        fiber_switch(self->fiber, fiber);
    }
}

void schedule_ready(unsigned warp, unsigned lanes) {
    simt_block.warp[warp].ready |= lanes;
    simt_block.ready_warps |= lanes != 0 ? 1U << warp : 0;
}

// ---- the barrier of a block ---------------------------------------------------------------------

static void release_barrier(void) {
    if (simt_block.divergent) {
        diagnose_divergent_barrier();
    }
    predicates_result = predicates;
    barrier_threads = simt_block.waiting;
    predicates = 0;
    simt_block.waiting = 0;
    for (unsigned warp = 0; warp * SIMT_WARP < simt_running.threads; warp++) {
        schedule_ready(warp, simt_block.warp[warp].live);
    }
    search.warp = -1; // every order begins anew
    if (simt_running.traced) {
        simt_trace_block_sync();
    }
}

static bool same_place(const Thread *a, const Thread *b) {
    return a->what == b->what && a->line == b->line &&
           (a->file == b->file || strcmp(a->file, b->file) == 0);
}

static void wait_at_barrier(const char *what, const char *file, int line) {
    const unsigned number = simt_running.thread, warp = number / SIMT_WARP;
    Thread *self = &simt_block.thread[number];
    simt_progress++;
    self->what = what;
    self->file = file;
    self->line = line;
    self->mask = 0;
    if (simt_block.waiting++ == 0) {
        simt_block.first_waiting = number;
    } else if (!simt_block.divergent &&
               !same_place(self, &simt_block.thread[simt_block.first_waiting])) {
        simt_block.divergent = true;
        simt_block.other_waiting = number;
    }
    simt_block.warp[warp].ready &= ~(1U << number % SIMT_WARP);
    if (simt_block.warp[warp].ready == 0) {
        simt_block.ready_warps &= ~(1U << warp);
    }
    if (simt_block.waiting == simt_block.live) {
        release_barrier();
    }
    schedule_wait(self);
}

void simt_syncthreads(const char *file, int line) {
    wait_at_barrier("__syncthreads", file, line);
}

int simt_syncthreads_reduce(int kind, int predicate, const char *file, int line) {
    static const char *const names[] = {"__syncthreads_count", "__syncthreads_and",
                                        "__syncthreads_or"};
    predicates += predicate != 0;
    wait_at_barrier(names[kind], file, line);
    switch (kind) {
    case SIMT_AND:
        return predicates_result == barrier_threads;
    case SIMT_OR:
        return predicates_result != 0;
    default:
        return (int)predicates_result;
    }
}

void simt_threadfence(void) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// ---- a block from begin to end ------------------------------------------------------------------

// The running thread has left the kernel. Returns when its fiber has another thread to run.
static void thread_ended(void) {
    const unsigned number = simt_running.thread, warp = number / SIMT_WARP;
    Fiber *fiber = simt_block.thread[number].fiber;
    if (simt_running.traced && simt_block.live == 1) {
        simt_trace_block_end();
    }
    simt_block.warp[warp].live &= ~(1U << number % SIMT_WARP);
    simt_block.warp[warp].ready &= ~(1U << number % SIMT_WARP);
    if (simt_block.warp[warp].ready == 0) {
        simt_block.ready_warps &= ~(1U << warp);
    }
    simt_block.live--;
    warp_lane_ended(warp);
    if (simt_block.live == 0) {
        simt_block.thread[number].fiber = NULL;
        idle[idle_count++] = fiber;
        simt_on_fiber = 0;
        fiber_switch(fiber, &host);
        return;
    }
    if (simt_block.waiting == simt_block.live) {
        release_barrier();
    }
    const unsigned next = choose();
    simt_block.thread[number].fiber = NULL;
    if (simt_block.thread[next].fiber == NULL) {
        simt_block.thread[next].fiber = fiber;
        set_running(next);
        return;
    }
    idle[idle_count++] = fiber;
    set_running(next);
    fiber_switch(fiber, simt_block.thread[next].fiber);
}

_Noreturn void schedule_leave(void) {
    simt_on_fiber = 0;
    abandoned = true;
    fibers_made = idle_count = 0;
    fiber_leave(&host);
}

void schedule_launch_begin(void (*call)(const void *params), const void *params) {
    kernel_call = call;
    kernel_params = params;
    const dim3 size = simt_running.block;
    for (unsigned i = 0; i < simt_running.threads; i++) {
        thread_idx[i] = (uint3){i % size.x, i / size.x % size.y, i / size.x / size.y};
    }
    search.order = simt_settings()->order;
}

// Mixes seed and block number (the finaliser of MurmurHash3), so that a block's order does not
// depend on which process runs it.
static uint64_t random_start(void) {
    uint64_t x = simt_settings()->seed + 0x9e3779b97f4a7c15U * (simt_running.block_number + 1);
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdU;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53U;
    return (x ^ x >> 33) | 1;
}

bool schedule_block(void) {
    const unsigned threads = simt_running.threads;
    simt_block.live = threads;
    simt_block.waiting = 0;
    simt_block.divergent = false;
    simt_block.ready_warps = 0;
    abandoned = false;
    predicates = 0;
    for (unsigned i = 0; i < threads; i++) {
        simt_block.thread[i].fiber = NULL;
        simt_block.thread[i].file = NULL;
    }
    for (unsigned warp = 0; warp * SIMT_WARP < threads; warp++) {
        const unsigned lanes = threads - warp * SIMT_WARP;
        simt_block.warp[warp].live = lanes < SIMT_WARP ? (1U << lanes) - 1 : 0xffffffffU;
        simt_block.warp[warp].ready = 0;
        simt_block.warp[warp].groups = 0;
        schedule_ready(warp, simt_block.warp[warp].live);
    }
    search.warp = search.lane = -1;
    search.turns = 0;
    search.random = random_start();
    const unsigned first = choose();
    simt_block.thread[first].fiber = take_fiber();
    if (simt_block.thread[first].fiber == NULL) {
        SimtFinding finding = {.kind = SIMT_CRASH};
        finding_locate(&finding, first);
        finding_record(&finding, "there is no memory for the threads' stacks");
        return false;
    }
    set_running(first);
    fiber_switch(&host, simt_block.thread[first].fiber);
    return !abandoned;
}
