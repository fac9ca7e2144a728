"""CTC kernels: the gradient sums, long inputs, impossible targets, decoding, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import Tensor
from pdl.errors import ShapeError

RNG = np.random.default_rng(6)


def batch(n: int, t: int, c: int, u: int, dtype: str = "float32") -> tuple[Tensor, Tensor, Tensor, Tensor]:
    logits = RNG.standard_normal((n, t, c)).astype(dtype)
    log_p = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    labels = RNG.integers(0, u + 1, n)
    return Tensor(log_p, requires_grad=True), Tensor(RNG.integers(1, c, (n, u))), Tensor(np.full(n, t)), Tensor(labels)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_step_emits_one_class(dtype: str) -> None:
    log_p, targets, steps, labels = batch(7, 60, 20, 12, dtype)
    pdl.ctc_loss(log_p, targets, steps, labels, reduction="sum").backward()
    assert log_p.grad is not None
    np.testing.assert_allclose(log_p.grad.data.sum(2), -1, rtol=2e-4 if dtype == "float32" else 1e-12)


def test_steps_after_the_length_get_no_gradient() -> None:
    log_p, targets, steps, labels = batch(2, 9, 4, 2)
    steps.data[:] = [9, 5]
    loss = pdl.ctc_loss(log_p, targets, steps, labels, reduction="none")
    loss.sum().backward()
    assert log_p.grad is not None
    assert (log_p.grad.data[1, 5:] == 0).all()


def test_impossible_targets() -> None:
    log_p, targets, steps, labels = batch(2, 2, 4, 3)
    labels.data[:] = [3, 1]
    loss = pdl.ctc_loss(log_p, targets, steps, labels, reduction="none")
    assert np.isposinf(loss.data[0])
    assert np.isfinite(loss.data[1])
    kept = pdl.ctc_loss(log_p, targets, steps, labels, reduction="sum", zero_infinity=True)
    assert kept.item() == loss.data[1]
    kept.backward()
    assert log_p.grad is not None
    assert (log_p.grad.data[0] == 0).all()


def test_chances_of_zero_are_no_trouble() -> None:
    log_p = Tensor(np.array([[[np.log(0.5), np.log(0.5), -np.inf]] * 2]), requires_grad=True)
    loss = pdl.ctc_loss(log_p, Tensor(np.array([[1]])), Tensor(np.array([2])), Tensor(np.array([1])))
    loss.backward()
    assert loss.item() == pytest.approx(-np.log(0.75))
    assert log_p.grad is not None
    assert np.isfinite(log_p.grad.data).all()


def test_greedy_decoding() -> None:
    path = np.array([[0, 1, 1, 0, 1, 2], [3, 3, 3, 0, 0, 2]])
    scores = np.eye(4)[path]
    assert pdl.ctc_greedy_decode(scores) == [[1, 1, 2], [3, 2]]
    assert pdl.ctc_greedy_decode(Tensor(scores), np.array([4, 5]), blank=3) == [[0, 1, 0], [0]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"steps": [3, 9]}, r"input length 9 of sample 1 is outside \[0, 5\]"),
        ({"labels": [4, 1]}, r"target length 4 of sample 0 is outside \[0, 3\]"),
        ({"targets": [[1, 2, 9], [1, 1, 1]]}, r"label 9 at 2 of target 0 must be in \[0, 4\)"),
        ({"targets": [[1, 0, 2], [1, 1, 1]]}, r"label 0 at 1 of target 0 .* not the blank 0"),
        ({"labels": [1]}, r"target_lengths \(1,\) must have 1 dimensions and the batch"),
    ],
)
def test_errors_say_both_numbers(change: dict, says: str) -> None:
    given = {"targets": [[1, 2, 3], [1, 1, 1]], "steps": [5, 5], "labels": [3, 1]} | change
    with pytest.raises(ShapeError, match=says):
        pdl.ctc_loss(Tensor(np.zeros((2, 5, 4))), *[Tensor(np.array(v)) for v in given.values()])
