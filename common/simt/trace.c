// The trace build's accesses come in here: gcc's -fsanitize=thread puts a call of a __tsan function
// before every load and store, and this file, not the sanitizer's library, provides them.
//
// An access is told by its address: device memory (the arena), static or dynamic shared memory of
// the running launch; anything else is private to a thread and is let go. What is left is put into
// its warp's streams, from which requests are counted later, and checked at once (race.c).
#include "common/simt/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Tracer tracer;

// ---- sites: one for each kind of access at one code address -------------------------------------

typedef struct SiteSlot {
    uint64_t key; // 0: empty
    Site *site;
} SiteSlot;

// Open addressing. A program has far fewer places where it touches memory than this.
enum { SLOT_BITS = 14, SLOTS = 1 << SLOT_BITS, MAX_SITES = SLOTS / 2 };
static SiteSlot slots[SLOTS];

static void *checked(void *memory) {
    if (memory == NULL) {
        fprintf(stderr, "simt: no memory for the trace\n");
        abort();
    }
    return memory;
}

static __attribute__((noinline)) Site *site_make(SiteSlot *slot, uint64_t key, const void *pc,
                                                 size_t size, AccessKind kind, bool shared) {
    if (tracer.site_count == MAX_SITES) {
        fprintf(stderr, "simt: more than %d places in the code to trace\n", MAX_SITES);
        abort();
    }
    if (tracer.sites == NULL) {
        tracer.sites = checked(calloc(MAX_SITES, sizeof *tracer.sites));
    }
    Site *site = checked(calloc(1, sizeof *site));
    *site = (Site){.pc = pc,
                   .id = (uint16_t)tracer.site_count,
                   .size = (uint8_t)size,
                   .shared = shared,
                   .kind = kind};
    tracer.sites[tracer.site_count++] = site;
    *slot = (SiteSlot){key, site};
    return site;
}

static inline Site *site_at(const void *pc, size_t size, AccessKind kind, bool shared) {
    uint64_t key = (uint64_t)(uintptr_t)pc << 8 | size << 3 | (unsigned)kind << 1 | shared;
    size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> (64 - SLOT_BITS));
    while (slots[i].key != key) {
        if (slots[i].key == 0) {
            return site_make(&slots[i], key, pc, size, kind, shared);
        }
        i = (i + 1) % SLOTS;
    }
    return slots[i].site;
}

// ---- streams ------------------------------------------------------------------------------------

typedef struct TouchedStreams {
    Stream **stream;
    unsigned used, capacity;
} TouchedStreams;
static TouchedStreams touched[SIMT_MAX_WARPS];

static const uint64_t NO_ADDRESS = UINT64_MAX;

static Stream *stream_make(Site *site, unsigned warp) {
    Stream *stream = checked(calloc(1, sizeof *stream));
    stream->site = site;
    for (int lane = 0; lane < SIMT_WARP; lane++) {
        stream->lane[lane].next = NO_ADDRESS;
    }
    site->stream[warp] = stream;
    return stream;
}

static void stream_touch(Stream *stream, unsigned warp) {
    TouchedStreams *list = &touched[warp];
    if (list->used == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        list->stream = checked(realloc(list->stream, list->capacity * sizeof *list->stream));
    }
    list->stream[list->used++] = stream;
    stream->touched = true;
}

// An address that does not continue the lane's run: the second of a run, or the first of the next.
static void stream_break(Stream *stream, LaneStream *lane, uint64_t address) {
    if (lane->now.count == 1) {
        lane->now.stride = (int64_t)(address - lane->now.start);
        lane->now.count = 2;
        lane->next = address + (uint64_t)lane->now.stride;
        return;
    }
    if (!stream->touched) {
        stream_touch(stream, simt_running.thread / SIMT_WARP);
    }
    if (lane->now.count != 0) {
        if (lane->used == lane->capacity) {
            lane->capacity = lane->capacity == 0 ? 8 : 2 * lane->capacity;
            lane->runs = checked(realloc(lane->runs, lane->capacity * sizeof *lane->runs));
        }
        lane->runs[lane->used++] = lane->now;
    }
    lane->now = (Run){.start = address, .count = 1};
    lane->next = NO_ADDRESS;
}

static inline void stream_add(Site *site, uint64_t address) {
    unsigned thread = simt_running.thread, warp = thread / SIMT_WARP;
    Stream *stream = site->stream[warp];
    if (stream == NULL) {
        stream = stream_make(site, warp);
    }
    LaneStream *lane = &stream->lane[thread % SIMT_WARP];
    if (address == lane->next) {
        lane->now.count++;
        lane->next += (uint64_t)lane->now.stride;
    } else {
        stream_break(stream, lane, address);
    }
}

static void warp_flush(unsigned warp) {
    for (unsigned i = 0; i < touched[warp].used; i++) {
        count_stream(touched[warp].stream[i]);
    }
    touched[warp].used = 0;
}

// ---- accesses -----------------------------------------------------------------------------------

static void check(Region *region, size_t offset, const Site *site) {
    if (site->kind == ACCESS_LOAD) {
        race_load(region, offset, site->size, site);
    } else if (site->kind == ACCESS_STORE) {
        race_store(region, offset, site->size, site);
    } else {
        race_atomic(region, offset, site->size, site);
    }
}

static _Noreturn void refuse(SimtFindingKind kind, uintptr_t address, const Site *site) {
    Access access = {address, site->size, site->kind != ACCESS_LOAD, site->pc, simt_running.thread};
    trace_found(kind, &access, 0, false);
}

static inline __attribute__((always_inline)) void shared_access(Region *region, uintptr_t address,
                                                                size_t size, AccessKind kind,
                                                                const void *pc) {
    Site *site = site_at(pc, size, kind, true);
    size_t offset = address - region->start;
    if (offset + size > region->bytes) {
        refuse(SIMT_OUT_OF_BOUNDS, address, site);
    }
    if ((address & (size - 1)) != 0) {
        refuse(SIMT_MISALIGNED, address, site);
    }
    if (kind != ACCESS_LOAD || !race_load_is_known(region, offset, size, record_now(site))) {
        check(region, offset, site);
    }
    stream_add(site, region->offset + offset);
}

static void global_access(uintptr_t address, size_t size, AccessKind kind, const void *pc) {
    Site *site = site_at(pc, size, kind, false);
    Region *region = site->region;
    if (region == NULL || address - region->start >= region->bytes ||
        address - region->start + size > region->bytes) {
        region = region_at(address, size);
        if (region == NULL) {
            refuse(SIMT_OUT_OF_BOUNDS, address, site);
        }
        site->region = region;
    }
    if ((address & (size - 1)) != 0) {
        refuse(SIMT_MISALIGNED, address, site);
    }
    check(region, address - region->start, site);
    stream_add(site, region->offset + (address - region->start));
}

static inline __attribute__((always_inline)) void touch(const void *pointer, size_t size,
                                                        AccessKind kind, const void *pc) {
    uintptr_t address = (uintptr_t)pointer;
    if (address - tracer.dynamic_shared.start < tracer.dynamic_shared.bytes) {
        shared_access(&tracer.dynamic_region, address, size, kind, pc);
    } else if (address - tracer.static_shared.start < tracer.static_shared.bytes) {
        shared_access(&tracer.static_region, address, size, kind, pc);
    } else if (address - tracer.arena.start < tracer.arena.bytes) {
        global_access(address, size, kind, pc);
    }
}

// Bytes of which the compiler does not know that they are aligned, or a struct: nvcc splits such an
// access into the largest pieces that the type's alignment allows. That is not known here, so the
// pieces are as large as this address and size allow, and smaller than `below`.
static void touch_pieces(const void *pointer, size_t size, size_t below, AccessKind kind,
                         const void *pc) {
    uintptr_t address = (uintptr_t)pointer;
    size_t piece = MAX_ACCESS;
    while (((address | size) & (piece - 1)) != 0 || (piece >= below && piece > 1)) {
        piece /= 2;
    }
    for (size_t done = 0; done < size; done += piece) {
        touch((const char *)pointer + done, piece, kind, pc);
    }
}

// A struct that is copied as a whole. Where it has the size of a register, gcc would have called
// the plain function had it been aligned to 8 bytes or to its size: nvcc then loads 4 at a time.
static void touch_range(const void *pointer, size_t size, AccessKind kind, const void *pc) {
    bool like_register = size <= MAX_ACCESS && (size & (size - 1)) == 0;
    touch_pieces(pointer, size, like_register ? (size < 8 ? size : 8) : 2 * MAX_ACCESS, kind, pc);
}

#define RETURN_ADDRESS __builtin_return_address(0)
#define ACCESS_HOOKS(size)                                                                         \
    void __tsan_read##size(void *address);                                                         \
    void __tsan_write##size(void *address);                                                        \
    void __tsan_volatile_read##size(void *address);                                                \
    void __tsan_volatile_write##size(void *address);                                               \
    void __tsan_read##size(void *address) {                                                        \
        touch(address, size, ACCESS_LOAD, RETURN_ADDRESS);                                         \
    }                                                                                              \
    void __tsan_write##size(void *address) {                                                       \
        touch(address, size, ACCESS_STORE, RETURN_ADDRESS);                                        \
    }                                                                                              \
    void __tsan_volatile_read##size(void *address) {                                               \
        touch(address, size, ACCESS_LOAD, RETURN_ADDRESS);                                         \
    }                                                                                              \
    void __tsan_volatile_write##size(void *address) {                                              \
        touch(address, size, ACCESS_STORE, RETURN_ADDRESS);                                        \
    }
#define UNALIGNED_HOOKS(size)                                                                      \
    void __tsan_unaligned_read##size(void *address);                                               \
    void __tsan_unaligned_write##size(void *address);                                              \
    void __tsan_unaligned_read##size(void *address) {                                              \
        touch_range(address, size, ACCESS_LOAD, RETURN_ADDRESS);                                   \
    }                                                                                              \
    void __tsan_unaligned_write##size(void *address) {                                             \
        touch_range(address, size, ACCESS_STORE, RETURN_ADDRESS);                                  \
    }
ACCESS_HOOKS(1)
ACCESS_HOOKS(2)
ACCESS_HOOKS(4)
ACCESS_HOOKS(8)
ACCESS_HOOKS(16)
UNALIGNED_HOOKS(2)
UNALIGNED_HOOKS(4)
UNALIGNED_HOOKS(8)
UNALIGNED_HOOKS(16)

void __tsan_init(void);
void __tsan_func_entry(void *pc);
void __tsan_func_exit(void);
void __tsan_read_range(void *address, size_t size);
void __tsan_write_range(void *address, size_t size);

void __tsan_init(void) {
}

void __tsan_func_entry(void *pc) {
    (void)pc;
}

void __tsan_func_exit(void) {
}

void __tsan_read_range(void *address, size_t size) {
    touch_range(address, size, ACCESS_LOAD, RETURN_ADDRESS);
}

void __tsan_write_range(void *address, size_t size) {
    touch_range(address, size, ACCESS_STORE, RETURN_ADDRESS);
}

void *simt_trace_memcpy(void *to, const void *from, size_t bytes);
void *simt_trace_memset(void *to, int byte, size_t bytes);

void *simt_trace_memcpy(void *to, const void *from, size_t bytes) {
    size_t both = ((uintptr_t)to | (uintptr_t)from) & (MAX_ACCESS - 1);
    size_t below = both == 0 ? 2 * MAX_ACCESS : 2 * (both & (0 - both));
    touch_pieces(from, bytes, below, ACCESS_LOAD, RETURN_ADDRESS);
    touch_pieces(to, bytes, below, ACCESS_STORE, RETURN_ADDRESS);
    return memcpy(to, from, bytes);
}

void *simt_trace_memset(void *to, int byte, size_t bytes) {
    touch_pieces(to, bytes, 2 * MAX_ACCESS, ACCESS_STORE, RETURN_ADDRESS);
    return memset(to, byte, bytes);
}

void simt_trace_access(void *address, size_t size, bool write, const void *pc) {
    touch(address, size, write ? ACCESS_STORE : ACCESS_LOAD, pc);
}

void simt_trace_async(void *address, size_t size, const void *pc) {
    uintptr_t place = (uintptr_t)address;
    Region *region = place - tracer.dynamic_shared.start < tracer.dynamic_region.bytes
                         ? &tracer.dynamic_region
                         : &tracer.static_region;
    if (place - region->start + size <= region->bytes) {
        race_async(region, place - region->start, size, site_at(pc, size, ACCESS_STORE, true));
    }
}

void simt_trace_atomic(void *address, size_t size, const void *pc) {
    touch(address, size, ACCESS_ATOMIC, pc);
}

// ---- what the scheduler tells -------------------------------------------------------------------

void counts_add(SimtCounts *sum, const SimtCounts *counts) {
    sum->load_requests += counts->load_requests;
    sum->load_sectors += counts->load_sectors;
    sum->store_requests += counts->store_requests;
    sum->store_sectors += counts->store_sectors;
    sum->atomic_requests += counts->atomic_requests;
    sum->atomic_sectors += counts->atomic_sectors;
    sum->load_bytes += counts->load_bytes;
    sum->store_bytes += counts->store_bytes;
    sum->block_unique_load += counts->block_unique_load;
    sum->block_unique_store += counts->block_unique_store;
    sum->launch_unique_load += counts->launch_unique_load;
    sum->launch_unique_store += counts->launch_unique_store;
}

void shared_counts_add(SimtSharedCounts *sum, const SimtSharedCounts *counts) {
    sum->load_requests += counts->load_requests;
    sum->load_wavefronts += counts->load_wavefronts;
    sum->load_ideal += counts->load_ideal;
    sum->store_requests += counts->store_requests;
    sum->store_wavefronts += counts->store_wavefronts;
    sum->store_ideal += counts->store_ideal;
}

static unsigned warps(void) {
    return (simt_running.threads + SIMT_WARP - 1) / SIMT_WARP;
}

// The lanes that a warp of this block has.
static unsigned warp_lanes(unsigned warp) {
    unsigned lanes = simt_running.threads - warp * SIMT_WARP;
    return lanes >= SIMT_WARP ? ~0u : (1u << lanes) - 1;
}

void simt_trace_launch_begin(void) {
    enum { DYNAMIC = 1 << 30 }; // keeps the two kinds of shared memory apart in streams
    const SimtRunning *run = &simt_running;
    size_t reserved =
        run->dynamic_reserved > run->dynamic_bytes ? run->dynamic_reserved : run->dynamic_bytes;
    for (int i = 0; i < region_count(); i++) {
        region_number(i)->counts = (SimtCounts){0};
    }
    for (unsigned i = 0; i < tracer.site_count; i++) {
        tracer.sites[i]->global = (SimtCounts){0};
        tracer.sites[i]->in_shared = (SimtSharedCounts){0};
    }
    region_set_shared(&tracer.static_region, run->static_shared, run->static_bytes, 0);
    region_set_shared(&tracer.dynamic_region, run->dynamic_shared, run->dynamic_bytes, DYNAMIC);
    race_launch_begin();
    tracer.uninitialised_ok = simt_settings()->uninitialised_ok;
    tracer.launch_stamp = tracer.block_stamp + 1;
    tracer.static_shared = (Window){(uintptr_t)run->static_shared, run->static_bytes};
    tracer.dynamic_shared = (Window){(uintptr_t)run->dynamic_shared, reserved};
    tracer.arena = (Window){(uintptr_t)simt_arena, simt_arena_size};
}

void simt_trace_block_begin(void) {
    tracer.block_stamp++;
    race_block_begin();
}

void simt_trace_block_sync(void) {
    for (unsigned warp = 0; warp < warps(); warp++) {
        warp_flush(warp);
    }
    race_block_sync();
}

void simt_trace_warp_sync(unsigned warp, unsigned mask) {
    race_warp_sync(warp, mask, warp_lanes(warp));
    simt_trace_warp_converged(warp, mask);
}

void simt_trace_warp_converged(unsigned warp, unsigned mask) {
    if ((~mask & warp_lanes(warp)) == 0) {
        warp_flush(warp);
    }
}

void simt_trace_block_end(void) {
    for (unsigned warp = 0; warp < warps(); warp++) {
        warp_flush(warp);
    }
    race_block_end();
}

void simt_trace_launch_end(bool completed) {
    for (unsigned warp = 0; warp < SIMT_MAX_WARPS; warp++) {
        warp_flush(warp);
    }
    tracer.static_shared = tracer.dynamic_shared = tracer.arena = (Window){0, 0};
    if (completed) {
        report_keep_launch();
    }
}
