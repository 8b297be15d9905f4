# The plots of ch09, drawn by ./ch09 --plot: time against page size over that of a contiguous cache,
# as recorded and, on cuda, as measured; slots held for a token in use; and the table's bytes beside
# those of K and V, traced and as modelled.
# Variables set by the program: csv (the data), kind (term, svg or png), out (path without ending).
# Columns: 1 series, 2 order, 3 page, 4 value, 5 low, 6 high. recorded-paged_mma and cuda-paged_mma:
# time over contiguous, with p10 and p90, column 2 being ordered, shuffled or contiguous; waste:
# slots over tokens, column 2 being paged, or reserved and longest at page 0; table-traced and
# table-model: percent of K and V.
set datafile separator ','
if (kind eq 'svg') { set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced }
if (kind eq 'png') { set terminal png size 800,500 noenhanced }
if (kind eq 'term') { set terminal dumb size 79,24 noenhanced }
picture(name) = out . '-' . name . '.' . kind
set datafile missing NaN
recorded = 0
measured = 0
traced = 0
reserved = 1
longest = 1
most = 1
stats csv skip 1 using (strcol(1) eq 'recorded-paged_mma' ? (recorded = 1) : \
    strcol(1) eq 'cuda-paged_mma' ? (measured = 1) : \
    strcol(1) eq 'table-model' ? (traced = 1, most = $3 > most ? $3 : most) : \
    strcol(1) eq 'waste' && strcol(2) eq 'reserved' ? (reserved = $4) : \
    strcol(1) eq 'waste' && strcol(2) eq 'longest' ? (longest = $4) : 0, 1) nooutput
of(series, order) = strcol(1) eq series && strcol(2) eq order ? $3 : NaN
all(series) = strcol(1) eq series ? $3 : NaN

set logscale x
set xlabel 'tokens in a page'
set xtics nomirror (0)
do for [e = 0:14] { set xtics add (sprintf('%d', 2**e) 2**e) }

# Time against page size.
if (recorded || measured) {
    if (kind ne 'term') { set output picture('time') }
    set title 'ch09: time of paged_mma over that of a contiguous cache'
    set ylabel 'time / contiguous'
    set xrange [6 : 350]
    set offsets 0, 0, graph 0.08, graph 0.08
    if (kind eq 'term') {
        set key below maxrows 2
        plot csv skip 1 using (of('recorded-paged_mma', 'ordered')):4 with points pt 'o' title recorded ? 'recorded, ordered' : 'nothing recorded', \
             csv skip 1 using (of('recorded-paged_mma', 'shuffled')):4 with points pt 's' title recorded ? 'recorded, shuffled' : '', \
             csv skip 1 using (of('cuda-paged_mma', 'ordered')):4 with points pt 'O' title measured ? 'here, ordered' : 'nothing measured', \
             csv skip 1 using (of('cuda-paged_mma', 'shuffled')):4 with points pt 'S' title measured ? 'here, shuffled' : ''
    } else {
        set key top right reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (of('recorded-paged_mma', 'ordered')):4 with linespoints pt 6 lc rgb 'dark-violet' title recorded ? 'recorded on an H200, ordered' : 'nothing recorded', \
             csv skip 1 using (of('recorded-paged_mma', 'shuffled')):4 with linespoints pt 7 lc rgb 'dark-violet' title recorded ? 'recorded on an H200, shuffled' : '', \
             csv skip 1 using (of('cuda-paged_mma', 'ordered')):4 with linespoints pt 8 lc rgb 'dark-red' title measured ? 'measured here, ordered' : 'nothing measured', \
             csv skip 1 using (of('cuda-paged_mma', 'shuffled')):4 with linespoints pt 9 ps 1.5 lc rgb 'dark-red' title measured ? 'measured here, shuffled' : ''
    }
}

unset offsets
# Slots held for a token.
if (kind ne 'term') { set output picture('waste') }
set title 'ch09: slots held for a token in use, a ragged batch'
set ylabel 'slots / tokens'
set xrange [0.8 : 1300]
set yrange [0.7 : reserved * 2]
set logscale y
set ytics nomirror (1, 2, 5, 10, 20, 50)
if (kind eq 'term') {
    set key below maxrows 1
    plot csv skip 1 using (of('waste', 'paged')):4 with points pt 'P' title 'pages', \
         reserved with dots title sprintf('16,384 each: %.1f', reserved), \
         longest with dots title sprintf('the longest each: %.1f', longest)
} else {
    set key center left reverse Left spacing 1.3
    set grid
    plot csv skip 1 using (of('waste', 'paged')):4 with linespoints pt 7 lc rgb 'dark-violet' title 'pages', \
         reserved with lines dt 2 lc rgb 'black' title sprintf('room for 16,384 tokens each: %.1f', reserved), \
         longest with lines dt 3 lc rgb 'gray50' title sprintf('room for the longest, each: %.1f', longest)
}

# The table's bytes.
if (traced) {
    if (kind ne 'term') { set output picture('table') }
    set title 'ch09: bytes of the table over those of K and V, traced, small heads'
    set ylabel '%'
    set xrange [0.8 : most * 1.3]
    set yrange [* : *]
    set ytics autofreq
    if (kind eq 'term') {
        set key below maxrows 1
        plot csv skip 1 using (all('table-model')):4 with points pt '.' title '4 B a page', \
             csv skip 1 using (of('table-traced', 'paged_mma')):4 with points pt 'T' title 'traced, 32-byte sectors'
    } else {
        set key top right reverse Left spacing 1.3
        set grid
        plot csv skip 1 using (all('table-model')):4 with lines lc rgb 'black' title 'model: 4 B a page', \
             csv skip 1 using (of('table-traced', 'paged_mma')):4 with points pt 7 ps 1.5 lc rgb 'black' title 'traced, sectors of 32 bytes, once'
    }
}
