// Independent jobs in as many processes as there are processors. The jobs change nothing that this
// process sees except shared memory and files.
#include "tests/grade/grader.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        die("mmap: %s", strerror(errno));
    }
    return memory;
}

// Takes jobs until none is left; each one's number goes into the pipe when it is done.
static _Noreturn void work(atomic_size_t *next, size_t count, void *context, Job job, int done) {
    size_t i;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    while ((i = atomic_fetch_add(next, 1)) < count) {
        job(context, i);
        if (write(done, &i, sizeof(i)) != sizeof(i)) {
            break;
        }
    }
    exit(0); // through the exit handlers: this process's temporary files go
}

void run_jobs(size_t count, void *context, Job job, JobDone done) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t workers = processors > 1 ? (size_t)processors : 1;
    atomic_size_t *next = shared_memory(sizeof(*next));
    bool *finished = allocate(count, sizeof(bool));
    pid_t *worker = allocate(workers, sizeof(pid_t));
    size_t started = 0;
    size_t reported = 0;
    size_t i;
    ssize_t got;
    int ends[2];

    atomic_init(next, 0);
    if (pipe(ends) != 0) {
        die("pipe: %s", strerror(errno));
    }
    fflush(NULL);
    for (size_t w = 0; w < workers && w < count; w++) {
        pid_t pid = fork();

        if (pid < 0) {
            die("fork: %s", strerror(errno));
        }
        if (pid == 0) {
            close(ends[0]);
            work(next, count, context, job, ends[1]);
        }
        worker[started++] = pid;
    }
    close(ends[1]);
    while ((got = read(ends[0], &i, sizeof(i))) == sizeof(i) || (got < 0 && errno == EINTR)) {
        if (got > 0 && i < count) {
            finished[i] = true;
        }
        for (size_t w = 0; w < started && was_interrupted(); w++) {
            kill(worker[w], SIGTERM);
        }
        for (; reported < count && finished[reported]; reported++) {
            done(context, reported, true);
        }
    }
    while (wait(NULL) > 0 || errno == EINTR) {
    }
    if (was_interrupted()) {
        die("interrupted");
    }
    for (; reported < count; reported++) {
        done(context, reported, finished[reported]);
    }
    close(ends[0]);
    free(worker);
    free(finished);
    munmap(next, sizeof(*next));
}
