// ./ch05, shared memory: bank conflicts with and without padding, and what becomes of a kernel that
// lacks a barrier, in three thread orders and under the trace.
#include "chapters/ch05_fused_cuda/cards.h"
#include "chapters/ch05_fused_cuda/shared_demos.h"
#include "chapters/ch05_fused_cuda/show.h"

#include "common/simt/runtime.h"

#include <stdio.h>
#include <string.h>

// x on the target, counting up from 0, and y, NaN.
typedef struct Vectors {
    GpuTarget target;
    size_t count;
    void *x, *y;
} Vectors;

static Vectors make_vectors(const Show *show, GpuTarget target, size_t count) {
    Vectors vectors = {target, count, NULL, NULL};
    float values[TRANSPOSE_TILE * TRANSPOSE_TILE];
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)i;
    }
    lesson_require(show->program, gpu_alloc(target, &vectors.x, "x", count, sizeof(float)));
    lesson_require(show->program, gpu_alloc(target, &vectors.y, "y", count, sizeof(float)));
    lesson_require(show->program, gpu_upload(target, vectors.x, values, count * sizeof(values[0])));
    return vectors;
}

static void free_vectors(Vectors *vectors) {
    gpu_free(vectors->target, vectors->x);
    gpu_free(vectors->target, vectors->y);
}

// ---- bank conflicts -----------------------------------------------------------------------------

static void show_conflicts(const Show *show) {
    static AttnStatus (*const builds[])(const float *, float *, int, GpuStream) =
        GPU_BUILDS(transpose_tile);
    report_section("Shared memory: a 32 x 32 tile written by rows, read by columns, traced");
    Table table;
    table_begin(&table, "pitch, floats|stores|wavefronts|loads|wavefronts|a load|formula");
    for (int pitch = TRANSPOSE_TILE; pitch <= TRANSPOSE_TILE + 1; pitch++) {
        Vectors vectors = make_vectors(show, GPU_TRACE, (size_t)TRANSPOSE_TILE * TRANSPOSE_TILE);
        simt_trace_reset();
        lesson_require(show->program, builds[GPU_TRACE](vectors.x, vectors.y, pitch, NULL));
        const SimtSharedCounts shared = simt_trace_sum_shared();
        table_row(
            &table, "%d|%llu|%llu|%llu|%llu|%.1f|gcd(%d, 32) = %d", pitch,
            (unsigned long long)shared.store_requests, (unsigned long long)shared.store_wavefronts,
            (unsigned long long)shared.load_requests, (unsigned long long)shared.load_wavefronts,
            (double)shared.load_wavefronts / (double)shared.load_requests, pitch,
            card_wavefronts(pitch));
        free_vectors(&vectors);
    }
    table_print(&table);
    report_text("32 banks, word w in bank w mod 32. In rows of 32 words a column lies in one bank, "
                "which serves a word a clock; one word more a row spreads it over all.");
}

// ---- a missing barrier --------------------------------------------------------------------------

// Elements of y that are not what the shift gives; NaN is wrong too.
static int wrong_elements(const Show *show, const Vectors *vectors) {
    float y[SHIFT_THREADS];
    int wrong = 0;
    lesson_require(show->program, gpu_download(vectors->target, y, vectors->y, sizeof y));
    for (int i = 0; i < SHIFT_THREADS; i++) {
        wrong += !(y[i] == (float)(i == 0 ? 0 : i - 1));
    }
    return wrong;
}

static void show_missing_barrier(const Show *show) {
    static AttnStatus (*const builds[])(const float *, float *, bool, GpuStream) =
        GPU_BUILDS(shift_by_one);
    static const char *const orders[] = {"forward", "reverse", "random"};
    const SimtSettings before = *simt_settings();
    report_section("A missing barrier: y_i = x_(i-1) through shared memory, 64 threads");
    Table table;
    table_begin(&table, "threads run|wrong, with|wrong, without");
    for (int order = SIMT_FORWARD; order <= SIMT_RANDOM; order++) {
        int wrong[2];
        simt_settings()->order = (SimtOrder)order;
        for (int barrier = 0; barrier < 2; barrier++) {
            Vectors vectors = make_vectors(show, GPU_SIMT, SHIFT_THREADS);
            lesson_require(show->program,
                           builds[GPU_SIMT](vectors.x, vectors.y, barrier != 0, NULL));
            wrong[barrier] = wrong_elements(show, &vectors);
            free_vectors(&vectors);
        }
        table_row(&table, "%s|%d of 64|%d of 64", orders[order], wrong[1], wrong[0]);
    }
    *simt_settings() = before;
    table_print(&table);
    if (show->traced) {
        Vectors vectors = make_vectors(show, GPU_TRACE, SHIFT_THREADS);
        const AttnStatus status = builds[GPU_TRACE](vectors.x, vectors.y, false, NULL);
        report_text("In one order the wrong kernel is right. The trace finds it in any: %s.",
                    status == ATTN_OK ? "not this time" : attn_last_error());
        free_vectors(&vectors);
    }
}

void show_shared_memory(const Show *show) {
    if (show->traced) {
        show_conflicts(show);
    }
    show_missing_barrier(show);
}
