# The pictures of a sweep, from the files that `attn-bench sweep --report DIR` leaves in DIR:
#
#   cd DIR && gnuplot plot.gp                              all pictures, each as NAME.svg and NAME.png
#   gnuplot -e "pictures='throughput memory'" plot.gp      some of them
#
# dtype='f64' draws the double runs, limit=BYTES the memory of the machine. Needs gnuplot 5.4. Colours: Okabe and Ito,
# told apart by colour-blind readers; engines differ in the shape of their points too, stages in their order.

if (!exists("pictures")) pictures = 'throughput speed_up stages memory roofline scaling float_double'
if (!exists("dtype")) dtype = 'f32'
if (!exists("limit")) limit = 0

engines = 'naive cache blas fused auto' # their titles are what attn-bench puts in front of this file
array colour[5] = [0xD55E00, 0xE69F00, 0x0072B2, 0x009E73, 0x999999]
array shape[5] = [4, 8, 6, 13, 12]
stages = '"X W" "Q Kᵀ" "softmax" "A V" "rest"'
array stage_colour[5] = [0x0072B2, 0x56B4E9, 0xE69F00, 0x009E73, 0xBBBBBB]
precision = dtype eq 'f32' ? 'float' : 'double'

lacks(list, word) = strstrt(list.' ', ' '.word.' ') == 0
plural(n, word) = sprintf('%d %s%s', n, word, n == 1 ? '' : 's')
larger(a, b) = a > b ? a : b
above_0(x) = x > 0 ? x : NaN
is_empty(file) = real(system('wc -l < '.file)) < 2 # has a line of names at most

# ---- What all pictures are made of ----------------------------------------------------------------------------------

data = "set datafile separator comma; set datafile missing NaN; set datafile columnheaders"
@data

# A new sheet of `panels` panels in `columns` columns, with room for a headline above and a legend of some lines below.
sheet(n, lines) = (panels = n, columns = n > 1 ? 2 : 1, rows = (n + columns - 1)/columns, legend_lines = lines, \
                   room = 20*lines + 20, height = (n > 1 ? 320 : 440)*rows + room + 70)
begin = "reset; ".data."; \
    set encoding utf8; \
    set grid xtics ytics mytics lt 1 lw 0.5 lc rgb '#cccccc', lt 1 lw 0.3 lc rgb '#e6e6e6'; \
    if (format eq 'svg') { \
        set terminal svg size 960, height font 'Helvetica,13' noenhanced background '#ffffff' \
    } else { \
        set terminal pngcairo size 1920, 2*height fontscale 1.6 linewidth 2 pointscale 1.6 noenhanced \
            background '#ffffff' \
    }; \
    set output picture.'.'.format; \
    set multiplot layout rows, columns margins screen 0.09, 0.98, (room + 55.0)/height, 1 - 75.0/height \
        spacing screen 0.10, 105.0/height title headline; \
    unset key"
# The legend is a plot of its own, as wide as the sheet; its line lies out of sight, without one gnuplot 5.4 gives up.
legend = "reset; ".data."; \
    unset border; unset tics; \
    set lmargin at screen 0.02; set rmargin at screen 0.98; \
    set bmargin at screen 5.0/height; set tmargin at screen (room + 0.0)/height; \
    set xrange [0 : 1]; set yrange [0 : 1]; \
    set style fill solid 1 border lc rgb '#ffffff'; \
    set key center center horizontal maxrows legend_lines samplen 2 Left reverse"
end = "unset multiplot; unset output; reset; ".data
lengths = "set logscale x 2; set xlabel 'length (rows of X)'; set format x '%.0f'; set xrange [shortest/1.3 : longest*1.3]"
rates = "set logscale y 10; set ylabel 'GFLOP/s'; set format y '%g'; set yrange [lowest/1.6 : highest*1.6]"

# Rings around what is not to be trusted, as ? in the tables: fewer than three repeats, or a spread above 10 % or unknown;
# of a ratio also when the textbook loops are so.
doubtful(x) = column('repeats') < 3 || strlen(strcol('spread')) == 0 || real(strcol('spread')) > 0.1
ring = "with points pt 6 ps 2.2 lw 1 lc rgb '#000000'"
ring_title = 'not to be trusted'
doubtful_loops = ''
case_of(x) = table(0).':'.strcol('len').':'.strcol('dtype').':'.strcol('threads')
note_loops(x) = (strcol('engine') eq 'naive' && doubtful(0) ? (doubtful_loops = doubtful_loops.' '.case_of(0)) : '')
doubtful_ratio(x) = doubtful(0) || !lacks(doubtful_loops, case_of(0))

has(e) = lacks(present, word(engines, e)) ? 0 : 1

# ---- What results.csv holds: tables in their order, engines, ranges -------------------------------------------------
#
# A table is a panel: one d_model, number of heads, batch and number of threads. Its title says what differs. In a sweep of
# shapes it is a shape, and throughput and speed-up are points side by side.

chain(type) = strcol('kind') eq kind && strcol('dtype') eq type
table(x) = kind eq 'sdpa' ? strcol('shape') : strcol('d_model').':'.strcol('heads').':'.strcol('batch').':'.strcol('threads')
curve(e, key, type) = chain(type) && strcol('engine') eq word(engines, e) && table(0) eq key
if (is_empty('results.csv')) exit
kind = 'sdpa'
note_kind(s) = (s eq 'chain' ? (kind = s) : s)
stats 'results.csv' using (strlen(note_kind(strcol('kind')))) nooutput
what = kind eq 'chain' ? 'Attention X → Z' : 'Attention of models'
stats 'results.csv' using 'head_dim' nooutput
many_heads = STATS_min < STATS_max || STATS_min != 64
stats 'results.csv' using 'batch' nooutput
many_batches = STATS_max > 1
stats 'results.csv' using 'threads' nooutput
many_threads = STATS_min < STATS_max
threads = STATS_max
at_work = (many_threads ? 'up to ' : '').plural(int(threads), 'thread')

tables = ''
table_titles = ''
double_tables = ''
double_titles = ''
present = ''
table_title(x) = kind eq 'sdpa' ? '"'.strcol('shape').(many_threads ? ', threads '.strcol('threads') : '').'"' : \
                 '"d_model '.strcol('d_model').(many_heads ? ', heads '.strcol('heads') : ''). \
                 (many_batches ? ', batch '.strcol('batch') : '').(many_threads ? ', threads '.strcol('threads') : '').'"'
most_tables = 40 # more make no picture
note_table(s) = (lacks(tables, s) && words(tables) < most_tables ? (tables = tables.' '.s, table_titles = table_titles.' '.table_title(0)) : tables)
note_double(s) = (lacks(double_tables, s) && words(double_tables) < most_tables \
                      ? (double_tables = double_tables.' '.s, double_titles = double_titles.' '.table_title(0)) : s)
note_engine(s) = (lacks(present, s) ? (present = present.' '.s) : present)
stats 'results.csv' using (chain(dtype) ? strlen(note_table(table(0)).note_engine(strcol('engine'))) : 0) nooutput
stats 'results.csv' using (chain('f64') ? strlen(note_double(table(0))) : 0) nooutput
stats 'results.csv' using (strcol('kind') eq kind ? strlen(note_loops(0)) : 0) nooutput
# The numbers of the engines that were run: plot for [r=1:words(run)] for [e=nth(r):nth(r)] ... Of a loop that may be empty
# gnuplot would draw one round when it comes first, and warn.
run = ''
do for [e=1:5] { if (has(e)) { run = run.' '.e } }
nth(r) = int(word(run, r) + 0)
if (words(tables) == 0) exit
stats 'results.csv' using (chain(dtype) ? column('fma_peak_gflops') : NaN) nooutput
peak = STATS_max

# The number of a table.
place_of(key) = words((tables.' ')[1:strstrt(tables.' ', ' '.key.' ') + strlen(key) + 1])

# A case is a table and a length. (No macro is found behind a quoted quotation mark, so these stand before all blocks.)
cases = ''
case_titles = ''
name(x) = table(0).':'.strcol('len')
case_title(x) = kind eq 'sdpa' ? table_title(0) : table_title(0)[1:strlen(table_title(0))-1].', length '.strcol('len').'"'
note_case(s) = (lacks(cases, s) ? (cases = cases.' '.s, case_titles = case_titles.' '.case_title(0)) : cases)

# ---- The pictures ---------------------------------------------------------------------------------------------------

do for [picture in pictures] {
    if (picture eq 'throughput' || picture eq 'speed_up') {
        speed = picture eq 'speed_up' ? 1 : 0
        if (speed && lacks(present, 'naive')) { continue }
        figure = speed ? 'speed_up' : 'gflops'
        stats 'results.csv' using (chain(dtype) ? above_0(column(figure)) : NaN) nooutput
        lowest = STATS_min
        highest = speed ? STATS_max : larger(STATS_max, peak)
        stats 'results.csv' using (chain(dtype) ? column('len') : NaN) nooutput
        shortest = STATS_min
        longest = STATS_max
        headline = sprintf('%s, %s, %s: %s%s', what, precision, at_work, \
                           speed ? 'speed-up over the textbook loops' : 'throughput', \
                           kind eq 'chain' ? ' against length' : '')
        doubt(x) = speed ? doubtful_ratio(0) : doubtful(0)
        stats 'results.csv' using (chain(dtype) && above_0(column(figure)) > 0 ? doubt(0) : 0) nooutput
        rings = STATS_max > 0 ? 1 : 0
        discard = sheet(kind eq 'chain' ? words(tables) : 1, 2 + rings)
        margin = kind eq 'chain' ? 0 : 110 # for the names of shapes
        discard = (room = room + margin, height = height + margin)
        do for [format in 'svg png'] {
            @begin
            @lengths
            @rates
            if (speed) { set ylabel 'times the textbook loops' }
            if (kind eq 'sdpa') {
                unset logscale x
                set xlabel ''
                set xrange [0.5 : words(tables) + 0.5]
                set xtics rotate by -40 ()
                do for [i=1:words(tables)] { set xtics add (word(table_titles, i) i) }
                plot for [r=1:words(run)] for [e=nth(r):nth(r)] 'results.csv' \
                         using (chain(dtype) && strcol('engine') eq word(engines, e) ? place_of(table(0)) : NaN): \
                               (above_0(column(figure))) with points lc rgb colour[e] pt shape[e] lw 2, \
                     for [once=1:rings] 'results.csv' using (chain(dtype) && doubt(0) ? place_of(table(0)) : NaN): \
                               (above_0(column(figure))) @ring, \
                     for [once=1:1-speed] peak with lines dt 2 lc rgb '#555555'
            }
            room = room - margin
            do for [i=1:(kind eq 'chain' ? words(tables) : 0)] {
                set title word(table_titles, i)
                plot for [r=1:words(run)] for [e=nth(r):nth(r)] 'results.csv' \
                         using 'len':(curve(e, word(tables, i), dtype) ? above_0(column(figure)) : NaN) \
                         with linespoints lc rgb colour[e] pt shape[e] lw 2, \
                     for [once=1:rings] 'results.csv' \
                         using 'len':(chain(dtype) && table(0) eq word(tables, i) && doubt(0) ? above_0(column(figure)) : NaN) \
                         @ring, \
                     for [once=1:1-speed] peak with lines dt 2 lc rgb '#555555'
            }
            @legend
            plot -1 notitle, for [r=1:words(run)] for [e=nth(r):nth(r)] keyentry with linespoints lc rgb colour[e] \
                     pt shape[e] lw 2 \
                     title word(titles, e), \
                 for [once=1:1-speed] keyentry with lines dt 2 lc rgb '#555555' title 'multiply-add peak', \
                 for [once=1:rings] keyentry @ring title ring_title
            @end
            room = room + margin
        }
    }

    if (picture eq 'float_double') {
        if (words(double_tables) == 0 || dtype eq 'f64' || kind eq 'sdpa') { continue }
        stats 'results.csv' using (chain('f64') ? column('len') : NaN) nooutput
        shortest = STATS_min
        longest = STATS_max
        inside(x) = !lacks(double_tables, table(0)) && column('len') >= shortest && column('len') <= longest
        stats 'results.csv' using (inside(0) ? above_0(column('gflops')) : NaN) nooutput
        lowest = STATS_min
        highest = STATS_max
        headline = sprintf('%s, %s: float against double', what, at_work)
        stats 'results.csv' using (inside(0) && (chain('f32') || chain('f64')) ? doubtful(0) : 0) nooutput
        rings = STATS_max > 0 ? 1 : 0
        discard = sheet(words(double_tables), 2 + rings)
        do for [format in 'svg png'] {
            @begin
            @lengths
            @rates
            do for [i=1:words(double_tables)] {
                set title word(double_titles, i)
                plot for [r=1:words(run)] for [e=nth(r):nth(r)] for [type in 'f32 f64'] 'results.csv' \
                         using 'len':(curve(e, word(double_tables, i), type) && inside(0) ? column('gflops') : NaN) \
                         with linespoints lc rgb colour[e] pt shape[e] lw 2 dt 1+(type eq 'f64'), \
                     for [once=1:rings] 'results.csv' \
                         using 'len':((chain('f32') || chain('f64')) && table(0) eq word(double_tables, i) && inside(0) && \
                                      doubtful(0) ? above_0(column('gflops')) : NaN) @ring
            }
            @legend
            plot -1 notitle, for [r=1:words(run)] for [e=nth(r):nth(r)] keyentry with linespoints lc rgb colour[e] \
                     pt shape[e] lw 2 \
                     title word(titles, e), \
                 keyentry with lines lw 2 lc rgb '#555555' title 'float', \
                 keyentry with lines lw 2 dt 2 lc rgb '#555555' title 'double', \
                 for [once=1:rings] keyentry @ring title ring_title
            @end
        }
    }

    if (picture eq 'memory') {
        if (is_empty('memory.csv')) { continue }
        stats 'memory.csv' using (above_0(column('bytes_workspace'))) nooutput
        highest = larger(STATS_max, limit)
        lowest = STATS_min
        stats 'memory.csv' using 'len' nooutput
        shortest = STATS_min
        longest = STATS_max
        need(e, key) = strcol('engine') eq word(engines, e) && strcol('dtype') eq dtype && table(0) eq key
        arguments(key) = chain(dtype) && table(0) eq key \
                              ? column('bytes_working_set') - column('bytes_workspace') : NaN
        headline = sprintf('Memory against length, %s, %s', precision, at_work)
        discard = sheet(words(tables), 2)
        do for [format in 'svg png'] {
            @begin
            @lengths
            set xtics 64, 8
            set logscale y 2
            set ylabel 'workspace'
            set yrange [lowest/2 : highest*4]
            set ytics ('1 KiB' 2**10, '32 KiB' 2**15, '1 MiB' 2**20, '32 MiB' 2**25, '1 GiB' 2**30, '32 GiB' 2**35, \
                       '1 TiB' 2**40, '32 TiB' 2**45)
            do for [i=1:words(tables)] {
                set title word(table_titles, i)
                plot for [r=1:words(run)] for [e=nth(r):nth(r)] 'memory.csv' \
                         using 'len':(need(e, word(tables, i)) ? above_0(column('bytes_workspace')) : NaN) \
                         with linespoints lc rgb colour[e] pt shape[e] lw 2, \
                     'results.csv' using 'len':(arguments(word(tables, i))) with lines lc rgb '#555555' lw 2 dt 4, \
                     for [once=1:(limit > 0 ? 1 : 0)] limit with lines dt 2 lw 2 lc rgb '#000000'
            }
            @legend
            plot -1 notitle, for [r=1:words(run)] for [e=nth(r):nth(r)] keyentry with linespoints lc rgb colour[e] \
                     pt shape[e] lw 2 \
                     title word(titles, e), \
                 keyentry with lines lc rgb '#555555' lw 2 dt 4 title 'the arguments themselves', \
                 for [once=1:(limit > 0 ? 1 : 0)] keyentry with lines dt 2 lw 2 lc rgb '#000000' \
                     title 'memory available'
            @end
        }
    }

    if (picture eq 'roofline') {
        intensity(x) = column('flops')/column('bytes_working_set')
        stats 'results.csv' using (chain(dtype) ? intensity(0) : NaN) nooutput
        first = STATS_min/2
        last = STATS_max*2
        stats 'results.csv' using (chain(dtype) ? above_0(column('gflops')) : NaN) nooutput
        lowest = STATS_min
        highest = larger(STATS_max, peak)
        stats 'results.csv' using (chain(dtype) ? above_0(column('read_peak_gbytes_per_s')) : NaN) nooutput
        slow = STATS_min
        fast = STATS_max
        stats 'results.csv' using (chain(dtype) ? column('blas_peak_gflops') : NaN) nooutput
        product = STATS_max
        roof(x, rate) = x*rate < peak ? x*rate : peak
        headline = sprintf('Roofline, %s, %s: every problem of the sweep', precision, at_work)
        stats 'results.csv' using (chain(dtype) ? doubtful(0) : 0) nooutput
        rings = STATS_max > 0 ? 1 : 0
        discard = sheet(1, 4 + rings)
        do for [format in 'svg png'] {
            @begin
            @rates
            set logscale x 2
            set xlabel 'operations per byte of arguments and workspace'
            set format x '%g'
            set xrange [first : last]
            set samples 400
            plot roof(x, fast) with lines lw 2 lc rgb '#555555', \
                 roof(x, slow) with lines lw 2 dt 4 lc rgb '#555555', \
                 product with lines lw 1 dt 2 lc rgb '#000000', \
                 for [r=1:words(run)] for [e=nth(r):nth(r)] 'results.csv' \
                     using (chain(dtype) && strcol('engine') eq word(engines, e) ? intensity(0) : NaN):'gflops' \
                     with points lc rgb colour[e] pt shape[e], \
                 for [once=1:rings] 'results.csv' using (chain(dtype) && doubtful(0) ? intensity(0) : NaN):'gflops' @ring
            @legend
            set key samplen 5
            plot -1 notitle, keyentry with lines lw 2 lc rgb '#555555' \
                     title sprintf('roof, fastest reading: %.0f GB/s', fast), \
                 keyentry with lines lw 2 dt 4 lc rgb '#555555' title sprintf('roof, slowest reading: %.0f GB/s', slow), \
                 keyentry with lines lw 1 dt 2 lc rgb '#000000' title 'best BLAS product', \
                 for [r=1:words(run)] for [e=nth(r):nth(r)] keyentry with points lc rgb colour[e] pt shape[e] \
                     title word(titles, e), \
                 for [once=1:rings] keyentry @ring title ring_title
            @end
        }
    }

    if (picture eq 'scaling') {
        if (is_empty('scaling.csv')) { continue }
        problem = ''
        stats 'scaling.csv' using (strlen(problem = kind eq 'sdpa' ? strcol('shape') : sprintf('d_model %s, heads %s, \
length %s', strcol('d_model'), strcol('heads'), strcol('len')))) nooutput
        stats 'scaling.csv' using 'threads' nooutput
        most = STATS_max
        array one[5]
        do for [e=1:5] {
            stats 'scaling.csv' using (strcol('engine') eq word(engines, e) && column('threads') == 1 ? \
                                       column('gflops') : 0) nooutput
            one[e] = STATS_max
        }
        headline = sprintf('Scaling over threads, %s, %s', problem, precision)
        alone = ''
        note_alone(x) = (column('threads') == 1 && doubtful(0) ? (alone = alone.' '.strcol('engine')) : '')
        stats 'scaling.csv' using (strlen(note_alone(0))) nooutput
        doubt(x) = doubtful(0) || !lacks(alone, strcol('engine'))
        stats 'scaling.csv' using (doubt(0)) nooutput
        rings = STATS_max > 0 ? 1 : 0
        discard = sheet(1, 2 + rings)
        do for [format in 'svg png'] {
            @begin
            set xlabel 'threads'
            set ylabel 'times the rate of one thread'
            set xtics 1, larger(1, ceil(most/8.0))
            set xrange [0.9 : most + 0.1]
            set yrange [0 : most*1.15]
            plot x with lines dt 2 lw 2 lc rgb '#555555', \
                 for [r=1:words(run)] for [e=nth(r):nth(r)] 'scaling.csv' \
                     using 'threads':(strcol('engine') eq word(engines, e) ? column('gflops')/one[e] : NaN) \
                     with linespoints lc rgb colour[e] pt shape[e] lw 2, \
                 for [once=1:rings] for [r=1:words(run)] for [e=nth(r):nth(r)] 'scaling.csv' \
                     using 'threads':(strcol('engine') eq word(engines, e) && doubt(0) ? column('gflops')/one[e] : NaN) @ring
            @legend
            plot -1 notitle, keyentry with lines dt 2 lw 2 lc rgb '#555555' title 'as many times as threads', \
                 for [r=1:words(run)] for [e=nth(r):nth(r)] keyentry with linespoints lc rgb colour[e] pt shape[e] \
                     lw 2 title word(titles, e), \
                 for [once=1:rings] keyentry @ring title ring_title
            @end
        }
    }

    if (picture eq 'stages') {
        if (is_empty('stages.csv')) { continue }
        stats 'stages.csv' using (strlen(note_case(name(0)))) nooutput
        total(x) = column('ms_project') + column('ms_scores') + column('ms_softmax') + column('ms_combine') + \
                   column('ms_rest')
        upto(k) = 100/total(0)*(column('ms_project') + (k > 1 ? column('ms_scores') : 0) + \
                  (k > 2 ? column('ms_softmax') : 0) + (k > 3 ? column('ms_combine') : 0) + \
                  (k > 4 ? column('ms_rest') : 0))
        shown = ''
        do for [e=1:5] { if (has(e)) { shown = shown.word(engines, e).' ' } }
        place(s) = words(shown[1:strstrt(shown, s)])
        headline = sprintf('Share of the time per stage, %s, %s, from instrumented runs', precision, \
                           at_work)
        discard = sheet(words(cases), 1)
        do for [format in 'svg png'] {
            @begin
            set ylabel 'share of the time (%)'
            set xrange [0.4 : words(shown) + 0.6]
            set yrange [0 : 105]
            set ytics 0, 20, 100
            set xtics scale 0 ()
            do for [e=1:words(shown)] { set xtics add (word(shown, e) e) }
            set style fill solid 1 border lc rgb '#ffffff'
            set boxwidth 0.7
            do for [i=1:words(cases)] {
                set title word(case_titles, i)
                plot for [j=1:5] 'stages.csv' \
                         using (name(0) eq word(cases, i) ? place(strcol('engine')) : NaN):(upto(6-j)) \
                         with boxes lc rgb stage_colour[6-j]
            }
            @legend
            plot -1 notitle, for [j=1:5] keyentry with boxes lc rgb stage_colour[j] title word(stages, j)
            @end
        }
    }
}
