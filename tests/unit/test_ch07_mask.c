// Chapter 7's rule (mask.h), counted out pair by pair against docs/conventions.md; the share of
// tiles that causal attention visits; and the lists of blocks: what they hold, and what is refused.
#include "chapters/ch07_masks/mask.h"
#include "tests/unit/gpu_targets.h"
#include "tests/unit/masks_run.h"

#include <stdio.h>
#include <stdlib.h>

// docs/conventions.md, "Which keys a query sees": S keys in use, T queries.
static bool conventions_say(int t, int s, bool causal, int w, int i, int j) {
    if (j < 0 || j >= s) {
        return false;
    }
    return !causal || (j <= i + (s - t) && (w == 0 || j > i + (s - t) - w));
}

enum { MAX_T = 7, MAX_S = 9 };

// Calls `check` for every rule of up to MAX_T queries and MAX_S keys: 0 is not causal, 1 is causal,
// 2 and more have a window.
static void for_every_rule(void (*check)(Mask mask)) {
    for (int t = 0; t <= MAX_T; t++) {
        for (int s = 0; s <= MAX_S; s++) {
            check((Mask){t, s, 0, 0});
            for (int w = 0; w <= MAX_S + 2; w++) {
                check((Mask){t, s, 1, w});
            }
        }
    }
}

static void check_rows(Mask mask) {
    for (int i = 0; i < mask.len_q; i++) {
        const MaskRange seen = mask_row_keys(mask, i);
        ck_assert(0 <= seen.begin && seen.begin <= seen.end && seen.end <= mask.keys);
        for (int j = -2; j < mask.keys + 3; j++) {
            const bool wanted =
                conventions_say(mask.len_q, mask.keys, mask.causal, mask.window, i, j);
            ck_assert_msg((mask_sees(mask, i, j) != 0) == wanted &&
                              (j >= seen.begin && j < seen.end) == wanted,
                          "T %d, S %d, causal %d, window %d, row %d, key %d", mask.len_q, mask.keys,
                          mask.causal, mask.window, i, j);
        }
    }
}

START_TEST(every_pair) {
    for_every_rule(check_rows);
}
END_TEST

// Every tile of 1 to 4 rows and keys, some of them beyond the last row or key: its class is what
// its pairs say, rows that are not there not counted.
static void check_tiles(Mask mask) {
    for (int row0 = 0; row0 < mask.len_q + 2; row0++) {
        for (int rows = 1; rows <= 4; rows++) {
            int first = mask.keys, end = 0; // keys that somebody sees
            for (int key0 = 0; key0 < mask.keys + 2; key0++) {
                for (int count = 1; count <= 4; count++) {
                    int pairs = 0, seen = 0;
                    for (int i = row0; i < row0 + rows && i < mask.len_q; i++) {
                        for (int j = key0; j < key0 + count; j++) {
                            const bool sees = conventions_say(mask.len_q, mask.keys, mask.causal,
                                                              mask.window, i, j);
                            pairs++;
                            seen += sees;
                            first = sees && j < first ? j : first;
                            end = sees && j >= end ? j + 1 : end;
                        }
                    }
                    const TileClass wanted = seen == 0       ? TILE_SKIP
                                             : seen == pairs ? TILE_FULL
                                                             : TILE_PARTIAL;
                    ck_assert_msg(mask_tile(mask, row0, rows, key0, count) == wanted,
                                  "T %d, S %d, causal %d, window %d, rows %d + %d, keys %d + %d",
                                  mask.len_q, mask.keys, mask.causal, mask.window, row0, rows, key0,
                                  count);
                }
            }
            const MaskRange any = mask_tile_keys(mask, row0, rows);
            ck_assert_int_le(any.begin, any.end);
            ck_assert(end == 0 ? any.begin == any.end : any.begin == first && any.end == end);
        }
    }
}

START_TEST(every_tile) {
    for_every_rule(check_tiles);
}
END_TEST

// Lengths as large as the kernels allow, and a window that limits nothing, do not overflow.
START_TEST(largest_numbers) {
    const int most = 1 << 30;
    const Mask square = {most, most, 1, most}, few_keys = {most, 0, 1, most};
    const Mask one_row = {1, most, 1, most}, narrow = {most, most, 1, 2};
    ck_assert_int_eq(mask_row_keys(square, most - 1).begin, 0);
    ck_assert_int_eq(mask_row_keys(square, most - 1).end, most);
    ck_assert_int_eq(mask_row_keys(few_keys, 0).end, 0);
    ck_assert(!mask_sees(few_keys, 0, 0));
    ck_assert_int_eq(mask_row_keys(one_row, 0).end, most);
    ck_assert(mask_sees(narrow, most - 1, most - 2) && !mask_sees(narrow, most - 1, most - 3));
    ck_assert_int_eq(mask_tile(square, most - 64, 64, most - 64, 64), TILE_PARTIAL);
    ck_assert_int_eq(mask_tile(square, most - 64, 128, 0, 64), TILE_FULL);
}
END_TEST

// Tiles of each class of a whole problem.
typedef struct Tiles {
    int skip, partial, full;
} Tiles;

static Tiles count_tiles(Mask mask, int block_q, int block_k) {
    int counts[3] = {0};
    for (int row0 = 0; row0 < mask.len_q; row0 += block_q) {
        for (int key0 = 0; key0 < mask.keys; key0 += block_k) {
            counts[mask_tile(mask, row0, block_q, key0, block_k)]++;
        }
    }
    return (Tiles){counts[TILE_SKIP], counts[TILE_PARTIAL], counts[TILE_FULL]};
}

// N = 2048, causal: 53 % of the tiles of 128, 52 % of those of 64; and at 8192 2,080 of 4,096.
START_TEST(share_of_tiles) {
    static const struct {
        int n, block, visited, percent;
    } wanted[] = {{2048, 128, 136, 53}, {2048, 64, 528, 52}, {8192, 128, 2080, 51}};
    for (int i = 0; i < 3; i++) {
        const int n = wanted[i].n, block = wanted[i].block, side = n / block;
        const Tiles tiles = count_tiles((Mask){n, n, 1, 0}, block, block);
        ck_assert_int_eq(tiles.partial + tiles.full, wanted[i].visited);
        ck_assert_int_eq(tiles.partial, side); // the diagonal
        ck_assert_int_eq((200 * wanted[i].visited + side * side) / (2 * side * side),
                         wanted[i].percent);
    }
    // A window of 1024: the tiles of a block of rows do not grow with N. 64 rows see 1,024 + 63
    // keys: 17 tiles, the first and the last on the border.
    for (int n = 8192; n <= 32768; n *= 2) {
        const Tiles tiles = count_tiles((Mask){n, n, 1, 1024}, 64, 64);
        ck_assert_int_eq(tiles.partial, 2 * (n / 64) - 16);
        ck_assert_int_eq(tiles.partial + tiles.full, 17 * (n / 64) - 16 * 17 / 2);
    }
    // Decoding visits all keys, a chunk of 256 behind 4,096 all but the corner.
    ck_assert_int_eq(count_tiles((Mask){1, 4096, 1, 0}, 64, 64).full, 64);
    ck_assert_int_eq(count_tiles((Mask){256, 4096, 1, 0}, 64, 64).skip, 6);
    // A length that is no multiple of a tile is a border of its own.
    const Tiles padded = count_tiles((Mask){128, 100, 0, 0}, 64, 64);
    ck_assert(padded.full == 2 && padded.partial == 2 && padded.skip == 0);
}
END_TEST

// ---- lists of blocks ----------------------------------------------------------------------------

static bool has(const BlockList *list, int64_t row, int32_t block) {
    bool found = false;
    for (int64_t e = list->offsets[row]; e < list->offsets[row + 1]; e++) {
        found = found || list->blocks[e] == block;
    }
    return found;
}

// Every block of which one pair is seen, and no other; also of the second of a batch's lengths no
// trace: the list is entry 0's.
START_TEST(list_of_shape) {
    static const int32_t lens[] = {130, 300};
    static const AttnShape shapes[] = {
        {1, 1, 1, 130, 130, 8, 0, false, 0, NULL}, {1, 1, 1, 130, 300, 8, 0, true, 0, NULL},
        {1, 1, 1, 300, 130, 8, 0, true, 0, NULL},  {1, 1, 1, 300, 300, 8, 0, true, 65, NULL},
        {2, 1, 1, 200, 300, 8, 0, true, 0, lens},  {1, 1, 1, 0, 300, 8, 0, true, 0, NULL},
        {0, 1, 1, 64, 300, 8, 0, true, 0, NULL},   {1, 1, 1, 64, 0, 8, 0, true, 0, NULL},
    };
    for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
        const AttnShape *shape = &shapes[n];
        const int keys = shape->kv_lens != NULL ? 130 : (int)shape->len_kv;
        BlockList list;
        ASSERT_OK(block_list_of_shape(&list, shape));
        ASSERT_OK(block_list_check(&list, shape));
        for (int64_t row = 0; row < list.query_blocks; row++) {
            for (int32_t block = 0; block < list.key_blocks; block++) {
                bool wanted = false;
                for (int i = 0; i < 64; i++) {
                    for (int j = 0; j < 64 && row * 64 + i < shape->len_q; j++) {
                        wanted = wanted || conventions_say((int)shape->len_q, keys, shape->causal,
                                                           (int)shape->window, (int)row * 64 + i,
                                                           block * 64 + j);
                    }
                }
                ck_assert_int_eq(has(&list, row, block), wanted);
            }
        }
        block_list_free(&list);
    }
}
END_TEST

START_TEST(random_lists) {
    const AttnShape shape = {1, 1, 1, 64 * 50 - 3, 64 * 60 - 5, 8, 0, true, 0, NULL};
    static const double densities[] = {0, 0.1, 0.5, 0.9, 1};
    for (int d = 0; d < 5; d++) {
        BlockList list, again, other, diagonal;
        ASSERT_OK(block_list_random(&list, &shape, densities[d], false, 5));
        ASSERT_OK(block_list_random(&again, &shape, densities[d], false, 5));
        ASSERT_OK(block_list_random(&other, &shape, densities[d], false, 6));
        ASSERT_OK(block_list_random(&diagonal, &shape, densities[d], true, 5));
        ASSERT_OK(block_list_check(&list, &shape));
        ASSERT_OK(block_list_check(&diagonal, &shape));
        ck_assert_int_eq(list.query_blocks, 50);
        ck_assert_int_eq(list.key_blocks, 60);
        const int32_t listed = list.offsets[50];
        ck_assert_double_eq_tol((double)listed / 3000, densities[d], 0.03); // 3 deviations
        ck_assert_mem_eq(list.offsets, again.offsets, 51 * sizeof(int32_t));
        ck_assert_mem_eq(list.blocks, again.blocks, (size_t)listed * sizeof(int32_t));
        ck_assert_int_eq(memcmp(list.offsets, other.offsets, 51 * sizeof(int32_t)) != 0,
                         densities[d] > 0 && densities[d] < 1);
        for (int64_t row = 0; row < 50; row++) {
            const int64_t last = (row + 1) * 64 < shape.len_q ? (row + 1) * 64 : shape.len_q;
            const int32_t own = (int32_t)((last - 1 + shape.len_kv - shape.len_q) / 64);
            for (int32_t block = 0; block < 60; block++) {
                ck_assert_int_eq(has(&diagonal, row, block),
                                 has(&list, row, block) || block == own);
            }
        }
        block_list_free(&list);
        block_list_free(&again);
        block_list_free(&other);
        block_list_free(&diagonal);
    }
    // Queries before the first key have no diagonal.
    const AttnShape tall = {1, 1, 1, 200, 64, 8, 0, true, 0, NULL};
    BlockList list;
    ASSERT_OK(block_list_random(&list, &tall, 0, true, 1));
    ck_assert_int_eq(list.offsets[2], 0);
    ck_assert_int_eq(list.offsets[3], 1);
    block_list_free(&list);
}
END_TEST

START_TEST(list_errors) {
    const AttnShape shape = {1, 1, 1, 100, 200, 8, 0, false, 0, NULL}; // 2 by 4 blocks
    AttnShape illegal = shape;
    illegal.heads_q = 0;
    BlockList list;
    DeviceBlockList device = {0};
    static const struct {
        int32_t offsets[3], blocks[4];
        const char *named;
    } broken[] = {
        {{1, 2, 4}, {0, 1, 2, 3}, "offsets[0] is 1"},
        {{0, 3, 2}, {0, 1, 2, 3}, "offsets[2] is 2 after 3"},
        {{0, -1, 2}, {0, 1, 2, 3}, "offsets[1] is -1 after 0"},
        {{0, 2, 4}, {0, 4, 2, 3}, "blocks[1] is 4: key blocks are 0 to 3"},
        {{0, 2, 4}, {0, 1, -1, 3}, "blocks[2] is -1"},
        {{0, 2, 4}, {2, 1, 2, 3}, "blocks[1] is 1 after 2"},
        {{0, 2, 4}, {0, 1, 2, 2}, "blocks[3] is 2 after 2"},
    };
    ASSERT_OK(block_list_alloc(&list, 100, 200, 4));
    ck_assert_int_eq(list.offsets[2], 0);
    ASSERT_OK(block_list_check(&list, &shape)); // nothing is listed
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        memcpy(list.offsets, broken[i].offsets, sizeof broken[i].offsets);
        memcpy(list.blocks, broken[i].blocks, sizeof broken[i].blocks);
        ASSERT_FAILS(block_list_check(&list, &shape), ATTN_ERR_ARGUMENT, broken[i].named);
        ASSERT_FAILS(device_block_list_make(&device, GPU_SIMT, &list, &shape), ATTN_ERR_ARGUMENT,
                     broken[i].named);
        ck_assert(device.offsets == NULL && device.blocks == NULL);
    }
    memcpy(list.offsets, (int32_t[]){0, 4, 4}, 3 * sizeof(int32_t));
    memcpy(list.blocks, (int32_t[]){0, 1, 2, 3}, 4 * sizeof(int32_t));
    ASSERT_OK(block_list_check(&list, &shape)); // and here one row has nothing
    AttnShape longer = shape;
    longer.len_q = 129;
    ASSERT_FAILS(block_list_check(&list, &longer), ATTN_ERR_ARGUMENT, "query_blocks 2");
    longer = shape;
    longer.len_kv = 192;
    ASSERT_FAILS(block_list_check(&list, &longer), ATTN_ERR_ARGUMENT, "key_blocks 4");
    BlockList no_memory = list;
    no_memory.blocks = NULL;
    ASSERT_FAILS(block_list_check(&no_memory, &shape), ATTN_ERR_ARGUMENT, "blocks is a null");
    no_memory.offsets = NULL;
    ASSERT_FAILS(block_list_check(&no_memory, &shape), ATTN_ERR_ARGUMENT, "offsets is a null");
    block_list_free(&list);

    ASSERT_FAILS(block_list_alloc(&list, -1, 200, 4), ATTN_ERR_ARGUMENT, "len_q -1");
    ASSERT_FAILS(block_list_alloc(&list, 1, -2, 4), ATTN_ERR_ARGUMENT, "len_kv -2");
    ASSERT_FAILS(block_list_alloc(&list, 1, 2, -4), ATTN_ERR_ARGUMENT, "listed -4");
    ASSERT_FAILS(block_list_alloc(&list, 1, 2, (int64_t)1 << 31), ATTN_ERR_ARGUMENT, "listed 2147");
    ASSERT_FAILS(block_list_of_shape(&list, &illegal), ATTN_ERR_SHAPE, "heads_q");
    ASSERT_FAILS(block_list_random(&list, &illegal, 0.5, false, 1), ATTN_ERR_SHAPE, "heads_q");
    ASSERT_FAILS(block_list_random(&list, &shape, -0.1, false, 1), ATTN_ERR_ARGUMENT, "density");
    ASSERT_FAILS(block_list_random(&list, &shape, 1.1, false, 1), ATTN_ERR_ARGUMENT, "density");
    ASSERT_FAILS(block_list_random(&list, &shape, (double)NAN, false, 1), ATTN_ERR_ARGUMENT,
                 "density");
    ck_assert(list.offsets == NULL && list.blocks == NULL && list.query_blocks == 0);
}
END_TEST

// A list that was made for other lengths, or none, is refused before the launch.
START_TEST(kernels_refuse_other_lists) {
    const AttnShape made = {1, 1, 1, 100, 200, 2, 0, false, 0, NULL};
    AttnShape asked = made;
    BlockList list;
    DeviceBlockList device;
    float memory[2] = {0};
    BlockSparseEntry *entry = block_sparse_builds[GPU_SIMT];
    ASSERT_OK(block_list_of_shape(&list, &made));
    ASSERT_OK(device_block_list_make(&device, GPU_SIMT, &list, &made));
    asked.len_q = 129;
    ASSERT_FAILS(
        entry(&asked, DTYPE_F32, memory, memory, memory, memory, memory, NULL, &device, NULL),
        ATTN_ERR_ARGUMENT, "query_blocks 2");
    asked = made;
    asked.len_kv = 64;
    ASSERT_FAILS(
        entry(&asked, DTYPE_F32, memory, memory, memory, memory, memory, NULL, &device, NULL),
        ATTN_ERR_ARGUMENT, "key_blocks 4");
    ASSERT_FAILS(entry(&made, DTYPE_F32, memory, memory, memory, memory, memory, NULL, NULL, NULL),
                 ATTN_ERR_ARGUMENT, "list is a null");
    device_block_list_free(&device);
    device_block_list_free(&device); // a zeroed one is accepted
    block_list_free(&list);
    block_list_free(&list);
}
END_TEST

int main(void) {
    gpu_tests_find();
    Suite *suite = suite_create("ch07_mask");
    TCase *tests = tcase_create("ch07_mask");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, every_pair);
    tcase_add_test(tests, every_tile);
    tcase_add_test(tests, largest_numbers);
    tcase_add_test(tests, share_of_tiles);
    tcase_add_test(tests, list_of_shape);
    tcase_add_test(tests, random_lists);
    tcase_add_test(tests, list_errors);
    tcase_add_test(tests, kernels_refuse_other_lists);
    suite_add_tcase(suite, tests);
    return gpu_tests_run(suite);
}
