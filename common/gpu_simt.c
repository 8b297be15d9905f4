// The host's side of simt: memory in the arena of common/simt, copies by memcpy, no streams, and
// events by this CPU's clock. Work is done when a call returns.
#include "common/gpu_target.h"
#include "common/simt/fiber.h" // SIMT_ASAN
#include "common/simt/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct SimtEvent {
    double seconds; // timer_now when it was recorded
    bool recorded;
} SimtEvent;

static bool simt_available(char *why) {
    why[0] = '\0';
    return true;
}

static AttnStatus simt_properties(GpuProperties *properties) {
    const GpuProperties *device = simt_device();
    if (device == NULL) {
        return ATTN_ERR_ARGUMENT; // simt_device has said which names there are
    }
    *properties = *device;
    return ATTN_OK;
}

// The memory comes filled with 0xFF, up to the end of its last page.
static AttnStatus simt_alloc(void **memory, const char *name, size_t count, size_t element) {
    *memory = simt_memory_alloc(name, count, element);
    if (*memory == NULL) {
        return attn_fail(ATTN_ERR_MEMORY, "gpu_alloc: no memory for \"%s\": %zu x %zu bytes", name,
                         count, element);
    }
    return ATTN_OK;
}

static void simt_free(void *memory) {
    if (!simt_memory_free(memory)) {
        fprintf(stderr, "gpu_free: %p is no buffer of simt, or was freed before\n", memory);
        abort();
    }
}

static bool simt_find(const void *address, GpuSpan *span) {
    const SimtBuffer *buffer = simt_buffer_at(address, NULL);
    if (buffer == NULL) {
        return false;
    }
    snprintf(span->name, sizeof span->name, "%s", buffer->name);
    span->offset = (size_t)((const char *)address - buffer->start);
    span->left = buffer->bytes - span->offset;
    return true;
}

// Between a buffer's end and an inaccessible page lie less than GUARD bytes, filled with 0xFF: a
// plain launch that writes there is found here. A traced one checks every access itself, and so
// does ASan, to which those bytes are out of bounds.
static AttnStatus simt_check_guard(const void *memory) {
    enum { GUARD = 256 };
    const SimtBuffer *buffer = simt_buffer_at(memory, NULL);
    if (buffer == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "gpu_check_guard: %p is in no buffer of gpu_alloc",
                         memory);
    }
    const unsigned char *end = (const unsigned char *)buffer->start + buffer->bytes;
    const size_t rest = SIMT_ASAN ? 0 : (GUARD - buffer->bytes % GUARD) % GUARD;
    for (size_t byte = 0; byte < rest; byte++) {
        if (end[byte] != 0xFF) {
            return attn_fail(
                ATTN_ERR_CUDA,
                "a kernel wrote past the end of \"%s\" (%zu bytes), %zu bytes after it",
                buffer->name, buffer->bytes, byte);
        }
    }
    return ATTN_OK;
}

static AttnStatus simt_upload(void *device, const void *host, size_t bytes) {
    memcpy(device, host, bytes);
    simt_memory_written(device, bytes);
    return ATTN_OK;
}

static AttnStatus simt_download(void *host, const void *device, size_t bytes) {
    memcpy(host, device, bytes);
    return ATTN_OK;
}

static AttnStatus simt_copy(void *to, const void *from, size_t bytes, GpuStream stream) {
    (void)stream;
    memcpy(to, from, bytes);
    simt_memory_written(to, bytes);
    return ATTN_OK;
}

static AttnStatus simt_fill(void *device, int byte, size_t bytes, GpuStream stream) {
    (void)stream;
    memset(device, byte, bytes);
    simt_memory_written(device, bytes);
    return ATTN_OK;
}

static AttnStatus simt_synchronize(void) {
    return ATTN_OK;
}

// Streams are told apart from the default stream, and otherwise ignored.
static AttnStatus simt_stream_create(GpuStream *stream) {
    static char any;
    *stream = &any;
    return ATTN_OK;
}

static void simt_stream_destroy(GpuStream stream) {
    (void)stream;
}

static AttnStatus simt_event_create(GpuEvent *event) {
    *event = calloc(1, sizeof(SimtEvent));
    return *event != NULL ? ATTN_OK : attn_fail(ATTN_ERR_MEMORY, "gpu_event_create: no memory");
}

static AttnStatus simt_event_record(GpuEvent event, GpuStream stream) {
    (void)stream;
    *(SimtEvent *)event = (SimtEvent){.seconds = timer_now(), .recorded = true};
    return ATTN_OK;
}

static AttnStatus simt_event_seconds(GpuEvent from, GpuEvent to, double *seconds) {
    const SimtEvent *first = from, *last = to;
    if (!first->recorded || !last->recorded) {
        return attn_fail(ATTN_ERR_ARGUMENT, "gpu_event_seconds: the %s event was not recorded",
                         first->recorded ? "second" : "first");
    }
    *seconds = last->seconds - first->seconds;
    return ATTN_OK;
}

static void simt_event_destroy(GpuEvent event) {
    free(event);
}

const GpuOperations gpu_simt_operations = {
    .available = simt_available,
    .properties = simt_properties,
    .alloc = simt_alloc,
    .free = simt_free,
    .find = simt_find,
    .check_guard = simt_check_guard,
    .upload = simt_upload,
    .download = simt_download,
    .copy = simt_copy,
    .fill = simt_fill,
    .synchronize = simt_synchronize,
    .stream_create = simt_stream_create,
    .stream_destroy = simt_stream_destroy,
    .event_create = simt_event_create,
    .event_record = simt_event_record,
    .event_seconds = simt_event_seconds,
    .event_destroy = simt_event_destroy,
    .any_memory = false,
};
