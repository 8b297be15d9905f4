// The attention problem: checking a shape, and the rules that follow from it.
#include "common/attn.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024];

AttnStatus attn_fail(AttnStatus status, const char *format, ...) {
    // Formatted apart first: the arguments may contain attn_last_error() itself.
    char text[sizeof last_error];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(last_error, text, sizeof last_error);
    return status;
}

const char *attn_last_error(void) {
    return last_error;
}

const char *attn_status_name(AttnStatus status) {
    switch (status) {
    case ATTN_OK:
        return "ATTN_OK";
    case ATTN_ERR_SHAPE:
        return "ATTN_ERR_SHAPE";
    case ATTN_ERR_ARGUMENT:
        return "ATTN_ERR_ARGUMENT";
    case ATTN_ERR_UNSUPPORTED:
        return "ATTN_ERR_UNSUPPORTED";
    case ATTN_ERR_MEMORY:
        return "ATTN_ERR_MEMORY";
    case ATTN_ERR_IO:
        return "ATTN_ERR_IO";
    case ATTN_ERR_CUDA:
        return "ATTN_ERR_CUDA";
    }
    return "unknown status";
}

// One size of the shape: at least `least`.
static AttnStatus check_size(const char *name, int64_t value, int64_t least) {
    if (value < least) {
        return attn_fail(ATTN_ERR_SHAPE, "%s %" PRId64 " must be at least %" PRId64, name, value,
                         least);
    }
    return ATTN_OK;
}

static AttnStatus check_sizes(const AttnShape *shape) {
    AttnStatus status = check_size("batch", shape->batch, 0);
    if (status == ATTN_OK) {
        status = check_size("heads_q", shape->heads_q, 1);
    }
    if (status == ATTN_OK) {
        status = check_size("heads_kv", shape->heads_kv, 1);
    }
    if (status == ATTN_OK) {
        status = check_size("len_q", shape->len_q, 0);
    }
    if (status == ATTN_OK) {
        status = check_size("len_kv", shape->len_kv, 0);
    }
    if (status == ATTN_OK) {
        status = check_size("dim", shape->dim, 1);
    }
    return status;
}

// A whole tensor [batch][heads][len][dim] must fit in memory's address range at 8 bytes an element,
// the widest storage type, so that no offset computed from a checked shape can overflow.
static AttnStatus check_tensor_size(const char *name, int64_t batch, int64_t heads, int64_t len,
                                    int64_t dim) {
    if (batch == 0 || len == 0) {
        return ATTN_OK;
    }
    int64_t bytes;
    if (__builtin_mul_overflow(batch, heads, &bytes) ||
        __builtin_mul_overflow(bytes, len, &bytes) || __builtin_mul_overflow(bytes, dim, &bytes) ||
        __builtin_mul_overflow(bytes, (int64_t)sizeof(double), &bytes)) {
        return attn_fail(ATTN_ERR_SHAPE,
                         "%s [%" PRId64 "][%" PRId64 "][%" PRId64 "][%" PRId64
                         "] has more elements than can be addressed",
                         name, batch, heads, len, dim);
    }
    return ATTN_OK;
}

AttnStatus attn_check_shape(const AttnShape *shape) {
    if (shape == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "shape is a null pointer; an AttnShape is needed");
    }
    AttnStatus status = check_sizes(shape);
    if (status != ATTN_OK) {
        return status;
    }
    if (shape->heads_q % shape->heads_kv != 0) {
        return attn_fail(ATTN_ERR_SHAPE,
                         "heads_q %" PRId64 " is not a multiple of heads_kv %" PRId64,
                         shape->heads_q, shape->heads_kv);
    }
    if (!isfinite(shape->scale) || shape->scale < 0) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "scale %g must be finite and not negative (0 stands for 1/sqrt(dim))",
                         shape->scale);
    }
    if (shape->window < 0) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "window %" PRId64 " must not be negative (0 stands for unlimited)",
                         shape->window);
    }
    if (shape->window > 0 && !shape->causal) {
        return attn_fail(ATTN_ERR_ARGUMENT, "window %" PRId64 " needs causal", shape->window);
    }
    status = check_tensor_size("Q", shape->batch, shape->heads_q, shape->len_q, shape->dim);
    if (status == ATTN_OK) {
        status = check_tensor_size("K", shape->batch, shape->heads_kv, shape->len_kv, shape->dim);
    }
    if (status != ATTN_OK) {
        return status;
    }
    for (int64_t b = 0; shape->kv_lens != NULL && b < shape->batch; b++) {
        if (shape->kv_lens[b] < 0 || shape->kv_lens[b] > shape->len_kv) {
            return attn_fail(ATTN_ERR_SHAPE,
                             "kv_lens[%" PRId64 "] %" PRId32 " is outside 0..len_kv, 0..%" PRId64,
                             b, shape->kv_lens[b], shape->len_kv);
        }
    }
    return ATTN_OK;
}

AttnStatus attn_check_pointers(const AttnShape *shape, const void *q, const void *k, const void *v,
                               const void *o, const void *lse) {
    const size_t count_q = attn_count_q(shape), count_kv = attn_count_kv(shape);
    const struct {
        const char *name;
        const void *pointer;
        size_t count;
    } tensors[] = {
        {"q", q, count_q},
        {"k", k, count_kv},
        {"v", v, count_kv},
        {"o", o, count_q},
        {"lse", lse, attn_count_lse(shape)},
    };
    for (size_t t = 0; t < sizeof(tensors) / sizeof(tensors[0]); t++) {
        if (tensors[t].pointer == NULL && tensors[t].count > 0) {
            return attn_fail(ATTN_ERR_ARGUMENT, "%s is a null pointer, but it has %zu elements",
                             tensors[t].name, tensors[t].count);
        }
    }
    return ATTN_OK;
}

double attn_scale(const AttnShape *shape) {
    return shape->scale == 0 ? 1 / sqrt((double)shape->dim) : shape->scale;
}

int64_t attn_keys(const AttnShape *shape, int64_t batch_index) {
    return shape->kv_lens == NULL ? shape->len_kv : shape->kv_lens[batch_index];
}

double attn_kv_bytes(const AttnShape *shape, size_t element) {
    double keys = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        keys += (double)attn_keys(shape, b);
    }
    return 2 * keys * (double)shape->heads_kv * (double)shape->dim * (double)element;
}

int64_t attn_kv_head(const AttnShape *shape, int64_t head) {
    return head / (shape->heads_q / shape->heads_kv);
}

KeyRange attn_visible_keys(const AttnShape *shape, int64_t batch_index, int64_t row) {
    int64_t keys = attn_keys(shape, batch_index);
    if (!shape->causal) {
        return (KeyRange){0, keys};
    }
    // The last row sees the last key, and each row above it one key fewer.
    int64_t end = keys - (shape->len_q - 1 - row);
    if (end <= 0) {
        return (KeyRange){0, 0};
    }
    int64_t begin = shape->window > 0 && shape->window < end ? end - shape->window : 0;
    return (KeyRange){begin, end};
}

size_t attn_count_q(const AttnShape *shape) {
    return attn_count_lse(shape) * (size_t)shape->dim;
}

size_t attn_count_kv(const AttnShape *shape) {
    return (size_t)shape->batch * (size_t)shape->heads_kv * (size_t)shape->len_kv *
           (size_t)shape->dim;
}

size_t attn_count_lse(const AttnShape *shape) {
    return (size_t)shape->batch * (size_t)shape->heads_q * (size_t)shape->len_q;
}
