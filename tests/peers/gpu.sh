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
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        compute-sanitizer --tool $tool --error-exitcode 1 "$BUILD/launches" cuda 160 64 \
            >"$out/$tool.txt" 2>&1
        report "$tool, N = 160 d = 64" $?
        compute-sanitizer --tool $tool --error-exitcode 1 "$BUILD/launches" cuda 77 131 \
            >>"$out/$tool.txt" 2>&1
        report "$tool, N = 77 d = 131" $?
    done
else
    echo 'compute-sanitizer is not installed: memcheck and racecheck were not run'
fi
if command -v ncu >/dev/null; then
    python3 tests/peers/gpu_counters.py --launches "$BUILD/launches" \
        --csv "$out/h200_ch05_counters.csv" >"$out/counters.txt" 2>&1
    report 'trace beside the counters' $?
else
    echo 'ncu is not installed: the trace was not compared'
fi
if python3 -c 'import torch' 2>/dev/null; then
    python3 tests/peers/gpu_sdpa.py --library "$BUILD/libtilebytile.so" \
        --csv "$out/h200_ch05.csv" >"$out/sdpa.txt" 2>&1
    report 'beside PyTorch' $?
    cat "$out/sdpa.txt"
else
    echo 'PyTorch is not installed: nothing was timed beside it'
fi
exit $failed
