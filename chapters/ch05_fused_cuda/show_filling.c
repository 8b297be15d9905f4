// ./ch05 on simt, in place of times: how many blocks each rung has for how many SMs, and how long
// each block's way through the keys is.
#include "chapters/ch05_fused_cuda/cards.h"
#include "chapters/ch05_fused_cuda/show.h"

#include "common/simt/runtime.h"

#include <math.h>
#include <stdio.h>

enum { LEN = 4096, DIM = 64, HEADS = 12 };

// Of a rung's launch with most threads: threads and shared memory of a block, as the trace has
// them.
typedef struct BlockSize {
    int threads;
    size_t shared;
} BlockSize;

static BlockSize block_size(const Show *show, int rung) {
    const AttnShape shape = {1, 1, 1, 32, 32, DIM, 0, false, 0, NULL};
    BlockSize size = {0, 0};
    Problem problem;
    DeviceProblem device;
    float *workspace;
    lesson_require(show->program, problem_random(&problem, &shape, DTYPE_F32, 1));
    lesson_require(show->program, device_problem_make(&device, GPU_TRACE, &problem, DTYPE_F32));
    lesson_require(show->program, rung_workspace(rung, GPU_TRACE, &shape, &workspace));
    simt_trace_reset();
    lesson_require(show->program, rung_launch(rung, false, &device, workspace));
    for (int i = 0; i < simt_trace_launches(); i++) {
        const SimtLaunchTrace *launch = simt_trace_launch(i);
        const int threads = (int)(launch->block[0] * launch->block[1] * launch->block[2]);
        if (threads > size.threads) {
            size = (BlockSize){threads, launch->static_shared + launch->dynamic_shared};
        }
    }
    gpu_free(GPU_TRACE, workspace);
    device_problem_free(&device);
    problem_free(&problem);
    return size;
}

void show_filling(const Show *show) {
    char heading[128];
    snprintf(heading, sizeof heading, "In place of times: 12 heads, N = 4,096, d = 64; %s, %d SMs",
             show->properties.name, show->properties.multiprocessors);
    report_section(heading);
    if (!show->traced) {
        report_text("Not known: a block's size is seen by the kernels' trace build, which needs "
                    "gcc 12 or newer.");
        return;
    }
    Table table;
    table_begin(&table, "rung|blocks|threads|shared|an SM|waves|keys|waves x keys");
    for (int rung = 0; rung < FUSED_RUNGS; rung++) {
        const BlockSize size = block_size(show, rung);
        int block_q, block_k;
        fused_rungs[rung].tile(DIM, &block_q, &block_k);
        const int row_tiles = (LEN + block_q - 1) / block_q, key_tiles = LEN / block_k;
        // The naive scores have a block for each tile; with keys outside a block has a whole head,
        // and its keys pass once for each tile of queries.
        double blocks = (double)HEADS * row_tiles, keys = LEN;
        if (rung == SHOW_NAIVE) {
            blocks *= key_tiles;
            keys = block_k;
        } else if (rung == SHOW_KEYS_OUTSIDE) {
            blocks = HEADS;
            keys *= row_tiles;
        }
        const int fit =
            gpu_blocks_per_multiprocessor(&show->properties, size.threads, 0, size.shared);
        const double waves = card_waves(blocks, show->properties.multiprocessors, fit);
        char a[32], b[32], c[32], d[32];
        table_row(&table, "%s|%s|%d|%s|%d|%.*f|%s|%s", show_names[rung], format_count(a, blocks),
                  size.threads, format_count(b, (double)size.shared), fit, waves < 1000 ? 2 : 0,
                  waves, format_count(c, keys), format_count(d, ceil(waves) * keys));
    }
    table_print(&table);
    report_text(
        "\"An SM\": blocks that fit at a time by threads and shared memory; simt knows no "
        "registers, which allow fewer (make resources). Keys: those that pass by a block, "
        "each time they do. Less than a wave leaves SMs idle, and a wave that is begun "
        "counts whole in the last column: keys that pass one after the other. Of naive this "
        "is the launch for the scores. The emulator's time is not printed: it is not the "
        "kernels'.");
}
