#!/bin/sh
# Makes the autograder of a chapter for Gradescope: a zip with setup.sh, run_autograder, and what of
# the course grades the chapter. Solutions and mutants are not in it.
#   tests/instructor/gradescope.sh CHAPTER [OUT]     CHAPTER as 05 or ch05; run by `make gradescope`
set -eu
from=$(pwd)
cd "$(dirname "$0")/../.."

die() {
    printf 'gradescope: %s\n' "$1" >&2
    exit 2
}

[ -n "${1:-}" ] || die 'name the chapter: make gradescope CH=05 [OUT=file.zip]'
number=$(printf '%s' "$1" | sed 's/^ch//; s/^[0-9]$/0&/')
chapter=ch$number
case $number in
[0-9][0-9]) ;;
*) die "CH=$1: expected a chapter's number, like 05" ;;
esac
[ -d "tests/grade/$chapter" ] || die "CH=$1: there is no chapter $number here"
out=${2:-${BUILD:-build}/gradescope-$chapter.zip}
case $out in /*) ;; *) out=$from/$out ;; esac
command -v python3 >/dev/null || die 'python3 is needed: sudo apt-get install python3'
tests/instructor/check_settings.sh "$chapter" || exit 2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/course/exercises" "$(dirname "$out")"
sed "s/@CHAPTER@/$chapter/" tests/instructor/gradescope/setup.sh >"$work/setup.sh"
sed "s/@CHAPTER@/$chapter/" tests/instructor/gradescope/run_autograder >"$work/run_autograder"
chmod 755 "$work/setup.sh" "$work/run_autograder"
find Makefile common tests/grade/*.[ch] tests/grade/simt "tests/grade/$chapter" \
    tests/instructor/gradebook tests/instructor/*.py -type f ! -name '*~' -print |
    tar -cf - -T - | tar -xf - -C "$work/course" --no-same-owner
cp -r "exercises/$chapter" "$work/course/exercises/"
if [ -d "exercises/$chapter/.untouched" ]; then # nobody's work is in there
    cp "exercises/$chapter/.untouched"/* "$work/course/exercises/$chapter/"
    rm -rf "$work/course/exercises/$chapter/.untouched"
fi
rm -f "$work/course/exercises/$chapter"/*.backup-*
rm -f "$out"
(cd "$work" && python3 -m zipfile -c "$out" setup.sh run_autograder course)
echo "$out: the autograder of $chapter; upload it as it is (docs/instructor.md)"
