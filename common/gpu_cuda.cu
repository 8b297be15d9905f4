// The host's side of CUDA, for gpu.c: memory, copies, streams and events of one device (the first
// that CUDA_VISIBLE_DEVICES leaves), every call checked. The device is never reset.
//
// Compiled by nvcc alone. The first call here starts CUDA; nothing does so before main.
#include "common/gpu_target.h"
#include "common/simt/simt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

enum { GUARD_BYTES = 256, GUARD_BYTE = 0xA5, DEVICE = 0 };

// The last launch, which an error that shows later most likely comes from.
struct Launch {
    char kernel[GPU_NAME_BYTES];
    char file[128];
    int line;
} last_launch;

// Turns a failed call into a status with a message. CUDA's own note of the error is cleared, so
// that the check of the next launch does not find it.
AttnStatus failed(cudaError_t error, const char *call, const char *file, int line) {
    cudaGetLastError();
    const AttnStatus status = error == cudaErrorMemoryAllocation ? ATTN_ERR_MEMORY : ATTN_ERR_CUDA;
    return attn_fail(status, "%s:%d: %s: %s: %s", file, line, call, cudaGetErrorName(error),
                     cudaGetErrorString(error));
}

// The status of a CUDA call: its text, file and line, and CUDA's name and text of the error.
#define CUDA_STATUS(call) cuda_status((call), #call, __FILE__, __LINE__)
AttnStatus cuda_status(cudaError_t error, const char *call, const char *file, int line) {
    return error == cudaSuccess ? ATTN_OK : failed(error, call, file, line);
}

// The same for calls that wait for work: the message says which launch was the last.
#define CUDA_STATUS_OF_WORK(call) add_last_launch(CUDA_STATUS(call))
AttnStatus add_last_launch(AttnStatus status) {
    if (status == ATTN_OK || last_launch.kernel[0] == '\0') {
        return status;
    }
    return attn_fail(status, "%s (the last launch was %s at %s:%d)", attn_last_error(),
                     last_launch.kernel, last_launch.file, last_launch.line);
}

// ---- availability -------------------------------------------------------------------------------

// Never launched: its code is looked up, which fails where this build has none for the device.
__global__ void probe_kernel() {
}

// The architectures of this build as nvcc lists them: 800 for sm_80.
const int architectures[] = {__CUDA_ARCH_LIST__};

void describe_missing_device(cudaError_t error, char *why) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    if (driver == 0) {
        snprintf(why, GPU_WHY_BYTES, "no NVIDIA driver here (%s)", cudaGetErrorName(error));
    } else if (error == cudaErrorInsufficientDriver) {
        snprintf(why, GPU_WHY_BYTES,
                 "the driver is for CUDA %d.%d, this build needs %d.%d or newer (%s)",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
                 cudaGetErrorName(error));
    } else {
        snprintf(why, GPU_WHY_BYTES, "no CUDA device (%s: %s)", cudaGetErrorName(error),
                 cudaGetErrorString(error));
    }
}

void describe_missing_code(cudaError_t error, char *why) {
    int major = 0, minor = 0, oldest = architectures[0];
    cudaGetLastError();
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, DEVICE);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, DEVICE);
    for (const int architecture : architectures) {
        oldest = architecture < oldest ? architecture : oldest;
    }
    if (error == cudaErrorNoKernelImageForDevice && 100 * major + 10 * minor < oldest) {
        snprintf(why, GPU_WHY_BYTES, "the device is sm_%d%d, this build is for sm_%d and newer",
                 major, minor, oldest / 10);
    } else {
        snprintf(why, GPU_WHY_BYTES, "this build has no code for the device, sm_%d%d (%s: %s)",
                 major, minor, cudaGetErrorName(error), cudaGetErrorString(error));
    }
}

bool cuda_available(char *why) {
    why[0] = '\0';
    int devices = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error == cudaSuccess && devices == 0) {
        error = cudaErrorNoDevice;
    }
    if (error != cudaSuccess) {
        describe_missing_device(error, why);
        return false;
    }
    cudaFuncAttributes attributes;
    error = cudaFuncGetAttributes(&attributes, (const void *)probe_kernel);
    if (error != cudaSuccess) {
        describe_missing_code(error, why);
        return false;
    }
    return true;
}

AttnStatus cuda_properties(GpuProperties *properties) {
    cudaDeviceProp device;
    AttnStatus status = CUDA_STATUS(cudaGetDeviceProperties(&device, DEVICE));
    int memory_khz = 0, bus_bits = 0;
    if (status == ATTN_OK) {
        status =
            CUDA_STATUS(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, DEVICE));
    }
    if (status == ATTN_OK) {
        status =
            CUDA_STATUS(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, DEVICE));
    }
    if (status != ATTN_OK) {
        return status;
    }
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "%.63s", device.name);
    properties->compute_major = device.major;
    properties->compute_minor = device.minor;
    properties->multiprocessors = device.multiProcessorCount;
    properties->warp_size = device.warpSize;
    properties->max_threads_per_block = device.maxThreadsPerBlock;
    for (int axis = 0; axis < 3; axis++) {
        properties->max_block[axis] = device.maxThreadsDim[axis];
        properties->max_grid[axis] = device.maxGridSize[axis];
    }
    properties->max_threads_per_multiprocessor = device.maxThreadsPerMultiProcessor;
    properties->max_blocks_per_multiprocessor = device.maxBlocksPerMultiProcessor;
    properties->registers_per_multiprocessor = device.regsPerMultiprocessor;
    properties->shared_per_block = device.sharedMemPerBlock;
    properties->shared_per_block_optin = device.sharedMemPerBlockOptin;
    properties->shared_per_multiprocessor = device.sharedMemPerMultiprocessor;
    properties->l2_bytes = (size_t)device.l2CacheSize;
    properties->memory_bytes = device.totalGlobalMem;
    // Two transfers a clock, of bus_bits / 8 bytes each.
    properties->bytes_per_s = 2.0 * 1e3 * memory_khz * bus_bits / 8;
    return ATTN_OK;
}

// ---- memory -------------------------------------------------------------------------------------

// Every live buffer: CUDA keeps neither names nor sizes. After its bytes lie GUARD_BYTES more.
struct Buffer {
    char name[GPU_NAME_BYTES];
    char *start;
    size_t bytes;
    Buffer *next;
} * buffers;

Buffer *buffer_at(const void *address) {
    for (Buffer *buffer = buffers; buffer != nullptr; buffer = buffer->next) {
        if ((const char *)address >= buffer->start &&
            (const char *)address < buffer->start + buffer->bytes) {
            return buffer;
        }
    }
    return nullptr;
}

AttnStatus cuda_alloc(void **memory, const char *name, size_t count, size_t element) {
    const size_t bytes = count * element;
    Buffer *buffer = (Buffer *)calloc(1, sizeof(Buffer));
    if (buffer == nullptr) {
        return attn_fail(ATTN_ERR_MEMORY, "gpu_alloc: no memory for the record of \"%s\"", name);
    }
    snprintf(buffer->name, sizeof buffer->name, "%s", name);
    buffer->bytes = bytes;
    AttnStatus status = CUDA_STATUS(cudaMalloc((void **)&buffer->start, bytes + GUARD_BYTES));
    if (status == ATTN_OK) {
        status = CUDA_STATUS(cudaMemset(buffer->start, 0xFF, bytes));
    }
    if (status == ATTN_OK) {
        status = CUDA_STATUS(cudaMemset(buffer->start + bytes, GUARD_BYTE, GUARD_BYTES));
    }
    if (status != ATTN_OK) {
        cudaFree(buffer->start);
        free(buffer);
        return attn_fail(status, "gpu_alloc: \"%s\", %zu bytes: %s", name, bytes,
                         attn_last_error());
    }
    buffer->next = buffers;
    buffers = buffer;
    *memory = buffer->start;
    return ATTN_OK;
}

void cuda_free(void *memory) {
    for (Buffer **link = &buffers; *link != nullptr; link = &(*link)->next) {
        Buffer *const buffer = *link;
        if (buffer->start == memory) {
            *link = buffer->next;
            // An error that a kernel left shows here again; whoever waited for it has seen it.
            if (cudaFree(memory) != cudaSuccess) {
                cudaGetLastError();
            }
            free(buffer);
            return;
        }
    }
    fprintf(stderr, "gpu_free: %p is no buffer of CUDA, or was freed before\n", memory);
    abort();
}

bool cuda_find(const void *address, GpuSpan *span) {
    const Buffer *const buffer = buffer_at(address);
    if (buffer == nullptr) {
        return false;
    }
    snprintf(span->name, sizeof span->name, "%s", buffer->name);
    span->offset = (size_t)((const char *)address - buffer->start);
    span->left = buffer->bytes - span->offset;
    return true;
}

AttnStatus cuda_check_guard(const void *memory) {
    const Buffer *const buffer = buffer_at(memory);
    unsigned char guard[GUARD_BYTES];
    if (buffer == nullptr) {
        return attn_fail(ATTN_ERR_ARGUMENT, "gpu_check_guard: %p is in no buffer of gpu_alloc",
                         memory);
    }
    const AttnStatus status = CUDA_STATUS_OF_WORK(
        cudaMemcpy(guard, buffer->start + buffer->bytes, GUARD_BYTES, cudaMemcpyDeviceToHost));
    for (int byte = 0; status == ATTN_OK && byte < GUARD_BYTES; byte++) {
        if (guard[byte] != GUARD_BYTE) {
            return attn_fail(ATTN_ERR_CUDA,
                             "a kernel wrote past the end of \"%s\" (%zu bytes), %d bytes after it",
                             buffer->name, buffer->bytes, byte);
        }
    }
    return status;
}

AttnStatus cuda_upload(void *device, const void *host, size_t bytes) {
    return CUDA_STATUS_OF_WORK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
}

AttnStatus cuda_download(void *host, const void *device, size_t bytes) {
    return CUDA_STATUS_OF_WORK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
}

AttnStatus cuda_copy(void *to, const void *from, size_t bytes, GpuStream stream) {
    return CUDA_STATUS(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream));
}

AttnStatus cuda_fill(void *device, int byte, size_t bytes, GpuStream stream) {
    return CUDA_STATUS(cudaMemsetAsync(device, byte, bytes, (cudaStream_t)stream));
}

// ---- streams and events -------------------------------------------------------------------------

AttnStatus cuda_synchronize() {
    return CUDA_STATUS_OF_WORK(cudaDeviceSynchronize());
}

AttnStatus cuda_stream_create(GpuStream *stream) {
    return CUDA_STATUS(cudaStreamCreate((cudaStream_t *)stream));
}

void cuda_stream_destroy(GpuStream stream) {
    if (cudaStreamDestroy((cudaStream_t)stream) != cudaSuccess) {
        cudaGetLastError();
    }
}

AttnStatus cuda_event_create(GpuEvent *event) {
    return CUDA_STATUS(cudaEventCreate((cudaEvent_t *)event));
}

AttnStatus cuda_event_record(GpuEvent event, GpuStream stream) {
    return CUDA_STATUS(cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream));
}

AttnStatus cuda_event_seconds(GpuEvent from, GpuEvent to, double *seconds) {
    float milliseconds = 0;
    AttnStatus status = CUDA_STATUS_OF_WORK(cudaEventSynchronize((cudaEvent_t)to));
    if (status == ATTN_OK) {
        status =
            CUDA_STATUS(cudaEventElapsedTime(&milliseconds, (cudaEvent_t)from, (cudaEvent_t)to));
    }
    if (status == ATTN_OK) {
        *seconds = 1e-3 * (double)milliseconds;
    }
    return status;
}

void cuda_event_destroy(GpuEvent event) {
    if (cudaEventDestroy((cudaEvent_t)event) != cudaSuccess) {
        cudaGetLastError();
    }
}

} // namespace

// ---- launches (simt_cuda.h) ---------------------------------------------------------------------

AttnStatus gpu_cuda_launched(const char *kernel, const char *file, int line) {
    const cudaError_t error = cudaGetLastError();
    snprintf(last_launch.kernel, sizeof last_launch.kernel, "%s", kernel);
    snprintf(last_launch.file, sizeof last_launch.file, "%s", file);
    last_launch.line = line;
    if (error == cudaSuccess) {
        return ATTN_OK;
    }
    return attn_fail(ATTN_ERR_CUDA, "%s:%d: launch of %s: %s: %s", file, line, kernel,
                     cudaGetErrorName(error), cudaGetErrorString(error));
}

AttnStatus gpu_cuda_shared_opt_in(const void *function, const char *kernel, size_t bytes,
                                  const char *file, int line) {
    const cudaError_t error =
        cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error == cudaSuccess) {
        return ATTN_OK;
    }
    cudaGetLastError();
    return attn_fail(ATTN_ERR_CUDA, "%s:%d: %s with %zu bytes of dynamic shared memory: %s: %s",
                     file, line, kernel, bytes, cudaGetErrorName(error), cudaGetErrorString(error));
}

extern "C" const GpuOperations gpu_cuda_operations = {
    cuda_available,
    cuda_properties,
    cuda_alloc,
    cuda_free,
    cuda_find,
    cuda_check_guard,
    cuda_upload,
    cuda_download,
    cuda_copy,
    cuda_fill,
    cuda_synchronize,
    cuda_stream_create,
    cuda_stream_destroy,
    cuda_event_create,
    cuda_event_record,
    cuda_event_seconds,
    cuda_event_destroy,
    true, // any_memory: PyTorch's tensors, for one
};
