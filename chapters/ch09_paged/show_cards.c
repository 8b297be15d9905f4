// ./ch09, the cards: what a page holds, what its entry costs, where 32 bits end; and the memory
// that a ragged batch holds, in pages and in one piece for each sequence.
#include "chapters/ch09_paged/show.h"

#include <stdio.h>

enum { PAGE = 16 };

void show_cards(void) {
    const PageLayout layout = {PAGE, SHOW_HEADS_KV, SHOW_DIM, DTYPE_BF16};
    const double bytes = page_bytes(PAGE, SHOW_HEADS_KV, SHOW_DIM, SHOW_ELEMENT);
    const int64_t limit = (int64_t)1 << 31;
    const int64_t beyond = page_beyond(&layout, limit);
    char a[48], b[64], c[32];
    report_section("Cards: pages of 16 tokens, 8 KV heads, d = 128, 16 bits, one layer");
    report_card("a page's K and V", format_iec(a, bytes), "2 x 8 x 16 x 128 x 2 B");
    snprintf(a, sizeof a, "%d B", TABLE_ENTRY);
    report_card("its entry in a table", a, "an int32");
    snprintf(a, sizeof a, "%.4f %%", 100 * TABLE_ENTRY / bytes);
    snprintf(b, sizeof b, "4 B / %s", format_iec(c, bytes));
    report_card("entry / page", a, b);
    report_card("lookups for 128 keys", format_count(a, (double)page_lookups(128, PAGE)),
                "128 / 16");
    report_card("the same, page 1", format_count(a, (double)page_lookups(128, 1)), "128 / 1");
    report_card("entries of 8,192 keys", format_count(a, (double)page_lookups(8192, PAGE)),
                "8,192 / 16: 2 KiB");
    report_card("first page beyond 2^31", format_count(a, (double)beyond),
                "2^31 / (8 x 16 x 128) elements");
    snprintf(a, sizeof a, "%lld", (long long)page_offset(&layout, beyond, 0, 0));
    snprintf(b, sizeof b, "times 16,384; in an int: %d", (int)INT32_MIN);
    report_card("its offset", a, b);
    report_card("K and V before it", format_iec(a, (double)beyond * bytes), "131,072 x 64 KiB");
    report_text("The table costs nothing in bytes. What it costs is order: the address of a key is "
                "known only when its entry has been read. And a pool that fills a few GiB of a "
                "large GPU has offsets that an int does not hold.");
}

// ---- waste --------------------------------------------------------------------------------------

enum { BATCH = 64, MEDIAN = 1024, LONGEST = 16384 };
static const double spread = 1.0;

static void waste_row(Table *table, const char *name, int64_t held, int64_t used, int64_t worst) {
    const double token = page_bytes(1, SHOW_HEADS_KV, SHOW_DIM, SHOW_ELEMENT);
    char a[32], b[32], c[32] = "-", share[32];
    snprintf(share, sizeof share, "%.1f %%", 100.0 * (double)used / (double)held);
    if (worst >= 0) {
        format_count(c, (double)worst);
    }
    table_row(table, "%s|%s|%s|%s|%s", name, format_count(a, (double)held),
              format_iec(b, (double)held * token), share, c);
}

void show_waste(const Show *show) {
    static const int64_t pages[] = {1024, 256, 128, 64, 32, 16, 8, 1};
    int32_t lens[BATCH];
    int32_t longest = 0;
    char heading[80], a[32], b[32];
    Table table;
    ragged_lengths(lens, BATCH, MEDIAN, spread, LONGEST, show->options->seed);
    for (int i = 0; i < BATCH; i++) {
        longest = lens[i] > longest ? lens[i] : longest;
    }
    const PageWaste server = page_waste(lens, BATCH, 1, LONGEST);
    const PageWaste batch = page_waste(lens, BATCH, 1, longest);
    snprintf(heading, sizeof heading, "Waste: %d sequences, log-normal lengths, median %s", BATCH,
             format_count(a, MEDIAN));
    report_section(heading);
    report_text("%s tokens in all; the longest sequence has %s. Bytes of one layer's K and V.",
                format_count(a, (double)server.used), format_count(b, longest));
    table_begin(&table, "room for|slots|bytes|in use|empty, worst sequence");
    waste_row(&table, "16,384 tokens each", server.contiguous, server.used, -1);
    waste_row(&table, "the longest's, each", batch.contiguous, batch.used, -1);
    csv_row(show->csv, "waste,reserved,%d,%.6g,0,0", 0,
            (double)server.contiguous / (double)server.used);
    csv_row(show->csv, "waste,longest,%d,%.6g,0,0", 0,
            (double)batch.contiguous / (double)batch.used);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        const PageWaste paged = page_waste(lens, BATCH, pages[i], LONGEST);
        snprintf(a, sizeof a, "pages of %lld", (long long)pages[i]);
        waste_row(&table, a, paged.paged, paged.used, paged.worst);
        csv_row(show->csv, "waste,paged,%lld,%.6g,0,0", (long long)pages[i],
                (double)paged.paged / (double)paged.used);
    }
    table_print(&table);
    report_text("Only a sequence's last page has empty slots, page - 1 of them at most, half a "
                "page on average. Room for the longest has to be reserved before anybody knows "
                "how long a sequence becomes.");
}
