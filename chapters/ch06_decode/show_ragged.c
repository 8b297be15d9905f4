// ./ch06, a ragged batch: how many blocks there are for entries of very different lengths, and how
// long each, when an entry is one block, when each is cut into as many parts, and when all parts
// have as many keys, which is what the kernels do.
#include "chapters/ch06_decode/show_timed.h"

#include <stdio.h>

enum { ENTRIES = 8, LONGEST = 16384, SPLITS = 32 };
static const int32_t lens[ENTRIES] = {LONGEST, 9000, 4096, 2500, 1024, 700, 130, 5};

static void balance_row(Table *table, const char *name, const DecodeBalance *balance) {
    char a[32], b[32];
    table_row(table, "%s|%lld|%s|%s|%.2f", name, (long long)balance->blocks,
              format_count(a, (double)balance->longest), format_count(b, balance->mean),
              (double)balance->longest / balance->mean);
}

// On cuda, the same batch with 8 heads: an entry a block, and the chosen number of equal parts.
static bool show_ragged_time(const Show *show) {
    const AttnShape shape = {ENTRIES, 8, 8, 1, LONGEST, 128, 0, false, 0, lens};
    const int64_t chosen = decode_splits(&shape, DTYPE_BF16, &show->properties);
    const int64_t counts[] = {1, chosen};
    bool passed = true;
    char time[64];
    TimedCache cache;
    Table table;
    make_cache(show, &cache, &shape, DTYPE_BF16);
    table_begin(&table, "split_kv_fused, 8 heads, d=128|keys a block|median [p10, p90]|output");
    for (int i = 0; i < 2; i++) {
        const TimedPoint point = time_rung(show, &cache, SHOW_FUSED, counts[i]);
        table_row(&table, "%s|%lld|%s|%s", i == 0 ? "an entry each" : "equal parts, chosen",
                  (long long)decode_part_keys(LONGEST, counts[i]),
                  lesson_time_text(time, &point.seconds), point.passed ? "right" : "WRONG");
        passed = point.passed && passed;
    }
    timed_cache_free(&cache);
    table_print(&table);
    return passed;
}

bool show_ragged(const Show *show) {
    const int64_t part_keys = decode_part_keys(LONGEST, SPLITS);
    const DecodeBalance whole = decode_equal_counts(lens, ENTRIES, 1);
    const DecodeBalance counts = decode_equal_counts(lens, ENTRIES, SPLITS);
    const DecodeBalance parts = decode_equal_parts(lens, ENTRIES, part_keys);
    Table table;
    char a[32], b[32], c[32];
    report_section("A ragged batch: 8 entries of 5 to 16,384 keys, blocks of one head");
    table_begin(&table, "entry's keys|one block: keys|32 parts each: keys|equal parts|keys each");
    for (int e = 0; e < ENTRIES; e++) {
        const DecodeBalance one = decode_equal_parts(&lens[e], 1, part_keys);
        table_row(&table, "%s|%s|%s|%lld|%s", format_count(a, lens[e]), format_count(b, lens[e]),
                  format_count(c, (double)decode_part_keys(lens[e], SPLITS)), (long long)one.blocks,
                  format_count((char[32]){0}, (double)one.longest));
    }
    table_print(&table);
    table_begin(&table, "blocks|number|longest|mean|longest / mean");
    balance_row(&table, "an entry each", &whole);
    balance_row(&table, "32 parts of each entry", &counts);
    balance_row(&table, "equal parts", &parts);
    table_print(&table);
    report_text("The longest block decides how long the launch takes, the mean how long it could "
                "take. With equal parts of %lld keys only an entry's last block is shorter.",
                (long long)part_keys);
    csv_row(show->csv, "balance,an entry each,1,%.6g,0,0", (double)whole.longest / whole.mean);
    csv_row(show->csv, "balance,parts of each,%d,%.6g,0,0", SPLITS,
            (double)counts.longest / counts.mean);
    csv_row(show->csv, "balance,equal parts,%d,%.6g,0,0", SPLITS,
            (double)parts.longest / parts.mean);
    return show->target != GPU_CUDA || show->options->quick || show_ragged_time(show);
}
