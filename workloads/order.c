/* Token orders: in which sequence the cells of a t x h x w grid are laid out. */
#include <stdlib.h>
#include <string.h>

#include "generate/philox.h"
#include "hilbert.h"
#include "workloads.h"

static const char *const names[WL_ORDER_COUNT] = {"row", "column", "time", "random", "hilbert"};

const char *wl_order_name(wl_order order)
{
    return (unsigned)order < WL_ORDER_COUNT ? names[order] : "?";
}

sparge_status wl_order_parse(const char *name, wl_order *order, sparge_error *error)
{
    for (int i = 0; i < WL_ORDER_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *order = (wl_order)i;
            return SPARGE_OK;
        }
    }
    return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                       "order '%.64s': must be row, column, time, random or hilbert", name);
}

/* A sequence of random words: Philox keyed by the seed, its counter counting up. */
typedef struct word_stream {
    uint64_t seed, block;
    philox_words words;
    int used;
} word_stream;

static uint32_t next_word(word_stream *stream)
{
    if (stream->used == 4) {
        philox_words counter = {{(uint32_t)stream->block, (uint32_t)(stream->block >> 32), 0, 0}};
        stream->words = philox4x32(counter, stream->seed);
        stream->block++;
        stream->used = 0;
    }
    return stream->words.word[stream->used++];
}

/* Uniform in 0..limit-1, limit >= 1, without bias: draws in the last, incomplete run of `limit` are thrown away. */
static uint64_t next_below(word_stream *stream, uint64_t limit)
{
    uint64_t excess = (UINT64_MAX % limit + 1) % limit; /* 2^64 modulo limit */
    uint64_t last = UINT64_MAX - excess;
    for (;;) {
        uint64_t draw = next_word(stream);
        draw = draw << 32 | next_word(stream);
        if (draw <= last)
            return draw % limit;
    }
}

/* Fisher and Yates: each place swaps with one at or before it. */
static void shuffle(int64_t *cell, int64_t cells, uint64_t seed)
{
    word_stream stream = {.seed = seed, .used = 4};
    for (int64_t i = 0; i < cells; i++)
        cell[i] = i;
    for (int64_t i = cells - 1; i > 0; i--) {
        int64_t j = (int64_t)next_below(&stream, (uint64_t)i + 1);
        int64_t swap = cell[i];
        cell[i] = cell[j];
        cell[j] = swap;
    }
}

/* `inner` varies fastest, then `middle`, then `outer`: axes of extent[] = {t, h, w}. */
static void nested(const int32_t extent[3], int outer, int middle, int inner, int64_t *cell)
{
    const int64_t stride[3] = {(int64_t)extent[1] * extent[2], extent[2], 1};
    for (int32_t i = 0; i < extent[outer]; i++)
        for (int32_t j = 0; j < extent[middle]; j++)
            for (int32_t k = 0; k < extent[inner]; k++)
                *cell++ = i * stride[outer] + j * stride[middle] + k * stride[inner];
}

sparge_status wl_order_permutation(const sparge_grid *grid, wl_order order, uint64_t seed, int64_t *source,
                                   sparge_error *error)
{
    const int32_t extent[3] = {grid->t, grid->h, grid->w};
    int64_t cells;
    if (grid->t < 1 || grid->h < 1 || grid->w < 1 || grid->text_before < 0 || grid->text_after < 0 ||
        __builtin_mul_overflow((int64_t)grid->h * grid->w, (int64_t)grid->t, &cells))
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT,
                           "order %s: needs a grid, not %dx%dx%d with %d text tokens before and %d after",
                           wl_order_name(order), grid->t, grid->h, grid->w, grid->text_before, grid->text_after);
    int64_t *cell = source + grid->text_before;
    switch (order) {
    case WL_ORDER_ROW:
        nested(extent, 0, 1, 2, cell);
        break;
    case WL_ORDER_COLUMN:
        nested(extent, 0, 2, 1, cell);
        break;
    case WL_ORDER_TIME:
        nested(extent, 1, 2, 0, cell);
        break;
    case WL_ORDER_RANDOM:
        shuffle(cell, cells, seed);
        break;
    case WL_ORDER_HILBERT:
        hilbert_curve(extent, cell);
        break;
    default:
        return sparge_fail(error, SPARGE_ERROR_INVALID_ARGUMENT, "order = %d: not a wl_order", (int)order);
    }
    for (int64_t i = 0; i < cells; i++)
        cell[i] += grid->text_before;
    for (int64_t i = 0; i < grid->text_before; i++)
        source[i] = i;
    for (int64_t i = grid->text_before + cells; i < grid->text_before + cells + grid->text_after; i++)
        source[i] = i;
    return SPARGE_OK;
}
