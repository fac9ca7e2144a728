"""Random nets that mix ops which want images channels first with ops that want pdl's own layout, against ONNX Runtime:
whatever the order of the ops, the file computes what the program does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.export.onnx import to_onnx
from pdl.ops.base import Spec
from pdl.program import trace

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

Pick = Callable[..., Any]


def window(x: Any, pick: Pick) -> Any:
    """Ops on images, channels first in ONNX."""
    channels = x.shape[-1]
    weight = nn.Parameter(pdl.Tensor(pick.rng.standard_normal((3, 3, channels, 4), dtype=np.float32) / 6))  # type: ignore[attr-defined]
    scale = pdl.Tensor(pick.rng.uniform(0.5, 1, channels).astype(np.float32))  # type: ignore[attr-defined]
    makers: list[Callable[[], Any]] = [
        lambda: pdl.conv2d(x, weight, padding=1),
        lambda: pdl.batch_norm_eval(x, scale * 0.1, scale, scale, None, eps=1e-3, activation="relu"),
        lambda: pdl.max_pool(x, 2, stride=1, padding=((0, 1), (0, 1))),
        lambda: pdl.avg_pool(x, 3, stride=1, padding=1),
        lambda: pdl.resize(x, (x.shape[1] + 1, x.shape[2]), mode="bilinear"),
    ]
    return pick(makers)()


def any_layout(x: Any, pick: Pick) -> Any:
    """Ops that keep the layout of what they read."""
    axis = pick(range(1, x.ndim))
    row = nn.Parameter(pdl.Tensor(pick.rng.uniform(0.5, 1, x.shape[-1:]).astype(np.float32)))  # type: ignore[attr-defined]
    makers: list[Callable[[], Any]] = [
        lambda: pdl.relu(x),
        lambda: x * row + 0.5,
        lambda: row - x,
        lambda: x * pdl.mean(x, axis=tuple(range(1, x.ndim - 1)), keepdims=True),
        lambda: pdl.softmax(x, axis=axis),
        lambda: pdl.concat([x, pdl.tanh(x)], axis=axis),
        lambda: pdl.flip(x, axis=axis),
        lambda: pdl.roll(x, 1, axis=axis),
        lambda: pdl.cumsum(x, axis=axis) * 0.1,
        lambda: x[(slice(None),) * axis + (slice(0, 2),)],
        lambda: pdl.pad(x, [(0, 0)] + [(1, 0) if i == axis else (0, 0) for i in range(1, x.ndim)]),
        lambda: pdl.where(pdl.greater(x, pdl.max(x, axis=axis, keepdims=True) * 0.5), x, -x),
    ]
    return pick(makers)()


def plain(x: Any, pick: Pick) -> Any:
    """Ops that move axes, or want the last one to be the channels."""
    rank = x.ndim
    order = (0, *pick.rng.permutation(np.arange(1, rank)).tolist())  # type: ignore[attr-defined]
    axis = pick(range(1, rank))
    weight = nn.Parameter(pdl.Tensor(pick.rng.standard_normal((x.shape[-1], 4), dtype=np.float32) / 4))  # type: ignore[attr-defined]
    makers: list[Callable[[], Any]] = [
        lambda: pdl.permute_dims(x, order),
        lambda: pdl.linear(x, weight),
        lambda: pdl.layer_norm(x, None, None),
        lambda: pdl.reshape(x, (x.shape[0], -1, *x.shape[3:])) if rank > 3 else pdl.expand_dims(x, axis=axis),
        lambda: pdl.mean(x, axis=axis) if rank > 3 else pdl.stack([x, x * 2], axis=axis),
        lambda: pdl.sum(x, axis=(1, rank - 1)) if rank > 3 else x,
        lambda: x[:, 0] if rank > 3 else x,
        lambda: x[:, None] if rank < 4 else x,
        lambda: pdl.squeeze(x[(slice(None),) * axis + (slice(0, 1),)], axis) if rank > 3 else x,
        lambda: pdl.argmax(pdl.round(x * 8), axis=axis).astype("float32") if rank > 3 else x,
    ]
    return pick(makers)()


def net(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A net of twelve steps, each on a value made before; its outputs are the last three values and a flattened one."""

    def pick(of: Any) -> Any:
        return of[int(rng.integers(len(of)))]

    pick.rng = rng  # type: ignore[attr-defined]

    def forward(x: Any) -> Any:
        values = [x]
        for _ in range(12):
            source = values[-1] if rng.random() < 0.6 else pick(values)
            kinds = [any_layout, any_layout, plain] if source.ndim > 1 else [any_layout]
            kinds += [window, window] if source.ndim == 4 and min(source.shape[1:3]) > 1 else []
            if source.ndim > 1:
                values.append(pick(kinds)(source, pick))
            twin = [v for v in values[:-1] if v.shape == values[-1].shape]
            if twin and rng.random() < 0.5:
                values.append(values[-1] + pick(twin))
        image = next(v for v in reversed(values) if v.ndim == 4)
        rows = pdl.flatten(pdl.relu(image), start=1)
        head = nn.Parameter(pdl.Tensor(rng.standard_normal((rows.shape[1], 3), dtype=np.float32) / 30))
        return (*values[-3:], pdl.linear(rows, head))

    return forward


@pytest.mark.parametrize("seed", range(40))
def test_a_random_net(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    program = trace(net(rng), Spec((Dim.symbol("n", 3), 6, 5, 4), np.dtype(np.float32)))
    samples = [[rng.standard_normal((n, 6, 5, 4), dtype=np.float32)] for n in (1, 4)]
    made = to_onnx(program, tmp_path / "net.onnx", samples=samples, opset=int(rng.choice([13, 17, 20])))
    assert made.difference is not None
    assert made.difference < 2e-5
