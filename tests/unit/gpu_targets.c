// Suites that run on every target that is here.
#include "tests/unit/gpu_targets.h"

#include "tests/unit/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

GpuTests gpu_tests;

static void ask_for_cuda(void *context) {
    (void)context;
    char why[256];
    if (!gpu_available(GPU_CUDA, why)) {
        fputs(why, stdout);
        exit(1);
    }
}

void gpu_tests_find(void) {
    char why[256];
    gpu_tests.count = 0;
    gpu_tests.target[gpu_tests.count++] = GPU_SIMT;
    if (gpu_available(GPU_TRACE, why)) {
        gpu_tests.target[gpu_tests.count++] = GPU_TRACE;
    }
    Captured asked = capture(ask_for_cuda, NULL);
    gpu_tests.device = asked.status == 0;
    snprintf(gpu_tests.why, sizeof gpu_tests.why, "%s", asked.out);
    if (gpu_tests.device) {
        gpu_tests.target[gpu_tests.count++] = GPU_CUDA;
    }
    captured_free(&asked);
}

int gpu_tests_run(Suite *suite) {
    printf("targets:");
    for (int t = 0; t < gpu_tests.count; t++) {
        printf("%s %s", t > 0 ? ";" : "", gpu_target_name(gpu_tests.target[t]));
    }
    if (gpu_tests.device) {
        printf("\n");
    } else {
        printf("; not cuda: %s\n", gpu_tests.why);
    }
    SRunner *runner = srunner_create(suite);
    if (gpu_tests.device) {
        srunner_set_fork_status(runner, CK_NOFORK);
    }
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
