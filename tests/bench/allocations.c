// Counting allocations: see allocations.h.
#include "tests/bench/allocations.h"

#include <stdatomic.h>

static atomic_size_t total;

// The names are the linker's: --wrap=malloc calls __wrap_malloc and offers __real_malloc.
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    atomic_fetch_add(&total, bytes);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&total, count * bytes);
    return __real_calloc(count, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&total, bytes);
    return __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes) {
    atomic_fetch_add(&total, bytes);
    return __real_posix_memalign(memory, alignment, bytes);
}

size_t allocated_bytes(void) {
    return atomic_load(&total);
}
