/* Rows of the structured model: a smooth random field, plus independent noise, plus offsets that all rows share.
 *
 * The field has anchors, random directions of length sqrt(D), at every scale_length-th token or grid cell. Between them
 * it is interpolated linearly (trilinearly on a grid) and brought back to length sqrt(D). All arithmetic is binary32 in
 * the order written here; other backends must keep it. */
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

void structured_anchor(uint64_t seed, generate_stream stream, int64_t batch, int64_t group, int64_t index, int channels,
                       float *out)
{
    generate_normal_row(seed, stream, batch, group, index, channels, out);
    normalise(out, channels);
}

int64_t structured_axis_anchors(const sparge_generator *generator, int64_t cells)
{
    return (int64_t)((float)(cells - 1) / generator->scale_length) + 2;
}

int64_t structured_grid_anchors(const sparge_generator *generator, int64_t tokens)
{
    const sparge_grid *grid = &generator->grid;
    if (grid->t == 0)
        return structured_axis_anchors(generator, tokens);
    return structured_axis_anchors(generator, grid->t) * structured_axis_anchors(generator, grid->h) *
           structured_axis_anchors(generator, grid->w);
}

int64_t structured_text_anchors(const sparge_generator *generator)
{
    int64_t tokens = (int64_t)generator->grid.text_before + generator->grid.text_after;
    return generator->grid.t == 0 || tokens == 0 ? 0 : structured_axis_anchors(generator, tokens);
}

/* ---- the field at one token ---- */

typedef struct axis_place {
    int64_t anchor;  /* the one at or before the place */
    float weight[2]; /* of that anchor and the next */
} axis_place;

static axis_place locate(int64_t cell, float scale_length)
{
    float place = (float)cell / scale_length;
    axis_place found;
    found.anchor = (int64_t)place;
    found.weight[1] = place - (float)found.anchor;
    found.weight[0] = 1.0f - found.weight[1];
    return found;
}

static void line_field(const float *anchor, int64_t cell, float scale_length, int channels, float *out)
{
    axis_place place = locate(cell, scale_length);
    const float *a = anchor + place.anchor * channels, *b = a + channels;
    for (int c = 0; c < channels; c++)
        out[c] = place.weight[0] * a[c] + place.weight[1] * b[c];
    normalise(out, channels);
}

static void grid_field(const sparge_generator *generator, const float *anchor, int64_t cell, int channels, float *out)
{
    const sparge_grid *grid = &generator->grid;
    axis_place t = locate(cell / ((int64_t)grid->h * grid->w), generator->scale_length);
    axis_place h = locate(cell / grid->w % grid->h, generator->scale_length);
    axis_place w = locate(cell % grid->w, generator->scale_length);
    int64_t rows = structured_axis_anchors(generator, grid->h);
    int64_t columns = structured_axis_anchors(generator, grid->w);
    for (int c = 0; c < channels; c++)
        out[c] = 0;
    for (int corner = 0; corner < 8; corner++) {
        int dt = corner >> 2, dh = corner >> 1 & 1, dw = corner & 1;
        float weight = t.weight[dt] * h.weight[dh] * w.weight[dw];
        const float *a = anchor + (((t.anchor + dt) * rows + h.anchor + dh) * columns + w.anchor + dw) * channels;
        for (int c = 0; c < channels; c++)
            out[c] += weight * a[c];
    }
    normalise(out, channels);
}

static void field_row(const structured_head *head, int64_t token, float *out)
{
    const sparge_generator *generator = head->generator;
    const sparge_grid *grid = &generator->grid;
    if (grid->t == 0) {
        line_field(head->grid_anchor, token, generator->scale_length, head->channels, out);
        return;
    }
    int64_t cells = (int64_t)grid->t * grid->h * grid->w;
    int64_t cell = token - grid->text_before;
    if (cell >= 0 && cell < cells)
        grid_field(generator, head->grid_anchor, cell, head->channels, out);
    else
        line_field(head->text_anchor, cell < 0 ? token : token - cells, generator->scale_length, head->channels, out);
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
