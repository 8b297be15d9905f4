// Plots: runs a chapter's gnuplot script on the CSV the program has just written.
#include "common/plot.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, MESSAGE_BYTES = 1024 };

static const char FOLDER[] = "build/plots";

// Looks for an executable file gnuplot in the folders of PATH; false when there is none.
static bool find_gnuplot(char found[PATH_BYTES]) {
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        int length = (int)strcspn(path, ":");
        struct stat info;
        int written = snprintf(found, PATH_BYTES, "%.*s/gnuplot", length == 0 ? 1 : length,
                               length == 0 ? "." : path);
        if (written < PATH_BYTES && access(found, X_OK) == 0 && stat(found, &info) == 0 &&
            S_ISREG(info.st_mode)) {
            return true;
        }
        path += length;
        path += *path == ':';
    }
    return false;
}

// Appends "name='value'; " to a gnuplot command: in its single quotes only '' is special. False
// when it does not fit or when the value has a line break, which gnuplot cannot take.
static bool append_variable(char *command, const char *name, const char *value) {
    size_t used = strlen(command);
    used += (size_t)snprintf(command + used, PATH_BYTES - used, "%s='", name);
    for (; *value != '\0' && used + 6 < PATH_BYTES; value++) {
        if (*value == '\n') {
            return false;
        }
        command[used++] = *value;
        if (*value == '\'') {
            command[used++] = '\'';
        }
    }
    if (*value != '\0') {
        return false;
    }
    memcpy(command + used, "'; ", 4);
    return true;
}

// Reads to the end and keeps the last line that is not blank, without leading blanks.
static void read_last_line(FILE *stream, char message[MESSAGE_BYTES]) {
    char line[MESSAGE_BYTES];
    message[0] = '\0';
    while (fgets(line, sizeof line, stream) != NULL) {
        char *start = line + strspn(line, " \t\r\n");
        start[strcspn(start, "\r\n")] = '\0';
        if (*start != '\0') {
            memmove(message, start, strlen(start) + 1);
        }
    }
}

// Runs gnuplot with a command and a script, its stderr in `message` (the last line).
static AttnStatus run_gnuplot(const char *gnuplot, const char *command, const char *script,
                              char message[MESSAGE_BYTES]) {
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0) {
        return attn_fail(ATTN_ERR_IO, "plot: no pipe for gnuplot: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(gnuplot, "gnuplot", "-e", command, script, (char *)NULL);
        dprintf(STDERR_FILENO, "%s: %s\n", gnuplot, strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    FILE *errors = child < 0 ? NULL : fdopen(ends[0], "r");
    if (errors == NULL) {
        close(ends[0]);
        return attn_fail(ATTN_ERR_IO, "plot: gnuplot was not started: %s", strerror(errno));
    }
    read_last_line(errors, message);
    fclose(errors);
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return attn_fail(ATTN_ERR_IO, "plot: gnuplot was lost: %s", strerror(errno));
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return attn_fail(ATTN_ERR_IO, "plot: gnuplot failed: %s",
                         message[0] != '\0' ? message : "it gave no reason");
    }
    return ATTN_OK;
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

// Prints the chapter's pictures of this kind that are not older than `start`.
static void print_pictures(const char *chapter, const char *kind, time_t start) {
    struct dirent **entries;
    int count = scandir(FOLDER, &entries, NULL, compare_names);
    size_t prefix = strlen(chapter), suffix = strlen(kind);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        size_t length = strlen(name);
        char path[PATH_BYTES];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", FOLDER, name);
        if (length > prefix + 1 + suffix && strncmp(name, chapter, prefix) == 0 &&
            name[prefix] == '-' && name[length - suffix - 1] == '.' &&
            strcmp(name + length - suffix, kind) == 0 && stat(path, &info) == 0 &&
            info.st_mtime >= start) {
            printf("plot: %s\n", path);
        }
        free(entries[i]);
    }
    if (count >= 0) {
        free(entries);
    }
}

AttnStatus plot_run(const char *chapter, const char *script, const char *csv, PlotKind kind) {
    static const char *const kinds[] = {"none", "term", "svg", "png"};
    char gnuplot[PATH_BYTES], out[PATH_BYTES], command[PATH_BYTES] = "", message[MESSAGE_BYTES];
    if (kind == PLOT_NONE) {
        return ATTN_OK;
    }
    if (!find_gnuplot(gnuplot)) {
        printf(
            "plot: gnuplot is not installed (Debian/Ubuntu: sudo apt-get install gnuplot-nox)\n");
        return ATTN_OK;
    }
    if (kind != PLOT_TERM && ((mkdir("build", 0777) != 0 && errno != EEXIST) ||
                              (mkdir(FOLDER, 0777) != 0 && errno != EEXIST))) {
        return attn_fail(ATTN_ERR_IO, "plot: %s: cannot be created: %s", FOLDER, strerror(errno));
    }
    snprintf(out, sizeof out, "%s/%s", FOLDER, chapter);
    if (!append_variable(command, "csv", csv) || !append_variable(command, "kind", kinds[kind]) ||
        !append_variable(command, "out", out)) {
        return attn_fail(ATTN_ERR_ARGUMENT, "plot: gnuplot cannot take this path: %s", csv);
    }
    time_t start = time(NULL);
    AttnStatus status = run_gnuplot(gnuplot, command, script, message);
    if (status == ATTN_OK && kind != PLOT_TERM) {
        print_pictures(chapter, kinds[kind], start);
    }
    return status;
}
