#!/bin/sh
# Shows how a chapter's rungs differ: consecutive files of the order that its header lists in the
# lines "// Rungs: first.c second.cu ...", one or more of them. A change of indentation alone is not
# shown: turning two loops round shows the loops.
set -eu
dir=${1:-}
[ -n "$dir" ] && [ -d "$dir" ] || { echo 'no such chapter' >&2; exit 2; }
rungs=$(sed -n 's,^// Rungs: ,,p' "$dir"/*.h)
if [ -z "$rungs" ]; then
    echo "$dir has a single step: there are no rungs to compare"
    exit 0
fi
before=
for rung in $rungs; do
    [ -z "$before" ] || diff -u -b --label "$before" --label "$rung" "$dir/$before" "$dir/$rung" || true
    before=$rung
done
