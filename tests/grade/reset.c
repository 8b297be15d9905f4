// Puts a lab back to its untouched state, from the copy in exercises/chNN/.untouched/. What the
// learner wrote is kept beside it as name.backup-1, -2, ...; a backup is never overwritten.
#include "tests/grade/learner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t lab_limit = 1 << 20;

// Moves the file to the first backup name that is free. Returns that name, to be freed; ends the
// program when it cannot.
static char *move_to_backup(const char *file) {
    char *backup = NULL;
    int fd = -1;

    for (int number = 1; fd < 0; number++) {
        free(backup);
        backup = format_text("%s.backup-%d", file, number);
        fd = open(backup, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 && errno != EEXIST) {
            die("%s: %s; nothing was changed", backup, strerror(errno));
        }
    }
    close(fd); // the name is ours now
    if (rename(file, backup) != 0) {
        const int error = errno;

        unlink(backup);
        die("%s: %s; nothing was changed", file, strerror(error));
    }
    return backup;
}

// Asks on the terminal. Anything but a yes is a no.
static bool is_confirmed(const LabChoice *lab) {
    char answer[16] = "";

    if (!isatty(STDIN_FILENO)) {
        fprintf(stderr,
                "make reset asks first, and there is no terminal to ask on; nothing was changed.\n"
                "Without asking: make reset %s YES=1\n",
                lab->words);
        return false;
    }
    printf("Put %s back to its untouched state?\n"
           "What is there now is kept as a backup. [y/N] ",
           lab->file);
    fflush(stdout);
    if (fgets(answer, sizeof(answer), stdin) == NULL || was_interrupted()) {
        printf("\n");
        answer[0] = '\0';
    }
    answer[strcspn(answer, "\n")] = '\0';
    if (strcasecmp(answer, "y") != 0 && strcasecmp(answer, "yes") != 0) {
        printf("Nothing was changed.\n");
        return false;
    }
    return true;
}

// Writes the untouched text to `path`. The learner's file may have another name after "lab2_".
static void put_back(const LabChoice *lab, const char *path, const char *untouched) {
    char *backup = file_exists(lab->file) ? move_to_backup(lab->file) : NULL;

    if (!write_file(path, untouched)) {
        const int error = errno;

        if (backup != NULL && rename(backup, lab->file) == 0) {
            die("%s: %s; nothing was changed", path, strerror(error));
        }
        die("%s: %s; your file is %s", path, strerror(error), backup != NULL ? backup : "missing");
    }
    printf("%s is untouched again.\n", path);
    if (backup != NULL) {
        printf("Your file is now %s\n", backup);
    }
    free(backup);
}

int reset_lab(const char *chapter, bool yes) {
    LabChoice lab = choose_lab("reset", chapter);
    char *name = options.lab == ONLY_QUESTIONS
                     ? copy_text("answers.txt")
                     : format_text("%s%s", lab.suite, lab_suffix(chapter, lab.suite));
    char *path = format_text("exercises/%s/%s", chapter, name);
    char *source = format_text("exercises/%s/.untouched/%s", chapter, name);
    char *untouched = read_file(source, lab_limit);
    char *current = read_file(path, lab_limit);
    int status = 1;

    if (untouched == NULL) {
        die("%s: %s; without it there is nothing to put back", source, strerror(errno));
    }
    if (current != NULL && strcmp(current, untouched) == 0) {
        printf("%s is untouched already.\n", path);
        status = 0;
    } else if (yes || !file_exists(lab.file) || is_confirmed(&lab)) {
        put_back(&lab, path, untouched);
        status = 0;
    }
    free(current);
    free(untouched);
    free(source);
    free(path);
    free(name);
    choice_free(&lab);
    return status;
}
