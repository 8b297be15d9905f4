// What the tests of the tracer share: buffers for the probes, and the marked lines of their files.
#ifndef TESTS_UNIT_SIMT_TRACE_CASES_H
#define TESTS_UNIT_SIMT_TRACE_CASES_H

#include "common/simt/runtime.h"
#include "tests/unit/simt_trace_probe.h"

enum { TRACE_FLOATS = 8192 };

// Buffers x and y [TRACE_FLOATS] with values, index [TRACE_FLOATS] of zeros; stride 1, shift 0, n
// 0. Forgets earlier traces, sets the thread order. false: there is no trace build here.
bool trace_begin(SimtOrder order, TraceProbe *probe);

// The number of the line that ends in "// line: `mark`" in a file of tests/unit/; fails the test
// when there is none.
int trace_line(const char *file, const char *mark);

#endif
