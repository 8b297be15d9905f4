// Chapter 9's kernels as the suites run them: keys and values of tensors are scattered over the
// pages of a cache, whose unused slots and table entries hold what must not matter.
#ifndef TESTS_UNIT_PAGED_RUN_H
#define TESTS_UNIT_PAGED_RUN_H

#include "chapters/ch09_paged/paged.h"
#include "common/simt/runtime.h"
#include "tests/unit/kernel_suite.h"

typedef enum PageOrder { PAGES_ORDERED, PAGES_REVERSED, PAGES_SHUFFLED } PageOrder;

typedef struct PagedRun {
    int rung;
    GpuTarget target;
    SimtOrder order; // on simt
    DType dtype;     // storage
    int64_t page_size;
    PageOrder pages;
    int64_t splits;
} PagedRun;

// A KernelRun; context is a PagedRun. Keys behind a sequence's length are in no page. Slots that
// hold no key are NaN, and were never written; of the table, entries behind the pages in use name
// no page (traced: were never written). `shape` may be illegal: the cache then is the tensors', and
// there is no workspace. paged_mma gets rows that are shorter than its own with zeros behind them.
AttnStatus paged_run(const AttnShape *shape, const Tensor *q, const Tensor *k, const Tensor *v,
                     Tensor *o, Tensor *lse, const void *context);

// "paged_mma, simt, reverse, bf16, page 16, shuffled, 3 splits" into text (at least 128 bytes);
// returns it.
const char *paged_run_text(const PagedRun *run, char *text);

// Host floats in a storage type, and back. `to` of the second has room for count floats.
void paged_pack(void *to, const float *from, size_t count, DType dtype);
void paged_unpack(float *to, const void *from, size_t count, DType dtype);

#endif
