/* The look of every label. Colours belong to families of methods: Okabe & Ito's colour-blind-safe set without its
 * yellow, which does not carry a thin line on white. Members of a family are tints of its colour; point types and
 * dashes tell labels apart where colour cannot. */
#include "plot.h"

#include <stdlib.h>
#include <string.h>

typedef struct method_family {
    const char *prefix; /* of the method's name */
    unsigned rgb;
} method_family;

static const method_family families[] = {
    {"dense-", 0x000000}, {"sparge-", 0x0072b2}, {"minference-", 0xe69f00}, {"flexprefill", 0x009e73},
    {"window", 0xcc79a7}, {"sta", 0x56b4e9},     {"xattention", 0xd55e00},  {"skip-softmax", 0x8c6d1f},
    {"mask", 0x7f7f7f},   {"", 0x5b4b8a}, /* any other */
};

static size_t family_of(const char *method)
{
    size_t i = 0;
    while (strncmp(method, families[i].prefix, strlen(families[i].prefix)) != 0)
        i++;
    return i;
}

const plot_style *plot_style_of_label(const plot_styles *styles, const char *label)
{
    for (size_t i = 0; i < styles->count; i++)
        if (strcmp(styles->style[i].label, label) == 0)
            return &styles->style[i];
    return NULL;
}

int plot_is_dense(const char *method)
{
    return family_of(method) == family_of("dense-");
}

/* Mixed with white: share 0 leaves the colour, 1 gives white. */
static unsigned tint(unsigned rgb, double share)
{
    unsigned mixed = 0;
    for (unsigned shift = 0; shift <= 16; shift += 8) {
        const double channel = (double)(rgb >> shift & 0xff);
        mixed |= (unsigned)(channel + (255 - channel) * share + 0.5) << shift;
    }
    return mixed;
}

/* Tints and point types, once every label is known. */
static void assign(plot_styles *styles)
{
    static const int point_types[] = {7, 5, 9, 11, 13, 6, 4, 8, 10, 12}; /* filled, then open */
    static const int dense_types[] = {6, 4, 8, 10, 12};                  /* all open: see plot_is_dense */
    const size_t dense_shapes = sizeof dense_types / sizeof *dense_types;
    const size_t shapes = sizeof point_types / sizeof *point_types;
    for (size_t i = 0; i < styles->count; i++) {
        const size_t family = family_of(styles->style[i].method);
        size_t member = 0, members = 0;
        for (size_t j = 0; j < styles->count; j++) {
            const int relative = family_of(styles->style[j].method) == family;
            members += (size_t)relative;
            member += (size_t)(relative && j < i);
        }
        const double share = members > 1 ? 0.55 * (double)member / (double)(members - 1) : 0;
        snprintf(styles->style[i].colour, sizeof styles->style[i].colour, "#%06x", tint(families[family].rgb, share));
        styles->style[i].point_type =
            plot_is_dense(styles->style[i].method) ? dense_types[member % dense_shapes] : point_types[i % shapes];
        styles->style[i].dash_type = (int)(member % 5) + 1;
    }
}

int plot_styles_make(plot_styles *styles, const an_rows *rows)
{
    *styles = (plot_styles){.style = calloc(rows->count + 1, sizeof *styles->style)};
    if (!styles->style)
        return -1;
    for (size_t i = 0; i < rows->count; i++) {
        const an_row *row = &rows->row[i];
        if (row->row.outcome == RS_DONE && !plot_style_of_label(styles, row->label))
            styles->style[styles->count++] = (plot_style){.label = row->label, .method = row->row.point.method};
    }
    assign(styles);
    return 0;
}

void plot_styles_release(plot_styles *styles)
{
    free(styles->style);
    *styles = (plot_styles){0};
}
