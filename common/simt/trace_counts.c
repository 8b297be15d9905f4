// From the streams of a warp's lanes to requests, sectors and wavefronts: the k-th accesses of the
// lanes at one place form one request.
#include "common/simt/trace.h"

enum { BANKS = 32, BANK_BYTES = 4 };

// ---- global memory ------------------------------------------------------------------------------

// A sector of a buffer is touched: the first time in this block, in this launch?
static void touch_sector(Region *region, uint64_t sector, AccessKind kind) {
    if (kind == ACCESS_ATOMIC) {
        return;
    }
    size_t index = sector - region->offset / SECTOR_BYTES;
    uint32_t *stamp =
        kind == ACCESS_LOAD ? &region->load_block[index] : &region->store_block[index];
    if (*stamp == tracer.block_stamp) {
        return;
    }
    uint64_t launch = *stamp < tracer.launch_stamp ? SECTOR_BYTES : 0;
    *stamp = tracer.block_stamp;
    if (kind == ACCESS_LOAD) {
        region->counts.block_unique_load += SECTOR_BYTES;
        region->counts.launch_unique_load += launch;
    } else {
        region->counts.block_unique_store += SECTOR_BYTES;
        region->counts.launch_unique_store += launch;
    }
}

static void add_requests(SimtCounts *counts, AccessKind kind, uint64_t requests, uint64_t sectors,
                         uint64_t bytes) {
    if (kind == ACCESS_LOAD) {
        counts->load_requests += requests;
        counts->load_sectors += sectors;
        counts->load_bytes += bytes;
    } else if (kind == ACCESS_STORE) {
        counts->store_requests += requests;
        counts->store_sectors += sectors;
        counts->store_bytes += bytes;
    } else {
        counts->atomic_requests += requests;
        counts->atomic_sectors += sectors;
    }
}

static bool is_in(const Region *region, uint64_t value) {
    return region != NULL && value - region->offset < region->bytes;
}

static bool is_listed(const uint64_t *list, unsigned count, uint64_t sector) {
    for (unsigned i = count; i-- > 0;) {
        if (list[i] == sector) {
            return true;
        }
    }
    return false;
}

// One request. It counts for the buffer of its first lane, sectors and bytes each for their own.
static void count_global(Site *site, unsigned mask, const uint64_t *value) {
    uint64_t seen[SIMT_WARP];
    unsigned sectors = 0;
    uint64_t highest = 0; // of the sectors seen, + 1
    bool first = true;
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
        uint64_t address = value[__builtin_ctz(lanes)], sector = address / SECTOR_BYTES;
        if (!is_in(site->region, address)) {
            site->region = region_at((uintptr_t)simt_arena + address, site->size);
        }
        Region *region = site->region;
        bool is_new = sector >= highest || !is_listed(seen, sectors, sector);
        add_requests(&region->counts, site->kind, first, is_new, site->size);
        first = false;
        if (is_new) {
            seen[sectors++] = sector;
            highest = sector + 1 > highest ? sector + 1 : highest;
            touch_sector(region, sector, site->kind);
        }
    }
    add_requests(&site->global, site->kind, 1, sectors,
                 (uint64_t)site->size * (unsigned)__builtin_popcount(mask));
}

// ---- shared memory ------------------------------------------------------------------------------

Wavefronts shared_wavefronts(unsigned mask, const uint64_t *value, unsigned size) {
    unsigned words = size <= BANK_BYTES ? 1 : size / BANK_BYTES;
    unsigned lanes_a_pass = SIMT_WARP / words;
    Wavefronts result = {0, 0};
    for (unsigned first = 0; first < SIMT_WARP; first += lanes_a_pass) {
        uint64_t in_bank[BANKS][SIMT_WARP]; // the different words asked of each bank
        uint8_t depth[BANKS] = {0};
        unsigned deepest = 0;
        for (unsigned lane = first; lane < first + lanes_a_pass; lane++) {
            if ((mask >> lane & 1) == 0) {
                continue;
            }
            for (unsigned i = 0; i < words; i++) {
                uint64_t word = value[lane] / BANK_BYTES + i;
                unsigned bank = word % BANKS;
                if (!is_listed(in_bank[bank], depth[bank], word)) {
                    in_bank[bank][depth[bank]++] = word;
                    deepest = depth[bank] > deepest ? depth[bank] : deepest;
                }
            }
        }
        result.passes += deepest;
        result.ideal += deepest != 0;
    }
    return result;
}

static void count_shared(Site *site, unsigned mask, const uint64_t *value, uint64_t times) {
    Wavefronts fronts = shared_wavefronts(mask, value, site->size);
    if (site->kind == ACCESS_LOAD) {
        site->in_shared.load_requests += times;
        site->in_shared.load_wavefronts += times * fronts.passes;
        site->in_shared.load_ideal += times * fronts.ideal;
    } else if (site->kind == ACCESS_STORE) {
        site->in_shared.store_requests += times;
        site->in_shared.store_wavefronts += times * fronts.passes;
        site->in_shared.store_ideal += times * fronts.ideal;
    }
}

// ---- streams ------------------------------------------------------------------------------------

// Where a lane's stream has been read to.
typedef struct Cursor {
    Run run;       // what is left of the run
    uint32_t next; // the next of the stream's runs; used: the last one
} Cursor;

static void cursor_load(Cursor *cursor, const LaneStream *lane) {
    if (cursor->next < lane->used) {
        cursor->run = lane->runs[cursor->next++];
    } else if (cursor->next == lane->used) {
        cursor->run = lane->now;
        cursor->next++;
    }
}

// `times` requests in a row: lane l asks for value[l], value[l] + stride[l], ...
static void count_requests(Site *site, unsigned mask, uint64_t *value, const int64_t *stride,
                           bool together, uint32_t times) {
    if (site->shared && together) { // the lanes move as one: the same banks collide each time
        count_shared(site, mask, value, times);
        return;
    }
    for (uint32_t i = 0; i < times; i++) {
        if (site->shared) {
            count_shared(site, mask, value, 1);
        } else {
            count_global(site, mask, value);
        }
        for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
            value[lane] += (uint64_t)stride[lane];
        }
    }
}

void count_stream(Stream *stream) {
    Cursor cursor[SIMT_WARP];
    for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
        cursor[lane] = (Cursor){{0, 0, 0}, 0};
    }
    for (;;) {
        uint64_t value[SIMT_WARP];
        int64_t stride[SIMT_WARP];
        unsigned mask = 0;
        uint32_t times = UINT32_MAX;
        int64_t common = 0; // the first lane's stride
        bool together = true;
        for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
            Cursor *at = &cursor[lane];
            if (at->run.count == 0) {
                cursor_load(at, &stream->lane[lane]);
            }
            value[lane] = at->run.start;
            stride[lane] = at->run.stride;
            if (at->run.count == 0) {
                continue;
            }
            common = mask == 0 ? at->run.stride : common;
            together = together && at->run.stride == common;
            mask |= 1u << lane;
            times = at->run.count < times ? at->run.count : times;
        }
        if (mask == 0) {
            break;
        }
        together = times == 1 || (together && common % BANK_BYTES == 0);
        for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
            if ((mask >> lane & 1) != 0) {
                cursor[lane].run.start += (uint64_t)cursor[lane].run.stride * times;
                cursor[lane].run.count -= times;
            }
        }
        count_requests(stream->site, mask, value, stride, together, times);
    }
    for (unsigned lane = 0; lane < SIMT_WARP; lane++) {
        stream->lane[lane].next = UINT64_MAX;
        stream->lane[lane].now.count = 0;
        stream->lane[lane].used = 0;
    }
    stream->touched = false;
}
