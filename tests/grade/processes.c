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

typedef struct Process {
    pid_t pid;
    size_t parent; // its index in the list, the list's length when it is not there
    bool below;    // it belongs to the run
} Process;

typedef struct Processes {
    Process *process;
    pid_t *parent;
    size_t count;
} Processes;

static void list_process(Processes *all, pid_t pid, pid_t parent, bool below) {
    if (all->count % 256 == 0) {
        all->process = realloc(all->process, (all->count + 256) * sizeof(Process));
        all->parent = realloc(all->parent, (all->count + 256) * sizeof(pid_t));
        if (all->process == NULL || all->parent == NULL) {
            die("out of memory");
        }
    }
    all->parent[all->count] = parent;
    all->process[all->count++] = (Process){.pid = pid, .below = below};
}

// All processes there are. Those of the group, and those that have this process as their parent,
// are marked: orphans come back to it, since it is their subreaper.
static Processes list_processes(pid_t group) {
    DIR *proc = opendir("/proc");
    const struct dirent *entry;
    Processes all = {0};

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
        if (after != NULL && sscanf(after, ") %*c %d %d", &parent, &process_group) == 2) {
            list_process(&all, pid, parent, parent == getpid() || process_group == group);
        }
        free(stat);
        free(path);
    }
    if (proc != NULL) {
        closedir(proc);
    }
    return all;
}

// Marks the children of those that are marked, and theirs.
static void mark_descendants(Processes *all) {
    bool more = true;

    for (size_t i = 0; i < all->count; i++) {
        size_t p = 0;

        while (p < all->count && all->process[p].pid != all->parent[i]) {
            p++;
        }
        all->process[i].parent = p;
    }
    while (more) {
        more = false;
        for (size_t i = 0; i < all->count; i++) {
            const size_t p = all->process[i].parent;

            if (!all->process[i].below && p < all->count && all->process[p].below) {
                all->process[i].below = more = true;
            }
        }
    }
}

// Calls visit for every process of the run, whatever group or session it put itself into.
static void each_descendant(pid_t group, void (*visit)(pid_t pid, void *context), void *context) {
    Processes all = list_processes(group);

    mark_descendants(&all);
    for (size_t i = 0; i < all.count; i++) {
        if (all.process[i].below) {
            visit(all.process[i].pid, context);
        }
    }
    free(all.process);
    free(all.parent);
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

static void stop_process(pid_t pid, void *context) {
    (void)context;
    kill(pid, SIGSTOP);
}

static void kill_process(pid_t pid, void *context) {
    (void)context;
    kill(pid, SIGKILL);
}

// Kills what is left of the run and reaps it, so that neither processes nor zombies remain. What
// starts processes faster than they are killed is stopped first: stopped ones start none, and they
// still count against the limit of the user's processes.
void kill_descendants(pid_t group) {
    for (int round = 0; round < 1000; round++) {
        pid_t reaped;

        for (int pass = 0; round > 0 && pass < 8; pass++) {
            each_descendant(group, stop_process, NULL);
        }
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
