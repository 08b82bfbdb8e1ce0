/* Options to points: counts and order of products, zips, errors, duplicates, and commands that repeat one point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/commands.h"
#include "plan/points.h"
#include "plan/record.h"
#include "point_arguments.h"

static const sparge_device_info device = {.backend = "cpu", .name = "test", .units = 2};

static void create(const char *line, test_arguments *arguments, sb_points *points)
{
    parse_arguments(&sb_command_sweep, line, arguments);
    if (sb_points_create(arguments->arguments, points) != SB_EXIT_OK)
        fail_msg("refused: %s", line);
}

static void release(test_arguments *arguments, sb_points *points)
{
    sb_points_release(points);
    release_arguments(arguments);
}

/* "seqlen/heads/seed/label" of every point, one a line. */
static void describe(const sb_points *points, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < points->count && used < size; i++) {
        char label[256];
        sb_point_label(&points->point[i], label, sizeof label);
        const sparge_problem *p = &points->point[i].workload.problem;
        used += (size_t)snprintf(text + used, size - used, "%lld/%d/%llu/%s\n", (long long)p->seqlen_q, p->heads_q,
                                 (unsigned long long)points->point[i].request.seed, label);
    }
}

typedef struct plan_case {
    const char *line, *points;
} plan_case;

static const plan_case plans[] = {
    {"--method dense-f16 --seqlen 128 --heads 2", "128/2/1/dense-f16\n"},
    {"--method dense-f16,sparge-f16 --seqlen 128..512 --heads 2",
     "128/2/1/dense-f16\n128/2/1/sparge-f16\n256/2/1/dense-f16\n256/2/1/sparge-f16\n"
     "512/2/1/dense-f16\n512/2/1/sparge-f16\n"},
    {"--method dense-f16 -m sparge-f16 --seqlen 128 --heads 2", "128/2/1/dense-f16\n128/2/1/sparge-f16\n"},
    {"--method sparge-f16,dense-f16 --seqlen 128 --heads 2 --set tau=0.5,0.9 --set theta=0.1,0.2",
     "128/2/1/sparge-f16 tau=0.5 theta=0.1\n128/2/1/sparge-f16 tau=0.5 theta=0.2\n"
     "128/2/1/sparge-f16 tau=0.9 theta=0.1\n128/2/1/sparge-f16 tau=0.9 theta=0.2\n128/2/1/dense-f16\n"},
    {"--method sparge-f16 --seqlen 128 --heads 2 --set tau=0.5..0.9+0.2 --set theta=0.1,0.2,0.3 --zip tau,theta",
     "128/2/1/sparge-f16 tau=0.5 theta=0.1\n128/2/1/sparge-f16 tau=0.7 theta=0.2\n"
     "128/2/1/sparge-f16 tau=0.9 theta=0.3\n"},
    {"--method dense-f16 --seqlen 128,256 --heads 4,2 --zip seqlen,heads", "128/4/1/dense-f16\n256/2/1/dense-f16\n"},
    {"--method dense-f16,sparge-f16 --seqlen 128,256 --heads 2 --set tau=0.5,0.9 --zip sparge-f16.tau,seqlen",
     "128/2/1/dense-f16\n128/2/1/sparge-f16 tau=0.5\n256/2/1/dense-f16\n256/2/1/sparge-f16 tau=0.9\n"},
    {"--method dense-f16 --seqlen 128 --heads 2 --seed 3,5", "128/2/3/dense-f16\n128/2/5/dense-f16\n"},
    {"--method sparge-f16,sparge-int8-f16 --seqlen 128 --heads 2 --set sparge-f16.tau=0.5",
     "128/2/1/sparge-f16 tau=0.5\n128/2/1/sparge-int8-f16\n"},
    {"--method window --seqlen 128 --heads 2 --set local=64..256", "128/2/1/window local=64\n128/2/1/window local=128\n"
                                                                   "128/2/1/window local=256\n"},
    {"--method window --seqlen 128 --heads 2 --set local=1k", "128/2/1/window local=1024\n"},
    {"--method dense-f16,sparge-f16 --seqlen 128 --heads 2 --compat upstream",
     "128/2/1/dense-f16\n128/2/1/sparge-f16 compat=upstream\n"},
};

static void plans_hold_the_points_of_the_product(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        test_arguments arguments;
        sb_points points;
        char text[4096] = "";
        create(plans[i].line, &arguments, &points);
        describe(&points, text, sizeof text);
        if (strcmp(text, plans[i].points) != 0)
            fail_msg("%s\nexpected\n%s\ngot\n%s", plans[i].line, plans[i].points, text);
        assert_int_equal(points.duplicates, 0);
        release(&arguments, &points);
    }
}

static void equal_points_are_left_out(void **state)
{
    (void)state;
    test_arguments arguments;
    sb_points points;
    /* A value and its other spelling; a workload named twice; a video preset whose lengths scale to one grid. */
    create("--method sparge-f16 --seqlen 128 --heads 2 --set tau=0.9,0.90,9e-1 --workload random,random", &arguments,
           &points);
    assert_int_equal(points.count, 1);
    assert_int_equal(points.duplicates, 5);
    release(&arguments, &points);
    create("--method dense-f16,dense-f16 --workload mochi --heads 1 --seqlen 2000,2001", &arguments, &points);
    assert_int_equal(points.count, 1);
    assert_int_equal(points.duplicates, 1);
    release(&arguments, &points);
}

/* With a default given explicitly, a value is the same point as without. */
static void defaults_are_the_same_point(void **state)
{
    (void)state;
    test_arguments a, b;
    sb_points with, without;
    create("--method sparge-f16 --seqlen 128 --heads 2 --set tau=0.98 --compat fixed", &a, &with);
    create("--method sparge-f16 --seqlen 128 --heads 2", &b, &without);
    assert_string_equal(with.point[0].parameters, without.point[0].parameters);
    release(&a, &with);
    release(&b, &without);
}

typedef struct error_case {
    const char *line, *expect;
} error_case;

static const error_case errors[] = {
    {"--method sparge-f17", "did you mean 'sparge-f1"},
    {"--method nothing-like-it", "list methods"},
    {"--method dense-f16,", "unknown method ''"},
    {"--method all,dens-f16", "did you mean 'dense-f16'"},
    {"--method dense-f16 --workload randon", "did you mean 'random'"},
    {"--method dense-f16 --workload mochy", "did you mean 'mochi'"},
    {"--method dense-f16 --workload /nowhere/x.safetensors", "/nowhere/x.safetensors"},
    {"--method dense-f16 --seqlen 8k..100k", "nearest ends are 64k and 128k"},
    {"--method dense-f16 --seqlen 0", "--seqlen 0: 0 is below the limit of 1"},
    {"--method dense-f16 --head-dim 129", "above the limit of 128"},
    {"--method dense-f16 --dtype f32", "neither f16 nor bf16"},
    {"--method dense-f16 --causal maybe", "none of none, top-left, bottom-right"},
    {"--method dense-f16 --order spiral", "spiral"},
    {"--method dense-f16 --seed -1", "below the limit of 0"},
    {"--method sparge-f16,sparge-int8-f16 --set tau=0.5", "both 'sparge-f16' and 'sparge-int8-f16'"},
    {"--method sparge-f16 --set taw=0.5", "sparge-f16.tau"},
    {"--method dense-f16 --set sparge-f16.tau=0.5", "is not selected"},
    {"--method dense-f16 --set sparge-f17.tau=0.5", "did you mean"},
    {"--method sparge-f16 --set sparge-f16.nope=1", "sparge-f16.theta"},
    {"--method sparge-f16 --set tau", "expected [METHOD.]param=value"},
    {"--method sparge-f16 --set =1", "expected [METHOD.]param=value"},
    {"--method sparge-f16 --set tau=1.5", "tau"},
    {"--method sparge-f16 --set tau=x", "--set sparge-f16.tau=x"},
    {"--method sparge-f16 --set tau=0.1..0.5*2", "nearest ends are 0.4 and 0.8"},
    {"--method window --set local=1.5", "not a whole number"},
    {"--method sparge-f16 --set block_q=64,65", "block_q"},
    {"--method sparge-f16 --set tau=0.5 --set sparge-f16.tau=0.6", "set twice"},
    {"--method sparge-f16 --set tau=0.5 --set topk=0.5", "tau"},
    {"--method dense-f16 --seqlen 1k,2k --heads 1,2,4 --zip seqlen,heads", "'heads' has 3"},
    {"--method dense-f16 --seqlen 1k,2k --zip seqlen", "two or more"},
    {"--method dense-f16 --seqlen 1k,2k --zip seqlen,seqlen", "named twice"},
    {"--method dense-f16 --seqlen 1k,2k --heads 1,2 --batch 1,2 --zip seqlen,heads --zip heads,batch", "named twice"},
    {"--method dense-f16 --seqlen 1k,2k --zip seqlen,colour", "no axis 'colour'"},
    {"--method sparge-f16,sparge-int8-f16 --set sparge-f16.tau=0.5,0.6 --set sparge-int8-f16.tau=0.5,0.6 --zip "
     "sparge-f16.tau,sparge-int8-f16.tau",
     "never parameters of the same point"},
    {"--method sparge-f16,sparge-int8-f16 --set sparge-f16.tau=0.5,0.6 --set sparge-int8-f16.tau=0.5,0.6 --seqlen "
     "1k,2k --zip tau,seqlen",
     "may be"},
    {"--method dense-f16 --compat upstream", "no selected method"},
    {"--method sparge-f16 --compat newest", "neither fixed nor upstream"},
    {"--method mask --set file=a\xff.npy", "not UTF-8"},
};

static void mistakes_are_usage_errors_of_one_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        test_arguments arguments;
        sb_points points;
        char text[4096];
        parse_arguments(&sb_command_sweep, errors[i].line, &arguments);
        capture_stderr();
        int code = sb_points_create(arguments.arguments, &points);
        release_stderr(text, sizeof text);
        if (code != SB_EXIT_USAGE || !strstr(text, errors[i].expect))
            fail_msg("%s\nexpected \"%s\", got code %d and: %s", errors[i].line, errors[i].expect, code, text);
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        assert_int_equal(points.count, 0);
        release_arguments(&arguments);
    }
}

/* --method all has points for methods that need more than their defaults: the sweep records why they are skipped. */
static void all_methods_are_points(void **state)
{
    (void)state;
    test_arguments arguments;
    sb_points points;
    create("--method all --seqlen 128 --heads 2", &arguments, &points);
    assert_int_equal(points.count, sparge_method_count());
    release(&arguments, &points);
}

static const char *const repro_lines[] = {
    "--method dense-f16,sparge-f16 --seqlen 128..512 --heads 2",
    "--method sparge-f16 --set tau=0.5..0.9+0.2 --set theta=0.1,0.2,0.3 --zip tau,theta --seqlen 128 --heads 2",
    "--method sparge-f16 --set topk=0.25,0.5 --set theta=0.6, --seqlen 100,200 --heads 1,2 --dtype f16,bf16",
    "--method dense-f16,sparge-f16 --compat upstream --causal none,top-left,causal --seqlen 128 --heads 2",
    "--method window,sta --workload mochi --seqlen 2k --heads 1 --order row,hilbert,random --seed 7,8",
    "--method dense-f16 --workload random,uniform,structured,llama3.1-8b --seqlen 64 --batch 1,2 --head-dim 64,96",
    "--method dense-f16 --seqlen 128 --heads 2 --seed 0",
};

/* Every point's command, parsed again, is that point and no other. */
static void repro_commands_make_the_same_point(void **state)
{
    (void)state;
    size_t checked = 0;
    for (size_t i = 0; i < sizeof repro_lines / sizeof *repro_lines; i++) {
        test_arguments arguments;
        sb_points points;
        create(repro_lines[i], &arguments, &points);
        for (size_t n = 0; n < points.count; n++, checked++) {
            static const char prefix[] = "sparge-bench sweep ";
            test_arguments again;
            sb_points one;
            sb_record a, b;
            assert_memory_equal(points.point[n].repro, prefix, sizeof prefix - 1);
            create(points.point[n].repro + sizeof prefix - 1, &again, &one);
            assert_int_equal(one.count, 1);
            assert_int_equal(sb_record_point(&points.point[n], &device, &a, NULL), RS_OK);
            assert_int_equal(sb_record_point(&one.point[0], &device, &b, NULL), RS_OK);
            if (strcmp(a.key, b.key) != 0)
                fail_msg("another point: %s", points.point[n].repro);
            assert_string_equal(points.point[n].repro, one.point[0].repro);
            release(&again, &one);
        }
        release(&arguments, &points);
    }
    assert_true(checked > 40);
}

/* Different points have different keys. */
static void keys_tell_points_apart(void **state)
{
    (void)state;
    test_arguments arguments;
    sb_points points;
    create("--method dense-f16,sparge-f16,window --workload random,structured --seqlen 64,128 --heads 1,2 --causal "
           "none,causal --seed 1,2",
           &arguments, &points);
    assert_int_equal(points.count, 96);
    char(*key)[65] = calloc(points.count, sizeof *key);
    assert_non_null(key);
    for (size_t i = 0; i < points.count; i++) {
        sb_record record;
        assert_int_equal(sb_record_point(&points.point[i], &device, &record, NULL), RS_OK);
        memcpy(key[i], record.key, sizeof key[i]);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(key[i], key[j]);
    }
    free(key);
    release(&arguments, &points);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void key_of_mask(const char *path, char key[65])
{
    test_arguments arguments;
    sb_points points;
    sb_record record;
    char line[256];
    snprintf(line, sizeof line, "--method mask --set file=%s --seqlen 128 --heads 1", path);
    create(line, &arguments, &points);
    assert_int_equal(sb_record_point(&points.point[0], &device, &record, NULL), RS_OK);
    memcpy(key, record.key, sizeof record.key);
    release(&arguments, &points);
}

/* A file that a parameter names is known by its name and what it holds, not by its folder. */
static void files_are_told_apart_by_what_they_hold(void **state)
{
    (void)state;
    char folder[] = "/tmp/sb_points_XXXXXX", here[64], there[64], inner[64];
    char missing[65], first[65], second[65], moved[65], restored[65];
    assert_non_null(mkdtemp(folder));
    snprintf(here, sizeof here, "%s/m.npy", folder);
    snprintf(inner, sizeof inner, "%s/inner", folder);
    snprintf(there, sizeof there, "%s/inner/m.npy", folder);
    key_of_mask(here, missing);
    write_text(here, "one");
    key_of_mask(here, first);
    write_text(here, "two");
    key_of_mask(here, second);
    assert_int_equal(mkdir(inner, 0700), 0);
    write_text(there, "one");
    key_of_mask(there, moved);
    write_text(here, "one");
    key_of_mask(here, restored);
    assert_string_not_equal(missing, first);
    assert_string_not_equal(first, second);
    assert_string_equal(first, moved);
    assert_string_equal(first, restored);
    unlink(there);
    rmdir(inner);
    unlink(here);
    rmdir(folder);
}

/* What differs from the defaults, sorted by name, however it was given; a parameter that another replaces is not named. */
static void settings_are_what_differs(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--set tau=0.9", "tau=0.9"},
        {"--set tau=0.90 --set compat=upstream --set lambda=-5", "compat=upstream lambda=-5 tau=0.9"},
        {"--set topk=.25", "topk=0.25"},
        {"--set topk=0.25 --set theta=0.6", "theta=0.6 topk=0.25"}, /* topk alone switches theta off */
        {"--set sink=on --set tau=0.98 --set theta=0.6", "sink=on"},
        {"--compat upstream", "compat=upstream"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_arguments arguments;
        sb_points points;
        char options[256], label[128], expected[128];
        snprintf(options, sizeof options, "--method sparge-f16 --seqlen 128 --heads 2 %s", cases[i][0]);
        create(options, &arguments, &points);
        assert_int_equal(points.count, 1);
        assert_string_equal(points.point[0].settings, cases[i][1]);
        sb_point_label(&points.point[0], label, sizeof label);
        snprintf(expected, sizeof expected, "sparge-f16 %s", cases[i][1]);
        assert_string_equal(label, expected);
        release(&arguments, &points);
    }
    test_arguments arguments;
    sb_points points;
    create("--method sparge-f16,dense-f16 --seqlen 128 --heads 2", &arguments, &points);
    for (size_t i = 0; i < points.count; i++)
        assert_string_equal(points.point[i].settings, "");
    release(&arguments, &points);
}

/* Points of one workload share it and follow each other. */
static void workloads_are_shared(void **state)
{
    (void)state;
    test_arguments arguments;
    sb_points points;
    create("--method dense-f16,sparge-f16 --seqlen 64,128 --heads 1 --set tau=0.5,0.6", &arguments, &points);
    assert_int_equal(points.count, 6);
    for (size_t i = 0; i < points.count; i++)
        assert_int_equal(points.point[i].workload_index, i / 3);
    release(&arguments, &points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_hold_the_points_of_the_product),
        cmocka_unit_test(equal_points_are_left_out),
        cmocka_unit_test(defaults_are_the_same_point),
        cmocka_unit_test(mistakes_are_usage_errors_of_one_line),
        cmocka_unit_test(all_methods_are_points),
        cmocka_unit_test(repro_commands_make_the_same_point),
        cmocka_unit_test(keys_tell_points_apart),
        cmocka_unit_test(files_are_told_apart_by_what_they_hold),
        cmocka_unit_test(settings_are_what_differs),
        cmocka_unit_test(workloads_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
