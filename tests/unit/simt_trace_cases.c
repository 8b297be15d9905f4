// What the tests of the tracer share.
#include "tests/unit/simt_trace_cases.h"

#include "tests/unit/simt_places.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

bool trace_begin(SimtOrder order, TraceProbe *probe) {
    char why[256];
    if (!gpu_available(GPU_TRACE, why)) {
        return false;
    }
    static float values[TRACE_FLOATS];
    static const unsigned zeros[TRACE_FLOATS];
    for (int i = 0; i < TRACE_FLOATS; i++) {
        values[i] = (float)(i % 61) - 7;
    }
    *probe = (TraceProbe){
        .x = simt_test_array(GPU_TRACE, "x", TRACE_FLOATS, sizeof *values, values),
        .y = simt_test_array(GPU_TRACE, "y", TRACE_FLOATS, sizeof *values, values),
        .index = simt_test_array(GPU_TRACE, "index", TRACE_FLOATS, sizeof *zeros, zeros),
        .stride = 1,
    };
    simt_trace_reset();
    simt_settings()->order = order;
    simt_settings()->seed = 3;
    return true;
}

int trace_line(const char *file, const char *mark) {
    char path[128], text[256], end[64];
    snprintf(path, sizeof path, "tests/unit/%s", file);
    snprintf(end, sizeof end, "// line: %s\n", mark);
    FILE *source = fopen(path, "r");
    ck_assert_ptr_nonnull(source);
    int line = 0, found = 0;
    while (fgets(text, sizeof text, source) != NULL) {
        line++;
        const size_t length = strlen(text), wanted = strlen(end);
        if (length >= wanted && strcmp(text + length - wanted, end) == 0) {
            found = line;
        }
    }
    fclose(source);
    ck_assert_msg(found != 0, "no line \"%s\" in %s", mark, path);
    return found;
}
