// Atomic operations on 4 and 8 bytes of device or shared memory. They are atomic between forked
// workers as well, whose blocks share device memory.
#include "common/simt/schedule.h"

#include <stdio.h>

// The value that the operation leaves behind. `old` and `value` are zero-extended from `size`.
static uint64_t result_of(int operation, size_t size, uint64_t old, uint64_t value) {
    const int64_t old_signed = size == 4 ? (int32_t)old : (int64_t)old;
    const int64_t value_signed = size == 4 ? (int32_t)value : (int64_t)value;
    switch (operation) {
    case SIMT_ATOMIC_ADD:
        return old + value;
    case SIMT_ATOMIC_SUB:
        return old - value;
    case SIMT_ATOMIC_MIN_SIGNED:
        return value_signed < old_signed ? value : old;
    case SIMT_ATOMIC_MIN_UNSIGNED:
        return value < old ? value : old;
    case SIMT_ATOMIC_MAX_SIGNED:
        return value_signed > old_signed ? value : old;
    case SIMT_ATOMIC_MAX_UNSIGNED:
        return value > old ? value : old;
    case SIMT_ATOMIC_AND:
        return old & value;
    case SIMT_ATOMIC_OR:
        return old | value;
    case SIMT_ATOMIC_XOR:
        return old ^ value;
    case SIMT_ATOMIC_INC:
        return old >= value ? 0 : old + 1;
    case SIMT_ATOMIC_DEC:
        return old == 0 || old > value ? value : old - 1;
    default: // EXCH
        return value;
    }
}

static uint32_t update_4(int operation, uint32_t *address, uint32_t value, uint32_t compare) {
    uint32_t old =
        operation == SIMT_ATOMIC_CAS ? compare : __atomic_load_n(address, __ATOMIC_RELAXED);
    for (;;) {
        const uint32_t now = operation == SIMT_ATOMIC_CAS
                                 ? value
                                 : (uint32_t)result_of(operation, sizeof old, old, value);
        if (__atomic_compare_exchange_n(address, &old, now, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST) ||
            operation == SIMT_ATOMIC_CAS) {
            return old;
        }
    }
}

static uint64_t update_8(int operation, uint64_t *address, uint64_t value, uint64_t compare) {
    uint64_t old =
        operation == SIMT_ATOMIC_CAS ? compare : __atomic_load_n(address, __ATOMIC_RELAXED);
    for (;;) {
        const uint64_t now =
            operation == SIMT_ATOMIC_CAS ? value : result_of(operation, sizeof old, old, value);
        if (__atomic_compare_exchange_n(address, &old, now, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST) ||
            operation == SIMT_ATOMIC_CAS) {
            return old;
        }
    }
}

// Bounds are the tracer's matter, or the inaccessible pages'.
static void check_access(void *address, size_t size, const char *file, int line, const void *pc) {
    if ((uintptr_t)address % size != 0) {
        SimtFinding finding = {.kind = SIMT_MISALIGNED, .size = size};
        const SimtBuffer *buffer = simt_buffer_at(address, NULL);
        finding_place(&finding.here, file, line, simt_running.thread);
        finding.here.write = true;
        if (buffer != NULL) {
            snprintf(finding.buffer, sizeof finding.buffer, "%s", buffer->name);
            finding.offset = (char *)address - buffer->start;
        }
        simt_abandon(&finding);
    }
    if (simt_running.traced) {
        simt_trace_atomic(address, size, pc);
    }
}

uint64_t simt_atomic(int operation, void *address, size_t size, uint64_t value, uint64_t compare,
                     const char *file, int line) {
    check_access(address, size, file, line, __builtin_return_address(0));
    if (size == 4) {
        return update_4(operation, address, (uint32_t)value, (uint32_t)compare);
    }
    return update_8(operation, address, value, compare);
}

float simt_atomic_add_float(float *address, float value, const char *file, int line) {
    check_access(address, sizeof value, file, line, __builtin_return_address(0));
    uint32_t *bits = (uint32_t *)(void *)address;
    union {
        uint32_t bits;
        float value;
    } old = {__atomic_load_n(bits, __ATOMIC_RELAXED)}, sum;
    do {
        sum.value = old.value + value;
    } while (!__atomic_compare_exchange_n(bits, &old.bits, sum.bits, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST));
    return old.value;
}
