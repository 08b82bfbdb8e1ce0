/* index.html: the figures with captions, the tables, what was not measured and why, and where everything comes from.
 * One static file: no scripts, no fonts from elsewhere, light and dark by the reader's setting. */
#include "report_internal.h"

#include <string.h>

static const char style_sheet[] =
    ":root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --page: #ffffff; --line: #d0d7de;\n"
    "  --shade: #f6f8fa; --link: #0550ae; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --text: #e6edf3; --soft: #9aa4af; --page: #0d1117; --line: #30363d; --shade: #161b22; --link: #79b8ff; "
    "}\n"
    "}\n"
    "body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--page); color: var(--text);\n"
    "  font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; }\n"
    "h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); font-size: 1.3rem; }\n"
    "h3 { margin-top: 2rem; font-size: 1.05rem; } a { color: var(--link); } .soft { color: var(--soft); }\n"
    "figure { margin: 0.5rem 0 1rem; } figcaption { color: var(--soft); font-size: 0.9rem; max-width: 50rem; }\n"
    /* The pictures have a white ground of their own, on dark pages too. */
    "figure img { display: block; width: 100%; max-width: 760px; height: auto; border: 1px solid var(--line); }\n"
    ".wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.85rem; margin: 0.5rem 0; }\n"
    "th, td { padding: 0.2rem 0.7rem 0.2rem 0; border-bottom: 1px solid var(--line); text-align: left;\n"
    "  vertical-align: top; } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;\n"
    "  white-space: nowrap; }\n"
    "thead th { background: var(--shade); } code { font-size: 0.85em; overflow-wrap: anywhere; }\n"
    ".note { border-left: 4px solid #d4a72c; background: var(--shade); padding: 0.5rem 1rem; }\n";

static void element(FILE *out, const char *tag, const char *text)
{
    fprintf(out, "<%s>", tag);
    an_html_text(text, out);
    fprintf(out, "</%s>\n", tag);
}

an_table *report_unmeasured_table(const report *r)
{
    static const char *const texts[] = {"method", "status", "reason"};
    an_table *table = an_table_create();
    if (!table)
        return NULL;
    an_table_column(table, "workload and problem", AN_TEXT);
    an_table_column(table, "seqlen", AN_NUMBER);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        an_table_column(table, texts[i], AN_TEXT);
    for (size_t f = 0; f < r->families; f++) {
        for (size_t i = 0; i < r->family[f].rows; i++) {
            const an_row *row = r->family[f].row[i];
            if (report_is_measured(row))
                continue;
            an_table_text(table, r->family[f].title);
            an_table_integer(table, row->row.point.seqlen_k);
            an_table_text(table, row->label);
            an_table_text(table, rs_outcome_name(row->row.outcome));
            an_table_text(table, row->row.reason);
        }
    }
    return table;
}

static void put_link(FILE *out, const char *folder, const char *name, const char *ending)
{
    /* Names of figures and tables are of letters, digits, '.', '_' and '-' only. */
    fprintf(out, " <a href=\"%s/%s.%s\">%s</a>", folder, name, ending, ending);
}

static void put_figure(FILE *out, const report_figure *figure)
{
    element(out, "h3", figure->heading);
    if (!figure->name) {
        fputs("<p class=\"soft\">No figure: ", out);
        an_html_text(figure->text, out);
        fputs(".</p>\n", out);
        return;
    }
    fputs("<figure>\n", out);
    if (figure->drawn) {
        fprintf(out, "<img src=\"figures/%s.svg\" alt=\"", figure->name);
        an_html_text(figure->heading, out);
        fputs("\">\n", out);
    } else {
        fputs("<p class=\"note\">Not drawn; the script is there.</p>\n", out);
    }
    fputs("<figcaption>", out);
    an_html_text(figure->text, out);
    fputs("<br>Files:", out);
    put_link(out, "figures", figure->name, "gp");
    for (size_t i = 0; figure->drawn && i < 3; i++)
        put_link(out, "figures", figure->name, ((const char *const[]){"svg", "pdf", "png"})[i]);
    fputs("</figcaption>\n</figure>\n", out);
}

static void put_figures(const report *r, FILE *out)
{
    for (size_t f = 0; f < r->families; f++) {
        element(out, "h2", r->family[f].title);
        for (size_t i = 0; i < r->figures; i++)
            if (r->figure[i].family == &r->family[f])
                put_figure(out, &r->figure[i]);
    }
    if (r->similarity)
        element(out, "h2", "Token orders");
    for (size_t i = 0; i < r->figures; i++)
        if (!r->figure[i].family)
            put_figure(out, &r->figure[i]);
}

static void put_table(FILE *out, const char *heading, const char *name, const an_table *table)
{
    element(out, "h2", heading);
    fputs("<div class=\"wide\">\n", out);
    an_table_write_html(table, out);
    fputs("</div>\n<p class=\"soft\">Files:", out);
    put_link(out, "tables", name, "md");
    put_link(out, "tables", name, "csv");
    fputs("</p>\n", out);
}

static void put_tables(report *r, FILE *out)
{
    an_table *summary = an_rows_summary(&r->rows), *unmeasured = report_unmeasured_table(r);
    if (summary && unmeasured) {
        if (r->rows.count > 0)
            put_table(out, "Results", "summary", summary);
        if (an_rows_have_notes(&r->rows))
            fputs(
                "<p class=\"note\">Notes &ldquo;blocks too unlike&rdquo;: these rows skipped no block at all. sim_q "
                "and "
                "sim_k are how alike the tokens of a block of Q and of K are on average; blocks at or below theta are "
                "always computed, whatever the other parameters say (docs/methods/sparge.md).</p>\n",
                out);
        fputs("<p class=\"soft\">All columns of all rows:", out);
        put_link(out, "tables", "results", "md");
        put_link(out, "tables", "results", "csv");
        fputs("</p>\n", out);
        if (an_table_rows(unmeasured))
            put_table(out, "Points without a result", "unmeasured", unmeasured);
        if (r->similarity)
            put_table(out, "Token orders, numbers", "similarity", r->similarity);
    } else {
        report_no_memory(r);
    }
    an_table_destroy(summary);
    an_table_destroy(unmeasured);
}

static void fact(FILE *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    fprintf(out, "<tr><th>%s</th><td>", name);
    an_html_text(value, out);
    fputs("</td></tr>\n", out);
}

static void put_run(report *r, FILE *out, const rs_run *run)
{
    const char *dirty = run->git_dirty > 0 ? " (with uncommitted changes)" : "";
    fprintf(out, "<h3>Run %lld</h3>\n<div class=\"wide\"><table>\n", (long long)run->id);
    fact(out, "started", run->started_utc);
    fact(out, "ended", run->ended_utc);
    fact(out, "status", run->status);
    if (run->command && *run->command) {
        fputs("<tr><th>command</th><td><code>", out);
        an_html_text(run->command, out);
        fputs("</code></td></tr>\n", out);
    }
    fact(out, "git", run->git_sha ? report_text(r, "%s%s", run->git_sha, dirty) : "not known");
    fact(out, "program", run->program_version);
    fact(out, "binary SHA-256", run->binary_sha256);
    fact(out, "build", run->build_type);
    fact(out, "compiler", run->compiler);
    fact(out, "compiler flags", run->compiler_flags);
    fact(out, "backend", run->backend);
    fact(out, "device", run->device_name);
    fact(out, "device id", run->device_uuid);
    fact(out, "architecture", run->device_arch);
    fact(out, "driver", run->driver);
    fact(out, "CUDA runtime", run->cuda_runtime);
    fact(out, "host", run->host);
    fact(out, "operating system", run->os);
    fact(out, "CPU", run->cpu_model);
    if (run->cpu_threads > 0)
        fact(out, "CPU threads", report_text(r, "%d", run->cpu_threads));
    fact(out, "seed", report_text(r, "%llu", (unsigned long long)run->seed));
    fact(out, "note", run->note);
    fputs("</table></div>\n", out);
}

typedef struct provenance {
    report *r;
    FILE *out;
} provenance;

static int is_shown(const report *r, int64_t run_id)
{
    for (size_t i = 0; i < r->rows.count; i++)
        if (r->rows.row[i].row.run.id == run_id)
            return 1;
    for (size_t i = 0; i < r->similarity_runs; i++)
        if (r->similarity_run[i] == run_id)
            return 1;
    return 0;
}

static int put_run_if_shown(void *user, const rs_run *run)
{
    const provenance *p = user;
    if (is_shown(p->r, run->id))
        put_run(p->r, p->out, run);
    return 0;
}

/* Every run that a row or a figure of the report comes from. */
static void put_provenance(report *r, rs_store *store, FILE *out)
{
    provenance p = {r, out};
    rs_error error;
    element(out, "h2", "Where the numbers come from");
    fputs("<p class=\"soft\">Results file: ", out);
    an_html_text(r->database, out);
    fputs(". The newest measurement of every point is shown. How medians, intervals and rates are made: "
          "docs/statistics.md of sparge-bench.</p>\n",
          out);
    if (rs_runs(store, put_run_if_shown, &p, &error) != RS_OK)
        report_fail(r, AN_REPORT_STORE, "%s", error.text);
}

an_report_status report_write_page(report *r, rs_store *store)
{
    report_file file;
    if (report_file_open(r, report_text(r, "%s/index.html", r->out), &file) != AN_REPORT_OK)
        return r->status;
    FILE *out = file.out;
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    an_html_text(r->title, out);
    fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style_sheet);
    element(out, "h1", r->title);
    if (r->no_pictures) {
        fputs("<p class=\"note\">Figures are missing: ", out);
        an_html_text(r->no_pictures, out);
        fputs(". The scripts in figures/ draw them.</p>\n", out);
    }
    if (r->rows.count == 0 && !r->similarity)
        fputs("<p class=\"note\">The results file holds no measurements.</p>\n", out);
    put_figures(r, out);
    put_tables(r, out);
    put_provenance(r, store, out);
    fputs("</body>\n</html>\n", out);
    return report_file_close(r, &file);
}
