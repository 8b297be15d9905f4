// ./ch07, the cards: tiles that each mask leaves to visit, counted with mask.h beside the formula,
// and what the order of unequal blocks does to the end of a launch.
#include "chapters/ch07_masks/show.h"

#include "common/simt/runtime.h"

#include <stdio.h>

// ---- causal -------------------------------------------------------------------------------------

static void show_causal(void) {
    static const int cases[][2] = {{2048, 128}, {2048, 64}, {8192, 128}, {8192, 64}};
    char visited[32], all[32], partial[32], formula[64];
    Table table;
    report_section("Cards: tiles visited, causal, T = S = N, tiles of B queries x B keys");
    table_begin(&table, "N|B|visited|of all|share|n (n + 1) / 2|(n + 1) / 2n|partial: n");
    for (int i = 0; i < 4; i++) {
        const int len = cases[i][0], block = cases[i][1], n = len / block;
        const TileTally tally = mask_tally((Mask){len, len, 1, 0}, block, block);
        table_row(&table, "%d|%d|%s|%s|%.1f %%|%s|%.1f %%|%s", len, block,
                  format_count(visited, (double)tally.visited),
                  format_count(all, (double)tally.all),
                  100.0 * (double)tally.visited / (double)tally.all,
                  format_count(formula, (double)causal_pairs(n)), 100 * causal_share(n),
                  format_count(partial, (double)tally.partial));
    }
    table_print(&table);
    report_text("Counted tile by tile with mask_tile; n = N / B. Partial tiles lie on the diagonal "
                "and nowhere else: one for each block of queries. That their upper halves are "
                "computed as well is what is above 50 %%.");
}

// ---- window -------------------------------------------------------------------------------------

static void show_window(void) {
    char visited[32], causal[32], pairs[32];
    int block_q, block_k;
    causal_tile(64, &block_q, &block_k);
    Table table;
    report_section("Cards: a window of 1,024 keys, tiles of 64 x 64, per block of 64 queries");
    table_begin(&table, "N|window, inside|window, mean|causal, mean|pairs a query|causal");
    for (int len = 2048; len <= 131072; len *= 4) {
        const Mask window = {len, len, 1, SHOW_WINDOW}, whole = {len, len, 1, 0};
        const double blocks = (double)len / block_q;
        const double w = (double)mask_tally(window, block_q, block_k).visited / blocks;
        const double c = (double)mask_tally(whole, block_q, block_k).visited / blocks;
        const Mask last = {block_q, len, 1, SHOW_WINDOW}; // the last block of queries
        table_row(&table, "%d|%lld|%.2f|%s|%s|%s", len,
                  (long long)mask_tally(last, block_q, block_k).visited, w,
                  format_count(visited, c),
                  format_count(pairs, mask_visible_pairs(window) / (double)len),
                  format_count(causal, mask_visible_pairs(whole) / (double)len));
    }
    table_print(&table);
    report_text("Inside: Bq/Bk + ceil((W - 1) / Bk) = 1 + ceil(1,023 / 64) = %lld tiles, the same "
                "at every N, two of them partial. The mean is lower, because the first blocks "
                "have fewer keys before them.",
                (long long)window_tiles(SHOW_WINDOW, block_q, block_k));
}

// ---- block-sparse -------------------------------------------------------------------------------

static void show_sparse(const Show *show) {
    static const double densities[] = {1, 0.5, 0.25, 0.125, 0.0625, 0.03125};
    enum { LEN = 8192 };
    const AttnShape shape = {1, 1, 1, LEN, LEN, 64, 0, false, 0, NULL};
    const double blocks = (double)LEN / BLOCK_SPARSE;
    char listed[32], expected[32], bytes[32];
    Table table;
    report_section("Cards: random lists, N = 8,192: 128 x 128 blocks of 64 x 64");
    table_begin(&table, "density|listed|density n^2|share|a block of queries|list, bytes");
    for (int i = 0; i < 6; i++) {
        BlockList list;
        lesson_require(show->program,
                       block_list_random(&list, &shape, densities[i], false, show->options->seed));
        const TileTally tally = block_list_tally(&list, mask_of_shape(&shape, 0));
        table_row(
            &table, "%g|%s|%s|%.1f %%|%.1f|%s", densities[i],
            format_count(listed, (double)tally.visited),
            format_count(expected, densities[i] * blocks * blocks),
            100.0 * (double)tally.visited / (double)tally.all, (double)tally.visited / blocks,
            format_count(bytes, (double)sizeof(int32_t) * ((double)tally.visited + blocks + 1)));
        block_list_free(&list);
    }
    table_print(&table);
    report_text("The list: an int32 for each listed block, and n + 1 offsets; all heads share it.");
}

void show_cards(const Show *show) {
    show_causal();
    show_window();
    show_sparse(show);
}

// ---- the order of blocks ------------------------------------------------------------------------

// Blocks that an SM holds at a time, by threads and shared memory, as the traced launch shows them;
// 0 where it cannot be traced. simt knows no registers.
static int blocks_an_sm(const Show *show) {
    const AttnShape shape = {1, 1, 1, 1, 1, 64, 0, true, 0, NULL};
    Problem problem;
    DeviceProblem device;
    if (!show->traced) {
        return 0;
    }
    lesson_require(show->program, problem_random(&problem, &shape, DTYPE_F32, 1));
    lesson_require(show->program, device_problem_make(&device, GPU_TRACE, &problem, DTYPE_F32));
    simt_trace_reset();
    lesson_require(show->program, mask_launch(KERNEL_CAUSAL, &device, NULL));
    const SimtLaunchTrace *launch = simt_trace_launch(0);
    const int fit = gpu_blocks_per_multiprocessor(&show->properties, (int)launch->block[0], 0,
                                                  launch->static_shared + launch->dynamic_shared);
    device_problem_free(&device);
    problem_free(&problem);
    return fit;
}

// The orders that blocks can start in: head after head, or a block of each head in turn; from the
// first rows, which see least, or from the last.
typedef struct Order {
    bool all_heads, last_first;
} Order;

enum { ORDER_HEADS = 16, ORDER_TILES = 8192 / 64 }; // of the longest

// How long the causal blocks of all heads take, of `tiles` tiles a side; a tile costs 1.
static double ordered_length(const Show *show, int64_t tiles, int64_t slots, Order order) {
    double costs[ORDER_HEADS * ORDER_TILES];
    const int64_t blocks = tiles * ORDER_HEADS;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t tile = order.all_heads ? i / ORDER_HEADS : i % tiles;
        costs[i] = (double)(order.last_first ? tiles - tile : tile + 1);
    }
    const double length = launch_length(costs, blocks, slots);
    if (length < 0) {
        lesson_require(show->program,
                       attn_fail(ATTN_ERR_MEMORY, "no memory for %lld places", (long long)slots));
    }
    return length;
}

void show_order(const Show *show) {
    static const Order orders[] = {{false, false}, {false, true}, {true, false}, {true, true}};
    const int fit = blocks_an_sm(show);
    const int64_t slots = (int64_t)fit * show->properties.multiprocessors;
    report_section("Cards: the order of blocks, causal, 16 heads, d = 64, tiles of 64 x 64");
    if (slots == 0) {
        report_text("Not known: how many blocks fit is seen by the kernels' trace build, which "
                    "needs gcc 12 or newer.");
        return;
    }
    Table table;
    table_begin(&table, "N|blocks|even share|head, first|head, last|all, first|all, last|over");
    for (int64_t tiles = ORDER_TILES / 8; tiles <= ORDER_TILES; tiles *= 2) {
        const int64_t blocks = tiles * ORDER_HEADS;
        const double share = (double)(causal_pairs(tiles) * ORDER_HEADS) / (double)slots;
        double steps[4];
        for (int i = 0; i < 4; i++) {
            steps[i] = ordered_length(show, tiles, slots, orders[i]);
        }
        table_row(&table, "%lld|%lld|%.1f|%.0f|%.0f|%.0f|%.0f|%.2f", 64LL * tiles,
                  (long long)blocks, share, steps[0], steps[1], steps[2], steps[3],
                  steps[3] / share);
    }
    table_print(&table);
    report_text("A model, in steps of one tile: %s, %d SMs x %d blocks = %lld places, and each "
                "block starts where one is free first. Head after head, or a block of all heads "
                "in turn; first rows first, or last rows first. The last block of queries visits "
                "N/64 tiles, the first one: a long block that starts late is waited for. The "
                "kernel takes all heads' last rows first. Over: that over the even share.",
                show->properties.name, show->properties.multiprocessors, fit, (long long)slots);
}
