// One run of a kernel under test, with everything that every run checks: status, guard words of
// all five tensors, inputs unchanged. Used by kernel_suite.c and kernel_cases.c.
#ifndef TESTS_UNIT_KERNEL_TRIAL_H
#define TESTS_UNIT_KERNEL_TRIAL_H

#include "common/compare.h"
#include "tests/unit/kernel_suite.h"

#include <check.h>

typedef struct Trial {
    const KernelUnderTest *kernel;
    char name[96]; // the case, as a failure names it
    AttnShape shape;
    Tensor q, k, v, o, lse; // f32
    bool refused; // the kernel refused the masks, as it declares: there is no result to check
} Trial;

// One head of dim 1 and scale 1, no mask.
AttnShape one_head(int64_t len_q, int64_t len_kv);

// Allocates the five tensors, all NaN. `format` names the case, printf-style.
void trial_begin(Trial *trial, const KernelUnderTest *kernel, const AttnShape *shape,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

// Seeded values for Q, K and V, different in each.
void trial_fill(Trial *trial, uint64_t seed);

// Fills a tensor with one value.
void fill_value(Tensor *tensor, float value);

// Poisons O and LSE, runs the kernel, checks guard words and inputs; returns the kernel's status.
AttnStatus trial_run(Trial *trial);

// Fails the test unless the kernel succeeds; or, when the shape has a mask that the kernel declares
// to refuse (no_masks, no_window), unless it refuses it: trial->refused is then set, and the checks
// of the result do nothing.
void trial_run_ok(Trial *trial);

// The same for a kernel that may refuse a head dimension or a size instead: the status must then be
// ATTN_ERR_UNSUPPORTED, the message must hold `named`, and O and LSE must be untouched. True when
// the kernel ran.
bool trial_run_or_refuse(Trial *trial, const char *named);

// Fails the test unless O and LSE are the oracle's, within the bounds for O stored as `dtype`.
// Elements where the oracle has NaN must be NaN.
void trial_check_oracle(const Trial *trial, DType dtype);

// Fails the test unless O and LSE are `o` and `lse` within the f32 bounds; then checks the oracle
// itself against them. Either pointer may be NULL.
void trial_check_known(const Trial *trial, const double *o, const double *lse);

// Fails the test unless every element of O and LSE is still the poison.
void trial_check_untouched(const Trial *trial);

// Runs the kernel on an illegal shape, on tensors of a legal one: it must return an error whose
// message holds `named`, and leave O and LSE untouched. Returns that error.
AttnStatus trial_check_refused(const KernelUnderTest *kernel, const char *name,
                               const AttnShape *legal, const AttnShape *illegal, const char *named);

// Ends the test with a message that names kernel, case and shape.
_Noreturn void trial_fail(const Trial *trial, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void trial_end(Trial *trial);

// Cases of kernel_suite_case that stand in kernel_cases_shape.c.
void case_last_column(const KernelUnderTest *kernel);
void case_odd_dims(const KernelUnderTest *kernel);
void case_gqa_reject(const KernelUnderTest *kernel);
void case_many_heads(const KernelUnderTest *kernel);
void case_nan_isolation(const KernelUnderTest *kernel);
void case_repeatable(const KernelUnderTest *kernel);

#endif
