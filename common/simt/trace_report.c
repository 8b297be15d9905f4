// The launches that the tracer has counted: kept, summed up, printed.
#include "common/report.h"
#include "common/simt/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAUNCHES = 256, NUMBER = 32 };

// What one place in the code counted; lines are found when somebody asks for them.
typedef struct PlaceCount {
    const void *pc;
    SimtCounts global;
    SimtSharedCounts shared;
} PlaceCount;

typedef struct Launch {
    SimtLaunchTrace trace;
    PlaceCount *places; // NULL once the lines are known
    int place_count;
} Launch;

static Launch *launches[MAX_LAUNCHES];
static int launch_count;

// ---- keeping ------------------------------------------------------------------------------------

static void *cleared(size_t count, size_t element) {
    void *memory = calloc(count, element);
    if (memory == NULL) {
        fprintf(stderr, "simt: no memory for the trace\n");
        abort();
    }
    return memory;
}

static bool is_counted(const SimtCounts *counts) {
    return (counts->load_requests | counts->store_requests | counts->atomic_requests |
            counts->load_sectors | counts->store_sectors | counts->atomic_sectors) != 0;
}

// The entry for buffers of that name; the last one takes what has no room.
static SimtBufferTrace *buffer_entry(SimtLaunchTrace *trace, const char *name) {
    for (int i = 0; i < trace->buffers; i++) {
        if (strcmp(trace->buffer[i].name, name) == 0) {
            return &trace->buffer[i];
        }
    }
    SimtBufferTrace *last = &trace->buffer[SIMT_MAX_BUFFERS - 1];
    if (trace->buffers == SIMT_MAX_BUFFERS) {
        snprintf(last->name, sizeof last->name, "(others)");
        return last;
    }
    SimtBufferTrace *entry = &trace->buffer[trace->buffers++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    return entry;
}

void report_keep_launch(void) {
    if (launch_count == MAX_LAUNCHES) {
        return;
    }
    Launch *launch = cleared(1, sizeof *launch);
    launches[launch_count++] = launch;
    SimtLaunchTrace *trace = &launch->trace;
    const SimtRunning *run = &simt_running;
    snprintf(trace->kernel, sizeof trace->kernel, "%s", run->kernel);
    memcpy(trace->grid, (unsigned[]){run->grid.x, run->grid.y, run->grid.z}, sizeof trace->grid);
    memcpy(trace->block, (unsigned[]){run->block.x, run->block.y, run->block.z},
           sizeof trace->block);
    trace->static_shared = run->static_bytes;
    trace->dynamic_shared = run->dynamic_bytes;
    for (int i = 0; i < region_count(); i++) {
        const Region *region = region_number(i);
        if (is_counted(&region->counts)) {
            SimtBufferTrace *entry = buffer_entry(trace, region->name);
            entry->bytes += region->bytes;
            counts_add(&entry->counts, &region->counts);
            counts_add(&trace->total, &region->counts);
        }
    }
    launch->places = cleared(tracer.site_count + 1, sizeof *launch->places);
    for (unsigned i = 0; i < tracer.site_count; i++) {
        const Site *site = tracer.sites[i];
        if (is_counted(&site->global) || site->in_shared.load_requests != 0 ||
            site->in_shared.store_requests != 0) {
            launch->places[launch->place_count++] =
                (PlaceCount){site->pc, site->global, site->in_shared};
            shared_counts_add(&trace->shared, &site->in_shared);
        }
    }
}

// ---- lines --------------------------------------------------------------------------------------

// What a line costs: sectors and wavefronts.
static uint64_t cost(const SimtLineTrace *line) {
    return line->global.load_sectors + line->global.store_sectors + line->global.atomic_sectors +
           line->shared.load_wavefronts + line->shared.store_wavefronts;
}

static int compare_cost(const void *a, const void *b) {
    const SimtLineTrace *first = a, *second = b;
    if (cost(first) != cost(second)) {
        return cost(first) < cost(second) ? 1 : -1;
    }
    int order = strcmp(first->file, second->file);
    return order != 0 ? order : first->line - second->line;
}

static SimtLineTrace *line_entry(SimtLineTrace *lines, int *count, const SourceLine *place) {
    for (int i = 0; i < *count; i++) {
        if (lines[i].line == place->line && strcmp(lines[i].file, place->file) == 0) {
            return &lines[i];
        }
    }
    SimtLineTrace *line = &lines[(*count)++];
    snprintf(line->file, sizeof line->file, "%s", place->file);
    line->line = place->line;
    return line;
}

static void find_lines(Launch *launch) {
    if (launch->places == NULL) {
        return;
    }
    int places = launch->place_count, count = 0;
    const void **pcs = cleared((size_t)places + 1, sizeof *pcs);
    SourceLine *found = cleared((size_t)places + 1, sizeof *found);
    SimtLineTrace *lines = cleared((size_t)places + 1, sizeof *lines);
    for (int i = 0; i < places; i++) {
        pcs[i] = launch->places[i].pc;
    }
    simt_source_lines(pcs, places, found);
    for (int i = 0; i < places; i++) {
        SimtLineTrace *line = line_entry(lines, &count, &found[i]);
        counts_add(&line->global, &launch->places[i].global);
        shared_counts_add(&line->shared, &launch->places[i].shared);
    }
    qsort(lines, (size_t)count, sizeof *lines, compare_cost);
    launch->trace.lines = count < SIMT_TOP_LINES ? count : SIMT_TOP_LINES;
    memcpy(launch->trace.line, lines, (size_t)launch->trace.lines * sizeof *lines);
    free(pcs);
    free(found);
    free(lines);
    free(launch->places);
    launch->places = NULL;
}

// ---- asking -------------------------------------------------------------------------------------

void simt_trace_reset(void) {
    for (int i = 0; i < launch_count; i++) {
        free(launches[i]->places);
        free(launches[i]);
    }
    launch_count = 0;
}

int simt_trace_launches(void) {
    return launch_count;
}

const SimtLaunchTrace *simt_trace_launch(int index) {
    if (index < 0 || index >= launch_count) {
        return NULL;
    }
    find_lines(launches[index]);
    return &launches[index]->trace;
}

SimtCounts simt_trace_sum(const char *buffer) {
    SimtCounts sum = {0};
    for (int i = 0; i < launch_count; i++) {
        const SimtLaunchTrace *trace = &launches[i]->trace;
        if (buffer[0] == '\0') {
            counts_add(&sum, &trace->total);
        }
        for (int j = 0; j < trace->buffers && buffer[0] != '\0'; j++) {
            if (strcmp(trace->buffer[j].name, buffer) == 0) {
                counts_add(&sum, &trace->buffer[j].counts);
            }
        }
    }
    return sum;
}

SimtSharedCounts simt_trace_sum_shared(void) {
    SimtSharedCounts sum = {0};
    for (int i = 0; i < launch_count; i++) {
        shared_counts_add(&sum, &launches[i]->trace.shared);
    }
    return sum;
}

// ---- a table ------------------------------------------------------------------------------------

static double ratio(uint64_t a, uint64_t b) {
    return b == 0 ? 0 : (double)a / (double)b;
}

static void print_global(FILE *out, const char *name, const char *kind, uint64_t requests,
                         uint64_t sectors, const uint64_t *bytes) {
    char number[5][NUMBER];
    if (requests == 0 && sectors == 0) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (bytes == NULL) {
            snprintf(number[2 + i], NUMBER, "-");
        } else {
            format_iec(number[2 + i], (double)bytes[i]);
        }
    }
    fprintf(out, "  %-13.13s %-6s %11s %11s %5.1f %8s %8s %8s\n", name, kind,
            format_count(number[0], (double)requests), format_count(number[1], (double)sectors),
            ratio(sectors, requests), number[2], number[3], number[4]);
}

static void print_counts(FILE *out, const char *name, const SimtCounts *counts) {
    const uint64_t loads[] = {counts->load_bytes, counts->block_unique_load,
                              counts->launch_unique_load};
    const uint64_t stores[] = {counts->store_bytes, counts->block_unique_store,
                               counts->launch_unique_store};
    print_global(out, name, "load", counts->load_requests, counts->load_sectors, loads);
    print_global(out, name, "store", counts->store_requests, counts->store_sectors, stores);
    print_global(out, name, "atomic", counts->atomic_requests, counts->atomic_sectors, NULL);
}

static void print_shared(FILE *out, const char *kind, uint64_t requests, uint64_t wavefronts,
                         uint64_t ideal) {
    char number[3][NUMBER];
    if (requests != 0) {
        fprintf(out, "  %-13s %-6s %11s %11s %5.1f %17s conflicts\n", "shared", kind,
                format_count(number[0], (double)requests),
                format_count(number[1], (double)wavefronts), ratio(wavefronts, requests),
                format_count(number[2], (double)(wavefronts - ideal)));
    }
}

static void print_lines(FILE *out, const SimtLaunchTrace *trace) {
    fprintf(out, "\n  %-34s %13s %13s %13s\n", "lines that cost most", "sectors", "wavefronts",
            "conflicts");
    for (int i = 0; i < trace->lines; i++) {
        const SimtLineTrace *line = &trace->line[i];
        const SimtSharedCounts *shared = &line->shared;
        char place[sizeof line->file + NUMBER], number[3][NUMBER];
        uint64_t sectors =
            line->global.load_sectors + line->global.store_sectors + line->global.atomic_sectors;
        uint64_t fronts = shared->load_wavefronts + shared->store_wavefronts;
        uint64_t conflicts = fronts - shared->load_ideal - shared->store_ideal;
        if (line->line == 0) {
            snprintf(place, sizeof place, "(not known: is addr2line installed?)");
        } else {
            snprintf(place, sizeof place, "%s:%d", line->file, line->line);
        }
        fprintf(out, "  %-36.36s %11s %13s %13s\n", place, format_count(number[0], (double)sectors),
                format_count(number[1], (double)fronts),
                format_count(number[2], (double)conflicts));
    }
}

static void print_launch(FILE *out, int index, const SimtLaunchTrace *trace) {
    char number[2][NUMBER];
    fprintf(out, "launch %d: %s, grid %u x %u x %u, block %u x %u x %u\n", index + 1, trace->kernel,
            trace->grid[0], trace->grid[1], trace->grid[2], trace->block[0], trace->block[1],
            trace->block[2]);
    fprintf(out, "  shared memory: %s static (all kernels of the file), %s dynamic\n\n",
            format_iec(number[0], (double)trace->static_shared),
            format_iec(number[1], (double)trace->dynamic_shared));
    fprintf(out, "  %-13s %-6s %11s %11s %5s %8s %8s %8s\n", "buffer", "", "requests", "sectors",
            "/req.", "asked", "block-u.", "launch-u");
    for (int i = 0; i < trace->buffers; i++) {
        print_counts(out, trace->buffer[i].name, &trace->buffer[i].counts);
    }
    if (trace->buffers > 1) {
        print_counts(out, "all buffers", &trace->total);
    }
    const SimtSharedCounts *shared = &trace->shared;
    if (shared->load_requests + shared->store_requests != 0) {
        fprintf(out, "\n  %-13s %-6s %11s %11s %5s\n", "(a model)", "", "requests", "wavefronts",
                "/req.");
        print_shared(out, "load", shared->load_requests, shared->load_wavefronts,
                     shared->load_ideal);
        print_shared(out, "store", shared->store_requests, shared->store_wavefronts,
                     shared->store_ideal);
    }
    print_lines(out, trace);
    fprintf(out, "\n");
}

void simt_trace_print(FILE *out) {
    if (launch_count == 0) {
        fprintf(out, "No traced launch.\n");
        return;
    }
    for (int i = 0; i < launch_count; i++) {
        print_launch(out, i, simt_trace_launch(i));
    }
    fprintf(out, "A request is one load or store of a warp; a sector is 32 bytes of memory that\n"
                 "it touches. Both are what the GPU's counters of global memory count. Four\n"
                 "numbers of bytes come from them, and no two mean the same:\n"
                 "  asked      what the threads asked for: each access of each thread counts\n"
                 "  sectors    x 32: what the requests move between L1 and the threads\n"
                 "  block-u.   block-unique: sectors x 32, each once per block: what comes from\n"
                 "             L2 when L1 keeps all that a block has read\n"
                 "  launch-u   launch-unique: sectors x 32, each once per launch: what comes from\n"
                 "             DRAM when L2 keeps all that the launch has read\n"
                 "Shared memory is a model: nvcc may join or drop accesses. A wavefront is one\n"
                 "pass over the 32 banks of 4 bytes. Conflicts are the wavefronts beyond one for\n"
                 "each 32 lanes (16 when each asks for 8 bytes, 8 for 16 bytes). Shared atomics\n"
                 "are not counted.\n");
}

// ---- CSV ----------------------------------------------------------------------------------------

static void csv_counts(FILE *out, const SimtCounts *global, const SimtSharedCounts *shared) {
    const uint64_t numbers[] = {
        global->load_requests,      global->load_sectors,       global->store_requests,
        global->store_sectors,      global->atomic_requests,    global->atomic_sectors,
        global->load_bytes,         global->store_bytes,        global->block_unique_load,
        global->block_unique_store, global->launch_unique_load, global->launch_unique_store,
        shared->load_requests,      shared->load_wavefronts,    shared->load_ideal,
        shared->store_requests,     shared->store_wavefronts,   shared->store_ideal};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        fprintf(out, ",%" PRIu64, numbers[i]);
    }
    fputc('\n', out);
}

// A text in quotes where CSV needs them.
static void csv_text(FILE *out, const char *text) {
    if (strpbrk(text, ",\"\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void csv_begin(FILE *out, int index, const char *what, const char *name, int line) {
    const SimtLaunchTrace *trace = &launches[index]->trace;
    fprintf(out, "%d,%s,%u,%u,%u,%u,%u,%u,%s,", index + 1, trace->kernel, trace->grid[0],
            trace->grid[1], trace->grid[2], trace->block[0], trace->block[1], trace->block[2],
            what);
    csv_text(out, name);
    fprintf(out, ",%d", line);
}

void simt_trace_csv(FILE *out) {
    static const SimtCounts no_global;
    static const SimtSharedCounts no_shared;
    fprintf(out, "launch,kernel,grid_x,grid_y,grid_z,block_x,block_y,block_z,what,name,line,"
                 "load_requests,load_sectors,store_requests,store_sectors,atomic_requests,"
                 "atomic_sectors,load_bytes,store_bytes,block_unique_load,block_unique_store,"
                 "launch_unique_load,launch_unique_store,shared_load_requests,"
                 "shared_load_wavefronts,shared_load_ideal,shared_store_requests,"
                 "shared_store_wavefronts,shared_store_ideal\n");
    for (int i = 0; i < launch_count; i++) {
        const SimtLaunchTrace *trace = simt_trace_launch(i);
        for (int j = 0; j < trace->buffers; j++) {
            csv_begin(out, i, "buffer", trace->buffer[j].name, 0);
            csv_counts(out, &trace->buffer[j].counts, &no_shared);
        }
        csv_begin(out, i, "shared", "", 0);
        csv_counts(out, &no_global, &trace->shared);
        for (int j = 0; j < trace->lines; j++) {
            csv_begin(out, i, "line", trace->line[j].file, trace->line[j].line);
            csv_counts(out, &trace->line[j].global, &trace->line[j].shared);
        }
    }
}
