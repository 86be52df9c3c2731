# What becomes of the attention matrix with growing head size, for three scales of the scores: see effective_rank.c.
#
#   effective_rank > effective_rank.csv
#   gnuplot -e "csv='effective_rank.csv'; out='effective_rank'" tests/examples/effective_rank.gp
#
# writes effective_rank.svg. Colours: Okabe and Ito, told apart by colour-blind readers.

if (!exists("csv")) csv = 'effective_rank.csv'
if (!exists("out")) out = 'effective_rank'

set datafile separator comma
set datafile missing NaN
set datafile columnheaders

array scales[3] = ['1', '1/sqrt(d_k)', '1/d_k']
array titles[3] = ['Q K^T (scale 1)', 'Q K^T / sqrt(d_k)', 'Q K^T / d_k']
array colour[3] = [0xD55E00, 0x009E73, 0x0072B2]
array shape[3] = [8, 7, 4]

set terminal svg size 1080, 400 font 'Helvetica,13' noenhanced background rgb 'white'
set output out.'.svg'
set multiplot layout 1, 3 title 'A = softmax(scale Q K^T), 128 x 128, Q and K of standard normals, mean of 4 heads' font ',15' \
    margins 0.06, 0.99, 0.14, 0.82 spacing 0.06, 0
set logscale x 2
set xrange [3:680]
set xtics 4, 4
set xlabel 'head size d_k'
set grid back linecolor rgb 0xdddddd
set key noautotitle
of_scale(column_name, i) = strcol('scale') eq scales[i] ? column(column_name) : NaN

set title 'effective rank of A'
set yrange [0:100]
plot for [i = 1:3] csv using 'head_dim':(of_scale('effective_rank', i)) with linespoints linecolor rgb colour[i] \
    pointtype shape[i] linewidth 2

set title 'stable rank of A'
set yrange [0:40]
set key top left Left reverse samplen 3
plot for [i = 1:3] csv using 'head_dim':(of_scale('stable_rank', i)) with linespoints linecolor rgb colour[i] \
    pointtype shape[i] linewidth 2 title titles[i]
set key noautotitle

set title 'slope of softmax, sum of a (1 - a)'
set yrange [0:1.05]
plot for [i = 1:3] csv using 'head_dim':(of_scale('slope', i)) with linespoints linecolor rgb colour[i] \
    pointtype shape[i] linewidth 2
unset multiplot
