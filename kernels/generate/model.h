/* The generators' arithmetic, shared by the backends (docs/workloads.md has the formulas): what each random number is
 * for, and the structured model element by element. kernels/{cpu,cuda}/generate only loop over rows.
 *
 * A row depends on the seed, its own place and the anchors of its field; no row depends on another. The only state is
 * a table of anchors, which a row could as well compute for itself. All arithmetic is binary32 in the order written
 * here. */
#ifndef SPARGE_GENERATE_MODEL_H
#define SPARGE_GENERATE_MODEL_H

#include "generate/normal.h"
#include "generate/philox.h"
#include "sparge/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a random number is for. Part of the counter: changing a value changes the numbers. */
typedef enum generate_stream {
    STREAM_Q = 0, /* independent numbers of Q, K and V: the roles' own values */
    STREAM_K,
    STREAM_V,
    STREAM_FIELD, /* anchors along t, h, w and the text tokens: four streams, one for each field_axis */
    STREAM_Q_OFFSET = STREAM_FIELD + 4, /* the common direction of Q, and of the sinks */
    STREAM_K_OFFSET,                    /* the channel offset of K */
    STREAM_Q_HEAD,                      /* what varies between query heads */
    STREAM_K_HEAD                       /* and between KV heads */
} generate_stream;

/* The limits of the counter below. */
enum { GENERATE_MAX_BATCH = 1 << 16, GENERATE_MAX_HEADS = 1 << 16 };

/* Four random words for channels 4 * group .. 4 * group + 3 of a token. Batches and heads are below 2^16, groups below
 * 2^8: every number of every tensor has a counter of its own. */
static inline SPARGE_HOST_DEVICE philox_words generate_words(uint64_t seed, generate_stream stream, int64_t batch,
                                                             int64_t head, int64_t token, int group)
{
    const uint64_t place = (uint64_t)token;
    const philox_words counter = {{(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)batch << 16 | (uint32_t)head,
                                   (uint32_t)stream << 8 | (uint32_t)group}};
    return philox4x32(counter, seed);
}

/* The stream of a tensor whose numbers are independent. */
static inline generate_stream generate_stream_of(sparge_tensor_role role)
{
    return role == SPARGE_ROLE_Q ? STREAM_Q : role == SPARGE_ROLE_K ? STREAM_K : STREAM_V;
}

/* Independent standard normal, or uniform in [-1, 1), numbers for the channels of one token. Host only. */
void generate_normal_row(uint64_t seed, generate_stream stream, int64_t batch, int64_t head, int64_t token,
                         int channels, float *out);
void generate_uniform_row(uint64_t seed, generate_stream stream, int64_t batch, int64_t head, int64_t token,
                          int channels, float *out);

/* ---- the structured model: a smooth random field, plus independent noise, plus offsets that all rows share ----
 *
 * Each axis of the grid has a field of its own: anchors, random directions of length sqrt(D), at every scale_length-th
 * cell, and between them their linear interpolation brought back to length sqrt(D). The field of a token is the sum over
 * the axes, again of length sqrt(D): tokens that share a frame, a row or a column are alike, those that share more are
 * more alike. */

/* The axes that have a field of their own. A plain sequence is a grid of one row: all its tokens lie along w. */
enum { FIELD_T = 0, FIELD_H, FIELD_W, FIELD_TEXT, FIELD_AXES };

/* Where the anchors of the axes are in a table [total][channels]. An axis of one cell has no field and no anchors; the
 * text axis has one as soon as there is text. */
typedef struct structured_layout {
    int64_t extent[FIELD_AXES]; /* cells of t, h and w; text tokens */
    int64_t text_before;
    int64_t first[FIELD_AXES];
    int64_t anchors[FIELD_AXES];
    int64_t total;
    float scale_length;
} structured_layout;

structured_layout structured_layout_of(const sparge_generator *generator, int64_t tokens);

/* The axis that anchor `index` of the table belongs to. */
static inline SPARGE_HOST_DEVICE int structured_anchor_axis(const structured_layout *layout, int64_t index)
{
    int axis = FIELD_TEXT;
    while (index < layout->first[axis] || layout->anchors[axis] == 0)
        axis--;
    return axis;
}

/* Where a token lies: its cell on each axis, -1 on those that have no part in its field. Text lies along the text axis
 * alone. */
typedef struct structured_cells {
    int64_t at[FIELD_AXES];
} structured_cells;

static inline SPARGE_HOST_DEVICE structured_cells structured_cells_of(const structured_layout *layout, int64_t token)
{
    const int64_t width = layout->extent[FIELD_W], plane = layout->extent[FIELD_H] * width;
    const int64_t cells = layout->extent[FIELD_T] * plane, cell = token - layout->text_before;
    structured_cells of = {{-1, -1, -1, -1}};
    if (cell < 0 || cell >= cells) {
        of.at[FIELD_TEXT] = cell < 0 ? token : token - cells;
        return of;
    }
    if (layout->anchors[FIELD_T] > 0)
        of.at[FIELD_T] = cell / plane;
    if (layout->anchors[FIELD_H] > 0)
        of.at[FIELD_H] = cell % plane / width;
    if (layout->anchors[FIELD_W] > 0)
        of.at[FIELD_W] = cell % width;
    return of;
}

/* Between which anchors of the table a cell lies, and how much of each it takes. */
typedef struct structured_span {
    int64_t anchor; /* and the next one */
    float before, after;
} structured_span;

static inline SPARGE_HOST_DEVICE structured_span structured_span_of(const structured_layout *layout, int axis,
                                                                    int64_t cell)
{
    const float place = ieee_quotient((float)cell, layout->scale_length);
    const int64_t index = (int64_t)place;
    structured_span span;
    span.anchor = layout->first[axis] + index;
    span.after = place - (float)index;
    span.before = 1.0f - span.after;
    return span;
}

static inline SPARGE_HOST_DEVICE float structured_between(const structured_span *span, float a, float b)
{
    return ieee_product(span->before, a) + ieee_product(span->after, b);
}

/* The factor that brings a row to length sqrt(channels). `square`: the sum of its squares in four strands, channel mod
 * 4, each over ascending channels, added as (0 + 1) + (2 + 3). */
static inline SPARGE_HOST_DEVICE float structured_normaliser(float square, int channels)
{
    if (square == 0) /* opposite anchors of one channel cancel: the direction is lost, zero is the honest value */
        return 1.0f;
    return ieee_quotient(ieee_root((float)channels), ieee_root(square));
}

/* The numbers of one head of Q or K. */
typedef struct structured_head {
    int64_t batch, head, group;        /* group: the KV head whose field and offsets this head shares */
    float field_share, noise_share;    /* sqrt(c) and sqrt(1 - c) for this head's correlation c */
    float factor;                      /* on the whole row: the sharpness of a query head, 1 for K */
    float offset[SPARGE_MAX_HEAD_DIM]; /* added to every row, before the factor */
    float sink[SPARGE_MAX_HEAD_DIM];   /* added to the first sink_tokens rows of K */
    int64_t sink_tokens;               /* 0 for Q */
} structured_head;

structured_head structured_head_make(const sparge_generator *generator, sparge_tensor_role role, int64_t batch,
                                     int64_t head, int channels);

/* Channel c of a row, from its field (of length sqrt(channels)) and noise there. */
static inline SPARGE_HOST_DEVICE float structured_value(const structured_head *head, int64_t token, int c, float field,
                                                        float noise)
{
    const float mixed =
        ieee_product(head->field_share, field) + ieee_product(head->noise_share, noise) + head->offset[c];
    const float value = ieee_product(head->factor, mixed);
    return token < head->sink_tokens ? value + head->sink[c] : value;
}

#ifdef __cplusplus
}
#endif
#endif
