/* Rows of the structured model: loops over the channels around the arithmetic of generate/model.h. */
#include "cpu/generate/structured.h"

static void normalise(float *row, int channels)
{
    float strand[4] = {0, 0, 0, 0};
    for (int c = 0; c < channels; c++)
        strand[c % 4] += row[c] * row[c];
    const float factor = structured_normaliser((strand[0] + strand[1]) + (strand[2] + strand[3]), channels);
    for (int c = 0; c < channels; c++)
        row[c] *= factor;
}

void structured_anchor(uint64_t seed, const structured_layout *layout, int64_t batch, int64_t group, int64_t index,
                       int channels, float *out)
{
    const int axis = structured_anchor_axis(layout, index);
    generate_normal_row(seed, (generate_stream)(STREAM_FIELD + axis), batch, group, index - layout->first[axis],
                        channels, out);
    normalise(out, channels);
}

/* The field along one axis. */
static void axis_field(const structured_rows *rows, int axis, int64_t cell, float *out)
{
    const structured_span span = structured_span_of(rows->layout, axis, cell);
    const float *a = rows->anchor + span.anchor * rows->channels, *b = a + rows->channels;
    for (int c = 0; c < rows->channels; c++)
        out[c] = structured_between(&span, a[c], b[c]);
    normalise(out, rows->channels);
}

static void field_row(const structured_rows *rows, int64_t token, float *out)
{
    const structured_cells cells = structured_cells_of(rows->layout, token);
    if (cells.at[FIELD_TEXT] >= 0) {
        axis_field(rows, FIELD_TEXT, cells.at[FIELD_TEXT], out);
        return;
    }
    for (int c = 0; c < rows->channels; c++)
        out[c] = 0;
    for (int axis = FIELD_T; axis <= FIELD_W; axis++) {
        if (cells.at[axis] < 0)
            continue;
        float one[SPARGE_MAX_HEAD_DIM];
        axis_field(rows, axis, cells.at[axis], one);
        for (int c = 0; c < rows->channels; c++)
            out[c] += one[c];
    }
    normalise(out, rows->channels);
}

void structured_row(const structured_rows *rows, int64_t token, float *out)
{
    float noise[SPARGE_MAX_HEAD_DIM];
    const structured_head *head = rows->head;
    generate_normal_row(rows->seed, generate_stream_of(rows->role), head->batch, head->head, token, rows->channels,
                        noise);
    field_row(rows, token, out);
    for (int c = 0; c < rows->channels; c++)
        out[c] = structured_value(head, token, c, out[c], noise[c]);
}
