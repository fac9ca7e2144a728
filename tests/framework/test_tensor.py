"""Tensor: dtypes and their meetings, operators and methods, what is made from nothing, errors with both numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pdl
from pdl.dtype import ALL, promote
from pdl.errors import DtypeError, GradientError, IndexRangeError, NumericalError, ShapeError

X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("bool", "uint8", "uint8"),
        ("uint8", "int8", "int16"),
        ("int8", "int64", "int64"),
        ("int64", "float32", "float32"),
        ("int64", "bfloat16", "bfloat16"),
        ("bfloat16", "float32", "float32"),
        ("bfloat16", "float64", "float64"),
        ("float32", "float64", "float64"),
        ("float64", "complex64", "complex128"),
        ("float32", "complex64", "complex64"),
        ("int64", "complex64", "complex64"),
        ("complex64", "complex128", "complex128"),
    ],
)
def test_promotion(a: str, b: str, result: str) -> None:
    x, y = (pdl.ones(2, dtype=d) for d in (a, b))
    assert promote(x.dtype, y.dtype) == promote(y.dtype, x.dtype) == ALL[result]
    assert (x * y).dtype == (y * x).dtype == ALL[result]


@pytest.mark.parametrize(
    ("dtype", "scalar", "result"),
    [
        ("bfloat16", 2.5, "bfloat16"), ("float64", 2, "float64"), ("float32", True, "float32"), ("int8", 3, "int8"),
        ("int8", 2.5, "float32"), ("bool", 1, "int64"), ("float64", 1j, "complex128"), ("float32", 1j, "complex64"),
    ],
)  # fmt: skip
def test_python_scalars_raise_only_the_kind(dtype: str, scalar: complex, result: str) -> None:
    x = pdl.ones(2, dtype=dtype)
    assert (x * scalar).dtype == (scalar * x).dtype == ALL[result]


def test_what_python_values_become() -> None:
    made = [pdl.tensor(v).dtype.name for v in (True, 1, 1.5, 1j, [1, 2.5], np.float64(1), np.ones(2, np.int16))]
    assert made == ["bool", "int64", "float32", "complex64", "float32", "float64", "int16"]


def test_tensor_copies_and_as_tensor_shares() -> None:
    array = X.copy()
    copied, shared = pdl.tensor(array), pdl.as_tensor(array)
    array[0, 0] = 9
    assert copied[0, 0].item() == 1
    assert shared[0, 0].item() == 9
    assert pdl.as_tensor(shared) is shared


OPERATORS = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y, "x // y": lambda x, y: x // y, "x % y": lambda x, y: x % y,
    "2 - x": lambda x, y: 2 - x, "2 / x": lambda x, y: 2 / x,
    "x ** 2": lambda x, y: x**2, "2 ** x": lambda x, y: 2.0**x, "-x": lambda x, y: -x, "abs(x)": lambda x, y: abs(x),
    "x @ y": lambda x, y: x @ y.T, "x < y": lambda x, y: x < y, "x <= 1": lambda x, y: x <= 1,
    "1 > x": lambda x, y: x < 1,
    "x >= y": lambda x, y: x >= y, "x == y": lambda x, y: x == y, "x != 1": lambda x, y: x != 1,
    "masks": lambda x, y: ((x > 0) & (y > 0)) | ~(x > 1) ^ (y < 2), "x.T": lambda x, y: x.T, "x.mT": lambda x, y: x.mT,
    "reshape": lambda x, y: x.reshape(3, 2) + x.reshape((3, -1)), "sum": lambda x, y: x.sum(axis=0) + x.mean(),
    "max": lambda x, y: x.max(axis=1, keepdims=True) - x.min(), "astype": lambda x, y: x.astype("int64"),
    "array first": lambda x, y: np.ones(3) + x, "key": lambda x, y: x[1:, ::2] + x[x > 3].sum(),
    "int key": lambda x, y: x[1],
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_do_as_numpy_does(name: str) -> None:
    y = np.abs(X[::-1]) + 0.5
    found = OPERATORS[name](pdl.tensor(X), pdl.tensor(y))
    want = OPERATORS[name](X, y)
    assert isinstance(found, pdl.Tensor)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)


def test_protocols() -> None:
    x = pdl.tensor(X)
    assert len(x) == 2
    assert [row.tolist() for row in x] == X.tolist()
    assert float(x[0, 0]) == 1.0
    assert int(pdl.tensor(3)) == 3
    assert [10, 20, 30][pdl.tensor(1)] == 20
    assert bool(pdl.tensor(True))
    assert np.asarray(x) is not None
    assert (x == "text") is False
    assert "requires_grad=True" in repr(pdl.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"


def test_shared_memory_and_copies() -> None:
    x = pdl.tensor(X)
    view, copy = x[0], x.clone()
    x[0, 1] = 7.0
    assert view[1].item() == 7.0
    assert copy[0, 1].item() == -2.0
    with pytest.raises(GradientError, match="cannot assign"):
        pdl.ones(3, requires_grad=True)[0] = 2.0


CREATED = [
    (pdl.zeros((2, 3)), np.zeros((2, 3), np.float32)),
    (pdl.ones(3, dtype="int8"), np.ones(3, np.int8)),
    (pdl.full((2,), 7), np.full(2, 7)),
    (pdl.full((2,), 0.5), np.full(2, 0.5, np.float32)),
    (pdl.zeros_like(pdl.tensor(X)), np.zeros_like(X)),
    (pdl.ones_like(X, dtype="bool"), np.ones((2, 3), bool)),
    (pdl.full_like(X, 2), np.full_like(X, 2)),
    (pdl.arange(3), np.arange(3)),
    (pdl.arange(1, 2, 0.25), np.arange(1, 2, 0.25, dtype=np.float32)),
    (pdl.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
    (pdl.eye(2, 3, k=1), np.eye(2, 3, 1, np.float32)),
]


@pytest.mark.parametrize("index", range(len(CREATED)))
def test_created(index: int) -> None:
    found, want = CREATED[index]
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(found.numpy(), want)


def test_random_tensors_follow_the_seed() -> None:
    def draw() -> list[np.ndarray]:
        pdl.seed(3)
        made = (pdl.rand((4, 5)), pdl.randn(6, dtype="float64"), pdl.randint(2, 9, (7,)), pdl.randperm(8),
                pdl.dropout_mask((1000,), rate=0.25))  # fmt: skip
        return [t.numpy() for t in made]

    first, second = draw(), draw()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert sorted(first[3]) == list(range(8))
    assert set(np.unique(first[4])) == {np.float32(0), np.float32(4 / 3)}
    assert 0.7 < np.mean(first[4] > 0) < 0.8


def test_special_values() -> None:
    x = pdl.tensor([-math.inf, -1.0, 0.0, 1.0, math.inf, math.nan], dtype="float64")
    np.testing.assert_array_equal(pdl.erf(x).numpy()[[0, 2, 4]], [-1, 0, 1])
    np.testing.assert_array_equal(pdl.erfinv(x).numpy()[[0, 1, 3]], [math.nan, -math.inf, math.inf])
    tail = pdl.erfc(pdl.tensor([5.0, 26.0], dtype="float64")).numpy()
    np.testing.assert_allclose(tail, [math.erfc(5.0), math.erfc(26.0)], rtol=1e-14)
    assert np.isnan(pdl.log(pdl.tensor(-1.0)).item())  # and no warning
    assert pdl.logsumexp(pdl.tensor([-math.inf, -math.inf])).item() == -math.inf
    assert pdl.remainder(pdl.tensor(-3.0), 2.0).item() == 1.0


ERRORS = [
    (lambda: pdl.ones((2, 3)) + pdl.ones((4, 3)), ShapeError, r"add: shapes \(2, 3\) and \(4, 3\)"),
    (lambda: pdl.ones((2, 3)) @ pdl.ones((2, 3)), ShapeError, r"a \(2, 3\) has \(3,\) columns, b .* has \(2,\) rows"),
    (lambda: pdl.linear(pdl.ones((2, 3)), pdl.ones((4, 5))), ShapeError, r"linear: x \(2, 3\).*w \(4, 5\)"),
    (lambda: pdl.ones((2, 3)).reshape(4, 2), ShapeError, r"\(2, 3\) has 6 elements, \(4, 2\) takes 8"),
    (lambda: pdl.ones((2, 3)).reshape(-1, 4), ShapeError, "a multiple of 4"),
    (lambda: pdl.ones((2, 3)).sum(axis=2), ShapeError, r"axis 2 is outside \[-2, 1\]"),
    (lambda: pdl.ones((2, 3)).sum(axis=(0, -2)), ShapeError, "twice"),
    (lambda: pdl.ones((2, 3)).squeeze(axis=1), ShapeError, "has size 3, not 1"),
    (lambda: pdl.ones((0, 3)).max(axis=0), ShapeError, r"\(0, 3\) has no elements"),
    (lambda: pdl.concat([pdl.ones((2, 3)), pdl.ones((2, 4))]), ShapeError, r"input 0 is \(2, 3\), input 1 is \(2, 4\)"),
    (lambda: pdl.split(pdl.ones(5), (2, 2)), ShapeError, "sum to 4.*has 5"),
    (lambda: pdl.ones((2, 3))[2], IndexRangeError, r"index 2 is outside axis 0 of \(2, 3\), which has 2 elements"),
    (lambda: pdl.ones((2, 3))[:, [0, -4]], IndexRangeError, "index -4 is outside axis 1"),
    (lambda: pdl.ones((2, 3))[0, 0, 0], ShapeError, "3 indices.*2 dimensions"),
    (lambda: pdl.ones(3)[pdl.tensor([True, False])], ShapeError, r"shape \(2,\) for dimensions of sizes \(3,\)"),
    (lambda: pdl.ones(3)[pdl.tensor([0.5])], DtypeError, "float32"),
    (lambda: pdl.take(pdl.ones(3), pdl.tensor([3])), IndexError, "index 3 is outside axis 0"),
    (lambda: pdl.one_hot(pdl.tensor([1, 5]), 5), ShapeError, "indices from 1 to 5, classes are 0 to 4"),
    (lambda: pdl.topk(pdl.ones(3), 4), ShapeError, "k is 4.*3 elements"),
    (lambda: pdl.where(pdl.ones(2), 1.0, 2.0), DtypeError, "float32, not bool"),
    (lambda: pdl.tensor([True]) + pdl.tensor([True]), DtypeError, "add: takes integers or floats.*not bool"),
    (lambda: pdl.floor(pdl.ones(2, dtype="complex64")), DtypeError, "takes bool or integers or floats, not complex64"),
    (lambda: pdl.tensor([1], dtype="uint8") + 300, DtypeError, r"300 does not fit uint8 \[0, 255\]"),
    (lambda: pdl.tensor([2]) ** -1, DtypeError, "int64 to the power -1"),
    (lambda: pdl.ones(2).astype("float16"), DtypeError, "float16.*is not one of pdl's"),
    (lambda: pdl.tensor(["text"]), DtypeError, "not one of pdl's"),
    (lambda: bool(pdl.ones(2)), ShapeError, r"shape \(2,\) is ambiguous"),
    (lambda: pdl.ones(2).item(), ShapeError, "has 2"),
    (lambda: pdl.inv(pdl.zeros((2, 2))), NumericalError, "inv: singular matrix"),
    (lambda: pdl.inv(pdl.ones((2, 3))), ShapeError, r"inv: x is \(2, 3\); expected square"),
    (lambda: pdl.einsum("ij,jk->ik", pdl.ones((2, 3)), pdl.ones((4, 2))), ShapeError, "'j' has the sizes 3 and 4"),
    (lambda: pdl.pad(pdl.ones(3), 3, mode="reflect"), ShapeError, "needs more than the 3 elements"),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors_name_both_numbers(index: int) -> None:
    call, error, message = ERRORS[index]
    with pytest.raises(error, match=message):
        call()
