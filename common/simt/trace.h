// The tracer's parts among themselves: trace.c takes the accesses in, trace_counts.c counts them,
// race.c checks them, trace_memory.c knows the memory, source_line.c the source, trace_report.c the
// launches that have ended. Nothing else includes it; schedule.c and memory.c see internal.h.
#ifndef COMMON_SIMT_TRACE_H
#define COMMON_SIMT_TRACE_H

#include "common/simt/internal.h"

enum { SECTOR_BYTES = 32, MAX_ACCESS = 16 };

// One access that memory remembers: time << 32 | thread << 16 | site; 0 is none. Time is a count of
// the events that order accesses (barriers, atomics, blocks): it only grows, over all launches.
typedef uint64_t Record;

// What a few bytes of memory (a cell, see Region.shift) remember for the race check.
typedef struct Cell {
    Record writer, reader[2], atomic; // of the last threads; atomics are apart from plain writes
} Cell;

// What a cell of device memory remembers besides, of earlier blocks of the launch.
typedef struct CellAcrossBlocks {
    Record reader;  // a block that has ended
    Record release; // the last atomic
} CellAcrossBlocks;

// A stretch of memory that kernels share: a device buffer, or one of the two kinds of shared
// memory. Its tables are sparse: pages that no access needs take no memory.
typedef struct Region {
    uintptr_t start;
    size_t bytes;
    bool shared;
    uint64_t offset; // of its first byte in what streams record: in the arena, or shared memory
    unsigned shift;  // a cell stands for 1 << shift bytes: 4, until a smaller access comes
    Cell *cells;
    size_t cells_bytes;
    // Of device buffers only.
    char name[64];
    CellAcrossBlocks *across;           // as many as cells
    uint32_t *load_block, *store_block; // by sector: stamp of the last block that touched it
    bool all_written;
    uint8_t *written; // one bit a byte; NULL while none is set
    SimtCounts counts;
} Region;

typedef enum AccessKind { ACCESS_LOAD = 0, ACCESS_STORE, ACCESS_ATOMIC } AccessKind;

// Addresses at a constant distance: what one lane asked for at one place in the code.
typedef struct Run {
    uint64_t start;
    int64_t stride;
    uint32_t count;
} Run;

// The accesses of one lane since its warp's last flush, in order.
typedef struct LaneStream {
    uint64_t next; // the address that would continue the current run
    Run now;       // count 0: none yet
    Run *runs;     // those that ended
    uint32_t used, capacity;
} LaneStream;

struct Site;
typedef struct Stream {
    struct Site *site;
    LaneStream lane[SIMT_WARP];
    bool touched; // is in its warp's list
} Stream;

// One kind of access at one code address: its lanes' k-th accesses form a request.
typedef struct Site {
    const void *pc;
    uint16_t id;
    uint8_t size;
    bool shared;
    AccessKind kind;
    Region *region; // the buffer touched last; NULL after a buffer has gone
    SimtCounts global;
    SimtSharedCounts in_shared;
    Stream *stream[SIMT_MAX_WARPS];
} Site;

typedef struct Window {
    uintptr_t start;
    size_t bytes;
} Window;

typedef struct Tracer {
    // Where the running launch's memory is: empty windows while no traced launch runs.
    Window dynamic_shared, static_shared, arena;
    Region dynamic_region, static_region;
    uint32_t time;
    uint32_t block_stamp, launch_stamp; // of the block; of the launch's first block
    Record launch_floor, block_floor;   // records below are of earlier launches, earlier blocks
    Record sync_floor;                  // records below lie before the last block-wide barrier
    bool uninitialised_ok;
    Site **sites; // by id
    unsigned site_count;
} Tracer;
extern Tracer tracer;

static inline unsigned record_thread(Record record) {
    return (unsigned)(record >> 16) & 0xFFFF;
}
static inline unsigned record_warp(Record record) {
    return record_thread(record) / SIMT_WARP;
}
static inline uint32_t record_time(Record record) {
    return (uint32_t)(record >> 32);
}
static inline Record time_floor(uint32_t time) {
    return (Record)time << 32;
}
static inline Record record_now(const Site *site) {
    return time_floor(tracer.time) | (Record)simt_running.thread << 16 | site->id;
}

// ---- trace.c ------------------------------------------------------------------------------------

// The sum of two counts, field by field.
void counts_add(SimtCounts *sum, const SimtCounts *counts);
void shared_counts_add(SimtSharedCounts *sum, const SimtSharedCounts *counts);

// ---- trace_memory.c -----------------------------------------------------------------------------

// The region of the buffer that holds [address, address + size), or NULL.
Region *region_at(uintptr_t address, size_t size);
int region_count(void);
Region *region_number(int index);
// Points a shared region at the launch's memory.
void region_set_shared(Region *region, char *start, size_t bytes, uint64_t offset);
// Forgets all records (the time starts anew).
void regions_clear(void);
// Makes the region's cells stand for 1 << shift bytes.
void region_split(Region *region, unsigned shift);
// Whether all `size` bytes (1, 2, 4, 8, 16; aligned) at `offset` hold values; marks them.
bool region_is_written(const Region *region, size_t offset, size_t size);
void region_mark_written(Region *region, size_t offset, size_t size);
// Zeroed pages that take memory only when they are written; the program ends when there are none.
void *sparse_alloc(size_t bytes);

// ---- trace_counts.c -----------------------------------------------------------------------------

// Counts a stream's requests into its site and its buffers, and empties it.
void count_stream(Stream *stream);
// Shared memory's passes for one request: the lanes' byte addresses are value[lane].
typedef struct Wavefronts {
    unsigned passes, ideal;
} Wavefronts;
Wavefronts shared_wavefronts(unsigned mask, const uint64_t *value, unsigned size);

// ---- race.c -------------------------------------------------------------------------------------

void race_launch_begin(void);
void race_block_begin(void);
void race_block_sync(void);
void race_block_end(void);
void race_warp_sync(unsigned warp, unsigned mask, unsigned existing);
// Checks and remembers the running thread's access to aligned bytes inside the region. Does not
// return when it has found something.
// race_load_is_known tells of most loads of shared memory, fast, that race_load would find and
// change nothing.
void race_load(Region *region, size_t offset, size_t size, const Site *site);
void race_store(Region *region, size_t offset, size_t size, const Site *site);
void race_atomic(Region *region, size_t offset, size_t size, const Site *site);
// A store to shared memory that will be done later: until then the bytes hold no value.
void race_async(Region *region, size_t offset, size_t size, const Site *site);
// A store to shared memory that starts now and ends later: until then the bytes are unwritten.
void race_async(Region *region, size_t offset, size_t size, const Site *site);

// Whether two readers that a cell remembers make a third superfluous: any later writer is then
// unordered with one of them, if it is with some reader. Of different warps, since the last barrier
// of the block; or of the third's own warp, since the last event of any kind.
static inline bool readers_suffice(Record first, Record second, Record now) {
    if (first < tracer.sync_floor || second < tracer.sync_floor) {
        return false;
    }
    if (record_warp(first) != record_warp(second)) {
        return true;
    }
    return record_warp(first) == record_warp(now) &&
           record_thread(first) != record_thread(second) &&
           record_time(first) == record_time(now) && record_time(second) == record_time(now);
}

static inline bool race_load_is_known(const Region *region, size_t offset, size_t size,
                                      Record now) {
    if (size >> region->shift == 0) {
        return false;
    }
    const Cell *cell = &region->cells[offset >> region->shift];
    for (size_t count = size >> region->shift; count > 0; count--, cell++) {
        bool is_written = cell->writer >= tracer.block_floor && cell->writer < tracer.sync_floor;
        if (!is_written || cell->atomic >= tracer.sync_floor ||
            !readers_suffice(cell->reader[0], cell->reader[1], now)) {
            return false;
        }
    }
    return true;
}

// Ends the launch with a finding about an access; `before` is 0 where there is no earlier one.
typedef struct Access {
    uintptr_t address;
    size_t size;
    bool write;
    const void *pc;
    unsigned thread;
} Access;
_Noreturn void trace_found(SimtFindingKind kind, const Access *access, Record before,
                           bool before_write);
// The block (of the running launch) during which the record was made.
uint64_t race_block_of(Record record);

// ---- source_line.c ------------------------------------------------------------------------------

// The variable of the program that holds the address: its name without a compiler's ".123", and
// its first byte. false: not known.
bool simt_symbol_at(const void *address, char *name, size_t name_bytes, const char **start);
// The same as simt_source_line for many addresses at once; line[i] is 0 where it is not known.
typedef struct SourceLine {
    char file[128];
    int line;
} SourceLine;
void simt_source_lines(const void *const *pcs, int count, SourceLine *lines);

// ---- trace_report.c -----------------------------------------------------------------------------

// Keeps what the launch that ends has counted.
void report_keep_launch(void);

#endif
