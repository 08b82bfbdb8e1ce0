/* Rows of the structured model: a smooth random field, plus independent noise, plus offsets that all rows share.
 *
 * Each axis of the grid has a field of its own: anchors, random directions of length sqrt(D), at every scale_length-th
 * cell, and between them their linear interpolation brought back to length sqrt(D). The field of a token is the sum over
 * the axes, again of length sqrt(D): tokens that share a frame, a row or a column are alike, those that share more are
 * more alike. All arithmetic is binary32 in the order written here; other backends must keep it. */
#include "model.h"

#include <math.h>

#include "normal.h"

void generate_normal_row(uint64_t seed, generate_stream stream, int64_t batch, int64_t head, int64_t token,
                         int channels, float *out)
{
    for (int c = 0; c < channels; c += 4) {
        philox_words random = generate_words(seed, stream, batch, head, token, c / 4);
        for (int i = 0; i < 4 && c + i < channels; i++)
            out[c + i] = normal_from_bits(random.word[i]);
    }
}

void generate_uniform_row(uint64_t seed, generate_stream stream, int64_t batch, int64_t head, int64_t token,
                          int channels, float *out)
{
    for (int c = 0; c < channels; c += 4) {
        philox_words random = generate_words(seed, stream, batch, head, token, c / 4);
        for (int i = 0; i < 4 && c + i < channels; i++)
            out[c + i] = uniform_from_bits(random.word[i]);
    }
}

/* Scales a row to length sqrt(channels). The sum of squares runs in four strands, channel mod 4. */
static void normalise(float *row, int channels)
{
    float strand[4] = {0, 0, 0, 0};
    for (int c = 0; c < channels; c++)
        strand[c % 4] += row[c] * row[c];
    float square = (strand[0] + strand[1]) + (strand[2] + strand[3]);
    if (square == 0) /* opposite anchors of one channel cancel: the direction is lost, zero is the honest value */
        return;
    float factor = sqrtf((float)channels) / sqrtf(square);
    for (int c = 0; c < channels; c++)
        row[c] *= factor;
}

/* ---- anchors ---- */

structured_layout structured_layout_of(const sparge_generator *generator, int64_t tokens)
{
    const sparge_grid *grid = &generator->grid;
    structured_layout layout = {.extent = {1, 1, tokens, 0}};
    if (grid->t > 0)
        layout = (structured_layout){
            .extent = {grid->t, grid->h, grid->w, (int64_t)grid->text_before + grid->text_after},
            .text_before = grid->text_before,
        };
    for (int axis = 0; axis < FIELD_AXES; axis++) {
        int64_t extent = layout.extent[axis];
        layout.first[axis] = layout.total;
        if (extent > 1 || (axis == FIELD_TEXT && extent == 1))
            layout.anchors[axis] = (int64_t)((float)(extent - 1) / generator->scale_length) + 2;
        layout.total += layout.anchors[axis];
    }
    return layout;
}

void structured_anchor(const sparge_generator *generator, const structured_layout *layout, int64_t batch, int64_t group,
                       int64_t index, int channels, float *out)
{
    int axis = FIELD_TEXT;
    while (index < layout->first[axis] || layout->anchors[axis] == 0)
        axis--;
    generate_normal_row(generator->seed, (generate_stream)(STREAM_FIELD + axis), batch, group,
                        index - layout->first[axis], channels, out);
    normalise(out, channels);
}

/* ---- the field at one token ---- */

/* The field along one axis. */
static void axis_field(const structured_head *head, int axis, int64_t cell, float *out)
{
    float place = (float)cell / head->generator->scale_length;
    int64_t index = (int64_t)place;
    float after = place - (float)index, before = 1.0f - after;
    const float *a = head->anchor + (head->layout->first[axis] + index) * head->channels, *b = a + head->channels;
    for (int c = 0; c < head->channels; c++)
        out[c] = before * a[c] + after * b[c];
    normalise(out, head->channels);
}

static void field_row(const structured_head *head, int64_t token, float *out)
{
    const structured_layout *layout = head->layout;
    int64_t plane = layout->extent[FIELD_H] * layout->extent[FIELD_W];
    int64_t cells = layout->extent[FIELD_T] * plane;
    int64_t cell = token - layout->text_before;
    if (cell < 0 || cell >= cells) {
        axis_field(head, FIELD_TEXT, cell < 0 ? token : token - cells, out);
        return;
    }
    const int64_t at[3] = {cell / plane, cell % plane / layout->extent[FIELD_W], cell % layout->extent[FIELD_W]};
    for (int c = 0; c < head->channels; c++)
        out[c] = 0;
    for (int axis = FIELD_T; axis <= FIELD_W; axis++) {
        if (layout->anchors[axis] == 0)
            continue;
        float one[SPARGE_MAX_HEAD_DIM];
        axis_field(head, axis, at[axis], one);
        for (int c = 0; c < head->channels; c++)
            out[c] += one[c];
    }
    normalise(out, head->channels);
}

/* ---- heads and rows ---- */

/* The offset of Q is +-query_offset in every channel: all heads of a group have the same signs, so that a key can meet
 * the average query of all of them. */
static void query_direction(const sparge_generator *generator, int64_t group, int channels, float *sign)
{
    generate_uniform_row(generator->seed, STREAM_Q_OFFSET, 0, group, 0, channels, sign);
    for (int c = 0; c < channels; c++)
        sign[c] = sign[c] < 0 ? -1.0f : 1.0f;
}

structured_head structured_head_make(const sparge_generator *generator, sparge_tensor_role role, int64_t batch,
                                     int64_t head, int channels)
{
    structured_head made = {.generator = generator, .role = role, .batch = batch, .head = head, .channels = channels};
    int is_q = role == SPARGE_ROLE_Q;
    made.group = is_q ? head / (generator->heads_q / generator->heads_kv) : head;

    /* The model's parameters vary between heads, not between batches: batch 0 for all. */
    philox_words random = generate_words(generator->seed, is_q ? STREAM_Q_HEAD : STREAM_K_HEAD, 0, head, 0, 0);
    float correlation_swing = generator->head_spread * uniform_from_bits(random.word[0]);
    float sharpness_swing = generator->head_spread * uniform_from_bits(random.word[1]);
    float correlation = generator->correlation;
    correlation += correlation_swing * (correlation < 0.5f ? correlation : 1.0f - correlation);
    made.field_share = sqrtf(correlation);
    made.noise_share = sqrtf(1.0f - correlation);
    made.factor = is_q ? generator->sharpness * (1.0f + 0.5f * sharpness_swing) : 1.0f;

    float direction[SPARGE_MAX_HEAD_DIM];
    query_direction(generator, made.group, channels, direction);
    if (is_q) {
        for (int c = 0; c < channels; c++)
            made.offset[c] = generator->query_offset * direction[c];
        return made;
    }
    generate_normal_row(generator->seed, STREAM_K_OFFSET, 0, head, 0, channels, made.offset);
    for (int c = 0; c < channels; c++)
        made.offset[c] *= generator->channel_offset;
    if (generator->sink_strength > 0) {
        /* sharpness * query_offset * size * D / sqrt(D) = sink_strength */
        float size =
            generator->sink_strength / (generator->sharpness * generator->query_offset * sqrtf((float)channels));
        for (int c = 0; c < channels; c++)
            made.sink[c] = size * direction[c];
    }
    return made;
}

void structured_row(const structured_head *head, int64_t token, float *out)
{
    float noise[SPARGE_MAX_HEAD_DIM];
    generate_stream stream = head->role == SPARGE_ROLE_Q ? STREAM_Q : STREAM_K;
    generate_normal_row(head->generator->seed, stream, head->batch, head->head, token, head->channels, noise);
    field_row(head, token, out);
    for (int c = 0; c < head->channels; c++)
        out[c] = head->factor * (head->field_share * out[c] + head->noise_share * noise[c] + head->offset[c]);
    if (head->role == SPARGE_ROLE_K && token < head->generator->sink_tokens) {
        for (int c = 0; c < head->channels; c++)
            out[c] += head->sink[c];
    }
}
