// Chapter 8's cards: see cards.h and gqa.h.
#include "chapters/ch08_gqa/cards.h"

#include "common/device.h"

#include <math.h>

// ---- the cache ----------------------------------------------------------------------------------

const GqaModel gqa_llama_70b = {80, 64, 8, 128, 2, 64.0 * 8192, 8};

double gqa_token_bytes(double layers, double heads_kv, double dim, double element) {
    return 2 * layers * heads_kv * dim * element;
}

double gqa_gpu_bytes(const GqaModel *model, double heads) {
    return model->tokens * gqa_token_bytes(model->layers, heads, model->dim, model->element) /
           model->gpus;
}

double gqa_intensity(double group, double len_q, double element) {
    return 2 * group * len_q / element;
}

double gqa_requested_bytes(const AttnShape *shape, int64_t tile_rows, bool packed, double element) {
    const int group = packed ? (int)(shape->heads_q / shape->heads_kv) : 1;
    const int64_t heads = packed ? shape->heads_kv : shape->heads_q;
    const int64_t rows = group * shape->len_q;
    double keys = 0;
    for (int64_t b = 0; b < shape->batch; b++) {
        const Mask mask = {(int)shape->len_q, (int)attn_keys(shape, b), shape->causal,
                           (int)shape->window};
        for (int64_t row0 = 0; row0 < rows; row0 += tile_rows) {
            const int64_t end = row0 + tile_rows < rows ? row0 + tile_rows : rows;
            const int first = (int)(row0 / group), last = (int)((end - 1) / group);
            const MaskRange seen = mask_tile_keys(mask, first, last - first + 1);
            keys += seen.end - seen.begin;
        }
    }
    return 2 * keys * (double)heads * (double)shape->dim * element;
}

double gqa_rows_used(double rows, double height) {
    return rows > 0 ? rows / (ceil(rows / height) * height) : 0;
}

// ---- which unit ---------------------------------------------------------------------------------

const GqaDevice gqa_h200 = {
    .multiprocessors = 132,
    .clock_hz = 1.98e9,
    .issue = 4,
    .bytes_per_s = 4.6e12,
    .fma_flops = 63.8e12,
    .sm_registers = 65536,
    .latency_s = 0.7e-6,
};

const GqaStep gqa_steps[GQA_STEPS] = {
    {"gqa, 1 row", 1, 4096, 227, 64, 112, 80, SPLIT_KV_THREADS},
    {"gqa, 4 rows", 4, 4096, 640, 256, 64, 162, SPLIT_KV_THREADS},
    {"gqa, 8 rows", 8, 4096, 1199, 512, 32, 239, SPLIT_KV_THREADS},
    {"gqa_mma, 8 rows", 8, 8192, 214, 24, 256, 215, SPLIT_KV_MMA_THREADS},
    {"gqa_mma, 16 rows", 16, 8192, 252, 32, 256, 254, SPLIT_KV_MMA_THREADS},
};

const GqaStep *gqa_step(int rung, const AttnShape *shape) {
    const int64_t rows = gqa_rungs[rung].tile_rows(shape);
    if (rung == GQA_MMA) {
        return &gqa_steps[rows == 8 ? GQA_STEP_MMA_8 : GQA_STEP_MMA_16];
    }
    return &gqa_steps[rows == 1 ? GQA_STEP_ONE : rows == 4 ? GQA_STEP_FOUR : GQA_STEP_EIGHT];
}

double gqa_issue_slots(const GqaDevice *device, double bytes) {
    return bytes / (device->bytes_per_s / device->multiprocessors / device->clock_hz) *
           device->issue;
}

double gqa_issue_share(const GqaDevice *device, int rung, const AttnShape *shape) {
    const GqaStep *step = gqa_step(rung, shape);
    const double cache = attn_kv_bytes(shape, 2);
    const double requested =
        gqa_requested_bytes(shape, gqa_rungs[rung].tile_rows(shape), rung != GQA_NAIVE, 2);
    const double share = step->instructions / gqa_issue_slots(device, step->warp_bytes);
    return cache > 0 ? share * requested / cache : 0;
}

double gqa_fma_share(const GqaDevice *device, double intensity) {
    return intensity * device->bytes_per_s / device->fma_flops;
}

double gqa_ahead_bytes(const GqaDevice *device, const GqaStep *step) {
    // Registers go to warps in units of 256, eight a thread.
    const double registers = ceil(step->registers / 8.0) * 8;
    const double blocks = floor(device->sm_registers / (registers * step->threads));
    return blocks * step->threads * step->ahead;
}

// ---- the instruction ----------------------------------------------------------------------------

int gqa_fragment_lane(GqaFragment matrix, int row, int column) {
    return matrix == GQA_FRAGMENT_B ? column * 4 + row % 8 / 2 : row % 8 * 4 + column % 8 / 2;
}

int gqa_fragment_register(GqaFragment matrix, int row, int column) {
    switch (matrix) {
    case GQA_FRAGMENT_A:
        return row / 8 + column / 8 * 2;
    case GQA_FRAGMENT_B:
        return row / 8;
    default:
        return row / 8 * 2 + column % 2;
    }
}
