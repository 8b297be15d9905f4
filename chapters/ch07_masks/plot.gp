# The plots of ch07, drawn by ./ch07 --plot: masks by tiles, the bytes of K and V that a query loads
# against N, bytes and time against the density of a list, and time against N: as recorded, and as
# measured where the run was on cuda. In the terminal the masks are left out: the program has drawn
# them.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 name, 3 x, 4 value, 5 low, 6 high. Series: tile (name: a mask; x: key block,
# value: block of queries, low: 0 skipped, 1 partial, 2 full), bytes and model (x: N; bytes a
# query), density (name: bytes, time, recorded; x: blocks listed of all; a ratio), recorded and cuda
# (x: N; nanoseconds for a query of a head; cuda with p10 and p90).
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
of(series, name, x) = strcol(1) eq series && strcol(2) eq name ? x : NaN
traced = 0; recorded = 0; measured = 0; listed = 0; smallest = 1e18; first = 1e18; last = 0
window = 'window 1024'
stats csv skip 1 using (strcol(1) eq 'bytes' ? (traced = 1, smallest = $3 < smallest ? $3 : smallest) : 0, \
    strcol(1) eq 'recorded' ? (recorded = 1) : 0, strcol(1) eq 'cuda' ? (measured = 1) : 0, \
    strcol(1) eq 'density' && strcol(2) eq 'recorded' ? (listed = 1) : 0, \
    strcol(1) eq 'cuda' && strcol(2)[1:6] eq 'window' ? (window = strcol(2)) : 0, \
    strcol(1) eq 'recorded' || strcol(1) eq 'cuda' ? (first = $3 < first ? $3 : first, \
    last = $3 > last ? $3 : last) : 0, 1) nooutput

# The masks, a square for each tile.
if (kind ne 'term') {
    if (kind eq 'svg') { set terminal svg size 800,800 font 'sans,14' background 'white' noenhanced }
    if (kind eq 'png') { set terminal png size 800,800 noenhanced }
    set output picture('mask')
    set multiplot layout 2,2 title 'ch07: tiles of 64 queries (down) x 64 keys: green full, orange partial, grey skipped'
    set style fill solid 0.85 border rgb 'white'
    unset key
    set size ratio -1
    set xrange [-0.5 : 23.5]
    set xtics 0,8 out nomirror
    set ytics 0,8 out nomirror
    tile(mask, class, y) = strcol(1) eq 'tile' && strcol(2) eq mask && $5 == class ? y : NaN
    masks = '"causal" "window" "chunk" "list"'
    titles = '"causal, T = S = 1,536" "and a window of 384" "a chunk: T = 512, S = 1,536" "a list, density 1/4, causal"'
    do for [i = 1:4] {
        mask = word(masks, i)
        set title word(titles, i)
        set yrange [(mask eq 'chunk' ? 7.5 : 23.5) : -0.5]
        plot csv skip 1 using 3:(tile(mask, 0, $4)):($3-0.5):($3+0.5):($4-0.5):($4+0.5) with boxxy lc rgb 'gray90', \
             csv skip 1 using 3:(tile(mask, 2, $4)):($3-0.5):($3+0.5):($4-0.5):($4+0.5) with boxxy lc rgb 'dark-green', \
             csv skip 1 using 3:(tile(mask, 1, $4)):($3-0.5):($3+0.5):($4-0.5):($4+0.5) with boxxy lc rgb 'dark-orange'
    }
    unset multiplot
    if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
    if (kind eq 'png') { set terminal png size 800,500 noenhanced }
    set size noratio
    set autoscale
    set ytics autofreq
    set key
}

# Bytes of K and V against N: points are traced, lines are tiles visited times the bytes of a tile.
if (traced) {
    if (kind ne 'term') { set output picture('length') }
    set title 'ch07: K and V that a query loads, d = 64: traced (points), by tiles (lines)'
    set xlabel 'N (queries and keys)'
    set ylabel kind eq 'term' ? 'KiB' : 'KiB a query, in tiles of 64 x 64'
    set logscale xy
    set xrange [smallest / 1.3 : 32768 * 1.3]
    set xtics nomirror (0)
    do for [e = 7:15] { if (kind ne 'term' || e % 2 == 1) { set xtics add (sprintf('%d', 2**e) 2**e) } }
    if (kind eq 'term') {
        set key below maxrows 2
        plot csv skip 1 using (strcol(1) eq 'model' ? $3 : NaN):($4/1024) with points pt '.' title 'by tiles', \
             csv skip 1 using (of('bytes', 'full', $3)):($4/1024) with points pt 'F' title 'full', \
             csv skip 1 using (of('bytes', 'causal', $3)):($4/1024) with points pt 'C' title 'causal', \
             csv skip 1 using (of('bytes', 'window 128', $3)):($4/1024) with points pt 'W' title 'window 128'
    } else {
        set key top left reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of('model', 'full', $3)):($4/1024) with lines lc rgb 'black' notitle, \
             csv skip 1 using (of('bytes', 'full', $3)):($4/1024) with points pt 4 ps 1.5 lc rgb 'black' title 'full', \
             csv skip 1 using (of('model', 'causal', $3)):($4/1024) with lines lc rgb 'dark-green' notitle, \
             csv skip 1 using (of('bytes', 'causal', $3)):($4/1024) with points pt 7 ps 1.5 lc rgb 'dark-green' title 'causal', \
             csv skip 1 using (of('model', 'window 128', $3)):($4/1024) with lines lc rgb 'dark-red' notitle, \
             csv skip 1 using (of('bytes', 'window 128', $3)):($4/1024) with points pt 11 ps 1.5 lc rgb 'dark-red' title 'window of 128 keys'
    }
    unset logscale
}

# Lists: bytes and time against the share of blocks that they hold.
if (traced || measured || listed) {
    if (kind ne 'term') { set output picture('density') }
    set title 'ch07: random lists of blocks: what is left of bytes and time'
    set xlabel 'blocks listed, of all'
    set ylabel kind eq 'term' ? '' : 'over what all blocks take'
    set xrange [0 : 1.05]
    set yrange [0 : 1.2]
    set xtics autofreq
    if (kind eq 'term') {
        set key below maxrows 2
        plot x with points pt '.' title 'in proportion', \
             csv skip 1 using (of('density', 'bytes', $3)):4 with points pt 'B' title 'K and V, traced', \
             csv skip 1 using (of('density', 'recorded', $3)):4 with points pt 'R' title 'time, recorded', \
             csv skip 1 using (of('density', 'time', $3)):4 with points pt 'T' title 'time, measured'
    } else {
        set key top left reverse Left spacing 1.3
        set grid
        plot x with lines dt 2 lc rgb 'gray50' title 'in proportion', \
             csv skip 1 using (of('density', 'bytes', $3)):4 with points pt 4 ps 1.5 lc rgb 'black' title 'bytes of K and V, traced', \
             csv skip 1 using (of('density', 'recorded', $3)):4 with points pt 9 ps 1.5 lc rgb 'blue' title 'time, recorded on an H200 (causal lists)', \
             csv skip 1 using (of('density', 'time', $3)):4 with points pt 7 ps 1.5 lc rgb 'dark-red' title 'time, measured on this GPU'
    }
    set autoscale y
}

# Time of a query: this run's where it was on cuda, else the recorded ones.
if (recorded || measured) {
    times = measured ? 'cuda' : 'recorded'
    if (kind ne 'term') { set output picture('time') }
    set title measured ? 'ch07: time for a query of a head, measured on this GPU' : \
                         'ch07: time for a query of a head, recorded on an H200, d = 64'
    set xlabel 'N (queries and keys)'
    set ylabel kind eq 'term' ? 'ns' : 'nanoseconds a query'
    set logscale xy
    set xrange [first / 1.4 : last * 1.4]
    set xtics nomirror (0)
    do for [e = 4:17] { set xtics add (sprintf('%d', 2**e) 2**e) }
    if (kind eq 'term') {
        set key below maxrows 2
        plot csv skip 1 using (of(times, 'every tile', $3)):4 with points pt 'T' title 'every tile', \
             csv skip 1 using (of(times, 'every score', $3)):4 with points pt 'S' title 'every score', \
             csv skip 1 using (of(times, 'full', $3)):4 with points pt 'F' title 'full', \
             csv skip 1 using (of(times, 'causal', $3)):4 with points pt 'C' title 'causal', \
             csv skip 1 using (of(times, window, $3)):4 with points pt 'W' title window
    } else {
        set key top left reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of(times, 'full', $3)):4 with linespoints pt 4 ps 1.5 lc rgb 'black' title 'full', \
             csv skip 1 using (of(times, 'every tile', $3)):4 with linespoints pt 5 ps 1.5 lc rgb 'gray50' title 'causal, every tile visited', \
             csv skip 1 using (of(times, 'every score', $3)):4 with linespoints pt 9 ps 1.5 lc rgb 'dark-violet' title 'causal, every score asked for', \
             csv skip 1 using (of(times, 'causal', $3)):4 with linespoints pt 7 ps 1.5 lc rgb 'dark-green' title 'causal', \
             csv skip 1 using (of(times, window, $3)):4 with linespoints pt 11 ps 1.5 lc rgb 'dark-red' title window
    }
}
