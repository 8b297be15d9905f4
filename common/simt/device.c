// The devices that simt can stand for: the limits that its launches keep and the figures that the
// lessons compute with. SIMT_DEVICE=name, or simt_settings()->device, picks one.
//
// Sources. Limits by compute capability (8.0, 8.6, 8.9, 9.0): CUDA C++ Programming Guide, "Compute
// Capabilities", table of technical specifications; blocks per multiprocessor also in CUDA's
// cuda_occupancy.h. Multiprocessors, L2 and memory: NVIDIA's architecture papers "H100 Tensor Core
// GPU" (H100 SXM5, 80 GB), "A100 Tensor Core GPU" with the data sheet of the A100 80 GB SXM, "Ada
// GPU Architecture" (GeForce RTX 4090), "Ampere GA102" (GeForce RTX 3090); for the H200 what
// cudaGetDeviceProperties says on one, and the data sheet's 4.8 TB/s. Only the H200's figures were
// checked on a device; L2, memory and rates of the others are the papers' as cited elsewhere.
#include "common/simt/internal.h"

#include <stdio.h>
#include <string.h>

#define KIB(n) ((size_t)(n)*1024)
#define MIB(n) (KIB(n) * 1024)
#define GIB(n) (MIB(n) * 1024)

// The same on every device of compute capability 8.0 to 9.0.
#define COMMON_LIMITS                                                                              \
    .warp_size = 32, .max_threads_per_block = 1024, .max_block = {1024, 1024, 64},                 \
    .max_grid = {INT32_MAX, 65535, 65535}, .registers_per_multiprocessor = 65536,                  \
    .shared_per_block = KIB(48)

typedef struct Profile {
    const char *name; // of SIMT_DEVICE
    GpuProperties properties;
} Profile;

static const Profile profiles[] = {
    {"h200",
     {.name = "simt as an H200",
      .compute_major = 9,
      .compute_minor = 0,
      .multiprocessors = 132,
      .max_threads_per_multiprocessor = 2048,
      .max_blocks_per_multiprocessor = 32,
      .shared_per_block_optin = KIB(227),
      .shared_per_multiprocessor = KIB(228),
      .l2_bytes = MIB(60),
      .memory_bytes = 150109880320,
      .bytes_per_s = 4.8e12,
      COMMON_LIMITS}},
    {"h100",
     {.name = "simt as an H100",
      .compute_major = 9,
      .compute_minor = 0,
      .multiprocessors = 132,
      .max_threads_per_multiprocessor = 2048,
      .max_blocks_per_multiprocessor = 32,
      .shared_per_block_optin = KIB(227),
      .shared_per_multiprocessor = KIB(228),
      .l2_bytes = MIB(50),
      .memory_bytes = GIB(80),
      .bytes_per_s = 3.35e12,
      COMMON_LIMITS}},
    {"a100",
     {.name = "simt as an A100",
      .compute_major = 8,
      .compute_minor = 0,
      .multiprocessors = 108,
      .max_threads_per_multiprocessor = 2048,
      .max_blocks_per_multiprocessor = 32,
      .shared_per_block_optin = KIB(163),
      .shared_per_multiprocessor = KIB(164),
      .l2_bytes = MIB(40),
      .memory_bytes = GIB(80),
      .bytes_per_s = 2.039e12,
      COMMON_LIMITS}},
    {"rtx4090",
     {.name = "simt as an RTX 4090",
      .compute_major = 8,
      .compute_minor = 9,
      .multiprocessors = 128,
      .max_threads_per_multiprocessor = 1536,
      .max_blocks_per_multiprocessor = 24,
      .shared_per_block_optin = KIB(99),
      .shared_per_multiprocessor = KIB(100),
      .l2_bytes = MIB(72),
      .memory_bytes = GIB(24),
      .bytes_per_s = 1.008e12,
      COMMON_LIMITS}},
    {"rtx3090",
     {.name = "simt as an RTX 3090",
      .compute_major = 8,
      .compute_minor = 6,
      .multiprocessors = 82,
      .max_threads_per_multiprocessor = 1536,
      .max_blocks_per_multiprocessor = 16,
      .shared_per_block_optin = KIB(99),
      .shared_per_multiprocessor = KIB(100),
      .l2_bytes = MIB(6),
      .memory_bytes = GIB(24),
      .bytes_per_s = 0.936e12,
      COMMON_LIMITS}},
};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

const GpuProperties *simt_device(void) {
    const char *wanted = simt_settings()->device;
    char names[128] = "";
    for (int i = 0; i < PROFILES; i++) {
        if (wanted == NULL || wanted[0] == '\0' || strcmp(wanted, profiles[i].name) == 0) {
            return &profiles[i].properties;
        }
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", profiles[i].name);
    }
    attn_fail(ATTN_ERR_ARGUMENT, "SIMT_DEVICE=%s: simt knows %s", wanted, names);
    return NULL;
}
