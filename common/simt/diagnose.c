// Who waits for whom, when no thread of a block can go on.
#include "common/simt/schedule.h"

#include <stdio.h>

void diagnose_lanes(char *text, size_t bytes, unsigned lanes) {
    size_t used = 0;
    text[0] = '\0';
    for (int lane = 0; lane < SIMT_WARP && used < bytes; lane++) {
        if ((lanes >> lane & 1) == 0) {
            continue;
        }
        const int first = lane;
        while (lane + 1 < SIMT_WARP && (lanes >> (lane + 1) & 1) != 0) {
            lane++;
        }
        const char *comma = used == 0 ? "" : ", ";
        const int added = first == lane
                              ? snprintf(text + used, bytes - used, "%s%d", comma, lane)
                              : snprintf(text + used, bytes - used, "%s%d-%d", comma, first, lane);
        used += (size_t)added;
    }
}

_Noreturn void diagnose_divergent_barrier(void) {
    const unsigned first = simt_block.first_waiting, other = simt_block.other_waiting;
    const Thread *a = &simt_block.thread[first], *b = &simt_block.thread[other];
    SimtFinding finding = {.kind = SIMT_DIVERGENT_BARRIER};
    finding_place(&finding.here, a->file, a->line, first);
    finding_place(&finding.before, b->file, b->line, other);
    char detail[512];
    snprintf(detail, sizeof detail,
             "it waits at this %s, thread (%u, %u, %u) at the %s at %s:%d; every thread of a block "
             "that has not ended must come to the same one",
             a->what, finding.before.thread[0], finding.before.thread[1], finding.before.thread[2],
             b->what, finding.before.file, finding.before.line);
    finding_abandon(&finding, first, detail);
}

// The lanes of a warp that wait where `thread` waits, among `lanes`.
static unsigned lanes_beside(unsigned warp, unsigned lanes, const Thread *thread) {
    unsigned beside = 0;
    for (unsigned rest = lanes; rest != 0; rest &= rest - 1) {
        const unsigned lane = (unsigned)__builtin_ctz(rest);
        const Thread *other = &simt_block.thread[warp * SIMT_WARP + lane];
        if (other->what == thread->what && other->line == thread->line) {
            beside |= 1U << lane;
        }
    }
    return beside;
}

// A group whose missing lanes wait elsewhere in the warp, for its lanes, with another mask.
static bool disagrees(unsigned warp, const Group *group, unsigned *lane) {
    const unsigned missing = group->at.mask & simt_block.warp[warp].live & ~group->arrived;
    for (unsigned rest = missing; rest != 0; rest &= rest - 1) {
        *lane = (unsigned)__builtin_ctz(rest);
        const unsigned mask = simt_block.thread[warp * SIMT_WARP + *lane].mask;
        if (mask != 0 && mask != group->at.mask && (mask & group->arrived) != 0) {
            return true;
        }
    }
    return false;
}

static _Noreturn void bad_mask(unsigned warp, const Group *group, unsigned lane) {
    const unsigned mine = (unsigned)__builtin_ctz(group->arrived);
    const unsigned base = warp * SIMT_WARP;
    const Thread *other = &simt_block.thread[base + lane];
    SimtFinding finding = {.kind = SIMT_BAD_MASK};
    finding_place(&finding.here, group->at.file, group->at.line, base + mine);
    finding_place(&finding.before, other->file, other->line, base + lane);
    char detail[512];
    snprintf(
        detail, sizeof detail,
        "lane %u comes to %s with the mask 0x%08x, lane %u to %s at %s:%d with 0x%08x, so each "
        "waits for the other; lanes that name each other must give the same mask",
        mine, group->at.what, group->at.mask, lane, other->what, finding.before.file,
        finding.before.line, other->mask);
    finding_abandon(&finding, base + mine, detail);
}

static _Noreturn void missing_lane(unsigned warp, const Group *group) {
    const unsigned missing = group->at.mask & simt_block.warp[warp].live & ~group->arrived;
    const unsigned base = warp * SIMT_WARP;
    const unsigned mine = base + (unsigned)__builtin_ctz(group->arrived);
    const unsigned other = base + (unsigned)__builtin_ctz(missing);
    const Thread *there = &simt_block.thread[other];
    SimtFinding finding = {.kind = SIMT_MISSING_LANE};
    finding_place(&finding.here, group->at.file, group->at.line, mine);
    finding_place(&finding.before, there->file, there->line, other);
    char all[128], beside[128], detail[512];
    diagnose_lanes(all, sizeof all, missing);
    diagnose_lanes(beside, sizeof beside, lanes_beside(warp, missing, there));
    snprintf(detail, sizeof detail,
             "%s with the mask 0x%08x waits for lanes %s of warp %u, which never come: lanes %s "
             "wait at %s at %s:%d",
             group->at.what, group->at.mask, all, warp, beside, there->what, finding.before.file,
             finding.before.line);
    finding_abandon(&finding, mine, detail);
}

_Noreturn void diagnose_deadlock(void) {
    const unsigned warps = (simt_running.threads + SIMT_WARP - 1) / SIMT_WARP;
    const Group *first = NULL;
    unsigned first_warp = 0, lane = 0;
    for (unsigned warp = 0; warp < warps; warp++) {
        for (int i = 0; i < simt_block.warp[warp].groups; i++) {
            const Group *group = &simt_block.warp[warp].group[i];
            if (disagrees(warp, group, &lane)) {
                bad_mask(warp, group, lane);
            }
            if (first == NULL) {
                first = group;
                first_warp = warp;
            }
        }
    }
    if (first != NULL) {
        missing_lane(first_warp, first);
    }
    // Only a barrier is left that no thread can complete, and then all live ones are there.
    diagnose_divergent_barrier();
}
