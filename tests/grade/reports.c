// The reports of one run: the one that --format and --out ask for, those of --also, and the text on
// the terminal when the first goes to a file.
#include "tests/grade/grader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Writer)(FILE *out, const ChapterResult *chapters, size_t count);

static const struct {
    const char *name;
    Writer write;
} formats[] = {
    {"text", write_text},   {"tap", write_tap},
    {"junit", write_junit}, {"gradescope", write_gradescope},
    {"json", write_json},
};

typedef struct Report {
    const char *path; // NULL: stdout
    Writer write;
    FILE *file;
} Report;

static Report *reports;
static size_t report_count;

// Adds the report that `option` asks for, "FORMAT..." up to `length`.
static void add_report(const char *option, const char *format, size_t length, const char *path) {
    Report report = {.path = path, .file = stdout};

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strlen(formats[i].name) == length && strncmp(formats[i].name, format, length) == 0) {
            report.write = formats[i].write;
        }
    }
    if (report.write == NULL) {
        die("%s %.*s: the formats are text, tap, junit, gradescope and json", option, (int)length,
            format);
    }
    for (size_t i = 0; i < report_count; i++) {
        if (path != NULL && reports[i].path != NULL && strcmp(reports[i].path, path) == 0) {
            die("%s: two reports cannot go to one file", path);
        }
    }
    reports = grown(reports, report_count, sizeof(Report));
    reports[report_count++] = report;
}

void open_reports(void) {
    add_report("--format", options.format, strlen(options.format), options.out);
    for (size_t i = 0; i < options.also.count; i++) {
        const char *also = options.also.name[i];
        const size_t length = strcspn(also, "=");

        if (also[length] == '\0' || also[length + 1] == '\0') {
            die("--also %s: expected FORMAT=FILE, like junit=report.xml", also);
        }
        add_report("--also", also, length, also + length + 1);
    }
    for (size_t i = 0; i < report_count; i++) {
        if (reports[i].path != NULL && (reports[i].file = fopen(reports[i].path, "we")) == NULL) {
            die("%s: %s", reports[i].path, strerror(errno));
        }
    }
}

void write_reports(const ChapterResult *chapters, size_t count) {
    if (reports[0].path != NULL) {
        write_text(stdout, chapters, count);
    }
    for (size_t i = 0; i < report_count; i++) {
        FILE *file = reports[i].file;

        reports[i].write(file, chapters, count);
        if (fflush(file) != 0 || ferror(file) || (file != stdout && fclose(file) != 0)) {
            die("%s: %s", reports[i].path != NULL ? reports[i].path : "stdout", strerror(errno));
        }
    }
    free(reports);
    reports = NULL;
    report_count = 0;
}
