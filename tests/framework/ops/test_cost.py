"""What ops cost: the counts, and that fused ops count like the ops they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl.ops.attention import ScaledDotProductAttention, ScaledDotProductAttentionGrad
from pdl.ops.base import OPS, Fused, Op, Spec
from pdl.ops.conv import Conv, ConvDw, ConvDx
from pdl.ops.cost import MULTIPLY_ADDS, SELECTING, multiply_adds, traffic
from pdl.ops.embedding import Embedding
from pdl.ops.linalg import Linear, MatMul
from pdl.ops.listeners import listeners, observed
from pdl.ops.rnn import Recurrent, RecurrentGrad
from pdl.program import trace
from pdl.testing.ops import as_tuple
from tests.framework.ops.test_ops import CASES

F = np.dtype(np.float32)


def spec(*shape: int) -> Spec:
    return Spec(shape, F)


def cost(op: Op, *ins: Spec | None) -> int:
    made = op.infer(*ins)
    return multiply_adds(op, ins, (made,) if isinstance(made, Spec) else made)


def composed(op: Any, *ins: Spec | None) -> int:
    """The sum over the ops that a fused op stands for."""
    given = [x for x in ins if x is not None]

    def function(*xs: Any) -> Any:
        rest = iter(xs)
        return op.compose(*[None if x is None else next(rest) for x in ins])

    nodes = trace(function, *given).nodes
    return sum(multiply_adds(n.op, [v and v.spec for v in n.inputs], [v.spec for v in n.outputs]) for n in nodes)


def test_the_names_are_ops() -> None:
    assert set(MULTIPLY_ADDS) | set(SELECTING) <= set(OPS)


WINDOW = {"stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 2}


@pytest.mark.parametrize(
    ("op", "ins"),
    [
        (Conv(**WINDOW), (spec(5, 8, 8, 6), spec(3, 3, 3, 4), None)),
        (ConvDx(**WINDOW, size=(8, 8)), (spec(5, 4, 4, 4), spec(3, 3, 3, 4))),
        (ConvDw(**WINDOW, kernel=(3, 3)), (spec(5, 8, 8, 6), spec(5, 4, 4, 4))),
    ],
    ids=["Conv", "ConvDx", "ConvDw"],
)
def test_convolution_and_its_gradients_cost_the_same(op: Op, ins: Any) -> None:
    assert cost(op, *ins) == (5 * 4 * 4) * 4 * (3 * 3 * 3)


def test_products() -> None:
    assert cost(MatMul(), spec(2, 3, 4), spec(4, 5)) == 2 * 3 * 4 * 5
    assert cost(Linear(), spec(6, 4), spec(4, 5), spec(5)) == 6 * 4 * 5
    assert cost(OPS["Add"](), spec(2), spec(2)) == 0


@pytest.mark.parametrize(
    ("op", "ins"),
    [
        (ScaledDotProductAttention(0.5), (spec(2, 3, 7, 4), spec(2, 3, 5, 4), spec(2, 3, 5, 6), None, None)),
        (ScaledDotProductAttention(0.5, heads=2), (spec(2, 7, 24), None, None, None, None)),
        (Recurrent("gru"), (spec(2, 5, 12), None, None, spec(4, 12), spec(12), None)),
        (Recurrent("lstm"), (spec(2, 5, 16), None, None, spec(4, 16), None, None)),
    ],
)
def test_fused_ops_count_like_what_they_stand_for(op: Op, ins: Any) -> None:
    assert cost(op, *ins) == composed(op, *ins) > 0


def test_gradients_of_fused_ops_count_twice() -> None:
    q, y, lse = spec(2, 7, 24), spec(2, 7, 8), spec(2, 2, 7)
    forward = cost(ScaledDotProductAttention(0.5, heads=2), q, None, None, None, None)
    assert cost(ScaledDotProductAttentionGrad(0.5, heads=2), y, y, lse, q, None, None, None, None) == 2 * forward
    given = (spec(2, 5, 12), None, None, spec(4, 12), spec(12), None)
    kept = (spec(2, 5, 16), spec(2, 5, 4))
    forward = cost(Recurrent("gru"), *given)
    assert cost(RecurrentGrad("gru"), spec(2, 5, 4), None, None, *given, *kept) == 2 * forward


def test_no_fused_op_hides_its_products() -> None:
    """Of every fused op in the tables of cases: one that stands for products counts them. Fourier transforms, which are
    written as products for other runtimes, are none."""
    transforms = ("STFT", "Spectrogram")
    counts: dict[str, tuple[int, int]] = {}
    inside: list[int] = []

    def observe(op: Op, ins: Any, outs: Any) -> None:
        if inside:
            inside[0] += multiply_adds(op, ins, outs)
        elif isinstance(op, Fused) and type(op).__name__ not in (*counts, *transforms):
            inside.append(0)
            op.compose(*[None if x is None else pdl.Tensor(x) for x in ins])
            counts[type(op).__name__] = (multiply_adds(op, ins, outs), inside.pop())

    with observed(observe):
        for case in CASES:
            for y in as_tuple(case.call(*case.tensors(grad=True))):
                if y.requires_grad:
                    y.backward(pdl.Tensor(np.ones(y.shape, y.dtype)), retain_graph=True)
    assert {name: pair for name, pair in counts.items() if pair[1] and not pair[0]} == {}
    different = {name: pair for name, pair in counts.items() if pair[0] != pair[1] and not name.endswith("Grad")}
    assert different == {}


def test_traffic_is_every_array_once_and_of_a_table_the_rows_in_use() -> None:
    x, index = spec(10, 4), Spec((3,), np.dtype(np.int64))
    assert traffic(OPS["Relu"](), (x,), (x,)) == 2 * 160
    assert traffic(Embedding(), (x, index), (spec(3, 4),)) == 48 + 24 + 48
    assert traffic(Linear(), (x, spec(4, 5), None), (spec(10, 5),)) == 4 * (40 + 20 + 50)


def test_timers_hear_of_every_op() -> None:
    heard: list[tuple[str, float]] = []

    def timer(op: Op, ins: Any, outs: Any, begin: float, end: float) -> None:
        heard.append((type(op).__name__, end - begin))

    listeners.timers.append(timer)
    try:
        pdl.relu(pdl.ones(3)) + 1.0
    finally:
        listeners.timers.remove(timer)
    assert [name for name, _ in heard] == ["Relu", "Add"]
    assert all(seconds >= 0 for _, seconds in heard)
