// Collectives of a warp: __syncwarp, votes, shuffles, and those with data of their own
// (simt_collective). Lanes that give the same mask for the same collective form a group; it is
// complete when every named lane that lives has come, and the last to come carries it out.
#include "common/simt/schedule.h"

#include <stdio.h>
#include <string.h>

static bool same_collective(const Collective *a, const Collective *b) {
    if (a->combine != b->combine || a->kind != b->kind || a->mask != b->mask) {
        return false;
    }
    return !a->one_place ||
           (a->line == b->line && (a->file == b->file || strcmp(a->file, b->file) == 0));
}

// The group that the running lane joins: one that waits, or a new one.
static Group *join(Warp *warp, const Collective *at) {
    for (int i = 0; i < warp->groups; i++) {
        if (same_collective(&warp->group[i].at, at)) {
            return &warp->group[i];
        }
    }
    Group *group = &warp->group[warp->groups++];
    *group = (Group){.at = *at};
    return group;
}

static void require_all_lanes(const Group *group, unsigned number) {
    const unsigned missing = group->at.mask & ~group->arrived;
    if (missing != 0) {
        SimtFinding finding = {.kind = SIMT_MISSING_LANE};
        const unsigned thread = number * SIMT_WARP + (unsigned)__builtin_ctz(group->arrived);
        finding_place(&finding.here, group->at.file, group->at.line, thread);
        char lanes[128], detail[256];
        diagnose_lanes(lanes, sizeof lanes, missing);
        snprintf(detail, sizeof detail,
                 "%s needs every lane of its mask 0x%08x, and lanes %s have ended or do not exist",
                 group->at.what, group->at.mask, lanes);
        finding_abandon(&finding, thread, detail);
    }
}

static void complete(Warp *warp, unsigned number, Group *group) {
    if (group->at.all_live) {
        require_all_lanes(group, number);
    }
    if (group->at.combine != NULL) {
        group->at.combine(group->in, group->out, group->arrived);
    }
    if (simt_running.traced) {
        if (group->at.orders) {
            simt_trace_warp_sync(number, group->arrived);
        } else {
            simt_trace_warp_converged(number, group->arrived);
        }
    }
    schedule_ready(number, group->arrived);
    const Group *last = &warp->group[--warp->groups];
    if (group != last) {
        *group = *last;
    }
}

void warp_lane_ended(unsigned warp_number) {
    Warp *warp = &simt_block.warp[warp_number];
    for (int i = warp->groups - 1; i >= 0; i--) {
        if (warp->group[i].arrived == (warp->group[i].at.mask & warp->live)) {
            complete(warp, warp_number, &warp->group[i]);
        }
    }
}

// The running lane comes to the collective that `at` describes.
static void arrive(const Collective *at, const void *in, void *out) {
    const unsigned thread = simt_running.thread, number = thread / SIMT_WARP;
    const unsigned lane = thread % SIMT_WARP, bit = 1U << lane;
    simt_progress++;
    if ((at->mask & bit) == 0) {
        SimtFinding finding = {.kind = SIMT_BAD_MASK};
        char detail[160];
        snprintf(detail, sizeof detail,
                 "the mask 0x%08x of %s does not name lane %u, the thread that calls it", at->mask,
                 at->what, lane);
        finding_place(&finding.here, at->file, at->line, thread);
        finding_abandon(&finding, thread, detail);
    }
    Warp *warp = &simt_block.warp[number];
    Group *group = join(warp, at);
    group->arrived |= bit;
    group->in[lane] = in;
    group->out[lane] = out;
    if (group->arrived == (at->mask & warp->live)) {
        complete(warp, number, group);
        return;
    }
    Thread *self = &simt_block.thread[thread];
    self->what = at->what;
    self->file = at->file;
    self->line = at->line;
    self->mask = at->mask;
    warp->ready &= ~bit;
    if (warp->ready == 0) {
        simt_block.ready_warps &= ~(1U << number);
    }
    schedule_wait(self);
}

void simt_syncwarp(unsigned mask, const char *file, int line) {
    const Collective at = {
        .what = "__syncwarp", .mask = mask, .file = file, .line = line, .orders = true};
    arrive(&at, NULL, NULL);
}

void simt_collective(const char *name, unsigned mask, const void *in, void *out,
                     SimtCombine *combine, const char *file, int line) {
    const Collective at = {.what = name,
                           .combine = combine,
                           .mask = mask,
                           .file = file,
                           .line = line,
                           .one_place = true,
                           .all_live = true};
    arrive(&at, in, out);
}

// The lanes that live. A device gives those that happen to run together, which may be fewer.
unsigned simt_activemask(void) {
    return simt_block.warp[simt_running.thread / SIMT_WARP].live;
}

// ---- votes --------------------------------------------------------------------------------------

static void ballot(const void *const in[SIMT_WARP], void *const out[SIMT_WARP], unsigned mask) {
    unsigned result = 0;
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        result |= (unsigned)*(const int *)in[lane] << lane;
    }
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
        unsigned *const each = out[__builtin_ctz(lanes)];
        each[0] = result;
        each[1] = mask;
    }
}

unsigned simt_vote(int kind, unsigned mask, int predicate, const char *file, int line) {
    static const char *const names[] = {"__ballot_sync", "__all_sync", "__any_sync"};
    const int holds = predicate != 0;
    unsigned result[2] = {0, 0}; // lanes whose predicate holds, lanes that voted
    const Collective at = {.what = names[kind],
                           .combine = ballot,
                           .kind = kind,
                           .mask = mask,
                           .file = file,
                           .line = line,
                           .one_place = true};
    arrive(&at, &holds, result);
    switch (kind) {
    case SIMT_ALL:
        return result[0] == result[1];
    case SIMT_ANY:
        return result[0] != 0;
    default:
        return result[0];
    }
}

// ---- shuffles -----------------------------------------------------------------------------------

typedef struct Shuffle {
    int kind, argument, width;
    uint64_t bits;
    const char *file;
    int line;
} Shuffle;

static const char *const shuffle_names[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
                                            "__shfl_xor_sync"};

// The lane that `lane` reads from, as PTX defines shfl: only the low five bits of the argument
// count, and a lane outside the segment of `width` lanes gives the lane's own value. An xor may
// reach back into an earlier segment.
static int shuffle_source(const Shuffle *shuffle, int lane) {
    const int first = lane & ~(shuffle->width - 1), last = first | (shuffle->width - 1);
    const int argument = shuffle->argument & (SIMT_WARP - 1);
    int source = lane;
    switch (shuffle->kind) {
    case SIMT_SHFL_UP:
        source = lane - argument;
        return source >= first ? source : lane;
    case SIMT_SHFL_DOWN:
        source = lane + argument;
        break;
    case SIMT_SHFL_XOR:
        source = lane ^ argument;
        break;
    default:
        return first | (argument & (shuffle->width - 1));
    }
    return source <= last ? source : lane;
}

static _Noreturn void no_source(const Shuffle *shuffle, int lane, int source, unsigned mask) {
    SimtFinding finding = {.kind = SIMT_MISSING_LANE};
    const unsigned base = simt_running.thread / SIMT_WARP * SIMT_WARP;
    const unsigned live = simt_block.warp[base / SIMT_WARP].live;
    const bool exists = base + (unsigned)source < simt_running.threads;
    char detail[256];
    snprintf(detail, sizeof detail, "lane %d reads from lane %d in %s, and that lane %s", lane,
             source, shuffle_names[shuffle->kind],
             !exists                     ? "does not exist: the block has too few threads"
             : (live >> source & 1) == 0 ? "has ended"
             : (mask >> source & 1) == 0 ? "is not named in the mask"
                                         : "did not come");
    finding_place(&finding.here, shuffle->file, shuffle->line, base + (unsigned)lane);
    finding_abandon(&finding, base + (unsigned)lane, detail);
}

static void shuffle_lanes(const void *const in[SIMT_WARP], void *const out[SIMT_WARP],
                          unsigned mask) {
    for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
        const int lane = __builtin_ctz(lanes);
        const Shuffle *shuffle = in[lane];
        const int source = shuffle_source(shuffle, lane);
        if ((mask >> source & 1) == 0) {
            no_source(shuffle, lane, source, mask);
        }
        *(uint64_t *)out[lane] = ((const Shuffle *)in[source])->bits;
    }
}

uint64_t simt_shuffle(int kind, unsigned mask, uint64_t bits, int argument, int width,
                      const char *file, int line) {
    const Shuffle shuffle = {kind, argument, width, bits, file, line};
    if (width < 1 || width > SIMT_WARP || (width & (width - 1)) != 0) {
        SimtFinding finding = {.kind = SIMT_BAD_MASK};
        char detail[128];
        snprintf(detail, sizeof detail, "the width %d of %s is not a power of two from 1 to 32",
                 width, shuffle_names[kind]);
        finding_place(&finding.here, file, line, simt_running.thread);
        finding_abandon(&finding, simt_running.thread, detail);
    }
    uint64_t result = 0;
    const Collective at = {.what = shuffle_names[kind],
                           .combine = shuffle_lanes,
                           .kind = kind,
                           .mask = mask,
                           .file = file,
                           .line = line,
                           .one_place = true};
    arrive(&at, &shuffle, &result);
    return result;
}
