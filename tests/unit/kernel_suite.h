// The tests that every forward kernel of the course must pass. A chapter's unit test wraps its
// kernel in a KernelUnderTest, once per block size or other setting, and calls these functions
// inside Check tests; they fail the test with a message that names kernel, case, shape and place.
// The working directory is the top of the tree (the golden tensors are read from there).
//
//     START_TEST(test_case) {
//         for (size_t i = 0; i < kernel_count; i++) {
//             kernel_suite_case(&kernels[i], kernel_suite_case_name((size_t)_i));
//         }
//     }
//     END_TEST
//     ...
//     tcase_set_timeout(tcase, 60); // Check's 4 s are too few on a busy machine
//     tcase_add_loop_test(tcase, test_case, 0, (int)kernel_suite_case_count());
#ifndef TESTS_UNIT_KERNEL_SUITE_H
#define TESTS_UNIT_KERNEL_SUITE_H

#include "common/tensor.h"

#include <stdbool.h>

// Runs the kernel on f32 tensors that have the shape's sizes; o and lse hold NaN before. Allocates
// and frees whatever workspace the kernel needs. Returns the kernel's own status.
typedef AttnStatus KernelRun(const AttnShape *shape, const Tensor *q, const Tensor *k,
                             const Tensor *v, Tensor *o, Tensor *lse, const void *config);

typedef struct KernelUnderTest {
    const char *name; // "online, block_k 32": as a failure names it
    KernelRun *run;
    const void *config;       // handed to run: block sizes, splits, threads
    int64_t block_q, block_k; // tile sizes, 0 where the kernel has none: the cases put a tail, a
                              // masked tile and a rising maximum at the borders of such tiles
    bool no_masks;  // the kernel refuses causal, window and kv_lens, as ATTN_ERR_UNSUPPORTED naming
                    // them: every case with one then checks the refusal instead of the result, and
                    // random problems have none
    bool no_window; // the same for windows alone
    int64_t max_dim; // of the random problems; 0: all. Other cases let a kernel refuse a dim
    DType dtype;     // what the kernel stores, f32 (0) if nothing else is said. Of another type,
                     // inputs are rounded to it first, and results are the oracle's for what they
                     // are then, within the type's bounds; known answers are not looked at
} KernelUnderTest;

// Every golden case of tests/golden/index.csv: O and LSE against the golden tensors, which PyTorch
// computed in float64, and against the oracle.
void kernel_suite_golden(const KernelUnderTest *kernel);

// The known answers, each named for the fault that it catches: kernel_suite_case runs one of them
// by name, and fails for a name that is not there.
size_t kernel_suite_case_count(void);
const char *kernel_suite_case_name(size_t index);
void kernel_suite_case(const KernelUnderTest *kernel, const char *name);

// Random problems number first, ..., first + count - 1 of the sequence that `seed` names: awkward
// sizes, grouped heads, causal, windows, ragged key lengths, scales, large scores. O and LSE
// against the oracle; guard words intact; inputs unchanged. A failure gives seed and number.
void kernel_suite_random(const KernelUnderTest *kernel, uint64_t seed, int64_t first,
                         int64_t count);

// Every illegal shape is refused with the right status and a message that names the argument, and
// neither output is touched.
void kernel_suite_errors(const KernelUnderTest *kernel);

// A 16-bit type (DTYPE_F16, DTYPE_BF16), simulated: inputs rounded to it, O rounded to it.
void kernel_suite_dtype(const KernelUnderTest *kernel, DType dtype);

#endif
