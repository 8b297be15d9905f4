// Why a test failed, in plain words: from how its process ended and from what a sanitizer printed.
#include "tests/grade/grader.h"
#include "tests/grade/protocol.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct Words {
    const char *report; // as the sanitizer or the kernel says it
    const char *plain;
} Words;

static const Words address_reports[] = {
    {"heap-buffer-overflow", "outside an array"},
    {"stack-buffer-overflow", "outside a local array"},
    {"stack-buffer-underflow", "before the start of a local array"},
    {"dynamic-stack-buffer-overflow", "outside a variable-length array"},
    {"global-buffer-overflow", "outside a global array"},
    {"use-after-poison", "outside of a buffer (a traced test names thread and buffer)"},
    {"heap-use-after-free", "to memory that was already freed"},
    {"stack-use-after-return", "to a local variable of a function that has returned"},
    {"stack-use-after-scope", "to a local variable whose block has ended"},
    {"attempting double-free", "memory freed twice"},
    {"attempting free on address", "free() of a pointer that malloc did not return"},
    {"allocation-size-too-big", "an allocation of more than 2 GiB"},
    {"calloc-overflow", "calloc with a count times size that overflows"},
    {"out of memory", "out of memory"},
    {"stack-overflow", "the stack is full: endless recursion, or a huge local array"},
    {"negative-size-param", "a negative size given to a memory function"},
    {"memcpy-param-overlap", "memcpy between overlapping arrays"},
    {"alloc-dealloc-mismatch", "memory released by another function than allocated it"},
};

static const Words signals[] = {
    {"SEGV", "an access to memory that does not exist (an uninitialised, NULL or wild pointer)"},
    {"BUS", "a misaligned or impossible memory access"},
    {"FPE", "an integer division by zero"},
    {"ILL", "an illegal instruction (often: a function that must return a value did not)"},
    {"XFSZ", "a file of more than 16 MiB was written"},
    {"KILL", "killed by the system or by the code itself"},
    {"ABRT", "abort() was called (a failed assert, or a C library check)"},
};

static const char *plain_words(const Words *table, size_t count, const char *text,
                               const char **report) {
    for (size_t i = 0; i < count; i++) {
        if (strncmp(text, table[i].report, strlen(table[i].report)) == 0) {
            *report = table[i].report;
            return table[i].plain;
        }
    }
    return NULL;
}

// " at lab1_name.c:23 in function", from the first stack frame in the learner's file, which was
// compiled under run.PID/. An empty text when there is none.
static char *learner_frame(const char *report) {
    const char *line = report;

    while (line != NULL && (line = strstr(line, " in ")) != NULL) {
        const char *end = strchr(line, '\n');
        size_t length = end != NULL ? (size_t)(end - line) : strlen(line);
        char *frame = format_text("%.*s", (int)length, line + 4);
        char *file = strstr(frame, "grade.d/run.");
        char function[64] = "";
        char base[128] = "";
        int number = 0;

        if (file != NULL && sscanf(frame, "%63s", function) == 1 &&
            sscanf(strrchr(file, '/') + 1, "%127[^:]:%d", base, &number) == 2) {
            free(frame);
            return format_text(", at %s:%d in %s()", base, number, function);
        }
        free(frame);
        line = end;
    }
    return copy_text("");
}

// "4 bytes past the end of an array of 48 bytes", from the line that places the address.
static char *place_of(const char *report) {
    const char *located = strstr(report, " is located ");
    long distance;
    long size;
    char side[16];

    if (located == NULL) {
        return NULL;
    }
    if (sscanf(located, " is located %ld bytes to the %15[a-z] of %ld-byte", &distance, side,
               &size) != 3 &&
        sscanf(located, " is located %ld bytes %15[a-z] %ld-byte", &distance, side, &size) != 3) {
        return NULL;
    }
    if (strcmp(side, "left") == 0 || strcmp(side, "before") == 0) {
        return format_text("%ld bytes before the start of an array of %ld bytes", distance, size);
    }
    if (strcmp(side, "right") == 0 || strcmp(side, "after") == 0) {
        return format_text("%ld bytes past the end of an array of %ld bytes", distance, size);
    }
    return format_text("%ld bytes into a block of %ld bytes", distance, size);
}

static char *explain_address(const char *report) {
    const char *kind = "";
    const char *plain = plain_words(
        address_reports, sizeof(address_reports) / sizeof(address_reports[0]), report, &kind);
    const char *access = strstr(report, "\nWRITE of size ");
    char *frame = learner_frame(report);
    char *place = place_of(report);
    char *result;
    long bytes = 0;

    if (plain == NULL) {
        plain = plain_words(signals, sizeof(signals) / sizeof(signals[0]), report, &kind);
        result = plain != NULL ? format_text("SIG%s: %s%s", kind, plain, frame)
                               : format_text("AddressSanitizer: %.*s%s", (int)strcspn(report, "\n"),
                                             report, frame);
    } else if (access != NULL || strstr(report, "\nREAD of size ") != NULL) {
        const char *verb = access != NULL ? "write" : "read";

        access = access != NULL ? access : strstr(report, "\nREAD of size ");
        bytes = strtol(strstr(access, " size ") + 6, NULL, 10);
        result = format_text("%s: a %s of %ld bytes%s %s%s", kind, verb, bytes,
                             place != NULL ? "," : "", place != NULL ? place : plain, frame);
    } else {
        result = format_text("%s: %s%s", kind, plain, frame);
    }
    free(place);
    free(frame);
    return result;
}

// "build/grade.d/run.7/lab1_name.c:23:9: runtime error: signed integer overflow: ..."
static char *explain_undefined(const char *output, const char *error) {
    const char *line = error;
    const char *message = error + strlen(" runtime error: ");
    char *where;
    char *result;

    while (line > output && line[-1] != '\n' && line[-1] != '/') {
        line--;
    }
    where = format_text("%.*s", (int)strcspn(line, " "), line);
    result =
        format_text("undefined behaviour at %s %.*s", where, (int)strcspn(message, "\n"), message);
    free(where);
    return result;
}

static char *explain_sanitizer(const char *output) {
    const char *address = output != NULL ? strstr(output, "AddressSanitizer: ") : NULL;
    const char *undefined = output != NULL ? strstr(output, " runtime error: ") : NULL;

    if (undefined != NULL && (address == NULL || undefined < address)) {
        return explain_undefined(output, undefined);
    }
    if (address != NULL) {
        return explain_address(address + strlen("AddressSanitizer: "));
    }
    return NULL;
}

static char *explain_exit(const Run *run) {
    char *report = run->code == EXIT_SANITIZER ? explain_sanitizer(run->output.data) : NULL;

    if (report != NULL) {
        return report;
    }
    switch (run->code) {
    case EXIT_TEST_FAILED:
        return copy_text("the test ended as failed without saying why");
    case EXIT_NO_CHANNEL:
        return copy_text("the test could not report its result: file descriptors that the code "
                         "did not open were closed");
    case EXIT_SANITIZER:
        return copy_text("a sanitizer stopped the program; its report was lost (was stderr "
                         "closed?)");
    default:
        return format_text("the program ended with exit(%d) before the test was over", run->code);
    }
}

static const char *signal_name(int number) {
    const char *name = sigabbrev_np(number);

    return name != NULL ? name : "?";
}

char *explain_run(const Run *run, const Limits *limits) {
    const char *kind = "";
    const char *plain;

    if (run->garbled) {
        return copy_text("the code wrote into a file descriptor that it did not open");
    }
    switch (run->end) {
    case END_TIME:
        return format_text("still running after %g s, stopped: an endless loop, or far too slow",
                           limits->seconds);
    case END_OUTPUT:
        return format_text("printed more than %zu KiB, stopped", limits->output >> 10);
    case END_MEMORY:
        return format_text("used more than %zu MiB of memory, stopped", limits->memory >> 20);
    case END_PROCESSES:
        return format_text("started more than %d processes, stopped", MAX_PROCESSES);
    case END_SIGNAL:
        plain = plain_words(signals, sizeof(signals) / sizeof(signals[0]), signal_name(run->code),
                            &kind);
        return format_text("ended by the signal SIG%s%s%s", signal_name(run->code),
                           plain != NULL ? ": " : "", plain != NULL ? plain : "");
    case END_EXIT:
        break;
    }
    return run->failure != NULL ? copy_text(run->failure) : explain_exit(run);
}

// Reports whose cause is an amount of memory. No index or operand at the line is to blame.
static bool is_about_amounts(const char *output) {
    const char *const kinds[] = {"AddressSanitizer: stack-overflow",
                                 "AddressSanitizer: requested allocation size",
                                 "AddressSanitizer: allocation-size-too-big",
                                 "AddressSanitizer: calloc parameters overflow",
                                 "AddressSanitizer: out of memory",
                                 "AddressSanitizer: allocator is out of memory"};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (output != NULL && strstr(output, kinds[i]) != NULL) {
            return true;
        }
    }
    return false;
}

const char *hint_for_end(const Run *run, const TestResult *test) {
    const bool sanitizer = run->end == END_EXIT && run->code == EXIT_SANITIZER;

    if (run->garbled) {
        return "Write only to the memory and the streams that the lab gives you.";
    }
    switch (run->end) {
    case END_TIME:
        if (test->timeout_hint != NULL && test->timeout_hint[0] != '\0') {
            return test->timeout_hint;
        }
        return "Look at the loops: does the variable of each come nearer to its end in every turn?";
    case END_OUTPUT:
        return "Take the prints out of the inner loops, or print one case only.";
    case END_MEMORY:
        return "See what is allocated, how large it is, and how often.";
    case END_PROCESSES:
        return "A lab needs no processes of its own.";
    case END_SIGNAL:
        return "This is a crash, not a wrong result: run this test alone (TEST=) and follow it in "
               "a debugger.";
    case END_EXIT:
        break;
    }
    if (run->damaged) {
        return "Write only to the outputs that labs.h names, and only within their bounds.";
    }
    if (run->found) {
        return "Start at the line named above: which threads come there, and with which indices?";
    }
    if (sanitizer && is_about_amounts(run->output.data)) {
        return "See how much memory is asked for at the line named above, and how often.";
    }
    if (sanitizer) {
        return "Start at the line named above: print its indices and operands before it runs.";
    }
    return run->failure == NULL ? "Return from the function; do not end the program." : NULL;
}
