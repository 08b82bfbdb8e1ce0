/* The structured model, one row at a time (docs/workloads.md has the formulas), and the counters of every generator.
 *
 * A row depends on the seed, its own place and the anchors of its field; no row depends on another. The only state is
 * a table of anchors, which a row could as well compute for itself. */
#ifndef SPARGE_GENERATE_MODEL_H
#define SPARGE_GENERATE_MODEL_H

#include "philox.h"
#include "sparge/generate.h"
#include "sparge/status.h"

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

/* Four random words for channels 4 * group .. 4 * group + 3 of a token. Batches and heads are below 2^16, groups below
 * 2^8: every number of every tensor has a counter of its own. */
static inline philox_words generate_words(uint64_t seed, generate_stream stream, int64_t batch, int64_t head,
                                          int64_t token, int group)
{
    uint64_t place = (uint64_t)token;
    philox_words counter = {{(uint32_t)place, (uint32_t)(place >> 32), (uint32_t)batch << 16 | (uint32_t)head,
                             (uint32_t)stream << 8 | (uint32_t)group}};
    return philox4x32(counter, seed);
}

/* Independent standard normal, or uniform in [-1, 1), numbers for the channels of one token. */
void generate_normal_row(uint64_t seed, generate_stream stream, int64_t batch, int64_t head, int64_t token,
                         int channels, float *out);
void generate_uniform_row(uint64_t seed, generate_stream stream, int64_t batch, int64_t head, int64_t token,
                          int channels, float *out);

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
} structured_layout;

structured_layout structured_layout_of(const sparge_generator *generator, int64_t tokens);

/* Anchor `index` of the table: a normal vector scaled to length sqrt(channels). */
void structured_anchor(const sparge_generator *generator, const structured_layout *layout, int64_t batch, int64_t group,
                       int64_t index, int channels, float *out);

/* One head of Q or K. */
typedef struct structured_head {
    const sparge_generator *generator;
    const structured_layout *layout;
    const float *anchor; /* the table of this batch and group */
    sparge_tensor_role role;
    int64_t batch, head, group; /* group: the KV head whose field and offsets this head shares */
    int channels;
    float field_share, noise_share;    /* sqrt(c) and sqrt(1 - c) for this head's correlation c */
    float factor;                      /* on the whole row: the sharpness of a query head, 1 for K */
    float offset[SPARGE_MAX_HEAD_DIM]; /* added to every row, before the factor */
    float sink[SPARGE_MAX_HEAD_DIM];   /* added to the first sink_tokens rows of K */
} structured_head;

/* All but layout and anchor, which the caller sets. */
structured_head structured_head_make(const sparge_generator *generator, sparge_tensor_role role, int64_t batch,
                                     int64_t head, int channels);
void structured_row(const structured_head *head, int64_t token, float *out);

#endif
