// ./ch08, the cards: the cache of a served model with shared heads and without, the rows of a
// matrix instruction that a group fills, the instructions of every rung beside those that there is
// time for, and who holds what of mma.m16n8k16.
#include "chapters/ch08_gqa/show.h"

#include "common/model.h"

#include <stdio.h>

// ---- a model's cache ----------------------------------------------------------------------------

void show_model(const Show *show) {
    const GqaModel *model = &gqa_llama_70b;
    const double group = model->heads_q / model->heads_kv;
    const double own = gqa_token_bytes(model->layers, model->heads_kv, model->dim, model->element);
    const double all = gqa_token_bytes(model->layers, model->heads_q, model->dim, model->element);
    const double grouped = gqa_gpu_bytes(model, model->heads_kv);
    const double single = gqa_gpu_bytes(model, model->heads_q);
    char a[32];
    report_section("Cards: Llama-3.3-70B, 80 layers, 64 query and 8 KV heads, d = 128, 16 bits");
    report_card("cache of one token", format_iec(a, own), "2 x 80 layers x 8 heads x 128 x 2 B");
    report_card("if no heads were shared", format_iec(a, all),
                "2 x 80 layers x 64 heads x 128 x 2 B");
    report_card("a GPU's part, shared", format_iec(a, grouped),
                "64 sequences x 8,192 tokens x 320 KiB / 8 GPUs");
    report_card("a GPU's part, not shared", format_iec(a, single),
                "64 sequences x 8,192 tokens x 2.5 MiB / 8 GPUs");
    if (show->properties.memory_bytes > 0) {
        report_card("this device has", format_iec(a, (double)show->properties.memory_bytes),
                    show->properties.name);
    }
    report_card("a token's step, read once",
                format_seconds(a, seconds_at(grouped, gqa_h200.bytes_per_s)),
                "20 GiB / 4.6 TB/s, an H200's, measured");
    report_card("the same, a read a query head",
                format_seconds(a, seconds_at(single, gqa_h200.bytes_per_s)), "160 GiB / 4.6 TB/s");
    report_card("intensity, not shared",
                format_si(a, gqa_intensity(1, 1, model->element), "FLOP/B"), "2 x 1 / 2 B");
    report_card("intensity, shared",
                format_si(a, gqa_intensity(group, 1, model->element), "FLOP/B"),
                "2 g T / element = 2 x 8 x 1 / 2 B");
    report_text("8 GPUs: one KV head each, and its 8 query heads. A kernel with a block for each "
                "query head asks for 160 GiB of the 20 that there are.");
}

// ---- which unit ---------------------------------------------------------------------------------

static void rows_row(Table *table, const char *name, double height) {
    static const double rows[] = {1, 2, 4, 8, 16, 32};
    char cells[6][16];
    for (int i = 0; i < 6; i++) {
        snprintf(cells[i], sizeof cells[i], "%.3g %%", 100 * gqa_rows_used(rows[i], height));
    }
    table_row(table, "%s|%.0f|%s|%s|%s|%s|%s|%s", name, height, cells[0], cells[1], cells[2],
              cells[3], cells[4], cells[5]);
}

static void show_rows(void) {
    Table table;
    report_section("Rows of a matrix instruction in use, by packed rows (g at T = 1)");
    table_begin(&table, "instruction|of|1|2|4|8|16|32");
    rows_row(&table, "wgmma: its rows", 64);
    rows_row(&table, "m16n8k16: rows, Q K^T", 16);
    rows_row(&table, "m16n8k16: columns, V^T P^T", 8);
    table_print(&table);
    report_text("At g = 8: 8 of 64, or 8 of 16, where one query has 1.");
}

static void show_steps(void) {
    Table table;
    char a[32], b[32], c[32];
    report_section("A step of each rung, bf16, d = 128, as compiled for an H200");
    table_begin(&table, "kernel|K and V|instr.|of them FMA|time for|share|ahead an SM");
    for (int i = 0; i < GQA_STEPS; i++) {
        const GqaStep *step = &gqa_steps[i];
        const double slots = gqa_issue_slots(&gqa_h200, step->warp_bytes);
        table_row(&table, "%s|%s|%d|%d|%s|%.0f %%|%s", step->name, format_iec(a, step->warp_bytes),
                  step->instructions, step->multiplies, format_count(b, slots),
                  100 * step->instructions / slots,
                  format_iec(c, gqa_ahead_bytes(&gqa_h200, step)));
    }
    table_print(&table);
    report_text(
        "Of one warp. Time for: what an SM starts while these bytes arrive at 4.6 TB/s "
        "over 132 SMs, four a clock at 1.98 GHz. FMA: of the products; HMMA for gqa_mma. "
        "Ahead: bytes that all blocks on an SM have asked for before they first wait; "
        "%s are on their way at 4.6 TB/s and 0.7 us.",
        format_iec(a, gqa_h200.bytes_per_s * gqa_h200.latency_s / gqa_h200.multiprocessors));
}

void show_units(const Show *show) {
    Table table;
    show_rows();
    show_steps();
    report_section("Which unit, by g: arithmetic over an H200's time to read the cache");
    table_begin(&table, "g|FLOP/B|FMA alone|gqa_naive|gqa|gqa_mma");
    for (int i = 0; i < SHOW_GROUPS; i++) {
        const AttnShape shape = show_group_problem(i);
        const int group = (int)(shape.heads_q / shape.heads_kv);
        const double intensity = gqa_intensity(group, 1, 2);
        double share[GQA_RUNGS];
        for (int rung = 0; rung < GQA_RUNGS; rung++) {
            share[rung] = gqa_issue_share(&gqa_h200, rung, &shape);
            csv_row(show->csv, "issue,%s,%d,%.6g,0,0", gqa_rungs[rung].name, group, share[rung]);
        }
        table_row(&table, "%d|%.0f|%.0f %%|%.0f %%|%.0f %%|%.0f %%", group, intensity,
                  100 * gqa_fma_share(&gqa_h200, intensity), 100 * share[GQA_NAIVE],
                  100 * share[GQA_PACKED], 100 * share[GQA_MMA]);
    }
    table_print(&table);
    report_text("FMA alone: multiply-adds at 63.8 TFLOP/s. The rungs: all instructions, as above, "
                "as often as the cache is requested. Above 100 %% arithmetic decides; below, it "
                "does if too few loads are on their way meanwhile.");
}

// ---- the instruction ----------------------------------------------------------------------------

// The lanes of a row's elements, `step` columns a cell, into `text` (64 bytes).
static const char *lanes_of(char text[64], GqaFragment matrix, int row, int columns, int step) {
    int used = 0;
    text[0] = '\0';
    for (int column = 0; column < columns; column += step) {
        used += snprintf(text + used, 64 - (size_t)used, " %2d",
                         gqa_fragment_lane(matrix, row, column));
    }
    return text;
}

void show_fragments(void) {
    char a[64], c[64];
    report_section("mma.m16n8k16, D = A B + C: the lane that holds each element");
    printf("%33s B, 16 x 8: two rows a line\n", "");
    for (int row = 0; row < 16; row += 2) {
        printf("%32s%s   b[%d]\n", "", lanes_of(a, GQA_FRAGMENT_B, row, 8, 1),
               gqa_fragment_register(GQA_FRAGMENT_B, row, 0));
    }
    printf("\n   A, 16 x 16: two columns a cell   C and D, 16 x 8: two columns a cell\n");
    for (int row = 0; row < 16; row++) {
        printf("  %s      %s", lanes_of(a, GQA_FRAGMENT_A, row, 16, 2),
               lanes_of(c, GQA_FRAGMENT_C, row, 8, 2));
        if (row % 8 == 0) {
            printf("   a[%d] left, a[%d] right; c[%d], c[%d]",
                   gqa_fragment_register(GQA_FRAGMENT_A, row, 0),
                   gqa_fragment_register(GQA_FRAGMENT_A, row, 8),
                   gqa_fragment_register(GQA_FRAGMENT_C, row, 0),
                   gqa_fragment_register(GQA_FRAGMENT_C, row, 1));
        }
        printf("\n");
    }
    report_text("Lane 4g + t holds the eight elements of A, four of B and four of C that have "
                "its number; the first of two is in the low half of a register.");
}
