// Device memory of the simt target: one large range of addresses, of which only the buffers are
// accessible. A buffer ends as near as its alignment allows before an inaccessible page, so that an
// index too large meets a signal at once (crash.c). The range is shared with forked workers.
#include "common/simt/fiber.h"
#include "common/simt/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if SIMT_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes)   ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

// Address space asked for first and, halved again and again where there is a limit, at last.
#define ARENA_MOST  ((size_t)64 << 30)
#define ARENA_LEAST ((size_t)16 << 20)
enum { GAP = 64 * 1024, ALIGNMENT = 256 }; // GAP is a multiple of every page size in use

char *simt_arena;
size_t simt_arena_size;

// A buffer with the accessible pages around it.
typedef struct Region {
    SimtBuffer buffer;
    size_t begin, end; // offsets in the arena, multiples of the page size
} Region;

static Region *regions; // [region_count], in order of address
static int region_count, region_room;
static size_t search_from; // new buffers come after the last, so that freed addresses rest a while

static bool reserve_arena(void) {
    for (size_t bytes = ARENA_MOST; simt_arena == NULL && bytes >= ARENA_LEAST; bytes /= 2) {
        void *mapped =
            mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped != MAP_FAILED) {
            simt_arena = mapped;
            simt_arena_size = bytes;
#ifdef MADV_DONTDUMP
            madvise(mapped, bytes, MADV_DONTDUMP);
#endif
        }
    }
    return simt_arena != NULL;
}

// ---- looking up ---------------------------------------------------------------------------------

int simt_buffer_count(void) {
    return region_count;
}

const SimtBuffer *simt_buffer(int index) {
    return &regions[index].buffer;
}

// How many buffers start at or below the address.
static int count_below(const char *address) {
    int low = 0, high = region_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if ((uintptr_t)regions[middle].buffer.start <= (uintptr_t)address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const SimtBuffer *simt_buffer_at(const void *address, const SimtBuffer **nearest) {
    const int below = count_below(address);
    const SimtBuffer *before = below > 0 ? &regions[below - 1].buffer : NULL;
    const SimtBuffer *after = below < region_count ? &regions[below].buffer : NULL;
    const uintptr_t at = (uintptr_t)address;
    const SimtBuffer *holder =
        before != NULL && at < (uintptr_t)before->start + before->bytes ? before : NULL;
    if (nearest != NULL) {
        *nearest = before;
        if (before == NULL ||
            (holder == NULL && after != NULL &&
             (uintptr_t)after->start - at < at - ((uintptr_t)before->start + before->bytes))) {
            *nearest = after;
        }
    }
    return holder;
}

// ---- allocating ---------------------------------------------------------------------------------

static size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Finds a hole for `bytes` with a gap on both sides at or after `from`. false: none up to the end.
static bool find_hole(size_t bytes, size_t from, size_t *begin) {
    size_t at = from < GAP ? GAP : from;
    for (int i = 0; i < region_count; i++) {
        if (at + bytes + GAP <= regions[i].begin) {
            break;
        }
        if (regions[i].end + GAP > at) {
            at = regions[i].end + GAP;
        }
    }
    *begin = at;
    return at + bytes + GAP <= simt_arena_size;
}

static bool make_room(void) {
    if (region_count < region_room) {
        return true;
    }
    const int room = region_room == 0 ? 64 : 2 * region_room;
    Region *grown = realloc(regions, (size_t)room * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    regions = grown;
    region_room = room;
    return true;
}

static void insert(const Region *region) {
    const int at = count_below(region->buffer.start);
    memmove(&regions[at + 1], &regions[at], (size_t)(region_count - at) * sizeof *regions);
    regions[at] = *region;
    region_count++;
}

void *simt_memory_alloc(const char *name, size_t count, size_t element) {
    size_t bytes, begin;
    if (__builtin_mul_overflow(count, element, &bytes) || bytes == 0 || bytes > ARENA_MOST ||
        !reserve_arena() || !make_room()) {
        return NULL;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t aligned = round_up(bytes, ALIGNMENT), whole = round_up(aligned, page);
    if (!find_hole(whole, search_from, &begin) && !find_hole(whole, 0, &begin)) {
        return NULL;
    }
    char *pages = simt_arena + begin;
    if (mprotect(pages, whole, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    Region region = {
        .buffer = {.start = pages + (whole - aligned), .bytes = bytes, .element = element},
        .begin = begin,
        .end = begin + whole};
    snprintf(region.buffer.name, sizeof region.buffer.name, "%s", name != NULL ? name : "");
    memset(pages, 0xFF, whole);
    ASAN_POISON_MEMORY_REGION(pages, whole);
    ASAN_UNPOISON_MEMORY_REGION(region.buffer.start, bytes);
    insert(&region);
    search_from = region.end + GAP;
    simt_memory_forgotten(region.buffer.start, bytes);
    return region.buffer.start;
}

bool simt_memory_free(void *memory) {
    const int index = count_below(memory) - 1;
    if (index < 0 || regions[index].buffer.start != (char *)memory) {
        return false;
    }
    const Region region = regions[index];
    char *pages = simt_arena + region.begin;
    simt_memory_forgotten(region.buffer.start, region.buffer.bytes);
    ASAN_UNPOISON_MEMORY_REGION(pages, region.end - region.begin);
#ifdef MADV_REMOVE
    madvise(pages, region.end - region.begin, MADV_REMOVE); // gives the pages back
#endif
    mprotect(pages, region.end - region.begin, PROT_NONE);
    region_count--;
    memmove(&regions[index], &regions[index + 1], (size_t)(region_count - index) * sizeof *regions);
    return true;
}
