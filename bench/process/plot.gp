# SPDX-License-Identifier: GPL-2.0-only
# Draws DIR/process.svg from DIR/process-medians.csv:
#   gnuplot -e "folder='DIR'; sizes='64 256 1024'; threads=16" plot.gp
set datafile separator ","
set datafile missing NaN	# so that lines continue across left-out rows
file = folder."/process-medians.csv"
set terminal svg size 1150,480*((words(sizes)+2)/2) font "sans,13" background "white"
set output folder."/process.svg"

# columns: size_mb threads dirty_pct what metric median least most unit
is(what, metric) = (strcol(4) eq what && strcol(5) eq metric && $2 == threads)
# ms against % of pages changed, for the current size
changed(what, metric) = (is(what, metric) && $1 == size && strcol(3) ne "" ? $6 / 1e6 : NaN)
always(what, metric) = (is(what, metric) && $1 == size ? $6 / 1e6 : NaN)
# ms against MB
sized(what, metric) = (is(what, metric) ? $6 / 1e6 : NaN)

set multiplot layout (words(sizes)+2)/2,2 title sprintf("Medians, %d threads, ms", threads)
set grid lc rgb "#dddddd"
set logscale xy
set ylabel "ms"
set key bmargin horizontal maxcols 3 width -4 samplen 1.5 font ",9"
set xlabel "% of pages changed" offset 0,0.4
set bmargin 8.5
set xrange [0.8:125]
do for [word in sizes] {
	size = int(word)
	criu = NaN
	stats file using (always("criu restore", "kill and restore")) nooutput
	criu = STATS_mean
	set title sprintf("rolling back %d MB", size)
	plot criu title "CRIU: kill and restore" lw 2 dt 2 lc rgb "#cc3311", \
	     file using 3:(changed("pause untracked", "operation")) title "pause, not tracked" with points pt 6 lc rgb "#0077bb", \
	     file using 3:(changed("pause", "command")) title "pause, the whole command" with linespoints pt 4 lc rgb "#33bbee", \
	     file using 3:(changed("pause", "operation")) title "pause" with linespoints pt 7 lc rgb "#0077bb", \
	     file using 3:(changed("first rollback", "operation")) title "snapshot in memory, first rollback" with linespoints pt 5 lc rgb "#009988", \
	     file using 3:(changed("later rollback", "operation")) title "the same, later ones" with linespoints pt 9 lc rgb "#117733", \
	     file using 3:(changed("fork", "operation")) title "end the child, fork again" with linespoints pt 2 lc rgb "#aa4499", \
	     file using 3:(changed("memcpy", "operation")) title "memcpy" with linespoints pt 1 lc rgb "#555555"
}
set title "saving"
set xlabel "MB"
set xrange [50:1300]
set xtics 16,4
plot file using 1:(sized("criu dump", "command")) title "CRIU: dump" with linespoints pt 6 lc rgb "#cc3311", \
     file using 1:(sized("checkpoint", "command")) title "checkpoint" with linespoints pt 6 lc rgb "#0077bb", \
     file using 1:(sized("criu dump", "frozen")) title "CRIU: threads stand still" with linespoints pt 7 dt 2 lc rgb "#cc3311", \
     file using 1:(sized("checkpoint", "frozen")) title "checkpoint: threads stand still" with linespoints pt 7 dt 2 lc rgb "#0077bb"
unset multiplot
