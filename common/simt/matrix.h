// The matrix instructions that every warp-level kernel is built from, the same calls on both
// targets: under nvcc they are the PTX instructions, under a C compiler the runtime does their work
// (matrix.c). Compute capability 8.0 and newer.
//
// mma and ldmatrix belong to the whole warp: all 32 lanes must come to the same call. Lane l = 4g +
// t (g = l / 4, t = l % 4) holds these parts of the matrices, two 16-bit elements a register, the
// one with the smaller column (of A) or row (of B) in the low half:
//
//     A, 16 x 16    a[0] row g, columns 2t, 2t+1      a[2] row g, columns 2t+8, 2t+9
//                   a[1] row g+8, columns 2t, 2t+1    a[3] row g+8, columns 2t+8, 2t+9
//     B, 16 x 8     b[0] rows 2t, 2t+1, column g      b[1] rows 2t+8, 2t+9, column g
//     C, D, 16 x 8  c[0], c[1] row g, columns 2t, 2t+1    c[2], c[3] row g+8, the same columns
//
// void mma_m16n8k16_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4])
// void mma_m16n8k16_f16(...)
//     D = A B + C in f32; d and c may be the same array. In C the sum of an element is taken in f64
//     and rounded once; a device adds in another order, with fewer bits.
//
// void ldmatrix_x1(uint32_t r[1], const void *row), _x2(r[2], row), _x4(r[4], row), _x1_trans, ...
//     Loads 1, 2 or 4 matrices of 8 x 8 16-bit elements from shared memory. Lane i passes the
//     address of row i % 8 of matrix i / 8, 16 bytes, 16-byte aligned; what the other lanes pass is
//     not used. Lane l gets in r[j], of matrix j: row g, columns 2t and 2t+1; _trans: column g,
//     rows 2t and 2t+1.
//
// void cp_async_16(void *shared, const void *global, int bytes), cp_async_8, cp_async_4
//     Starts a copy of 16, 8 or 4 bytes from global to shared memory, both aligned to that size.
//     Only `bytes` (0 .. size) are read; the rest of the destination is filled with zeros.
// void cp_async_commit(void)
//     Makes the copies that this thread has started since the last commit one group.
// void cp_async_wait(n)
//     Waits until all but the last n groups of this thread are complete; n is a constant. Other
//     threads see the data after a barrier that follows.
// void cp_async_wait_all(void)
//     Waits for all copies of this thread, committed or not.
//     In C the source is read at the start and the destination is written by the wait; between the
//     two it holds NaN (bytes 0xFF), so that a forgotten wait shows, and so does a copy into memory
//     that others still read; the trace build reports both.
#ifndef COMMON_SIMT_MATRIX_H
#define COMMON_SIMT_MATRIX_H

#include <stdint.h>

#ifdef __CUDACC__

#define MMA_M16N8K16(type)                                                                         \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                    \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"             \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),    \
                   "f"(c[1]), "f"(c[2]), "f"(c[3]))
static __device__ __forceinline__ void mma_m16n8k16_bf16(float d[4], const uint32_t a[4],
                                                         const uint32_t b[2], const float c[4]) {
    MMA_M16N8K16("bf16");
}
static __device__ __forceinline__ void mma_m16n8k16_f16(float d[4], const uint32_t a[4],
                                                        const uint32_t b[2], const float c[4]) {
    MMA_M16N8K16("f16");
}
#undef MMA_M16N8K16

static __device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

#define LDMATRIX_X1(name, form)                                                                    \
    static __device__ __forceinline__ void name(uint32_t r[1], const void *row) {                  \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" form ".shared.b16 {%0}, [%1];"                \
                     : "=r"(r[0])                                                                  \
                     : "r"(shared_address(row))                                                    \
                     : "memory");                                                                  \
    }
#define LDMATRIX_X2(name, form)                                                                    \
    static __device__ __forceinline__ void name(uint32_t r[2], const void *row) {                  \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" form ".shared.b16 {%0, %1}, [%2];"            \
                     : "=r"(r[0]), "=r"(r[1])                                                      \
                     : "r"(shared_address(row))                                                    \
                     : "memory");                                                                  \
    }
#define LDMATRIX_X4(name, form)                                                                    \
    static __device__ __forceinline__ void name(uint32_t r[4], const void *row) {                  \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0, %1, %2, %3}, [%4];"    \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                              \
                     : "r"(shared_address(row))                                                    \
                     : "memory");                                                                  \
    }
LDMATRIX_X1(ldmatrix_x1, "")
LDMATRIX_X2(ldmatrix_x2, "")
LDMATRIX_X4(ldmatrix_x4, "")
LDMATRIX_X1(ldmatrix_x1_trans, ".trans")
LDMATRIX_X2(ldmatrix_x2_trans, ".trans")
LDMATRIX_X4(ldmatrix_x4_trans, ".trans")
#undef LDMATRIX_X1
#undef LDMATRIX_X2
#undef LDMATRIX_X4

// 16 bytes go past L1 (.cg); smaller copies exist only through it (.ca).
#define CP_ASYNC(name, cache, size)                                                                \
    static __device__ __forceinline__ void name(void *shared, const void *global, int bytes) {     \
        asm volatile("cp.async." cache ".shared.global [%0], [%1], " size ", %2;"                  \
                     :                                                                             \
                     : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)),         \
                       "r"(bytes)                                                                  \
                     : "memory");                                                                  \
    }
CP_ASYNC(cp_async_16, "cg", "16")
CP_ASYNC(cp_async_8, "ca", "8")
CP_ASYNC(cp_async_4, "ca", "4")
#undef CP_ASYNC
static __device__ __forceinline__ void cp_async_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
#define cp_async_wait(n)                                                                           \
    do {                                                                                           \
        static_assert((n) >= 0, "the groups that may stay open: a constant, 0 or more");           \
        asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");                               \
    } while (0)
static __device__ __forceinline__ void cp_async_wait_all(void) {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#else

enum { SIMT_MMA_BF16 = 0, SIMT_MMA_F16 };
void simt_mma(int kind, float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
              const char *file, int line);
#define mma_m16n8k16_bf16(d, a, b, c)      simt_mma(SIMT_MMA_BF16, (d), (a), (b), (c), SIMT_HERE)
#define mma_m16n8k16_f16(d, a, b, c)       simt_mma(SIMT_MMA_F16, (d), (a), (b), (c), SIMT_HERE)

// r[matrices]
void simt_ldmatrix(int matrices, int transposed, uint32_t *r, const void *row, const char *file,
                   int line);
#define ldmatrix_x1(r, row)                simt_ldmatrix(1, 0, (r), (row), SIMT_HERE)
#define ldmatrix_x2(r, row)                simt_ldmatrix(2, 0, (r), (row), SIMT_HERE)
#define ldmatrix_x4(r, row)                simt_ldmatrix(4, 0, (r), (row), SIMT_HERE)
#define ldmatrix_x1_trans(r, row)          simt_ldmatrix(1, 1, (r), (row), SIMT_HERE)
#define ldmatrix_x2_trans(r, row)          simt_ldmatrix(2, 1, (r), (row), SIMT_HERE)
#define ldmatrix_x4_trans(r, row)          simt_ldmatrix(4, 1, (r), (row), SIMT_HERE)

void simt_cp_async(int size, void *shared, const void *global, int bytes, const char *file,
                   int line);
void simt_cp_async_commit(void);
void simt_cp_async_wait(int open_groups);
void simt_cp_async_wait_all(void);
#define cp_async_16(shared, global, bytes) simt_cp_async(16, (shared), (global), (bytes), SIMT_HERE)
#define cp_async_8(shared, global, bytes)  simt_cp_async(8, (shared), (global), (bytes), SIMT_HERE)
#define cp_async_4(shared, global, bytes)  simt_cp_async(4, (shared), (global), (bytes), SIMT_HERE)
#define cp_async_commit()                  simt_cp_async_commit()
#define cp_async_wait(n)                                                                           \
    do {                                                                                           \
        static_assert((n) >= 0, "the groups that may stay open: a constant, 0 or more");           \
        simt_cp_async_wait(n);                                                                     \
    } while (0)
#define cp_async_wait_all() simt_cp_async_wait_all()

#endif

#endif
