// ./ch06, waves: how many blocks a number of splits makes, how often they fill the device, how many
// keys pass one after the other, and what choose_splits makes of it. On simt, in place of times,
// the same for the larger problems.
#include "chapters/ch06_decode/show.h"

#include <math.h>
#include <stdio.h>

const AttnShape show_problems[SHOW_PROBLEMS] = {
    {1, 12, 12, 1, 16384, 64, 0, false, 0, NULL},
    {8, 32, 32, 1, 8192, 128, 0, false, 0, NULL},
    {1, 8, 8, 1, 131072, 128, 0, false, 0, NULL},
};

void problem_label(char label[SHOW_LABEL], const AttnShape *shape) {
    snprintf(label, SHOW_LABEL, "%lldx%lld h%lld d%lld", (long long)shape->batch,
             (long long)shape->len_kv, (long long)shape->heads_q, (long long)shape->dim);
}

void show_sweep_problem(const Show *show, AttnShape *shape, DType *dtype, char label[SHOW_LABEL]) {
    const Options *options = show->options;
    const bool given = options->shape_given;
    *shape = given ? options->shape : show_problems[0];
    *dtype = given || options->dtype != DTYPE_F32 ? options->dtype : DTYPE_BF16;
    problem_label(label, shape);
}

int show_sweep_counts(const Show *show, const AttnShape *shape, DType dtype,
                      int64_t counts[SHOW_COUNTS]) {
    const int64_t chosen = splits_for(show, shape, dtype);
    int64_t power = 1;
    bool taken = false;
    int count = 0;
    while (count < SHOW_COUNTS && (power <= shape->len_kv || !taken)) {
        if (!taken && (chosen <= power || power > shape->len_kv || count == SHOW_COUNTS - 1)) {
            counts[count++] = chosen;
            taken = true;
            power *= chosen == power ? 2 : 1;
        } else {
            counts[count++] = power;
            power *= 2;
        }
    }
    return count;
}

void show_waves(const Show *show) {
    AttnShape shape;
    DType dtype;
    char label[SHOW_LABEL], heading[160], a[32], b[32], c[32];
    int64_t counts[SHOW_COUNTS];
    show_sweep_problem(show, &shape, &dtype, label);
    const int count = show_sweep_counts(show, &shape, dtype, counts);
    const int64_t units = decode_units(&shape), keys = shape.len_kv;
    const int64_t slots = decode_slots(&shape, dtype, &show->properties);
    const int64_t chosen = decode_splits(&shape, dtype, &show->properties);
    double best = INFINITY;
    for (int i = 0; i < count; i++) {
        best = fmin(best, decode_model_keys(units, keys, slots, DECODE_BLOCK_COST, counts[i]));
    }
    snprintf(heading, sizeof heading, "Waves: %s %s, %s", label, dtype_name(dtype),
             show->properties.name);
    report_section(heading);
    Table table;
    table_begin(&table, "splits|blocks|waves|keys a block|modelled: keys|over the best|");
    for (int i = 0; i < count; i++) {
        const int64_t s = counts[i];
        const double model = decode_model_keys(units, keys, slots, DECODE_BLOCK_COST, s);
        const int64_t blocks = units * decode_parts(keys, s);
        const double over = best > 0 ? model / best : 1;
        table_row(&table, "%lld|%s|%.2f|%s|%s|%.2f|%s", (long long)s,
                  format_count(a, (double)blocks), decode_waves((double)blocks, (double)slots),
                  format_count(b, (double)decode_part_keys(keys, s)), format_count(c, model), over,
                  s == chosen ? "chosen" : "");
        csv_row(show->csv, "modelled,%s,%lld,%.6g,0,0", label, (long long)s, over);
    }
    table_print(&table);
    report_text(
        "Modelled: ceil(waves) (keys a block + %d), as choose_splits has it; a block costs "
        "as much as %d keys besides its own, and has at least %d. The device holds %s "
        "blocks of this kernel: %lld an SM. A wave that is begun counts whole. The model lets a "
        "block read no faster alone on an SM than among others; it does, so that few "
        "splits lose less than is modelled.",
        DECODE_BLOCK_COST, DECODE_BLOCK_COST, DECODE_MIN_KEYS, format_count(a, (double)slots),
        (long long)slots / show->properties.multiprocessors);
}

static void carries_row(const Show *show, Table *table, const AttnShape *shape, int64_t splits) {
    const int64_t blocks = decode_units(shape) * decode_parts(shape->len_kv, splits);
    const double slots = (double)decode_slots(shape, DTYPE_BF16, &show->properties);
    const double waves = decode_waves((double)blocks, slots);
    const double keys = (double)decode_part_keys(shape->len_kv, splits);
    char label[SHOW_LABEL], a[32], b[32], c[32];
    problem_label(label, shape);
    table_row(table, "%s|%lld|%s|%.2f|%s|%s", label, (long long)splits,
              format_count(a, (double)blocks), waves, format_count(b, keys),
              format_count(c, ceil(waves) * keys));
}

void show_carries_over(const Show *show) {
    char heading[128];
    Table table;
    snprintf(heading, sizeof heading, "In place of times: T = 1, bf16, %s", show->properties.name);
    report_section(heading);
    table_begin(&table, "problem|splits|blocks|waves|keys a block|waves x keys");
    for (int p = 0; p < SHOW_PROBLEMS; p++) {
        const int64_t chosen = decode_splits(&show_problems[p], DTYPE_BF16, &show->properties);
        carries_row(show, &table, &show_problems[p], 1);
        if (chosen > 1) {
            carries_row(show, &table, &show_problems[p], chosen);
        }
    }
    table_print(&table);
    report_text("The last column is keys that pass one after the other, with a wave that is begun "
                "counted whole: this carries over to a GPU. The emulator's time does not, and is "
                "not printed.");
}
