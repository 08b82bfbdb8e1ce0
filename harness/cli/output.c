/* Output of tables. Standard output is only flushed here; main() reports what could not be written to it. */
#include "cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int is_stdout(const char *path)
{
    return !path || strcmp(path, "-") == 0;
}

int sb_output_format(const sb_arguments *arguments, an_format *format)
{
    const char *name = sb_argument(arguments, "format");
    if (!name || !an_format_parse(name, format))
        return sb_fail(SB_EXIT_USAGE, "--format '%s' is none of table, md, csv, json, jsonl", name ? name : "");
    return SB_EXIT_OK;
}

/* Results take hours to measure: no slip of the tongue (`export a.db -o a.db`) may replace them with a table. */
static int is_database(const char *path)
{
    static const char magic[16] = "SQLite format 3"; /* with its NUL */
    char begin[sizeof magic];
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    size_t length = fread(begin, 1, sizeof begin, file);
    fclose(file);
    return length == sizeof magic && memcmp(begin, magic, sizeof magic) == 0;
}

static FILE *open_output(const char *path)
{
    if (is_stdout(path))
        return stdout;
    if (is_database(path)) {
        sb_fail(SB_EXIT_ENVIRONMENT, "cannot write '%s': it is a database, which a table would destroy", path);
        return NULL;
    }
    FILE *out = fopen(path, "w");
    if (!out)
        sb_fail(SB_EXIT_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
    return out;
}

static int close_output(FILE *out, const char *path)
{
    if (is_stdout(path))
        return SB_EXIT_OK;
    int failed = ferror(out);
    errno = 0;
    if (fclose(out) != 0 || failed)
        return sb_fail(SB_EXIT_ENVIRONMENT, "cannot write '%s': %s", path,
                       errno ? strerror(errno) : "an earlier write failed");
    return SB_EXIT_OK;
}

int sb_output_table(const sb_arguments *arguments, const an_table *table, const char *path)
{
    an_format format;
    int code = sb_output_format(arguments, &format);
    if (code != SB_EXIT_OK)
        return code;
    if (!table)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    FILE *out = open_output(path);
    if (!out)
        return SB_EXIT_ENVIRONMENT;
    int written = an_table_write(table, format, out);
    int failed = ferror(out);
    code = close_output(out, path);
    if (code == SB_EXIT_OK && written != 0 && !failed)
        return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for the table");
    return code;
}

void sb_output_page(const char *folder)
{
    size_t length = strlen(folder);
    printf("%s%sindex.html\n", folder, length > 0 && folder[length - 1] == '/' ? "" : "/");
}
