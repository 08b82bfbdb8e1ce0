/* --zip: finds the axes by name, checks that they can run together, and ties them to the first. */
#include "plan/zip.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

static int out_of_memory(void)
{
    return sb_fail(SB_EXIT_ENVIRONMENT, "out of memory for --zip");
}

static int find_axis(const sb_axes *axes, const char *name, const char *option, size_t *index)
{
    size_t found = axes->count;
    for (size_t i = 0; i < axes->count; i++) {
        const sb_axis *axis = &axes->axis[i];
        if (strcmp(axis->name, name) == 0 || (axis->param && strcmp(axis->param, name) == 0)) {
            if (found < axes->count)
                return sb_fail(SB_EXIT_USAGE, "--zip %s: '%s' may be %s or %s", option, name, axes->axis[found].name,
                               axis->name);
            found = i;
        }
    }
    *index = found;
    if (found < axes->count)
        return SB_EXIT_OK;
    sb_text known = {0};
    for (size_t i = 0; i < axes->count; i++)
        if (axes->axis[i].given)
            sb_text_add(&known, "%s%s", known.length ? ", " : "", axes->axis[i].name);
    char *list = sb_text_take(&known);
    int code =
        sb_fail(SB_EXIT_USAGE, "--zip %s: there is no axis '%s'; this command has: %s", option, name, list ? list : "");
    free(list);
    return code;
}

/* Makes `other` follow `first`. */
static int tie(sb_axes *axes, size_t first, size_t other, const char *option)
{
    const sb_axis *a = &axes->axis[first];
    sb_axis *b = &axes->axis[other];
    if (a->method && b->method && a->method != b->method)
        return sb_fail(SB_EXIT_USAGE, "--zip %s: '%s' and '%s' are never parameters of the same point", option, a->name,
                       b->name);
    if (a->count != b->count)
        return sb_fail(SB_EXIT_USAGE, "--zip %s: '%s' has %zu values and '%s' has %zu; they must be as many", option,
                       a->name, a->count, b->name, b->count);
    b->tied_to = first;
    return SB_EXIT_OK;
}

int sb_axes_zip(sb_axes *axes, const char *option)
{
    char **name;
    size_t count;
    if (sb_text_split(option, &name, &count) != 0)
        return out_of_memory();
    size_t *index = calloc(count, sizeof *index);
    int code = index ? SB_EXIT_OK : out_of_memory();
    if (code == SB_EXIT_OK && count < 2)
        code = sb_fail(SB_EXIT_USAGE, "--zip %s: names one axis; tying needs two or more", option);
    size_t first = axes->count;
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++) {
        code = find_axis(axes, name[i], option, &index[i]);
        if (code != SB_EXIT_OK)
            break;
        sb_axis *axis = &axes->axis[index[i]];
        if (axis->zipped)
            code = sb_fail(SB_EXIT_USAGE, "--zip %s: '%s' is named twice", option, axis->name);
        axis->zipped = 1;
        if (index[i] < first)
            first = index[i];
    }
    for (size_t i = 0; i < count && code == SB_EXIT_OK; i++)
        if (index[i] != first)
            code = tie(axes, first, index[i], option);
    free(index);
    free(name);
    return code;
}
