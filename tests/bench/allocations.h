// What a kernel allocates while it runs. The linker sends the program's calls of malloc, calloc,
// aligned_alloc and posix_memalign through the functions of allocations.c (-Wl,--wrap).
#ifndef TESTS_BENCH_ALLOCATIONS_H
#define TESTS_BENCH_ALLOCATIONS_H

#include <stddef.h>

// Bytes asked for since the program began, by all threads, whether freed since or not. What the
// OpenMP runtime and the C library allocate for themselves is not counted.
size_t allocated_bytes(void);

#endif
