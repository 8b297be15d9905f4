// The blocks of a launch over several processes. The host runs the first blocks itself; where the
// rest would take long enough, it forks workers, which take blocks from a shared counter as the
// host does. Device memory is shared (memory.c); stacks and shared memory each process has its own.
#include "common/simt/schedule.h"

#include "common/timer.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { MAX_WORKERS = 64 };
#define FORK_PAYS_S    2e-3 // of work that is left
#define PATIENCE_S     5.0  // with a worker whose own watchdog should have ended it
#define FIRST_SLEEP_NS 50000L
#define LONG_SLEEP_NS  1000000L

typedef struct Worker {
    _Atomic bool done;      // took its last block and left the rest in order
    bool failed;            // in `block`
    _Atomic uint64_t block; // the one it runs
    SimtFinding finding;
    char text[FINDING_TEXT];
} Worker;

static struct Shared {
    _Atomic uint64_t next; // block to hand out
    _Atomic uint64_t end;  // those from here on need not run: the number of blocks, or one failed
    Worker worker[MAX_WORKERS]; // 0 is the host
} * shared;                     // NULL: not mapped yet

static pid_t process[MAX_WORKERS];

static int worker_count(void) {
    int count = simt_settings()->workers;
    if (count == 0) {
#ifdef __linux__
        cpu_set_t cpus;
        count = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
#else
        count = (int)sysconf(_SC_NPROCESSORS_ONLN);
#endif
    }
    return count < 1 ? 1 : count > MAX_WORKERS ? MAX_WORKERS : count;
}

// The launch's time is up, seen between two blocks.
static void record_timeout(void) {
    SimtFinding finding = {.kind = SIMT_TIMEOUT};
    char detail[160];
    finding_place(&finding.here, simt_running.launch_file, simt_running.launch_line, 0);
    finding_locate(&finding, 0);
    snprintf(detail, sizeof detail, "the launch takes longer than %g s (SIMT_TIMEOUT)",
             simt_settings()->timeout_s);
    finding_record(&finding, detail);
}

static bool run_block(uint64_t number) {
    if (!launch_block(number)) {
        return false;
    }
    if (crash_timed_out()) {
        record_timeout();
        return false;
    }
    return true;
}

// Takes blocks until none is left, or one fails: then those before it are still finished, by
// whoever has them, so that the lowest that fails is always the same.
static void take_blocks(Worker *self) {
    for (;;) {
        const uint64_t number = atomic_fetch_add(&shared->next, 1);
        if (number >= atomic_load(&shared->end)) {
            break;
        }
        self->block = number;
        if (!run_block(number)) {
            self->finding = *simt_finding();
            snprintf(self->text, sizeof self->text, "%s", attn_last_error());
            self->failed = true;
            uint64_t end = atomic_load(&shared->end);
            while (number < end && !atomic_compare_exchange_weak(&shared->end, &end, number)) {
            }
            break;
        }
    }
    self->done = true;
}

static _Noreturn void run_worker(int index, pid_t host) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() == host) {
        crash_begin_worker();
        take_blocks(&shared->worker[index]);
        fflush(stdout); // what the kernel printed
    }
    _exit(0);
}

// A worker that ended without having said so.
static void record_death(int index, int status) {
    Worker *worker = &shared->worker[index];
    SimtFinding finding = {.kind = SIMT_CRASH};
    const dim3 grid = simt_running.grid;
    const uint64_t number = worker->block;
    char detail[200];
    simt_running.block_idx =
        (uint3){(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                (unsigned)(number / grid.x / grid.y)};
    finding_place(&finding.here, simt_running.launch_file, simt_running.launch_line, 0);
    finding_locate(&finding, 0);
    if (WIFSIGNALED(status)) {
        snprintf(detail, sizeof detail, "the process that ran this block was ended by signal %d",
                 WTERMSIG(status));
    } else {
        snprintf(detail, sizeof detail, "the process that ran this block ended with status %d",
                 WEXITSTATUS(status));
    }
    finding_record(&finding, detail);
    worker->finding = *simt_finding();
    snprintf(worker->text, sizeof worker->text, "%s", attn_last_error());
    worker->failed = true;
}

// Waits for a worker's end; one that outstays every watchdog is killed.
static void await(int index, double deadline) {
    struct timespec nap = {0, FIRST_SLEEP_NS};
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(process[index], &status, WNOHANG)) == 0 ||
           (ended < 0 && errno == EINTR)) {
        if (timer_now() > deadline) {
            kill(process[index], SIGKILL);
        }
        nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec * 2 < LONG_SLEEP_NS ? nap.tv_nsec * 2 : LONG_SLEEP_NS;
    }
    if (!shared->worker[index].done) {
        record_death(index, status);
    }
}

// The finding of the lowest block that failed becomes the launch's. false: there is one.
static bool lowest_finding(int workers) {
    const Worker *lowest = NULL;
    for (int i = 0; i < workers; i++) {
        const Worker *worker = &shared->worker[i];
        if (worker->failed && (lowest == NULL || worker->block < lowest->block)) {
            lowest = worker;
        }
    }
    if (lowest != NULL) {
        finding_restore(&lowest->finding, lowest->text);
    }
    return lowest == NULL;
}

static bool run_on_workers(uint64_t first, uint64_t blocks, int workers) {
    const double deadline =
        timer_now() + simt_settings()->timeout_s + simt_settings()->slice_s + PATIENCE_S;
    const pid_t host = getpid();
    memset(shared, 0, sizeof *shared);
    shared->next = first;
    shared->end = blocks;
    fflush(NULL); // or every process would write what is still in the buffers
    int count = 1;
    while (count < workers) {
        process[count] = fork();
        if (process[count] == 0) {
            run_worker(count, host);
        }
        if (process[count] < 0) {
            break; // no more processes: go on with those there are
        }
        count++;
    }
    take_blocks(&shared->worker[0]);
    for (int i = 1; i < count; i++) {
        await(i, deadline);
    }
    return lowest_finding(count);
}

static bool map_shared(void) {
    if (shared == NULL) {
        void *mapped =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        shared = mapped == MAP_FAILED ? NULL : mapped;
    }
    return shared != NULL;
}

bool workers_run(uint64_t blocks) {
    const int workers = simt_running.traced ? 1 : worker_count();
    const double start = timer_now();
    for (uint64_t done = 0; done < blocks; done++) {
        const uint64_t left = blocks - done;
        if (done > 0 && left > 1 && workers > 1 &&
            (timer_now() - start) / (double)done * (double)left > FORK_PAYS_S && map_shared()) {
            return run_on_workers(done, blocks, left < (uint64_t)workers ? (int)left : workers);
        }
        if (!run_block(done)) {
            return false;
        }
    }
    return true;
}
