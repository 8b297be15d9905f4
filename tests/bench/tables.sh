#!/bin/sh
# Rewrites the tables of DIR/cpu.md and the plots DIR/*.svg from DIR/cpu.csv and, where it is there,
# DIR/cpu_pytorch.csv.
#   tests/bench/tables.sh DIR
set -eu
dir=${1:?usage: tables.sh DIR}
here=$(dirname "$0")
[ -f "$dir/cpu.md" ] || { echo "$dir/cpu.md: no such page" >&2; exit 2; }
cpu=/dev/null
peer=/dev/null
[ ! -f "$dir/cpu.csv" ] || cpu=$dir/cpu.csv
[ ! -f "$dir/cpu_pytorch.csv" ] || peer=$dir/cpu_pytorch.csv
new=$dir/cpu.md.new
awk -f "$here/tables.awk" part=cpu "$cpu" part=peer "$peer" part=page "$dir/cpu.md" >"$new" || {
    rm -f "$new"
    echo "$dir/cpu.md was left as it was" >&2
    exit 1
}
mv "$new" "$dir/cpu.md"
echo "$dir/cpu.md: tables rewritten"
[ "$cpu" != /dev/null ] || exit 0
if command -v gnuplot >/dev/null 2>&1; then
    gnuplot -e "csv='$cpu'; dir='$dir'" "$here/plots.gp"
    echo "$dir: plots redrawn"
else
    echo 'no plots: gnuplot is not installed (sudo apt-get install gnuplot-nox)'
fi
