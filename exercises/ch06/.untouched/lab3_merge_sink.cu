// Lab 3: parts, and the block that finishes last merges them, with a sink in the denominator.
//
// A block of 128 threads has one part of one head's keys. Its four warps take keys in turn, each
// with an online softmax of its own, and their states are merged in shared memory into the O and
// the LSE of the part. That much is given. What is yours: where a part lies, which block is the
// last one of its head, and what it does then.
#include "labs.h"

#include "common/simt/simt.h"

enum { WARPS = SINK_THREADS / 32, LANE_DIMS = SINK_MAX_DIM / 32 };

static const unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(all_lanes, x, distance, 32);
    }
    return x;
}

// The element of part_o [heads][parts][dim] at which the O of a part begins.
__device__ __forceinline__ size_t part_place(int head, int part, int parts, int dim) {
    size_t place = 0;
    // TODO 1: place; it may be beyond 32 bits
    // END 1
    return place;
}

__global__ void __launch_bounds__(SINK_THREADS) sink_kernel(const __grid_constant__ SinkDecode p) {
    __shared__ float warp_m[WARPS], warp_l[WARPS], warp_acc[WARPS][SINK_MAX_DIM];
    __shared__ bool is_last; // what thread 0 found out, for all threads
    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int part = (int)blockIdx.x, head = (int)blockIdx.y, dim = p.dim;
    const size_t bound = (size_t)head * (size_t)(p.parts + 1) + (size_t)part;
    const int begin = p.bounds[bound], end = p.bounds[bound + 1];
    const float *restrict q = p.q + (size_t)head * dim;            // [dim]
    const float *restrict k = p.k + (size_t)head * p.len_kv * dim; // [len_kv][dim]
    const float *restrict v = p.v + (size_t)head * p.len_kv * dim; // [len_kv][dim]
    float *part_o = p.part_o;                                      // [heads][parts][dim]
    float *part_lse = p.part_lse + (size_t)head * p.parts;         // [parts]

    // The warp's keys: begin + warp, begin + warp + 4, ...; a lane has the dimensions lane, lane +
    // 32, ...
    float m = -INFINITY, l = 0.0f, acc[LANE_DIMS];
    for (int u = 0; u < LANE_DIMS; u++) {
        acc[u] = 0.0f;
    }
    for (int j = begin + warp; j < end; j += WARPS) {
        float dot = 0.0f;
        for (int c = lane; c < dim; c += 32) {
            dot += q[c] * k[(size_t)j * dim + c];
        }
        const float score = p.scale * warp_sum(dot);
        const float m_new = fmaxf(m, score);
        const float alpha = expf(m - m_new), weight = expf(score - m_new);
        m = m_new;
        l = l * alpha + weight;
        for (int u = 0; u < LANE_DIMS && u * 32 + lane < dim; u++) {
            acc[u] = acc[u] * alpha + weight * v[(size_t)j * dim + u * 32 + lane];
        }
    }
    for (int u = 0; u < LANE_DIMS && u * 32 + lane < dim; u++) {
        warp_acc[warp][u * 32 + lane] = acc[u];
    }
    if (lane == 0) {
        warp_m[warp] = m;
        warp_l[warp] = l;
    }
    __syncthreads();

    // O and LSE of the part: thread c has dimension c. A warp without keys has m = -infinity.
    if (begin < end) {
        float part_m = -INFINITY, part_l = 0.0f, part_acc = 0.0f;
        for (int w = 0; w < WARPS; w++) {
            part_m = fmaxf(part_m, warp_m[w]);
        }
        for (int w = 0; w < WARPS && begin + w < end; w++) {
            const float weight = expf(warp_m[w] - part_m);
            part_l += weight * warp_l[w];
            part_acc += thread < dim ? weight * warp_acc[w][thread] : 0.0f;
        }
        if (thread < dim) {
            part_o[part_place(head, part, p.parts, dim) + thread] = part_acc / part_l;
        }
        if (thread == 0) {
            part_lse[part] = part_m + logf(part_l);
        }
    } else if (thread == 0) {
        part_lse[part] = -INFINITY; // and nothing in part_o
    }

    bool merges = false; // this block is the last one of its head to get here
    // TODO 2: merges, by counting in p.counters[head] the blocks that have stored their part; when
    // the last one has counted, the counter is 0 again
    (void)is_last;
    // END 2
    if (!merges) {
        return;
    }

    // TODO 3: O and LSE of the head, from its parts and its sink; thread c has dimension c
    // END 3
}
SIMT_KERNEL(sink_kernel, SinkDecode, SINK_THREADS);

AttnStatus ENTRY(sink_decode)(const SinkDecode *decode, GpuStream stream) {
    const SinkDecode params = *decode;
    const dim3 grid = {(unsigned)params.parts, (unsigned)params.heads, 1};
    const dim3 block = {SINK_THREADS, 1, 1};
    if (params.dim > SINK_MAX_DIM) {
        return attn_fail(ATTN_ERR_UNSUPPORTED, "dim %d: at most %d", params.dim, SINK_MAX_DIM);
    }
    return LAUNCH(sink_kernel, grid, block, 0, stream, params);
}

__global__ void __launch_bounds__(SINK_THREADS)
    places_kernel(const __grid_constant__ PartPlaces p) {
    const int i = (int)threadIdx.x;
    if (i < p.count) {
        p.place[i] = (int64_t)part_place(p.head[i], p.part[i], p.parts, p.dim);
    }
}
SIMT_KERNEL(places_kernel, PartPlaces, SINK_THREADS);

AttnStatus ENTRY(part_places)(const PartPlaces *places, GpuStream stream) {
    const PartPlaces params = *places;
    const dim3 grid = {1, 1, 1}, block = {SINK_THREADS, 1, 1};
    return LAUNCH(places_kernel, grid, block, 0, stream, params);
}
