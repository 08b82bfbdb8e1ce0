"""Record the Q, K and V that a PyTorch model feeds to its attention, as .safetensors files for sparge-bench.

Every model that ends in torch.nn.functional.scaled_dot_product_attention can be recorded (Transformers with
attn_implementation="sdpa", Diffusers, most others): the function is replaced while a Capture is active, so tensors are
seen exactly as the attention gets them, after position embedding. Layers are counted by the calls of one forward pass,
steps by forward passes (denoising steps, decoding steps).

    from sparge_capture import Capture
    with Capture(model, layers=[10], steps=[0], out="mochi-l{layer}-s{step}.safetensors",
                 model_name="mochi", grid=(14, 30, 53), text_after=256):
        pipeline(prompt, ...)

As a program it records a Transformers language model reading a text; see --help and ../samples/README.md.
The file format is documented in docs/workloads.md.
"""

import argparse
import gzip
import math
import sys

import torch
import torch.nn.functional as functional
from safetensors.torch import save_file

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
LARGEST_HEAD_DIM = 128


def merge_repeated_heads(tensor):
    """[B, H, L, D] whose heads repeat in equal consecutive groups -> [B, H / group, L, D]; undoes repeat_kv."""
    heads = tensor.shape[1]
    for group in range(heads, 1, -1):
        if heads % group == 0:
            grouped = tensor.unflatten(1, (heads // group, group))
            if torch.equal(grouped, grouped[:, :, :1].expand_as(grouped)):
                return grouped[:, :, 0]
    return tensor


def causality_of(mask, is_causal, length_q, length_k):
    """"none" or "bottom-right", or ValueError for a mask that is neither (sparge-bench has no element masks)."""
    if is_causal:
        if length_q != length_k:
            raise ValueError(f"is_causal with {length_q} queries and {length_k} keys is top-left: record a prefill")
        return "bottom-right"
    if mask is None:
        return "none"
    keep = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    keep = keep.expand(*keep.shape[:-2], length_q, length_k)
    if bool(keep.all()):
        return "none"
    causal = torch.ones(length_q, length_k, dtype=torch.bool, device=keep.device).tril(length_k - length_q)
    if torch.equal(keep, causal.expand_as(keep)):
        return "bottom-right"
    raise ValueError("the attention mask is neither full nor causal (padding?): record one unpadded sequence")


class Capture:
    """Context manager: records the selected layers of the selected steps of `model` into files.

    layers, steps    numbers to record, None = all; layers count attention calls of one forward pass from 0
    kv_heads         (first, end) of the KV heads to keep, None = all; their query heads follow
    dtype            "f16", "bf16", "f32", or None: as the model computes
    out              file name with {layer} and {step}
    grid             (T, H, W) of the visual tokens, with text_before and text_after text tokens around them
    self_attention   only calls with equally many queries and keys count as layers (skips cross-attention)
    """

    def __init__(self, model, out, layers=None, steps=None, kv_heads=None, dtype=None, model_name="", text="", grid=None,
                 text_before=0, text_after=0, self_attention=True):
        self.model, self.out = model, out
        self.layers, self.steps, self.kv_heads = layers, steps, kv_heads
        self.dtype = DTYPES[dtype] if dtype else None
        self.metadata = {"model": model_name, "text": text}
        if grid:
            self.metadata |= {"grid": "x".join(str(n) for n in grid), "text_before": str(text_before),
                              "text_after": str(text_after)}
        self.self_attention = self_attention
        self.layer, self.step = 0, -1
        self.written = []

    def __enter__(self):
        self._original = functional.scaled_dot_product_attention
        self._hook = self.model.register_forward_pre_hook(self._next_step)
        functional.scaled_dot_product_attention = self._attention
        return self

    def __exit__(self, *_):
        functional.scaled_dot_product_attention = self._original
        self._hook.remove()

    def _next_step(self, *_):
        self.step += 1
        self.layer = 0

    def _attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **rest):
        if not self.self_attention or query.shape[-2] == key.shape[-2]:
            wanted = (self.layers is None or self.layer in self.layers) and (self.steps is None or self.step in self.steps)
            if wanted:
                self._write(query, key, value, attn_mask, is_causal, scale)
            self.layer += 1
        return self._original(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal,
                              scale=scale, **rest)

    def _write(self, query, key, value, attn_mask, is_causal, scale):
        head_dim = query.shape[-1]
        if head_dim > LARGEST_HEAD_DIM or value.shape[-1] != head_dim:
            raise ValueError(f"layer {self.layer}: head dims {head_dim} and {value.shape[-1]}: "
                             f"sparge-bench takes equal ones up to {LARGEST_HEAD_DIM}")
        # K and V must be merged alike: V alone may repeat by chance (all zero), K hardly.
        merged = merge_repeated_heads(key)
        group = key.shape[1] // merged.shape[1]
        key, value = merged, value[:, ::group]
        first, end = self.kv_heads or (0, key.shape[1])
        per_kv = query.shape[1] // key.shape[1]
        if not 0 <= first < end <= key.shape[1]:
            raise ValueError(f"layer {self.layer}: KV heads {first}:{end} of {key.shape[1]}")
        tensors = {"q": query[:, first * per_kv:end * per_kv], "k": key[:, first:end], "v": value[:, first:end]}
        dtype = self.dtype or query.dtype
        tensors = {name: t.detach().to("cpu", dtype).contiguous() for name, t in tensors.items()}
        for name, tensor in tensors.items():
            if not bool(tensor.isfinite().all()):
                raise ValueError(f"layer {self.layer}: {name} is not finite in {dtype}")
        metadata = self.metadata | {
            "layer": str(self.layer), "step": str(self.step), "head_begin": str(first * per_kv),
            "causal": causality_of(attn_mask, is_causal, query.shape[-2], key.shape[-2]),
        }
        if scale is not None and not math.isclose(scale, head_dim**-0.5, rel_tol=1e-6):
            metadata["scale"] = repr(float(scale))
        path = self.out.format(layer=self.layer, step=self.step)
        save_file(tensors, path, metadata={name: text for name, text in metadata.items() if text})
        self.written.append(path)


def read_text(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        return file.read()


def parse_numbers(text):
    return [int(part) for part in text.split(",")]


def parse_span(text):
    first, end = text.split(":")
    return int(first), int(end)


def main():
    parser = argparse.ArgumentParser(description="Record Q, K, V of a Transformers language model reading a text.")
    parser.add_argument("--model", required=True, help="folder or name that from_pretrained takes")
    parser.add_argument("--gguf-file", help="weights file inside --model, if they are GGUF")
    parser.add_argument("--text", required=True, help="UTF-8 text file, .gz allowed")
    parser.add_argument("--skip-lines", type=int, default=0, help="lines to leave out at the start of the text")
    parser.add_argument("--tokens", type=int, required=True, help="tokens to read")
    parser.add_argument("--layers", type=parse_numbers, help="e.g. 4,15 (default: all)")
    parser.add_argument("--kv-heads", type=parse_span, help="FIRST:END of the KV heads, e.g. 0:2 (default: all)")
    parser.add_argument("--dtype", choices=DTYPES, default="f16", help="stored type (default f16)")
    parser.add_argument("--name", default="", help="model name for the metadata")
    parser.add_argument("--text-name", default="", help="where the text is from, for the metadata")
    parser.add_argument("-o", "--out", required=True, help="file name; {layer} and {step} are filled in")
    options = parser.parse_args()

    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights = {"gguf_file": options.gguf_file} if options.gguf_file else {}
    tokenizer = AutoTokenizer.from_pretrained(options.model, **weights)
    model = AutoModelForCausalLM.from_pretrained(options.model, attn_implementation="sdpa", dtype=torch.float32, **weights)
    model.eval()
    text = "".join(read_text(options.text).splitlines(keepends=True)[options.skip_lines:])
    ids = tokenizer(text, return_tensors="pt").input_ids[:, :options.tokens]
    if ids.shape[1] < options.tokens:
        sys.exit(f"sparge_capture: {options.text} has only {ids.shape[1]} tokens, --tokens asks for {options.tokens}")
    with torch.inference_mode(), Capture(model, options.out, layers=options.layers, kv_heads=options.kv_heads,
                                         dtype=options.dtype, model_name=options.name, text=options.text_name) as capture:
        loss = model(ids, labels=ids, use_cache=False).loss
    # A model that was loaded wrongly still attends to something: a sensible perplexity says it really reads.
    print(f"perplexity of the text: {math.exp(loss):.2f}")
    for path in capture.written:
        print(path)


if __name__ == "__main__":
    main()
