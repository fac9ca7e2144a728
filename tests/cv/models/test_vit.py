"""What only vision transformers have: positions made for one size, foreign names, layers at rates of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pdl
from pdl import nn, optim
from pdl.errors import ShapeError
from pdl.hub import load_pretrained
from pdl_cv.models import vit
from pdl_cv.models.vit import DistilledVisionTransformer, VisionTransformer


def tiny(kind: type[VisionTransformer] = VisionTransformer, **options: Any) -> VisionTransformer:
    """A net of two blocks whose positions count."""
    pdl.seed(0)
    net = kind(8, 2, 2, **{"patch": 4, "image_size": 16, "num_classes": 3, **options})
    net.pos_embed._data += pdl.randn(net.pos_embed.shape).data
    return net


def torchvision_names(net: nn.Module) -> dict[str, np.ndarray]:
    """The net's weights as torchvision names and lays them out; written down from its VisionTransformer."""
    names = {
        r"cls_token": "class_token", r"pos_embed": "encoder.pos_embedding", r"patch_embed\.proj": "conv_proj",
        r"blocks\.(\d+)\.norm": r"encoder.layers.encoder_layer_\1.ln_",
        r"blocks\.(\d+)\.attn\.qkv\.": r"encoder.layers.encoder_layer_\1.self_attention.in_proj_",
        r"blocks\.(\d+)\.attn\.proj": r"encoder.layers.encoder_layer_\1.self_attention.out_proj",
        r"blocks\.(\d+)\.mlp\.fc1": r"encoder.layers.encoder_layer_\1.mlp.0",
        r"blocks\.(\d+)\.mlp\.fc2": r"encoder.layers.encoder_layer_\1.mlp.3",
        r"norm\.": "encoder.ln.", r"classifier": "heads.head",
    }  # fmt: skip
    found = {}
    for name, value in nn.to_torch(net).items():
        own = next(pattern for pattern in names if re.match(pattern, name))
        found[re.sub(own, names[own], name, count=1)] = value
    return found


def test_torchvision_s_names() -> None:
    net, other = tiny(), tiny()
    state = torchvision_names(net)
    assert "encoder.layers.encoder_layer_1.self_attention.in_proj_weight" in state
    assert state["encoder.layers.encoder_layer_1.self_attention.in_proj_weight"].shape == (24, 8)
    for p in other.parameters():
        nn.init.zeros_(p)
    other.load_state_dict(vit.remap(other, state))
    x = pdl.randn((2, 16, 16, 3))
    np.testing.assert_array_equal(other.eval()(x).data, net.eval()(x).data)


@pytest.mark.parametrize("kind", [VisionTransformer, DistilledVisionTransformer])
def test_positions_are_interpolated_to_another_size(kind: type[VisionTransformer], tmp_path: Path) -> None:
    """A table that is linear in place stays so inside; the learned tokens' own rows are untouched; it is told."""
    net, larger = tiny(kind), tiny(kind, image_size=32)
    rows = np.repeat(np.arange(4.0), 4)[:, None] * np.ones(8)
    net.pos_embed._data[0, kind.tokens :] = rows
    for own, state in {"own": net.state_dict(), "torch": nn.to_torch(net)}.items():
        file = tmp_path / f"{own}.safetensors"
        save_file({name: np.ascontiguousarray(value) for name, value in arrays(state).items()}, file)
        report = load_pretrained(larger, file)
        assert report.adapted == {"pos_embed": "positions interpolated from 4 x 4 to 8 x 8"}
        table = larger.pos_embed.data
        np.testing.assert_array_equal(table[0, : kind.tokens], net.pos_embed.data[0, : kind.tokens])
        grid = table[0, kind.tokens :, 0].reshape(8, 8)
        np.testing.assert_allclose(grid[4], np.full(8, 1.75), atol=1e-6)  # pixel centres: (4 + 1/2) / 2 - 1/2
        assert (np.diff(grid[:, 0]) > 0).all()
        np.testing.assert_array_equal(larger.blocks[0].mlp.fc1.weight.data, net.blocks[0].mlp.fc1.weight.data)


def arrays(state: Any) -> dict[str, np.ndarray]:
    return {name: value.data if isinstance(value, pdl.Tensor) else value for name, value in state.items()}


def test_positions_that_fit_are_left_alone() -> None:
    state = tiny().state_dict()
    assert vit.adapt(tiny(), state) == (state, {})


def test_positions_that_are_no_square_are_refused(tmp_path: Path) -> None:
    state = arrays(tiny().state_dict())
    state["pos_embed"] = np.zeros((1, 8, 8), np.float32)
    save_file(state, tmp_path / "odd.safetensors")
    with pytest.raises(ShapeError, match=r"pos_embed: \(1, 8, 8\), the model has \(1, 17, 8\)"):
        load_pretrained(tiny(), tmp_path / "odd.safetensors")


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="built for image_size=16, the images are 20 x 16"):
        tiny()(pdl.zeros((1, 20, 16, 3)))
    with pytest.raises(ShapeError, match="image_size=18 is no multiple of patch=4"):
        tiny(image_size=18)
    with pytest.raises(ShapeError, match="heads=3 must divide dim=8"):
        VisionTransformer(8, 2, 3)


def test_each_block_is_a_layer() -> None:
    net = tiny(DistilledVisionTransformer)
    tops = [sorted({name.split(".")[0] for name in layer}) for layer in nn.stages(net)]
    assert tops == [
        ["cls_token", "dist_token", "patch_embed", "pos_embed"], ["blocks"], ["blocks", "norm"],
        ["classifier", "classifier_dist"],
    ]  # fmt: skip
    optimizer = optim.AdamW(net, lr=1.0, layer_decay=0.5)
    assert sorted({group["lr"] for group in optimizer.param_groups}) == [0.125, 0.25, 0.5, 1.0]


def test_the_distilled_logits_are_the_mean_of_two_heads() -> None:
    net = tiny(DistilledVisionTransformer).eval()
    x = pdl.randn((2, 16, 16, 3))
    y = net.features(x)
    both = [net.classifier(y[:, 0]).data, net.classifier_dist(y[:, 1]).data]
    np.testing.assert_allclose(net(x).data, (both[0] + both[1]) / 2, rtol=1e-6)


def test_branches_are_dropped_in_training_only() -> None:
    net = tiny(drop_path=0.9)
    x = pdl.randn((4, 16, 16, 3))
    assert [block.drop_path.p for block in net.blocks] == [0.0, 0.9]
    assert not np.array_equal(net(x).data, net(x).data)
    np.testing.assert_array_equal(net.eval()(x).data, net(x).data)
