/* The host's part of the generators: rows of independent numbers, and the tables of the structured model. */
#include "generate/model.h"

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

structured_layout structured_layout_of(const sparge_generator *generator, int64_t tokens)
{
    const sparge_grid *grid = &generator->grid;
    structured_layout layout = {.extent = {1, 1, tokens, 0}};
    if (grid->t > 0)
        layout = (structured_layout){
            .extent = {grid->t, grid->h, grid->w, (int64_t)grid->text_before + grid->text_after},
            .text_before = grid->text_before,
        };
    layout.scale_length = generator->scale_length;
    for (int axis = 0; axis < FIELD_AXES; axis++) {
        int64_t extent = layout.extent[axis];
        layout.first[axis] = layout.total;
        if (extent > 1 || (axis == FIELD_TEXT && extent == 1))
            layout.anchors[axis] = (int64_t)((float)(extent - 1) / layout.scale_length) + 2;
        layout.total += layout.anchors[axis];
    }
    return layout;
}

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
    structured_head made = {.batch = batch, .head = head};
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
    made.sink_tokens = generator->sink_tokens;
    if (generator->sink_strength > 0) {
        /* sharpness * query_offset * size * D / sqrt(D) = sink_strength */
        float size =
            generator->sink_strength / (generator->sharpness * generator->query_offset * sqrtf((float)channels));
        for (int c = 0; c < channels; c++)
            made.sink[c] = size * direction[c];
    }
    return made;
}
