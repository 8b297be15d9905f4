// ./ch05, bytes: every rung traced, the four ways of counting bytes, the model beside the one that
// it models, requests and sectors, and which buffer the bytes belong to.
#include "chapters/ch05_fused_cuda/cards.h"
#include "chapters/ch05_fused_cuda/show.h"

#include "common/model.h"
#include "common/simt/runtime.h"

#include <stdio.h>
#include <string.h>

enum { SECTOR = 32, LENGTHS = 3, DIM = 64 };
enum { F16 = FUSED_RUNGS, ROWS = FUSED_RUNGS + 1 };

typedef enum Counted { REQUESTED = 0, SECTORS, BLOCK_UNIQUE, LAUNCH_UNIQUE, COUNTED } Counted;
static const char *const counted_names[COUNTED] = {"requested", "sectors", "block-unique",
                                                   "launch-unique"};

static const char *const buffers[] = {"q", "k", "v", "o", "lse", "workspace"};
enum { BUFFERS = sizeof buffers / sizeof buffers[0], TENSORS = 4 };

// What one rung's launches counted.
typedef struct Traced {
    int launches;
    SimtCounts total, buffer[BUFFERS];
    SimtSharedCounts shared;
} Traced;

static double bytes_of(const SimtCounts *counts, Counted counted) {
    switch (counted) {
    case REQUESTED:
        return (double)(counts->load_bytes + counts->store_bytes);
    case SECTORS:
        return SECTOR * (double)(counts->load_sectors + counts->store_sectors);
    case BLOCK_UNIQUE:
        return (double)(counts->block_unique_load + counts->block_unique_store);
    default:
        return (double)(counts->launch_unique_load + counts->launch_unique_store);
    }
}

static const char *row_name(int row) {
    return row == F16 ? "register f16" : show_names[row];
}

// Runs a rung on one head of `len` queries and keys; row F16 is the fast rung on 16-bit tensors.
static Traced trace_rung(const Show *show, int row, int64_t len) {
    const bool f16 = row == F16;
    const int rung = f16 ? SHOW_FAST : row;
    const AttnShape shape = {1, 1, 1, len, len, DIM, 0, false, 0, NULL};
    Problem problem;
    DeviceProblem device;
    float *workspace;
    lesson_require(show->program, problem_random(&problem, &shape, DTYPE_F32, show->options->seed));
    lesson_require(show->program,
                   device_problem_make(&device, GPU_TRACE, &problem, f16 ? DTYPE_F16 : DTYPE_F32));
    lesson_require(show->program, rung_workspace(rung, GPU_TRACE, &shape, &workspace));
    simt_trace_reset();
    lesson_require(show->program, rung_launch(rung, f16, &device, workspace));
    Traced traced = {.launches = simt_trace_launches(),
                     .total = simt_trace_sum(""),
                     .shared = simt_trace_sum_shared()};
    for (int b = 0; b < BUFFERS; b++) {
        traced.buffer[b] = simt_trace_sum(buffers[b]);
    }
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
    problem_free(&problem);
    return traced;
}

// ---- models -------------------------------------------------------------------------------------

// The model of a rung, in bytes, the number that it models, and its formula in elements.
typedef struct Model {
    Counted counted;
    bool tensors_only; // Q, K, V and O without the running state
    double bytes;
    const char *formula;
} Model;

static Model model_of(int row, double n) {
    const double d = DIM, f = row == F16 ? 2 : sizeof(float), lse = sizeof(float) * n;
    int block_q, block_k;
    fused_rungs[row == F16 ? SHOW_FAST : row].tile(DIM, &block_q, &block_k);
    if (row == SHOW_NAIVE) {
        return (Model){LAUNCH_UNIQUE, false, f * naive_hbm_elements(n, d, false) + lse,
                       "4N^2 + 4Nd"};
    }
    if (row == SHOW_KEYS_OUTSIDE) { // of common/model.h's the terms of m and l are left out
        return (Model){REQUESTED, true, f * (3 * n / block_k + 1) * n * d, "(3n + 1) Nd"};
    }
    return (Model){BLOCK_UNIQUE, false, f * tiled_hbm_elements(n, d, block_q, false) + lse,
                   row == F16 ? "the same, 2 B" : "2Nd + 2N^2 d/Bq"};
}

// The number that the model models, as it was counted.
static double modelled_bytes(const Traced *traced, const Model *model) {
    if (!model->tensors_only) {
        return bytes_of(&traced->total, model->counted);
    }
    double bytes = 0;
    for (int b = 0; b < TENSORS; b++) {
        bytes += bytes_of(&traced->buffer[b], model->counted);
    }
    return bytes;
}

static int fast_block_q(void) {
    int block_q, block_k;
    fused_rungs[SHOW_FAST].tile(DIM, &block_q, &block_k);
    return block_q;
}

// ---- tables -------------------------------------------------------------------------------------

static void show_four_numbers(const Traced traced[ROWS], double n) {
    char cells[COUNTED][32], heading[80], model_text[32];
    snprintf(heading, sizeof heading, "Bytes, traced: one head, N = %.0f, d = %d, f32", n, DIM);
    report_section(heading);
    Table table;
    table_begin(&table, "rung|launches|requested|sectors x 32|block-unique|launch-unique");
    for (int row = 0; row < ROWS; row++) {
        for (Counted c = REQUESTED; c < COUNTED; c++) {
            format_iec(cells[c], bytes_of(&traced[row].total, c));
        }
        table_row(&table, "%s|%d|%s|%s|%s|%s", row_name(row), traced[row].launches, cells[0],
                  cells[1], cells[2], cells[3]);
    }
    table_print(&table);
    report_text("Reads and writes. Requested: every access of every thread. Sectors: the 32-byte "
                "pieces of each warp's requests, which the hardware counts. Block-unique, "
                "launch-unique: sectors counted once a block, once a launch, and added up.");
    report_section("Bytes: the model beside the number that it models");
    table_begin(&table, "rung|number|traced|model|off|elements");
    for (int row = 0; row < ROWS; row++) {
        const Model model = model_of(row, n);
        const double measured = modelled_bytes(&traced[row], &model);
        table_row(&table, "%s|%s|%s|%s|%.2f %%|%s", row_name(row), counted_names[model.counted],
                  format_iec(cells[0], measured), format_iec(model_text, model.bytes),
                  100 * (measured / model.bytes - 1), model.formula);
    }
    table_print(&table);
    report_text("And N of LSE. Bq is 64 for a thread per row, 32 for tiled, %d for register tiled. "
                "Keys outside, n = N/32 blocks of them: Q, K, V and O; its m and l, which all "
                "lanes of a row ask for, are left out.",
                fast_block_q());
}

static void show_requests(const Traced traced[ROWS]) {
    Table table;
    report_section("Requests and sectors of global memory, as the hardware counts them");
    table_begin(&table, "rung|loads|sectors each|stores|sectors each");
    for (int row = 0; row < ROWS; row++) {
        const SimtCounts *c = &traced[row].total;
        char a[32], b[32];
        table_row(&table, "%s|%s|%.1f|%s|%.1f", row_name(row),
                  format_count(a, (double)c->load_requests),
                  (double)c->load_sectors / (double)c->load_requests,
                  format_count(b, (double)c->store_requests),
                  (double)c->store_sectors / (double)c->store_requests);
    }
    table_print(&table);
    report_text(
        "A warp that loads 32 neighbouring floats touches 4 sectors, 32 float4 touch 16. 32 "
        "for floats: each lane pulls in a sector of its own.");
}

static void show_wavefronts(const Traced traced[ROWS], double n) {
    const CardDevice *device = &card_h200;
    Table table;
    report_section("Wavefronts of shared memory, a model, and what they let the arithmetic do");
    table_begin(&table, "rung|wavefronts|without conflicts|FMA each|of FMA rate|TFLOP/s");
    for (int row = 0; row < ROWS; row++) {
        const SimtSharedCounts *s = &traced[row].shared;
        const double wavefronts = (double)(s->load_wavefronts + s->store_wavefronts);
        const double fma = 2 * n * n * DIM / wavefronts, limit = card_shared_limit(device, fma);
        char a[32], b[32];
        table_row(&table, "%s|%s|%s|%.1f|%.0f %%|%.1f", row_name(row), format_count(a, wavefronts),
                  format_count(b, (double)(s->load_ideal + s->store_ideal)), fma, 100 * limit,
                  limit * card_fma_flops_per_s(device) / 1e12);
    }
    table_print(&table);
    report_text(
        "FMA each: multiply-adds of both products for a wavefront. An SM serves one "
        "wavefront a clock and starts 128 multiply-adds; the last column is what an H200 "
        "can reach at most if nothing else is in the way. A thread per row has more to wait "
        "for: its arrays lie in local memory, which is not counted here.");
}

static void show_buffers(const Traced traced[ROWS]) {
    char cells[BUFFERS][32];
    Table table;
    report_section("Sectors x 32 by buffer, loads and stores");
    table_begin(&table, "rung|q|k|v|o|lse|workspace");
    for (int row = 0; row < ROWS; row++) {
        for (int b = 0; b < BUFFERS; b++) {
            format_iec(cells[b], bytes_of(&traced[row].buffer[b], SECTORS));
        }
        table_row(&table, "%s|%s|%s|%s|%s|%s|%s", row_name(row), cells[0], cells[1], cells[2],
                  cells[3], cells[4], cells[5]);
    }
    table_print(&table);
    report_text("Queries outside: K and V come again for every block of queries, O leaves once. "
                "Keys outside: K and V come once, Q, O and the running state with every block of "
                "keys.");
}

// ---- the section --------------------------------------------------------------------------------

void show_bytes(const Show *show) {
    if (!show->traced) {
        report_section("Bytes");
        report_text("Not counted: the kernels' trace build needs gcc 12 or newer.");
        return;
    }
    const int64_t first = show->options->quick ? 32 : 128;
    Traced traced[ROWS];
    for (int i = 0; i < LENGTHS; i++) {
        const int64_t len = first << i;
        for (int row = 0; row < ROWS; row++) {
            report_progress("tracing", i * ROWS + row, LENGTHS * ROWS);
            traced[row] = trace_rung(show, row, len);
            for (Counted c = REQUESTED; c < COUNTED; c++) {
                csv_row(show->csv, "%s,%s,%lld,%.9g,0,0", counted_names[c], row_name(row),
                        (long long)len, bytes_of(&traced[row].total, c));
            }
        }
    }
    report_progress("tracing", 0, 0);
    for (int row = 0; row < ROWS; row++) {
        for (int64_t len = first; len <= 8192; len *= 2) {
            csv_row(show->csv, "model,%s,%lld,%.9g,0,0", row_name(row), (long long)len,
                    model_of(row, (double)len).bytes);
        }
    }
    const double n = (double)(first << (LENGTHS - 1));
    show_four_numbers(traced, n);
    show_requests(traced);
    show_wavefronts(traced, n);
    show_buffers(traced);
}
