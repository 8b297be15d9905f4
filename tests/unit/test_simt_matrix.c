// mma and ldmatrix on every target: every element's place in the fragments, and products against
// float64; on simt in three thread orders.
#include "common/simt/types.h"
#include "tests/unit/simt_matrix_probe.h"
#include "tests/unit/simt_places.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- mma ----------------------------------------------------------------------------------------

typedef struct Product {
    float a[PROBE_M][PROBE_K], b[PROBE_K][PROBE_N], c[PROBE_M][PROBE_N];
} Product;
typedef struct Result {
    float d[PROBE_M][PROBE_N];
} Result;
enum { MAX_PRODUCTS = 256 };

static uint16_t to_16(float x, int bf16) {
    return bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(x))
                : __half_as_ushort(__float2half_rn(x));
}

static float to_float(uint16_t bits, int bf16) {
    return bf16 ? __bfloat162float(__ushort_as_bfloat16(bits))
                : __half2float(__ushort_as_half(bits));
}

// Runs the kernel on products whose elements the 16-bit type can hold.
static void run_products(GpuTarget target, const Product *products, int count,
                         const MmaProbeParams *how, Result *results) {
    static AttnStatus (*const probe[])(const MmaProbeParams *, GpuStream) =
        GPU_BUILDS(simt_mma_probe);
    static uint16_t a[MAX_PRODUCTS][PROBE_M][PROBE_K], b[MAX_PRODUCTS][PROBE_K][PROBE_N];
    static float c[MAX_PRODUCTS][PROBE_M][PROBE_N];
    for (int p = 0; p < count; p++) {
        for (int k = 0; k < PROBE_K; k++) {
            for (int m = 0; m < PROBE_M; m++) {
                a[p][m][k] = to_16(products[p].a[m][k], how->bf16);
            }
            for (int n = 0; n < PROBE_N; n++) {
                b[p][k][n] = to_16(products[p].b[k][n], how->bf16);
            }
        }
        memcpy(c[p], products[p].c, sizeof c[p]);
    }
    const size_t all = (size_t)count;
    MmaProbeParams params = *how;
    uint16_t *device_a = simt_test_array(target, "a", all * sizeof a[0] / 2, 2, a);
    uint16_t *device_b = simt_test_array(target, "b", all * sizeof b[0] / 2, 2, b);
    float *device_c = simt_test_array(target, "c", all * sizeof c[0] / 4, 4, c);
    params.a = device_a;
    params.b = device_b;
    params.c = device_c;
    params.d = simt_test_array(target, "d", all * sizeof *results / 4, 4, NULL);
    params.count = count;
    ck_assert_msg(probe[target](&params, NULL) == ATTN_OK, "%s", attn_last_error());
    simt_test_download(target, results, params.d, all * sizeof *results);
    gpu_free(target, device_a);
    gpu_free(target, device_b);
    gpu_free(target, device_c);
    gpu_free(target, params.d);
}

// The four ways to run a product: two types, d apart from c and the same; registers filled by the
// table and by ldmatrix.
typedef void ProductCheck(GpuTarget target, const MmaProbeParams *how);
static void each_way(GpuTarget target, ProductCheck *check) {
    for (int way = 0; way < 8; way++) {
        const MmaProbeParams how = {.bf16 = way & 1, .in_place = way >> 1 & 1, .load = way >> 2};
        check(target, &how);
    }
}

static void check_exact(const MmaProbeParams *how, int product, const Result *got,
                        const Product *expected_of) {
    for (int m = 0; m < PROBE_M; m++) {
        for (int n = 0; n < PROBE_N; n++) {
            double sum = (double)expected_of->c[m][n];
            for (int k = 0; k < PROBE_K; k++) {
                sum += (double)expected_of->a[m][k] * (double)expected_of->b[k][n];
            }
            if (!((double)got->d[m][n] == sum)) {
                ck_abort_msg("product %d, row %d, column %d (bf16 %d, in place %d, load %d): got "
                             "%g, expected %g",
                             product, m, n, how->bf16, how->in_place, how->load,
                             (double)got->d[m][n], sum);
            }
        }
    }
}

// One element of A is 1, all of B and C differ: tells where every element of A, C and D is.
static void check_one_hot_a(GpuTarget target, const MmaProbeParams *how) {
    static Product products[PROBE_M * PROBE_K];
    static Result results[PROBE_M * PROBE_K];
    for (int p = 0; p < PROBE_M * PROBE_K; p++) {
        products[p] = (Product){0};
        products[p].a[p / PROBE_K][p % PROBE_K] = 1;
        for (int i = 0; i < PROBE_K * PROBE_N; i++) {
            products[p].b[i / PROBE_N][i % PROBE_N] = (float)(i + 1);
        }
        for (int i = 0; i < PROBE_M * PROBE_N; i++) {
            products[p].c[i / PROBE_N][i % PROBE_N] = (float)(1024 * i);
        }
    }
    run_products(target, products, PROBE_M * PROBE_K, how, results);
    for (int p = 0; p < PROBE_M * PROBE_K; p++) {
        check_exact(how, p, &results[p], &products[p]);
    }
}

// One element of B is 1, all of A differ.
static void check_one_hot_b(GpuTarget target, const MmaProbeParams *how) {
    static Product products[PROBE_K * PROBE_N];
    static Result results[PROBE_K * PROBE_N];
    for (int p = 0; p < PROBE_K * PROBE_N; p++) {
        products[p] = (Product){0};
        products[p].b[p / PROBE_N][p % PROBE_N] = 1;
        for (int i = 0; i < PROBE_M * PROBE_K; i++) {
            products[p].a[i / PROBE_K][i % PROBE_K] = (float)(i + 1);
        }
    }
    run_products(target, products, PROBE_K * PROBE_N, how, results);
    for (int p = 0; p < PROBE_K * PROBE_N; p++) {
        check_exact(how, p, &results[p], &products[p]);
    }
}

static float random_float(uint64_t *state) { // in [-1, 1)
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(*state >> 11) * 0x1p-52 - 1);
}

static void fill_random(Product *product, int bf16, uint64_t *state) {
    for (int k = 0; k < PROBE_K; k++) {
        for (int m = 0; m < PROBE_M; m++) {
            const float x = ldexpf(random_float(state), (int)(*state >> 60) - 8);
            product->a[m][k] = to_float(to_16(x, bf16), bf16);
        }
        for (int n = 0; n < PROBE_N; n++) {
            product->b[k][n] = to_float(to_16(random_float(state) + 0.5f, bf16), bf16);
        }
    }
    for (int i = 0; i < PROBE_M * PROBE_N; i++) {
        product->c[i / PROBE_N][i % PROBE_N] = 4 * random_float(state);
    }
}

// simt rounds an (almost) exact sum once. A device aligns the 17 terms to the largest and cuts each
// at about 24 bits.
static void check_random(GpuTarget target, const MmaProbeParams *how) {
    enum { COUNT = 40 };
    static Product products[COUNT];
    static Result results[COUNT];
    uint64_t state = 7;
    for (int p = 0; p < COUNT; p++) {
        fill_random(&products[p], how->bf16, &state);
    }
    run_products(target, products, COUNT, how, results);
    for (int i = 0; i < COUNT * PROBE_M * PROBE_N; i++) {
        const Product *product = &products[i / (PROBE_M * PROBE_N)];
        const int m = i / PROBE_N % PROBE_M, n = i % PROBE_N;
        double sum = (double)product->c[m][n], magnitude = fabs(sum);
        for (int k = 0; k < PROBE_K; k++) {
            const double term = (double)product->a[m][k] * (double)product->b[k][n];
            sum += term;
            magnitude += fabs(term);
        }
        const double got = (double)results[i / (PROBE_M * PROBE_N)].d[m][n];
        const double bound = target == GPU_CUDA ? 17 * 0x1p-23 * magnitude
                                                : 0x1p-24 * fabs(sum) + 0x1p-50 * magnitude;
        if (!(fabs(got - sum) <= bound)) {
            ck_abort_msg("element %d (bf16 %d): got %.9g, expected %.9g, bound %.3g", i, how->bf16,
                         got, sum, bound);
        }
    }
}

// Infinities, NaN, overflow, subnormals of the 16-bit types: the device's bits.
static void check_special(GpuTarget target, const MmaProbeParams *how) {
    Product product = {0};
    Result result;
    const float tiny = how->bf16 ? 0x1p-133f : 0x1p-24f, huge = how->bf16 ? 0x1p127f : 0x1p15f;
    product.a[0][3] = INFINITY;
    product.a[1][3] = -INFINITY;
    product.a[2][5] = NAN;
    product.a[3][7] = tiny;
    product.a[4][3] = huge;
    product.a[5][3] = INFINITY;
    product.a[5][4] = -INFINITY;
    for (int k = 0; k < PROBE_K; k++) {
        product.b[k][1] = how->bf16 ? 0x1p100f : 0x1p10f;
        product.b[k][2] = -2;
    }
    product.c[6][2] = NAN;
    product.c[7][1] = -INFINITY;
    run_products(target, &product, 1, how, &result);
    static const uint32_t nan = 0x7fffffff;
    ck_assert_uint_eq(simt_float_bits(result.d[0][0]), nan); // infinity times 0
    ck_assert(result.d[0][1] == INFINITY && result.d[0][2] == -INFINITY);
    ck_assert(result.d[1][1] == -INFINITY && result.d[1][2] == INFINITY);
    for (int n = 0; n < PROBE_N; n++) {
        ck_assert_uint_eq(simt_float_bits(result.d[2][n]), nan);
        ck_assert(result.d[8][n] == 0 && !signbit(result.d[8][n]));
    }
    ck_assert(result.d[3][1] == tiny * product.b[0][1] && result.d[3][0] == 0);
    ck_assert(result.d[4][1] == (how->bf16 ? INFINITY : 0x1p25f));
    ck_assert_uint_eq(simt_float_bits(result.d[5][1]), nan); // infinity minus infinity
    ck_assert_uint_eq(simt_float_bits(result.d[6][2]), nan);
    ck_assert(result.d[6][1] == 0 && result.d[7][1] == -INFINITY);
}

START_TEST(mma_places_of_a) {
    if (simt_test_begin(_i)) {
        each_way(simt_test_places[_i].target, check_one_hot_a);
    }
}
END_TEST

START_TEST(mma_places_of_b) {
    if (simt_test_begin(_i)) {
        each_way(simt_test_places[_i].target, check_one_hot_b);
    }
}
END_TEST

START_TEST(mma_random) {
    if (simt_test_begin(_i)) {
        each_way(simt_test_places[_i].target, check_random);
    }
}
END_TEST

START_TEST(mma_special) {
    if (simt_test_begin(_i)) {
        each_way(simt_test_places[_i].target, check_special);
    }
}
END_TEST

// ---- ldmatrix -----------------------------------------------------------------------------------

typedef struct Loaded {
    uint32_t r[PROBE_WARP][4];
} Loaded;

static void run_ldmatrix(GpuTarget target, int matrices, int transposed, Loaded *loaded) {
    static AttnStatus (*const probe[])(const LdmatrixProbeParams *, GpuStream) =
        GPU_BUILDS(simt_ldmatrix_probe);
    uint16_t rows[4][8][8];
    for (int i = 0; i < 4 * 64; i++) {
        rows[i / 64][i / 8 % 8][i % 8] = (uint16_t)(1000 + i);
    }
    uint16_t *in = simt_test_array(target, "rows", 4 * 64, 2, rows);
    uint32_t *out = simt_test_array(target, "r", (size_t)PROBE_WARP * 4, 4, NULL);
    const LdmatrixProbeParams params = {in, out, matrices, transposed};
    ck_assert_msg(probe[target](&params, NULL) == ATTN_OK, "%s", attn_last_error());
    simt_test_download(target, loaded, out, sizeof *loaded);
    gpu_free(target, in);
    gpu_free(target, out);
}

START_TEST(ldmatrix_places) {
    if (!simt_test_begin(_i)) {
        return;
    }
    for (int way = 0; way < 6; way++) {
        const int matrices = 1 << way / 2, transposed = way % 2;
        Loaded loaded;
        run_ldmatrix(simt_test_places[_i].target, matrices, transposed, &loaded);
        for (int lane = 0; lane < PROBE_WARP; lane++) {
            for (int j = 0; j < 4; j++) {
                // Its first element is at this place of the matrix, the second beside or below it.
                const int row = transposed ? lane % 4 * 2 : lane / 4;
                const int column = transposed ? lane / 4 : lane % 4 * 2;
                const uint32_t first = (uint32_t)(1000 + j * 64 + row * 8 + column);
                const uint32_t second = first + (transposed ? 8 : 1);
                const uint32_t expected = j < matrices ? first | second << 16 : UINT32_MAX;
                if (loaded.r[lane][j] != expected) {
                    ck_abort_msg("x%d, transposed %d, lane %d, r[%d]: got %08x, expected %08x",
                                 matrices, transposed, lane, j, loaded.r[lane][j], expected);
                }
            }
        }
    }
}
END_TEST

// Traced: an instruction is one request of as many wavefronts as matrices, rows 48 bytes apart.
START_TEST(ldmatrix_is_counted) {
    char why[256];
    if (!gpu_available(GPU_TRACE, why)) {
        return;
    }
    for (int matrices = 1; matrices <= 4; matrices *= 2) {
        Loaded loaded;
        simt_trace_reset();
        run_ldmatrix(GPU_TRACE, matrices, 0, &loaded);
        const SimtSharedCounts counts = simt_trace_sum_shared();
        ck_assert_uint_eq(counts.load_requests, 1);
        ck_assert_uint_eq(counts.load_wavefronts, (unsigned)matrices);
        ck_assert_uint_eq(counts.load_ideal, (unsigned)matrices);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("simt matrix");
    TCase *everywhere = tcase_create("everywhere");
    tcase_add_loop_test(everywhere, mma_places_of_a, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(everywhere, mma_places_of_b, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(everywhere, mma_random, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(everywhere, mma_special, 0, SIMT_TEST_PLACES);
    tcase_add_loop_test(everywhere, ldmatrix_places, 0, SIMT_TEST_PLACES);
    tcase_add_test(everywhere, ldmatrix_is_counted);
    tcase_set_timeout(everywhere, 60);
    suite_add_tcase(suite, everywhere);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
