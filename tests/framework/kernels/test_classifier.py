"""The last layer and its loss in blocks of classes, against the same in two ops."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import Tensor, threads
from pdl.autograd import grad
from pdl.errors import DataError, DtypeError, ShapeError, UsageError

RNG = np.random.default_rng(9)


def inputs(n: int, c: int, classes: int, dtype: str, scale: float = 1.0) -> tuple[list[Tensor], Tensor]:
    shapes = ((n, c), (c, classes), (classes,))
    xs = [Tensor((scale * RNG.standard_normal(s)).astype(dtype), requires_grad=True) for s in shapes]
    labels = RNG.integers(0, classes, n)
    labels[n // 2 :: 50] = -100
    return xs, Tensor(labels)


def by_classes(xs: list[Tensor], labels: Tensor, transposed: bool, **options: object) -> Tensor:
    """The loss, with the table as it is or the other way round."""
    x, w, b = xs
    w = pdl.matrix_transpose(w) if transposed else w
    return pdl.linear_cross_entropy(x, w, b, labels, transposed=transposed, **options)  # type: ignore[arg-type]


both = pytest.mark.parametrize("transposed", [False, True])


@pytest.mark.parametrize(
    ("n", "c", "classes"), [(1, 1, 1), (7, 33, 40), (130, 20, 300), (300, 70, 1000), (20, 100, 5000)]
)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@both
def test_it_is_the_loss_of_the_scores(
    n: int, c: int, classes: int, dtype: str, tolerance: float, smoothing: float, transposed: bool
) -> None:
    xs, labels = inputs(n, c, classes, dtype)
    options = {"label_smoothing": smoothing, "reduction": "sum"}
    found = by_classes(xs, labels, transposed, **options)
    want = pdl.cross_entropy(pdl.linear(*xs), labels, **options)
    for a, b in zip([found, *grad(found, xs)], [want, *grad(want, xs)], strict=True):
        assert a is not None
        assert b is not None
        scale = max(1.0, float(np.abs(b.data).max()))
        np.testing.assert_allclose(a.data / scale, b.data / scale, atol=tolerance)


@both
def test_scores_far_from_zero_overflow_nowhere(transposed: bool) -> None:
    xs, labels = inputs(20, 30, 600, "float32", scale=30.0)
    found = by_classes(xs, labels, transposed)
    np.testing.assert_allclose(found.data, pdl.cross_entropy(pdl.linear(*xs), labels).data, rtol=1e-5)
    assert all(np.isfinite(g.data).all() for g in grad(found, xs) if g is not None)


@both
def test_classes_that_are_ruled_out(transposed: bool) -> None:
    """A bias of minus infinity over a whole block."""
    xs, labels = inputs(4, 3, 300, "float64")
    labels = Tensor(labels.data.clip(-100, 30))
    xs[2].data[64:256] = -np.inf
    found, want = by_classes(xs, labels, transposed), pdl.cross_entropy(pdl.linear(*xs), labels)
    np.testing.assert_allclose(found.data, want.data)
    np.testing.assert_allclose(grad(found, xs)[1].data, grad(want, xs)[1].data, atol=1e-14)  # type: ignore[union-attr]


@both
def test_the_number_of_threads_changes_the_loss_by_no_bit(transposed: bool) -> None:
    xs, labels = inputs(70, 40, 5000, "float32")
    losses, gradients = [], []
    for count in (1, 2):
        with threads.num_threads(count):
            losses.append(by_classes(xs, labels, transposed, reduction="none"))
            gradients.append(grad(losses[-1].sum(), xs))
    np.testing.assert_array_equal(losses[0].data, losses[1].data)
    for a, b in zip(*gradients, strict=True):
        assert a is not None
        assert b is not None
        np.testing.assert_allclose(a.data, b.data, atol=1e-5)


X, W = Tensor(np.ones((2, 3))), Tensor(np.ones((3, 4)))
NARROW = Tensor(np.ones((3, 4), np.float32))


@pytest.mark.parametrize(
    ("arguments", "labels", "options", "error", "says"),
    [
        ((X, W, None), [0, 4], {}, DataError, "label 4 at position 1 is none of the 4 classes"),
        ((X, X, None), [0, 1], {}, ShapeError, r"x \(2, 3\) \[N, C\] does not fit w \(2, 3\)"),
        ((X, W, None), [0, 1], {"transposed": True}, ShapeError, r"does not fit w \(3, 4\) \[classes, C\]"),
        ((X, W, None), [0, 1], {"first": 1}, UsageError, "go with transposed=True"),
        ((X, X, None), [1, 0], {"transposed": True, "first": 1}, DataError, "label 0 at position 1 is none"),
        ((X, X, None), [0, 1], {"transposed": True, "ids": np.array([3, -1])}, DataError, "the id -1, which takes no"),
        ((X, X, None), [0, 1], {"transposed": True, "ids": np.array([3])}, ShapeError, r"ids \(1,\) int64 must be"),
        ((X, W, X), [0, 1], {}, ShapeError, r"b \(2, 3\) does not fit the 4 classes"),
        ((X, W, None), [0], {}, ShapeError, r"needs labels \(2,\), got \(1,\)"),
        ((X, NARROW, None), [0, 1], {}, DtypeError, "dtypes float64, float32"),
        ((X, W, None), [0, 1], {"reduction": "max"}, UsageError, "reduction is 'max'"),
        ((X, W, None), [0, 1], {"label_smoothing": 2}, UsageError, "label_smoothing 2 is outside"),
    ],
)
def test_errors(arguments, labels, options, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        pdl.linear_cross_entropy(*arguments, Tensor(np.array(labels)), **options)
