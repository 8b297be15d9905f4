#!/bin/sh
# What every CUDA kernel of the lessons needs of a multiprocessor, from the compiler's own report
# (ptxas -v): registers, shared memory, spills, and the occupancy that follows.
#   tests/resources.sh [--no-spills KERNEL...] [--dynamic KERNEL=BYTES...] [FILE.cu...]
# --no-spills: exit 1 when a named kernel spills on any architecture, or there is none of that name.
# --dynamic: dynamic shared memory of a launch, which the compiler cannot know.
# Environment: NVCC, NVCC_FLAGS (-gencode options are left out), CUDA_ARCHS ("80 90a"), BUILD. The
# rows go to $BUILD/resources.csv as well.
set -eu
BUILD=${BUILD:-build}
NVCC=${NVCC-$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)}
CUDA_ARCHS=${CUDA_ARCHS:-80 90a}
flags=$(printf '%s' "${NVCC_FLAGS:--std=c++17 -I. -O3 -lineinfo --expt-relaxed-constexpr}" |
    sed 's/-gencode  *[^ ]*//g')

files='' clean='' dynamic='' option=''
for argument; do
    case $argument in
    --no-spills | --dynamic) option=$argument ;;
    -*) echo "resources.sh: $argument: no such option" >&2; exit 2 ;;
    *.cu) files="$files $argument" ;;
    *=*) [ "$option" = --dynamic ] || { echo "resources.sh: $argument: for --dynamic" >&2; exit 2; }
        dynamic="$dynamic $argument" ;;
    *) [ "$option" = --no-spills ] || { echo "resources.sh: $argument: no .cu file" >&2; exit 2; }
        clean="$clean $argument" ;;
    esac
done
if [ -z "$NVCC" ]; then
    echo 'no nvcc here: the registers, shared memory and spills of the kernels are not known'
    exit 0
fi
if [ -z "$files" ]; then
    files=$(ls chapters/*/*.cu 2>/dev/null) || {
        echo 'no chapter here has a CUDA kernel'
        exit 0
    }
    files="$files $(find common -name '*.cu' ! -name gpu_cuda.cu 2>/dev/null)"
fi
demangle='cat'
if command -v c++filt >/dev/null; then demangle=c++filt; fi

# The report of one file for one architecture, made anew when its object is newer. The PTX is kept
# since only it says how many threads a kernel's launch bounds allow.
report() { # file arch report
    ptx=${3%.txt}.ptx
    object=$BUILD/obj/${1%.cu}.cuda.o
    if [ -e "$object" ] && [ -n "$(find "$3" -newer "$object" 2>/dev/null)" ]; then return; fi
    mkdir -p "$(dirname "$3")"
    rm -f "$3"
    # Unquoted: flags are words.
    if "$NVCC" $flags -arch="sm_$2" -ptx -o "$ptx" "$1" >"$3.now" 2>&1 &&
        "$NVCC" -lineinfo -arch="sm_$2" -cubin -Xptxas -v -o /dev/null "$ptx" >"$3.now" 2>&1; then
        mv "$3.now" "$3"
    else
        cat "$3.now" >&2
        echo "resources.sh: $1 does not compile for sm_$2" >&2
        exit 1
    fi
}

for file in $files; do
    for arch in $CUDA_ARCHS; do
        report "$file" "$arch" "$BUILD/resources/${file%.cu}.sm_$arch.txt"
    done
done
rows=$BUILD/resources.csv
{
    printf '%s,' file kernel arch registers static_shared dynamic_shared stack spill_stores
    echo spill_loads,threads,blocks,occupancy,limit
    for file in $files; do
        for arch in $CUDA_ARCHS; do
            text=$BUILD/resources/${file%.cu}.sm_$arch
            cat "$text.ptx" "$text.txt" | $demangle |
                awk -v file="$file" -v arch="$arch" -v dynamic="$dynamic" -f tests/resources.awk
        done
    done | sort -t, -k1,1 -k2,2 -k3,3
} >"$rows"

awk -F, -v clean="$clean" '
    NR == 1 { next }
    $1 != file {
        file = $1
        printf "%s%s\n", (NR > 2 ? "\n" : ""), file
        printf "  %-30s %-6s %4s %9s %9s %7s %6s  %s\n", "kernel", "arch", "regs", "shared B",
               "spills B", "threads", "blk/SM", "occupancy"
    }
    {
        shared = $5 ($6 > 0 ? "+" $6 : "")
        spills = $8 + $9 > 0 ? $8 "+" $9 : "0"
        limit = $13 == "" ? "-" : sprintf("%.0f %%, %s", 100 * $12, $13)
        printf "  %-30s %-6s %4d %9s %9s %7s %6s  %s\n", $2, "sm_" $3, $4, shared,
               spills, ($10 == "" ? "-" : $10), ($11 == "" ? "-" : $11), limit
        seen[$2] = 1
        if ($8 + $9 > 0) spilt[$2] = spilt[$2] " sm_" $3
    }
    END {
        print "\nshared B: static, +dynamic where given; spills B: stored+loaded by a thread;"
        print "threads: of a block, by its launch bounds; blk/SM: blocks that fit on an SM;"
        print "occupancy: threads that live on an SM of those it could hold, and what limits them."
        n = split(clean, names, " ")
        for (i = 1; i <= n; i++) {
            result = names[i] ": no spills"
            if (!(names[i] in seen)) result = "FAILED: no kernel is named " names[i]
            else if (names[i] in spilt) result = "FAILED: " names[i] " spills on" spilt[names[i]]
            bad = bad || result ~ /^FAILED/
            print result
        }
        exit bad
    }' "$rows"
