/* A report: load the rows, group them, write tables and scripts, let gnuplot draw, and tie all up in a page. */
#include "report_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct report_string {
    struct report_string *next;
    char text[];
};

const char *report_text(report *r, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    struct report_string *string = length < 0 ? NULL : malloc(sizeof *string + (size_t)length + 1);
    if (string) {
        vsnprintf(string->text, (size_t)length + 1, format, again);
        string->next = r->strings;
        r->strings = string;
    }
    va_end(again);
    if (!string)
        report_no_memory(r);
    return string ? string->text : "";
}

an_report_status report_fail(report *r, an_report_status status, const char *format, ...)
{
    if (r->status != AN_REPORT_OK)
        return r->status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->error, r->error_size, format, arguments);
    va_end(arguments);
    r->status = status;
    return status;
}

an_report_status report_no_memory(report *r)
{
    return report_fail(r, AN_REPORT_MEMORY, "out of memory while making the report");
}

static void release(report *r)
{
    for (size_t i = 0; i < r->families; i++)
        free(r->family[i].row);
    free(r->family);
    free(r->figure);
    an_table_destroy(r->similarity);
    free(r->similarity_run);
    plot_styles_release(&r->styles);
    an_rows_release(&r->rows);
    while (r->strings) {
        struct report_string *next = r->strings->next;
        free(r->strings);
        r->strings = next;
    }
}

/* Writes one table as NAME.md and NAME.csv. */
static void write_table(report *r, const char *name, an_table *table)
{
    static const struct {
        an_format format;
        const char *ending;
    } forms[] = {{AN_MARKDOWN, "md"}, {AN_CSV, "csv"}};
    if (!table)
        report_no_memory(r);
    for (size_t i = 0; i < 2 && r->status == AN_REPORT_OK; i++) {
        report_file file;
        if (report_file_open(r, report_text(r, "%s/tables/%s.%s", r->out, name, forms[i].ending), &file) !=
            AN_REPORT_OK)
            break;
        if (an_table_write(table, forms[i].format, file.out) != 0 && !ferror(file.out))
            report_no_memory(r);
        report_file_close(r, &file);
    }
}

static void write_tables(report *r)
{
    an_table *results = an_rows_table(&r->rows), *summary = an_rows_summary(&r->rows);
    an_table *unmeasured = report_unmeasured_table(r);
    write_table(r, "results", results);
    write_table(r, "summary", summary);
    write_table(r, "unmeasured", unmeasured);
    if (r->similarity)
        write_table(r, "similarity", r->similarity);
    an_table_destroy(results);
    an_table_destroy(summary);
    an_table_destroy(unmeasured);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void make(report *r, rs_store *store)
{
    rs_error error;
    if (an_rows_load(store, 1, &r->rows, &error) != RS_OK) {
        report_fail(r, AN_REPORT_STORE, "%s", error.text);
        return;
    }
    if (plot_styles_make(&r->styles, &r->rows) != 0) {
        report_no_memory(r);
        return;
    }
    if (report_make_folder(r, report_text(r, "%s/figures", r->out)) != AN_REPORT_OK ||
        report_make_folder(r, report_text(r, "%s/tables", r->out)) != AN_REPORT_OK ||
        report_make_families(r) != AN_REPORT_OK || report_make_figures(r) != AN_REPORT_OK ||
        report_make_similarity(r, store) != AN_REPORT_OK)
        return;
    write_tables(r);
    if (r->status == AN_REPORT_OK && report_draw(r) == AN_REPORT_OK)
        report_write_page(r, store);
}

an_report_status an_report(rs_store *store, const char *database_path, const char *out,
                           const an_report_options *options, char *error_text, size_t error_size)
{
    report r = {.database = file_name(database_path),
                .title = options && options->title ? options->title : NULL,
                .gnuplot = options && options->gnuplot ? options->gnuplot : "gnuplot",
                .error = error_text,
                .error_size = error_size};
    if (!r.title)
        r.title = report_text(&r, "sparge-bench report: %s", r.database);
    /* gnuplot would take a leading '-' for an option. */
    r.out = report_text(&r, "%s%s", out[0] == '-' ? "./" : "", out);
    make(&r, store);
    if (r.status == AN_REPORT_OK && r.no_pictures)
        report_fail(&r, AN_REPORT_NO_GNUPLOT, "%s", r.no_pictures);
    const an_report_status status = r.status;
    release(&r);
    return status;
}
