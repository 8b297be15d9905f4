// Signals and the watchdog. A fault in a kernel (a bad address, a division by zero, a stack that is
// full), a thread that never ends and a launch that takes too long end the launch with a finding;
// the program goes on. The handlers are installed during a launch only, and what comes from outside
// a kernel's thread goes to those that were there before.
//
// The handler runs on a stack of its own, notes what it knows, and leaves the fiber for the host as
// a barrier would; the host then has the time to look up the source line.
#include "common/simt/schedule.h"

#include "common/timer.h"

#include <fenv.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define HAVE_BACKTRACE 1
#endif
#endif
#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#endif

// The timer counts the process's own processor time: an idle or busy machine changes nothing.
enum { TICK = SIGVTALRM };
#define TICK_TIMER ITIMER_VIRTUAL
static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, TICK};
enum { SIGNALS = sizeof signals / sizeof signals[0], FRAMES = 32, HANDLER_STACK = 128 * 1024 };
#define LONGEST_TICK_S  0.25
#define SHORTEST_TICK_S 0.002

volatile sig_atomic_t simt_held;

static struct {
    struct sigaction before[SIGNALS];
    stack_t stack_before;
    sigset_t mask_before;
    struct itimerval timer_before;
    pthread_t thread; // that launches
    fenv_t rounding;  // a handler begins with the default's
    double deadline;  // of the launch, timer_now
} launch;
static char handler_stack[HANDLER_STACK] __attribute__((aligned(16)));

// The thread's present slice: since when, and what simt_progress was.
static double slice_start;
static uint64_t slice_progress;
static volatile sig_atomic_t timed_out; // found while no fiber ran

// What a handler found.
static struct {
    enum { NO_SIGNAL = 0, FAULT, SLICE_OVER, LAUNCH_OVER } what;
    int signal, code;
    const void *address;
    void *pc; // NULL: not known
    bool write, misaligned;
    unsigned thread;
    int frames;
    void *frame[FRAMES]; // who called whom, the handler first
} caught;
static volatile sig_atomic_t looking; // at the stack, which may fault itself

// ---- what the processor says --------------------------------------------------------------------

#if defined(__x86_64__) && defined(__linux__)
static void *program_counter(const ucontext_t *context) {
    void *counter;
    memcpy(&counter, &context->uc_mcontext.gregs[REG_RIP], sizeof counter);
    return counter;
}

static bool was_write(const ucontext_t *context) {
    return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
}

// A general protection fault comes without an address: from a pointer that is none, with bits set
// that no address has, or from a vector instruction that needs an aligned one.
static bool was_misaligned(const ucontext_t *context, const siginfo_t *info) {
    if (info->si_signo != SIGSEGV || info->si_code != SI_KERNEL || info->si_addr != NULL) {
        return false;
    }
    for (int i = REG_R8; i < REG_RSP; i++) { // R8..R15, RDI, RSI, RBP, RBX, RDX, RAX, RCX
        const int64_t high = (int64_t)context->uc_mcontext.gregs[i] >> 47;
        if (high != 0 && high != -1) {
            return false;
        }
    }
    return true;
}
#elif defined(__aarch64__) && defined(__linux__)
static void *program_counter(const ucontext_t *context) {
    void *counter;
    memcpy(&counter, &context->uc_mcontext.pc, sizeof counter);
    return counter;
}

static bool was_write(const ucontext_t *context) {
    (void)context;
    return false;
}

static bool was_misaligned(const ucontext_t *context, const siginfo_t *info) {
    (void)context;
    return info->si_signo == SIGBUS && info->si_code == BUS_ADRALN;
}
#else
static void *program_counter(const ucontext_t *context) {
    (void)context;
    return NULL;
}

static bool was_write(const ucontext_t *context) {
    (void)context;
    return false;
}

static bool was_misaligned(const ucontext_t *context, const siginfo_t *info) {
    (void)context;
    return info->si_signo == SIGBUS && info->si_code == BUS_ADRALN;
}
#endif

// ---- the handler --------------------------------------------------------------------------------

static double processor_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Gives a signal to the handler that was there before: a fault by running into it again.
static void pass_on(int signal, const siginfo_t *info) {
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i] == signal) {
            sigaction(signal, &launch.before[i], NULL);
        }
    }
    if (info->si_code <= 0) { // sent by a process
        raise(signal);
    }
}

// Whether a tick ends the launch, and why.
static bool time_is_up(void) {
    if (timer_now() > launch.deadline) {
        caught.what = LAUNCH_OVER;
        return true;
    }
    const double now = processor_time();
    if (simt_progress != slice_progress) {
        slice_progress = simt_progress;
        slice_start = now;
    } else if (now - slice_start >= simt_settings()->slice_s) {
        caught.what = SLICE_OVER;
        return true;
    }
    return false;
}

static void look_at_stack(void) {
#ifdef HAVE_BACKTRACE
    looking = 1;
    caught.frames = backtrace(caught.frame, FRAMES);
    looking = 0;
#endif
}

static void handle(int signal, siginfo_t *info, void *context) {
    const ucontext_t *interrupted = context;
    if (looking && signal != TICK) { // a stack too damaged to be read
        looking = 0;
        schedule_leave();
    }
    if (!pthread_equal(pthread_self(), launch.thread)) {
        if (signal == TICK) {
            pthread_kill(launch.thread, TICK);
        } else {
            pass_on(signal, info);
        }
        return;
    }
    if (signal == TICK) {
        if (looking || caught.what != NO_SIGNAL || simt_held != 0 || !time_is_up()) {
            return;
        }
        if (!simt_on_fiber) {
            timed_out = caught.what == LAUNCH_OVER;
            caught.what = NO_SIGNAL;
            return;
        }
    } else if (!simt_on_fiber) {
        pass_on(signal, info);
        return;
    } else {
        caught.what = FAULT;
    }
    caught.signal = signal;
    caught.code = info->si_code;
    caught.address = info->si_addr;
    caught.pc = program_counter(interrupted);
    caught.write = was_write(interrupted);
    caught.misaligned = was_misaligned(interrupted, info);
    caught.thread = simt_running.thread;
    caught.frames = 0;
    look_at_stack();
    schedule_leave();
}

// ---- begin and end ------------------------------------------------------------------------------

static void start_timer(void) {
    const SimtSettings *settings = simt_settings();
    const double shorter =
        settings->slice_s < settings->timeout_s ? settings->slice_s : settings->timeout_s;
    double tick = shorter / 8;
    tick = tick > LONGEST_TICK_S ? LONGEST_TICK_S : tick < SHORTEST_TICK_S ? SHORTEST_TICK_S : tick;
    const struct timeval interval = {(time_t)tick, (suseconds_t)(tick * 1e6)};
    const struct itimerval timer = {interval, interval};
    slice_start = processor_time();
    slice_progress = simt_progress;
    setitimer(TICK_TIMER, &timer, &launch.timer_before);
}

void crash_begin(void) {
    const stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    memset(&caught, 0, sizeof caught);
    timed_out = looking = simt_held = 0;
    launch.thread = pthread_self();
    launch.deadline = timer_now() + simt_settings()->timeout_s;
    fegetenv(&launch.rounding);
#if SIMT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(handler_stack, sizeof handler_stack);
#endif
#ifdef HAVE_BACKTRACE
    static bool loaded; // the first call loads a library, which no handler may
    if (!loaded) {
        void *frame[2];
        loaded = backtrace(frame, 2) >= 0;
    }
#endif
    sigaltstack(&stack, &launch.stack_before);
    // The handler's own signals stay open: it does not return, so that nothing would open them.
    struct sigaction action = {.sa_sigaction = handle,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};
    sigset_t open;
    sigemptyset(&action.sa_mask);
    sigemptyset(&open);
    for (int i = 0; i < SIGNALS; i++) {
        sigaddset(&open, signals[i]);
        sigaction(signals[i], &action, &launch.before[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &open, &launch.mask_before);
    start_timer();
}

void crash_end(void) {
    setitimer(TICK_TIMER, &launch.timer_before, NULL);
    for (int i = 0; i < SIGNALS; i++) {
        sigaction(signals[i], &launch.before[i], NULL);
    }
    pthread_sigmask(SIG_SETMASK, &launch.mask_before, NULL);
    sigaltstack(&launch.stack_before, NULL);
}

void crash_begin_worker(void) {
    start_timer(); // timers are not inherited
}

bool crash_timed_out(void) {
    return timed_out != 0;
}

// ---- the finding --------------------------------------------------------------------------------

// A line of the C library, of a sanitizer or of this runtime, not of a kernel.
static bool is_foreign(const char *file) {
    const char *dot = strrchr(file, '.');
    return dot == NULL || strcmp(dot, ".c") == 0 || strcmp(dot, ".S") == 0 ||
           strcmp(dot, ".s") == 0 || strcmp(dot, ".cpp") == 0 || strcmp(dot, ".inc") == 0;
}

// The line of the kernel where it happened: of the address itself, or of the innermost caller in a
// kernel file when that lies in a library or in the runtime; or where the thread waited last.
static void find_line(SimtPlace *place) {
    char file[128];
    int line, frame = 0;
    while (frame < caught.frames && caught.frame[frame] != caught.pc) {
        frame++;
    }
    const char *at = caught.pc;
    do {
        if (at != NULL && simt_source_line(at, file, sizeof file, &line) && !is_foreign(file)) {
            snprintf(place->file, sizeof place->file, "%s", file);
            place->line = line;
            return;
        }
        frame++;
        at = (const char *)caught.frame[frame % FRAMES] - 1; // in the call that it returns to
    } while (frame < caught.frames);
    const Thread *thread = &simt_block.thread[caught.thread];
    if (thread->file != NULL) {
        finding_place(place, thread->file, thread->line, caught.thread);
    }
}

static void describe_time(SimtFinding *finding, char *detail, size_t bytes) {
    finding->kind = SIMT_TIMEOUT;
    if (caught.what == SLICE_OVER) {
        snprintf(detail, bytes,
                 "it has run for %g s without coming to a barrier or to its end; is this loop "
                 "endless, or does it wait for another thread?",
                 simt_settings()->slice_s);
    } else {
        snprintf(detail, bytes,
                 "the launch takes longer than %g s (SIMT_TIMEOUT); this is where it was",
                 simt_settings()->timeout_s);
    }
}

// An address that no buffer holds, in the arena or around dynamic shared memory.
static bool describe_gap(SimtFinding *finding, char *detail, size_t bytes) {
    const char *verb = caught.write ? "writes" : "reads";
    const uintptr_t address = (uintptr_t)caught.address;
    const uintptr_t shared = address - (uintptr_t)simt_running.dynamic_shared;
    if (shared < simt_running.dynamic_reserved) {
        finding->offset = (int64_t)shared;
        snprintf(finding->buffer, sizeof finding->buffer, "dynamic shared memory");
        snprintf(detail, bytes, "it %s offset %td of dynamic shared memory, which has %zu bytes",
                 verb, (ptrdiff_t)shared, simt_running.dynamic_bytes);
        return true;
    }
    if (simt_arena == NULL || address - (uintptr_t)simt_arena >= simt_arena_size) {
        return false;
    }
    const SimtBuffer *nearest;
    simt_buffer_at(caught.address, &nearest);
    if (nearest == NULL) {
        snprintf(detail, bytes, "it %s device memory that is not allocated", verb);
        return true;
    }
    finding->offset = (int64_t)(address - (uintptr_t)nearest->start);
    snprintf(finding->buffer, sizeof finding->buffer, "%s", nearest->name);
    snprintf(detail, bytes,
             "it %s outside every buffer: at offset %lld of the nearest, \"%s\", which has %zu "
             "bytes (%zu elements)",
             verb, (long long)finding->offset, nearest->name, nearest->bytes,
             nearest->bytes / nearest->element);
    return true;
}

static void describe_fault(SimtFinding *finding, char *detail, size_t bytes) {
    finding->kind = SIMT_CRASH;
    if (caught.signal == SIGFPE) {
        snprintf(detail, bytes, "an integer is divided by zero");
    } else if (caught.signal == SIGILL) {
        snprintf(detail, bytes, "an instruction that the processor does not have, or a trap");
    } else if (caught.misaligned) {
        finding->kind = SIMT_MISALIGNED;
        snprintf(detail, bytes,
                 "a vector (float4, for example) lies at an address that is not a "
                 "multiple of its size");
    } else if (fiber_is_guard(caught.address)) {
        snprintf(detail, bytes,
                 "stack overflow: a thread has %d KiB for its local arrays and calls",
                 FIBER_STACK_BYTES / 1024);
    } else if (describe_gap(finding, detail, bytes)) {
        finding->kind = SIMT_OUT_OF_BOUNDS;
    } else if ((uintptr_t)caught.address < 4096) {
        snprintf(detail, bytes, "it %s address 0x%zx, a null pointer",
                 caught.write ? "writes" : "reads", (size_t)caught.address);
    } else {
        snprintf(detail, bytes, "it %s address 0x%zx, which is no device memory",
                 caught.write ? "writes" : "reads", (size_t)caught.address);
    }
}

void crash_finding(void) {
    if (caught.what == NO_SIGNAL) {
        return;
    }
    SimtFinding finding = {0};
    char detail[FINDING_TEXT];
    fesetenv(&launch.rounding);
    if (caught.what == FAULT) {
        describe_fault(&finding, detail, sizeof detail);
    } else {
        describe_time(&finding, detail, sizeof detail);
    }
    finding_locate(&finding, caught.thread);
    finding.here.write = caught.what == FAULT && caught.write;
    find_line(&finding.here);
    finding_record(&finding, detail);
    caught.what = NO_SIGNAL;
}
