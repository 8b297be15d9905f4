// Runs code in a process of its own and keeps what it prints.
#include "tests/unit/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOLDER_BYTES = 64 };

static int start_folder = -1;

static void *require(void *pointer, const char *what) {
    if (pointer == NULL) {
        fprintf(stderr, "capture: %s: %s\n", what, strerror(errno));
        abort();
    }
    return pointer;
}

// The whole content of an open file as a string on the heap.
static char *read_all(FILE *file) {
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = require(malloc((size_t)bytes + 1), "malloc");
    text[fread(text, 1, (size_t)bytes, file)] = '\0';
    fclose(file);
    return text;
}

Captured capture(void (*body)(void *context), void *context) {
    FILE *out = require(tmpfile(), "tmpfile"), *err = require(tmpfile(), "tmpfile");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        body(context);
        fflush(NULL);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        require(NULL, "fork");
    }
    Captured captured = {.out = read_all(out), .err = read_all(err)};
    captured.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return captured;
}

static void execute(void *context) {
    char **argv = context;
    execv(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

Captured capture_program(const char *const *argv) {
    return capture(execute, (void *)argv);
}

void captured_free(Captured *captured) {
    free(captured->out);
    free(captured->err);
    captured->out = captured->err = NULL;
}

int count_lines(const char *text) {
    int lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

int longest_line(const char *text) {
    int longest = 0, width = 0;
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        width = byte == '\n' ? 0 : width + (byte >= ' ' && (byte & 0xC0) != 0x80);
        longest = width > longest ? width : longest;
    }
    return longest;
}

void enter_folder(char *path) {
    start_folder = open(".", O_RDONLY | O_DIRECTORY);
    snprintf(path, FOLDER_BYTES, "/tmp/tile-by-tile-XXXXXX");
    require(mkdtemp(path), "mkdtemp");
    if (start_folder < 0 || chdir(path) != 0) {
        require(NULL, path);
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

void remove_folder(const char *path) {
    if (fchdir(start_folder) != 0) {
        require(NULL, "fchdir");
    }
    close(start_folder);
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
