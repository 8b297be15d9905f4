# Rewrites the tables of h200.md from the CSV files of tests/peers; prints the page. A table stands
# between the lines "<!-- table: NAME -->" and "<!-- end of table -->"; the rest of the page is kept.
#   awk -f h200.awk part=ch05 h200_ch05.csv part=ch06 h200_ch06.csv part=ch07 h200_ch07.csv \
#       part=ch08 h200_ch08.csv part=ch09 h200_ch09.csv part=page h200.md
BEGIN {
    FS = ","
    rungs = split("naive_three_kernels fused_thread_per_row fused_keys_outside fused_tiled " \
                  "fused_register_tiled EFFICIENT MATH", fused, " ")
    decoders = split("decode split_kv_unfused split_kv split_kv_fused FLASH CUDNN", decode, " ")
    groupers = split("gqa_naive gqa gqa_mma FLASH CUDNN", group, " ")
}

# ---- the CSV files ------------------------------------------------------------------------------

part != "page" && FNR == 1 {
    split("", heading)
    for (i = 1; i <= NF; i++) heading[i] = $i
    next
}
part != "page" {
    split("", row)
    for (i = 1; i <= NF; i++) row[heading[i]] = $i
    wrong = row["check"] !~ /^(ok|peer|ceiling|timed only)$/
}
part == "ch05" && !wrong {
    add(fives, row["dim"] "," row["n"])
    ms[row["dim"] "," row["n"], row["rung"]] = row["median_ms"]
    rate[row["dim"] "," row["n"], row["rung"]] = row["tflops"]
    ratio[row["dim"] "," row["n"], row["rung"]] = row["ratio_to_efficient"]
}
part == "ch06" && !wrong {
    problem = row["batch"] " x " count(row["keys"]) ", " row["heads"] " heads, d = " row["dim"]
    cache = row["batch"] * row["keys"] * row["heads"] * row["dim"] * 4
    if (row["kernel"] == "read_rate") ceiling = row["tb_s"]
    else add_problem(row["case"], problem)
    bytes[problem] = cache
    us[row["case"], problem, row["kernel"]] = row["median_us"]
    low[row["case"], problem, row["kernel"]] = row["p10_us"]
    high[row["case"], problem, row["kernel"]] = row["p90_us"]
    tb[row["case"], problem, row["kernel"]] = row["tb_s"]
    share[row["case"], problem, row["kernel"]] = row["of_read_ceiling"]
    if (row["kernel"] == "split_kv_fused") chosen[row["case"], problem] = row["splits"]
    if (row["case"] == "splits") {
        add(parts, row["splits"])
        by_parts[problem, row["splits"]] = row["median_us"]
    }
}
part == "ch07" && !wrong {
    at = row["dim"] "," row["len_q"]
    name = row["kernel"] "," row["case"] (row["case"] == "sparse" ? "," row["density"] : "")
    add(sevens, at)
    if (row["case"] == "sparse") add(densities, row["density"])
    masked[at, name] = row["median_ms"]
    masked_rate[at, name] = row["tflops"]
    of_full[at, name] = row["of_full"]
    heads_of[at] = row["heads"]
    window_of[at] = row["window"] > 0 ? row["window"] : window_of[at]
}

part == "ch08" && !wrong {
    problem = row["batch"] " x " count(row["keys"]) ", " row["heads_q"] "/" row["heads_kv"] ", " \
              row["len_q"] ", " row["dim"]
    add_problem("gqa", problem)
    us["gqa", problem, row["kernel"]] = row["median_us"]
    if (row["kernel"] == "gqa_mma") {
        chosen["gqa", problem] = row["splits"]
        tb["gqa", problem, "gqa_mma"] = row["tb_s"]
        share["gqa", problem, "gqa_mma"] = row["of_read_ceiling"]
    }
}
part == "ch09" && !wrong && row["case"] == "pages" {
    at = row["order"] == "contiguous" ? "contiguous" : row["page"]
    sub(/^gqa/, "paged", row["kernel"]) # the contiguous cache is chapter 8's kernels'
    add(page_sizes, at)
    paged[at, row["order"], row["kernel"]] = row["median_us"]
    paged_rate[at, row["order"], row["kernel"]] = row["tb_s"]
}
part == "ch09" && !wrong && row["case"] != "pages" {
    length_rate[row["case"]] = row["tb_s"]
    length_time[row["case"]] = row["median_us"]
    longest[row["case"]] = row["keys"]
}

# Adds a value to a list, list[1 .. list[0]], once.
function add(list, value,    i) {
    for (i = 1; i <= list[0]; i++) if (list[i] == value) return
    list[++list[0]] = value
}
function add_problem(which, problem,    i) {
    for (i = 1; i <= problems[which, 0]; i++) if (problems[which, i] == problem) return
    problems[which, ++problems[which, 0]] = problem
}

# ---- numbers as text ----------------------------------------------------------------------------

function count(x,    text, head) {
    text = sprintf("%d", x)
    for (head = ""; length(text) > 3; text = substr(text, 1, length(text) - 3)) {
        head = "," substr(text, length(text) - 2) head
    }
    return text head
}
function digits(x) {
    return x >= 100 ? sprintf("%.0f", x) : x >= 10 ? sprintf("%.1f", x) : sprintf("%.2f", x)
}
function or_dash(x, format) {
    return x == "" ? "-" : sprintf(format, x)
}

# ---- the tables ---------------------------------------------------------------------------------

function table_ch05(    i, r, at) {
    print "| d | N | naive | thread per row | keys outside | tiled | register tiled | EFFICIENT |" \
          " MATH | register tiled, ratio |"
    print "|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= fives[0]; i++) {
        split(fives[i], at, ",")
        printf "| %s | %s |", at[1], count(at[2])
        for (r = 1; r <= rungs; r++) {
            printf " %.2f ms, %.1f |", ms[fives[i], fused[r]], rate[fives[i], fused[r]]
        }
        printf " %.2f |\n", ratio[fives[i], "fused_register_tiled"]
    }
}
function table_decode(which,    i, r, p, best) {
    print "| batch x keys | MiB | splits | unsplit | unfused | split | split, fused | FLASH | CUDNN" \
          " | fused: TB/s | of the ceiling | of the faster backend |"
    print "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= problems[which, 0]; i++) {
        p = problems[which, i]
        printf "| %s | %s | %s |", p, digits(bytes[p] / 2^20), chosen[which, p]
        best = 0
        for (r = 1; r <= decoders; r++) {
            printf " %s |", us[which, p, decode[r]] == "" ? "-" : digits(us[which, p, decode[r]])
            if (r > 4 && us[which, p, decode[r]] != "" && \
                (best == 0 || us[which, p, decode[r]] + 0 < best)) {
                best = us[which, p, decode[r]] + 0
            }
        }
        printf " %.2f | %.0f %% | %s |\n", tb[which, p, "split_kv_fused"], \
               100 * share[which, p, "split_kv_fused"], \
               best ? sprintf("%.2f", best / us[which, p, "split_kv_fused"]) : "-"
    }
}
function table_splits(    i, s, time, swap) {
    for (i = 2; i <= parts[0]; i++) { # ascending
        for (s = i; s > 1 && parts[s - 1] + 0 > parts[s] + 0; s--) {
            swap = parts[s]
            parts[s] = parts[s - 1]
            parts[s - 1] = swap
        }
    }
    printf "| microseconds |"
    for (s = 1; s <= parts[0]; s++) printf " %s |", parts[s]
    printf "\n|---|"
    for (s = 1; s <= parts[0]; s++) printf "---|"
    printf "\n"
    for (i = 1; i <= problems["splits", 0]; i++) {
        printf "| %s |", problems["splits", i]
        for (s = 1; s <= parts[0]; s++) {
            time = by_parts[problems["splits", i], parts[s]]
            printf " %s |", time == "" ? "" : digits(time)
        }
        printf "\n"
    }
}
function table_ragged(    w, i, p, which) {
    print "| batch of 64 | keys of an entry | splits | time | TB/s | of the ceiling |"
    print "|---|---|---|---|---|---|"
    split("equal ragged", which, " ")
    for (w = 1; w <= 2; w++) {
        for (i = 1; i <= problems[which[w], 0]; i++) {
            p = problems[which[w], i]
            printf "| %s | %s | %s | %s us | %.2f | %.0f %% |\n", which[w], p, chosen[which[w], p],
                   digits(us[which[w], p, "split_kv_fused"]), tb[which[w], p, "split_kv_fused"],
                   100 * share[which[w], p, "split_kv_fused"]
        }
    }
}
function of(at, name) {
    return masked[at, name] == "" ? "-" : sprintf("%s ms, %.3f", digits(masked[at, name]),
                                                  of_full[at, name])
}
function table_causal(    i, at, part) {
    print "| d | N | full | causal | every score asked | every tile visited | FLASH, causal | CUDNN," \
          " causal |"
    print "|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= sevens[0]; i++) {
        at = sevens[i]
        split(at, part, ",")
        printf "| %s | %s | %s ms, %s TFLOP/s | %s | %s | %s | %s | %s |\n", part[1], count(part[2]),
               digits(masked[at, "causal_attention,full"]),
               digits(masked_rate[at, "causal_attention,full"]),
               of(at, "causal_attention,causal"), of(at, "causal_attention,every_score"),
               of(at, "causal_attention,every_tile"), of(at, "FLASH,causal"), of(at, "CUDNN,causal")
    }
}
function table_window(    i, at, part) {
    print "| d | N | window | time | of full | ns for each query of a head |"
    print "|---|---|---|---|---|---|"
    for (i = 1; i <= sevens[0]; i++) {
        at = sevens[i]
        if (masked[at, "causal_attention,window"] == "") continue
        split(at, part, ",")
        printf "| %s | %s | %s | %s ms | %.3f | %.1f |\n", part[1], count(part[2]),
               count(window_of[at]), digits(masked[at, "causal_attention,window"]),
               of_full[at, "causal_attention,window"],
               1e6 * masked[at, "causal_attention,window"] / part[2] / heads_of[at]
    }
}
function table_sparse(    i, s, at, part) {
    printf "| d | N | causal |"
    for (s = 1; s <= densities[0]; s++) printf " %.0f %% |", 100 * densities[s]
    printf "\n|---|---|---|"
    for (s = 1; s <= densities[0]; s++) printf "---|"
    printf "\n"
    for (i = 1; i <= sevens[0]; i++) {
        at = sevens[i]
        if (masked[at, "block_sparse_attention,sparse," densities[1]] == "") continue
        split(at, part, ",")
        printf "| %s | %s | %s ms |", part[1], count(part[2]),
               digits(masked[at, "causal_attention,causal"])
        for (s = 1; s <= densities[0]; s++) {
            printf " %s ms |", digits(masked[at, "block_sparse_attention,sparse," densities[s]])
        }
        printf "\n"
    }
}

function table_gqa(    i, r, p, best) {
    print "| batch x keys, heads, T, d | splits | gqa_naive | gqa | gqa_mma | FLASH | CUDNN" \
          " | gqa_mma: TB/s | of the ceiling | of the faster backend | of gqa_naive |"
    print "|---|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= problems["gqa", 0]; i++) {
        p = problems["gqa", i]
        printf "| %s | %s |", p, chosen["gqa", p]
        best = 0
        for (r = 1; r <= groupers; r++) {
            printf " %s |", or_dash(us["gqa", p, group[r]], "%.1f")
            if (r > 3 && us["gqa", p, group[r]] != "" && \
                (best == 0 || us["gqa", p, group[r]] + 0 < best)) {
                best = us["gqa", p, group[r]] + 0
            }
        }
        printf " %.2f | %.0f %% | %s | %.2f |\n", tb["gqa", p, "gqa_mma"], \
               100 * share["gqa", p, "gqa_mma"], \
               best ? sprintf("%.3f", best / us["gqa", p, "gqa_mma"]) : "-",
               us["gqa", p, "gqa_naive"] / us["gqa", p, "gqa_mma"]
    }
}
function over(at, order, kernel) {
    return paged[at, order, kernel] == "" ? "-" : \
           sprintf("%.1f, %.3f", paged[at, order, kernel],
                   paged[at, order, kernel] / paged["contiguous", "contiguous", kernel])
}
function table_pages(    i, at) {
    print "| page | paged, ordered | shuffled | paged_mma, ordered | shuffled | TB/s, shuffled |"
    print "|---|---|---|---|---|---|"
    printf "| contiguous (gqa, gqa_mma) | %.1f | - | %.1f | - | %.2f |\n",
           paged["contiguous", "contiguous", "paged"],
           paged["contiguous", "contiguous", "paged_mma"],
           paged_rate["contiguous", "contiguous", "paged_mma"]
    for (i = 1; i <= page_sizes[0]; i++) {
        at = page_sizes[i]
        if (at == "contiguous") continue
        printf "| %s | %s | %s | %s | %s | %.2f |\n", at, over(at, "ordered", "paged"),
               over(at, "shuffled", "paged"), over(at, "ordered", "paged_mma"),
               over(at, "shuffled", "paged_mma"), paged_rate[at, "shuffled", "paged_mma"]
    }
}
function table_lengths() {
    print "| 64 sequences | longest | time | TB/s | of equal lengths |"
    print "|---|---|---|---|---|"
    printf "| equal lengths | %s | %s us | %.2f | 1 |\n", count(longest["equal"]),
           digits(length_time["equal"]), length_rate["equal"]
    printf "| 1 to 16,384 | %s | %s us | %.2f | %.2f |\n", count(longest["mixed"]),
           digits(length_time["mixed"]), length_rate["mixed"],
           length_rate["mixed"] / length_rate["equal"]
}

part == "page" && /^<!-- table: [a-z0-9_]+ -->$/ {
    print
    if ($0 ~ /: ch05 /) table_ch05()
    else if ($0 ~ /: decode /) table_decode("compare")
    else if ($0 ~ /: decode_calls /) table_decode("compare_calls")
    else if ($0 ~ /: splits /) table_splits()
    else if ($0 ~ /: ragged /) table_ragged()
    else if ($0 ~ /: causal /) table_causal()
    else if ($0 ~ /: window /) table_window()
    else if ($0 ~ /: sparse /) table_sparse()
    else if ($0 ~ /: gqa /) table_gqa()
    else if ($0 ~ /: pages /) table_pages()
    else if ($0 ~ /: lengths /) table_lengths()
    else {
        print "h200.awk: " $0 ": no such table" >"/dev/stderr"
        exit 1
    }
    skipping = 1
}
part == "page" && /^<!-- end of table -->$/ {
    skipping = 0
}
part == "page" && !skipping {
    if ($0 !~ /^<!-- table: /) print
}
