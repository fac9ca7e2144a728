"""What the array API standard says of infinities, NaN and zeros with their signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pdl

from .table import COMPLEX, FLOATS

inf, nan, pi = math.inf, math.nan, math.pi
#: name -> (x1, x2, result), `inf` and zeros with their signs
OF_REAL = {
    "floor_divide": [
        (nan, 1, nan), (1, nan, nan), (inf, inf, nan), (-inf, inf, nan), (0.0, 0.0, nan), (-0.0, 0.0, nan),
        (0.0, 2, 0.0), (-0.0, 2, -0.0), (0.0, -2, -0.0), (-0.0, -2, 0.0), (3, 0.0, inf), (3, -0.0, -inf),
        (-3, 0.0, -inf), (-3, -0.0, inf), (inf, 2, inf), (inf, -2, -inf), (-inf, 2, -inf), (-inf, -2, inf),
        (3, inf, 0.0), (3, -inf, -0.0), (-3, inf, -0.0), (-3, -inf, 0.0), (7, 2, 3), (-7, 2, -4), (7, -2, -4),
    ],
    "remainder": [
        (inf, 2, nan), (3, 0.0, nan), (0.0, 0.0, nan), (0.0, -2, -0.0), (-0.0, 2, 0.0), (-0.0, -2, -0.0), (3, inf, 3),
        (3, -inf, -inf), (-3, inf, inf), (-3, -inf, -3), (7, -2, -1), (-7, 2, 1),
    ],
    "pow": [
        (nan, 0.0, 1), (nan, -0.0, 1), (1, nan, 1), (-1, inf, 1), (-1, -inf, 1), (-inf, 3, -inf), (-inf, 2, inf),
        (-inf, -3, -0.0), (-inf, -2, 0.0), (-0.0, 3, -0.0), (-0.0, -3, -inf), (-0.0, -2, inf), (-2, 0.5, nan),
        (0.5, inf, 0.0), (0.5, -inf, inf), (2, -inf, 0.0), (-inf, 0.5, inf), (-0.0, 0.5, 0.0),
    ],
    "copysign": [(nan, -1, nan), (3, -0.0, -3), (-3, 0.0, 3), (inf, -inf, -inf)],
    "nextafter": [(-0.0, 0.0, 0.0), (0.0, -0.0, -0.0), (1, nan, nan), (1, 1, 1), (inf, inf, inf)],
    "hypot": [(inf, nan, inf), (nan, -inf, inf), (nan, 1, nan), (-0.0, -3, 3), (1e30, 1e30, math.sqrt(2) * 1e30)],
    "atan2": [
        (1, -0.0, pi / 2), (0.0, -0.0, pi), (-0.0, -0.0, -pi), (-0.0, 1, -0.0), (1, -inf, pi), (-1, inf, -0.0),
        (inf, -inf, 3 * pi / 4), (-inf, inf, -pi / 4),
    ],
    "logaddexp": [(nan, 1, nan), (inf, -inf, inf), (-inf, -inf, -inf), (1, inf, inf)],
}  # fmt: skip
#: name -> (x, result); ANY: of any value
ANY = object()
OF_COMPLEX: dict[str, list[tuple[tuple[float, float], tuple[Any, Any]]]] = {
    "expm1": [
        ((0.0, 0.0), (0.0, 0.0)), ((-0.0, 0.0), (ANY, 0.0)), ((1, inf), (nan, nan)), ((1, nan), (nan, nan)),
        ((inf, 0.0), (inf, 0.0)), ((-inf, 2), (-1, 0.0)), ((inf, 2), (-inf, inf)), ((-inf, inf), (-1, ANY)),
        ((inf, inf), (ANY, nan)), ((-inf, nan), (-1, ANY)), ((inf, nan), (ANY, nan)), ((nan, 0.0), (nan, 0.0)),
        ((nan, 1), (nan, nan)), ((nan, nan), (nan, nan)),
    ],
    "tanh": [
        ((0.0, 0.0), (0.0, 0.0)), ((1, inf), (nan, nan)), ((0.0, inf), (ANY, nan)), ((1, nan), (nan, nan)),
        ((0.0, nan), (ANY, nan)), ((inf, 1), (1, 0.0)), ((inf, 2), (1, 0.0)), ((inf, inf), (1, ANY)),
        ((inf, nan), (1, ANY)), ((nan, 0.0), (nan, 0.0)), ((nan, 1), (nan, nan)), ((nan, nan), (nan, nan)),
        ((-inf, 2), (-1, 0.0)), ((inf, -2), (1, -0.0)),
    ],
    "tan": [((2, inf), (0.0, 1)), ((-2, inf), (-0.0, 1)), ((2, -inf), (0.0, -1)), ((0.0, nan), (ANY, nan))],
    "exp": [
        ((-inf, inf), (ANY, ANY)), ((inf, 0.0), (inf, 0.0)), ((-inf, 2), (-0.0, 0.0)), ((inf, 2), (-inf, inf)),
        ((nan, 0.0), (nan, 0.0)), ((1, inf), (nan, nan)),
    ],
    "log": [
        ((-0.0, 0.0), (-inf, pi)), ((0.0, 0.0), (-inf, 0.0)), ((1, inf), (inf, pi / 2)), ((-inf, 1), (inf, pi)),
        ((inf, 1), (inf, 0.0)), ((-inf, inf), (inf, 3 * pi / 4)), ((inf, inf), (inf, pi / 4)), ((inf, nan), (inf, nan)),
        ((nan, inf), (inf, nan)), ((nan, 1), (nan, nan)),
    ],
    "log1p": [
        ((-1, 0.0), (-inf, 0.0)), ((1, inf), (inf, pi / 2)), ((-inf, 1), (inf, pi)), ((inf, 1), (inf, 0.0)),
        ((-inf, inf), (inf, 3 * pi / 4)), ((inf, nan), (inf, nan)), ((nan, inf), (inf, nan)), ((nan, 1), (nan, nan)),
    ],
    "sqrt": [
        ((-0.0, 0.0), (0.0, 0.0)), ((nan, inf), (inf, inf)), ((1, nan), (nan, nan)), ((-inf, 1), (0.0, inf)),
        ((inf, 1), (inf, 0.0)), ((-inf, nan), (nan, ANY)), ((inf, nan), (inf, nan)), ((nan, 1), (nan, nan)),
    ],
    "acos": [
        ((0.0, nan), (pi / 2, nan)), ((1, inf), (pi / 2, -inf)), ((-inf, 1), (pi, -inf)), ((inf, 1), (0.0, -inf)),
        ((-inf, inf), (3 * pi / 4, -inf)), ((inf, inf), (pi / 4, -inf)), ((nan, inf), (nan, -inf)),
        ((inf, nan), (nan, ANY)), ((nan, 1), (nan, nan)), ((2, nan), (nan, nan)),
    ],
    "acosh": [
        ((0.0, 0.0), (0.0, pi / 2)), ((1, inf), (inf, pi / 2)), ((0.0, nan), (nan, ANY)), ((-inf, 1), (inf, pi)),
        ((inf, 1), (inf, 0.0)), ((-inf, inf), (inf, 3 * pi / 4)), ((inf, nan), (inf, nan)), ((nan, inf), (inf, nan)),
    ],
    "asinh": [
        ((0.0, 0.0), (0.0, 0.0)), ((1, inf), (inf, pi / 2)), ((1, nan), (nan, nan)), ((inf, 1), (inf, 0.0)),
        ((inf, inf), (inf, pi / 4)), ((nan, 0.0), (nan, 0.0)), ((nan, 1), (nan, nan)), ((nan, inf), (ANY, nan)),
    ],
    "atanh": [
        ((0.0, 0.0), (0.0, 0.0)), ((0.0, nan), (0.0, nan)), ((1, 0.0), (inf, 0.0)), ((1, inf), (0.0, pi / 2)),
        ((2, nan), (nan, nan)), ((inf, 1), (0.0, pi / 2)), ((inf, inf), (0.0, pi / 2)), ((inf, nan), (0.0, nan)),
        ((nan, 1), (nan, nan)), ((nan, inf), (ANY, pi / 2)),
    ],
    "sinh": [
        ((0.0, 0.0), (0.0, 0.0)), ((0.0, inf), (ANY, nan)), ((1, inf), (nan, nan)), ((inf, 0.0), (inf, 0.0)),
        ((inf, 2), (-inf, inf)), ((inf, inf), (ANY, nan)), ((nan, 0.0), (nan, 0.0)), ((nan, 1), (nan, nan)),
    ],
    "cosh": [
        ((0.0, 0.0), (1, 0.0)), ((0.0, inf), (nan, ANY)), ((1, inf), (nan, nan)), ((inf, 0.0), (inf, 0.0)),
        ((inf, 2), (-inf, inf)), ((inf, inf), (ANY, nan)), ((nan, 0.0), (nan, ANY)), ((nan, 1), (nan, nan)),
    ],
    "sign": [((0.0, -0.0), (ANY, ANY)), ((nan, 1), (nan, nan)), ((inf, nan), (nan, nan))],
    "abs": [((inf, nan), (inf, ANY)), ((nan, -inf), (inf, ANY)), ((-0.0, -3), (3, ANY)), ((nan, 1), (nan, ANY))],
}  # fmt: skip


def agrees(found: float, expected: Any) -> bool:
    if expected is ANY:
        return True
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return math.copysign(1, found) == math.copysign(1, expected) and math.isclose(found, expected, rel_tol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OF_REAL)
def test_special_real_values(name: str, dtype: str) -> None:
    """In few elements, and in many, which have kernels of their own."""
    for repeats in (1, 200):
        x1, x2, expected = (np.tile(np.array(v, dtype), repeats) for v in zip(*OF_REAL[name], strict=True))
        found = getattr(pdl, name)(pdl.asarray(x1), pdl.asarray(x2)).numpy()
        wrong = [(a, b, y) for a, b, y, w in zip(x1, x2, found, expected, strict=True) if not agrees(y, w)]
        assert wrong == []


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_special_complex_values(name: str, dtype: str) -> None:
    """And of their conjugates, which have the conjugate values."""
    for (a, b), (re, im) in OF_COMPLEX[name]:
        for side in (1, -1):
            x = np.zeros(1, dtype)
            x.real, x.imag = a, math.copysign(b, side * math.copysign(1, b)) if not math.isnan(b) else b
            y = complex(getattr(pdl, name)(pdl.asarray(x)).numpy()[0])
            sided = im if im is ANY or math.isnan(im) else side * im
            assert agrees(y.real, re), (x, y, re)
            assert agrees(y.imag, sided), (x, y, sided)
