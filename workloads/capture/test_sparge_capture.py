"""Checks of sparge_capture.py that need PyTorch (run with pytest; CTest runs them where torch is installed)."""

import json
import struct

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from safetensors.torch import load_file  # noqa: E402

from sparge_capture import Capture, causality_of, merge_repeated_heads  # noqa: E402


class Block(torch.nn.Module):
    """One grouped-query attention whose K and V are repeated before SDPA, as Transformers does."""

    def __init__(self, heads, kv_heads, head_dim):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.qkv = torch.nn.Linear(32, (heads + 2 * kv_heads) * head_dim)
        self.out = torch.nn.Linear(heads * head_dim, 32)
        self.seen = None

    def forward(self, x):
        b, l, _ = x.shape
        q, k, v = self.qkv(x).split([n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)], -1)
        q, k, v = (t.view(b, l, -1, self.head_dim).transpose(1, 2) for t in (q, k, v))
        self.seen = q, k, v
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).flatten(2))


def make_model(layers=3):
    torch.manual_seed(1)
    return torch.nn.Sequential(*(Block(6, 2, 16) for _ in range(layers)))


def metadata_of(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))["__metadata__"]


def test_records_selected_layers_and_steps_before_repeating(tmp_path):
    model = make_model()
    x = torch.randn(1, 20, 32)
    with torch.no_grad():
        plain = model(x)
        with Capture(model, str(tmp_path / "l{layer}-s{step}.safetensors"), layers=[1], steps=[1], model_name="toy") as c:
            model(x + 1)
            assert torch.equal(model(x), plain)  # recording changes nothing
            model(x - 1)
    assert [path.rsplit("/", 1)[1] for path in c.written] == ["l1-s1.safetensors"]
    model(x)
    tensors = load_file(c.written[0])
    for name, want in zip("qkv", model[1].seen):
        assert torch.equal(tensors[name], want)
    assert metadata_of(c.written[0]) == {"model": "toy", "layer": "1", "step": "1", "head_begin": "0",
                                         "causal": "bottom-right"}


def test_head_selection_keeps_groups_together(tmp_path):
    model = make_model(1)
    with torch.no_grad(), Capture(model, str(tmp_path / "x.safetensors"), kv_heads=(1, 2), dtype="f16") as c:
        model(torch.randn(1, 9, 32))
    tensors = load_file(c.written[0])
    q, k, _ = model[0].seen
    assert torch.equal(tensors["q"], q[:, 3:6].half()) and torch.equal(tensors["k"], k[:, 1:2].half())
    assert metadata_of(c.written[0])["head_begin"] == "3"


def test_the_original_function_comes_back_after_an_error(tmp_path):
    original = torch.nn.functional.scaled_dot_product_attention
    model = make_model(1)
    with pytest.raises(ValueError, match="KV heads"):
        with Capture(model, str(tmp_path / "x.safetensors"), kv_heads=(0, 3)):
            model(torch.randn(1, 9, 32))
    assert torch.nn.functional.scaled_dot_product_attention is original


def test_merging_undoes_repeating_and_nothing_else():
    k = torch.randn(1, 4, 5, 8)
    assert torch.equal(merge_repeated_heads(k.repeat_interleave(3, 1)), k)
    assert torch.equal(merge_repeated_heads(k), k)
    assert merge_repeated_heads(k.repeat(1, 3, 1, 1)).shape[1] == 12  # another order is not a GQA repeat


def test_masks():
    tril = torch.ones(4, 6, dtype=torch.bool).tril(2)
    assert causality_of(None, False, 4, 6) == "none"
    assert causality_of(None, True, 4, 4) == "bottom-right"
    assert causality_of(tril[None, None], False, 4, 6) == "bottom-right"
    assert causality_of(torch.zeros(4, 6).masked_fill(~tril, float("-inf")), False, 4, 6) == "bottom-right"
    assert causality_of(torch.ones(4, 6, dtype=torch.bool), False, 4, 6) == "none"
    tril[0, 0] = False
    with pytest.raises(ValueError, match="neither full nor causal"):
        causality_of(tril, False, 4, 6)
    with pytest.raises(ValueError, match="top-left"):
        causality_of(None, True, 4, 6)
