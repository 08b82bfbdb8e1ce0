/* The presets: attention geometry of the models in the paper and of plain generators.
 *
 * Geometry is from the models' configurations (`source` of each says which); what the numbers look like is a model of
 * our own, with parameters chosen so that block similarity is near the paper's tables (docs/workloads.md). */
#include <string.h>

#include "workloads.h"

/* Video and image models: fields along t, h and w, queries with a common direction, K with channel offsets. */
#define VISUAL_GENERATOR(share, cells, factor, common)                                                                 \
    .generator = {.kind = SPARGE_GENERATE_STRUCTURED,                                                                  \
                  .correlation = (share),                                                                              \
                  .scale_length = (cells),                                                                             \
                  .sharpness = (factor),                                                                               \
                  .query_offset = (common),                                                                            \
                  .channel_offset = 1.0f,                                                                              \
                  .head_spread = 0.3f}

/* Tuned to Mochi's block similarity; for head dim 64 sharper, because scores grow with the root of the head dim. */
#define VISUAL_128 VISUAL_GENERATOR(0.68f, 4.0f, 1.0f, 0.45f)
#define VISUAL_64 VISUAL_GENERATOR(0.68f, 4.0f, 1.4f, 0.45f)
/* Tuned to CogVideoX's. */
#define VISUAL_COGVIDEOX VISUAL_GENERATOR(0.72f, 5.0f, 1.4f, 0.75f)

/* Language models: a field along the sequence, which makes attention local, and sinks. */
#define LANGUAGE                                                                                                       \
    .generator = {.kind = SPARGE_GENERATE_STRUCTURED,                                                                  \
                  .correlation = 0.5f,                                                                                 \
                  .scale_length = 256.0f,                                                                              \
                  .sharpness = 1.0f,                                                                                   \
                  .query_offset = 0.5f,                                                                                \
                  .channel_offset = 2.0f,                                                                              \
                  .sink_strength = 9.0f,                                                                               \
                  .sink_tokens = 4,                                                                                    \
                  .head_spread = 0.5f}

static const wl_preset presets[] = {
    {.name = "llama3.1-8b",
     .summary = "Llama 3.1 8B, prefill",
     .source = "Llama 3 paper, Table 3: 32 layers, width 4096, 32 query and 8 KV heads; lengths up to 131072",
     .heads_q = 32,
     .heads_kv = 8,
     .head_dim = 128,
     .layers = 32,
     .causal = SPARGE_CAUSAL_BOTTOM_RIGHT,
     .default_seqlen = 32768,
     .dtype = SPARGE_BF16,
     LANGUAGE},
    {.name = "qwen2.5-7b",
     .summary = "Qwen 2.5 7B, prefill",
     .source = "Hugging Face model card: 28 layers, 28 query and 4 KV heads; width 3584",
     .heads_q = 28,
     .heads_kv = 4,
     .head_dim = 128,
     .layers = 28,
     .causal = SPARGE_CAUSAL_BOTTOM_RIGHT,
     .default_seqlen = 32768,
     .dtype = SPARGE_BF16,
     LANGUAGE},
    {.name = "cogvideox-2b",
     .summary = "CogVideoX 2B, 49 frames of 480x720",
     .source = "model config (30 layers, 30 heads of 64, VAE 4x8x8, patch 2); SageAttention Table 7: 17776 tokens; "
               "text length 226",
     .heads_q = 30,
     .heads_kv = 30,
     .head_dim = 64,
     .layers = 30,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 13, .h = 30, .w = 45, .text_before = 226},
     .dtype = SPARGE_F16,
     VISUAL_COGVIDEOX},
    {.name = "mochi",
     .summary = "Mochi 1, 84 frames of 480x848",
     .source = "genmoai/mochi README (48 layers, 24 heads, width 3072, text 256, VAE 6x8x8, patch 2); 84 frames from "
               "the paper's 22K tokens",
     .heads_q = 24,
     .heads_kv = 24,
     .head_dim = 128,
     .layers = 48,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 14, .h = 30, .w = 53, .text_after = 256},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "open-sora-plan",
     .summary = "Open-Sora-Plan 1.3, 93 frames of 640x640",
     .source = "model code (32 layers, 24 heads of 96, VAE 4x8x8, patch 1x2x2); resolution from the checkpoint's name "
               "and the paper's 38K tokens",
     .heads_q = 24,
     .heads_kv = 24,
     .head_dim = 96,
     .layers = 32,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 24, .h = 40, .w = 40},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "flux",
     .summary = "FLUX.1-dev, 1024x1024",
     .source = "model config (19 double and 38 single layers, 24 heads of 128, VAE 8, 2x2 packing); text length 512 "
               "from SpargeAttn's example",
     .heads_q = 24,
     .heads_kv = 24,
     .head_dim = 128,
     .layers = 57,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 1, .h = 64, .w = 64, .text_before = 512},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "sd3.5-large",
     .summary = "Stable Diffusion 3.5 Large, 1024x1024",
     .source = "model config (38 layers, 38 heads of 64, VAE 8, patch 2); text 77 + 256 is the pipeline's default",
     .heads_q = 38,
     .heads_kv = 38,
     .head_dim = 64,
     .layers = 38,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 1, .h = 64, .w = 64, .text_after = 333},
     .dtype = SPARGE_BF16,
     VISUAL_64},
    {.name = "wan2.1-1.3b",
     .summary = "Wan 2.1 T2V 1.3B, 81 frames of 480x832",
     .source = "model config (30 layers, 12 heads of 128, VAE 4x8x8, patch 1x2x2; text in cross-attention)",
     .heads_q = 12,
     .heads_kv = 12,
     .head_dim = 128,
     .layers = 30,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 21, .h = 30, .w = 52},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "wan2.1-14b",
     .summary = "Wan 2.1 T2V 14B, 81 frames of 480x832",
     .source = "model config (40 layers, width 5120, 40 heads, VAE 4x8x8, patch 1x2x2; text in cross-attention)",
     .heads_q = 40,
     .heads_kv = 40,
     .head_dim = 128,
     .layers = 40,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 21, .h = 30, .w = 52},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "wan2.1-14b-720p",
     .summary = "Wan 2.1 T2V 14B, 81 frames of 720x1280",
     .source = "as wan2.1-14b",
     .heads_q = 40,
     .heads_kv = 40,
     .head_dim = 128,
     .layers = 40,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 21, .h = 45, .w = 80},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "hunyuanvideo",
     .summary = "HunyuanVideo, 129 frames of 720x1280",
     .source =
         "model config (20 double and 40 single layers, 24 heads of 128, VAE 4x8x8, patch 1x2x2); text 256 is the "
         "pipeline's default",
     .heads_q = 24,
     .heads_kv = 24,
     .head_dim = 128,
     .layers = 60,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 33, .h = 45, .w = 80, .text_after = 256},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "ltx-video",
     .summary = "LTX-Video 2B, 97 frames of 512x768",
     .source =
         "model config (28 layers, 32 heads of 64, VAE 8x32x32, patch 1; text in cross-attention); 512x768 is our "
         "choice",
     .heads_q = 32,
     .heads_kv = 32,
     .head_dim = 64,
     .layers = 28,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 13, .h = 16, .w = 24},
     .dtype = SPARGE_BF16,
     VISUAL_64},
    {.name = "ltx-video-13b",
     .summary = "LTX-Video 0.9.7 13B, the upscaled pass of SpargeAttn's example",
     .source = "model config (48 layers, 32 heads of 128, VAE 8x32x32); grid from the rounding in SpargeAttn's "
               "ltx_infer",
     .heads_q = 32,
     .heads_kv = 32,
     .head_dim = 128,
     .layers = 48,
     .causal = SPARGE_CAUSAL_NONE,
     .grid = {.t = 12, .h = 20, .w = 34},
     .dtype = SPARGE_BF16,
     VISUAL_128},
    {.name = "random",
     .summary = "independent standard normal numbers",
     .source = "docs/workloads.md",
     .heads_q = 8,
     .heads_kv = 8,
     .head_dim = 128,
     .layers = 0,
     .causal = SPARGE_CAUSAL_NONE,
     .default_seqlen = 8192,
     .dtype = SPARGE_F16,
     .generator = {.kind = SPARGE_GENERATE_NORMAL}},
    {.name = "uniform",
     .summary = "independent numbers, uniform in [-1, 1)",
     .source = "docs/workloads.md",
     .heads_q = 8,
     .heads_kv = 8,
     .head_dim = 128,
     .layers = 0,
     .causal = SPARGE_CAUSAL_NONE,
     .default_seqlen = 8192,
     .dtype = SPARGE_F16,
     .generator = {.kind = SPARGE_GENERATE_UNIFORM}},
    {.name = "structured",
     .summary = "locally correlated tokens: a field with anchors every 256 tokens, correlation 0.8, q factor 1.6",
     .source = "docs/workloads.md; the model that the peers were measured with",
     .heads_q = 8,
     .heads_kv = 8,
     .head_dim = 128,
     .layers = 0,
     .causal = SPARGE_CAUSAL_NONE,
     .default_seqlen = 8192,
     .dtype = SPARGE_F16,
     .generator = {.kind = SPARGE_GENERATE_STRUCTURED, .correlation = 0.8f, .scale_length = 256.0f, .sharpness = 1.6f}},
};

size_t wl_preset_count(void)
{
    return sizeof presets / sizeof presets[0];
}

const wl_preset *wl_preset_at(size_t index)
{
    return index < wl_preset_count() ? &presets[index] : NULL;
}

const wl_preset *wl_preset_find(const char *name)
{
    for (size_t i = 0; i < wl_preset_count(); i++) {
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    }
    return NULL;
}
