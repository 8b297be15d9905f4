# The plots of ch03, drawn by ./ch03 --plot: the error against the number of parts, and the time of
# one query against the number of threads.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 x, 3 value. Series used here: short_o, long_o, long_lse (x: parts); and
# unsplit_, split_ with median, p10, p90 (x: threads).
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
x_of(name, x) = strcol(1) eq name ? x : NaN # a row of another series is no point of this one
if (kind ne 'term') { set grid; set key top right reverse Left spacing 1.3 }
if (kind eq 'term') { set key below reverse Left }

# The error, beside the spacing of float32's numbers at 1.
set title 'ch03: largest error against the number of parts'
set xlabel 'parts of the keys'
set xrange [0:100]
set logscale y
set format y '%.0e'
set yrange [1e-8:1e-4]
if (kind eq 'term') {
    plot 2.0**-23 with points pt '.' title '2^-23', \
         csv skip 1 using (x_of('short_o', $2)):3 with points pt 's' title 'O, 96 keys', \
         csv skip 1 using (x_of('long_o', $2)):3 with points pt 'L' title 'O, 4,096 keys'
} else {
    set output picture('parts')
    set ylabel 'largest error'
    plot csv skip 1 using (x_of('short_o', $2)):3 with linespoints pt 7 ps 0.6 title 'O, 96 keys', \
         csv skip 1 using (x_of('long_o', $2)):3 with linespoints pt 5 ps 0.6 \
             title 'O, 4,096 keys', \
         csv skip 1 using (x_of('long_lse', $2)):3 with linespoints pt 9 ps 0.6 \
             title 'LSE, 4,096 keys', \
         2.0**-23 with lines dt 2 title '2^-23, spacing of float32 at 1'
}
unset logscale y

# The time: medians, in a picture with whiskers from p10 to p90.
times = 0
most = 1
stats csv skip 1 using (times = times + (strcol(1) eq 'split_median'), \
    most = strcol(1) eq 'split_median' && $2 > most ? $2 : most, 1) nooutput
if (times > 0) {
    # "One part" stands a little to the left, so that neither hides the other.
    set title 'ch03: time of one query against threads'
    set xlabel 'threads'
    set logscale x 2
    set xrange [0.8:most * 1.25]
    set format y '%.1f'
    set yrange [0:*]
    set offsets graph 0, 0, graph 0.2, 0
    if (kind eq 'term') {
        plot csv skip 1 using (x_of('unsplit_median', $2) * 0.95):($3 * 1e3) with points pt '1' \
                 title 'one part, ms', \
             csv skip 1 using (x_of('split_median', $2)):($3 * 1e3) with points pt '#' \
                 title 'split, ms'
    } else {
        set output picture('threads')
        set ylabel 'median time, ms (bars: 10 to 90 % of the runs)'
        # The rows p10, median, p90 of a point stand in this order.
        low(name) = strcol(1) eq name . '_p10' ? (p10 = $3 * 1e3, NaN) : NaN
        mid(name) = strcol(1) eq name . '_median' ? (p50 = $3 * 1e3, NaN) : NaN
        p10 = NaN
        p50 = NaN
        bar(name, x) = (low(name), mid(name), strcol(1) eq name . '_p90' ? x : NaN)
        plot csv skip 1 using (bar('unsplit', $2) * 0.97):(p50):(p10):($3 * 1e3) \
                 with yerrorbars lw 2 pt 7 title 'one part', \
             csv skip 1 using (bar('split', $2)):(p50):(p10):($3 * 1e3) \
                 with yerrorbars lw 2 pt 5 title 'split', \
             csv skip 1 using (x_of('split_median', $2)):($3 * 1e3) with lines dt 2 notitle
    }
}
