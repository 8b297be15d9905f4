#!/bin/sh
# Static analysis: cppcheck and clang-tidy (.clang-tidy says which checks). Exit 0 only when clean.
# LINT_QUICK=1 leaves out clang's path-sensitive analyzer, which takes nine tenths of the time.
set -eu
for tool in cppcheck clang-tidy; do
    command -v $tool >/dev/null || {
        echo "make lint needs $tool: sudo apt-get install $tool" >&2
        exit 2
    }
done
skipped=
[ -z "${LINT_QUICK:-}" ] || skipped='--checks=-clang-analyzer-*'
export skipped
files=$(find common chapters tests solutions -name '*.c' | sort)
cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem --error-exitcode=1 -j "$(nproc)" -I . $files
for file in $files; do
    case $file in
    solutions/*) echo "$file -Iexercises/$(basename "$(dirname "$file")")" ;;
    tests/grade/ch*) echo "$file -Iexercises/$(basename "$(dirname "$file")")" ;;
    *) echo "$file -I." ;;
    esac
done | xargs -P "$(nproc)" -L 1 sh -c \
    'clang-tidy --quiet --warnings-as-errors="*" $skipped "$0" -- -std=c11 -D_GNU_SOURCE -DGPU_HAVE_CUDA=0 \
        -DGPU_HAVE_TRACE=1 -I. "$1" 2>/dev/null'
echo 'lint: clean'
