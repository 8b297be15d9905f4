// Places and device arrays for tests of kernels; simt_places.h says what each does.
#include "tests/unit/simt_places.h"

#include <check.h>

const SimtTestPlace simt_test_places[SIMT_TEST_PLACES] = {
    {GPU_SIMT, SIMT_FORWARD},  {GPU_SIMT, SIMT_REVERSE},  {GPU_SIMT, SIMT_RANDOM},
    {GPU_TRACE, SIMT_FORWARD}, {GPU_TRACE, SIMT_REVERSE}, {GPU_TRACE, SIMT_RANDOM},
    {GPU_CUDA, SIMT_FORWARD},
};

bool simt_test_begin(int place) {
    char why[256];
    simt_settings()->order = simt_test_places[place].order;
    simt_settings()->seed = 20;
    return gpu_available(simt_test_places[place].target, why);
}

void *simt_test_array(GpuTarget target, const char *name, size_t count, size_t element,
                      const void *from) {
    void *memory = NULL;
    ck_assert_msg(gpu_alloc(target, &memory, name, count, element) == ATTN_OK, "%s",
                  attn_last_error());
    if (from != NULL) {
        ck_assert_msg(gpu_upload(target, memory, from, count * element) == ATTN_OK, "%s",
                      attn_last_error());
    }
    return memory;
}

void simt_test_download(GpuTarget target, void *host, const void *device, size_t bytes) {
    ck_assert_msg(gpu_download(target, host, device, bytes) == ATTN_OK, "%s", attn_last_error());
}
