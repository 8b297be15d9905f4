#!/bin/sh
# Shows how a chapter's rungs differ: consecutive files of the order that its header lists in the
# line "// Rungs: first.c second.c ...".
set -eu
dir=${1:-}
[ -n "$dir" ] && [ -d "$dir" ] || { echo 'no such chapter' >&2; exit 2; }
rungs=$(sed -n 's,^// Rungs: ,,p' "$dir"/*.h | head -n 1)
if [ -z "$rungs" ]; then
    echo "$dir has a single step: there are no rungs to compare"
    exit 0
fi
before=
for rung in $rungs; do
    [ -z "$before" ] || diff -u --label "$before" --label "$rung" "$dir/$before" "$dir/$rung" || true
    before=$rung
done
