/* Workloads: where Q, K and V come from, and the token order applied to them.
 *
 * This layer only describes: it resolves a workload's name to a problem, a generator or a captured file, and computes
 * token orders. The numbers are made by the backend (sparge_generate) or read from the mapped file. */
#ifndef WORKLOADS_H
#define WORKLOADS_H

#include "sparge/sparge.h"

typedef enum wl_order {
    WL_ORDER_ROW = 0, /* w fastest, then h, then t: how models lay tokens out */
    WL_ORDER_COLUMN,  /* h fastest, then w, then t */
    WL_ORDER_TIME,    /* t fastest, then w, then h */
    WL_ORDER_RANDOM,  /* a seeded shuffle */
    WL_ORDER_HILBERT  /* a 3-D Hilbert curve over any grid size (paper section 3.7) */
} wl_order;
enum { WL_ORDER_COUNT = 5 };

const char *wl_order_name(wl_order order); /* "row", "column", "time", "random", "hilbert" */
sparge_status wl_order_parse(const char *name, wl_order *order, sparge_error *error);

/* source[position] = token in row-major order, for text_before + t*h*w + text_after positions; text stays in place.
 * Consecutive positions of a Hilbert order are neighbours in the grid where the grid's size allows it. */
sparge_status wl_order_permutation(const sparge_grid *grid, wl_order order, uint64_t seed, int64_t *source,
                                   sparge_error *error);

typedef enum wl_kind { WL_SYNTHETIC = 0, WL_CAPTURED } wl_kind;

typedef struct wl_preset {
    const char *name, *summary, *source; /* "mochi", "Mochi-1, 84 frames 480x848", where the geometry is from */
    int32_t heads_q, heads_kv, head_dim;
    int32_t layers; /* 0: a plain generator, no model */
    sparge_causal causal;
    sparge_grid grid;       /* zero for language models */
    int64_t default_seqlen; /* language models; grids have their own length */
    sparge_dtype dtype;
    sparge_generator generator; /* seed 0; heads and grid are filled in by wl_resolve */
} wl_preset;

size_t wl_preset_count(void);
const wl_preset *wl_preset_at(size_t index);
const wl_preset *wl_preset_find(const char *name);

/* What the user asked for; zero or negative fields mean "the workload's own". */
typedef struct wl_request {
    const char *name; /* a preset, "random", "uniform", "structured", or the path of a .safetensors file */
    int64_t seqlen;   /* language presets and generators: exactly this; video presets: the grid is scaled to the
                              nearest length of the same shape, and wl_workload says which; captured: the first `seqlen` tokens */
    int32_t heads;    /* query heads to keep (the first ones); heads_kv follows by the group size */
    int32_t batch;
    int32_t head_dim;
    int dtype;  /* a sparge_dtype, or -1 */
    int causal; /* a sparge_causal, or -1 */
    uint64_t seed;
    wl_order order;
} wl_request;

typedef struct wl_captured wl_captured; /* an open, mapped file */

typedef struct wl_workload {
    char name[128]; /* as asked, a path reduced to its file name */
    wl_kind kind;
    sparge_problem problem;     /* complete, checked; grid.reordered set if order != row */
    sparge_generator generator; /* WL_SYNTHETIC */
    wl_captured *captured;      /* WL_CAPTURED */
    wl_order order;
    uint64_t seed;
    char note[256]; /* "grid scaled to 7x15x27: 2835 tokens", "" if nothing to say */
    char hash[65];  /* SHA-256, hex: of the generator's description, or of the captured bytes used */
} wl_workload;

sparge_status wl_resolve(const wl_request *request, wl_workload *workload, sparge_error *error);
void wl_release(wl_workload *workload); /* also fine on a workload that wl_resolve failed to make */

/* Captured files (.safetensors with q, k, v [B,H,L,D]), read through mmap. See docs/workloads.md for the metadata. */
typedef struct wl_captured_info {
    sparge_problem problem; /* dtype as stored: F16, BF16 or F32 (F32 is rounded to F16 on upload) */
    char model[128], text[128];
    int32_t layer, step, head_begin; /* -1 if not given */
} wl_captured_info;
sparge_status wl_captured_open(const char *path, wl_captured **file, sparge_error *error);
void wl_captured_close(wl_captured *file);
const wl_captured_info *wl_captured_get_info(const wl_captured *file);
/* The mapped tensor, dense HND, dtype F16, BF16 or F32. */
sparge_tensor wl_captured_tensor(const wl_captured *file, sparge_tensor_role role);

#endif
