// The child's side of a run: descriptors, limits, user, and then the program.
#include "tests/grade/assignment.h"
#include "tests/grade/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { FILE_LIMIT = 16 << 20, TOOL_FILE_LIMIT = 128 << 20 }; // bytes of one file

// The suite's environment: short reports, no leak check (a learner's lab may keep its buffers), red
// zones wide enough to catch a row too far, and an exit status that names the sanitizer.
static char asan_options[] =
    "ASAN_OPTIONS=detect_leaks=0:exitcode=83:redzone=512:max_redzone=2048:quarantine_size_mb=16:"
    "max_allocation_size_mb=2048:allocator_may_return_null=0:color=never";
static char ubsan_options[] = "UBSAN_OPTIONS=print_stacktrace=1:exitcode=83:color=never";
static char seed_variable[32]; // what grade_normal's values depend on, 0: the fixed cases
static char *const suite_environment[] = {
    "PATH=/usr/bin:/bin", "LC_ALL=C", "OMP_NUM_THREADS=2", asan_options, ubsan_options,
    seed_variable,        NULL};

static char scratch[PATH_BYTES]; // the suite's working directory
static pid_t scratch_owner;      // the process that made it, 0 when there is none

void make_scratch(void) {
    const char *base = getenv("TMPDIR");

    snprintf(scratch, sizeof(scratch), "%s/tile-grade-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(scratch) == NULL) {
        die("%s: %s", scratch, strerror(errno));
    }
    scratch_owner = getpid();
    if (geteuid() == 0 && chown(scratch, options.user, options.user) != 0) {
        die("%s: %s", scratch, strerror(errno));
    }
}

void remove_scratch(void) {
    if (scratch_owner == getpid()) {
        remove_tree(scratch);
        scratch_owner = 0;
    }
}

// Reports on the trouble pipe why the program cannot be started, and ends the child.
static _Noreturn void give_up(Ends ends, const char *what) {
    dprintf(ends.trouble, "%s: %s", what, strerror(errno));
    _exit(EXIT_USAGE);
}

// Sets a limit; where there is a lower one already, that one stays.
static void limit(Ends ends, int resource, rlim_t soft, rlim_t hard) {
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max < hard) {
        hard = now.rlim_max;
        soft = soft < hard ? soft : hard;
    }
    if (setrlimit((__rlimit_resource_t)resource, &(struct rlimit){soft, hard}) != 0) {
        give_up(ends, "setrlimit");
    }
}

static void become_unprivileged(Ends ends, uid_t id) {
    struct sysinfo now;

    if (geteuid() != 0) {
        // The limit counts what else this user runs, which is at most all there is.
        if (sysinfo(&now) == 0) {
            limit(ends, RLIMIT_NPROC, now.procs + 2 * MAX_PROCESSES, now.procs + 2 * MAX_PROCESSES);
        }
        return;
    }
    if (setgroups(0, NULL) != 0 || setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0) {
        give_up(ends, "becoming an unprivileged user");
    }
    limit(ends, RLIMIT_NPROC, 4 * MAX_PROCESSES, 4 * MAX_PROCESSES);
}

// Moves fd to a number above those that the suite expects, so that the dup2 calls cannot collide.
static int move_up(Ends ends, int fd) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);

    if (moved < 0) {
        give_up(ends, "fcntl");
    }
    return moved;
}

static void place(Ends ends, int fd, int number) {
    if (dup2(fd, number) < 0) {
        give_up(ends, "dup2");
    }
}

// Nothing that this process has open, or was handed by whoever started it, stays open in the
// program.
static void close_others(void) {
    if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0) { // a kernel before 5.11
        const long most = sysconf(_SC_OPEN_MAX);

        for (int fd = STDERR_FILENO + 1; fd < most && fd < 65536; fd++) {
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
}

static _Noreturn void become_suite(Ends ends, char *const *argv) {
    int executable = move_up(ends, ends.executable);
    int records = move_up(ends, ends.records);
    int nonce = move_up(ends, ends.nonce);

    place(ends, records, RECORD_FD);
    place(ends, nonce, NONCE_FD);
    limit(ends, RLIMIT_FSIZE, FILE_LIMIT, FILE_LIMIT);
    if (chdir(scratch) != 0) {
        give_up(ends, scratch);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        give_up(ends, "prctl");
    }
    snprintf(seed_variable, sizeof(seed_variable), SEED_VARIABLE "=%llx",
             (unsigned long long)suite_seed);
    become_unprivileged(ends, options.user);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // after the change of user, which clears it
    fexecve(executable, argv, suite_environment);
    give_up(ends, argv[0]);
}

void start_child(Ends ends, char *const *argv, const Limits *limits) {
    const rlim_t seconds = 2 * (rlim_t)limits->seconds + 2; // of all threads together
    int null;

    setpgid(0, 0);
    close_others();
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    ends.trouble = move_up(ends, ends.trouble);
    ends.output = move_up(ends, ends.output);
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0) {
        give_up(ends, "/dev/null");
    }
    place(ends, null, STDIN_FILENO);
    place(ends, ends.output, STDOUT_FILENO);
    place(ends, ends.output, STDERR_FILENO);
    limit(ends, RLIMIT_CORE, 0, 0);
    limit(ends, RLIMIT_CPU, seconds, seconds + 2);
    if (ends.executable >= 0) {
        become_suite(ends, argv);
    }
    limit(ends, RLIMIT_FSIZE, TOOL_FILE_LIMIT, TOOL_FILE_LIMIT);
    if (setenv("TMPDIR", ends.temporary, 1) != 0) {
        give_up(ends, "setenv");
    }
    if (ends.user != 0) {
        become_unprivileged(ends, ends.user);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[0], argv);
    give_up(ends, argv[0]);
}
