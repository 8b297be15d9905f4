// The host's side of a kernel: choice of the target, checks of arguments, and dispatch to simt
// (gpu_simt.c) or CUDA (gpu_cuda.cu).
//
// CUDA is not touched before something asks for it: gpu_available or gpu_choose for CUDA (or auto),
// or a call for GPU_CUDA. A process that has started CUDA must not fork children that use it: they
// get cudaErrorInitializationError.
#include "common/gpu.h"

#include "common/gpu_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A target's operations; NULL where CUDA is not in this build. Memory does not depend on the trace
// build.
static const GpuOperations *operations(GpuTarget target) {
    if (target == GPU_SIMT || target == GPU_TRACE) {
        return &gpu_simt_operations;
    }
#if GPU_HAVE_CUDA
    if (target == GPU_CUDA) {
        return &gpu_cuda_operations;
    }
#endif
    return NULL;
}

// The operations, or an error that names the call.
static AttnStatus need(GpuTarget target, const char *call, const GpuOperations **found) {
    *found = operations(target);
    if (*found != NULL) {
        return ATTN_OK;
    }
    if (target == GPU_CUDA) {
        return attn_fail(ATTN_ERR_UNSUPPORTED,
                         "%s: no cuda in this build: no nvcc when this was "
                         "built",
                         call);
    }
    return attn_fail(ATTN_ERR_ARGUMENT, "%s: target %d is none of simt, traced simt and cuda", call,
                     (int)target);
}

// ---- which target -------------------------------------------------------------------------------

// What asking for CUDA has shown; it is asked for once.
static struct {
    bool asked, available;
    char why[GPU_WHY_BYTES];
} cuda;

bool gpu_asked(GpuTarget target) {
    return target != GPU_CUDA || cuda.asked || operations(GPU_CUDA) == NULL;
}

static bool cuda_available(char *why) {
    if (!cuda.asked) {
        const GpuOperations *found = operations(GPU_CUDA);
        if (found == NULL) {
            snprintf(cuda.why, sizeof cuda.why, "no nvcc when this was built");
        } else {
            cuda.available = found->available(cuda.why);
        }
        cuda.asked = true;
    }
    memcpy(why, cuda.why, GPU_WHY_BYTES);
    return cuda.available;
}

bool gpu_available(GpuTarget target, char *why) {
    why[0] = '\0';
    switch (target) {
    case GPU_SIMT:
        return gpu_simt_operations.available(why);
    case GPU_TRACE:
#if GPU_HAVE_TRACE
        return true;
#else
        snprintf(why, GPU_WHY_BYTES, "the kernels' trace build needs gcc 12 or newer");
        return false;
#endif
    case GPU_CUDA:
        return cuda_available(why);
    }
    snprintf(why, GPU_WHY_BYTES, "there is no target %d", (int)target);
    return false;
}

AttnStatus gpu_choose(Backend backend, GpuTarget *target) {
    char why[GPU_WHY_BYTES];
    *target = GPU_SIMT;
    switch (backend) {
    case BACKEND_SIMT:
        return ATTN_OK;
    case BACKEND_AUTO:
        *target = gpu_available(GPU_CUDA, why) ? GPU_CUDA : GPU_SIMT;
        return ATTN_OK;
    case BACKEND_CUDA:
        if (!gpu_available(GPU_CUDA, why)) {
            return attn_fail(ATTN_ERR_UNSUPPORTED, "--backend=cuda: %s", why);
        }
        *target = GPU_CUDA;
        return ATTN_OK;
    case BACKEND_CPU:
        return attn_fail(ATTN_ERR_UNSUPPORTED, "--backend=cpu: these are CUDA kernels; simt runs "
                                               "them on this CPU");
    }
    return attn_fail(ATTN_ERR_ARGUMENT, "there is no backend %d", (int)backend);
}

const char *gpu_target_name(GpuTarget target) {
    switch (target) {
    case GPU_SIMT:
        return "simt";
    case GPU_TRACE:
        return "simt, traced";
    case GPU_CUDA:
        return "cuda";
    }
    return "no target";
}

AttnStatus gpu_properties(GpuTarget target, GpuProperties *properties) {
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_properties", &on);
    return status != ATTN_OK ? status : on->properties(properties);
}

// ---- memory -------------------------------------------------------------------------------------

AttnStatus gpu_alloc(GpuTarget target, void **memory, const char *name, size_t count,
                     size_t element) {
    *memory = NULL;
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_alloc", &on);
    size_t bytes;
    if (status != ATTN_OK) {
        return status;
    }
    if (name == NULL || name[0] == '\0' || element == 0) {
        return attn_fail(ATTN_ERR_ARGUMENT, "gpu_alloc: %s",
                         element == 0 ? "elements of 0 bytes" : "a buffer needs a name");
    }
    if (__builtin_mul_overflow(count, element, &bytes) || bytes > PTRDIFF_MAX) {
        return attn_fail(ATTN_ERR_MEMORY,
                         "gpu_alloc: \"%s\", %zu x %zu bytes, is more than can be "
                         "addressed",
                         name, count, element);
    }
    return bytes == 0 ? ATTN_OK : on->alloc(memory, name, count, element);
}

void gpu_free(GpuTarget target, void *memory) {
    const GpuOperations *on = operations(target);
    if (memory != NULL && on != NULL) {
        on->free(memory);
    }
}

// Checks that `bytes` bytes of device memory from `device` on lie in one buffer. Memory that is not
// of gpu_alloc is an error on simt; on CUDA it may be another library's.
static AttnStatus check_span(const GpuOperations *on, const char *call, const void *device,
                             size_t bytes) {
    GpuSpan span;
    if (device == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "%s: %zu bytes, but the device pointer is null", call,
                         bytes);
    }
    if (!on->find(device, &span)) {
        return on->any_memory ? ATTN_OK
                              : attn_fail(ATTN_ERR_ARGUMENT, "%s: %p is in no buffer of gpu_alloc",
                                          call, device);
    }
    if (bytes > span.left) {
        return attn_fail(ATTN_ERR_ARGUMENT,
                         "%s: %zu bytes from byte %zu of \"%s\" on, which has %zu bytes", call,
                         bytes, span.offset, span.name, span.offset + span.left);
    }
    return ATTN_OK;
}

// The checks of a copy of `bytes` bytes, not 0.
static AttnStatus check_copy(const GpuOperations *on, const char *call, const void *device,
                             const void *host, size_t bytes) {
    if (host == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "%s: %zu bytes, but the host pointer is null", call,
                         bytes);
    }
    return check_span(on, call, device, bytes);
}

AttnStatus gpu_upload(GpuTarget target, void *device, const void *host, size_t bytes) {
    const GpuOperations *on;
    AttnStatus status = need(target, "gpu_upload", &on);
    if (status != ATTN_OK || bytes == 0) {
        return status;
    }
    status = check_copy(on, "gpu_upload", device, host, bytes);
    return status != ATTN_OK ? status : on->upload(device, host, bytes);
}

AttnStatus gpu_download(GpuTarget target, void *host, const void *device, size_t bytes) {
    const GpuOperations *on;
    AttnStatus status = need(target, "gpu_download", &on);
    if (status != ATTN_OK || bytes == 0) {
        return status;
    }
    status = check_copy(on, "gpu_download", device, host, bytes);
    return status != ATTN_OK ? status : on->download(host, device, bytes);
}

AttnStatus gpu_copy(GpuTarget target, void *to, const void *from, size_t bytes, GpuStream stream) {
    const GpuOperations *on;
    AttnStatus status = need(target, "gpu_copy", &on);
    if (status != ATTN_OK || bytes == 0) {
        return status;
    }
    status = check_span(on, "gpu_copy", to, bytes);
    if (status == ATTN_OK) {
        status = check_span(on, "gpu_copy", from, bytes);
    }
    return status != ATTN_OK ? status : on->copy(to, from, bytes, stream);
}

AttnStatus gpu_fill(GpuTarget target, void *device, int byte, size_t bytes, GpuStream stream) {
    const GpuOperations *on;
    AttnStatus status = need(target, "gpu_fill", &on);
    if (status != ATTN_OK || bytes == 0) {
        return status;
    }
    status = check_span(on, "gpu_fill", device, bytes);
    return status != ATTN_OK ? status : on->fill(device, byte, bytes, stream);
}

AttnStatus gpu_check_guard(GpuTarget target, const void *memory) {
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_check_guard", &on);
    return status != ATTN_OK || memory == NULL ? status : on->check_guard(memory);
}

// ---- streams, events, time ----------------------------------------------------------------------

AttnStatus gpu_synchronize(GpuTarget target) {
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_synchronize", &on);
    return status != ATTN_OK ? status : on->synchronize();
}

AttnStatus gpu_stream_create(GpuTarget target, GpuStream *stream) {
    *stream = NULL;
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_stream_create", &on);
    return status != ATTN_OK ? status : on->stream_create(stream);
}

void gpu_stream_destroy(GpuTarget target, GpuStream stream) {
    const GpuOperations *on = operations(target);
    if (stream != NULL && on != NULL) {
        on->stream_destroy(stream);
    }
}

AttnStatus gpu_event_create(GpuTarget target, GpuEvent *event) {
    *event = NULL;
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_event_create", &on);
    return status != ATTN_OK ? status : on->event_create(event);
}

AttnStatus gpu_event_record(GpuTarget target, GpuEvent event, GpuStream stream) {
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_event_record", &on);
    if (status == ATTN_OK && event == NULL) {
        return attn_fail(ATTN_ERR_ARGUMENT, "gpu_event_record: the event is null");
    }
    return status != ATTN_OK ? status : on->event_record(event, stream);
}

AttnStatus gpu_event_seconds(GpuTarget target, GpuEvent from, GpuEvent to, double *seconds) {
    const GpuOperations *on;
    const AttnStatus status = need(target, "gpu_event_seconds", &on);
    if (status == ATTN_OK && (from == NULL || to == NULL)) {
        return attn_fail(ATTN_ERR_ARGUMENT, "gpu_event_seconds: the %s event is null",
                         from == NULL ? "first" : "second");
    }
    return status != ATTN_OK ? status : on->event_seconds(from, to, seconds);
}

void gpu_event_destroy(GpuTarget target, GpuEvent event) {
    const GpuOperations *on = operations(target);
    if (event != NULL && on != NULL) {
        on->event_destroy(event);
    }
}

// Two events a run: where it begins and where it ends.
static AttnStatus run_between_events(GpuTarget target, GpuTimedRun *body, void *context, int run,
                                     GpuEvent events[2]) {
    AttnStatus status = gpu_event_create(target, &events[0]);
    if (status == ATTN_OK) {
        status = gpu_event_create(target, &events[1]);
    }
    if (status == ATTN_OK) {
        status = gpu_event_record(target, events[0], NULL);
    }
    if (status == ATTN_OK) {
        status = body(context, run);
    }
    if (status == ATTN_OK) {
        status = gpu_event_record(target, events[1], NULL);
    }
    return status;
}

AttnStatus gpu_measure(GpuTarget target, GpuTimedRun *body, void *context, int runs,
                       TimeStats *seconds) {
    runs = runs < 1 ? 1 : runs > TIMER_MAX_RUNS ? TIMER_MAX_RUNS : runs;
    *seconds = time_stats(NULL, 0);
    GpuEvent(*events)[2] = calloc((size_t)runs, sizeof(*events));
    double *times = calloc((size_t)runs, sizeof(*times));
    if (events == NULL || times == NULL) {
        free(events);
        free(times);
        return attn_fail(ATTN_ERR_MEMORY, "gpu_measure: no memory for %d runs", runs);
    }
    AttnStatus status = body(context, 0);
    if (status == ATTN_OK) {
        status = gpu_synchronize(target);
    }
    // The runs are queued one behind the other and read at the end: the host does not wait between
    // them, so that its own time is hidden behind the device's.
    for (int run = 0; run < runs && status == ATTN_OK; run++) {
        status = run_between_events(target, body, context, run + 1, events[run]);
    }
    if (status == ATTN_OK) {
        status = gpu_synchronize(target);
    }
    for (int run = 0; run < runs && status == ATTN_OK; run++) {
        status = gpu_event_seconds(target, events[run][0], events[run][1], &times[run]);
    }
    if (status == ATTN_OK) {
        *seconds = time_stats(times, runs);
    }
    for (int run = 0; run < runs; run++) {
        gpu_event_destroy(target, events[run][0]);
        gpu_event_destroy(target, events[run][1]);
    }
    free(events);
    free(times);
    return status;
}
