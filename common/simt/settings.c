// The runtime's settings and their first values, from the environment.
#include "common/simt/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void complain(const char *name, const char *value, const char *rule) {
    fprintf(stderr, "%s=%s is ignored: %s\n", name, value, rule);
}

// Parses digits; false unless the whole text is a number in the range.
static bool parse_number(const char *text, unsigned long long most, unsigned long long *value) {
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *value <= most;
}

static void read_order(SimtSettings *settings) {
    const char *order = getenv("SIMT_ORDER");
    unsigned long long seed = settings->seed;
    if (order == NULL || strcmp(order, "forward") == 0) {
        return;
    }
    if (strcmp(order, "reverse") == 0) {
        settings->order = SIMT_REVERSE;
    } else if (strcmp(order, "random") == 0 ||
               (strncmp(order, "random:", 7) == 0 && parse_number(order + 7, UINT64_MAX, &seed))) {
        settings->order = SIMT_RANDOM;
        settings->seed = seed;
    } else {
        complain("SIMT_ORDER", order, "it is forward, reverse, random or random:SEED");
    }
}

static void read_workers(SimtSettings *settings) {
    const char *workers = getenv("SIMT_WORKERS");
    unsigned long long number;
    if (workers == NULL) {
        return;
    }
    if (parse_number(workers, 1024, &number)) {
        settings->workers = (int)number;
    } else {
        complain("SIMT_WORKERS", workers, "it is a number of processes, 0 for one per CPU");
    }
}

static void read_timeout(SimtSettings *settings) {
    const char *timeout = getenv("SIMT_TIMEOUT");
    if (timeout == NULL) {
        return;
    }
    char *end;
    const double seconds = strtod(timeout, &end);
    if (end != timeout && *end == '\0' && seconds > 0 && seconds <= 1e6) {
        settings->timeout_s = seconds;
    } else {
        complain("SIMT_TIMEOUT", timeout, "it is a number of seconds, more than 0");
    }
}

SimtSettings *simt_settings(void) {
    static SimtSettings settings = {
        .order = SIMT_FORWARD, .seed = 1, .workers = 0, .timeout_s = 120, .slice_s = 10};
    static bool read;
    if (!read) {
        read = true;
        settings.device = getenv("SIMT_DEVICE");
        if (settings.device == NULL) {
            settings.device = "h200";
        }
        read_order(&settings);
        read_workers(&settings);
        read_timeout(&settings);
    }
    return &settings;
}
