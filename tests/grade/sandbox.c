// A child process under limits. Time, output and memory are watched from outside: an address-space
// limit would break the sanitizers, which reserve terabytes that they never touch. What the child
// leaves behind is killed with it, also when it left the process group.
#include "tests/grade/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WATCH_MS = 2 };

// What a run needs while it goes on.
typedef struct Watch {
    pid_t child;
    int output_fd;
    int record_fd; // -1 for a tool
    Records records;
    double start;
    double next_census; // when the descendants are counted next
} Watch;

// Ctrl-C: the child is killed, the temporary files are removed, then the grader ends.
static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static double now(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Reads what there is; closes the pipe at its end.
static void drain(Run *run, Watch *watch, int *fd, size_t output_limit) {
    char bytes[16384];
    ssize_t got = 0;

    while (*fd >= 0 && run->output.length <= output_limit &&
           (got = read(*fd, bytes, sizeof(bytes))) > 0) {
        if (fd == &watch->record_fd) {
            take_bytes(run, &watch->records, bytes, (size_t)got);
            return; // the other pipe and the clock get their turn
        }
        text_add(&run->output, bytes, (size_t)got);
    }
    if (*fd >= 0 && (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))) {
        close(*fd);
        *fd = -1;
    }
}

// True when a limit is exceeded; run->end says which.
static bool over_limit(Run *run, Watch *watch, const Limits *limits) {
    double time = now();

    if (run->output.length > limits->output) {
        run->end = END_OUTPUT;
        return true;
    }
    if (time - watch->start > limits->seconds) {
        run->end = END_TIME;
        return true;
    }
    if (resident_bytes(watch->child) > limits->memory) {
        run->end = END_MEMORY;
        return true;
    }
    if (time >= watch->next_census) {
        Census census = take_census(watch->child);
        double taken = now();

        watch->next_census = taken + 0.02 + 20 * (taken - time);
        if (census.memory > limits->memory || census.processes > MAX_PROCESSES) {
            run->end = census.memory > limits->memory ? END_MEMORY : END_PROCESSES;
            return true;
        }
    }
    return run->garbled || interrupted;
}

static void watch_child(Run *run, Watch *watch, const Limits *limits) {
    int status = 0;
    bool exited = false;

    watch->start = now();
    watch->next_census = watch->start + 0.05;
    while (!exited) {
        struct pollfd fds[2] = {{watch->output_fd, POLLIN, 0}, {watch->record_fd, POLLIN, 0}};

        poll(fds, 2, WATCH_MS);
        exited = waitpid(watch->child, &status, WNOHANG) == watch->child;
        drain(run, watch, &watch->output_fd, limits->output);
        drain(run, watch, &watch->record_fd, limits->output);
        if (!exited && over_limit(run, watch, limits)) {
            kill(watch->child, SIGKILL);
            kill(-watch->child, SIGKILL);
            while (waitpid(watch->child, &status, 0) < 0 && errno == EINTR) {
            }
            break;
        }
    }
    run->seconds = now() - watch->start;
    kill_descendants(watch->child);
    for (int turn = 0; turn < 64 && watch->record_fd >= 0 && !run->garbled; turn++) {
        drain(run, watch, &watch->record_fd, limits->output);
    }
    drain(run, watch, &watch->output_fd, limits->output);
    if (exited && WIFSIGNALED(status)) {
        run->end = WTERMSIG(status) == SIGXCPU ? END_TIME : END_SIGNAL;
        run->code = WTERMSIG(status);
    } else if (exited) {
        run->end = run->output.length > limits->output ? END_OUTPUT : END_EXIT;
        run->code = WEXITSTATUS(status);
    }
    if (run->end != END_EXIT || run->code != 0 || run->garbled) {
        run->passed = false;
    }
}

static void make_pipe(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) {
        die("pipe: %s", strerror(errno));
    }
}

void catch_interrupts(void) {
    const struct sigaction action = {.sa_handler = interrupt};

    if (sigaction(SIGINT, &action, NULL) != 0 || sigaction(SIGTERM, &action, NULL) != 0 ||
        sigaction(SIGHUP, &action, NULL) != 0) {
        die("sigaction: %s", strerror(errno));
    }
}

bool was_interrupted(void) {
    return interrupted != 0;
}

static void close_end(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

// Makes the pipes of a suite: the records, and the nonce, which lies ready in its pipe.
static void make_suite_pipes(Watch *watch, Ends *ends) {
    int records[2];
    int nonce[2];

    make_pipe(records);
    make_pipe(nonce);
    if (getrandom(watch->records.nonce, NONCE_BYTES, 0) != NONCE_BYTES ||
        write(nonce[1], watch->records.nonce, NONCE_BYTES) != NONCE_BYTES ||
        fcntl(records[0], F_SETFL, O_NONBLOCK) != 0) {
        die("the record pipe: %s", strerror(errno));
    }
    close(nonce[1]);
    watch->record_fd = records[0];
    ends->records = records[1];
    ends->nonce = nonce[0];
}

// Waits until the child has become its program; ends this one with the reason if it cannot.
static void require_start(int trouble) {
    char reason[256];
    ssize_t got;

    do {
        got = read(trouble, reason, sizeof(reason));
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        die("cannot run %.*s", (int)got, reason);
    }
    close(trouble);
}

// executable < 0: a tool, whose TMPDIR is `temporary`, run as `user` if that is not 0.
static void run_child(Run *run, int executable, char *const *argv, const Limits *limits,
                      const char *temporary, uid_t user) {
    Watch watch = {.output_fd = -1, .record_fd = -1};
    Ends ends = {
        .executable = executable, .records = -1, .nonce = -1, .temporary = temporary, .user = user};
    int output[2];
    int trouble[2];

    *run = (Run){0};
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        die("prctl: %s", strerror(errno));
    }
    make_pipe(output);
    make_pipe(trouble);
    if (executable >= 0) {
        make_suite_pipes(&watch, &ends);
    }
    if (fcntl(output[0], F_SETFL, O_NONBLOCK) != 0) {
        die("fcntl: %s", strerror(errno));
    }
    ends.output = output[1];
    ends.trouble = trouble[1];
    watch.output_fd = output[0];
    fflush(NULL);
    watch.child = fork();
    if (watch.child < 0) {
        die("fork: %s", strerror(errno));
    }
    if (watch.child == 0) {
        start_child(ends, argv, limits);
    }
    setpgid(watch.child, watch.child); // whichever of the two comes first
    close(ends.output);
    close(ends.trouble);
    close_end(ends.records);
    close_end(ends.nonce);
    require_start(trouble[0]);
    watch_child(run, &watch, limits);
    close_end(watch.output_fd);
    close_end(watch.record_fd);
    if (interrupted) {
        die("interrupted");
    }
}

void run_tool(Run *run, char *const *argv, const Limits *limits, const char *temporary,
              uid_t user) {
    run_child(run, -1, argv, limits, temporary, user);
}

// The executable is opened here and run by its descriptor: the unprivileged user need not be able
// to reach the folder that it is in.
void run_suite(Run *run, const char *executable, char *const *argv, const Limits *limits) {
    const mode_t everyone = S_IRUSR | S_IXUSR | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH;
    int fd = open(executable, O_RDONLY | O_CLOEXEC);
    struct stat info;

    if (fd < 0 || fstat(fd, &info) != 0 ||
        ((info.st_mode & everyone) != everyone && fchmod(fd, 0755) != 0)) {
        die("%s: %s", executable, strerror(errno));
    }
    make_scratch();
    run_child(run, fd, argv, limits, NULL, 0);
    remove_scratch();
    close(fd);
}

void run_free(Run *run) {
    free(run->title);
    free(run->in_case);
    free(run->failure);
    names_free(&run->entries);
    text_free(&run->output);
    *run = (Run){0};
}
