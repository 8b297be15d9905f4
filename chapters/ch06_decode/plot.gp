# The plots of ch06, drawn by ./ch06 --plot: time against the number of splits, as modelled, as
# recorded and, on cuda, as measured, each over its own best; and GB/s against splits where they
# were recorded or measured; and the bytes of K, V and the parts, traced.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 rung, 3 x, 4 value, 5 low, 6 high. Series with x = splits, of one problem,
# which column 2 names: modelled (over the best), recorded and cuda (microseconds, with p10 and p90),
# recorded-rate and cuda-rate (GB/s); kv-unique, parts, parts-model (bytes).
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
label = ''
best_recorded = 1e18
best_measured = 1e18
first = 1e18
last = 0
traced = 0
traced_last = 0
stats csv skip 1 using (strcol(1) eq 'modelled' ? (label = strcol(2), \
    first = $3 < first ? $3 : first, last = $3 > last ? $3 : last) : 0, \
    strcol(1) eq 'kv-unique' ? (traced = 1, \
    traced_last = $3 > traced_last ? $3 : traced_last) : 0, 1) nooutput
stats csv skip 1 using (strcol(1) eq 'recorded' && strcol(2) eq label ? \
    (best_recorded = $4 < best_recorded ? $4 : best_recorded) : 0, \
    strcol(1) eq 'cuda' && strcol(2) eq label ? \
    (best_measured = $4 < best_measured ? $4 : best_measured) : 0, 1) nooutput
recorded = best_recorded < 1e18
measured = best_measured < 1e18
of(series, x) = strcol(1) eq series && strcol(2) eq label ? x : NaN

set logscale xy
set xlabel 'splits'
set xrange [first / 1.3 : last * 1.3]
set xtics nomirror (0)
do for [e = 0:20] { set xtics add (sprintf('%d', 2**e) 2**e) }

# Time against splits.
if (last > 0) {
    if (kind ne 'term') { set output picture('splits') }
    set title sprintf('ch06: time against splits, %s, each over its best', label)
    set ylabel 'time / best'
    set yrange [0.8 : *]
    if (kind eq 'term') {
        set key below maxrows 1
        plot csv skip 1 using (of('modelled', $3)):4 with points pt 'm' title 'modelled', \
             csv skip 1 using (of('recorded', $3)):($4/best_recorded) with points pt 'R' title recorded ? 'recorded, H200' : 'nothing recorded', \
             csv skip 1 using (of('cuda', $3)):($4/best_measured) with points pt 'X' title measured ? 'measured here' : 'nothing measured'
    } else {
        set key top right reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of('modelled', $3)):4 with linespoints dt 2 pt 6 lc rgb 'gray50' title 'modelled, as choose_splits does', \
             csv skip 1 using (of('recorded', $3)):($4/best_recorded) with linespoints pt 7 lc rgb 'dark-violet' title recorded ? sprintf('recorded on an H200, best %.1f us', best_recorded) : 'nothing recorded', \
             csv skip 1 using (of('cuda', $3)):($4/best_measured) with linespoints pt 11 ps 1.5 lc rgb 'dark-red' title measured ? sprintf('measured here, best %.1f us', best_measured) : 'nothing measured'
    }
}

# GB/s against splits.
if (recorded || measured) {
    if (kind ne 'term') { set output picture('rates') }
    set title sprintf('ch06: GB/s of K and V against splits, %s', label)
    set ylabel 'GB/s'
    unset logscale y
    set yrange [0 : *]
    if (kind eq 'term') {
        set key below maxrows 1
        plot csv skip 1 using (of('recorded-rate', $3)):4 with points pt 'R' title recorded ? 'recorded, H200' : 'nothing recorded', \
             csv skip 1 using (of('cuda-rate', $3)):4 with points pt 'X' title measured ? 'measured here' : 'nothing measured'
    } else {
        set key bottom right reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of('recorded-rate', $3)):4 with linespoints pt 7 lc rgb 'dark-violet' title recorded ? 'recorded on an H200' : 'nothing recorded', \
             csv skip 1 using (of('cuda-rate', $3)):4 with linespoints pt 11 ps 1.5 lc rgb 'dark-red' title measured ? 'measured here' : 'nothing measured'
    }
    set logscale y
    set yrange [* : *]
}

# Bytes against splits: points are traced, the lines are the models.
if (traced) {
    if (kind ne 'term') { set output picture('bytes') }
    set title 'ch06: bytes of split_kv_fused against splits, traced (points) and models'
    set ylabel 'KiB'
    set yrange [0.5 : *]
    set xrange [0.8 : traced_last * 1.3]
    any(series) = strcol(1) eq series ? $3 : NaN
    if (kind eq 'term') {
        set key below maxrows 1
        plot csv skip 1 using (any('parts-model')):($4/1024) with points pt '.' title 'model', \
             csv skip 1 using (any('kv-unique')):($4/1024) with points pt 'K' title 'K and V', \
             csv skip 1 using (any('parts')):($4/1024) with points pt 'P' title 'parts, written'
    } else {
        set key left center reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (any('kv-model')):($4/1024) with lines lc rgb 'black' title 'K and V: 2 S d elements', \
             csv skip 1 using (any('kv-unique')):($4/1024) with points pt 7 ps 1.5 lc rgb 'black' title 'traced, launch-unique', \
             csv skip 1 using (any('parts-model')):($4/1024) with lines lc rgb 'dark-red' title 'parts: 4 (d + 1) B each', \
             csv skip 1 using (any('parts')):($4/1024) with points pt 11 ps 1.5 lc rgb 'dark-red' title 'traced, written'
    }
}
