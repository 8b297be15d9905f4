// What went wrong in a launch: the record, its text for attn_last_error, and giving up.
#include "common/simt/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static SimtFinding last;

const SimtFinding *simt_finding(void) {
    return &last;
}

const char *simt_finding_name(SimtFindingKind kind) {
    static const char *const names[] = {
        [SIMT_NOTHING] = "nothing",
        [SIMT_LAUNCH_LIMIT] = "launch limit",
        [SIMT_DIVERGENT_BARRIER] = "divergent barrier",
        [SIMT_MISSING_LANE] = "missing lane",
        [SIMT_BAD_MASK] = "bad mask",
        [SIMT_OUT_OF_BOUNDS] = "out of bounds",
        [SIMT_MISALIGNED] = "misaligned",
        [SIMT_UNINITIALISED] = "uninitialised",
        [SIMT_RACE] = "race",
        [SIMT_RACE_BLOCKS] = "race between blocks",
        [SIMT_TIMEOUT] = "timeout",
        [SIMT_CRASH] = "crash",
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

void finding_clear(void) {
    memset(&last, 0, sizeof last);
}

// ---- places -------------------------------------------------------------------------------------

const char *finding_basename(const char *path) {
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    return slash != NULL ? slash + 1 : path == NULL ? "" : path;
}

static void set_thread(SimtPlace *place, unsigned thread) {
    const dim3 size = simt_running.block;
    place->thread[0] = thread % size.x;
    place->thread[1] = thread / size.x % size.y;
    place->thread[2] = thread / size.x / size.y;
    place->block[0] = simt_running.block_idx.x;
    place->block[1] = simt_running.block_idx.y;
    place->block[2] = simt_running.block_idx.z;
}

void finding_place(SimtPlace *place, const char *path, int line, unsigned thread) {
    snprintf(place->file, sizeof place->file, "%s", finding_basename(path));
    place->line = line;
    set_thread(place, thread);
}

void finding_locate(SimtFinding *finding, unsigned thread) {
    snprintf(finding->kernel, sizeof finding->kernel, "%s", simt_running.kernel);
    set_thread(&finding->here, thread);
}

// ---- the sentence -------------------------------------------------------------------------------

// "fused.cu:41", or words where the line is not known.
static void format_line(char *text, size_t bytes, const SimtPlace *place) {
    if (place->file[0] == '\0') {
        snprintf(text, bytes, "an unknown line");
    } else {
        snprintf(text, bytes, "%s:%d", place->file, place->line);
    }
}

static void format_target(char *text, size_t bytes, const SimtFinding *finding) {
    if (finding->buffer[0] == '\0') {
        snprintf(text, bytes, "an address that belongs to no buffer");
        return;
    }
    const int used =
        snprintf(text, bytes, "offset %" PRId64 " of \"%s\"", finding->offset, finding->buffer);
    for (int i = 0; i < simt_buffer_count() && used < (int)bytes; i++) {
        if (strcmp(simt_buffer(i)->name, finding->buffer) == 0) {
            snprintf(text + used, bytes - (size_t)used, ", which has %zu bytes",
                     simt_buffer(i)->bytes);
            break;
        }
    }
}

static void format_race(char *text, size_t bytes, const SimtFinding *finding) {
    char target[256], line[160];
    const SimtPlace *before = &finding->before;
    const bool blocks = finding->kind == SIMT_RACE_BLOCKS;
    const unsigned *who = blocks ? before->block : before->thread;
    format_target(target, sizeof target, finding);
    format_line(line, sizeof line, before);
    snprintf(text, bytes, "it %s %s, and %s (%u, %u, %u) %s the same bytes at %s; %s",
             finding->here.write ? "writes" : "reads", target, blocks ? "block" : "thread", who[0],
             who[1], who[2], before->write ? "wrote" : "read", line,
             blocks ? "nothing orders the blocks of a launch"
                    : "no barrier stands between the two, so either may come first");
}

// One sentence for a finding that brings none.
static void format_detail(char *text, size_t bytes, const SimtFinding *finding) {
    char target[256], size[32] = "";
    const char *verb = finding->here.write ? "writes" : "reads";
    format_target(target, sizeof target, finding);
    if (finding->size > 0) {
        snprintf(size, sizeof size, "%zu bytes at ", finding->size);
    }
    switch (finding->kind) {
    case SIMT_RACE:
    case SIMT_RACE_BLOCKS:
        format_race(text, bytes, finding);
        break;
    case SIMT_MISALIGNED:
        snprintf(text, bytes, "it %s %s%s; the address must be a multiple of the access's size",
                 verb, size, target);
        break;
    case SIMT_UNINITIALISED:
        snprintf(text, bytes, "it reads %s%s, where nothing has been written", size, target);
        break;
    default:
        snprintf(text, bytes, "it %s %s%s", verb, size, target);
    }
}

void finding_record(const SimtFinding *finding, const char *detail) {
    char sentence[FINDING_TEXT], place[160] = "", thread[128] = "";
    last = *finding;
    if (detail == NULL) {
        format_detail(sentence, sizeof sentence, finding);
        detail = sentence;
    }
    const SimtPlace *here = &last.here;
    if (here->file[0] != '\0') {
        snprintf(place, sizeof place, ", %s:%d", here->file, here->line);
    }
    if (finding->kind != SIMT_LAUNCH_LIMIT) {
        snprintf(thread, sizeof thread, ", thread (%u, %u, %u) of block (%u, %u, %u)",
                 here->thread[0], here->thread[1], here->thread[2], here->block[0], here->block[1],
                 here->block[2]);
    }
    attn_fail(ATTN_ERR_CUDA, "%s%s%s: %s: %s", last.kernel, place, thread,
              simt_finding_name(last.kind), detail);
}

void finding_restore(const SimtFinding *finding, const char *text) {
    last = *finding;
    attn_fail(ATTN_ERR_CUDA, "%s", text);
}

// ---- giving up ----------------------------------------------------------------------------------

_Noreturn void finding_abandon(SimtFinding *finding, unsigned thread, const char *detail) {
    simt_held = 1; // the watchdog has nothing to add
    finding_locate(finding, thread);
    finding_record(finding, detail);
    simt_held = 0;
    schedule_leave();
}

_Noreturn void simt_abandon(SimtFinding *finding) {
    finding_abandon(finding, simt_running.thread, NULL);
}
