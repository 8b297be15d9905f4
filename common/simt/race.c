// Races, and reads of what nothing wrote. Every cell of memory (trace.h) remembers its last writer,
// two readers and the last atomic; an access that is not ordered with one of them, by what CUDA
// promises and not by the order in which fibers happened to run, is a race.
//
// Ordered are: accesses of one thread; accesses with a block-wide barrier between; of one warp,
// accesses with __syncwarp between that names both lanes, or a chain of them. Shuffles and votes
// order nothing. Accesses of two blocks are ordered by atomics only: an atomic releases what its
// block has done so far, and acquires what earlier atomics on the same address released. Blocks run
// one after the other here, so a release is always earlier than the acquire that sees it.
#include "common/simt/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct WarpOrder {
    Record floor; // records of this warp below it lie before its last full __syncwarp
    bool partial; // `clock` is in use: some mask since then named only part of the warp
    // What lane x did before time clock[lane][x] comes before what `lane` does now.
    uint32_t clock[SIMT_WARP][SIMT_WARP];
} WarpOrder;
static WarpOrder warp_order[SIMT_MAX_WARPS];

// ---- the blocks of a launch ---------------------------------------------------------------------

typedef struct Acquired { // by a block: what block `from` did before `until`
    uint32_t from, until, next;
} Acquired;

typedef struct BlockOrder {
    uint64_t number;            // linear
    uint32_t begin;             // time
    uint32_t first;             // its first Acquired + 1; 0: none
    uint32_t latest, latest_by; // until when the running block (by + 1) has acquired this one
    uint32_t reach, reach_at;   // the same through chains, as of query number reach_at
} BlockOrder;
static BlockOrder *blocks;
static uint32_t blocks_used, blocks_capacity;
static Acquired *acquired;
static uint32_t acquired_used, acquired_capacity;
static uint32_t query, query_edges; // numbers the tables of `reach`; edges when it was made

static void *grown(void *memory, uint32_t used, uint32_t *capacity, size_t element) {
    if (used < *capacity) {
        return memory;
    }
    *capacity = *capacity == 0 ? 64 : 2 * *capacity;
    memory = realloc(memory, *capacity * element);
    if (memory == NULL) {
        fprintf(stderr, "simt: no memory for the trace\n");
        abort();
    }
    return memory;
}

// The index, in order of execution, of the block that ran at the record's time.
static uint32_t block_index(Record record) {
    uint32_t low = 0, high = blocks_used;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (blocks[middle].begin <= record_time(record)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t race_block_of(Record record) {
    return blocks_used == 0 ? 0 : blocks[block_index(record)].number;
}

// The running block acquires what the release's block had done.
static void acquire(Record release) {
    uint32_t from = block_index(release), self = blocks_used - 1;
    BlockOrder *block = &blocks[from];
    if (from == self ||
        (block->latest_by == blocks_used && block->latest >= record_time(release))) {
        return;
    }
    block->latest_by = blocks_used;
    block->latest = record_time(release);
    acquired = grown(acquired, acquired_used, &acquired_capacity, sizeof *acquired);
    acquired[acquired_used++] = (Acquired){from, record_time(release), blocks[self].first};
    blocks[self].first = acquired_used;
}

// Follows what a block acquired, and what those had acquired: they are all earlier blocks, so that
// going down through the indices meets every block after all that lead to it.
static void find_reach(void) {
    query++;
    query_edges = acquired_used;
    blocks[blocks_used - 1].reach_at = query;
    for (uint32_t index = blocks_used; index-- > 0;) {
        if (blocks[index].reach_at != query) {
            continue;
        }
        for (uint32_t i = blocks[index].first; i != 0; i = acquired[i - 1].next) {
            BlockOrder *from = &blocks[acquired[i - 1].from];
            if (from->reach_at != query || from->reach < acquired[i - 1].until) {
                from->reach = acquired[i - 1].until;
            }
            from->reach_at = query;
        }
    }
}

// Whether an earlier block's access comes before what the running block does now.
static bool is_acquired(Record record) {
    if (blocks[blocks_used - 1].reach_at != query || query_edges != acquired_used) {
        find_reach();
    }
    const BlockOrder *block = &blocks[block_index(record)];
    return block->reach_at == query && record_time(record) < block->reach;
}

// ---- reads of what nothing wrote ----------------------------------------------------------------

// The block's first such read. It is reported at the next barrier of its thread: if another thread
// writes there before, a barrier was missing between the two, and that is the finding.
static struct {
    bool is_set;
    Access access;
} unwritten;

static void unwritten_note(const Region *region, size_t offset, size_t size, const Site *site) {
    if (!unwritten.is_set && !tracer.uninitialised_ok) {
        unwritten.is_set = true;
        unwritten.access = (Access){.address = region->start + offset,
                                    .size = size,
                                    .write = site->kind != ACCESS_LOAD,
                                    .pc = site->pc,
                                    .thread = simt_running.thread};
    }
}

static void unwritten_report(void) {
    if (unwritten.is_set) {
        unwritten.is_set = false;
        trace_found(SIMT_UNINITIALISED, &unwritten.access, 0, false);
    }
}

// ---- events -------------------------------------------------------------------------------------

void race_launch_begin(void) {
    if (tracer.time > UINT32_MAX / 2) {
        regions_clear();
        tracer.time = 0;
    }
    blocks_used = acquired_used = 0;
    tracer.launch_floor = time_floor(++tracer.time);
}

void race_block_begin(void) {
    blocks = grown(blocks, blocks_used, &blocks_capacity, sizeof *blocks);
    blocks[blocks_used++] =
        (BlockOrder){.number = simt_running.block_number, .begin = ++tracer.time};
    query++;
    unwritten.is_set = false;
    tracer.block_floor = tracer.sync_floor = time_floor(tracer.time);
    for (int warp = 0; warp < SIMT_MAX_WARPS; warp++) {
        warp_order[warp].floor = 0;
        warp_order[warp].partial = false;
    }
}

void race_block_end(void) {
    unwritten_report();
}

void race_block_sync(void) {
    unwritten_report();
    tracer.sync_floor = time_floor(++tracer.time);
    for (int warp = 0; warp < SIMT_MAX_WARPS; warp++) {
        warp_order[warp].partial = false;
    }
}

void race_warp_sync(unsigned warp, unsigned mask, unsigned existing) {
    if (unwritten.access.thread / SIMT_WARP == warp &&
        (mask >> unwritten.access.thread % SIMT_WARP & 1) != 0) {
        unwritten_report();
    }
    WarpOrder *order = &warp_order[warp];
    tracer.time++;
    if ((~mask & existing) == 0) {
        order->floor = time_floor(tracer.time);
        order->partial = false;
        return;
    }
    if (!order->partial) {
        memset(order->clock, 0, sizeof order->clock);
        order->partial = true;
    }
    uint32_t merged[SIMT_WARP] = {0};
    for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
        for (unsigned x = 0; (mask >> lane & 1) != 0 && x < SIMT_WARP; x++) {
            uint32_t known = (mask >> x & 1) != 0 ? tracer.time : order->clock[lane][x];
            merged[x] = known > merged[x] ? known : merged[x];
        }
    }
    for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
        if ((mask >> lane & 1) != 0) {
            memcpy(order->clock[lane], merged, sizeof merged);
        }
    }
}

// ---- accesses -----------------------------------------------------------------------------------

// Whether a record since the last block-wide barrier comes before the running thread's access.
static bool is_ordered(Record record) {
    unsigned self = simt_running.thread, other = record_thread(record);
    if (self == other) {
        return true;
    }
    if (self / SIMT_WARP != other / SIMT_WARP) {
        return false;
    }
    const WarpOrder *order = &warp_order[self / SIMT_WARP];
    return record < order->floor ||
           (order->partial &&
            record_time(record) < order->clock[self % SIMT_WARP][other % SIMT_WARP]);
}

static _Noreturn void race_found(SimtFindingKind kind, const Region *region, size_t offset,
                                 size_t size, const Site *site, Record before, bool before_write) {
    Access access = {region->start + offset, size, site->kind != ACCESS_LOAD, site->pc,
                     simt_running.thread};
    trace_found(kind, &access, before, before_write);
}

// What an access is checked against: the cell's record must come before it.
#define MUST_COME_BEFORE(record, is_write)                                                         \
    do {                                                                                           \
        if ((record) >= tracer.sync_floor) {                                                       \
            if (!is_ordered(record)) {                                                             \
                race_found(SIMT_RACE, region, offset, size, site, (record), (is_write));           \
            }                                                                                      \
        } else if (!region->shared && (record) >= tracer.launch_floor &&                           \
                   (record) < tracer.block_floor && !is_acquired(record)) {                        \
            race_found(SIMT_RACE_BLOCKS, region, offset, size, site, (record), (is_write));        \
        }                                                                                          \
    } while (0)

// Keeps two readers: of different threads, of different warps where it can, so that any later
// writer is unordered with one of them if it is with some reader.
static void remember_reader(const Region *region, size_t index, Record now) {
    Cell *cell = &region->cells[index];
    Record first = cell->reader[0], second = cell->reader[1], floor = tracer.sync_floor;
    unsigned self = record_thread(now);
    if (first >= floor && record_thread(first) == self) {
        cell->reader[0] = now;
    } else if (second >= floor && record_thread(second) == self) { // NOLINT(bugprone-branch-clone)
        cell->reader[1] = now;
    } else if (first < floor) {
        if (!region->shared && first >= tracer.launch_floor && first < tracer.block_floor) {
            region->across[index].reader = first;
        }
        cell->reader[0] = now;
    } else if (second < floor) {
        cell->reader[1] = now;
    } else if (!readers_suffice(first, second, now)) {
        bool is_one_warp = record_warp(first) == record_warp(now);
        cell->reader[is_one_warp && first < second ? 0 : 1] = now;
    }
}

static inline size_t cells_of(Region *region, size_t offset, size_t size, size_t *count) {
    if (size < (size_t)1 << region->shift) {
        region_split(region, size == 2 ? 1 : 0);
    }
    *count = size >> region->shift;
    return offset >> region->shift;
}

void race_load(Region *region, size_t offset, size_t size, const Site *site) {
    size_t count, index = cells_of(region, offset, size, &count);
    Record now = record_now(site);
    bool written = region->shared || region_is_written(region, offset, size);
    for (size_t i = index; i < index + count; i++) {
        const Cell *cell = &region->cells[i];
        written = written && (!region->shared || cell->writer >= tracer.block_floor ||
                              cell->atomic >= tracer.block_floor);
        MUST_COME_BEFORE(cell->writer, true);
        MUST_COME_BEFORE(cell->atomic, true);
        remember_reader(region, i, now);
    }
    if (!written) {
        unwritten_note(region, offset, size, site);
    }
}

// Leaves `writer` behind, 0 for none.
static void store(Region *region, size_t offset, size_t size, const Site *site, Record writer) {
    size_t count, index = cells_of(region, offset, size, &count);
    for (size_t i = index; i < index + count; i++) {
        Cell *cell = &region->cells[i];
        MUST_COME_BEFORE(cell->writer, true);
        MUST_COME_BEFORE(cell->atomic, true);
        MUST_COME_BEFORE(cell->reader[0], false);
        MUST_COME_BEFORE(cell->reader[1], false);
        if (!region->shared) {
            MUST_COME_BEFORE(region->across[i].reader, false);
        }
        cell->writer = writer;
        cell->atomic = writer == 0 ? 0 : cell->atomic;
    }
}

void race_store(Region *region, size_t offset, size_t size, const Site *site) {
    store(region, offset, size, site, record_now(site));
    if (!region->shared) {
        region_mark_written(region, offset, size);
    }
}

void race_async(Region *region, size_t offset, size_t size, const Site *site) {
    store(region, offset, size, site, 0);
}

// Reads and writes. What the thread did before is released with it, the atomic itself too; what its
// block does later is not: time goes on.
void race_atomic(Region *region, size_t offset, size_t size, const Site *site) {
    size_t count, index = cells_of(region, offset, size, &count);
    Record now = record_now(site);
    bool written = region->shared || region_is_written(region, offset, size);
    tracer.time++;
    if (!region->shared && region->across[index].release >= tracer.launch_floor) {
        acquire(region->across[index].release);
    }
    for (size_t i = index; i < index + count; i++) {
        Cell *cell = &region->cells[i];
        written = written && (!region->shared || cell->writer >= tracer.block_floor ||
                              cell->atomic >= tracer.block_floor);
        MUST_COME_BEFORE(cell->writer, true);
        MUST_COME_BEFORE(cell->reader[0], false);
        MUST_COME_BEFORE(cell->reader[1], false);
        // Of several threads' atomics the first is kept: the last may be the one that then reads.
        if (cell->atomic < tracer.sync_floor || is_ordered(cell->atomic)) {
            cell->atomic = now;
        }
        if (!region->shared) {
            MUST_COME_BEFORE(region->across[i].reader, false);
            region->across[i].release = time_floor(tracer.time);
        }
    }
    if (!written) {
        unwritten_note(region, offset, size, site);
    }
}
