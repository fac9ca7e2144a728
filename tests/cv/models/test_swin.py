"""What only Swin transformers have: windows, their shift, and names that differ between those who publish weights."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl_cv.models import swin
from pdl_cv.models.swin import SwinTransformer, WindowAttention, relative_positions, shift_mask


def tiny(**options: Any) -> SwinTransformer:
    pdl.seed(0)
    return SwinTransformer(8, (2, 2), (2, 4), **{"window": 3, "num_classes": 3, **options})


def test_offsets_share_a_bias() -> None:
    """Places (r, c) and (s, d) take row (r - s + w - 1) (2 w - 1) + (c - d + w - 1) of the table."""
    table = relative_positions(3).reshape(3, 3, 3, 3)
    for r, c, s, d in np.ndindex(3, 3, 3, 3):
        assert table[r, c, s, d] == (r - s + 2) * 5 + (c - d + 2)


@pytest.mark.parametrize(("size", "shift"), [((6, 9), (1, 1)), ((6, 3), (1, 0))])
def test_shifted_windows_see_only_neighbours(size: tuple[int, int], shift: tuple[int, int]) -> None:
    """By their places before the roll: those of one window that the edge has not torn apart."""
    w = 3
    rows, columns = np.meshgrid(np.arange(size[0]), np.arange(size[1]), indexing="ij")
    at = np.roll(np.stack([rows, columns], -1), (-shift[0], -shift[1]), axis=(0, 1))
    windows = at.reshape(size[0] // w, w, size[1] // w, w, 2).swapaxes(1, 2).reshape(-1, w * w, 2)
    close = (np.abs(windows[:, :, None] - windows[:, None]) < w).all(-1)
    np.testing.assert_array_equal(shift_mask(size, w, shift)[:, 0] == 0, close)
    assert not close.all()


def reference(net: WindowAttention, x: np.ndarray) -> np.ndarray:
    """Window attention of one image [H, W, C], place by place, sizes whole windows."""
    height, width, dim = x.shape
    w, shift, heads = net.window, net.shift, net.heads
    qkv = (x @ net.qkv.weight.data + net.qkv.bias.data).reshape(height, width, 3, heads, dim // heads)
    table = net.relative_position_bias_table.data
    y = np.zeros((height, width, heads, dim // heads))
    at = [(r, c) for r in range(height) for c in range(width)]
    for r, c in at:
        cell = ((r - shift) % height // w, (c - shift) % width // w)
        mine = [
            (s, d) for s, d in at
            if ((s - shift) % height // w, (d - shift) % width // w) == cell and abs(r - s) < w and abs(c - d) < w
        ]  # fmt: skip
        for h in range(heads):
            scores = [
                qkv[r, c, 0, h] @ qkv[s, d, 1, h] / np.sqrt(dim // heads)
                + table[(r - s + w - 1) * (2 * w - 1) + c - d + w - 1, h]
                for s, d in mine
            ]
            p = np.exp(scores - np.max(scores))
            y[r, c, h] = sum(a * qkv[s, d, 2, h] for a, (s, d) in zip(p / p.sum(), mine, strict=True))
    return y.reshape(height, width, dim) @ net.proj.weight.data + net.proj.bias.data


@pytest.mark.parametrize("shift", [False, True])
def test_window_attention_place_by_place(shift: bool) -> None:
    pdl.seed(1)
    net = WindowAttention(8, 2, 3, shift=shift, dropout=0.0)
    net.relative_position_bias_table._data += pdl.randn(net.relative_position_bias_table.shape).data
    x = pdl.randn((2, 6, 9, 8))
    expected = np.stack([reference(net, picture) for picture in x.data])
    np.testing.assert_allclose(net(x).data, expected, rtol=1e-4, atol=1e-5)


def test_sizes_are_filled_up_to_whole_windows() -> None:
    assert tiny()(pdl.randn((2, 20, 28, 3))).shape == (2, 3)  # 5 x 7 places, then 3 x 4
    with pytest.raises(ShapeError, match="images are 21 x 28; sizes must be multiples of patch=4"):
        tiny()(pdl.zeros((1, 21, 28, 3)))


def test_impossible_stages() -> None:
    with pytest.raises(UsageError, match="name as many stages"):
        SwinTransformer(8, (2, 2), (2,))
    with pytest.raises(ShapeError, match="heads=3 of stage 1 must divide its 8 channels"):
        SwinTransformer(8, (2, 2), (3, 4))


@pytest.mark.parametrize("owner", ["authors", "timm"])
def test_names_of_others(owner: str) -> None:
    """Written down from swin_transformer.py of the authors and of timm."""
    names = [
        (r"features\.0\.0", "patch_embed.proj"), (r"features\.0\.2", "patch_embed.norm"),
        (r"features\.2\.", "layers.0.downsample." if owner == "authors" else "layers.1.downsample."),
        (r"features\.1\.", "layers.0.blocks."), (r"features\.3\.", "layers.1.blocks."),
        (r"classifier", "head" if owner == "authors" else "head.fc"), (r"norm\.", "norm."),
    ]  # fmt: skip
    net, other = tiny(), tiny()
    state: dict[str, Any] = {"layers.0.blocks.1.attn_mask": np.zeros(1)}
    for name, value in nn.to_torch(net).items():
        pattern, to = next((p, t) for p, t in names if re.match(p, name))
        theirs = re.sub(pattern, to, name, count=1).replace("mlp.0", "mlp.fc1").replace("mlp.3", "mlp.fc2")
        state[theirs] = value
    state["layers.0.blocks.0.attn.relative_position_index"] = np.zeros(1)
    for p in other.parameters():
        nn.init.zeros_(p)
    other.load_state_dict(swin.remap(other, state))
    x = pdl.randn((2, 24, 24, 3))
    np.testing.assert_array_equal(other.eval()(x).data, net.eval()(x).data)
