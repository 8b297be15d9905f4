// ./ch06, the cards: how much of a GPU one query keeps busy, for the device at hand and for the
// H100 of the lesson's text, and how long a cache of 48 MiB takes to read at least.
#include "chapters/ch06_decode/show.h"

#include "common/model.h"
#include "common/simt/runtime.h"

#include <stdio.h>

enum { HEADS = 8, SPLITS = 16, BLOCKS = HEADS * SPLITS };

// The H100's properties, from the profiles of simt.
static GpuProperties h100(const Show *show) {
    GpuProperties properties;
    const char *device = simt_settings()->device;
    simt_settings()->device = "h100";
    const AttnStatus status = gpu_properties(GPU_SIMT, &properties);
    simt_settings()->device = device;
    lesson_require(show->program, status);
    return properties;
}

static void device_row(Table *table, const char *name, const GpuProperties *device) {
    const double sms = device->multiprocessors;
    table_row(table, "%s|%.0f|%.0f %%|%.2f|%.2f|%.2f", name, sms, 100 * decode_busy(HEADS, sms),
              decode_waves(BLOCKS, sms), decode_waves(32, sms), decode_waves(256, sms));
}

static void show_busy(const Show *show, const GpuProperties *text) {
    char a[48];
    report_section("Cards: blocks for a GPU's SMs, one block an SM");
    const double sms = text->multiprocessors;
    snprintf(a, sizeof a, "%.0f %%", 100 * decode_busy(HEADS, sms));
    report_card("8 heads, one query: SMs busy", a, "8 blocks / 132 SMs");
    snprintf(a, sizeof a, "%.2f waves", decode_waves(BLOCKS, sms));
    report_card("the same, 16 splits", a, "8 x 16 = 128 blocks / 132 SMs");
    report_card("units: batch 8, 32 heads", format_count(a, 8 * 32), "batch x heads");
    report_card("units: batch 1, 32 heads", format_count(a, 32), "batch x heads");
    Table table;
    table_begin(&table, "device|SMs|8 blocks fill|128: waves|32: waves|256: waves");
    device_row(&table, "H100", text);
    device_row(&table, show->properties.name, &show->properties);
    table_print(&table);
    report_text("The cards above are an H100's. An H200 has as many SMs: what it has "
                "more of is memory and bandwidth. An SM holds several of this chapter's blocks at "
                "a time; that count is in the next section.");
}

static void show_floor(const Show *show, const GpuProperties *text) {
    const AttnShape shape = {1, 12, 12, 1, 16384, 64, 0, false, 0, NULL};
    const double bytes = attn_kv_bytes(&shape, dtype_size(DTYPE_BF16)), slow = 296e9;
    char a[32], b[64];
    report_section("Cards: the floor of a cache, 1 x 16,384 keys, 12 heads, d = 64, 16 bits");
    report_card("bytes of K and V", format_iec(a, bytes), "2 S d heads x 2 B");
    report_card("time at 296 GB/s", format_seconds(a, seconds_at(bytes, slow)),
                "bytes / rate: a report");
    report_card("time on an H100", format_seconds(a, seconds_at(bytes, text->bytes_per_s)),
                "bytes / 3.35 TB/s, data sheet");
    if (show->read_rate > 0) {
        snprintf(b, sizeof b, "bytes / %s, read_rate here", format_si(a, show->read_rate, "B/s"));
        report_card("time here", format_seconds(a, seconds_at(bytes, show->read_rate)), b);
    } else if (show->properties.bytes_per_s > 0) {
        const double rate = show->properties.bytes_per_s;
        snprintf(b, sizeof b, "bytes / %s, data sheet", format_si(a, rate, "B/s"));
        report_card(show->properties.name, format_seconds(a, seconds_at(bytes, rate)), b);
    }
    report_text("No kernel that reads the cache from memory is faster, whatever its arithmetic. "
                "O is %s, nothing beside it.",
                format_iec(a, (double)attn_count_q(&shape) * 2));
}

void show_cards(const Show *show) {
    const GpuProperties text = h100(show);
    show_busy(show, &text);
    show_floor(show, &text);
}
