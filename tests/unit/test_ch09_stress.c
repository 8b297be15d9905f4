// Chapter 9's pool and kernels together: a cache that is filled at once, one by one and in chunks;
// then tens of thousands of random operations against a model that keeps every sequence's tokens in
// a plain array, with what is decoded from the pool checked every hundred.
#include "chapters/ch09_paged/block_pool.h"
#include "chapters/ch09_paged/paged.h"

#include "common/compare.h"
#include "common/simt/runtime.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/pool_model.h"

#include <check.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

// ---- one at a time, in chunks, at once ----------------------------------------------------------

// Appends five tokens in these pieces and returns O and LSE of a causal chunk of their five
// queries.
static void chunk_after(int rung, GpuTarget target, const PageLayout *layout, const int *pieces,
                        Problem *problem) {
    static Model model;
    BlockPool *pool = model_pool(target, layout, 5);
    const int64_t sequence = 0;
    int64_t number;
    memset(&model, 0, sizeof model);
    model.open = true;
    ASSERT_OK(block_pool_open(pool, &number));
    for (int i = 0; model.length < 5; i++) {
        ASSERT_OK(model_append_to_pool(pool, 0, (uint32_t)model.length, pieces[i]));
        model_append(&model, (uint32_t)model.length, pieces[i]);
        model_check_pool(pool, &model, 1);
    }
    const Model *const models[] = {&model};
    model_fill(problem, models);
    model_decode(rung, pool, &sequence, 1, problem);
    block_pool_free(pool);
}

static void check_against_oracle(const Problem *problem, DType dtype) {
    Expected expected;
    Comparison o, lse;
    ASSERT_OK(
        expected_make(&expected, &problem->shape, &problem->q, &problem->k, &problem->v, dtype));
    ck_assert_msg(compare_output(&expected, &problem->o, &problem->lse, 0, &o, &lse), "%s %s",
                  o.message, lse.message);
    expected_free(&expected);
}

// Query i of the chunk, alone, right after its token has been appended: the oracle's answer on the
// tokens up to its own, as row i of the chunk is.
static void check_steps(int rung, GpuTarget target, const PageLayout *layout,
                        const Problem *chunk) {
    static Model model;
    const Model *const models[] = {&model};
    BlockPool *pool = model_pool(target, layout, 5);
    const int64_t sequence = 0, heads = chunk->shape.heads_q, dim = layout->dim;
    int64_t number;
    memset(&model, 0, sizeof model);
    model.open = true;
    ASSERT_OK(block_pool_open(pool, &number));
    for (int32_t i = 0; i < 5; i++) {
        const int32_t length = i + 1;
        AttnShape shape = chunk->shape;
        Problem step;
        shape.len_q = 1;
        shape.len_kv = length;
        shape.kv_lens = &length;
        ASSERT_OK(model_append_to_pool(pool, 0, (uint32_t)i, 1));
        model_append(&model, (uint32_t)i, 1);
        ASSERT_OK(problem_random(&step, &shape, layout->dtype, 1));
        model_fill(&step, models);
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t c = 0; c < dim; c++) {
                tensor_set(&step.q, (size_t)(h * dim + c),
                           tensor_get(&chunk->q, (size_t)((h * 5 + i) * dim + c)));
            }
        }
        model_decode(rung, pool, &sequence, 1, &step);
        check_against_oracle(&step, layout->dtype);
        problem_free(&step);
    }
    block_pool_free(pool);
}

// Five tokens at once, one by one, and 3 + 2 are one cache: its answer has the same bits, and is
// the oracle's.
START_TEST(append_equals_prefill) {
    static const int pieces[][5] = {{5}, {1, 1, 1, 1, 1}, {3, 2}};
    static const int32_t five = 5;
    const int rung = _i % PAGED_RUNGS, order = _i / PAGED_RUNGS % 3;
    const GpuTarget target = gpu_tests.target[_i / PAGED_RUNGS / 3];
    for (int64_t page_size = 1; page_size <= 16; page_size += page_size == 1 ? 1 : 7) {
        const PageLayout layout = {page_size, 2, 64, rung == PAGED_MMA ? DTYPE_BF16 : DTYPE_F32};
        const AttnShape shape = {1, 4, 2, 5, 5, 64, 0, true, 0, &five};
        Problem problem[3];
        simt_settings()->order = (SimtOrder)order;
        for (int i = 0; i < 3; i++) {
            ASSERT_OK(problem_random(&problem[i], &shape, layout.dtype, 5));
            chunk_after(rung, target, &layout, pieces[i], &problem[i]);
            ck_assert_mem_eq(problem[i].o.data, problem[0].o.data,
                             problem[0].o.count * sizeof(float));
            ck_assert_mem_eq(problem[i].lse.data, problem[0].lse.data,
                             problem[0].lse.count * sizeof(float));
        }
        check_against_oracle(&problem[0], layout.dtype);
        check_steps(rung, target, &layout, &problem[0]);
        for (int i = 0; i < 3; i++) {
            problem_free(&problem[i]);
        }
    }
}
END_TEST

// ---- random operations --------------------------------------------------------------------------

typedef struct Stress {
    PageLayout layout;
    int64_t pages;
    int rung;
    int operations;
} Stress;

typedef struct World {
    BlockPool *pool;
    Model models[MODEL_SEQUENCES];
    uint64_t random;
    uint32_t token;    // the next one's number
    int refused, done; // appends
} World;

static int64_t below(World *world, int64_t n) {
    world->random = world->random * 6364136223846793005U + 1442695040888963407U;
    return (int64_t)((world->random >> 33) % (uint64_t)n);
}

// Pages that an append takes, from the tables and reference counts.
static int64_t pages_needed(const BlockPool *pool, int64_t sequence, int64_t tokens) {
    const int64_t page_size = block_pool_layout(pool)->page_size;
    const int64_t length = block_pool_length(pool, sequence);
    const int64_t pages = (length + page_size - 1) / page_size;
    const int64_t after = (length + tokens + page_size - 1) / page_size;
    const bool shared =
        length % page_size != 0 &&
        block_pool_references(pool, block_pool_table(pool, sequence)[pages - 1]) > 1;
    return after - pages + shared;
}

static void random_append(World *world, int64_t s) {
    BlockPool *pool = world->pool;
    const int64_t count = 1 + below(world, 1 + below(world, 9));
    if (!world->models[s].open) {
        ASSERT_FAILS(model_append_to_pool(pool, s, 0, count), ATTN_ERR_ARGUMENT, "not open");
        return;
    }
    const int64_t free_pages = block_pool_free_pages(pool);
    const int64_t needed = pages_needed(pool, s, count);
    const AttnStatus status = model_append_to_pool(pool, s, world->token, count);
    ck_assert_msg(status == (needed > free_pages ? ATTN_ERR_MEMORY : ATTN_OK),
                  "%" PRId64 " pages needed, %" PRId64 " free: %s", needed, free_pages,
                  attn_status_name(status));
    ck_assert_int_eq(block_pool_free_pages(pool), free_pages - (status == ATTN_OK ? needed : 0));
    if (status == ATTN_OK) {
        model_append(&world->models[s], world->token, count);
        world->token += (uint32_t)count;
        world->done++;
    } else {
        world->refused++;
    }
}

static void random_operation(World *world) {
    const int64_t s = below(world, MODEL_SEQUENCES), kind = below(world, 100);
    Model *model = &world->models[s];
    int64_t number;
    if (kind < 45) {
        random_append(world, s);
    } else if (kind < 60) {
        if (block_pool_open(world->pool, &number) == ATTN_OK) {
            ck_assert(!world->models[number].open);
            world->models[number].open = true;
            world->models[number].length = 0;
        }
    } else if (kind < 75) {
        const AttnStatus status = block_pool_fork(world->pool, s, &number);
        ck_assert(model->open || status == ATTN_ERR_ARGUMENT);
        if (status == ATTN_OK) {
            ck_assert(!world->models[number].open);
            world->models[number] = *model;
        }
    } else if (kind < 88) {
        const int64_t tokens = below(world, model->length + 2);
        const bool legal = model->open && tokens <= model->length;
        ck_assert_int_eq(block_pool_truncate(world->pool, s, tokens),
                         legal ? ATTN_OK : ATTN_ERR_ARGUMENT);
        model->length = legal ? tokens : model->length;
    } else {
        ck_assert_int_eq(block_pool_close(world->pool, s),
                         model->open ? ATTN_OK : ATTN_ERR_ARGUMENT);
        model->open = false;
        model->length = 0;
    }
}

// What is decoded from up to three sequences is what the oracle says of the model's tokens.
static void check_decode(const Stress *stress, World *world) {
    enum { BATCH = 3 };
    int64_t sequences[BATCH], longest = 0;
    int32_t lens[BATCH];
    const Model *models[BATCH];
    int batch = 0;
    for (int64_t i = 0, s = below(world, MODEL_SEQUENCES); i < MODEL_SEQUENCES && batch < BATCH;
         i++) {
        const int64_t number = (s + i) % MODEL_SEQUENCES;
        const Model *model = &world->models[number];
        if (model->open) {
            sequences[batch] = number;
            models[batch] = model;
            lens[batch++] = (int32_t)model->length;
            longest = model->length > longest ? model->length : longest;
        }
    }
    if (batch == 0) {
        return;
    }
    const AttnShape shape = {.batch = batch,
                             .heads_q = 2 * stress->layout.heads_kv,
                             .heads_kv = stress->layout.heads_kv,
                             .len_q = 1 + below(world, 2),
                             .len_kv = longest,
                             .dim = stress->layout.dim,
                             .causal = true,
                             .window = below(world, 2) * (1 + below(world, 30)),
                             .kv_lens = lens};
    Problem problem;
    ASSERT_OK(problem_random(&problem, &shape, stress->layout.dtype, world->token));
    model_fill(&problem, models);
    model_decode(stress->rung, world->pool, sequences, 1 + longest / 20, &problem);
    check_against_oracle(&problem, stress->layout.dtype);
    problem_free(&problem);
}

static const Stress stresses[] = {
    {{4, 2, 64, DTYPE_BF16}, 24, PAGED_MMA, 10000},
    {{6, 1, 6, DTYPE_F32}, 24, PAGED_CORES, 20000},
    {{1, 1, 8, DTYPE_F16}, 60, PAGED_CORES, 10000},
    {{16, 2, 64, DTYPE_F16}, 12, PAGED_MMA, 5000},
};
enum { STRESSES = sizeof stresses / sizeof stresses[0] };

START_TEST(random_operations) {
    const Stress *stress = &stresses[_i / gpu_tests.count];
    const GpuTarget target = gpu_tests.target[_i % gpu_tests.count];
    static World world;
    memset(&world, 0, sizeof world);
    world.pool = model_pool(target, &stress->layout, stress->pages);
    world.random = (uint64_t)_i;
    const int operations = target == GPU_TRACE ? stress->operations / 20 : stress->operations;
    for (int i = 0; i < operations; i++) {
        random_operation(&world);
        if (i % 10 == 9) {
            model_check_pool(world.pool, world.models, MODEL_SEQUENCES);
        } else {
            ASSERT_OK(block_pool_check(world.pool));
        }
        if (i % 100 == 99) {
            simt_settings()->order = (SimtOrder)(i / 100 % 3);
            check_decode(stress, &world);
        }
    }
    ck_assert_int_gt(world.done, operations / 10);
    if (target != GPU_TRACE) {
        ck_assert_int_gt(world.refused, operations / 200); // the pool was full many times
    }
    block_pool_free(world.pool);
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch09_stress");
    TCase *tests = tcase_create("ch09_stress");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, append_equals_prefill, 0, 3 * PAGED_RUNGS * gpu_tests.count);
    tcase_add_loop_test(tests, random_operations, 0, STRESSES * gpu_tests.count);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
