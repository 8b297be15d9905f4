#!/bin/sh
# Has the grader read the assignment.txt of chapters, before they go out: its status is 2, with the
# grader's message, when one of them has a mistake.
#   tests/instructor/check_settings.sh ch01 ch02 ...     in the course's top folder
set -eu
grader=${BUILD:-build}/grade
set_in=
for chapter in "$@"; do
    settings=tests/grade/$chapter/assignment.txt
    # A file of comments sets nothing.
    if [ -f "$settings" ] && grep -qv '^[[:space:]]*\(#.*\)\{0,1\}$' "$settings"; then
        set_in="$set_in $chapter"
    fi
done
[ -n "$set_in" ] || exit 0
if [ ! -x "$grader" ]; then
    echo "there is no $grader, which checks assignment.txt; \`make $grader\` builds it" >&2
    exit 2
fi
# shellcheck disable=SC2086 # a list of words
"$grader" --progress $set_in >/dev/null || exit 2
