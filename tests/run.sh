#!/bin/sh
# Runs the tests that make has built and ends with one line, "N passed, N failed".
#   tests/run.sh unit    the unit tests
#   tests/run.sh quick   the unit tests and the grader's proof of itself (make test)
#   tests/run.sh full    the same with the large sweeps, the sanitizers and clang (make test-full)
# BUILD names the build directory. A suite's whole output is kept in $BUILD/log/.
set -u
mode=${1:-quick}
BUILD=${BUILD:-build}
export BUILD
log=$BUILD/log
mkdir -p "$log"
passed=0
failed=0
limit=600 # seconds of one suite
if [ "$mode" = full ]; then
    export TEST_FULL=1
    limit=1800
fi
export limit

# What failed, told at the end.
: >"$log/failures"

# Adds "passed failed", and notes what the log says of a failure.
count() { # name passed failed log seconds
    passed=$((passed + $2))
    failed=$((failed + $3))
    printf '  %-22s %5d passed %4d failed  %4ds\n' "$1" "$2" "$3" "$5"
    [ "$3" -eq 0 ] || {
        printf '\n%s: %d failed (all of its output: %s)\n' "$1" "$3" "$4"
        grep -E '^FAIL|:[FE]:' "$4" | head -n 20
        grep -vE '^(Running|$|ok )|: Passed$|^FAIL|:[FE]:' "$4" | tail -n 20
    } >>"$log/failures"
}

# What failed, the total, and the exit status.
finish() {
    [ "$failed" -eq 0 ] || { cat "$log/failures" && echo; }
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

# Check prints "100%: Checks: 12, Failures: 0, Errors: 0"; a crash before that line is one failure.
count_unit() { # name
    line=$(grep -E '^[0-9]+%: Checks: ' "$log/$1" | tail -n 1)
    seconds=$(sed -n 's/^seconds: //p' "$log/$1")
    if [ -z "$line" ]; then
        count "$1" 0 1 "$log/$1" "${seconds:-0}"
        return
    fi
    set -- "$1" $(echo "$line" | sed 's/[^0-9]/ /g')
    bad=$(($4 + $5))
    if [ "$bad" -eq 0 ] && ! grep -q '^status: 0$' "$log/$1"; then
        bad=1
    fi
    count "$1" $(($3 - $4 - $5)) "$bad" "$log/$1" "$seconds"
    grep '^not run: ' "$log/$1" | sort -u | sed 's/^/    /'
}

# A student copy (make handout) has none of these tests: each lesson runs once instead.
if [ ! -d tests/unit ]; then
    echo "This is a student copy: the course's own tests, its solutions and its mutants"
    echo 'are not in it. Each lesson runs once. To test your labs: make grade'
    for program in ch[0-9][0-9]; do
        start=$(date +%s)
        bad=0
        "./$program" --quick >"$log/$program" 2>&1 || bad=1
        count "$program" $((1 - bad)) "$bad" "$log/$program" "$(($(date +%s) - start))"
    done
    finish
    exit
fi

# The suites run side by side, one a core. OpenMP threads that wait leave theirs to the others.
export OMP_WAIT_POLICY=passive
run_one='start=$(date +%s); timeout "$limit" "$0" >"$1/$(basename "$0")" 2>&1; status=$?
    { echo "status: $status"; echo "seconds: $(($(date +%s) - start))"; } >>"$1/$(basename "$0")"'
echo "unit tests ($BUILD)"
suites=$(ls "$BUILD"/tests/unit/test_*)
# The longest begin first, so that no core is left with them at the end.
longest=$(ls "$BUILD"/tests/unit/test_programs "$BUILD"/tests/unit/test_grader 2>/dev/null)
for suite in $longest $(printf '%s\n' $suites | grep -vxF -e "${longest:-none}"); do
    printf '%s\n' "$suite"
done | xargs -P "$(nproc)" -I '{}' sh -c "$run_one" '{}' "$log"
for suite in $suites; do
    count_unit "$(basename "$suite")"
done

# A step that is a command of its own: its last "N passed, N failed" line counts, or its status.
step() { # name command...
    name=$1
    shift
    start=$(date +%s)
    "$@" >"$log/$name" 2>&1
    status=$?
    set -- $(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log/$name" | tail -n 1 | sed 's/[^0-9]/ /g')
    good=${1:-0}
    bad=${2:-0}
    if [ "$status" -eq 0 ] && [ $# -lt 2 ]; then good=1; fi
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
    count "$name" "$good" "$bad" "$log/$name" "$(($(date +%s) - start))"
}

if [ "$mode" != unit ]; then
    echo "the grader's proof"
    step prove "$BUILD/grade" --prove
fi
if [ "$mode" = full ]; then
    echo "sanitizers and the second compiler"
    step sanitize make --no-print-directory sanitize
    if command -v clang >/dev/null; then
        step clang-build make --no-print-directory CC=clang BUILD=build-clang test-build
        step clang-unit env BUILD=build-clang tests/run.sh unit
    else
        echo '  clang is not installed: the second compiler was not tried'
    fi
fi
finish
