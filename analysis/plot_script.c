/* The parts that every gnuplot script shares: strings, terminals, legends, axes and their ticks. */
#include "plot.h"
#include "table_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRING_MAX = 52, /* characters: what one column of a paper holds beside a legend's sample */
    TITLE_MAX = 78   /* what a line of a picture on a screen holds */
};

static size_t characters(const char *text, const char *end)
{
    size_t length = 0;
    for (; text < end; length++)
        table_code_point(&text);
    return length;
}

size_t plot_string_length(const char *text)
{
    const size_t length = characters(text, text + strlen(text));
    return length < STRING_MAX ? length : STRING_MAX;
}

/* Single quotes: gnuplot expands nothing inside them (no backslashes, backquotes or macros), a quote is doubled. Of a
 * text longer than `max` the middle is left out. */
static void put_string(const char *text, const char *end, size_t max, int tic, FILE *out)
{
    const size_t length = characters(text, end), cut = length > max ? length - max + 1 : 0;
    fputc('\'', out);
    for (size_t i = 0; text < end; i++) {
        const char *begin = text;
        const uint32_t code = table_code_point(&text);
        if (i >= max / 2 && i < max / 2 + cut) {
            if (i == max / 2)
                fputs("\xe2\x80\xa6", out); /* an ellipsis */
        } else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code == 0xfffd && text - begin == 1)) {
            fputc(' ', out);
        } else {
            if (code == '\'' || (code == '%' && tic))
                fputc((int)code, out);
            fwrite(begin, 1, (size_t)(text - begin), out);
        }
    }
    fputc('\'', out);
}

void plot_string(const char *text, FILE *out)
{
    put_string(text, text + strlen(text), STRING_MAX, 0, out);
}

void plot_tic_string(const char *text, FILE *out)
{
    put_string(text, text + strlen(text), STRING_MAX, 1, out);
}

/* Where a title's line that begins at `text` ends: after the last comma that fits, after the first if none does. */
static const char *title_line(const char *text)
{
    const char *end = text + strlen(text), *best = NULL;
    if (characters(text, end) <= TITLE_MAX)
        return end;
    size_t length = 0;
    for (const char *at = text; *at;) {
        const int comma = table_code_point(&at) == ',';
        length++;
        if (best && length > TITLE_MAX)
            break;
        if (comma && *at == ' ')
            best = at;
    }
    return best ? best : end;
}

static size_t title_lines(const char *text)
{
    size_t lines = 1;
    for (text = title_line(text); *text; text = title_line(text + 1))
        lines++;
    return lines;
}

void plot_title(const char *text, FILE *out)
{
    for (;;) {
        const char *end = title_line(text);
        put_string(text, end, TITLE_MAX, 0, out);
        if (!*end)
            return;
        fputs(".\"\\n\".", out); /* only double quotes know a new line */
        text = end + 1;          /* a blank follows the comma */
    }
}

void plot_short_number(double value, char *text, size_t size)
{
    snprintf(text, size, value >= 999.5 ? "%.0f" : "%.3g", value);
}

void plot_number(double value, FILE *out)
{
    if (isfinite(value))
        fprintf(out, " %.9g", value);
    else
        fputs(" ?", out);
}

static void put_comment(const char *before, const char *text, FILE *out)
{
    fputs(before, out);
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    fputc('\n', out);
}

void plot_begin(const char *title, const char *source, FILE *out)
{
    put_comment("# ", title, out);
    put_comment("# Data: ", source, out);
    fputs("# Draw it again with: gnuplot THIS-FILE (writes .svg, .pdf and .png beside it)\n"
          "if (!exists('base')) base = ARG0[1:strlen(ARG0)-3]\n"
          "set datafile missing '?'\n"
          "set termoption noenhanced\n"
          "set format '%g'\n" /* the default begins with a blank, which moves labels off their ticks */
          "set border 3 linewidth 0.8 linecolor rgb '#404040'\n"
          "set tics nomirror out scale 0.6\n"
          "set grid xtics ytics back linetype 1 linewidth 0.5 linecolor rgb '#dddddd'\n"
          "set errorbars 0.6\n"
          "set rmargin at screen 0.97\n",
          out);
}

/* The three kinds of picture. DejaVu Sans comes with gnuplot on Debian and Ubuntu; a font that only some machines have
 * would be replaced by a wider one on the others, and legends would run out of the picture. The lengths are those of the
 * fonts as gnuplot draws them, measured: a legend column is
 * as wide as the longest entry's characters times `glyph` plus `sample`. gnuplot itself reckons with 1/slim of that. */
typedef struct terminal {
    const char *kind, *options; /* without the size */
    double width;               /* pixels, or points for the PDF; so are the lengths below */
    double unit;                /* the terminal's size is given in width / unit ... */
    const char *suffix;         /* ... of this */
    double title, axis;         /* height above the plot; of tick labels and axis label under it */
    double line, glyph, sample; /* of the legend */
} terminal;

static const double slim = 0.9;

static const terminal terminals[] = {
    {"svg", "font 'DejaVu Sans,Verdana,sans-serif,12.4' background rgb 'white' linewidth 1.5", 760, 1, "", 40, 62, 22.1,
     8.8, 55},
    {"pdf", "font 'DejaVu Sans,5.3' fontscale 1 linewidth 1 pointscale 0.5", 241.2, 72, "in", 5, 28, 8.5, 4.0, 23.5},
    {"png", "font 'DejaVu Sans,11.4' fontscale 2 linewidth 2.8 pointscale 2.2", 1520, 1, "", 80, 124, 37.5, 17.1, 99},
};

/* gnuplot lets a vertical legend be as high as the plot and a horizontal one as wide, and rearranges what is larger.
 * So the legend is vertical while it is low enough, else a single column, which counts as horizontal. */
static void set_layout(const terminal *t, const plot_frame *frame, size_t lines, FILE *out)
{
    const double entry = t->glyph * (double)frame->longest_entry + t->sample;
    const double plot_height = t->width * frame->height;
    const size_t columns = (size_t)fmax(1, floor(t->width / entry));
    size_t rows = (frame->entries + columns - 1) / columns;
    const int vertical = columns > 1 && t->line * (double)rows < plot_height;
    rows = vertical ? rows : frame->entries;
    const double under = t->axis + t->line * ((double)rows + 0.6);
    const double above = t->title + t->line * (double)(lines - 1);
    const double height = above + plot_height + under;
    fprintf(out, "        set terminal %s%s noenhanced size %.4g%s,%.4g%s %s\n", t->kind,
            strcmp(t->kind, "svg") == 0 ? "" : "cairo", t->width / t->unit, t->suffix, height / t->unit, t->suffix,
            t->options);
    fprintf(out, "        set tmargin at screen %.4f\n        set bmargin at screen %.4f\n", 1 - above / height,
            under / height);
    fprintf(out,
            "        set key at screen 0.5, screen %.4f center bottom %s %zu Left reverse samplen 2.5 spacing 1.05 "
            "width %.2f\n",
            0.3 * t->line / height, vertical ? "vertical maxrows" : "horizontal maxcols", vertical ? rows : 1,
            (slim - 1) * (double)frame->longest_entry);
}

void plot_begin_drawing(const char *title, const plot_frame *frame, FILE *out)
{
    const size_t lines = title_lines(title);
    fputs("do for [kind in 'svg pdf png'] {\n", out);
    for (size_t i = 0; i < sizeof terminals / sizeof *terminals; i++) {
        const terminal *t = &terminals[i];
        fprintf(out, "    if (kind eq '%s') {\n", t->kind);
        const int titled = strcmp(t->kind, "pdf") != 0;
        set_layout(t, frame, titled ? lines : 1, out);
        if (!titled) {
            fputs("        unset title\n", out);
        } else {
            fputs("        set title ", out);
            plot_title(title, out);
            fputs(" noenhanced\n", out);
        }
        fputs("    }\n", out);
    }
    fputs("    set output base.'.'.kind\n", out);
}

void plot_end_drawing(FILE *out)
{
    fputs("    unset output\n}\n", out);
}

/* Ticks of a logarithmic axis: the coarsest set of mantissas that gives at least three. */
static void log_tics(const char *which, double min, double max, FILE *out)
{
    static const struct {
        size_t count;
        double mantissa[16];
    } sets[] = {
        {1, {1}},
        {3, {1, 2, 5}},
        {7, {1, 1.5, 2, 3, 4, 5, 7}},
        {16, {1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9}},
    };
    const int first = (int)floor(log10(min)), last = (int)floor(log10(max));
    const int stride = (last - first) / 8 + 1; /* decades between ticks where there are very many */
    size_t chosen = 0;
    for (; chosen + 1 < sizeof sets / sizeof *sets; chosen++) {
        size_t inside = 0;
        for (int decade = first; decade <= last; decade++)
            for (size_t i = 0; i < sets[chosen].count; i++) {
                const double tic = sets[chosen].mantissa[i] * pow(10, decade);
                inside += tic >= min && tic <= max;
            }
        if (inside >= 3)
            break;
    }
    fprintf(out, "set %stics (", which);
    const char *separator = "";
    for (int decade = first; decade <= last; decade++) {
        const int labelled = chosen > 0 || (decade - first) % stride == 0;
        for (size_t i = 0; labelled && i < sets[chosen].count; i++) {
            const double tic = sets[chosen].mantissa[i] * pow(10, decade);
            if (tic < min || tic > max)
                continue;
            fprintf(out, "%s'%.9g' %.9g", separator, tic, tic);
            separator = ", ";
        }
        for (int m = 2; chosen == 0 && stride == 1 && m < 10; m++) {
            const double tic = m * pow(10, decade);
            if (tic < min || tic > max)
                continue;
            fprintf(out, "%s'' %.9g 1", separator, tic);
            separator = ", ";
        }
    }
    fputs(")\n", out);
}

static void put_length(double length, FILE *out)
{
    const long long tokens = (long long)length, k = 1024;
    if (tokens % (k * k) == 0)
        fprintf(out, "'%lldm' %lld", tokens / (k * k), tokens);
    else if (tokens % k == 0)
        fprintf(out, "'%lldk' %lld", tokens / k, tokens);
    else
        fprintf(out, "'%lld' %lld", tokens, tokens);
}

static int compare_lengths(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Ticks at the lengths measured, if they are apart enough to be read; else at powers of two. */
static void token_tics(const char *which, double min, double max, const double *value, size_t count, FILE *out)
{
    enum { TICS_MAX = 9 };
    const double apart = 1.3;
    double length[TICS_MAX];
    size_t lengths = 0;
    int crowded = 0;
    double *sorted = malloc((count ? count : 1) * sizeof *sorted);
    if (sorted) {
        memcpy(sorted, value, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_lengths);
    }
    for (size_t i = 0; sorted && i < count && !crowded; i++) {
        if (lengths && sorted[i] <= length[lengths - 1])
            continue;
        if (lengths == TICS_MAX || (lengths && sorted[i] < apart * length[lengths - 1]))
            crowded = 1;
        else
            length[lengths++] = sorted[i];
    }
    free(sorted);
    if (crowded) {
        const double octaves = log2(max / min), stride = exp2(ceil(octaves / TICS_MAX));
        lengths = 0;
        for (double tic = exp2(ceil(log2(min))); tic <= max && lengths < TICS_MAX; tic *= stride)
            length[lengths++] = tic;
    }
    fprintf(out, "set %stics (", which);
    for (size_t i = 0; i < lengths; i++) {
        if (i)
            fputs(", ", out);
        put_length(length[i], out);
    }
    fputs(")\n", out);
}

void plot_write_axis(const char *which, const plot_axis *axis, double min, double max, const double *value,
                     size_t count, FILE *out)
{
    fprintf(out, "set %slabel ", which);
    plot_string(axis->label, out);
    fputs(" noenhanced\n", out);
    const int wide = axis->scale == PLOT_RATE && max > 20 * min;
    switch (wide ? PLOT_LOG : axis->scale) {
    case PLOT_RATE:
        fprintf(out, "set %srange [0:%.6g]\n", which, max > 0 ? max * 1.08 : 1);
        return;
    case PLOT_SHARE:
        /* A little room left of 0, where dense methods stand. */
        fprintf(out, "set %srange [%s:%.6g]\nset %stics 0.1\n", which, strcmp(which, "x") == 0 ? "-0.02" : "0",
                fmin(1.02, fmax(0.2, ceil(max * 10 + 0.2) / 10)), which);
        return;
    case PLOT_LOG:
    case PLOT_TOKENS: {
        const int tokens = axis->scale == PLOT_TOKENS;
        const double room = tokens ? 1.12 : 1.3;
        const double widen = max / min < 2 ? sqrt(2 / (max / min)) : 1; /* at least one octave */
        const double low = min / (room * widen), high = max * room * widen;
        fprintf(out, "set logscale %s %d\nset %srange [%.6g:%.6g]\n", which, tokens ? 2 : 10, which, low, high);
        if (tokens)
            token_tics(which, low, high, value, count, out);
        else
            log_tics(which, low, high, out);
        return;
    }
    }
}
