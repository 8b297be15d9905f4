#!/bin/sh
# Runs the suites of the kernel labs with the solutions on a GPU: every test that does not need the
# tracer. With TOOL='compute-sanitizer --tool memcheck --error-exitcode 1' each test runs under it;
# then two tests of chapter 5's lab 0 count as failed: one has a launch refused, one launches nothing.
#   make peers && tests/peers/labs.sh [DIR]     DIR/chNN/: the labs' files (solutions)
# BUILD names the build directory. Exit status 0: no test failed.
set -u
from=${1:-solutions}
BUILD=${BUILD:-build}
NVCC=${NVCC:-nvcc}
arch=native # or the last of CUDA_ARCHS, which are written as for make: '80 90a'
[ -z "${CUDA_ARCHS:-}" ] || arch=sm_${CUDA_ARCHS##* }
cuda=$(dirname "$(dirname "$(command -v "$NVCC")")")
out=$BUILD/gpu_labs
mkdir -p "$out"
failed=0
common='-D_GNU_SOURCE -I. -O1 -g -w -DGPU_HAVE_CUDA=1 -DGPU_HAVE_TRACE=0'
for file in tests/grade/harness.c tests/peers/lab_kernels.c; do
    # shellcheck disable=SC2086
    gcc -std=c11 $common -c -o "$out/$(basename "$file" .c).o" "$file" || exit 2
done
for lab in "$from"/ch*/*.cu; do
    chapter=$(basename "$(dirname "$lab")")
    name=$(basename "$lab" .cu)
    unit=$out/$chapter.$name
    # shellcheck disable=SC2086
    "$NVCC" -std=c++17 -I. "-Iexercises/$chapter" -O3 -lineinfo --expt-relaxed-constexpr \
        "-arch=$arch" -c -o "$unit.cuda.o" "$lab" &&
        gcc -x c -std=gnu11 -ffp-contract=fast -DSIMT_UNIT=lab_simt $common \
            "-Iexercises/$chapter" -c -o "$unit.simt.o" "$lab" &&
        gcc -std=c11 $common "-Iexercises/$chapter" -c -o "$unit.suite.o" \
            "tests/grade/$chapter/$name.c" &&
        g++ -o "$unit" "$unit".*.o "$out/harness.o" "$out/lab_kernels.o" "$BUILD/libcommon.a" \
            "-L$cuda/lib64" -lcudart_static -ldl -lrt -lpthread -lm -fopenmp || {
        failed=$((failed + 1))
        continue
    }
    passed=0
    missing=0
    for test in $(sed -n 's/^ *{"\([a-z0-9_]*\)".*/\1/p' "tests/grade/$chapter/$name.c"); do
        # shellcheck disable=SC2086
        said=$(timeout 120 ${TOOL:-} "$unit" --run "$test" 2>&1)
        status=$?
        case $status,$said in
            0,*passed*) passed=$((passed + 1)) ;;
            *'not run'*) missing=$((missing + 1)) ;;
            *)
                failed=$((failed + 1))
                printf 'FAIL %s %s %s (status %s)\n%s\n' "$chapter" "$name" "$test" "$status" "$said"
                ;;
        esac
    done
    echo "$chapter $name: $passed tests passed, $missing need the tracer"
done
[ "$failed" -eq 0 ]
