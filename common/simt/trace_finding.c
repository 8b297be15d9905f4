// What the tracer found, in the words of the source: buffer and offset, file and line, thread and
// block of both accesses.
#include "common/simt/trace.h"

#include <stdio.h>

// Buffer and offset of an address in a window of shared memory.
static void name_shared(const Access *access, SimtFinding *finding) {
    uintptr_t start = tracer.dynamic_shared.start;
    if (access->address - start < tracer.dynamic_shared.bytes) {
        snprintf(finding->buffer, sizeof finding->buffer, "dynamic shared memory");
        finding->offset = (int64_t)(access->address - start);
        return;
    }
    const char *variable;
    char name[sizeof finding->buffer - sizeof "shared "];
    if (simt_symbol_at((const void *)access->address, name, sizeof name, &variable)) {
        snprintf(finding->buffer, sizeof finding->buffer, "shared %s", name);
        finding->offset = (int64_t)(access->address - (uintptr_t)variable);
    } else {
        snprintf(finding->buffer, sizeof finding->buffer, "shared memory");
        finding->offset = (int64_t)(access->address - tracer.static_shared.start);
    }
}

static void name_buffer(const Access *access, SimtFinding *finding) {
    const SimtBuffer *nearest = NULL;
    const SimtBuffer *buffer = simt_buffer_at((const void *)access->address, &nearest);
    buffer = buffer == NULL ? nearest : buffer;
    if (buffer != NULL) {
        snprintf(finding->buffer, sizeof finding->buffer, "%s", buffer->name);
        finding->offset = (int64_t)(access->address - (uintptr_t)buffer->start);
    }
}

static void fill_place(SimtPlace *place, const SourceLine *line, unsigned thread, uint64_t block,
                       bool write) {
    const dim3 size = simt_running.block, grid = simt_running.grid;
    snprintf(place->file, sizeof place->file, "%s", line->file);
    place->line = line->line;
    place->thread[0] = thread % size.x;
    place->thread[1] = thread / size.x % size.y;
    place->thread[2] = thread / size.x / size.y;
    place->block[0] = (unsigned)(block % grid.x);
    place->block[1] = (unsigned)(block / grid.x % grid.y);
    place->block[2] = (unsigned)(block / grid.x / grid.y);
    place->write = write;
}

_Noreturn void trace_found(SimtFindingKind kind, const Access *access, Record before,
                           bool before_write) {
    SimtFinding finding = {.kind = kind, .size = access->size};
    const void *pcs[2] = {access->pc, access->pc};
    if (before != 0) {
        pcs[1] = tracer.sites[before & 0xFFFF]->pc;
    }
    SourceLine lines[2];
    simt_source_lines(pcs, before != 0 ? 2 : 1, lines);
    fill_place(&finding.here, &lines[0], access->thread, simt_running.block_number, access->write);
    if (before != 0) {
        fill_place(&finding.before, &lines[1], record_thread(before), race_block_of(before),
                   before_write);
    }
    if (access->address - tracer.arena.start < tracer.arena.bytes) {
        name_buffer(access, &finding);
    } else {
        name_shared(access, &finding);
    }
    simt_running.thread = access->thread;
    simt_abandon(&finding);
}
