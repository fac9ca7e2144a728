"""CRF kernels: sums over many tags and steps, transitions that are forbidden or nearly so, decoding, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import Tensor
from pdl.errors import DtypeError, ShapeError

Chain = tuple[np.ndarray, np.ndarray, np.ndarray]


def batch(n: int, t: int, k: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, Chain]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, t + 1, n)
    lengths[0] = t
    scores = (spread * rng.standard_normal((k, k)), rng.standard_normal(k), rng.standard_normal(k))
    return spread * rng.standard_normal((n, t, k)), rng.integers(0, k, (n, t)), lengths, scores


def forbid(scores: Chain, seed: int = 1) -> Chain:
    """Half of the transitions out of each tag, and of the starts and ends."""
    rng = np.random.default_rng(seed)
    made = []
    for x in scores:
        free = rng.permuted(
            np.arange(x.shape[-1]) % 2 == 0 if x.ndim == 1 else np.indices(x.shape)[1] % 2 == 0, axis=-1
        )
        made.append(np.where(free, x, -np.inf))
    return made[0], made[1], made[2]


def log_z(emissions: np.ndarray, lengths: np.ndarray, scores: Chain, best: bool = False) -> np.ndarray:
    """By the recursion in logs, one sequence at a time, in float64; of the best path alone with `best`."""
    join = np.maximum if best else np.logaddexp
    made = []
    for each, steps in zip(emissions, lengths, strict=True):
        alpha = scores[1] + each[0]
        for row in each[1:steps]:
            alpha = join.reduce(alpha[:, None] + scores[0], axis=0) + row
        made.append(join.reduce(alpha + scores[2]))
    return np.array(made)


def score(emissions: np.ndarray, tags: np.ndarray, lengths: np.ndarray, scores: Chain) -> np.ndarray:
    made = []
    for each, path, steps in zip(emissions, tags, lengths, strict=True):
        path = path[:steps]
        value = scores[1][path[0]] + scores[2][path[-1]] + each[np.arange(steps), path].sum()
        made.append(value + scores[0][path[:-1], path[1:]].sum())
    return np.array(made)


def loss(
    emissions: np.ndarray, tags: np.ndarray, lengths: np.ndarray, scores: Chain, dtype: str
) -> tuple[Tensor, list[Tensor]]:
    given = [Tensor(x.astype(dtype), requires_grad=True) for x in (emissions, *scores)]
    return pdl.crf_loss(given[0], tags, lengths, *given[1:], reduction="none"), given


SIZES = [(3, 9, 2, 1.0), (7, 40, 17, 2.0), (2, 300, 5, 6.0), (3, 12, 130, 1.0), (4, 20, 33, 40.0)]


@pytest.mark.parametrize(("n", "t", "k", "spread"), SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("some", [False, True])
def test_the_loss_and_its_gradient(n: int, t: int, k: int, spread: float, dtype: str, some: bool) -> None:
    """Against the recursion in logs; expected counts sum to 1 a step, and to those of steps over transitions."""
    emissions, _, lengths, scores = batch(n, t, k, spread)
    scores = forbid(scores) if some else scores
    tags = pdl.crf_decode(emissions, lengths, *scores).data  # tags that are allowed
    made, given = loss(emissions, tags, lengths, scores, dtype)
    wide, *rest = (x.data.astype(np.float64) for x in given)
    chain = (rest[0], rest[1], rest[2])
    wanted = log_z(wide, lengths, chain) - score(wide, tags, lengths, chain)
    rtol, atol = (1e-5, np.abs(wide).max() * 2e-6) if dtype == "float32" else (1e-10, 1e-9)
    np.testing.assert_allclose(made.data, wanted, rtol=rtol, atol=atol)
    made.sum().backward()
    close = 3e-4 if dtype == "float32" else 1e-9
    d, moves, begins, finals = (x.grad.data for x in given if x.grad is not None)
    p = d.copy()
    for i, steps in enumerate(lengths):
        p[i, np.arange(steps), tags[i, :steps]] += 1
        np.testing.assert_allclose(p[i, :steps].sum(axis=1), 1, atol=close)
        assert (p[i, steps:] == 0).all()
    np.testing.assert_allclose(p, pdl.crf_marginals(*given[:1], lengths, *given[1:]).data, atol=close)
    counts = np.zeros((k, k))
    for path, steps in zip(tags, lengths, strict=True):
        np.add.at(counts, (path[: steps - 1], path[1:steps]), 1)
    inner = sum(p[i, : steps - 1].sum(axis=0) for i, steps in enumerate(lengths))
    np.testing.assert_allclose((moves + counts).sum(axis=1), inner, atol=10 * close)
    assert (moves[~np.isfinite(scores[0])] == 0).all()
    np.testing.assert_allclose(begins, d[:, 0].sum(axis=0), atol=close)
    np.testing.assert_allclose(finals, d[np.arange(n), lengths - 1].sum(axis=0), atol=close)


@pytest.mark.parametrize(("n", "t", "k", "spread"), SIZES)
@pytest.mark.parametrize("some", [False, True])
def test_decoding_finds_the_best_path(n: int, t: int, k: int, spread: float, some: bool) -> None:
    emissions, _, lengths, scores = batch(n, t, k, spread)
    scores = forbid(scores) if some else scores
    for dtype, close in (("float64", 1e-9), ("float32", 1e-3)):
        tags = pdl.crf_decode(emissions.astype(dtype), lengths, *(x.astype(dtype) for x in scores)).data
        found = score(emissions, tags, lengths, scores)
        np.testing.assert_allclose(found, log_z(emissions, lengths, scores, best=True), rtol=1e-6, atol=close)
        assert ((tags == -1) == (np.arange(t)[None] >= lengths[:, None])).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_nearly_forbidden_still_counts(dtype: str) -> None:
    """A chain through tags that are e^-3000 as probable as others at each step, and are the only way to the end."""
    k, t, low = 3, 6, -3000.0
    moves = np.full((k, k), -np.inf)
    moves[0, 0] = moves[1, 1] = moves[0, 1] = 0
    emissions = np.zeros((1, t, k))
    emissions[0, :, 1] = low
    scores = (moves, np.array([0.0, 0.0, -np.inf]), np.array([-np.inf, 0.0, -np.inf]))
    tags = np.array([[0, 0, 0, 0, 1, 1]])
    made, given = loss(emissions, tags, np.array([t]), scores, dtype)
    assert made.item() == pytest.approx(-low)  # the best path has one step in tag 1, these tags have two
    made.sum().backward()
    grad = given[0].grad
    assert grad is not None
    np.testing.assert_allclose(grad.data[0, :, 1], [0, 0, 0, 0, -1, 0], atol=1e-6)


@pytest.mark.parametrize("impossible", ["tags", "all"])
def test_infinite_losses_have_no_gradient(impossible: str) -> None:
    scores = (np.zeros((2, 2)), np.array([0.0, -np.inf]), np.zeros(2))
    if impossible == "all":
        scores = (np.zeros((2, 2)), np.full(2, -np.inf), np.zeros(2))
    emissions = np.zeros((2, 3, 2))
    made, given = loss(emissions, np.array([[1, 0, 0], [0, 1, 1]]), np.array([3, 3]), scores, "float32")
    assert np.isposinf(made.data).tolist() == [True, impossible == "all"]
    made.sum().backward()
    assert given[0].grad is not None
    assert (given[0].grad.data[0] == 0).all()
    assert np.isfinite(given[1].grad.data).all()  # type: ignore[union-attr]


def test_threads_give_the_same_sums() -> None:
    emissions, tags, lengths, scores = batch(23, 30, 21, 1.0)
    results = []
    for _ in range(2):
        made, given = loss(emissions, tags, lengths, scores, "float32")
        made.sum().backward()
        results.append([made.data, *(x.grad.data for x in given if x.grad is not None)])
    for a, b in zip(*results, strict=True):
        assert (a == b).all()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"lengths": [3, 9]}, ShapeError, r"lengths\[1\] is 9, the sequences have 0 to 5 steps"),
        ({"lengths": [3]}, ShapeError, r"lengths \(1,\) int64 must be \(2,\) int64"),
        ({"lengths": [3.0, 1.0]}, DtypeError, "lengths is float64; expected an integer dtype"),
        ({"tags": [[0, 1, 4, 0, 0], [0] * 5]}, ShapeError, r"tag 4 at 2 of sequence 0 must be in \[0, 4\)"),
        ({"tags": [[0, 1, 2], [0] * 3]}, ShapeError, r"tags \(2, 3\) int64 must be \(2, 5\) int64"),
        ({"transitions": np.zeros((4, 3))}, ShapeError, r"transitions"),
    ],
)
def test_errors_say_what_is_wrong(change: dict, error: type[Exception], says: str) -> None:
    given = {
        "emissions": np.zeros((2, 5, 4)), "tags": [[0] * 5, [3] * 5], "lengths": [5, 1],
        "transitions": np.zeros((4, 4)), "starts": np.zeros(4), "ends": np.zeros(4),
    } | change  # fmt: skip
    with pytest.raises(error, match=says):
        pdl.crf_loss(*[Tensor(np.asarray(v)) for v in given.values()])
