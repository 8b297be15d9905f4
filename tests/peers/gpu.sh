#!/bin/sh
# Everything that needs a GPU, in one call: the unit tests on cuda, compute-sanitizer's memcheck and
# racecheck, the trace beside the GPU's counters, the rungs beside PyTorch.
#   make peers && tests/peers/gpu.sh [results directory]      (BUILD=dir: where make built)
# Each part is left out with one line where its tool is missing. Exit status 0: all passed.
set -u
BUILD=${BUILD:-build}
out=${1:-$BUILD/gpu}
mkdir -p "$out"
failed=0

report() { # name status
    if [ "$2" -eq 0 ]; then echo "$1: passed"; else echo "$1: FAILED ($out/)"; failed=1; fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/gpu.txt" || {
    echo 'no NVIDIA GPU here' >&2
    exit 2
}
for suite in "$BUILD"/tests/unit/test_ch0[5-9]* "$BUILD"/tests/unit/test_ch1* \
    "$BUILD"/tests/unit/test_gpu* "$BUILD"/tests/unit/test_device_* "$BUILD"/tests/unit/test_simt_*; do
    [ -x "$suite" ] || continue
    name=$(basename "$suite")
    timeout 300 "$suite" >"$out/$name.txt" 2>&1
    report "$name" $?
    grep -E '^[0-9]+%: Checks' "$out/$name.txt"
done
if command -v "${NVCC:-nvcc}" >/dev/null; then
    tests/peers/labs.sh >"$out/labs.txt" 2>&1
    report "the labs' solutions" $?
else
    echo "nvcc is not installed: the labs' solutions were not run"
fi
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        for sizes in '160 64' '77 131' '700 128'; do
            for chapter in ch05 ch06 ch07 ch08 ch09; do
                # shellcheck disable=SC2086
                compute-sanitizer --tool $tool --error-exitcode 1 "$BUILD/launches" cuda \
                    $chapter $sizes >"$out/$tool.$chapter.${sizes#* }.txt" 2>&1
                report "$tool, $chapter, N d = $sizes" $?
            done
        done
    done
else
    echo 'compute-sanitizer is not installed: memcheck and racecheck were not run'
fi
if command -v ncu >/dev/null; then
    for chapter in ch05 ch06 ch07 ch08 ch09; do
        case $chapter in ch06 | ch08 | ch09) len='4096 32768' ;; ch07) len='256 1024' ;; *) len='512 2048' ;; esac
        # shellcheck disable=SC2086
        python3 tests/peers/gpu_counters.py --launches "$BUILD/launches" --chapter $chapter \
            --len $len --csv "$out/h200_${chapter}_counters.csv" >"$out/counters.$chapter.txt" 2>&1
        report "trace beside the counters, $chapter" $?
    done
else
    echo 'ncu is not installed: the trace was not compared'
fi
if python3 -c 'import torch' 2>/dev/null; then
    for script in ch05:sdpa ch06:decode ch07:masks; do
        chapter=${script%:*} name=${script#*:}
        python3 "tests/peers/gpu_$name.py" --library "$BUILD/libtilebytile.so" \
            --csv "$out/h200_$chapter.csv" >"$out/$name.txt" 2>&1
        report "$chapter beside PyTorch" $?
        cat "$out/$name.txt"
    done
    python3 tests/peers/gpu_gqa.py --library "$BUILD/libtilebytile.so" --csv "$out/h200_ch08.csv" \
        --csv-paged "$out/h200_ch09.csv" >"$out/gqa.txt" 2>&1
    report 'ch08 and ch09 beside PyTorch' $?
    cat "$out/gqa.txt"
else
    echo 'PyTorch is not installed: nothing was timed beside it'
fi
exit $failed
