/* Drawing: one gnuplot process for each script. The pictures are drawn under temporary names and renamed. */
#include "report_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *const endings[] = {"svg", "pdf", "png"};
enum { ENDINGS = 3 };

/* Starts gnuplot with its messages going to *messages, the end of a pipe. 0, or an errno value and nothing to close. */
static int start(const char *program, const char *script, const char *setting, pid_t *child, int *messages)
{
    /* -d: without the user's init files, which could change fonts and formats. */
    char *arguments[] = {(char *)program, (char *)"-d", (char *)"-e", (char *)setting, (char *)script, NULL};
    int ends[2];
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return errno;
    int status = posix_spawn_file_actions_init(&actions);
    if (status == 0) {
        status = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (status == 0)
            status = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (status == 0)
            status = posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
        if (status == 0)
            status = posix_spawn_file_actions_addclose(&actions, ends[0]);
        if (status == 0)
            status = posix_spawn_file_actions_addclose(&actions, ends[1]);
        if (status == 0)
            status = posix_spawnp(child, program, &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (status != 0)
        close(ends[0]);
    *messages = ends[0];
    return status;
}

/* Reads to the end, keeping what fits. */
static void read_messages(int descriptor, char *text, size_t size)
{
    size_t filled = 0;
    char rest[256];
    for (;;) {
        char *to = filled + 1 < size ? text + filled : rest;
        const size_t room = filled + 1 < size ? size - 1 - filled : sizeof rest;
        const ssize_t got = read(descriptor, to, room);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (got > 0 && to != rest)
            filled += (size_t)got;
    }
    text[filled] = '\0';
    close(descriptor);
}

/* The last line that says something: gnuplot prints the offending command first. */
static const char *last_line(char *text)
{
    size_t length = strlen(text);
    while (length > 0 && strchr("\n\r ", text[length - 1]))
        text[--length] = '\0';
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

/* A gnuplot string literal with `text` in it. */
static const char *quoted(report *r, const char *text)
{
    const char *quote = strchr(text, '\'');
    if (!quote)
        return text;
    return report_text(r, "%.*s''%s", (int)(quote - text), text, quoted(r, quote + 1));
}

static int no_picture(report *r, const char *reason)
{
    if (!r->no_pictures)
        r->no_pictures = reason;
    return -1;
}

static int run(report *r, const char *script, const char *base)
{
    const char *setting = report_text(r, "base='%s'", quoted(r, base));
    pid_t child = 0;
    int messages = -1;
    char text[1024];
    const int failure = start(r->gnuplot, script, setting, &child, &messages);
    if (failure) {
        r->gnuplot_missing = 1;
        return no_picture(r, report_text(r, "cannot run %s: %s", r->gnuplot, strerror(failure)));
    }
    read_messages(messages, text, sizeof text);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return no_picture(r, report_text(r, "%s failed on %s: %s", r->gnuplot, script, last_line(text)));
    return 0;
}

/* Pictures of an earlier report would not show this one's data. */
static void remove_pictures(report *r, const char *base)
{
    for (size_t i = 0; i < ENDINGS; i++)
        unlink(report_text(r, "%s.%s", base, endings[i]));
}

static an_report_status draw(report *r, report_figure *figure)
{
    const char *base = report_text(r, "%s/figures/%s", r->out, figure->name);
    const char *script = report_text(r, "%s.gp", base), *part = report_text(r, "%s.part", base);
    remove_pictures(r, base);
    if (r->gnuplot_missing || r->status != AN_REPORT_OK)
        return r->status;
    if (run(r, script, part) != 0) {
        remove_pictures(r, part);
        return r->status;
    }
    for (size_t i = 0; i < ENDINGS; i++) {
        const char *from = report_text(r, "%s.%s", part, endings[i]), *to = report_text(r, "%s.%s", base, endings[i]);
        struct stat info;
        if (stat(from, &info) != 0 || info.st_size == 0 || rename(from, to) != 0)
            return report_fail(r, AN_REPORT_IO, "cannot write %s: %s", to, strerror(errno ? errno : ENOSPC));
    }
    figure->drawn = 1;
    return r->status;
}

an_report_status report_draw(report *r)
{
    for (size_t i = 0; i < r->figures && r->status == AN_REPORT_OK; i++)
        if (r->figure[i].name)
            draw(r, &r->figure[i]);
    return r->status;
}
