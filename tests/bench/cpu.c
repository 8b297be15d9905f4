// The CPU benchmark (make bench): the kernels of chapter 4 over the shape space, one CSV row a
// point. docs/benchmarks/README.md says how it measures and what the columns are.
//
//   build/bench_cpu [--quick] FILE.csv
#include "common/ceilings.h"
#include "common/report.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

enum { MAX_THREADS = 1024 };

// The best of both figures that were measured with a thread count, before and after the points.
static Ceilings ceilings[MAX_THREADS + 1];

static void measure_ceilings(int threads) {
    const Ceilings now = ceilings_measure(threads);
    Ceilings *best = &ceilings[threads];
    best->vector_unit = now.vector_unit;
    best->fma_flops_per_s = fmax(best->fma_flops_per_s, now.fma_flops_per_s);
    best->copy_bytes_per_s = fmax(best->copy_bytes_per_s, now.copy_bytes_per_s);
}

static void measure_all_ceilings(const Point *points, int count) {
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        bool used = false;
        for (int i = 0; i < count && !used; i++) {
            used = points[i].threads == threads;
        }
        if (used) {
            measure_ceilings(threads);
        }
    }
}

// The processor's name from /proc/cpuinfo, without commas; no other line of that file is read out.
static void read_machine(char *name, size_t room) {
    snprintf(name, room, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon != NULL && strncmp(line, "model name", strlen("model name")) == 0) {
            snprintf(name, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == ',' ? ' ' : *c;
    }
}

static int processors(void) {
#ifdef _OPENMP
    return omp_get_max_threads() < MAX_THREADS ? omp_get_max_threads() : MAX_THREADS;
#else
    return 1;
#endif
}

static void print_point(const Point *point, const Measured *measured) {
    const AttnShape *s = &point->shape;
    char shape[96], time[32];
    snprintf(shape, sizeof(shape), "%lldx%lld/%lld T=%lld S=%lld d=%lld%s%s", (long long)s->batch,
             (long long)s->heads_q, (long long)s->heads_kv, (long long)s->len_q,
             (long long)s->len_kv, (long long)s->dim, s->causal ? " causal" : "",
             s->window > 0 ? " window" : "");
    printf("  %-7s %-4s %3d thr  %-40s %9s %8.1f GFLOP/s%s\n", bench_kernel_name(point->kernel),
           dtype_name(point->dtype), point->threads, shape,
           format_seconds(time, measured->seconds.median),
           measured->flops / measured->seconds.median / 1e9, measured->right ? "" : "  WRONG");
    if (!measured->right) {
        printf("    %s\n", measured->message);
    }
    fflush(stdout);
}

static const char HEADING[] =
    "machine,compiler,date,processors,vectors,kernel,phase,dtype,batch,heads_q,heads_kv,len_q,"
    "len_kv,dim,causal,window,threads,runs,median_s,p10_s,p90_s,gflops,gbs,bound,share,"
    "fma_gflops,copy_gbs,extra_bytes,check";

// One row. The share is that of the roofline: FMA where arithmetic bounds, copy where memory does.
static void write_point(FILE *csv, const char *machine, const char *date, const Point *point,
                        const Measured *measured) {
    const AttnShape *s = &point->shape;
    const Ceilings *ceiling = &ceilings[point->threads];
    const double seconds = measured->seconds.median, rate = measured->flops / seconds;
    const double roof = ceilings_roofline(ceiling, measured->flops / measured->bytes);
    const char *check = !measured->right                 ? "wrong"
                        : !rate_is_plausible(rate, roof) ? "above_ceiling"
                                                         : "ok";
    csv_row(csv,
            "%s,%s,%s,%d,%s,%s,%s,%s,%lld,%lld,%lld,%lld,%lld,%lld,%d,%lld,%d,%d,%.6g,%.6g,%.6g,"
            "%.4g,%.4g,%s,%.4f,%.4g,%.4g,%zu,%s",
            machine, COMPILER, date, processors(), ceiling->vector_unit,
            bench_kernel_name(point->kernel), s->len_q == 1 ? "decode" : "prefill",
            dtype_name(point->dtype), (long long)s->batch, (long long)s->heads_q,
            (long long)s->heads_kv, (long long)s->len_q, (long long)s->len_kv, (long long)s->dim,
            s->causal, (long long)s->window, point->threads, measured->seconds.runs, seconds,
            measured->seconds.p10, measured->seconds.p90, rate / 1e9,
            measured->bytes / seconds / 1e9, roof < ceiling->fma_flops_per_s ? "copy" : "fma",
            rate / roof, ceiling->fma_flops_per_s / 1e9, ceiling->copy_bytes_per_s / 1e9,
            measured->workspace, check);
}

static void require(AttnStatus status) {
    if (status != ATTN_OK) {
        fprintf(stderr, "bench: %s\n", attn_last_error());
        exit(2);
    }
}

// Ends the program before anything is measured if the file could not be written afterwards.
static void require_writable(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    if (access(access(path, F_OK) == 0 ? path : folder, W_OK) != 0) {
        fprintf(stderr, "bench: %s: cannot be written\n", path);
        exit(2);
    }
}

int main(int argc, char **argv) {
    const bool quick = argc == 3 && strcmp(argv[1], "--quick") == 0;
    if (argc != (quick ? 3 : 2) || argv[argc - 1][0] == '-') {
        fprintf(stderr, "usage: bench_cpu [--quick] FILE.csv\n");
        return 2;
    }
    const char *path = argv[argc - 1];
    require_writable(path);
    static Point points[MAX_POINTS];
    static Measured measured[MAX_POINTS];
    const int count = bench_points(points, processors(), quick);
    char machine[128], date[16];
    const time_t now = time(NULL);
    read_machine(machine, sizeof(machine));
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime(&now));
    printf("%s, %d threads, %s\n%d points: kernel, batch x heads / KV heads, median\n", machine,
           processors(), COMPILER, count);
    const double start = timer_now();
    measure_all_ceilings(points, count);
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        require(bench_measure(&points[i], quick, &measured[i]));
        wrong += !measured[i].right;
        print_point(&points[i], &measured[i]);
    }
    measure_all_ceilings(points, count);
    FILE *csv = NULL; // opened at the end: an interrupted run leaves the old figures
    require(csv_open(&csv, path, HEADING));
    for (int i = 0; i < count; i++) {
        write_point(csv, machine, date, &points[i], &measured[i]);
    }
    require(csv_close(csv));
    printf("%s written: %d points, %d wrong, %.0f s\n", path, count, wrong, timer_now() - start);
    return wrong == 0 ? 0 : 1;
}
