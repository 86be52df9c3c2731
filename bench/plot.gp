# Throughput of the chain against length, one panel per d_model, one curve per engine, from the CSV of attn-bench:
#
#   attn-bench sweep --csv results.csv
#   gnuplot -e "csv='results.csv'; out='throughput'" bench/plot.gp      writes throughput.svg and throughput.png
#
# dtype='f64' draws the double runs. Colours: Okabe and Ito, told apart by colour-blind readers; engines differ in the
# shape of their points too. The dashed line is the multiply-add peak of the run.

if (!exists("csv")) csv = 'results.csv'
if (!exists("out")) out = 'throughput'
if (!exists("dtype")) dtype = 'f32'

set datafile separator comma
set datafile missing NaN
set datafile columnheaders

engines = 'naive cache blas fused auto'
titles = '"textbook loops" "cache-ordered loops" "BLAS, whole scores" "BLAS, fused tiles" "chosen by the library"'
array colour[5] = [0xD55E00, 0xE69F00, 0x0072B2, 0x009E73, 0x999999]
array shape[5] = [4, 8, 6, 7, 12]

# What the file holds: the values of d_model in their order, the engines, the ranges. ours(0) is true for lines
# that are drawn.
ours(x) = strcol('kind') eq 'chain' && strcol('dtype') eq dtype
sizes = ''
present = ''
lacks(list, word) = strstrt(list.' ', ' '.word.' ') == 0
note_size(s) = (lacks(sizes, s) ? (sizes = sizes.' '.s) : sizes)
note_engine(s) = (lacks(present, s) ? (present = present.' '.s) : present)
stats csv using (ours(0) ? strlen(note_size(strcol('d_model')).note_engine(strcol('engine'))) : NaN) nooutput
if (words(sizes) == 0) {
    print 'plot.gp: no sweep in '.dtype.' in '.csv
    exit
}
stats csv using (ours(0) ? column('fma_peak_gflops') : NaN) nooutput
peak = STATS_max
stats csv using (ours(0) ? column('threads') : NaN) nooutput
threads = int(STATS_max)
stats csv using (ours(0) ? column('gflops') : NaN) nooutput
slowest = STATS_min
fastest = STATS_max
stats csv using (ours(0) ? column('len') : NaN) nooutput
shortest = STATS_min
longest = STATS_max

columns = words(sizes) > 1 ? 2 : 1
rows = (words(sizes) + columns - 1) / columns
height = 320 * rows + 110

do for [format in 'svg png'] {
    if (format eq 'svg') {
        set terminal svg size 480*columns, height font 'Helvetica,13' noenhanced background '#ffffff'
    } else {
        set terminal pngcairo size 960*columns, 2*height fontscale 1.6 linewidth 2 pointscale 1.6 noenhanced \
            background '#ffffff'
    }
    set output out.'.'.format
    set multiplot layout rows, columns margins screen 0.16/columns, 0.98, 100.0/height, 1 - 70.0/height \
        spacing screen 0.18/columns, 90.0/height \
        title sprintf('Attention X → Z, %s, %d thread%s: throughput against length', \
                      dtype eq 'f32' ? 'float' : 'double', threads, threads > 1 ? 's' : '')
    set logscale x 2
    set logscale y 10
    set xlabel 'length (rows of X)'
    set ylabel 'GFLOP/s'
    set grid xtics ytics mytics lt 1 lw 0.5 lc rgb '#cccccc', lt 1 lw 0.3 lc rgb '#e6e6e6'
    set xrange [shortest/1.3 : longest*1.3]
    set yrange [slowest/1.6 : (fastest > peak ? fastest : peak)*1.6]
    set format x '%.0f'
    set format y '%g'
    do for [i=1:words(sizes)] {
        set title 'd_model '.word(sizes, i)
        if (i == 1) {
            set key at screen 0.5, 8.0/height center bottom horizontal maxrows (columns > 1 ? 2 : 3) samplen 2 \
                Left reverse
        } else {
            unset key
        }
        plot for [e=1:5] for [drawn=1:(lacks(present, word(engines, e)) ? 0 : 1)] \
                 csv using 'len':(ours(0) && strcol('engine') eq word(engines, e) && \
                                  strcol('d_model') eq word(sizes, i) ? column('gflops') : NaN) \
                 with linespoints lc rgb colour[e] pt shape[e] lw 2 title word(titles, e), \
             peak with lines dt 2 lc rgb '#555555' title 'multiply-add peak'
    }
    unset multiplot
    unset output
}
