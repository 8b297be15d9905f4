# Reads a kernel file's PTX and ptxas's report, both demangled, and prints one CSV row a kernel:
# file,kernel,arch,registers,static_shared,dynamic_shared,stack,spill_stores,spill_loads,threads,
# blocks,occupancy,limit. Variables: file, arch ("90a"), dynamic ("kernel=bytes ...").

function bare(name) { # "fused(Params)" to "fused"
    sub(/\(anonymous namespace\)::/, "", name)
    sub(/\(.*/, "", name)
    return name
}

function up(value, unit) {
    return int((value + unit - 1) / unit) * unit
}

function number_before(line, word,    at) {
    at = match(line, "[0-9]+ " word)
    return at ? substr(line, at) + 0 : 0
}

# Threads, blocks and KB of shared memory that a multiprocessor of the architecture holds at most.
BEGIN {
    split("80 2048 32 164  86 1536 16 100  89 1536 24 100  90 2048 32 228 " \
          "100 2048 32 228  120 1536 24 100", figures, " ")
    for (i = 1; figures[i] != ""; i += 4) {
        sm_threads[figures[i]] = figures[i + 1]
        sm_blocks[figures[i]] = figures[i + 2]
        sm_shared[figures[i]] = 1024 * figures[i + 3]
    }
    n = split(dynamic, pairs, " ")
    for (i = 1; i <= n; i++) {
        split(pairs[i], pair, "=")
        dynamic_bytes[pair[1]] = pair[2]
    }
    sm = arch + 0
}

# The PTX: .entry name(...) and further on .maxntid n
/\.entry / {
    entry = $0
    sub(/.*\.entry /, "", entry)
    entry = bare(entry)
}
/^\.maxntid/ {
    gsub(/[^0-9 ]/, " ")
    $0 = $0 # the numbers as fields: x, and y and z where they are not 1
    threads[entry] = $1 * ($2 == "" ? 1 : $2) * ($3 == "" ? 1 : $3)
}

# The report.
/Compiling entry function/ {
    split($0, quoted, "'")
    kernel = bare(quoted[2])
    stack = stores = loads = 0
}
/Function properties for/ {
    of = $0
    sub(/.*Function properties for /, "", of)
    of = bare(of)
}
/bytes stack frame/ && of == kernel {
    stack = number_before($0, "bytes stack frame")
    stores = number_before($0, "bytes spill stores")
    loads = number_before($0, "bytes spill loads")
}
/: Used [0-9]+ registers/ {
    registers = number_before($0, "registers")
    shared = number_before($0, "bytes smem")
    print row()
}

# The occupancy as in gpu_occupancy.c, blank where the block's threads or the device are not known.
function row(    warps, limit, blocks, by, share, partition, extra) {
    extra = dynamic_bytes[kernel] + 0
    if (threads[kernel] > 0 && sm in sm_threads) {
        warps = up(threads[kernel], 32) / 32
        limit["threads"] = int(sm_threads[sm] / 32 / warps)
        partition = int(16384 / up(32 * (registers > 0 ? registers : 1), 256))
        limit["registers"] = int(4 * partition / warps)
        limit["shared memory"] = int(sm_shared[sm] / up(shared + extra + 1024, 128))
        limit["blocks"] = sm_blocks[sm]
        n = split("threads,registers,shared memory,blocks", order, ",")
        blocks = limit[order[1]]
        by = order[1]
        for (i = 2; i <= n; i++) {
            if (limit[order[i]] < blocks) {
                blocks = limit[order[i]]
                by = order[i]
            }
        }
        share = sprintf("%.4f", 32 * warps * blocks / sm_threads[sm])
    }
    return file "," kernel "," arch "," registers "," shared "," extra "," stack "," stores "," \
           loads "," threads[kernel] "," blocks "," share "," by
}
