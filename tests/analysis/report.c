/* Reports: which files they hold, what the scripts draw, what the page says, and what happens to hostile names, empty
 * stores, missing programs and folders that cannot be written. */
#include "check.h"
#include "report.h"
#include "synthetic.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Everything happens in one new folder, removed at the end. */
static char folder[] = "test_analysis_report.XXXXXX";
static int have_gnuplot;

static int enter_folder(void **unused)
{
    (void)unused;
    have_gnuplot = system("gnuplot --version >/dev/null 2>&1") == 0;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **unused)
{
    (void)unused;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return chdir("..") == 0 && system(command) == 0 ? 0 : -1;
}

static int exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_size > 0;
}

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in)
        fail_msg("%s is missing", path);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    return text;
}

static size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

static void assert_contains(const char *path, const char *part)
{
    char *text = read_file(path);
    if (!strstr(text, part))
        fail_msg("%s does not hold: %s", path, part);
    free(text);
}

static void assert_lacks(const char *path, const char *part)
{
    char *text = read_file(path);
    if (strstr(text, part))
        fail_msg("%s holds: %s", path, part);
    free(text);
}

/* Makes a report of a store's file; `text` has room for 512 characters. */
static an_report_status report_of(const char *database, const char *out, const an_report_options *options, char *text)
{
    rs_store *store = NULL;
    rs_error error;
    text[0] = '\0';
    assert_int_equal(rs_open(database, RS_READ, &store, &error), RS_OK);
    const an_report_status status = an_report(store, database, out, options, text, 512);
    assert_int_equal(rs_close(store, &error), RS_OK);
    return status;
}

static void draw(const char *database, const char *out)
{
    char text[512];
    if (report_of(database, out, NULL, text) != AN_REPORT_OK)
        fail_msg("%s", text);
    char command[256];
    snprintf(command, sizeof command, "test -z \"$(find \"%s\" -name '*.part*')\"", out);
    assert_int_equal(system(command), 0);
}

/* The sweep's report is made once and looked at by several tests. */
static void make_sweep(void)
{
    if (!have_gnuplot)
        skip();
    if (exists("sweep.db"))
        return;
    synthetic_sweep("sweep.db");
    draw("sweep.db", "sweep");
}

static void every_figure_in_every_form(void **unused)
{
    (void)unused;
    static const char *const kinds[] = {"latency",         "tops",  "attend-tops", "error-sparsity", "speed-sparsity",
                                        "sparsity-length", "stages"};
    static const char *const families[] = {"llama3.1-8b", "mochi"};
    static const char *const endings[] = {"gp", "svg", "pdf", "png"};
    char path[128];
    make_sweep();
    for (size_t k = 0; k < 7; k++)
        for (size_t f = 0; f < 2; f++)
            for (size_t e = 0; e < 4; e++) {
                snprintf(path, sizeof path, "sweep/figures/%s-%s.%s", kinds[k], families[f], endings[e]);
                if (!exists(path))
                    fail_msg("%s is missing", path);
            }
    for (size_t e = 0; e < 4; e++) {
        snprintf(path, sizeof path, "sweep/figures/similarity-mochi.%s", endings[e]);
        assert_true(exists(path));
    }
    static const char *const tables[] = {"results", "summary", "unmeasured", "similarity"};
    for (size_t t = 0; t < 4; t++) {
        snprintf(path, sizeof path, "sweep/tables/%s.md", tables[t]);
        assert_true(exists(path));
        snprintf(path, sizeof path, "sweep/tables/%s.csv", tables[t]);
        assert_true(exists(path));
    }
}

static void scripts_have_axes_series_and_data(void **unused)
{
    (void)unused;
    make_sweep();
    char *script = read_file("sweep/figures/latency-llama3.1-8b.gp");
    assert_non_null(strstr(script, "set xlabel 'sequence length (tokens)'"));
    assert_non_null(strstr(script, "set ylabel 'time (ms)'"));
    assert_non_null(strstr(script, "set logscale x 2\n"));
    assert_non_null(strstr(script, "set logscale y 10\n"));
    assert_non_null(strstr(script, "set xtics ('1k' 1024, '2k' 2048, '4k' 4096, '8k' 8192, '16k' 16384, '32k' 32768, "
                                   "'64k' 65536)\n"));
    assert_int_equal(occurrences(script, " title '"), 8 + 2); /* and two terminals with a title above the plot */
    assert_int_equal(occurrences(script, "with vectors heads"), 8);
    assert_int_equal(occurrences(script, " << EOD\n"), 8);
    /* The first series is dense-f16: 7 lengths, the first at 1024 with its interval around its median. */
    const char *row = strstr(script, "$series1 << EOD\n") + strlen("$series1 << EOD\n");
    double x, y, low, high;
    assert_int_equal(sscanf(row, "%lf %lf %lf %lf", &x, &y, &low, &high), 4);
    assert_true(x == 1024 && low < y && y < high);
    assert_true(fabs(y - (4 * 128 * 1024.0 * 1025 / 2 * 32 / 650e9 + 0.012)) < 0.01 * y);
    const char *end = strstr(row, "EOD");
    size_t rows = 0;
    for (const char *c = row; c < end; c++)
        rows += *c == '\n';
    assert_int_equal(rows, 7);
    free(script);

    script = read_file("sweep/figures/latency-mochi.gp");
    assert_int_equal(occurrences(script, " title '"), 7 + 2); /* flexprefill was skipped */
    free(script);
    assert_contains("sweep/figures/tops-mochi.gp", "set ylabel 'dense-equivalent TOPS'");
    assert_contains("sweep/figures/attend-tops-mochi.gp", "set ylabel 'dense-equivalent TOPS, attend only'");
    assert_contains("sweep/figures/error-sparsity-mochi.gp", "set xlabel 'sparsity (share of products skipped)'");
    assert_contains("sweep/figures/error-sparsity-mochi.gp", "set ylabel 'relative L1 error'");
    assert_contains("sweep/figures/stages-mochi.gp", "set xlabel 'time (ms)'");
    assert_lacks("sweep/figures/sparsity-length-mochi.gp", "dense-"); /* skips nothing */
    assert_contains("sweep/figures/sparsity-length-mochi.gp", " title 'window size=4096'");
    /* A single sample has no interval. */
    assert_contains("sweep/figures/latency-mochi.gp", " ? ?\n");
}

/* The colour of a title's series in a script. */
static void colour_of(const char *path, const char *title, char colour[8])
{
    char *script = read_file(path), wanted[128];
    snprintf(wanted, sizeof wanted, " title '%s'", title);
    char *at = strstr(script, wanted);
    assert_non_null(at);
    *at = '\0';
    char *rgb = NULL;
    for (char *next = script; (next = strstr(next, "linecolor rgb '")); next++)
        rgb = next + strlen("linecolor rgb '");
    assert_non_null(rgb);
    memcpy(colour, rgb, 7);
    colour[7] = '\0';
    free(script);
}

static void colours_follow_the_method(void **unused)
{
    (void)unused;
    char first[8], second[8];
    make_sweep();
    colour_of("sweep/figures/latency-llama3.1-8b.gp", "dense-f16", first);
    assert_string_equal(first, "#000000");
    colour_of("sweep/figures/latency-llama3.1-8b.gp", "sparge-int8-fp8 tau=0.9", first);
    colour_of("sweep/figures/tops-mochi.gp", "sparge-int8-fp8 tau=0.9", second);
    assert_string_equal(first, second);
    colour_of("sweep/figures/error-sparsity-mochi.gp", "sparge-int8-fp8 tau", second);
    assert_string_equal(first, second);
    colour_of("sweep/figures/latency-llama3.1-8b.gp", "window size=4096", second);
    assert_string_not_equal(first, second);
}

static void pictures_hold_the_series(void **unused)
{
    (void)unused;
    make_sweep();
    char *svg = read_file("sweep/figures/latency-llama3.1-8b.svg");
    assert_non_null(strstr(svg, "llama3.1-8b, 32/8 heads, D 128, bf16, causal bottom-right"));
    assert_int_equal(occurrences(svg, "<g id=\"gnuplot_plot_"), 16);
    static const char *const titles[] = {"dense-f16",   "dense-int8-fp8", "sparge-int8-fp8 tau=0.95", "minference-vs",
                                         "flexprefill", "window",         "sequence length (tokens)", "time (ms)",
                                         ">64k<"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (!strstr(svg, titles[i]))
            fail_msg("the picture lacks %s", titles[i]);
    free(svg);
    svg = read_file("sweep/figures/similarity-mochi.svg");
    assert_non_null(strstr(svg, "hilbert"));
    assert_non_null(strstr(svg, "relative L1 error"));
    free(svg);
}

static void scripts_run_again_from_anywhere(void **unused)
{
    (void)unused;
    make_sweep();
    assert_int_equal(system("mkdir -p elsewhere/deep && cp sweep/figures/tops-mochi.gp elsewhere/deep/again.gp && "
                            "cd / && gnuplot -d \"$OLDPWD\"/elsewhere/deep/again.gp"),
                     0);
    assert_int_equal(system("cmp -s elsewhere/deep/again.svg sweep/figures/tops-mochi.svg"), 0);
    assert_int_equal(system("cmp -s elsewhere/deep/again.png sweep/figures/tops-mochi.png"), 0);
    assert_true(exists("elsewhere/deep/again.pdf"));
}

static void the_page_explains_itself(void **unused)
{
    (void)unused;
    make_sweep();
    const char *page = "sweep/index.html";
    static const char *const parts[] = {
        "<title>sparge-bench report: sweep.db</title>",
        "<h2>llama3.1-8b, 32/8 heads, D 128, bf16, causal bottom-right</h2>",
        "<img src=\"figures/latency-llama3.1-8b.svg\"",
        "<a href=\"figures/latency-mochi.pdf\">pdf</a>",
        "bars 95 % intervals (order statistics)",
        "1 of 56 points are a single sample and have no bar.",
        "64k tokens (where most points were measured); seed 1; Synthetic device, fake backend",
        "error is that of a sample of the query rows",
        "flexprefill needs a causal problem: causal is none",
        "<h2>Where the numbers come from</h2>",
        "<tr><th>driver</th><td>580.159.04</td></tr>",
        "<tr><th>CUDA runtime</th><td>13.0</td></tr>",
        "0123456789abcdef0123456789abcdef01234567",
        "sparge-bench sweep --seqlen 1k..64k --workload &#39;llama3.1-8b,mochi&#39; --db demo.db",
        "prefers-color-scheme: dark",
        "Self-similarity by token order: mochi, sparge-int8-fp8 theta=0.2, grid 13x30x56, 240 text tokens, 24 heads",
        "D 128, bf16, not causal, seed 1; run 2.",
        "<h3>Run 1</h3>",
        "<h3>Run 2</h3>", /* of the document only */
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_contains(page, parts[i]);
    assert_lacks(page, "http");
    assert_lacks(page, "<script");
    char *csv = read_file("sweep/tables/unmeasured.csv");
    assert_int_equal(occurrences(csv, ",flexprefill,skipped,"), 7);
    assert_int_equal(occurrences(csv, "\r\n"), 8);
    free(csv);
}

static synthetic_point hostile_point(const char *method, int64_t seqlen)
{
    return (synthetic_point){.workload = "../x'y\"<b>`id`",
                             .method = method,
                             .parameters = "{\"p\":\"1\"}",
                             .causal = "none",
                             .heads_q = 1,
                             .heads_kv = 1,
                             .seqlen = seqlen,
                             .ms = 1,
                             .stage = {0.2, 0.2, 0.6},
                             .sparsity = 0.5,
                             .rel_l1 = 0.01,
                             .samples = 6,
                             .outcome = RS_DONE};
}

static void hostile_names(void **unused)
{
    (void)unused;
    static const char *const methods[] = {"a_b^{c} %s 100%", "q'u\"o`id`$te@x\\n", "<script>alert(1)</script>&|",
                                          "\xe6\xb3\xa8\xe6\x84\x8f"};
    if (!have_gnuplot)
        skip();
    int64_t run;
    rs_error error;
    rs_store *store = synthetic_open("hostile.db", &run);
    for (size_t i = 0; i < 4; i++)
        for (int64_t length = 1000; length < 5000; length += 1000) {
            synthetic_point p = hostile_point(methods[i], length);
            synthetic_add(store, run, &p);
            p.workload = "..-x-y-b-id"; /* would have the same file names */
            synthetic_add(store, run, &p);
        }
    assert_int_equal(rs_document_add(store, run, "similarity",
                                     "{\"workload\":\"<i>'%\",\"rows\":[{\"order\":\"100%'`id`\",\"sim_q\":0.5}]}",
                                     &error),
                     RS_OK);
    assert_int_equal(rs_document_add(store, run, "similarity", "{\"other\":1}", &error), RS_OK);
    synthetic_close(store, run);
    draw("hostile.db", "out 'x' & -y");

    const char *svg = "out 'x' & -y/figures/latency-x-y-b-id.svg", *page = "out 'x' & -y/index.html";
    assert_contains(svg, ">a_b^{c} %s 100%<");
    assert_contains(svg, ">&lt;script>alert(1)&lt;/script>&amp;|<");
    assert_contains(svg, "\xe6\xb3\xa8\xe6\x84\x8f");
    assert_contains(svg, "`id`$te@x\\n");
    assert_lacks(svg, "uid=");
    assert_true(exists("out 'x' & -y/figures/latency-x-y-b-id-2.svg"));
    assert_contains("out 'x' & -y/figures/similarity-i.svg", ">100%'`id`<");
    assert_contains("out 'x' & -y/figures/latency-x-y-b-id.gp", " title 'q''u\"o`id`$te@x\\n'");
    assert_lacks(page, "<script");
    assert_lacks(page, "<b>");
    assert_lacks(page, "<i>");
    assert_contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;&amp;|");
    assert_contains("out 'x' & -y/tables/summary.md", "\\<script>alert(1)\\</script>&\\|");
}

static size_t characters(const char *begin, const char *end)
{
    size_t count = 0;
    for (; begin < end; begin++)
        count += ((unsigned char)*begin & 0xc0) != 0x80;
    return count;
}

/* Long titles have several lines, none too long for the picture, and lose nothing but the middle of a long name. */
static void long_titles_are_broken_not_cut(void **unused)
{
    (void)unused;
    static const struct {
        const char *workload, *slug, *title;
    } cases[] = {
        {"short", "short", "'short, 2 heads, D 128, bf16, causal bottom-right, 2k tokens'"},
        {"smollm2-135m-layer15.safetensors", "smollm2-135m-layer15",
         "'smollm2-135m-layer15, 2 heads, D 128, bf16, causal bottom-right, 2k tokens'"},
        {"a-name-of-forty-two-characters-for-a-test.", "a-name-of-forty-two-characters-for-a-tes",
         "'a-name-of-forty-two-characters-for-a-test., 2 heads, D 128, "
         "bf16,'.\"\\n\".'causal bottom-right, 2k tokens'"},
        {"name, with, commas, that, are, many, and, more, of, them, to, come, until, two, lines, are, full, of, them, "
         "indeed, and, a, third, begins, here",
         "name-with-commas-that-are-many-and-more", NULL},
        {"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
         "0123456789012345678901234567890123456789",
         "'012345678901234567890123456789012345678\xe2\x80\xa6"
         "3456789012345678901234567890123456789,'.\"\\n\".'2 heads, D 128"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t run;
        rs_store *store = synthetic_open("title.db", &run);
        synthetic_point p = hostile_point("dense-f16", 2048);
        p.workload = cases[i].workload;
        p.causal = "bottom-right";
        p.heads_q = p.heads_kv = 2;
        synthetic_add(store, run, &p);
        synthetic_close(store, run);
        const an_report_options options = {.gnuplot = "/no/such/gnuplot"};
        char text[512];
        assert_int_equal(report_of("title.db", "title", &options, text), AN_REPORT_NO_GNUPLOT);
        char path[128];
        snprintf(path, sizeof path, "title/figures/stages-%s.gp", cases[i].slug);
        char *script = read_file(path);
        const char *title = strstr(script, "set title ");
        assert_non_null(title);
        title += strlen("set title ");
        if (cases[i].title && strncmp(title, cases[i].title, strlen(cases[i].title)) != 0)
            fail_msg("expected %s, got %.200s", cases[i].title, title);
        const char *end = strchr(title, '\n');
        for (const char *line = title; line && line < end;) {
            const char *next = strstr(line, ".\"\\n\".");
            const char *quote = next && next < end ? next : strstr(line, " noenhanced");
            assert_true(characters(line, quote) <= 78 + 2);
            line = next && next < end ? next + 6 : NULL;
        }
        free(script);
    }
}

/* Two captured files of one name, or one captured again: never in one figure. Other lengths, heads or methods of one
 * input have other hashes too and share theirs. */
static void other_inputs_of_one_name_are_kept_apart(void **unused)
{
    (void)unused;
    char text[512];
    int64_t run;
    const an_report_options options = {.gnuplot = "/no/such/gnuplot"};
    for (int editions = 1; editions <= 2; editions++) {
        rs_store *store = synthetic_open("editions.db", &run);
        for (int edition = 1; edition <= editions; edition++)
            for (int64_t length = 1024; length <= 4096; length *= 2) {
                synthetic_point p = hostile_point("dense-f16", length);
                p.workload = "x.safetensors";
                p.edition = edition;
                synthetic_add(store, run, &p);
                p.method = "window";
                synthetic_add(store, run, &p);
            }
        synthetic_close(store, run);
        assert_int_equal(system("rm -rf editions"), 0);
        assert_int_equal(report_of("editions.db", "editions", &options, text), AN_REPORT_NO_GNUPLOT);
        if (editions == 1) {
            assert_int_equal(system("test $(ls editions/figures/latency*.gp | wc -l) = 1"), 0);
            assert_int_equal(system("grep -q input editions/figures/latency*.gp"), 256);
            continue;
        }
        assert_int_equal(system("test $(ls editions/figures/latency*.gp | wc -l) = 2"), 0);
        for (int edition = 1; edition <= 2; edition++) {
            char path[64];
            snprintf(path, sizeof path, "editions/figures/latency-x-input-%08x.gp", edition);
            char *script = read_file(path);
            assert_int_equal(occurrences(script, "\n 1024 "), 2); /* one point of each method */
            assert_int_equal(occurrences(script, "\n 4096 "), 2);
            free(script);
        }
    }
}

static void times_have_no_exponent(void **unused)
{
    (void)unused;
    int64_t run;
    static const struct {
        double ms;
        const char *method;
    } cases[] = {{123456.4, "a"}, {1613.2, "b"}, {0.01142, "c"}, {87.1, "d"}};
    rs_store *store = synthetic_open("times.db", &run);
    for (size_t i = 0; i < 4; i++) {
        synthetic_point p = hostile_point(cases[i].method, 2048);
        p.ms = cases[i].ms;
        synthetic_add(store, run, &p);
    }
    synthetic_close(store, run);
    const an_report_options options = {.gnuplot = "/no/such/gnuplot"};
    char text[512];
    assert_int_equal(report_of("times.db", "times", &options, text), AN_REPORT_NO_GNUPLOT);
    char *script = read_file("times/figures/stages-x-y-b-id.gp");
    const char *at = script;
    for (size_t i = 0; i < 4; i++) {
        char begin[32], shown[32];
        snprintf(begin, sizeof begin, "set label %zu '", 2 * i + 2);
        at = strstr(at, begin);
        assert_non_null(at);
        snprintf(shown, sizeof shown, "%.*s", (int)strcspn(at + strlen(begin), "'"), at + strlen(begin));
        if (strchr(shown, 'e') || fabs(strtod(shown, NULL) / cases[i].ms - 1) > 0.05 ||
            (cases[i].ms > 1000 && strchr(shown, '.')))
            fail_msg("%s for %g ms", shown, cases[i].ms);
    }
    free(script);
}

static void add_swept(rs_store *store, int64_t run, const char *method, const char *parameters, const char *settings,
                      double sparsity)
{
    synthetic_point p = hostile_point(method, 1024);
    p.workload = "mochi";
    p.parameters = parameters;
    p.settings = settings;
    p.sparsity = sparsity;
    p.rel_l1 = 0.01 + sparsity / 10;
    synthetic_add(store, run, &p);
}

/* The sparsities of the series with this title, and whether a line joins them: "0.1 0.3 joined". */
static void assert_series(const char *path, const char *title, const char *expected)
{
    char *script = read_file(path), wanted[128], text[256] = "";
    snprintf(wanted, sizeof wanted, " title '%s'", title);
    char *at = strstr(script, wanted);
    if (!at)
        fail_msg("no series %s in %s", title, script);
    *at = '\0';
    char *plot = NULL;
    for (char *next = script; (next = strstr(next, "$series")); next++)
        plot = next;
    const int joined = strstr(plot, "with linespoints") != NULL;
    char data[32];
    snprintf(data, sizeof data, "%.*s << EOD\n", (int)strcspn(plot, " "), plot);
    const char *row = strstr(script, data) + strlen(data);
    for (; strncmp(row, "EOD", 3) != 0; row = strchr(row, '\n') + 1) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%g ", strtod(row, NULL));
    }
    strcat(text, joined ? "joined" : "single");
    assert_string_equal(text, expected);
    free(script);
}

/* A curve joins what differs in one number alone. */
static void curves_follow_one_parameter(void **unused)
{
    (void)unused;
    char text[512];
    int64_t run;
    rs_store *store = synthetic_open("curves.db", &run);
    const char *m = "sparge-f16", *w = "window", *z = "minference-vs";
    add_swept(store, run, "dense-f16", "{}", "", 0);
    /* tau, and topk with the sink: "sink" cannot be swept, it is no number */
    add_swept(store, run, m, "{\"sink\":\"off\",\"tau\":\"0.98\",\"topk\":\"\"}", "", 0.2);
    add_swept(store, run, m, "{\"sink\":\"on\",\"tau\":\"\",\"topk\":\"0.5\"}", "sink=on topk=0.5", 0.35);
    add_swept(store, run, m, "{\"sink\":\"off\",\"tau\":\"0.5\",\"topk\":\"\"}", "tau=0.5", 0.6);
    add_swept(store, run, m, "{\"sink\":\"on\",\"tau\":\"\",\"topk\":\"0.25\"}", "sink=on topk=0.25", 0.7);
    add_swept(store, run, m, "{\"sink\":\"off\",\"tau\":\"0.9\",\"topk\":\"\"}", "tau=0.9", 0.4);
    add_swept(store, run, m, "{\"sink\":\"on\",\"tau\":\"0.9\",\"topk\":\"\"}", "sink=on tau=0.9", 0.3);
    /* two sweeps that cross in size=64 sink=4 */
    add_swept(store, run, w, "{\"sink\":\"4\",\"size\":\"32\"}", "size=32", 0.9);
    add_swept(store, run, w, "{\"sink\":\"4\",\"size\":\"64\"}", "size=64", 0.8);
    add_swept(store, run, w, "{\"sink\":\"4\",\"size\":\"96\"}", "size=96", 0.75);
    add_swept(store, run, w, "{\"sink\":\"8\",\"size\":\"64\"}", "sink=8 size=64", 0.77);
    /* tied axes: nothing differs in one parameter alone */
    add_swept(store, run, z, "{\"slash\":\"1\",\"vertical\":\"1\"}", "slash=1 vertical=1", 0.5);
    add_swept(store, run, z, "{\"slash\":\"2\",\"vertical\":\"2\"}", "slash=2 vertical=2", 0.4);
    synthetic_close(store, run);
    const an_report_options options = {.gnuplot = "/no/such/gnuplot"};
    assert_int_equal(report_of("curves.db", "curves", &options, text), AN_REPORT_NO_GNUPLOT);
    static const char *const names[] = {"curves/figures/error-sparsity-mochi.gp",
                                        "curves/figures/speed-sparsity-mochi.gp"};
    for (size_t i = 0; i < 2; i++) {
        assert_series(names[i], "dense-f16", "0 single");
        assert_series(names[i], "sparge-f16 tau", "0.2 0.4 0.6 joined");
        assert_series(names[i], "sparge-f16 sink=on topk", "0.35 0.7 joined");
        assert_series(names[i], "sparge-f16 sink=on tau=0.9", "0.3 single");
        assert_series(names[i], "window size", "0.75 0.8 0.9 joined");
        assert_series(names[i], "window size=64 sink", "0.77 0.8 joined");
        assert_series(names[i], "minference-vs slash=1 vertical=1", "0.5 single");
        assert_series(names[i], "minference-vs slash=2 vertical=2", "0.4 single");
        char *script = read_file(names[i]);
        assert_int_equal(occurrences(script, " << EOD\n"), 8);
        free(script);
    }
}

static void make_empty(void)
{
    int64_t run;
    rs_store *store = synthetic_open("empty.db", &run);
    synthetic_close(store, run);
}

static void an_empty_store(void **unused)
{
    (void)unused;
    char text[512];
    make_empty();
    assert_int_equal(report_of("empty.db", "empty", NULL, text), AN_REPORT_OK);
    assert_contains("empty/index.html", "The results file holds no measurements.");
    assert_true(exists("empty/tables/results.csv"));
}

static void points_without_times(void **unused)
{
    (void)unused;
    int64_t run;
    char text[512];
    rs_store *store = synthetic_open("skipped.db", &run);
    synthetic_point p = hostile_point("m", 1024);
    p.samples = 0;
    p.outcome = RS_SKIPPED;
    p.reason = "why";
    synthetic_add(store, run, &p);
    synthetic_close(store, run);
    assert_int_equal(report_of("skipped.db", "skipped", NULL, text), AN_REPORT_OK);
    assert_contains("skipped/index.html", "No figure: no point was measured.");
    assert_contains("skipped/index.html", "<td>skipped</td><td>why</td>");
}

/* One length, one sample, no stages, no error, a dense method: most figures have nothing to show and say so. */
static void one_lonely_point(void **unused)
{
    (void)unused;
    if (!have_gnuplot)
        skip();
    int64_t run;
    rs_store *store = synthetic_open("lonely.db", &run);
    synthetic_point p = hostile_point("m", 777);
    p.samples = 1;
    p.stage[0] = p.stage[1] = p.stage[2] = 0;
    p.sparsity = 0;
    p.rel_l1 = 0;
    synthetic_add(store, run, &p);
    synthetic_close(store, run);
    draw("lonely.db", "lonely");
    assert_contains("lonely/figures/latency-x-y-b-id.svg", ">777<"); /* one family: the same name as with others */
    static const char *const reasons[] = {"No figure: no point has a time for the attend stage.",
                                          "No figure: no method skipped anything.",
                                          "No figure: no point has both a sparsity and an error above zero.",
                                          "No figure: no point has times of its stages."};
    for (size_t i = 0; i < 4; i++)
        assert_contains("lonely/index.html", reasons[i]);
    assert_false(exists("lonely/figures/stages-x-y-b-id.gp"));
}

static void a_missing_gnuplot(void **unused)
{
    (void)unused;
    char text[512];
    synthetic_sweep("bare.db");
    assert_int_equal(system("mkdir -p bare/figures && echo old >bare/figures/latency-mochi.svg"), 0);
    const an_report_options options = {.title = "My <title>", .gnuplot = "/no/such/gnuplot"};
    assert_int_equal(report_of("bare.db", "bare", &options, text), AN_REPORT_NO_GNUPLOT);
    assert_string_equal(text, "cannot run /no/such/gnuplot: No such file or directory");
    assert_true(exists("bare/figures/latency-mochi.gp"));
    assert_true(exists("bare/tables/results.csv"));
    assert_false(exists("bare/figures/latency-mochi.svg")); /* it would have shown other data */
    assert_contains("bare/index.html", "Figures are missing: cannot run /no/such/gnuplot");
    assert_contains("bare/index.html", "<h1>My &lt;title&gt;</h1>");
    assert_lacks("bare/index.html", "<img");
}

static void a_failing_gnuplot(void **unused)
{
    (void)unused;
    char text[512];
    int64_t run;
    rs_store *store = synthetic_open("fail.db", &run);
    const synthetic_point p = hostile_point("m", 1024);
    synthetic_add(store, run, &p);
    synthetic_close(store, run);
    assert_int_equal(
        system("printf '#!/bin/sh\\necho \"\" >&2\\necho \"line 9: no such terminal\" >&2\\nexit 1\\n' >broken; "
               "chmod +x broken"),
        0);
    const an_report_options options = {.gnuplot = "./broken"};
    assert_int_equal(report_of("fail.db", "fail", &options, text), AN_REPORT_NO_GNUPLOT);
    assert_non_null(strstr(text, "./broken failed on fail/figures/latency-x-y-b-id.gp: line 9: no such terminal"));
    assert_null(strchr(text, '\n'));
}

static void folders_that_cannot_be_written(void **unused)
{
    (void)unused;
    char text[512];
    make_empty();
    assert_int_equal(system("echo >file; mkdir -p taken/figures; echo >taken/tables; mkdir -p full/index.html"), 0);
    assert_int_equal(report_of("empty.db", "file", NULL, text), AN_REPORT_IO);
    assert_non_null(strstr(text, "file is in the way"));
    assert_int_equal(report_of("empty.db", "taken", NULL, text), AN_REPORT_IO);
    assert_non_null(strstr(text, "taken/tables"));
    assert_int_equal(report_of("empty.db", "/proc/report", NULL, text), AN_REPORT_IO);
    assert_non_null(strstr(text, "/proc/report"));
    /* The reason is the one that mkdir() gave: in /sys no folder may be made, which is not that there is none. */
    if (mkdir("/sys/report", 0777) == 0) {
        assert_int_equal(rmdir("/sys/report"), 0); /* no sysfs is mounted there */
    } else if (errno != ENOENT) {
        char reason[128];
        snprintf(reason, sizeof reason, "cannot create the folder /sys/report: %s", strerror(errno));
        assert_int_equal(report_of("empty.db", "/sys/report", NULL, text), AN_REPORT_IO);
        assert_string_equal(text, reason);
    }
    assert_int_equal(report_of("empty.db", "full", NULL, text), AN_REPORT_IO);
    assert_non_null(strstr(text, "cannot write full/index.html"));
    assert_false(exists("full/index.html.part"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_in_every_form),
        cmocka_unit_test(scripts_have_axes_series_and_data),
        cmocka_unit_test(colours_follow_the_method),
        cmocka_unit_test(pictures_hold_the_series),
        cmocka_unit_test(scripts_run_again_from_anywhere),
        cmocka_unit_test(the_page_explains_itself),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(long_titles_are_broken_not_cut),
        cmocka_unit_test(other_inputs_of_one_name_are_kept_apart),
        cmocka_unit_test(times_have_no_exponent),
        cmocka_unit_test(curves_follow_one_parameter),
        cmocka_unit_test(an_empty_store),
        cmocka_unit_test(points_without_times),
        cmocka_unit_test(one_lonely_point),
        cmocka_unit_test(a_missing_gnuplot),
        cmocka_unit_test(a_failing_gnuplot),
        cmocka_unit_test(folders_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
