// mma, ldmatrix and cp.async for kernels that run as fibers; matrix.h says what each does. mma and
// ldmatrix are warp collectives: the lanes' parts are put together when all 32 have come.
#include "common/simt/matrix.h"

#include "common/simt/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 16, COPY_BYTES = 16, FULL_WARP = -1 };

// ---- mma ----------------------------------------------------------------------------------------

typedef struct MmaInput {
    const uint32_t *a; // [4]
    const uint32_t *b; // [2]
    const float *c;    // [4]
} MmaInput;

typedef float Widen(uint16_t bits);

static float widen_f16(uint16_t bits) {
    return __half2float(__ushort_as_half(bits));
}

static float widen_bf16(uint16_t bits) {
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

// The sum in f64: the products are exact, and the result is rounded to f32 once. NaN is the
// device's.
static float dot(const float *a, const float *b, float c) {
    double sum = c;
    for (int k = 0; k < 16; k++) {
        sum += (double)a[k] * (double)b[k];
    }
    const float rounded = (float)sum;
    return isnan(rounded) ? simt_bits_float(0x7fffffff) : rounded;
}

static void multiply(const void *const in[SIMT_WARP], void *const out[SIMT_WARP], Widen *widen) {
    float a[16][16], b[8][16]; // A by rows; B by columns
    float c[16][8];
    for (int lane = 0; lane < SIMT_WARP; lane++) {
        const MmaInput *part = in[lane];
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            float *pair = &a[g + i % 2 * 8][2 * t + i / 2 * 8];
            pair[0] = widen((uint16_t)(part->a[i] & 0xffff));
            pair[1] = widen((uint16_t)(part->a[i] >> 16));
            c[g + i / 2 * 8][2 * t + i % 2] = part->c[i];
        }
        for (int i = 0; i < 2; i++) {
            float *pair = &b[g][2 * t + i * 8];
            pair[0] = widen((uint16_t)(part->b[i] & 0xffff));
            pair[1] = widen((uint16_t)(part->b[i] >> 16));
        }
    }
    for (int lane = 0; lane < SIMT_WARP; lane++) {
        float *d = out[lane];
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            d[i] = dot(a[row], b[column], c[row][column]);
        }
    }
}

static void multiply_f16(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                         unsigned mask) {
    (void)mask;
    multiply(in, out, widen_f16);
}

static void multiply_bf16(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                          unsigned mask) {
    (void)mask;
    multiply(in, out, widen_bf16);
}

void simt_mma(int kind, float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
              const char *file, int line) {
    const MmaInput input = {a, b, c};
    const bool bf16 = kind == SIMT_MMA_BF16;
    simt_collective(bf16 ? "mma_m16n8k16_bf16" : "mma_m16n8k16_f16", (unsigned)FULL_WARP, &input, d,
                    bf16 ? multiply_bf16 : multiply_f16, file, line);
}

// ---- addresses ----------------------------------------------------------------------------------

static bool within(const char *address, size_t bytes, const char *start, size_t length) {
    return start != NULL && address >= start && bytes <= length &&
           (size_t)(address - start) <= length - bytes;
}

// What stands at file:line does not do what `rule` says with `bytes` at the address.
static _Noreturn void refuse(SimtFindingKind kind, const char *rule, const void *address,
                             size_t bytes, const char *file, int line) {
    SimtFinding finding = {.kind = kind, .size = bytes};
    char detail[256];
    const SimtBuffer *buffer = simt_buffer_at(address, NULL);
    const char *start = NULL;
    if (buffer != NULL) {
        start = buffer->start;
        snprintf(finding.buffer, sizeof finding.buffer, "%s", buffer->name);
    } else if (within(address, 1, simt_running.dynamic_shared, simt_running.dynamic_bytes)) {
        start = simt_running.dynamic_shared;
        snprintf(finding.buffer, sizeof finding.buffer, "dynamic shared memory");
    } else if (within(address, 1, simt_running.static_shared, simt_running.static_bytes)) {
        start = simt_running.static_shared;
        snprintf(finding.buffer, sizeof finding.buffer, "static shared memory");
    }
    if (start != NULL) {
        finding.offset = (const char *)address - start;
        snprintf(detail, sizeof detail, "%s; this is offset %td of \"%s\"", rule,
                 (ptrdiff_t)finding.offset, finding.buffer);
    } else {
        snprintf(detail, sizeof detail, "%s; this is an address of neither kind of memory", rule);
    }
    finding_place(&finding.here, file, line, simt_running.thread);
    finding_abandon(&finding, simt_running.thread, detail);
}

static void check_shared(const char *what, const void *address, size_t bytes, const char *file,
                         int line) {
    char rule[128];
    if (!within(address, bytes, simt_running.dynamic_shared, simt_running.dynamic_bytes) &&
        !within(address, bytes, simt_running.static_shared, simt_running.static_bytes)) {
        snprintf(rule, sizeof rule, "%s must be %zu bytes of the block's shared memory", what,
                 bytes);
        refuse(SIMT_OUT_OF_BOUNDS, rule, address, bytes, file, line);
    }
    if ((uintptr_t)address % bytes != 0) {
        snprintf(rule, sizeof rule, "%s must be aligned to %zu bytes", what, bytes);
        refuse(SIMT_MISALIGNED, rule, address, bytes, file, line);
    }
}

// Tells the tracer of an access, in pieces of 16, 8, 4, 2 or 1 bytes: a copy that is zero filled
// may read any number.
static void trace(const void *address, size_t bytes, bool write, const void *pc) {
    if (!simt_running.traced) {
        return;
    }
    char *at = (char *)(uintptr_t)address;
    for (size_t piece = COPY_BYTES; bytes > 0; piece /= 2) {
        if (bytes >= piece) {
            simt_trace_access(at, piece, write, pc);
            at += piece;
            bytes -= piece;
        }
    }
}

// ---- ldmatrix -----------------------------------------------------------------------------------

typedef struct LdmatrixInput {
    int matrices;
    uint16_t row[8]; // of matrix lane / 8, where there is one
} LdmatrixInput;

static void distribute(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                       bool transposed) {
    for (int lane = 0; lane < SIMT_WARP; lane++) {
        uint32_t *r = out[lane];
        const int matrices = ((const LdmatrixInput *)in[lane])->matrices;
        const int g = lane / 4, t = lane % 4;
        for (int j = 0; j < matrices; j++) {
            uint16_t pair[2];
            for (int i = 0; i < 2; i++) {
                const int row = transposed ? 2 * t + i : g;
                const int column = transposed ? g : 2 * t + i;
                pair[i] = ((const LdmatrixInput *)in[8 * j + row])->row[column];
            }
            r[j] = pair[0] | (uint32_t)pair[1] << 16;
        }
    }
}

static void distribute_rows(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                            unsigned mask) {
    (void)mask;
    distribute(in, out, false);
}

static void distribute_columns(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                               unsigned mask) {
    (void)mask;
    distribute(in, out, true);
}

void simt_ldmatrix(int matrices, int transposed, uint32_t *r, const void *row, const char *file,
                   int line) {
    LdmatrixInput input = {.matrices = matrices};
    const unsigned lane = simt_running.thread % SIMT_WARP;
    if (lane / 8 < (unsigned)matrices) {
        check_shared("a row of ldmatrix", row, ROW_BYTES, file, line);
        trace(row, ROW_BYTES, false, __builtin_return_address(0));
        memcpy(input.row, row, ROW_BYTES);
    }
    simt_collective(transposed ? "ldmatrix (trans)" : "ldmatrix", (unsigned)FULL_WARP, &input, r,
                    transposed ? distribute_columns : distribute_rows, file, line);
}

// ---- cp.async -----------------------------------------------------------------------------------

typedef struct Copy {
    char *shared;
    char data[COPY_BYTES]; // zero filled
    size_t size;
    uint64_t group;
    const void *pc; // of the cp_async
} Copy;

typedef struct Pending {
    Copy *copies; // [capacity], the oldest first; kept from block to block
    size_t count, capacity;
    uint64_t group; // that the next commit closes
} Pending;

static Pending pending[SIMT_MAX_THREADS];

void simt_async_block_begin(void) {
    for (int thread = 0; thread < SIMT_MAX_THREADS; thread++) {
        pending[thread].count = 0;
        pending[thread].group = 0;
    }
}

static Copy *append(Pending *queue) {
    if (queue->count == queue->capacity) {
        const size_t capacity = queue->capacity == 0 ? 16 : 2 * queue->capacity;
        Copy *copies = realloc(queue->copies, capacity * sizeof *copies);
        if (copies == NULL) {
            fprintf(stderr, "simt: no memory for %zu pending copies of a thread\n", capacity);
            abort();
        }
        queue->copies = copies;
        queue->capacity = capacity;
    }
    return &queue->copies[queue->count++];
}

// Writes the destinations of the copies whose group is below `group`.
static void complete(Pending *queue, uint64_t group) {
    size_t done = 0;
    for (; done < queue->count && queue->copies[done].group < group; done++) {
        const Copy *copy = &queue->copies[done];
        trace(copy->shared, copy->size, true, copy->pc);
        memcpy(copy->shared, copy->data, copy->size);
    }
    queue->count -= done;
    if (done > 0 && queue->count > 0) {
        memmove(queue->copies, queue->copies + done, queue->count * sizeof *queue->copies);
    }
}

static void check_source(const void *global, int bytes, size_t size, const char *file, int line) {
    char rule[128];
    if (bytes < 0 || (size_t)bytes > size) {
        snprintf(rule, sizeof rule, "cp_async_%zu copies 0 to %zu bytes, and was asked for %d",
                 size, size, bytes);
        refuse(SIMT_OUT_OF_BOUNDS, rule, global, size, file, line);
    }
    if (bytes > 0 && (uintptr_t)global % size != 0) {
        snprintf(rule, sizeof rule, "the source of cp_async_%zu must be aligned to %zu bytes", size,
                 size);
        refuse(SIMT_MISALIGNED, rule, global, size, file, line);
    }
}

void simt_cp_async(int size, void *shared, const void *global, int bytes, const char *file,
                   int line) {
    const void *pc = __builtin_return_address(0);
    check_shared("the destination of cp_async", shared, (size_t)size, file, line);
    check_source(global, bytes, (size_t)size, file, line);
    trace(global, (size_t)bytes, false, pc);
    if (simt_running.traced) {
        simt_trace_async(shared, (size_t)size, pc);
    }
    Pending *queue = &pending[simt_running.thread];
    Copy *copy = append(queue);
    *copy = (Copy){.shared = shared, .size = (size_t)size, .group = queue->group, .pc = pc};
    if (bytes > 0) {
        memcpy(copy->data, global, (size_t)bytes);
    }
    memset(shared, 0xff, (size_t)size); // undefined until the wait
}

void simt_cp_async_commit(void) {
    pending[simt_running.thread].group++;
}

void simt_cp_async_wait(int open_groups) {
    Pending *queue = &pending[simt_running.thread];
    const uint64_t open = (uint64_t)open_groups;
    if (queue->group > open) {
        complete(queue, queue->group - open);
    }
}

void simt_cp_async_wait_all(void) {
    Pending *queue = &pending[simt_running.thread];
    complete(queue, queue->group + 1);
}
