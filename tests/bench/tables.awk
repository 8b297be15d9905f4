# Rewrites a page's tables from the benchmarks' CSV files; prints the page. A table stands between
# the lines "<!-- table: NAME -->" and "<!-- end of table -->"; the rest of the page is kept.
#   awk -f tables.awk part=cpu cpu.csv part=peer cpu_pytorch.csv part=page cpu.md
BEGIN {
    FS = ","
    split("untiled tiled unfused simd", kernels, " ")
}

# ---- the CSV files ------------------------------------------------------------------------------

part != "page" && FNR == 1 {
    split("", heading)
    for (i = 1; i <= NF; i++) heading[i] = $i
    next
}
part != "page" {
    n = ++rows[part]
    for (i = 1; i <= NF; i++) cell[part, n, heading[i]] = $i
}
part == "cpu" {
    at[key(get("kernel"), get("dtype"), get("batch"), get("heads_q"), get("len_q"), get("len_kv"), \
           get("dim"), get("causal"), get("window"), get("threads"))] = n
    all_threads = get("processors")
    add_threads(get("threads") + 0)
}

# Keeps threads_list, the thread counts there are, in ascending order.
function add_threads(threads,    i) {
    if (threads in seen_threads) return
    seen_threads[threads] = 1
    for (i = ++threads_count; i > 1 && threads_list[i - 1] > threads; i--) {
        threads_list[i] = threads_list[i - 1]
    }
    threads_list[i] = threads
}
function get(column) {
    return cell["cpu", n, column]
}
function key(kernel, dtype, batch, heads, len_q, len_kv, dim, causal, window, threads) {
    return kernel "," dtype "," batch "," heads "," len_q "," len_kv "," dim "," causal "," \
        window "," threads
}
# The row of one head with as many queries as keys; 0 where it was not measured or is wrong.
function square(kernel, dtype, len, dim, causal, threads,    k) {
    k = key(kernel, dtype, 1, 1, len, len, dim, causal, 0, threads)
    return k in at && cell["cpu", at[k], "check"] == "ok" ? at[k] : 0
}

# ---- numbers as text ----------------------------------------------------------------------------

function digits(x) {
    return x >= 100 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.2f", x)
}
function duration(seconds) {
    return seconds >= 1 ? digits(seconds) " s" \
         : seconds >= 1e-3 ? digits(seconds * 1e3) " ms" : digits(seconds * 1e6) " us"
}
# "12.3 ms [12.1, 12.9]": the tails in the unit of the median.
function spread(median, p10, p90,    unit) {
    unit = median >= 1 ? 1 : median >= 1e-3 ? 1e3 : 1e6
    return duration(median) " [" digits(p10 * unit) ", " digits(p90 * unit) "]"
}
function time_of(row) {
    return row ? spread(number(row, "median_s"), number(row, "p10_s"), number(row, "p90_s")) : "-"
}
function number(row, column) {
    return cell["cpu", row, column] + 0
}
function rate_of(row) {
    return row ? digits(number(row, "gflops")) : "-"
}
function share_of(row) {
    return row ? sprintf("%.0f %%", 100 * number(row, "share")) : "-"
}
function ratio_of(row, other, format) {
    return row && other ? sprintf(format, number(row, "median_s") / number(other, "median_s")) : "-"
}
function bytes_of(row,    x) {
    if (!row) return "-"
    x = number(row, "extra_bytes")
    return x >= 1048576 ? digits(x / 1048576) " MiB" : digits(x / 1024) " KiB"
}
function mask_of(row) {
    return !number(row, "causal") ? "full" : \
        number(row, "window") ? "causal, window " number(row, "window") : "causal"
}
function heads_of(row) {
    return number(row, "batch") " x " number(row, "heads_q") "/" number(row, "heads_kv")
}

# A table's heading: columns separated by "|", the first `left` of them aligned to the left.
function head(columns, left,    count, names, i) {
    count = split(columns, names, "|")
    printf "|"
    for (i = 1; i <= count; i++) printf " %s |", names[i]
    printf "\n|"
    for (i = 1; i <= count; i++) printf i <= left ? "---|" : "---:|"
    printf "\n"
}

# ---- the tables ---------------------------------------------------------------------------------

function table_machine(    i, row, threads, fma, copy) {
    row = rows["cpu"]
    for (i = 1; i <= row; i++) {
        fma[number(i, "threads")] = number(i, "fma_gflops")
        copy[number(i, "threads")] = number(i, "copy_gbs")
    }
    head("machine|" cell["cpu", row, "machine"], 2)
    print "| threads | " all_threads " |"
    print "| compiler | " cell["cpu", row, "compiler"] " |"
    print "| date | " cell["cpu", row, "date"] " |"
    for (i = 1; i <= threads_count; i++) {
        threads = threads_list[i]
        printf "| ceilings, %d thread%s | %s GFLOP/s (multiply-adds, %s), copy %s GB/s |\n", \
            threads, threads == 1 ? "" : "s", digits(fma[threads]), cell["cpu", row, "vectors"], \
            digits(copy[threads])
    }
}

function verdict(known, met) {
    return !known ? "not measured" : met ? "yes" : "no"
}

function table_targets(    dim, row, other, two, worst, i, ratio, count, wrong) {
    head("target|measured|met", 1)
    other = square("untiled", "f32", 4096, 64, 0, 1)
    row = square("simd", "f32", 4096, 64, 0, 1)
    printf "| at least 10x untiled, N=4096 d=64, one thread each | %s | %s |\n", \
        ratio_of(other, row, "%.1fx"), verdict(row && other, \
        row && other && number(other, "median_s") >= 10 * number(row, "median_s"))
    two = all_threads < 2 ? all_threads : 2
    for (dim = 64; dim <= 128; dim *= 2) {
        row = square("simd", "f32", 4096, dim, 0, two)
        printf "| at least 60 %% of the FMA ceiling on two cores, N=4096 d=%d | %s | %s |\n", dim, \
            share_of(row), verdict(row && two == 2, row && number(row, "share") >= 0.6)
    }
    for (dim = 64; dim <= 128; dim *= 2) {
        row = square("simd", "f32", 4096, dim, 1, all_threads)
        other = square("simd", "f32", 4096, dim, 0, all_threads)
        printf "| causal at most 0.58 of the full time, N=4096 d=%d | %s | %s |\n", dim, \
            ratio_of(row, other, "%.2f"), verdict(row && other, \
            row && other && number(row, "median_s") <= 0.58 * number(other, "median_s"))
    }
    for (i = 1; i <= rows["peer"]; i++) {
        ratio = cell["peer", i, "time_ratio"] + 0
        if (cell["peer", i, "dtype"] == "f32") {
            count++
            wrong += cell["peer", i, "check"] != "ok"
            worst = ratio > worst ? ratio : worst
        }
    }
    printf "| not slower than PyTorch in f32, the worst of all points below | %s | %s |\n", \
        count ? sprintf("%.2f of its time", worst) : "-", verdict(count, !wrong && worst <= 1)
}

function ladder_row(len, dim, kernel, threads,    full, causal, base) {
    full = square(kernel, "f32", len, dim, 0, threads)
    causal = square(kernel, "f32", len, dim, 1, threads)
    base = square("untiled", "f32", len, dim, 0, 1)
    if (full) {
        printf "| %d | %s | %d | %s | %s | %s | %s | %s | %s | %s |\n", len, kernel, threads, \
            time_of(full), rate_of(full), share_of(full), ratio_of(base, full, "%.1fx"), \
            time_of(causal), ratio_of(causal, full, "%.2f"), bytes_of(full)
    }
}
function table_ladder(dim,    len, k) {
    head("N|kernel|threads|full|GFLOP/s|of ceiling|speed|causal|causal/full|extra memory", 2)
    for (len = 512; len <= 4096; len *= 2) {
        if (square("untiled", "f32", len, dim, 0, 1) == 0) continue
        for (k = 1; k <= 4; k++) ladder_row(len, dim, kernels[k], 1)
        if (all_threads > 1) ladder_row(len, dim, "simd", all_threads)
    }
}

function table_lengths(    dim, len, full, causal) {
    head("d|N|full|GFLOP/s|of ceiling|causal|GFLOP/s|of ceiling|causal/full", 0)
    for (dim = 64; dim <= 128; dim *= 2) {
        for (len = 512; len <= 8192; len *= 2) {
            full = square("simd", "f32", len, dim, 0, all_threads)
            causal = square("simd", "f32", len, dim, 1, all_threads)
            if (full) {
                printf "| %d | %d | %s | %s | %s | %s | %s | %s | %s |\n", dim, len, \
                    time_of(full), rate_of(full), share_of(full), time_of(causal), \
                    rate_of(causal), share_of(causal), ratio_of(causal, full, "%.2f")
            }
        }
    }
}

function table_threads(    i, dim, row, base) {
    head("d|threads|time|GFLOP/s|of ceiling|speed-up|per thread", 0)
    for (dim = 64; dim <= 128; dim *= 2) {
        base = square("simd", "f32", 4096, dim, 0, 1)
        for (i = 1; i <= threads_count; i++) {
            row = square("simd", "f32", 4096, dim, 0, threads_list[i])
            if (row) {
                printf "| %d | %d | %s | %s | %s | %s | %s |\n", dim, threads_list[i], \
                    time_of(row), rate_of(row), share_of(row), ratio_of(base, row, "%.2fx"), \
                    base ? sprintf("%.0f %%", 100 * number(base, "median_s") / \
                                   number(row, "median_s") / threads_list[i]) : "-"
            }
        }
    }
}

function table_types(    dim, i, types, row, base) {
    split("f32 f16 bf16", types, " ")
    head("d|type|time|GFLOP/s|of ceiling|time / f32", 0)
    for (dim = 64; dim <= 128; dim *= 2) {
        base = square("simd", "f32", 4096, dim, 0, all_threads)
        for (i = 1; i <= 3; i++) {
            row = square("simd", types[i], 4096, dim, 0, all_threads)
            printf "| %d | %s | %s | %s | %s | %s |\n", dim, types[i], time_of(row), rate_of(row), \
                share_of(row), ratio_of(row, base, "%.2f")
        }
    }
}

function note_of(row) {
    return cell["cpu", row, "check"] == "ok" ? share_of(row) : cell["cpu", row, "check"]
}
function table_decode(    i) {
    head("batch x heads/KV heads|S|d|type|threads|time|GB/s|of ceiling|bound|extra memory", 1)
    for (i = 1; i <= rows["cpu"]; i++) {
        if (cell["cpu", i, "phase"] == "decode") {
            printf "| %s | %d | %d | %s | %d | %s | %s | %s | %s | %s |\n", heads_of(i), \
                number(i, "len_kv"), number(i, "dim"), cell["cpu", i, "dtype"], \
                number(i, "threads"), time_of(i), digits(number(i, "gbs")), note_of(i), \
                cell["cpu", i, "bound"], bytes_of(i)
        }
    }
}
function table_shapes(    i) {
    head("batch x heads/KV heads|T|S|d|mask|time|GFLOP/s|of ceiling|extra memory", 1)
    for (i = 1; i <= rows["cpu"]; i++) {
        if (cell["cpu", i, "phase"] == "prefill" && \
            (number(i, "heads_q") > 1 || number(i, "window") > 0)) {
            printf "| %s | %d | %d | %d | %s | %s | %s | %s | %s |\n", heads_of(i), \
                number(i, "len_q"), number(i, "len_kv"), number(i, "dim"), mask_of(i), \
                time_of(i), rate_of(i), note_of(i), bytes_of(i)
        }
    }
}

function peer(row, column) {
    return cell["peer", row, column]
}
function table_pytorch(    i, last) {
    last = rows["peer"]
    printf "%s, PyTorch %s, OpenMP %s, %s. Heads: %d.\n\n", peer(last, "machine"), \
        peer(last, "torch"), peer(last, "openmp"), peer(last, "date"), peer(last, "heads")
    head("threads|type|T|S|d|mask|ours|PyTorch|its kernel|time, ours / PyTorch", 2)
    for (i = 1; i <= last; i++) {
        printf "| %d | %s | %d | %d | %d | %s | %s | %s | %s | %s |\n", peer(i, "threads"), \
            peer(i, "dtype"), peer(i, "len_q"), peer(i, "len_kv"), peer(i, "dim"), \
            peer(i, "causal") + 0 ? "causal" : "full", \
            spread(peer(i, "ours_s") + 0, peer(i, "ours_p10") + 0, peer(i, "ours_p90") + 0), \
            spread(peer(i, "torch_s") + 0, peer(i, "torch_p10") + 0, peer(i, "torch_p90") + 0), \
            peer(i, "peer"), peer(i, "check") == "ok" ? sprintf("%.2f", peer(i, "time_ratio")) \
                                                     : "WRONG"
    }
}

function table(name) {
    if (name == "pytorch" && !rows["peer"] || name != "pytorch" && !rows["cpu"]) {
        print "Not measured yet."
    } else if (name == "machine") table_machine()
    else if (name == "targets") table_targets()
    else if (name == "ladder64") table_ladder(64)
    else if (name == "ladder128") table_ladder(128)
    else if (name == "lengths") table_lengths()
    else if (name == "threads") table_threads()
    else if (name == "types") table_types()
    else if (name == "decode") table_decode()
    else if (name == "shapes") table_shapes()
    else if (name == "pytorch") table_pytorch()
    else fail("no table is named " name)
}

# ---- the page -----------------------------------------------------------------------------------

function fail(message) {
    print "tables.awk: line " FNR ": " message >"/dev/stderr"
    failed = 1
    exit 1
}
part == "page" && /^<!-- table: [a-z0-9]+ -->$/ {
    if (inside) fail("a table within a table")
    inside = 1
    print
    print ""
    name = $0
    sub(/^<!-- table: /, "", name)
    sub(/ -->$/, "", name)
    table(name)
    print ""
    next
}
part == "page" && /^<!-- end of table -->$/ {
    if (!inside) fail("the end of no table")
    inside = 0
}
part == "page" && !inside { print }
END {
    if (inside && !failed) fail("a table without an end")
}
