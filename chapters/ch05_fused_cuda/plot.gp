# The plots of ch05, drawn by ./ch05 --plot: the four byte numbers of each rung, bytes against N with
# the models as lines, and TFLOP/s: as recorded, and as measured where the run was on cuda.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 rung, 3 x, 4 value, 5 low, 6 high. Series: requested, sectors, block-unique,
# launch-unique, model (x: N; bytes), recorded and cuda (x: N; TFLOP/s; cuda with p10 and p90).
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
rungs = '"naive" "thread per row" "keys outside" "tiled" "register tiled"'
place(name) = name eq word(rungs, 1) ? 1 : name eq word(rungs, 2) ? 2 : name eq word(rungs, 3) ? 3 : \
    name eq word(rungs, 4) ? 4 : name eq word(rungs, 5) ? 5 : NaN
of(series, rung, x) = strcol(1) eq series && strcol(2) eq rung ? x : NaN
largest = 0
smallest = 1e18
traced = 0
recorded = 0
measured = 0
first = 1e18
last = 0
stats csv skip 1 using (strcol(1) eq 'requested' ? (largest = $3 > largest ? $3 : largest, \
    smallest = $3 < smallest ? $3 : smallest, traced = 1) : 0, \
    strcol(1) eq 'recorded' ? (recorded = 1) : 0, strcol(1) eq 'cuda' ? (measured = 1) : 0, \
    strcol(1) eq 'recorded' || strcol(1) eq 'cuda' ? (first = $3 < first ? $3 : first, \
    last = $3 > last ? $3 : last) : 0, 1) nooutput

# The four numbers at the largest N that was traced.
if (traced) {
    if (kind ne 'term') { set output picture('numbers') }
    set title sprintf('ch05: bytes of one head, N = %d, d = 64, f32, counted in four ways', largest)
    set logscale y
    set ylabel 'KiB'
    set xrange [0.4 : 5.6]
    set xtics ('naive' 1, 'a row' 2, 'outside' 3, 'tiled' 4, 'register' 5) nomirror
    bar(series, shift) = strcol(1) eq series && $3 == largest ? place(strcol(2)) + shift : NaN
    if (kind eq 'term') {
        set key below
        plot csv skip 1 using (bar('requested', -0.24)):($4/1024) with points pt 'R' title 'requested', \
             csv skip 1 using (bar('sectors', -0.08)):($4/1024) with points pt 'S' title 'sectors x 32', \
             csv skip 1 using (bar('block-unique', 0.08)):($4/1024) with points pt 'B' title 'block-unique', \
             csv skip 1 using (bar('launch-unique', 0.24)):($4/1024) with points pt 'L' title 'launch-unique'
    } else {
        set key top right reverse Left spacing 1.3
        set grid y
        set boxwidth 0.15
        set style fill solid 0.8
        plot csv skip 1 using (bar('requested', -0.24)):($4/1024) with boxes lc rgb 'gray50' title 'requested', \
             csv skip 1 using (bar('sectors', -0.08)):($4/1024) with boxes lc rgb 'dark-violet' title 'sectors x 32', \
             csv skip 1 using (bar('block-unique', 0.08)):($4/1024) with boxes lc rgb 'dark-green' title 'block-unique', \
             csv skip 1 using (bar('launch-unique', 0.24)):($4/1024) with boxes lc rgb 'dark-red' title 'launch-unique'
    }
    unset xtics

    # Bytes against N: points are traced, lines are the models.
    if (kind ne 'term') { set output picture('length') }
    set title 'ch05: bytes against N, d = 64: traced (points) and models (lines)'
    set xlabel 'N (queries and keys)'
    set ylabel kind eq 'term' ? 'MiB' : 'MiB, of the number that the model models'
    set logscale xy
    set xrange [smallest / 1.3 : 8192 * 1.3]
    set xtics nomirror (0)
    do for [e = 4:13] { set xtics add (sprintf('%d', 2**e) 2**e) }
    mib = 2.0**20
    if (kind eq 'term') {
        set key below maxrows 3
        plot csv skip 1 using (of('model', 'naive', $3)):($4/mib) with points pt '.' title 'models', \
             csv skip 1 using (of('model', 'keys outside', $3)):($4/mib) with points pt '.' notitle, \
             csv skip 1 using (of('model', 'register tiled', $3)):($4/mib) with points pt '.' notitle, \
             4 * x * 64 * 4 / mib with points pt '-' title 'Q, K, V, O once', \
             csv skip 1 using (of('launch-unique', 'naive', $3)):($4/mib) with points pt 'N' title 'naive', \
             csv skip 1 using (of('requested', 'keys outside', $3)):($4/mib) with points pt 'K' title 'keys outside', \
             csv skip 1 using (of('block-unique', 'register tiled', $3)):($4/mib) with points pt 'R' title 'register tiled'
    } else {
        set key top left reverse Left spacing 1.3
        set grid
        plot 4 * x * 64 * 4 / mib with lines dt 2 lc rgb 'gray50' title 'Q, K, V and O once: 4Nd', \
             csv skip 1 using (of('launch-unique', 'register tiled', $3)):($4/mib) with points pt 6 lc rgb 'gray50' title 'register tiled, launch-unique', \
             csv skip 1 using (of('model', 'naive', $3)):($4/mib) with lines lc rgb 'black' notitle, \
             csv skip 1 using (of('launch-unique', 'naive', $3)):($4/mib) with points pt 4 lc rgb 'black' title 'naive, launch-unique', \
             csv skip 1 using (of('model', 'keys outside', $3)):($4/mib) with lines lc rgb 'dark-violet' notitle, \
             csv skip 1 using (of('requested', 'keys outside', $3)):($4/mib) with points pt 9 lc rgb 'dark-violet' title 'keys outside, requested', \
             csv skip 1 using (of('model', 'tiled', $3)):($4/mib) with lines lc rgb 'dark-green' notitle, \
             csv skip 1 using (of('block-unique', 'tiled', $3)):($4/mib) with points pt 7 lc rgb 'dark-green' title 'tiled, block-unique', \
             csv skip 1 using (of('model', 'register tiled', $3)):($4/mib) with lines lc rgb 'dark-red' notitle, \
             csv skip 1 using (of('block-unique', 'register tiled', $3)):($4/mib) with points pt 11 lc rgb 'dark-red' title 'register tiled, block-unique'
    }
    unset logscale y
}

# The rates: this run's where it was on cuda, else the recorded ones.
if (recorded || measured) {
    rates = measured ? 'cuda' : 'recorded'
    if (kind ne 'term') { set output picture('rates') }
    set title measured ? 'ch05: measured on this GPU' : 'ch05: recorded on an H200, f32, d = 64'
    set xlabel 'N (queries and keys)'
    set ylabel 'TFLOP/s'
    set logscale xy
    set xrange [first / 1.4 : last * 1.4]
    set xtics nomirror (0)
    do for [e = 4:17] { set xtics add (sprintf('%d', 2**e) 2**e) }
    if (kind eq 'term') {
        set key below maxrows 3
        plot csv skip 1 using (of(rates, 'PyTorch EFFICIENT', $3)):4 with points pt 'E' title 'PyTorch EFFICIENT', \
             csv skip 1 using (of(rates, 'register tiled', $3)):4 with points pt 'R' title 'register tiled', \
             csv skip 1 using (of(rates, 'tiled', $3)):4 with points pt 'T' title 'tiled', \
             csv skip 1 using (of(rates, 'naive', $3)):4 with points pt 'N' title 'naive', \
             csv skip 1 using (of(rates, 'thread per row', $3)):4 with points pt 'o' title 'thread per row', \
             csv skip 1 using (of(rates, 'keys outside', $3)):4 with points pt 'K' title 'keys outside'
    } else {
        set key outside right reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of(rates, 'register tiled', $3)):4 with linespoints pt 11 ps 1.5 lc rgb 'dark-red' title 'register tiled', \
             csv skip 1 using (of(rates, 'PyTorch EFFICIENT', $3)):4 with linespoints dt 2 pt 6 ps 1.5 lc rgb 'blue' title 'PyTorch EFFICIENT', \
             csv skip 1 using (of(rates, 'PyTorch MATH', $3)):4 with linespoints dt 2 pt 2 ps 1.5 lc rgb 'blue' title 'PyTorch MATH', \
             csv skip 1 using (of(rates, 'tiled', $3)):4 with linespoints pt 7 ps 1.5 lc rgb 'dark-green' title 'tiled', \
             csv skip 1 using (of(rates, 'naive', $3)):4 with linespoints pt 4 ps 1.5 lc rgb 'black' title 'naive', \
             csv skip 1 using (of(rates, 'thread per row', $3)):4 with linespoints pt 5 ps 1.5 lc rgb 'gray50' title 'thread per row', \
             csv skip 1 using (of(rates, 'keys outside', $3)):4 with linespoints pt 9 ps 1.5 lc rgb 'dark-violet' title 'keys outside'
    }
}
