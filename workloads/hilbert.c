/* The Hilbert curve generalised to boxes whose sides are not powers of two, after the construction of Jakub Cerveny
 * ("gilbert"). The curve of a box runs from one corner along the first axis to the next corner:
 *
 *     a long box is cut in two along its first axis, and the curves follow each other;
 *     a flat box is cut into three: out along the second axis, across, and back;
 *     a box of like sides is cut into five: an eighth, three quarters and an eighth, as in Hilbert's curve.
 *
 * Pieces are cut at even lengths where there is a choice: an odd piece can make two neighbours meet at a diagonal. Which
 * axis comes first decides how often that happens, so all six orders are tried and the best is taken. On cubes of side
 * 2^n every aligned sub-cube is one run of the curve. */
#include "hilbert.h"

#include <stdlib.h>

/* A side of a box or a place in it. A side is non-zero in one axis only; its sign is the direction of travel. */
typedef struct vec {
    int32_t x[3];
} vec;

typedef struct box_walk {
    int32_t extent[3];
    int64_t *cell; /* NULL: only count the diagonal steps */
    int64_t cells;
    int64_t diagonal_steps;
    vec last;
} box_walk;

static vec add(vec a, vec b)
{
    return (vec){{a.x[0] + b.x[0], a.x[1] + b.x[1], a.x[2] + b.x[2]}};
}

static vec negate(vec a)
{
    return (vec){{-a.x[0], -a.x[1], -a.x[2]}};
}

static vec subtract(vec a, vec b)
{
    return add(a, negate(b));
}

static int32_t length(vec a)
{
    return abs(a.x[0] + a.x[1] + a.x[2]);
}

static int32_t sign(int32_t value)
{
    return (value > 0) - (value < 0);
}

static vec unit(vec a)
{
    return (vec){{sign(a.x[0]), sign(a.x[1]), sign(a.x[2])}};
}

/* The first half of a side, made even where the side is longer than 2. */
static vec half(vec a)
{
    vec h = {{a.x[0] / 2, a.x[1] / 2, a.x[2] / 2}};
    return length(h) % 2 != 0 && length(a) > 2 ? add(h, unit(a)) : h;
}

static void visit(box_walk *walk, vec at)
{
    if (walk->cells > 0) {
        int32_t distance = 0;
        for (int i = 0; i < 3; i++)
            distance += abs(at.x[i] - walk->last.x[i]);
        walk->diagonal_steps += distance > 1;
    }
    if (walk->cell)
        walk->cell[walk->cells] = ((int64_t)at.x[0] * walk->extent[1] + at.x[1]) * walk->extent[2] + at.x[2];
    walk->last = at;
    walk->cells++;
}

static void walk_line(box_walk *walk, vec at, vec side)
{
    for (int32_t i = length(side); i > 0; i--) {
        visit(walk, at);
        at = add(at, unit(side));
    }
}

static void walk_plane(box_walk *walk, vec at, vec a, vec b)
{
    if (length(b) == 1) {
        walk_line(walk, at, a);
        return;
    }
    if (length(a) == 1) {
        walk_line(walk, at, b);
        return;
    }
    vec a1 = half(a), a2 = subtract(a, a1);
    if (2 * (int64_t)length(a) > 3 * (int64_t)length(b)) {
        walk_plane(walk, at, a1, b);
        walk_plane(walk, add(at, a1), a2, b);
        return;
    }
    /* Out, across, back: the across part has the full length of a, so a is halved without a wish for even lengths. */
    vec middle = {{a.x[0] / 2, a.x[1] / 2, a.x[2] / 2}};
    vec b1 = half(b), far_corner = add(at, add(subtract(a, unit(a)), subtract(b1, unit(b))));
    walk_plane(walk, at, b1, middle);
    walk_plane(walk, add(at, b1), a, subtract(b, b1));
    walk_plane(walk, far_corner, negate(b1), negate(subtract(a, middle)));
}

static void walk_box(box_walk *walk, vec at, vec a, vec b, vec c)
{
    if (length(c) == 1) {
        walk_plane(walk, at, a, b);
        return;
    }
    if (length(b) == 1) {
        walk_plane(walk, at, a, c);
        return;
    }
    if (length(a) == 1) {
        walk_plane(walk, at, b, c);
        return;
    }
    vec a1 = half(a), a2 = subtract(a, a1);
    vec b1 = half(b), b2 = subtract(b, b1);
    vec c1 = half(c), c2 = subtract(c, c1);
    vec a_end = add(at, subtract(a, unit(a))); /* the last cell along a */
    vec b_turn = subtract(b1, unit(b)), c_turn = subtract(c1, unit(c));
    int64_t width = length(a), height = length(b), depth = length(c);
    if (2 * width > 3 * height && 2 * width > 3 * depth) {
        walk_box(walk, at, a1, b, c);
        walk_box(walk, add(at, a1), a2, b, c);
    } else if (3 * height > 4 * depth) {
        walk_box(walk, at, b1, c, a1);
        walk_box(walk, add(at, b1), a, b2, c);
        walk_box(walk, add(a_end, b_turn), negate(b1), c, negate(a2));
    } else if (3 * depth > 4 * height) {
        walk_box(walk, at, c1, a1, b);
        walk_box(walk, add(at, c1), a, b, c2);
        walk_box(walk, add(a_end, c_turn), negate(c1), negate(a2), b);
    } else {
        vec c_end = subtract(c, unit(c));
        walk_box(walk, at, b1, c1, a1);
        walk_box(walk, add(at, b1), c, a1, b2);
        walk_box(walk, add(at, add(b_turn, c_end)), a, negate(b1), negate(c2));
        walk_box(walk, add(a_end, add(b1, c_end)), negate(c), negate(a2), b2);
        walk_box(walk, add(a_end, b_turn), negate(b1), c1, negate(a2));
    }
}

/* axis: the box's axes in the order first, second, third. */
static int64_t walk_extent(const int32_t extent[3], const int axis[3], int64_t *cell)
{
    box_walk walk = {.extent = {extent[0], extent[1], extent[2]}, .cell = cell};
    vec side[3] = {{{0}}};
    for (int i = 0; i < 3; i++)
        side[i].x[axis[i]] = extent[axis[i]];
    walk_box(&walk, (vec){{0, 0, 0}}, side[0], side[1], side[2]);
    return walk.diagonal_steps;
}

void hilbert_curve(const int32_t extent[3], int64_t *cell)
{
    static const int orders[6][3] = {{2, 1, 0}, {2, 0, 1}, {1, 2, 0}, {1, 0, 2}, {0, 2, 1}, {0, 1, 2}};
    int best = 0;
    int64_t fewest = INT64_MAX;
    for (int i = 0; i < 6 && fewest > 0; i++) {
        int64_t steps = walk_extent(extent, orders[i], NULL);
        if (steps < fewest) {
            fewest = steps;
            best = i;
        }
    }
    walk_extent(extent, orders[best], cell);
}
