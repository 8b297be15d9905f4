# The plots of ch04, drawn by ./ch04 --plot: time of the rungs against N, time of simd against
# threads, and the traffic ratio of the model against N.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 x, 3 value, 4 low, 5 high. Series: untiled, tiled, unfused, simd (x: N;
# median, p10 and p90 in seconds), threads (x: threads; the same), traffic_causal and traffic_full
# (x: N; a ratio).
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
x_of(name, x) = strcol(1) eq name ? x : NaN # a row of another series is no point of this one
if (kind eq 'term') { set key below reverse Left vertical maxrows 3 }
if (kind ne 'term') { set key top left reverse Left spacing 1.2; set grid; set bars small }

# Time against N, with the line that grows as N^2 through untiled's first point.
N_low = 1e18; N_high = 0; T_low = 0; threads = 0
stats csv skip 1 using (strcol(1) eq 'simd' ? (N_high = $2 > N_high ? $2 : N_high) : 0, \
    strcol(1) eq 'untiled' && $2 < N_low ? (N_low = $2, T_low = $3) : 0, \
    strcol(1) eq 'threads' ? (threads = $2 > threads ? $2 : threads) : 0, 1) nooutput
if (N_high > 0) {
    set title 'ch04: time of the rungs'
    set xlabel 'N (queries and keys)'
    set logscale xy
    set xrange [N_low / 1.3 : N_high * 1.3]
    set xtics (0)
    do for [e = 0:24] { set xtics add (sprintf('%d', 2**e) 2**e) }
    if (kind eq 'term') {
        set ylabel 'ms'
        plot T_low * 1e3 * (x / N_low)**2 with points pt '.' title 'grows as N^2', \
             csv skip 1 using (x_of('unfused', $2)):($3*1e3) with points pt 'U' title 'unfused (under T, where U is missing)', \
             csv skip 1 using (x_of('tiled', $2)):($3*1e3) with points pt 'T' title 'tiled', \
             csv skip 1 using (x_of('untiled', $2)):($3*1e3) with points pt 'o' title 'untiled', \
             csv skip 1 using (x_of('simd', $2)):($3*1e3) with points pt 'S' title 'simd'
    } else {
        set output picture('time')
        set ylabel 'time (ms)'
        plot T_low * 1e3 * (x / N_low)**2 with lines dt 2 lc rgb 'gray50' title 'grows as N^2', \
             csv skip 1 using (x_of('unfused', $2)):($3*1e3):($4*1e3):($5*1e3) \
                 with yerrorbars pt 5 lc rgb 'dark-violet' title 'unfused', \
             csv skip 1 using (x_of('tiled', $2)):($3*1e3):($4*1e3):($5*1e3) \
                 with yerrorbars pt 7 lc rgb 'dark-green' title 'tiled', \
             csv skip 1 using (x_of('untiled', $2)):($3*1e3):($4*1e3):($5*1e3) \
                 with yerrorbars pt 4 lc rgb 'black' title 'untiled', \
             csv skip 1 using (x_of('simd', $2)):($3*1e3):($4*1e3):($5*1e3) \
                 with yerrorbars pt 9 lc rgb 'dark-red' title 'simd, all threads'
    }

    # simd against threads, with the line of a perfect division of labour.
    if (kind ne 'term') { set output picture('threads') }
    set title 'ch04: tiled_simd against threads'
    set xlabel 'threads'
    set ylabel kind eq 'term' ? 'ms' : 'time (ms)'
    unset logscale y
    set xrange [0.8 : threads * 1.25]
    set yrange [0 : *]
    set key below Left reverse
    T_one = 0
    stats csv skip 1 using (strcol(1) eq 'threads' && $2 == 1 ? (T_one = $3) : 0, 1) nooutput
    if (kind eq 'term') {
        plot T_one * 1e3 / x with points pt '.' title 'one thread / threads', \
             csv skip 1 using (x_of('threads', $2)):($3*1e3) with points pt 'S' title 'simd'
    } else {
        plot T_one * 1e3 / x with lines dt 2 lc rgb 'gray50' title 'one thread / threads', \
             csv skip 1 using (x_of('threads', $2)):($3*1e3):($4*1e3):($5*1e3) \
                 with yerrorbars pt 9 lc rgb 'dark-red' title 'simd, median, p10 to p90'
    }
}

# The model: how often naive attention moves what tiled attention moves.
if (kind ne 'term') { set output picture('traffic') }
set title 'ch04: traffic of naive over tiled attention (model, d = 64, Bq = 128)'
set xlabel 'N (queries and keys)'
set ylabel kind eq 'term' ? '' : 'ratio of bytes'
set logscale x
unset logscale y
set xrange [200 : 170000]
set yrange [0 : 14]
set key bottom right Left reverse
set xtics (0)
do for [e = 8:17] { if (kind ne 'term' || e % 2 == 0) { set xtics add (sprintf('%d', 2**e) 2**e) } }
if (kind eq 'term') {
    plot 12 with points pt '.' title 'limits, 6 Bq/d and 2 Bq/d', 4 with points pt '.' notitle, \
         csv skip 1 using (x_of('traffic_causal', $2)):3 with points pt 'C' title 'causal', \
         csv skip 1 using (x_of('traffic_full', $2)):3 with points pt 'N' title 'no mask'
} else {
    plot 12 with lines dt 2 lc rgb 'gray50' title 'limits, 6 Bq/d and 2 Bq/d', \
         4 with lines dt 2 lc rgb 'gray50' notitle, \
         csv skip 1 using (x_of('traffic_causal', $2)):3 with points pt 7 lc rgb 'dark-green' title 'causal', \
         csv skip 1 using (x_of('traffic_full', $2)):3 with points pt 5 lc rgb 'dark-red' title 'no mask'
}
