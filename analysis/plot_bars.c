/* Figures with one row a name: stage times as stacked bars, self-similarity as dots. */
#include "plot.h"

#include <math.h>

/* Light to dark, apart in brightness too (ColorBrewer BrBG); not a method's colour. */
static const char *const stage_name[] = {"prepare", "select", "attend"};
static const char *const stage_colour[] = {"#dfc27d", "#8c510a", "#5ab4ac"};

static double widest(const plot_bar *bar, size_t count)
{
    double max = 0;
    for (size_t i = 0; i < count; i++) {
        max = fmax(max, bar[i].stage[0] + bar[i].stage[1] + bar[i].stage[2]);
        max = fmax(max, fmax(bar[i].total.value, bar[i].total.high)); /* fmax passes over a NAN */
    }
    return max;
}

int plot_write_bars(const char *title, const char *source, const plot_bar *bar, size_t count, FILE *out)
{
    const double max = widest(bar, count);
    /* Label above its bar: a long name costs no width. */
    const plot_frame frame = {.height = 0.04 + 0.082 * (double)count, .entries = 4, .longest_entry = 17};
    plot_begin(title, source, out);
    fputs("# row prepare select attend total low high\n$bars << EOD\n", out);
    for (size_t i = 0; i < count; i++) {
        plot_number((double)i, out);
        for (size_t s = 0; s < 3; s++)
            plot_number(bar[i].stage[s], out);
        plot_number(bar[i].total.value, out);
        plot_number(bar[i].total.low, out);
        plot_number(bar[i].total.high, out);
        fputc('\n', out);
    }
    fputs("EOD\n", out);
    fprintf(out, "set xlabel 'time (ms)' noenhanced\nset xrange [0:%.6g]\n", max > 0 ? max * 1.14 : 1);
    fprintf(out, "set yrange [%.6g:-0.75]\nunset ytics\nset grid noytics\nset border 1\n", (double)count - 0.6);
    fputs("set style fill solid noborder\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "set label %zu ", 2 * i + 1);
        plot_string(bar[i].label, out);
        fprintf(out, " noenhanced at graph 0.004, first %.2f left front\n", (double)i - 0.45);
        if (!isfinite(bar[i].total.value))
            continue;
        const double stages = bar[i].stage[0] + bar[i].stage[1] + bar[i].stage[2];
        char time_ms[32];
        plot_short_number(bar[i].total.value, time_ms, sizeof time_ms);
        fprintf(out, "set label %zu '%s' at first %.6g, first %zu left offset 0.6,0 front\n", 2 * i + 2, time_ms,
                fmax(bar[i].total.value, fmax(bar[i].total.high, stages)), i);
    }
    plot_begin_drawing(title, &frame, out);
    fputs("    plot ", out);
    static const char *const begin[] = {"0", "$2", "$2+$3"};
    static const char *const end[] = {"$2", "$2+$3", "$2+$3+$4"};
    for (size_t s = 0; s < 3; s++)
        fprintf(out,
                "$bars using (((%s)+(%s))/2.):1:(%s):(%s):($1-0.2):($1+0.22) with boxxyerror "
                "fillcolor rgb '%s' title '%s', \\\n        ",
                begin[s], end[s], begin[s], end[s], stage_colour[s], stage_name[s]);
    fputs("$bars using 5:1:6:7 with xerrorbars linecolor rgb 'black' pointsize 0 notitle, \\\n"
          "        $bars using 5:1 with points pointtype 12 linecolor rgb 'black' title 'total, on its own'\n",
          out);
    plot_end_drawing(out);
    return ferror(out) ? -1 : 0;
}

/* 1, 2 or 5 times a power of ten: about three ticks from 0 to max. */
static double tic_step(double max)
{
    const double rough = max / 3, decade = pow(10, floor(log10(rough)));
    const double mantissa = rough / decade;
    return decade * (mantissa < 1.5 ? 1 : mantissa < 3.5 ? 2 : mantissa < 7.5 ? 5 : 10);
}

/* Two panels side by side: shares from 0 (or the lowest similarity) to 1, and the error. They share the rows' names. */
int plot_write_orders(const char *title, const char *source, const plot_order *order, size_t count, FILE *out)
{
    const plot_frame frame = {.height = 0.06 + 0.055 * (double)count, .entries = 4, .longest_entry = 17};
    double worst = 0, lowest = 0;
    size_t longest = 0;
    plot_begin(title, source, out);
    fputs("# row sim_q sim_k sparsity rel_l1\n$orders << EOD\n", out);
    for (size_t i = 0; i < count; i++) {
        plot_number((double)i, out);
        plot_number(order[i].sim_q, out);
        plot_number(order[i].sim_k, out);
        plot_number(order[i].sparsity, out);
        plot_number(order[i].rel_l1, out);
        fputc('\n', out);
        longest = plot_string_length(order[i].name) > longest ? plot_string_length(order[i].name) : longest;
        worst = fmax(worst, order[i].rel_l1);
        lowest = fmin(lowest, fmin(order[i].sim_q, order[i].sim_k));
    }
    worst = worst > 0 ? worst * 1.15 : 1;
    fputs("EOD\n", out);
    fprintf(out, "set yrange [%.6g:-0.5]\n", (double)count - 0.5);
    plot_begin_drawing(title, &frame, out);
    fputs("    unset title\n    set ytics (", out); /* the panels' own: the title is that of both */
    for (size_t i = 0; i < count; i++) {
        if (i)
            fputs(", ", out);
        plot_tic_string(order[i].name, out);
        fprintf(out, " %zu", i);
    }
    fputs(")\n", out);
    fputs("    set multiplot title (kind eq 'pdf' ? '' : ", out);
    plot_title(title, out);
    fputs(") noenhanced\n", out);
    fprintf(out,
            "    set lmargin at screen %.3f\n"
            "    set rmargin at screen 0.58\n"
            "    set xlabel 'similarity, sparsity (share)' noenhanced\n"
            "    set xrange [%.3g:1]\n"
            "    set xtics 0.2\n"
            /* The other panel's entry, so that one legend serves both. */
            "    plot $orders using 2:1 with points pointtype 7 linecolor rgb '#0072b2' title 'Q similarity', \\\n"
            "        $orders using 3:1 with points pointtype 4 linecolor rgb '#d55e00' title 'K similarity', \\\n"
            "        $orders using 4:1 with points pointtype 9 linecolor rgb '#000000' title 'sparsity', \\\n"
            "        NaN with points pointtype 13 linecolor rgb '#cc79a7' title 'relative L1 error'\n"
            "    set lmargin at screen 0.64\n"
            "    set rmargin at screen 0.97\n"
            "    set ytics 1 format ''\n"
            "    set xlabel 'relative L1 error' noenhanced\n"
            "    set xrange [0:%.6g]\n"
            "    set xtics %.6g\n"
            "    plot $orders using 5:1 with points pointtype 13 linecolor rgb '#cc79a7' notitle\n"
            "    unset multiplot\n",
            fmin(0.04 + 0.0185 * (double)longest, 0.4), floor(lowest * 5) / 5, worst, tic_step(worst));
    plot_end_drawing(out);
    return ferror(out) ? -1 : 0;
}
