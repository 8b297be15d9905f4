# The plots of ch02, drawn by ./ch02 --plot: a trained model's row, key by key, and the error
# against the block size.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 x, 3 value. Series used here: score, running_max, running_sum (x: key);
# block_error_o, block_error_lse (x: block_k).
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
x_of(name, x) = strcol(1) eq name ? x : NaN # a row of another series is no point of this one
if (kind ne 'term') { set grid; set key top left reverse Left spacing 1.3 }
if (kind eq 'term') { set key below reverse Left }

# The row: the maximum is a staircase, the sum falls where the maximum steps up.
keys = 0
stats csv skip 1 using (keys = keys + (strcol(1) eq 'score'), 1) nooutput
if (keys > 0) {
    set xlabel 'keys seen'
    set xrange [0:*]
    if (kind eq 'term') {
        set title 'ch02: scores and running maximum of a trained model''s row'
        plot csv skip 1 using (x_of('score', $2 + 1)):3 with points pt '.' title 'score', \
             csv skip 1 using (x_of('running_max', $2 + 1)):3 with points pt '#' title 'running maximum m'
        set title 'ch02: running sum of the same row'
        plot csv skip 1 using (x_of('running_sum', $2 + 1)):3 with points pt '*' title 'running sum l'
    } else {
        set output picture('row')
        set title 'ch02: a trained model''s row: running maximum and sum'
        set ylabel 'score, m'
        set y2label 'running sum l'
        set y2tics
        set ytics nomirror
        set y2range [0:*]
        plot csv skip 1 using (x_of('score', $2 + 1)):3 with points pt 7 ps 0.5 title 'score', \
             csv skip 1 using (x_of('running_max', $2 + 1)):3 with steps lw 2 title 'running maximum m', \
             csv skip 1 using (x_of('running_sum', $2 + 1)):3 axes x1y2 with lines lw 2 \
                 title 'running sum l (right)'
        unset y2label
        unset y2tics
        set ytics mirror
    }
    set xrange [*:*]
}

# The error, beside the spacing of float32's numbers at 1.
set title 'ch02: largest error against the block size'
set xlabel 'block_k (keys in a block)'
set logscale x 2
set logscale y
set format y '%.0e'
set yrange [1e-8:1e-4]
if (kind eq 'term') {
    plot 2.0**-23 with points pt '.' title '2^-23', \
         csv skip 1 using (x_of('block_error_lse', $2)):3 with points pt 'L' title 'LSE', \
         csv skip 1 using (x_of('block_error_o', $2)):3 with points pt 'O' title 'O (hides LSE where they meet)'
} else {
    set output picture('block')
    set ylabel 'largest error'
    plot csv skip 1 using (x_of('block_error_o', $2)):3 with linespoints pt 7 title 'O', \
         csv skip 1 using (x_of('block_error_lse', $2)):3 with linespoints pt 5 title 'LSE', \
         2.0**-23 with lines dt 2 title '2^-23, spacing of float32 at 1'
}
