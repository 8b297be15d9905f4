// The suite of lab 2, a ragged batch over a fixed number of blocks: plans by hand, then random
// batches against dealing the tiles out one by one.
#include "exercises/ch06/labs.h"
#include "tests/grade/grade.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char grade_title[] = "a ragged batch over a fixed number of blocks";

// ---- cases --------------------------------------------------------------------------------------

static void set_case(const TiledBatch *b) {
    char lens[256] = "";
    int used = 0;
    for (int64_t i = 0; i < b->sequences && used < 200; i++) {
        used += snprintf(lens + used, sizeof(lens) - (size_t)used, "%s%lld", i == 0 ? "" : ", ",
                         (long long)b->lens[i]);
    }
    grade_case("lengths %s%s in tiles of %lld over %lld blocks", used == 0 ? "none" : lens,
               used >= 200 ? " ..." : "", (long long)b->tile_keys, (long long)b->blocks);
}

static TiledBatch batch_of(int64_t sequences, const int64_t *lens, int64_t tile_keys,
                           int64_t blocks) {
    int64_t *copy = grade_alloc((size_t)(sequences + 1) * sizeof(int64_t));
    for (int64_t i = 0; i < sequences; i++) {
        copy[i] = lens[i];
    }
    grade_freeze("lens", copy, sizeof(int64_t));
    return (TiledBatch){sequences, copy, tile_keys, blocks};
}

// Room for a plan of `items` items, with the harness's guards behind each array.
static WorkPlan make_plan(const TiledBatch *b, int64_t items) {
    return (WorkPlan){grade_alloc((size_t)(b->blocks + 1) * sizeof(int64_t)),
                      grade_alloc((size_t)items * sizeof(WorkItem)),
                      grade_alloc((size_t)b->sequences * sizeof(int64_t))};
}

static int64_t tiles_by_suite(const TiledBatch *b, int64_t *used) {
    int64_t tiles = 0;
    *used = 0;
    for (int64_t s = 0; s < b->sequences; s++) {
        const int64_t own = b->lens[s] / b->tile_keys + (b->lens[s] % b->tile_keys > 0 ? 1 : 0);
        tiles += own;
        *used += own > 0 ? 1 : 0;
    }
    return tiles;
}

static int64_t limit_by_suite(const TiledBatch *b) {
    int64_t used = 0;
    const int64_t tiles = tiles_by_suite(b, &used);
    return tiles < used + b->blocks - 1 ? tiles : used + b->blocks - 1;
}

// ---- the suite's own plan -----------------------------------------------------------------------

// Tile by tile: a tile joins the item before it if that is of the same sequence and block.
static WorkPlan plan_by_suite(const TiledBatch *b) {
    int64_t used = 0;
    const int64_t tiles = tiles_by_suite(b, &used);
    WorkPlan plan = make_plan(b, limit_by_suite(b));
    int64_t block = 0, count = 0, own = 0; // own: tiles that the block has already
    int64_t last_block = -1, last_sequence = -1;
    plan.first_item[0] = 0;
    for (int64_t s = 0; s < b->sequences; s++) {
        plan.parts[s] = 0;
        for (int64_t begin = 0; begin < b->lens[s]; begin += b->tile_keys) {
            const int64_t end = begin + b->tile_keys;
            if (own == tiles / b->blocks + (block < tiles % b->blocks ? 1 : 0)) {
                plan.first_item[++block] = count;
                own = 0;
            }
            if (block != last_block || s != last_sequence) {
                plan.items[count++] = (WorkItem){s, begin, begin, plan.parts[s]++};
                last_block = block;
                last_sequence = s;
            }
            plan.items[count - 1].end = end < b->lens[s] ? end : b->lens[s];
            own++;
        }
    }
    while (block < b->blocks) {
        plan.first_item[++block] = count;
    }
    return plan;
}

// ---- what a plan has to be ----------------------------------------------------------------------

static void expect_item(int64_t block, int64_t number, const WorkItem *got, const WorkItem *want) {
    char what[96];
    if (got->sequence == -1 && got->begin == -1) {
        grade_fail("item %lld (block %lld): never written", (long long)number, (long long)block);
    }
    if (got->begin >= got->end) {
        grade_fail("item %lld (block %lld): keys %lld .. %lld of sequence %lld: no keys",
                   (long long)number, (long long)block, (long long)got->begin, (long long)got->end,
                   (long long)got->sequence);
    }
    const char *const names[] = {"sequence", "begin", "end", "part"};
    const int64_t values[] = {got->sequence, got->begin, got->end, got->part};
    const int64_t expected[] = {want->sequence, want->begin, want->end, want->part};
    for (int i = 0; i < 4; i++) {
        snprintf(what, sizeof(what), "item %lld (block %lld): %s", (long long)number,
                 (long long)block, names[i]);
        expect_int(what, values[i], expected[i]);
    }
}

static void expect_same(const TiledBatch *b, const WorkPlan *got, const WorkPlan *want) {
    char what[64];
    for (int64_t block = 0; block < b->blocks; block++) {
        snprintf(what, sizeof(what), "first_item[%lld]", (long long)block);
        expect_int(what, got->first_item[block], want->first_item[block]);
        for (int64_t i = want->first_item[block]; i < want->first_item[block + 1]; i++) {
            expect_item(block, i, &got->items[i], &want->items[i]);
        }
    }
    snprintf(what, sizeof(what), "first_item[%lld], the number of items,", (long long)b->blocks);
    expect_int(what, got->first_item[b->blocks], want->first_item[b->blocks]);
    for (int64_t s = 0; s < b->sequences; s++) {
        snprintf(what, sizeof(what), "parts[%lld]", (long long)s);
        expect_int(what, got->parts[s], want->parts[s]);
    }
}

static WorkPlan plan_of(const TiledBatch *b, int64_t limit) {
    WorkPlan plan = make_plan(b, limit);
    set_case(b);
    plan_blocks(b, &plan);
    return plan;
}

static void expect_plan(const TiledBatch *b) {
    const WorkPlan want = plan_by_suite(b), got = plan_of(b, limit_by_suite(b));
    expect_same(b, &got, &want);
}

// ---- by hand ------------------------------------------------------------------------------------

static void test_shares(void) {
    const int64_t sizes[][2] = {{10, 3}, {12, 4}, {3, 5}, {1, 1}, {263, 132}, {264, 132}};
    for (int i = 0; i < 6; i++) {
        const int64_t tiles = sizes[i][0], blocks = sizes[i][1];
        int64_t dealt = 0;
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t left = blocks - block; // these share what is left
            grade_case("tiles_of_block(%lld, %lld, %lld)", (long long)tiles, (long long)blocks,
                       (long long)block);
            const int64_t share = tiles_of_block(tiles, blocks, block);
            expect_int("tiles", share, (tiles - dealt + left - 1) / left);
            dealt += share;
        }
    }
}

static void test_one_sequence(void) {
    const int64_t lens[] = {640};
    const TiledBatch b = batch_of(1, lens, 64, 3);
    WorkPlan want = {(int64_t[]){0, 1, 2, 3},
                     (WorkItem[]){{0, 0, 256, 0}, {0, 256, 448, 1}, {0, 448, 640, 2}},
                     (int64_t[]){3}};
    const WorkPlan got = plan_of(&b, 3);
    expect_same(&b, &got, &want);
}

static void test_tail_keys(void) {
    const int64_t lens[] = {605, 1, 65};
    const TiledBatch one = batch_of(1, lens, 64, 4), three = batch_of(3, lens, 64, 1);
    WorkPlan want = {
        (int64_t[]){0, 1, 2, 3, 4},
        (WorkItem[]){{0, 0, 192, 0}, {0, 192, 384, 1}, {0, 384, 512, 2}, {0, 512, 605, 3}},
        (int64_t[]){4}};
    WorkPlan got = plan_of(&one, 4);
    expect_same(&one, &got, &want);
    want = (WorkPlan){(int64_t[]){0, 3}, (WorkItem[]){{0, 0, 605, 0}, {1, 0, 1, 0}, {2, 0, 65, 0}},
                      (int64_t[]){1, 1, 1}};
    got = plan_of(&three, 3);
    expect_same(&three, &got, &want);
}

static void test_next_sequence(void) {
    const int64_t lens[] = {320, 100, 200}; // 5, 2 and 4 tiles over 3 blocks: 4, 4 and 3
    const TiledBatch b = batch_of(3, lens, 64, 3);
    WorkPlan want = {
        (int64_t[]){0, 1, 4, 5},
        (WorkItem[]){
            {0, 0, 256, 0}, {0, 256, 320, 1}, {1, 0, 100, 0}, {2, 0, 64, 0}, {2, 64, 200, 1}},
        (int64_t[]){2, 1, 2}};
    const WorkPlan got = plan_of(&b, 5);
    expect_same(&b, &got, &want);
}

// Blocks that end where a sequence ends.
static void test_ends_together(void) {
    const int64_t lens[] = {128, 256, 128};
    for (int64_t blocks = 1; blocks <= 4; blocks++) {
        const TiledBatch b = batch_of(3, lens, 64, blocks);
        expect_plan(&b);
    }
}

static void test_part_numbers(void) {
    const int64_t lens[] = {1000, 700, 40, 900};
    for (int64_t blocks = 5; blocks <= 11; blocks += 3) {
        const TiledBatch b = batch_of(4, lens, 16, blocks);
        const WorkPlan got = plan_of(&b, limit_by_suite(&b));
        int64_t next[4] = {0};
        for (int64_t i = 0; i < got.first_item[blocks] && i < limit_by_suite(&b); i++) {
            const WorkItem *item = &got.items[i];
            if (item->sequence < 0 || item->sequence >= 4) {
                grade_fail("item %lld: sequence %lld of 4", (long long)i,
                           (long long)item->sequence);
            }
            char what[64];
            snprintf(what, sizeof(what), "item %lld, of sequence %lld: part", (long long)i,
                     (long long)item->sequence);
            expect_int(what, item->part, next[item->sequence]++);
        }
        for (int s = 0; s < 4; s++) {
            expect_int("parts", got.parts[s], next[s]);
        }
        expect_plan(&b);
    }
}

static void test_more_blocks_than_tiles(void) {
    const int64_t lens[] = {100, 30};
    for (int64_t blocks = 3; blocks <= 9; blocks += 2) {
        const TiledBatch b = batch_of(2, lens, 64, blocks);
        expect_plan(&b);
    }
}

static void test_item_limit(void) {
    const int64_t lens[] = {640, 64, 0, 128, 1};
    const int64_t want[][2] = {{1, 4}, {2, 5}, {7, 10}, {11, 14}, {12, 14}, {132, 14}};
    for (int i = 0; i < 6; i++) {
        const TiledBatch b = batch_of(5, lens, 64, want[i][0]);
        set_case(&b);
        expect_int("items", item_limit(&b), want[i][1]);
    }
}

// ---- random batches -----------------------------------------------------------------------------

static void test_random_batches(void) {
    const int64_t tiles[] = {1, 16, 64}, blocks[] = {1, 2, 5, 16, 132};
    for (uint64_t n = 0; n < 300; n++) {
        int64_t lens[40];
        const int64_t sequences = 1 + (int64_t)(n * 7 % 40);
        for (int64_t i = 0; i < sequences; i++) {
            const double x = fabs((double)grade_normal(n, (uint64_t)i));
            lens[i] = x < 0.15 ? 0 : (int64_t)(x * (n % 4 == 0 ? 20 : 300));
        }
        const TiledBatch b = batch_of(sequences, lens, tiles[n % 3], blocks[n / 3 % 5]);
        set_case(&b);
        expect_int("item_limit", item_limit(&b), limit_by_suite(&b));
        expect_plan(&b);
    }
}

static void test_long_cache(void) {
    const int64_t tile = 64, lens[] = {INT64_C(1) << 42, 100, (INT64_C(1) << 42) + 1};
    const TiledBatch b = batch_of(3, lens, tile, 2);
    const int64_t tiles = (INT64_C(1) << 37) + 3, half = (tiles + 1) / 2;

    WorkPlan want = {(int64_t[]){0, 2, 3},
                     (WorkItem[]){{0, 0, lens[0], 0}, {1, 0, 100, 0}, {2, 0, lens[2], 0}},
                     (int64_t[]){1, 1, 1}};
    grade_case("2^42, 100 and 2^42 + 1 keys in tiles of 64 over 2 blocks");
    expect_int("tiles of block 0", tiles_of_block(tiles, 2, 0), half);
    const WorkPlan got = plan_of(&b, 4);
    expect_same(&b, &got, &want);
}

static void test_empty_sequences(void) {
    const int64_t lens[] = {0, 100, 0, 0, 200, 0};
    for (int64_t blocks = 1; blocks <= 8; blocks++) {
        const TiledBatch b = batch_of(6, lens, 64, blocks);
        expect_plan(&b);
    }
}

static void test_nothing_to_do(void) {
    const int64_t lens[] = {0, 0};
    for (int64_t sequences = 0; sequences <= 2; sequences += 2) {
        const TiledBatch b = batch_of(sequences, lens, 64, 3);
        set_case(&b);
        expect_int("items", item_limit(&b), 0);
        expect_plan(&b);
    }
}

const GradeTest grade_tests[] = {
    {"shares", 1, false, test_shares,
     "Everybody gets tiles / blocks, rounded down; of what is left over, tiles % blocks, the first "
     "blocks get one each. Rounded up for all, the last blocks would go short."},
    {"one_sequence", 1, false, test_one_sequence,
     "An item ends where its block has no tile left, and the next block goes on there. Keys are "
     "tiles times tile_keys."},
    {"tail_keys", 1, false, test_tail_keys,
     "The last tile of a sequence may have fewer keys: it counts as a tile, and the item ends at "
     "the sequence's length."},
    {"next_sequence", 1, false, test_next_sequence,
     "When a sequence has no tile left and the block has, the block goes on with the next one, in "
     "a new item."},
    {"ends_together", 1, false, test_ends_together,
     "Where a block and a sequence end together, the next block begins with the next sequence, and "
     "no item without keys stands between them."},
    {"part_numbers", 1, false, test_part_numbers,
     "Parts are counted in each sequence, across blocks: two with one number would be stored in "
     "one place."},
    {"more_blocks_than_tiles", 1, false, test_more_blocks_than_tiles,
     "The last blocks get no tile, and no item: their first_item is where the items end."},
    {"item_limit", 1, false, test_item_limit,
     "Count the places where an item can begin: the first tile of each block and of each sequence "
     "that has one. The very first tile is both."},
    {"random_batches", 2, false, test_random_batches,
     "The case has a whole batch; deal its tiles out on paper up to the block that differs."},
    {"long_cache", 1, false, test_long_cache, "Keep every count in int64_t.",
     "2^37 tiles: an item takes all tiles that both the block and the sequence have left, at once, "
     "in a few operations."},
    {"empty_sequences", 1, true, test_empty_sequences,
     "A sequence without keys has no tile, no item and 0 parts, wherever it stands."},
    {"nothing_to_do", 1, true, test_nothing_to_do,
     "Without tiles no block has an item, and the limit is 0 rather than blocks - 1."},
    {NULL, 0, false, NULL, NULL},
};
