// Where tests of kernels run: each target, on simt and traced in three thread orders; and device
// arrays for them. All of it fails the test on an error.
#ifndef TESTS_UNIT_SIMT_PLACES_H
#define TESTS_UNIT_SIMT_PLACES_H

#include "common/gpu.h"
#include "common/simt/runtime.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct SimtTestPlace {
    GpuTarget target;
    SimtOrder order;
} SimtTestPlace;

// The first SIMT_TEST_SIMT_PLACES need no device.
enum { SIMT_TEST_SIMT_PLACES = 6, SIMT_TEST_PLACES };
extern const SimtTestPlace simt_test_places[SIMT_TEST_PLACES];

// Sets the place's thread order; false: its target cannot be used here.
bool simt_test_begin(int place);

// count elements on the device, with the values at `from`; NULL: NaN. Freed by gpu_free.
void *simt_test_array(GpuTarget target, const char *name, size_t count, size_t element,
                      const void *from);
void simt_test_download(GpuTarget target, void *host, const void *device, size_t bytes);

#endif
