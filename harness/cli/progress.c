/* Progress: a carriage return, a line cut to the terminal's width, and erase to the end of the line. */
#include "cli/progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR = 20, MAX_LINE = 512 };

int sb_progress_draws(FILE *out, int quiet)
{
    return !quiet && isatty(fileno(out));
}

void sb_progress_begin(sb_progress *progress, FILE *out, int quiet, size_t points, double predicted_ns)
{
    memset(progress, 0, sizeof *progress);
    progress->out = sb_progress_draws(out, quiet) ? out : NULL;
    progress->total = points;
    progress->predicted_ns = predicted_ns;
}

double sb_progress_left_ns(const sb_progress *progress)
{
    double left = fmax(0.0, progress->predicted_ns - progress->passed_ns);
    double factor =
        progress->measured_predicted_ns > 0.0 ? progress->measured_ns / progress->measured_predicted_ns : 1.0;
    return left * factor;
}

static size_t terminal_width(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

void sb_progress_point(sb_progress *progress, const char *label)
{
    if (!progress->out)
        return;
    char bar[BAR + 1], eta[32], line[MAX_LINE];
    size_t filled = progress->total > 0 ? BAR * progress->done / progress->total : 0;
    for (size_t i = 0; i < BAR; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR] = '\0';
    sb_duration_text(sb_progress_left_ns(progress), eta, sizeof eta);
    snprintf(line, sizeof line, "[%s] %zu/%zu  ETA %s  %s", bar, progress->done, progress->total, eta, label);
    size_t width = terminal_width(progress->out) - 1;
    fprintf(progress->out, "\r%.*s\033[K", (int)(width < MAX_LINE ? width : MAX_LINE - 1), line);
    fflush(progress->out);
    progress->drawn = 1;
}

void sb_progress_done(sb_progress *progress, double predicted_ns, double elapsed_ns)
{
    progress->done++;
    progress->passed_ns += predicted_ns;
    if (elapsed_ns > 0.0) {
        progress->measured_ns += elapsed_ns;
        progress->measured_predicted_ns += predicted_ns;
    }
}

void sb_progress_clear(sb_progress *progress)
{
    if (!progress->out || !progress->drawn)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->drawn = 0;
}

void sb_duration_text(double ns, char *text, size_t size)
{
    double s = ns / 1e9;
    if (s < 0.9995)
        snprintf(text, size, "%.0f ms", s * 1e3);
    else if (s < 99.5)
        snprintf(text, size, s < 9.95 ? "%.1f s" : "%.0f s", s);
    else if (s < 5970.0)
        snprintf(text, size, "%.0f min", s / 60.0);
    else {
        double minutes = round(s / 60.0);
        snprintf(text, size, "%.0f h %02.0f min", floor(minutes / 60.0), fmod(minutes, 60.0));
    }
}
