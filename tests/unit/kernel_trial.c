// One run of a kernel under test. See kernel_trial.h.
#include "tests/unit/kernel_trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

AttnShape one_head(int64_t len_q, int64_t len_kv) {
    return (AttnShape){.batch = 1,
                       .heads_q = 1,
                       .heads_kv = 1,
                       .len_q = len_q,
                       .len_kv = len_kv,
                       .dim = 1,
                       .scale = 1};
}

static void require_ok(const Trial *trial, AttnStatus status, const char *what) {
    if (status != ATTN_OK) {
        trial_fail(trial, "%s: %s", what, attn_last_error());
    }
}

void trial_begin(Trial *trial, const KernelUnderTest *kernel, const AttnShape *shape,
                 const char *format, ...) {
    *trial = (Trial){.kernel = kernel, .shape = *shape};
    va_list args;
    va_start(args, format);
    vsnprintf(trial->name, sizeof trial->name, format, args);
    va_end(args);
    require_ok(trial, tensor_alloc_q(&trial->q, DTYPE_F32, shape), "q");
    require_ok(trial, tensor_alloc_kv(&trial->k, DTYPE_F32, shape), "k");
    require_ok(trial, tensor_alloc_kv(&trial->v, DTYPE_F32, shape), "v");
    require_ok(trial, tensor_alloc_q(&trial->o, DTYPE_F32, shape), "o");
    require_ok(trial, tensor_alloc_lse(&trial->lse, shape), "lse");
}

void trial_end(Trial *trial) {
    tensor_free(&trial->q);
    tensor_free(&trial->k);
    tensor_free(&trial->v);
    tensor_free(&trial->o);
    tensor_free(&trial->lse);
}

void trial_fill(Trial *trial, uint64_t seed) {
    tensor_fill_random(&trial->q, 3 * seed, 1);
    tensor_fill_random(&trial->k, 3 * seed + 1, 1);
    tensor_fill_random(&trial->v, 3 * seed + 2, 1);
}

void fill_value(Tensor *tensor, float value) {
    for (size_t i = 0; i < tensor->count; i++) {
        ((float *)tensor->data)[i] = value;
    }
}

// "batch 2, heads 4/2, T 5, S 9, dim 8, causal, window 3, scale 0.5, kv_lens 3 9"
static void shape_text(const AttnShape *shape, char *text, size_t size) {
    size_t used = 0;
    used += (size_t)snprintf(text, size,
                             "batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", T %" PRId64
                             ", S %" PRId64 ", dim %" PRId64 "%s",
                             shape->batch, shape->heads_q, shape->heads_kv, shape->len_q,
                             shape->len_kv, shape->dim, shape->causal ? ", causal" : "");
    if (shape->window != 0) {
        used += (size_t)snprintf(text + used, size - used, ", window %" PRId64, shape->window);
    }
    if (shape->scale != 0) {
        used += (size_t)snprintf(text + used, size - used, ", scale %g", shape->scale);
    }
    for (int64_t b = 0; shape->kv_lens != NULL && b < shape->batch && b < 8; b++) {
        used += (size_t)snprintf(text + used, size - used, "%s %" PRId32, b == 0 ? ", kv_lens" : "",
                                 shape->kv_lens[b]);
    }
}

void trial_fail(const Trial *trial, const char *format, ...) {
    char what[640], shape[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    shape_text(&trial->shape, shape, sizeof shape);
    ck_abort_msg("%s: %s [%s]: %s", trial->kernel->name, trial->name, shape, what);
    abort(); // not reached
}

static void check_guards(const Trial *trial) {
    const Tensor *tensors[] = {&trial->q, &trial->k, &trial->v, &trial->o, &trial->lse};
    static const char *const names[] = {"q", "k", "v", "o", "lse"};
    for (int t = 0; t < 5; t++) {
        if (!tensor_guards_intact(tensors[t])) {
            trial_fail(trial, "wrote outside %s: a guard word changed", names[t]);
        }
    }
}

AttnStatus trial_run(Trial *trial) {
    const KernelUnderTest *kernel = trial->kernel;
    Tensor *inputs[] = {&trial->q, &trial->k, &trial->v};
    Tensor copies[3];
    for (int t = 0; t < 3; t++) {
        tensor_round_to(inputs[t], kernel->dtype);
        require_ok(trial, tensor_convert(&copies[t], inputs[t], DTYPE_F32), "copy of the inputs");
    }
    tensor_poison(&trial->o);
    tensor_poison(&trial->lse);
    attn_fail(ATTN_OK, "%s", "");
    AttnStatus status = kernel->run(&trial->shape, &trial->q, &trial->k, &trial->v, &trial->o,
                                    &trial->lse, kernel->config);
    check_guards(trial);
    for (int t = 0; t < 3; t++) {
        if (memcmp(copies[t].data, inputs[t]->data, copies[t].count * sizeof(float)) != 0) {
            trial_fail(trial, "changed its input %c", "qkv"[t]);
        }
        tensor_free(&copies[t]);
    }
    return status;
}

// The first of the shape's masks that the kernel declares to refuse, as a refusal names it; NULL:
// it has none.
static const char *refused_mask(const KernelUnderTest *kernel, const AttnShape *shape) {
    if ((kernel->no_masks || kernel->no_window) && shape->window != 0) {
        return "window";
    }
    if (!kernel->no_masks) {
        return NULL;
    }
    return shape->causal ? "causal" : shape->kv_lens != NULL ? "kv_lens" : NULL;
}

void trial_run_ok(Trial *trial) {
    const char *mask = refused_mask(trial->kernel, &trial->shape);
    if (mask != NULL) {
        trial->refused = true;
        if (trial_run_or_refuse(trial, mask)) {
            trial_fail(trial, "ran, but declares that it refuses %s", mask);
        }
        return;
    }
    AttnStatus status = trial_run(trial);
    if (status != ATTN_OK) {
        trial_fail(trial, "returned %s: %s", attn_status_name(status), attn_last_error());
    }
}

bool trial_run_or_refuse(Trial *trial, const char *named) {
    AttnStatus status = trial_run(trial);
    if (status == ATTN_OK) {
        return true;
    }
    if (status != ATTN_ERR_UNSUPPORTED || strstr(attn_last_error(), named) == NULL) {
        trial_fail(trial, "returned %s: \"%s\"; a refusal is ATTN_ERR_UNSUPPORTED and names %s",
                   attn_status_name(status), attn_last_error(), named);
    }
    trial_check_untouched(trial);
    return false;
}

void trial_check_untouched(const Trial *trial) {
    const Tensor *outputs[] = {&trial->o, &trial->lse};
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < outputs[t]->count; i++) {
            if (!isnan(tensor_get(outputs[t], i))) {
                trial_fail(trial, "refused, but wrote %g to element %zu of %s",
                           tensor_get(outputs[t], i), i, t == 0 ? "O" : "LSE");
            }
        }
    }
}

// Where the oracle has NaN and the kernel too, both become 0, which the comparison accepts.
static void accept_common_nan(Tensor *got, double *expected, double *bound) {
    for (size_t i = 0; i < got->count; i++) {
        if (isnan(expected[i]) && isnan(tensor_get(got, i))) {
            tensor_set(got, i, 0);
            expected[i] = 0;
            bound[i] = 0;
        }
    }
}

void trial_check_oracle(const Trial *trial, DType dtype) {
    if (trial->refused) {
        return;
    }
    dtype = trial->kernel->dtype == DTYPE_F32 ? dtype : trial->kernel->dtype;
    Expected expected;
    Tensor o, lse;
    require_ok(trial,
               expected_make(&expected, &trial->shape, &trial->q, &trial->k, &trial->v, dtype),
               "oracle");
    require_ok(trial, tensor_convert(&o, &trial->o, DTYPE_F32), "copy of O");
    require_ok(trial, tensor_convert(&lse, &trial->lse, DTYPE_F32), "copy of LSE");
    accept_common_nan(&o, expected.o, expected.o_bound);
    accept_common_nan(&lse, expected.lse, expected.lse_bound);
    Comparison o_check, lse_check;
    if (!compare_output(&expected, &o, &lse, trial->kernel->block_q, &o_check, &lse_check)) {
        trial_fail(trial, "%s", o_check.failed > 0 ? o_check.message : lse_check.message);
    }
    tensor_free(&o);
    tensor_free(&lse);
    expected_free(&expected);
}

// The known answers belong to the case as it is written on paper; its inputs were rounded to f32,
// which is one of the roundings that the bound counts, so the oracle must be within it too.
static void check_known(const Trial *trial, const char *name, const Tensor *got,
                        const double *oracle, const double *bound, const double *known) {
    for (size_t i = 0; i < got->count; i++) {
        if (oracle[i] != known[i] && !(fabs(oracle[i] - known[i]) <= bound[i])) {
            trial_fail(trial, "the oracle's %s[%zu] is %.9g, known is %.9g", name, i, oracle[i],
                       known[i]);
        }
    }
    Comparison check = compare_elements(name, got, known, bound, trial->kernel->block_q);
    if (check.failed > 0) {
        trial_fail(trial, "%s", check.message);
    }
}

void trial_check_known(const Trial *trial, const double *o, const double *lse) {
    if (trial->refused) {
        return;
    }
    if (trial->kernel->dtype != DTYPE_F32) {
        trial_check_oracle(trial, trial->kernel->dtype);
        return;
    }
    Expected expected;
    require_ok(trial,
               expected_make(&expected, &trial->shape, &trial->q, &trial->k, &trial->v, DTYPE_F32),
               "oracle");
    if (o != NULL) {
        check_known(trial, "O", &trial->o, expected.o, expected.o_bound, o);
    }
    if (lse != NULL) {
        check_known(trial, "LSE", &trial->lse, expected.lse, expected.lse_bound, lse);
    }
    expected_free(&expected);
}

AttnStatus trial_check_refused(const KernelUnderTest *kernel, const char *name,
                               const AttnShape *legal, const AttnShape *illegal,
                               const char *named) {
    Trial trial;
    trial_begin(&trial, kernel, legal, "%s", name);
    trial_fill(&trial, 1);
    trial.shape = *illegal;
    AttnStatus status = trial_run(&trial);
    if (status == ATTN_OK || strstr(attn_last_error(), named) == NULL) {
        trial_fail(&trial, "returned %s: \"%s\"; an error that names %s is needed",
                   attn_status_name(status), attn_last_error(), named);
    }
    trial_check_untouched(&trial);
    trial_end(&trial);
    return status;
}
