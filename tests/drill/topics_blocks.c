// Splits and waves (chapter 6), and visible keys (chapter 7): small counts, wanted exactly where
// they are whole. The formulas are those of the chapters' cards.h and mask.h.
#include "tests/drill/drill.h"

#include <math.h>

static const int64_t processors[] = {64, 80, 100, 108, 132}; // SMs of a GPU

// ---- splits and waves ---------------------------------------------------------------------------

// A decode step: a block for each head of each sequence, and the blocks that the GPU holds at once.
typedef struct Grid {
    double batch, heads, units, multiprocessors, resident, slots;
} Grid;

static Grid draw_grid(Draw *draw) {
    Grid grid = {0};
    grid.batch = (double)draw_one_of(draw, "batch", (const int64_t[]){1, 1, 2, 3, 4}, 5);
    grid.heads = (double)draw_one_of(draw, "heads", (const int64_t[]){4, 6, 8, 12, 16}, 5);
    grid.units = grid.batch * grid.heads;
    grid.multiprocessors = (double)draw_one_of(draw, "SMs", processors, 5);
    grid.resident = (double)draw_one_of(draw, "resident", (const int64_t[]){1, 2, 4}, 3);
    grid.slots = grid.multiprocessors * grid.resident;
    return grid;
}

static const char *plural(double count) {
    return count == 1 ? "" : "s";
}

static void ask_grid(Question *question, const Grid *grid) {
    ask(question,
        "Decoding, one query: %.0f sequence%s, %.0f heads, a block for each head of each sequence "
        "(and for each split). %.0f SMs hold %.0f block%s each at a time. ",
        grid->batch, plural(grid->batch), grid->heads, grid->multiprocessors, grid->resident,
        plural(grid->resident));
}

static void reason_slots(Question *question, const Grid *grid) {
    reason(question, "Units: %.0f x %.0f = %.0f. Places: %.0f x %.0f = %.0f.", grid->batch,
           grid->heads, grid->units, grid->multiprocessors, grid->resident, grid->slots);
}

static void waves_busy(Question *question, Draw *draw) {
    const double heads = (double)draw_one_of(draw, "heads", (const int64_t[]){4, 8, 12, 16, 32}, 5);
    const double batch = (double)draw_range(draw, "batch", 1, 3);
    const double sms = (double)draw_one_of(draw, "SMs", processors, 5);
    const double share = 100 * fmin(1, batch * heads / sms);
    ask(question,
        "Decoding one query of each of %.0f sequence%s, %.0f heads, nothing split: a block for "
        "each "
        "head of each sequence, at most one block on an SM. Which share of %.0f SMs has work?",
        batch, plural(batch), heads, sms);
    reason(question, "Blocks: %.0f x %.0f = %.0f on %.0f SMs.", batch, heads, batch * heads, sms);
    if (batch * heads > sms) {
        reason(question, "More blocks than SMs: all of them.");
        expect_mistake(question, 100 * batch * heads / sms,
                       "That is the number of waves; the share of the SMs ends at 100 %.");
    }
    expect_mistake(question, 100 * heads / sms, "That is one sequence.");
    expect_mistake(question, 100 - share, "That is the share without work.");
    answer_near(question, share, "%");
}

static void waves_decimal(Question *question, Draw *draw) {
    const Grid grid = draw_grid(draw);
    const double splits =
        (double)draw_one_of(draw, "splits", (const int64_t[]){4, 8, 12, 16, 24, 32}, 6);
    const double waves = grid.units * splits / grid.slots;
    ask_grid(question, &grid);
    ask(question, "%.0f splits: how many waves is that, with decimals?", splits);
    reason_slots(question, &grid);
    reason(question, "Blocks: %.0f x %.0f = %.0f; over %.0f places.", grid.units, splits,
           (grid.units * splits), grid.slots);
    if (grid.batch > 1) {
        expect_mistake(question, waves / grid.batch, "That is one sequence.");
    }
    if (grid.resident > 1) {
        expect_mistake(question, waves * grid.resident,
                       "That is one block an SM: each holds more at a time.");
    }
    expect_mistake(question, waves / splits, "That is without splits.");
    expect_mistake(question, 1 / waves, "That is places over blocks: the other way round.");
    answer_near(question, waves, "waves");
}

static void waves_whole(Question *question, Draw *draw) {
    const Grid grid = draw_grid(draw);
    const double splits = (double)draw_range(draw, "splits", 8, 40);
    const double blocks = grid.units * splits;
    const double waves = ceil(blocks / grid.slots);
    ask_grid(question, &grid);
    ask(question,
        "%.0f splits: how many waves does the launch take, a last one that is not full counting "
        "whole?",
        splits);
    reason_slots(question, &grid);
    reason(question, "Blocks: %.0f x %.0f = %.0f; / %.0f = %.3f, rounded up.", grid.units, splits,
           blocks, grid.slots, blocks / grid.slots);
    if (blocks > grid.slots) {
        expect_mistake(question, floor(blocks / grid.slots),
                       "That is rounded down: the blocks that are left need a wave too.");
    }
    answer_exactly(question, waves, "waves");
}

static void waves_most_splits(Question *question, Draw *draw) {
    const Grid grid = draw_grid(draw);
    const double splits = floor(grid.slots / grid.units);
    ask_grid(question, &grid);
    ask(question, "Long keys. Which is the largest number of splits that needs no second wave?");
    reason_slots(question, &grid);
    reason(question, "units x splits may be %.0f at most: %.0f / %.0f = %.3f, rounded down.",
           grid.slots, grid.slots, grid.units, grid.slots / grid.units);
    expect_mistake(question, ceil(grid.slots / grid.units),
                   "That is rounded up: a few blocks then begin a second wave.");
    answer_exactly(question, splits, "splits");
}

static void waves_part_keys(Question *question, Draw *draw) {
    const double keys = 100 * (double)draw_range(draw, "hundreds of keys", 4, 60);
    const double splits = (double)draw_range(draw, "splits", 6, 64);
    const double part = ceil(keys / splits);
    ask(question,
        "%.0f keys are cut into %.0f splits of ceil(keys / splits) keys each, the last ones taking "
        "what is left. How many keys has a split, the first one for example?",
        keys, splits);
    reason(question, "%.0f / %.0f = %.3f, rounded up.", keys, splits, keys / splits);
    expect_mistake(question, floor(keys / splits),
                   "That is rounded down: some keys would belong to no split.");
    answer_exactly(question, part, "keys");
}

static void waves_parts(Question *question, Draw *draw) {
    const double keys = 10 * (double)draw_range(draw, "tens of keys", 5, 60);
    const double splits = (double)draw_range(draw, "splits", 16, 64);
    const double part = ceil(keys / splits);
    const double parts = ceil(keys / part);
    ask(question,
        "%.0f keys are dealt out over %.0f splits, ceil(keys / splits) to each as long as there "
        "are "
        "any. How many splits get keys?",
        keys, splits);
    reason(question, "A split has %.0f / %.0f, rounded up: %.0f keys.", keys, splits, part);
    reason(question, "%.0f / %.0f, rounded up, of them have some; %.0f have none.", keys, part,
           (splits - parts));
    if (parts < splits) {
        expect_mistake(question, splits,
                       "The rounding up of the keys leaves the last splits empty.");
    }
    expect_mistake(question, splits - parts, "That is how many get none.");
    expect_mistake(question, floor(keys / part), "The last split with keys has fewer of them.");
    answer_exactly(question, parts, "splits");
}

const Topic waves_topic = {
    "waves",
    "splits and waves",
    "chapters/ch06_decode",
    {waves_busy, waves_decimal, waves_whole, waves_most_splits, waves_part_keys, waves_parts}};

// ---- visible keys -------------------------------------------------------------------------------

// A causal mask, bottom-right aligned: query i of T sees key j of S when j <= i + S - T.
typedef struct Chunk {
    double t, s, row;
} Chunk;

static Chunk draw_chunk(Draw *draw) {
    const int64_t t = draw_one_of(draw, "T", (const int64_t[]){1, 4, 16, 64, 100, 256}, 6);
    const int64_t s = draw_one_of(draw, "S", (const int64_t[]){256, 1000, 2048, 4096, 10000}, 5);
    const int64_t row = draw_range(draw, "row", 0, t - 1);
    return (Chunk){(double)t, (double)s, (double)row};
}

static void ask_chunk(Question *question, const Chunk *c) {
    ask(question,
        "Causal attention, aligned at the bottom right: T = %.0f quer%s, the last of S = %.0f "
        "positions. Queries and keys count from 0. ",
        c->t, c->t == 1 ? "y" : "ies", c->s);
}

static void visible_causal(Question *question, Draw *draw) {
    const Chunk c = draw_chunk(draw);
    ask_chunk(question, &c);
    ask(question, "How many keys does query %.0f see?", c.row);
    reason(question, "Query i sees keys 0 .. i + S - T: its own position is the last of them.");
    reason(question, "Last key: %.0f + %.0f - %.0f = %.0f; and key 0 counts too.", c.row, c.s, c.t,
           c.row + c.s - c.t);
    if (c.t < c.s) {
        expect_mistake(question, c.row + 1,
                       "That is aligned at the top left: the last query sees the last key.");
    }
    expect_mistake(question, c.row + c.s - c.t,
                   "That is the last key's number: key 0 counts as well.");
    answer_exactly(question, c.row + c.s - c.t + 1, "keys");
}

static void visible_window(Question *question, Draw *draw) {
    const Chunk c = draw_chunk(draw);
    const double window =
        (double)draw_one_of(draw, "W", (const int64_t[]){128, 512, 1000, 4096}, 4);
    const double causal = c.row + c.s - c.t + 1;
    ask_chunk(question, &c);
    ask(question,
        "A window of W = %.0f keys, the query's own position among them. How many keys does query "
        "%.0f see?",
        window, c.row);
    reason(question, "Without the window: i + S - T + 1 = %.0f keys.", causal);
    reason(question, "The window leaves the last %.0f of them, or all when there are fewer.",
           window);
    if (window < causal) {
        expect_mistake(question, window + 1, "The query's own position is one of the W keys.");
        expect_mistake(question, causal, "The window does cut something off here.");
    } else {
        expect_mistake(question, window, "So many keys do not lie before this query.");
    }
    if (c.t < c.s) {
        expect_mistake(question, fmin(window, c.row + 1),
                       "That is aligned at the top left: the last query sees the last key.");
    }
    answer_exactly(question, fmin(window, causal), "keys");
}

static void visible_first(Question *question, Draw *draw) {
    const Chunk c = draw_chunk(draw);
    const double window = (double)draw_one_of(draw, "W", (const int64_t[]){16, 64, 128, 200}, 4);
    const double first = fmax(0, c.row + c.s - c.t - window + 1);
    ask_chunk(question, &c);
    ask(question,
        "A window of W = %.0f keys, the query's own position among them. Which is the first key "
        "that query %.0f sees? Give its number.",
        window, c.row);
    reason(question, "Its own position is i + S - T = %.0f, the last key that it sees.",
           c.row + c.s - c.t);
    reason(question, "W keys end there: the first is %.0f - %.0f + 1%s.", c.row + c.s - c.t, window,
           first == 0 ? ", but not below 0" : "");
    if (first > 0) {
        expect_mistake(question, first - 1,
                       "That is one too early: the query's own position is one of the W keys.");
    }
    expect_mistake(question, c.row + c.s - c.t, "That is the last key that it sees.");
    expect_mistake(question, fmax(0, c.row - window + 1),
                   "That is aligned at the top left: add S - T.");
    answer_exactly(question, first, "");
}

static void visible_empty_rows(Question *question, Draw *draw) {
    const double s = (double)draw_range(draw, "S", 2, 100);
    const double t = s + (double)draw_range(draw, "more", 1, 100);
    ask(question,
        "Causal attention, aligned at the bottom right: T = %.0f queries on S = %.0f keys. How "
        "many "
        "queries see no key at all?",
        t, s);
    reason(question, "Query i sees keys 0 .. i + S - T, and none when that is below 0.");
    reason(question, "i < T - S: queries 0 .. %.0f.", t - s - 1);
    expect_mistake(question, 0, "That is aligned at the top left, where query 0 sees key 0.");
    expect_mistake(question, s, "That is how many queries see something.");
    answer_exactly(question, t - s, "queries");
}

static void visible_pairs(Question *question, Draw *draw) {
    const double t = (double)draw_one_of(draw, "T", (const int64_t[]){2, 4, 8, 10, 16, 20}, 6);
    const double before = (double)draw_one_of(draw, "before", (const int64_t[]){0, 10, 50, 100}, 4);
    const double pairs = t * before + t * (t + 1) / 2;
    ask(question,
        "Causal attention, aligned at the bottom right: T = %.0f queries on S = %.0f keys. How "
        "many "
        "pairs of a query and a key are visible?",
        t, t + before);
    if (before > 0) {
        reason(question, "All queries see the first S - T = %.0f keys: %.0f x %.0f = %.0f.", before,
               t, before, t * before);
        expect_mistake(question, t * (t + 1) / 2,
                       "The keys before the chunk are missing: every query sees them.");
    }
    reason(question, "The triangle: 1 + 2 + .. + T = T (T + 1) / 2 = %.0f.", t * (t + 1) / 2);
    expect_mistake(question, t * (t + before), "That is all pairs, without the mask.");
    expect_mistake(question, t * before + t * (t - 1) / 2, "Every query sees its own key too.");
    answer_exactly(question, pairs, "pairs");
}

static void visible_tiles(Question *question, Draw *draw) {
    const double block = (double)draw_one_of(draw, "block", (const int64_t[]){32, 64, 128}, 3);
    const double blocks = (double)draw_power(draw, "blocks", 2, 6);
    const double tiles = blocks * (blocks + 1) / 2;
    ask(question,
        "Causal, T = S = %.0f, square tiles of %.0f x %.0f. How many tiles have to be visited, "
        "those "
        "on the diagonal among them?",
        block * blocks, block, block);
    reason(question, "n = %.0f / %.0f = %.0f blocks of queries; the i-th visits i tiles.",
           block * blocks, block, blocks);
    reason(question, "1 + 2 + .. + n = n (n + 1) / 2.");
    expect_mistake(question, blocks * blocks, "That is all tiles, without the mask.");
    expect_mistake(question, blocks * blocks / 2, "That is half: the diagonal adds n / 2.");
    expect_mistake(question, blocks * (blocks - 1) / 2,
                   "The tiles on the diagonal are missing: half of their pairs are visible.");
    answer_exactly(question, tiles, "tiles");
}

static void visible_share(Question *question, Draw *draw) {
    const double block = (double)draw_one_of(draw, "block", (const int64_t[]){64, 128, 256}, 3);
    const double blocks = (double)draw_power(draw, "blocks", 2, 6);
    ask(question,
        "Causal, T = S = %.0f, square tiles of %.0f x %.0f. Which share of all tiles has to be "
        "visited?",
        block * blocks, block, block);
    reason(question, "n = %.0f / %.0f = %.0f blocks: n (n + 1) / 2 of n^2 tiles.", block * blocks,
           block, blocks);
    reason(question, "(n + 1) / (2 n) = %.0f / %.0f.", blocks + 1, 2 * blocks);
    expect_mistake(question, 100 * (blocks - 1) / (2 * blocks),
                   "The tiles on the diagonal are missing.");
    expect_mistake(question, 50,
                   "That is the share of the pairs when N is long; the diagonal's "
                   "tiles are visited whole.");
    answer_near(question, 100 * (blocks + 1) / (2 * blocks), "%");
}

const Topic visible_topic = {"visible",
                             "visible keys and tiles",
                             "chapters/ch07_masks",
                             {visible_causal, visible_window, visible_first, visible_empty_rows,
                              visible_pairs, visible_tiles, visible_share}};
