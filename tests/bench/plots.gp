# The plots of docs/benchmarks, drawn by tests/bench/tables.sh from cpu.csv.
# Variables: csv (the data), dir (where the pictures go). Columns are named by the CSV's heading.
set datafile separator ','
set datafile columnheaders
set datafile missing NaN
set terminal svg size 800,500 font 'sans,14' background 'white' noenhanced
set linetype 5 lc rgb '#a02040' # the fifth is a yellow that white swallows
set grid
set key top left reverse Left spacing 1.3

txt(name) = strcol(name)
num(name) = column(name)
# One head, f32, as many queries as keys, no window, and the right output.
is_square(dim) = txt('check') eq 'ok' && txt('dtype') eq 'f32' && num('heads_q') == 1 \
                 && num('dim') == dim && num('len_q') == num('len_kv') && num('window') == 0
is_kernel(name, threads) = txt('kernel') eq name && num('threads') == threads

most = 1
stats csv using (most = most > num('processors') ? most : num('processors'), 1) nooutput

# Time of the ladder against N, d = 64.
set output dir . '/cpu_ladder.svg'
set title 'The CPU ladder: one head, d = 64, full, f32'
set xlabel 'N, queries and keys'
set ylabel 'median seconds'
set logscale x 2
set logscale y
set format y '%.0e'
ladder(name, threads) = is_square(64) && num('causal') == 0 && is_kernel(name, threads) \
                        ? num('median_s') : NaN
plot for [name in 'untiled unfused tiled simd'] csv using (num('len_q')):(ladder(name, 1)) \
         with linespoints pt 7 lw 2 title name . ', 1 thread', \
     csv using (num('len_q')):(most > 1 ? ladder('simd', most) : NaN) \
         with linespoints pt 5 lw 2 title sprintf('simd, %d threads', most)

# Share of the FMA ceiling against N, all threads.
set output dir . '/cpu_length.svg'
set title sprintf('simd: share of the measured FMA ceiling, %d threads, f32', most)
set ylabel '% of the ceiling'
unset logscale y
set format y '%g'
set yrange [0:100]
set key below
share(dim, causal) = is_square(dim) && num('causal') == causal && is_kernel('simd', most) \
                     ? 100 * num('share') : NaN
plot csv using (num('len_q')):(share(64, 0)) with linespoints pt 7 lw 2 title 'd = 64, full', \
     csv using (num('len_q')):(share(64, 1)) with linespoints pt 6 lw 2 title 'd = 64, causal', \
     csv using (num('len_q')):(share(128, 0)) with linespoints pt 5 lw 2 title 'd = 128, full', \
     csv using (num('len_q')):(share(128, 1)) with linespoints pt 4 lw 2 title 'd = 128, causal'

# Rate against threads, N = 4096, beside the ceilings; `smooth unique` puts the rows in order.
set output dir . '/cpu_threads.svg'
set title 'simd: rate against threads, N = 4096, full, f32'
set xlabel 'threads'
set ylabel 'GFLOP/s'
unset logscale x
set xrange [0.5:most + 0.5]
set yrange [0:*]
set key top left inside vertical
set xtics 1, most < 12 ? 1 : 4
rate(dim) = is_square(dim) && num('causal') == 0 && txt('kernel') eq 'simd' \
            && num('len_q') == 4096 ? num('gflops') : NaN
plot csv using (num('threads')):(num('fma_gflops')) smooth unique with lines dt 2 lw 2 \
         title 'FMA ceiling', \
     csv using (num('threads')):(rate(64)) smooth unique with linespoints pt 7 lw 2 \
         title 'd = 64', \
     csv using (num('threads')):(rate(128)) smooth unique with linespoints pt 5 lw 2 \
         title 'd = 128'
