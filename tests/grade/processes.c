// The processes of a run as /proc shows them: how many there are, how much memory they hold, and
// their end.
#include "tests/grade/grader.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Resident bytes of a process, from the second number of its statm; 0 when it is gone.
size_t resident_bytes(pid_t pid) {
    char path[64];
    char text[128] = "";
    unsigned long pages = 0;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, text, sizeof(text) - 1) > 0) {
            sscanf(text, "%*u %lu", &pages);
        }
        close(fd);
    }
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

// Calls visit for every process of the group or that has this process as its parent: orphans come
// back to it, since it is their subreaper.
static void each_descendant(pid_t group, void (*visit)(pid_t pid, void *context), void *context) {
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        char *path;
        char *stat;
        const char *after;
        int parent = 0;
        int process_group = 0;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid <= 0) {
            continue;
        }
        path = format_text("/proc/%ld/stat", (long)pid);
        stat = read_file(path, 4096);
        after = stat != NULL ? strrchr(stat, ')') : NULL;
        if (after != NULL && sscanf(after, ") %*c %d %d", &parent, &process_group) == 2 &&
            (parent == getpid() || process_group == group)) {
            visit(pid, context);
        }
        free(stat);
        free(path);
    }
    if (proc != NULL) {
        closedir(proc);
    }
}

static void count_process(pid_t pid, void *context) {
    Census *census = context;

    census->processes++;
    census->memory += resident_bytes(pid);
}

Census take_census(pid_t group) {
    Census census = {0};

    each_descendant(group, count_process, &census);
    return census;
}

static void kill_process(pid_t pid, void *context) {
    (void)context;
    kill(pid, SIGKILL);
}

// Kills what is left of the run and reaps it, so that neither processes nor zombies remain.
void kill_descendants(pid_t group) {
    for (int round = 0; round < 1000; round++) {
        pid_t reaped;

        kill(-group, SIGKILL);
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (reaped < 0) {
            return; // no child of any kind is left
        }
        each_descendant(group, kill_process, NULL);
        usleep(1000);
    }
}
