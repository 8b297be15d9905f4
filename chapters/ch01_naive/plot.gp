# The plots of ch01, drawn by ./ch01 --plot: time and bytes against N, and the roofline.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 n, 2 median_s, 3 p10_s, 4 p90_s, 5 flop, 6 model_bytes, 7 touched_bytes,
# 8 extra_bytes, 9 compulsory_bytes, 10 intensity, 11 copy_bytes_per_s, 12 fma_flop_per_s.
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' }
if (kind eq 'png') { set terminal png size 800,500 }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind

stats csv skip 1 using 1 name 'N' nooutput
# The last row is that of the longest N.
stats csv skip 1 using (longest_s = $2, $2) nooutput
stats csv skip 1 using (longest_bytes = $7, $7) nooutput
stats csv skip 1 using 11 every ::0::0 name 'COPY' nooutput
stats csv skip 1 using 12 every ::0::0 name 'FMA' nooutput
stats csv skip 1 using 10 name 'I' nooutput

set logscale xy
if (kind eq 'term') {
    set key below reverse Left vertical maxrows 4
} else {
    set key top left reverse Left
    set grid
    set bars small
}
set xlabel 'N (queries and keys)'
set xrange [N_min / 1.3 : N_max * 1.3]
set xtics (0)
do for [e = 0:24] { set xtics add (sprintf('%d', 2**e) 2**e) }

# Time, with the line that grows as N^2 through the last point.
if (kind ne 'term') { set output picture('time') }
set title 'ch01: time of naive attention'
set ylabel 'time (ms)'
if (kind eq 'term') {
    plot longest_s * 1e3 * (x / N_max)**2 with lines title 'grows as N^2', \
         csv skip 1 using 1:($2*1e3) with points pt 7 title 'median'
} else {
    plot longest_s * 1e3 * (x / N_max)**2 with lines dt 2 title 'grows as N^2', \
         csv skip 1 using 1:($2*1e3):($3*1e3):($4*1e3) with yerrorbars pt 7 title 'median, p10 to p90'
}

# Bytes: what the passes move, what they keep, and what no algorithm can avoid.
if (kind ne 'term') { set output picture('bytes') }
set title 'ch01: bytes of naive attention'
set ylabel 'MiB'
MIB = 1024.0 * 1024.0
plot longest_bytes / MIB * (x / N_max)**2 with lines dt 2 title 'grows as N^2', \
     csv skip 1 using 1:($7/MIB) with points pt 7 title 'touched by the three passes (measured)', \
     csv skip 1 using 1:($8/MIB) with points pt 5 title 'extra memory: S and P', \
     csv skip 1 using 1:($9/MIB) with points pt 9 title 'Q, K, V, O: no algorithm moves less'

# The roofline: bandwidth slope and arithmetic ceiling, both measured, and where naive lies.
if (kind ne 'term') { set output picture('roofline') }
set title 'ch01: roofline of this machine, one thread'
set xlabel 'arithmetic intensity (FLOP per byte)'
set ylabel 'GFLOP/s'
ridge = FMA_max / COPY_max
low = 0.25
high = (8 * ridge > 8 * I_max) ? 8 * ridge : 8 * I_max
roof(x) = (x < ridge) ? x * COPY_max / 1e9 : FMA_max / 1e9
set xrange [low : high]
set yrange [* : 3 * FMA_max / 1e9]
plot roof(x) with lines title 'ceilings: copy bandwidth, then FMA peak', \
     csv skip 1 using 10:($5/$2/1e9) with points pt 7 title 'naive attention at N, 2N, 4N'
