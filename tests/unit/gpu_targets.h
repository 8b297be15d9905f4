// For suites whose tests run on every target that is here: simt, traced simt, and CUDA where there
// is a device. Loop tests take their index into gpu_tests.target.
#ifndef TESTS_UNIT_GPU_TARGETS_H
#define TESTS_UNIT_GPU_TARGETS_H

#include "common/gpu.h"

#include <check.h>
#include <string.h>

// A call that succeeds; one that fails with this status and a message that holds this text.
#define ASSERT_OK(call) ck_assert_msg((call) == ATTN_OK, "%s: %s", #call, attn_last_error())
#define ASSERT_FAILS(call, status, text)                                                           \
    do {                                                                                           \
        ck_assert_int_eq((call), (status));                                                        \
        ck_assert_msg(strstr(attn_last_error(), (text)) != NULL, "\"%s\" lacks \"%s\"",            \
                      attn_last_error(), (text));                                                  \
    } while (0)

typedef struct GpuTests {
    GpuTarget target[3];
    int count;
    bool device;   // GPU_CUDA is among them
    char why[256]; // why it is not
} GpuTests;
extern GpuTests gpu_tests;

// Fills gpu_tests. CUDA is asked for in a child process, so that this one has not started it.
void gpu_tests_find(void);

// Runs the suite and returns the exit status of main. Where there is a device Check does not fork:
// CUDA does not survive it. Says on stdout which targets were tested.
int gpu_tests_run(Suite *suite);

#endif
