// ./ch05, the cards: the tiers of a GPU's memory, what a cache makes of the score matrix, what
// shared memory lets the arithmetic do, and what a block may ask for. On cuda the tiers' rates are
// measured.
#include "chapters/ch05_fused_cuda/cards.h"
#include "chapters/ch05_fused_cuda/show.h"
#include "chapters/ch05_fused_cuda/tier_rates.h"

#include "common/model.h"

#include <stdio.h>

// ---- the tiers ----------------------------------------------------------------------------------

typedef enum Tier { TIER_FMA = 0, TIER_SHARED, TIER_L2, TIER_HBM, TIERS } Tier;

typedef struct TierRun {
    GpuTarget target;
    Tier tier;
    float *x, *y;
    int64_t quads;
    int blocks, rounds;
} TierRun;

static AttnStatus run_tier(void *context, int run_number) {
    static AttnStatus (*const fma[])(float *, int, int, GpuStream) = GPU_BUILDS(tier_fma);
    static AttnStatus (*const shared[])(float *, int, int, GpuStream) = GPU_BUILDS(tier_shared);
    static AttnStatus (*const global[])(const float *, int64_t, float *, int, int, GpuStream) =
        GPU_BUILDS(tier_global);
    const TierRun *run = context;
    (void)run_number;
    switch (run->tier) {
    case TIER_FMA:
        return fma[run->target](run->y, run->blocks, run->rounds, NULL);
    case TIER_SHARED:
        return shared[run->target](run->y, run->blocks, run->rounds, NULL);
    default:
        return global[run->target](run->x, run->quads, run->y, run->blocks, run->rounds, NULL);
    }
}

// FLOP/s or bytes/s of a tier, from the fastest of 10 runs.
static double measure_tier(const Show *show, Tier tier) {
    static const int rounds[TIERS] = {16384, 16384, 24, 1};
    static const int64_t bytes[TIERS] = {0, 0, 24 << 20, (int64_t)4 << 30};
    const int64_t quads = bytes[tier] / 16;
    const int blocks = 8 * show->properties.multiprocessors;
    TierRun run = {show->target, tier, NULL, NULL, quads, blocks, rounds[tier]};
    const double threads = (double)blocks * TIER_THREADS;
    const double work[TIERS] = {2.0 * TIER_CHAINS * threads * rounds[tier],
                                16.0 * threads * rounds[tier], (double)bytes[tier] * rounds[tier],
                                (double)bytes[tier] * rounds[tier]};
    void *x = NULL, *y = NULL;
    TimeStats seconds;
    lesson_require(show->program, gpu_alloc(show->target, &x, "x", (size_t)quads, 16));
    lesson_require(show->program, gpu_fill(show->target, x, 0, (size_t)bytes[tier], NULL));
    lesson_require(show->program,
                   gpu_alloc(show->target, &y, "y", (size_t)blocks * TIER_THREADS, sizeof(float)));
    run.x = x;
    run.y = y;
    lesson_require(show->program, gpu_measure(show->target, run_tier, &run, 10, &seconds));
    gpu_free(show->target, x);
    gpu_free(show->target, y);
    return work[tier] / seconds.min;
}

double show_fma_ceiling(const Show *show) {
    return show->target == GPU_CUDA ? measure_tier(show, TIER_FMA) : 0;
}

static void show_tiers(const Show *show) {
    const CardDevice *device = &card_h200;
    const double hbm = device->hbm_bytes_per_s, shared = card_shared_bytes_per_s(device);
    char size[32], rate[32], measured[TIERS][32];
    for (Tier tier = TIER_FMA; tier < TIERS; tier++) {
        snprintf(measured[tier], sizeof measured[tier], "-");
        if (show->target == GPU_CUDA) {
            format_si(measured[tier], measure_tier(show, tier),
                      tier == TIER_FMA ? "FLOP/s" : "B/s");
        }
    }
    report_section("Cards: the tiers of an H200, from its data sheet");
    Table table;
    table_begin(&table, "tier|whose|size, all SMs|rate|of HBM|here");
    table_row(&table, "registers|a thread's|%s|-|-|-",
              format_iec(size, card_register_bytes(device)));
    table_row(&table, "shared memory|a block's|%s|%s|%.1f|%s",
              format_iec(size, card_shared_bytes(device)), format_si(rate, shared, "B/s"),
              shared / hbm, measured[TIER_SHARED]);
    table_row(&table, "L2 cache|everyone's|%s|-|-|%s", format_iec(size, device->l2_bytes),
              measured[TIER_L2]);
    table_row(&table, "HBM|everyone's|%s|%s|1.0|%s", format_iec(size, device->hbm_bytes),
              format_si(rate, hbm, "B/s"), measured[TIER_HBM]);
    table_row(&table, "multiply-adds, f32|-|-|%s|-|%s",
              format_si(rate, card_fma_flops_per_s(device), "FLOP/s"), measured[TIER_FMA]);
    table_print(&table);
    report_text("HBM is the device memory. 132 SMs at 1.98 GHz at most: each has 228 KiB of shared "
                "memory that delivers 128 B a clock, 65,536 registers of 4 B, and starts 128 "
                "multiply-adds a clock.%s",
                show->target == GPU_CUDA ? " \"Here\": measured on this GPU, reads only." : "");
}

// ---- the score matrix ---------------------------------------------------------------------------

static void show_scores(void) {
    const CardDevice *device = &card_h200;
    const double n = 4096, d = 64, heads = 12, f = sizeof(float), hbm = device->hbm_bytes_per_s;
    const double naive = f * heads * naive_hbm_elements(n, d, false);
    const double compulsory = f * heads * compulsory_elements(n, d);
    const double tiled = f * heads * tiled_hbm_elements(n, d, 64, false);
    const double flops = heads * attention_flops(n, n, d);
    char a[32];
    report_section("Cards: what the L2 changes, f32");
    report_card("scores of one head, N = 2,048", format_iec(a, card_score_bytes(2048)), "4 N^2 B");
    report_card("L2 of an H200", format_iec(a, device->l2_bytes), "so that matrix never leaves it");
    report_card("longest N whose matrix fits",
                format_count(a, (double)card_longest_in_cache(device->l2_bytes, 1)),
                "sqrt(L2 / 4)");
    report_card("the same, 12 heads at once",
                format_count(a, (double)card_longest_in_cache(device->l2_bytes, 12)),
                "sqrt(L2 / (4 x 12))");
    report_section("Cards: 12 heads, N = 4,096, d = 64, f32, on an H200");
    report_card("arithmetic", format_si(a, flops, "FLOP"), "12 x 4 N^2 d");
    report_card("its time at the FMA rate", format_seconds(a, flops / card_fma_flops_per_s(device)),
                "66.9 TFLOP/s");
    report_card("naive, by launch", format_iec(a, naive), "12 x (4N^2 + 4Nd) x 4 B");
    report_card("its time at HBM's rate", format_seconds(a, seconds_at(naive, hbm)), "4.8 TB/s");
    report_card("tiled, by block, Bq = 64", format_iec(a, tiled), "12 x (2Nd + 2N^2 d/Bq) x 4 B");
    report_card("Q, K, V and O once", format_iec(a, compulsory), "12 x 4Nd x 4 B");
    report_card("its time at HBM's rate", format_seconds(a, seconds_at(compulsory, hbm)),
                "what tiled takes from HBM when the L2 serves K and V again");
}

// ---- shared memory's rate -----------------------------------------------------------------------

static void show_register_blocks(void) {
    static const int blocks[][2] = {{1, 1}, {4, 4}, {8, 4}, {8, 8}};
    const CardDevice *device = &card_h200;
    report_section("Cards: multiply-adds per wavefront of shared memory");
    Table table;
    table_begin(&table,
                "block of a thread|floats read|FMA, a warp|FMA / wavefront|of the FMA rate");
    for (int i = 0; i < 4; i++) {
        const int r = blocks[i][0], c = blocks[i][1];
        const double fma = card_fma_per_wavefront(r, c);
        table_row(&table, "%d x %d|%d|%d|%.1f|%.1f %%", r, c, r + c, 32 * r * c, fma,
                  100 * card_shared_limit(device, fma));
    }
    table_print(&table);
    report_text("FMA / wavefront: 32 r c / (r + c). An SM takes one wavefront and starts 128 "
                "multiply-adds a clock; a thread that holds one score of its own is fed an eighth "
                "of that. Vector loads and lanes that share values improve on it.");
}

// ---- limits -------------------------------------------------------------------------------------

static void show_limits(const GpuProperties *device) {
    char a[32], text[96];
    report_section("Cards: what a launch may ask for");
    report_card("threads in a block", format_count(a, device->max_threads_per_block), device->name);
    report_card("blocks, grid y and z", format_count(a, (double)device->max_grid[1]),
                "x: 2^31 - 1; so heads go to x");
    report_card("shared memory, bytes", format_count(a, (double)device->shared_per_block),
                "48 KiB, without opt-in");
    report_card("with opt-in, bytes", format_count(a, (double)device->shared_per_block_optin),
                "a block's; an SM has 1 KiB more");
    report_card("32 x 32 tiles, d = 128", format_count(a, (double)card_tile_bytes(32, 32, 128)),
                "4 (Bq d + 2 Bk d + Bq Bk): needs it");
    snprintf(text, sizeof text, "%s / (3 x 128), down to eights",
             format_count((char[32]){0}, device->registers_per_multiprocessor));
    report_card("__launch_bounds__(128, 3)",
                format_count(a, card_registers(device->registers_per_multiprocessor, 128, 3)),
                text);
}

void show_cards(const Show *show) {
    show_tiers(show);
    show_scores();
    show_register_blocks();
    show_limits(&show->properties);
}
