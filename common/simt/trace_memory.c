// What the tracer knows of the memory that kernels share: a region for each device buffer and for
// shared memory, with tables of records and stamps, and which bytes hold values.
#include "common/simt/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Device buffers' regions, in order of address. A region is made when its buffer is first written
// or touched, and goes when the buffer does.
static Region **regions;
static int regions_used, regions_capacity;

void *sparse_alloc(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("simt: no memory for the trace");
        abort();
    }
    return memory;
}

static size_t sector_table_bytes(const Region *region) {
    return (region->bytes / SECTOR_BYTES + 1) * sizeof(uint32_t);
}

// Tables sized for cells of one byte: the pages that larger cells leave are never touched.
static void region_make_tables(Region *region) {
    region->cells_bytes = (region->bytes + MAX_ACCESS) * sizeof(Cell);
    region->cells = sparse_alloc(region->cells_bytes);
    if (!region->shared) {
        region->across = sparse_alloc((region->bytes + MAX_ACCESS) * sizeof(CellAcrossBlocks));
        region->load_block = sparse_alloc(sector_table_bytes(region));
        region->store_block = sparse_alloc(sector_table_bytes(region));
    }
}

static void region_free(Region *region) {
    if (region->cells != NULL) {
        munmap(region->cells, region->cells_bytes);
        munmap(region->across, (region->bytes + MAX_ACCESS) * sizeof(CellAcrossBlocks));
        munmap(region->load_block, sector_table_bytes(region));
        munmap(region->store_block, sector_table_bytes(region));
    }
    if (region->written != NULL) {
        munmap(region->written, region->bytes / 8 + 1);
    }
    free(region);
}

// The index of the first region that ends beyond the address.
static int region_search(uintptr_t address) {
    int low = 0, high = regions_used;
    while (low < high) {
        int middle = (low + high) / 2;
        if (regions[middle]->start + regions[middle]->bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static Region *region_make(const SimtBuffer *buffer, int index) {
    if (regions_used == regions_capacity) {
        regions_capacity = regions_capacity == 0 ? 16 : 2 * regions_capacity;
        Region **grown = realloc(regions, (size_t)regions_capacity * sizeof(Region *));
        if (grown == NULL) {
            perror("simt: no memory for the trace");
            abort();
        }
        regions = grown;
    }
    Region *region = calloc(1, sizeof *region);
    if (region == NULL) {
        perror("simt: no memory for the trace");
        abort();
    }
    region->start = (uintptr_t)buffer->start;
    region->bytes = buffer->bytes;
    region->offset = region->start - (uintptr_t)simt_arena;
    region->shift = 2;
    snprintf(region->name, sizeof region->name, "%s", buffer->name);
    memmove(&regions[index + 1], &regions[index], (size_t)(regions_used - index) * sizeof *regions);
    regions[index] = region;
    regions_used++;
    return region;
}

// The region that holds the address, with or without tables; NULL: no buffer does.
static Region *region_find(uintptr_t address) {
    int index = region_search(address);
    if (index < regions_used && address >= regions[index]->start) {
        return regions[index];
    }
    const SimtBuffer *buffer = simt_buffer_at((const void *)address, NULL);
    return buffer == NULL ? NULL : region_make(buffer, index);
}

Region *region_at(uintptr_t address, size_t size) {
    Region *region = region_find(address);
    if (region == NULL || address - region->start + size > region->bytes) {
        return NULL;
    }
    if (region->cells == NULL) {
        region_make_tables(region);
    }
    return region;
}

int region_count(void) {
    return regions_used;
}

Region *region_number(int index) {
    return regions[index];
}

void region_set_shared(Region *region, char *start, size_t bytes, uint64_t offset) {
    Cell *cells = region->cells;
    size_t cells_bytes = region->cells_bytes;
    if (cells != NULL && (bytes + MAX_ACCESS) * sizeof(Cell) > cells_bytes) {
        munmap(cells, cells_bytes);
        cells = NULL;
    }
    *region = (Region){.start = (uintptr_t)start,
                       .bytes = bytes,
                       .shared = true,
                       .offset = offset,
                       .shift = 2,
                       .cells = cells,
                       .cells_bytes = cells_bytes};
    if (cells == NULL) {
        region_make_tables(region);
    }
}

static void sparse_clear(void *memory, size_t bytes) {
    if (memory != NULL) {
        madvise(memory, bytes, MADV_DONTNEED);
    }
}

void regions_clear(void) {
    for (int i = 0; i < regions_used; i++) {
        Region *region = regions[i];
        if (region->cells != NULL) {
            sparse_clear(region->cells, region->cells_bytes);
            sparse_clear(region->across, (region->bytes + MAX_ACCESS) * sizeof(CellAcrossBlocks));
        }
    }
    sparse_clear(tracer.static_region.cells, tracer.static_region.cells_bytes);
    sparse_clear(tracer.dynamic_region.cells, tracer.dynamic_region.cells_bytes);
}

void region_split(Region *region, unsigned shift) {
    size_t parts = (size_t)1 << (region->shift - shift);
    size_t cells = (region->bytes + ((size_t)1 << region->shift) - 1) >> region->shift;
    for (size_t i = cells; i-- > 0;) { // from the end: the copies lie behind their original
        for (size_t part = i * parts; part < (i + 1) * parts; part++) {
            // Compared first, so that untouched pages stay so.
            if (memcmp(&region->cells[part], &region->cells[i], sizeof(Cell)) != 0) {
                region->cells[part] = region->cells[i];
            }
            if (!region->shared &&
                memcmp(&region->across[part], &region->across[i], sizeof(CellAcrossBlocks)) != 0) {
                region->across[part] = region->across[i];
            }
        }
    }
    region->shift = shift;
}

// ---- which bytes hold values --------------------------------------------------------------------

bool region_is_written(const Region *region, size_t offset, size_t size) {
    if (region->all_written) {
        return true;
    }
    if (region->written == NULL) {
        return false;
    }
    if (size < 8) {
        unsigned mask = ((1u << size) - 1) << (offset & 7);
        return (region->written[offset >> 3] & mask) == mask;
    }
    return region->written[offset >> 3] == 0xFF &&
           (size == 8 || region->written[(offset >> 3) + 1] == 0xFF);
}

static uint8_t *written_bits(Region *region) {
    if (region->written == NULL) {
        region->written = sparse_alloc(region->bytes / 8 + 1);
    }
    return region->written;
}

void region_mark_written(Region *region, size_t offset, size_t size) {
    if (region->all_written) {
        return;
    }
    uint8_t *bits = written_bits(region) + (offset >> 3);
    if (size < 8) {
        bits[0] = (uint8_t)(bits[0] | ((1u << size) - 1) << (offset & 7));
    } else {
        bits[0] = 0xFF;
        if (size == 16) {
            bits[1] = 0xFF;
        }
    }
}

void simt_memory_written(const void *address, size_t bytes) {
    Region *region = bytes == 0 ? NULL : region_find((uintptr_t)address);
    if (region == NULL || region->all_written) {
        return;
    }
    size_t begin = (uintptr_t)address - region->start;
    size_t end = bytes < region->bytes - begin ? begin + bytes : region->bytes;
    if (begin == 0 && end == region->bytes) {
        region->all_written = true;
        return;
    }
    uint8_t *bits = written_bits(region);
    size_t first_whole = (begin + 7) / 8, end_whole = end / 8;
    for (size_t i = begin; i < end && i < first_whole * 8; i++) {
        bits[i >> 3] = (uint8_t)(bits[i >> 3] | 1u << (i & 7));
    }
    if (end_whole > first_whole) {
        memset(bits + first_whole, 0xFF, end_whole - first_whole);
    }
    for (size_t i = end_whole * 8 > begin ? end_whole * 8 : begin; i < end; i++) {
        bits[i >> 3] = (uint8_t)(bits[i >> 3] | 1u << (i & 7));
    }
}

void simt_memory_forgotten(const void *address, size_t bytes) {
    uintptr_t begin = (uintptr_t)address;
    int first = region_search(begin), end = first;
    while (end < regions_used && regions[end]->start < begin + bytes) {
        region_free(regions[end++]);
    }
    if (end == first) {
        return;
    }
    memmove(&regions[first], &regions[end], (size_t)(regions_used - end) * sizeof *regions);
    regions_used -= end - first;
    for (unsigned i = 0; i < tracer.site_count; i++) {
        tracer.sites[i]->region = NULL;
    }
}
