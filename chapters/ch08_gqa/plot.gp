# The plots of ch08, drawn by ./ch08 --plot: how often every rung requests the cache against g, the
# query heads of a KV head, traced and modelled; and the time to start all instructions over the
# time to read the cache once, with the times that were recorded and, on cuda, measured.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 rung, 3 g, 4 value, 5 low, 6 high. requested and requested-model: over the
# bytes of the cache; issue: instructions over an H200's reading time; recorded and cuda: times over
# it, with p10 and p90.
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
traced = 0
recorded = 0
measured = 0
stats csv skip 1 using (strcol(1) eq 'requested' ? (traced = 1) : \
    strcol(1) eq 'recorded' ? (recorded = 1) : strcol(1) eq 'cuda' ? (measured = 1) : 0, 1) nooutput
of(series, rung, x) = strcol(1) eq series && strcol(2) eq rung ? x : NaN

set logscale xy
set xlabel 'g, query heads of a KV head'
set xrange [0.8 : 42]
set xtics nomirror (1, 2, 4, 8, 16, 32)

# Requests against g: points are traced, the lines are the model.
if (traced) {
    if (kind ne 'term') { set output picture('requests') }
    set title 'ch08: bytes of K and V requested, over those of the cache, traced'
    set ylabel 'x cache'
    set yrange [0.7 : 45]
    if (kind eq 'term') {
        set key below maxrows 1
        plot csv skip 1 using (of('requested', 'gqa_naive', $3)):4 with points pt 'N' title 'gqa_naive', \
             csv skip 1 using (of('requested', 'gqa', $3)):4 with points pt 'G' title 'gqa', \
             csv skip 1 using (of('requested', 'gqa_mma', $3)):4 with points pt 'M' title 'gqa_mma'
    } else {
        set key top left reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of('requested-model', 'gqa_naive', $3)):4 with lines lc rgb 'dark-red' title 'gqa_naive: g', \
             csv skip 1 using (of('requested', 'gqa_naive', $3)):4 with points pt 7 lc rgb 'dark-red' title 'traced', \
             csv skip 1 using (of('requested-model', 'gqa', $3)):4 with lines lc rgb 'dark-violet' title 'gqa: ceil(g / 8)', \
             csv skip 1 using (of('requested', 'gqa', $3)):4 with points pt 9 ps 1.4 lc rgb 'dark-violet' title 'traced', \
             csv skip 1 using (of('requested-model', 'gqa_mma', $3)):4 with lines dt 2 lc rgb 'black' title 'gqa_mma: ceil(g / 16)', \
             csv skip 1 using (of('requested', 'gqa_mma', $3)):4 with points pt 6 ps 1.6 lc rgb 'black' title 'traced'
    }
}

# Arithmetic against g, and times where there are any.
if (kind ne 'term') { set output picture('units') }
set title 'ch08: over the time to read the cache once: 16 x 8,192 keys, 8 KV heads, d = 128, bf16'
if (kind eq 'term') { set title 'ch08: over the time to read the cache once' }
set ylabel 'x reading'
set yrange [0.05 : 20]
if (kind eq 'term') {
    set key below maxrows 1
    plot 1 with lines title 'reading', \
         csv skip 1 using (of('issue', 'gqa_naive', $3)):4 with points pt 'n' title 'gqa_naive', \
         csv skip 1 using (of('issue', 'gqa', $3)):4 with points pt 'g' title 'gqa', \
         csv skip 1 using (of('issue', 'gqa_mma', $3)):4 with points pt 'm' title 'gqa_mma'
} else {
    set key top left reverse Left spacing 1.3
    set grid
    what = measured ? 'cuda' : 'recorded'
    name = measured ? 'time, measured here' : recorded ? 'time, recorded on an H200' : 'no time recorded'
    plot 1 with lines lc rgb 'gray50' title 'reading', \
         csv skip 1 using (of('issue', 'gqa_naive', $3)):4 with lines dt 2 lc rgb 'dark-red' title 'gqa_naive: instructions', \
         csv skip 1 using (of(what, 'gqa_naive', $3)):4:5:6 with yerrorbars pt 7 lc rgb 'dark-red' title name, \
         csv skip 1 using (of('issue', 'gqa', $3)):4 with lines dt 2 lc rgb 'dark-violet' title 'gqa: instructions', \
         csv skip 1 using (of(what, 'gqa', $3)):4:5:6 with yerrorbars pt 9 lc rgb 'dark-violet' title name, \
         csv skip 1 using (of('issue', 'gqa_mma', $3)):4 with lines dt 2 lc rgb 'black' title 'gqa_mma: instructions', \
         csv skip 1 using (of(what, 'gqa_mma', $3)):4:5:6 with yerrorbars pt 6 lc rgb 'black' title name
}
