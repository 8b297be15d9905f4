// ./ch07, bytes: what the kernels load of K and V under each mask, as the trace counts it, beside
// the tiles that the mask leaves: a tile that is skipped is not loaded.
#include "chapters/ch07_masks/show.h"

#include "common/simt/runtime.h"

#include <stdio.h>

enum { SECTOR = 32, DIM = 64, TRACE_WINDOW = 128 };

// What one launch loaded, in bytes of sectors.
typedef struct Traced {
    double kv;     // of K and V, each request's sectors counted
    double unique; // of K and V, each sector counted once in the launch
    double list;   // of offsets and blocks, each sector once in a block of threads
} Traced;

static Traced trace(const Show *show, MaskKernel kernel, const AttnShape *shape,
                    const BlockList *list) {
    Problem problem;
    DeviceProblem device;
    DeviceBlockList device_list = {0};
    Traced traced = {0, 0, 0};
    lesson_require(show->program,
                   problem_random(&problem, shape, show->options->dtype, show->options->seed));
    lesson_require(show->program, device_problem_make(&device, GPU_TRACE, &problem, problem.dtype));
    if (list != NULL) {
        lesson_require(show->program, device_block_list_make(&device_list, GPU_TRACE, list, shape));
    }
    simt_trace_reset();
    lesson_require(show->program, mask_launch(kernel, &device, &device_list));
    for (int b = 0; b < 2; b++) {
        const SimtCounts counts = simt_trace_sum(b == 0 ? "k" : "v");
        const SimtCounts lists = simt_trace_sum(b == 0 ? "offsets" : "blocks");
        traced.kv += SECTOR * (double)counts.load_sectors;
        traced.unique += (double)counts.launch_unique_load;
        traced.list += (double)lists.block_unique_load;
    }
    device_block_list_free(&device_list);
    device_problem_free(&device);
    problem_free(&problem);
    return traced;
}

static AttnShape shape_of(int64_t len_q, int64_t len_kv, bool causal, int64_t window) {
    return (AttnShape){1, 1, 1, len_q, len_kv, DIM, 0, causal, window, NULL};
}

static TileTally tally_of(const AttnShape *shape) {
    int block_q, block_k;
    causal_tile(DIM, &block_q, &block_k);
    return mask_tally(mask_of_shape(shape, 0), block_q, block_k);
}

// ---- each mask once -----------------------------------------------------------------------------

static void mask_row(const Show *show, Table *table, const char *name, MaskKernel kernel,
                     const AttnShape *shape, const BlockList *list) {
    const double element = (double)dtype_size(show->options->dtype);
    TileTally tally =
        list != NULL ? block_list_tally(list, mask_of_shape(shape, 0)) : tally_of(shape);
    if (kernel == KERNEL_EVERY_TILE) { // the mask says what is visible, but not what is visited
        const AttnShape whole = shape_of(shape->len_q, shape->len_kv, false, 0);
        tally = tally_of(&whole);
    }
    const Traced traced = trace(show, kernel, shape, list);
    const double model = kv_bytes((double)tally.keys, DIM, element);
    char a[32], b[32], c[32], share[32] = "-";
    if (tally.all > 0) {
        snprintf(share, sizeof share, "%.1f %%", 100.0 * (double)tally.visited / (double)tally.all);
    }
    table_row(table, "%s|%lld|%lld|%s|%s|%s|%s|%s", name, (long long)tally.visited,
              (long long)tally.all, share, format_iec(a, traced.kv), format_iec(b, model),
              traced.kv == model ? "equal" : "DIFFERS", format_iec(c, traced.unique));
}

static void show_masks(const Show *show, int64_t len) {
    const AttnShape full = shape_of(len, len, false, 0), causal = shape_of(len, len, true, 0);
    const AttnShape window = shape_of(len, len, true, TRACE_WINDOW);
    const AttnShape chunk = shape_of(64, len, true, 0), decode = shape_of(1, len, true, 0);
    const AttnShape empty = shape_of(len, len / 2, true, 0);
    BlockList sparse, none;
    Table table;
    char heading[96];
    lesson_require(show->program,
                   block_list_random(&sparse, &full, 0.25, false, show->options->seed));
    lesson_require(show->program, block_list_random(&none, &full, 0, false, 1));
    snprintf(heading, sizeof heading, "Bytes of K and V, traced: one head, N = %lld, d = %d, %s",
             (long long)len, DIM, dtype_name(show->options->dtype));
    report_section(heading);
    table_begin(&table, "mask|tiles|of|share|sectors|by tiles||unique");
    report_progress("tracing", 0, 4);
    mask_row(show, &table, "full", KERNEL_CAUSAL, &full, NULL);
    mask_row(show, &table, "causal", KERNEL_CAUSAL, &causal, NULL);
    mask_row(show, &table, "every score", KERNEL_EVERY_SCORE, &causal, NULL);
    mask_row(show, &table, "every tile", KERNEL_EVERY_TILE, &causal, NULL);
    report_progress("tracing", 1, 4);
    mask_row(show, &table, "window 128", KERNEL_CAUSAL, &window, NULL);
    mask_row(show, &table, "chunk, T = 64", KERNEL_CAUSAL, &chunk, NULL);
    mask_row(show, &table, "decode, T = 1", KERNEL_CAUSAL, &decode, NULL);
    mask_row(show, &table, "T = N, S = N/2", KERNEL_CAUSAL, &empty, NULL);
    mask_row(show, &table, "list, density 1/4", KERNEL_SPARSE, &full, &sparse);
    mask_row(show, &table, "that, causal", KERNEL_SPARSE, &causal, &sparse);
    mask_row(show, &table, "empty list", KERNEL_SPARSE, &full, &none);
    table_print(&table);
    report_text(
        "Sectors: 32 B each, those of every request, as the hardware counts them. By tiles: "
        "the keys of the tiles visited x 2 d x %zu B. Unique: sectors once a launch. \"Every "
        "score\" and \"every tile\" are the causal mask. T = N, S = N/2: the first half of "
        "the queries sees no key, and loads none.",
        dtype_size(show->options->dtype));
    block_list_free(&sparse);
    block_list_free(&none);
}

// ---- against N, against density -----------------------------------------------------------------

static void show_growth(const Show *show, int64_t first, int64_t last) {
    const double element = (double)dtype_size(show->options->dtype);
    char a[32], b[32], c[32], d[32];
    Table table;
    report_section("Bytes of K and V against N: sectors, and those a query");
    table_begin(&table, "N|full|causal|of full|(n+1)/2n|window 128|of full|a query");
    for (int64_t len = first; len <= last; len *= 2) {
        const AttnShape full = shape_of(len, len, false, 0), causal = shape_of(len, len, true, 0);
        const AttnShape window = shape_of(len, len, true, TRACE_WINDOW);
        report_progress("tracing", 2, 4);
        const double whole = trace(show, KERNEL_CAUSAL, &full, NULL).kv;
        const double half = trace(show, KERNEL_CAUSAL, &causal, NULL).kv;
        const double band = trace(show, KERNEL_CAUSAL, &window, NULL).kv;
        table_row(&table, "%lld|%s|%s|%.3f|%.3f|%s|%.3f|%s", (long long)len, format_iec(a, whole),
                  format_iec(b, half), half / whole, causal_share(len / 64), format_iec(c, band),
                  band / whole, format_iec(d, band / (double)len));
        csv_row(show->csv, "bytes,full,%lld,%.9g,0,0", (long long)len, whole / (double)len);
        csv_row(show->csv, "bytes,causal,%lld,%.9g,0,0", (long long)len, half / (double)len);
        csv_row(show->csv, "bytes,window 128,%lld,%.9g,0,0", (long long)len, band / (double)len);
    }
    table_print(&table);
    for (int64_t len = first; len <= 32768; len *= 2) { // the models, by tiles
        const AttnShape shapes[] = {shape_of(len, len, false, 0), shape_of(len, len, true, 0),
                                    shape_of(len, len, true, TRACE_WINDOW)};
        static const char *const names[] = {"full", "causal", "window 128"};
        for (int i = 0; i < 3; i++) {
            const double keys = (double)tally_of(&shapes[i]).keys;
            csv_row(show->csv, "model,%s,%lld,%.9g,0,0", names[i], (long long)len,
                    kv_bytes(keys, DIM, element) / (double)len);
        }
    }
    report_text("A query's share grows with N without a window. With one of 128 keys it tends to "
                "%lld tiles for each %d queries, %s a query.",
                (long long)window_tiles(TRACE_WINDOW, 64, 64), BLOCK_SPARSE,
                format_iec(a, kv_bytes((double)window_tiles(TRACE_WINDOW, 64, 64), DIM, element)));
}

static void show_density(const Show *show, int64_t len) {
    static const double densities[] = {1, 0.5, 0.25, 0.125, 0};
    const AttnShape shape = shape_of(len, len, false, 0);
    double dense = 0;
    char a[32], b[32], heading[80];
    Table table;
    snprintf(heading, sizeof heading, "Bytes against density: random lists, N = %lld",
             (long long)len);
    report_section(heading);
    table_begin(&table, "density|listed|of|share|K, V sectors|over density 1|the list|empty rows");
    for (int i = 0; i < 5; i++) {
        BlockList list;
        lesson_require(show->program,
                       block_list_random(&list, &shape, densities[i], false, show->options->seed));
        report_progress("tracing", 3, 4);
        const TileTally tally = block_list_tally(&list, mask_of_shape(&shape, 0));
        const double share = (double)tally.visited / (double)tally.all;
        const Traced traced = trace(show, KERNEL_SPARSE, &shape, &list);
        dense = i == 0 ? traced.kv : dense;
        table_row(&table, "%g|%lld|%lld|%.3f|%s|%.3f|%s|%lld", densities[i],
                  (long long)tally.visited, (long long)tally.all, share, format_iec(a, traced.kv),
                  traced.kv / dense, format_iec(b, traced.list),
                  (long long)block_list_empty_rows(&list) * BLOCK_SPARSE);
        csv_row(show->csv, "density,bytes,%.6g,%.6g,0,0", share, traced.kv / dense);
        block_list_free(&list);
    }
    report_progress("tracing", 0, 0);
    table_print(&table);
    report_text("The list: sectors of offsets and blocks, once for each block of threads. Rows "
                "whose list is empty load nothing and get O = 0, LSE = -inf.");
}

void show_bytes(const Show *show) {
    if (!show->traced) {
        report_section("Bytes");
        report_text("Not counted: the kernels' trace build needs gcc 12 or newer.");
        return;
    }
    const int64_t len = show->options->quick ? 256 : 512;
    show_masks(show, len);
    show_growth(show, len / 2, show->options->quick ? len : 2 * len);
    show_density(show, len);
}
