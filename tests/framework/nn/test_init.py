"""Initialisers: moments against the formulas of their papers, structure, and determinism."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import PdlError
from pdl.nn import init

SHAPE = (3, 3, 40, 60)  # fan_in 360, fan_out 540

#: initialiser, mean, standard deviation, largest magnitude (None: unbounded)
MOMENTS: list[tuple[Callable[[pdl.Tensor], pdl.Tensor], float, float, float | None]] = [
    (lambda x: init.uniform_(x, -1.0, 3.0), 1.0, 4 / math.sqrt(12), 3.0),
    (lambda x: init.normal_(x, 2.0, 0.5), 2.0, 0.5, None),
    (lambda x: init.trunc_normal_(x, std=1.0), 0.0, 0.8796, 2.0),
    (init.xavier_uniform_, 0.0, math.sqrt(2 / 900), math.sqrt(6 / 900)),
    (init.xavier_normal_, 0.0, math.sqrt(2 / 900), None),
    (init.kaiming_uniform_, 0.0, math.sqrt(2 / 360), math.sqrt(6 / 360)),
    (lambda x: init.kaiming_uniform_(x, math.sqrt(5)), 0.0, 1 / math.sqrt(3 * 360), 1 / math.sqrt(360)),
    (lambda x: init.kaiming_normal_(x, mode="fan_out", nonlinearity="relu"), 0.0, math.sqrt(2 / 540), None),
    (init.lecun_normal_, 0.0, math.sqrt(1 / 360), None),
    (lambda x: init.fan_in_uniform_(x, 360), 0.0, 1 / math.sqrt(3 * 360), 1 / math.sqrt(360)),
    (init.zeros_, 0.0, 0.0, 0.0),
    (init.ones_, 1.0, 0.0, 1.0),
]


@pytest.mark.parametrize(("fill", "mean", "std", "bound"), MOMENTS)
def test_moments(fill: Callable[[pdl.Tensor], pdl.Tensor], mean: float, std: float, bound: float | None) -> None:
    pdl.seed(3)
    x = pdl.zeros(SHAPE)
    assert fill(x) is x
    n = x.size
    assert x.data.mean() == pytest.approx(mean, abs=4 * std / math.sqrt(n) + 1e-6)
    assert x.data.std() == pytest.approx(std, rel=0.02, abs=1e-6)
    assert bound is None or np.abs(x.data).max() <= bound + 1e-6


@pytest.mark.parametrize("shape", [(20, 8), (8, 20), (3, 3, 4, 16)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    x = init.orthogonal_(pdl.zeros(shape, dtype="float64"), 2.0).data.reshape(-1, shape[-1])
    gram = x.T @ x if x.shape[0] >= x.shape[1] else x @ x.T
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-12)


def test_dirac_passes_channels() -> None:
    w = init.dirac_(pdl.zeros((3, 3, 2, 2)))
    x = pdl.rand((1, 4, 4, 2))
    np.testing.assert_array_equal(pdl.conv2d(x, w, padding=1).data, x.data)
    np.testing.assert_array_equal(init.eye_(pdl.zeros((2, 3))).data, np.eye(2, 3))


def test_sparse() -> None:
    x = init.sparse_(pdl.zeros((10, 6)), 0.35)
    assert ((x.data == 0).sum(0) == 4).all()


def test_same_seed_same_values_in_every_dtype() -> None:
    values = []
    for dtype in ("float32", "float64", "bfloat16"):
        pdl.seed(5)
        values.append(init.normal_(pdl.zeros((3, 3), dtype=dtype)).data.astype(np.float64))
    np.testing.assert_allclose(values[0], values[1])
    np.testing.assert_allclose(values[0], values[2], rtol=2**-8)


@pytest.mark.parametrize(
    ("layer", "bound"),
    [(nn.Linear(50, 20), 50**-0.5), (nn.Conv2d(8, 6, 3, groups=2), 36**-0.5), (nn.ConvTranspose2d(8, 6, 3), 54**-0.5),
     (nn.LSTM(7, 16), 0.25), (nn.Bilinear(9, 4, 5), 1 / 3)],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_defaults_are_pytorch_s(layer: nn.Module, bound: float) -> None:
    for p in layer.parameters():
        assert np.abs(p.data).max() <= bound
    assert max(np.abs(p.data).max() for p in layer.parameters()) > 0.9 * bound


@pytest.mark.parametrize(
    "call",
    [lambda: init.xavier_uniform_(pdl.zeros((3,))), lambda: init.eye_(pdl.zeros((3,))),
     lambda: init.orthogonal_(pdl.zeros((3,))),
     lambda: init.gain("swosh"), lambda: init.trunc_normal_(pdl.zeros((3,)), low=9.0, high=10.0),
     lambda: init.kaiming_normal_(pdl.zeros((3, 3)), mode="fan")],
)  # fmt: skip
def test_refused(call: Callable[[], object]) -> None:
    with pytest.raises(PdlError):
        call()


def test_skipped() -> None:
    pdl.seed(1)
    state = str(pdl.random.generator().bit_generator.state)
    with init.skipped():
        net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.GRU(3, 4))
        for fill in (init.orthogonal_, init.trunc_normal_, init.normal_, lambda x: init.sparse_(x, 0.5)):
            assert not fill(pdl.zeros((4, 6))).data.any()
        assert init.ones_(pdl.zeros(3)).data.all()
    assert str(pdl.random.generator().bit_generator.state) == state
    assert {name for name, p in net.named_parameters() if p.data.any()} == {"1.weight"}
    with init.skipped(), pytest.raises(PdlError), init.skipped():
        raise PdlError("no")
    assert nn.Linear(2, 3).weight.data.all()


def test_skipped_holds_for_its_thread_alone() -> None:
    from threading import Thread

    made: list[nn.Linear] = []
    with init.skipped():
        thread = Thread(target=lambda: made.append(nn.Linear(2, 3)))
        thread.start()
        thread.join()
    assert made[0].weight.data.all()
