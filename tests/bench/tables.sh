#!/bin/sh
# Rewrites the tables of DIR/cpu.md and the plots DIR/*.svg from DIR/cpu.csv and, where it is there,
# DIR/cpu_pytorch.csv; and the tables of DIR/h200.md from DIR/h200_ch*.csv.
#   tests/bench/tables.sh DIR
set -eu
dir=${1:?usage: tables.sh DIR}
here=$(dirname "$0")
h200=$dir/h200.md
set -- # h200.awk's arguments
for chapter in ch05 ch06 ch07 ch08 ch09; do
    [ ! -f "$dir/h200_$chapter.csv" ] || set -- "$@" "part=$chapter" "$dir/h200_$chapter.csv"
done
if [ -f "$h200" ] && [ $# -eq 10 ]; then
    awk -f "$here/h200.awk" "$@" part=page "$h200" >"$h200.new" || {
        rm -f "$h200.new"
        echo "$h200 was left as it was" >&2
        exit 1
    }
    mv "$h200.new" "$h200"
    echo "$h200: tables rewritten"
fi
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
