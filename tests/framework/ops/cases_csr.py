"""Products with sparse matrices, against sums over their nonzeros one by one."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.ops.csr import CSR

from .case import Case, draws

f, _ = draws(41)
# row 1 and the last are empty, column 4 too; (2, 1) is there twice
ROW, COLUMN = np.array([2, 0, 2, 0, 3, 2, 0]), np.array([1, 3, 1, 1, 2, 0, 0])
A, _ORDER = CSR.from_coo(ROW, COLUMN, (5, 5))
PAIRS = list(zip(A.row, A.indices, strict=True))
#: so many nonzeros to three columns that the transposed product is scattered
TALL, _ = CSR.from_coo(np.arange(240) % 40, np.arange(240) // 7 % 3, (40, 3))


def lifted(value, x):
    return value.reshape(*value.shape, *(1,) * (x.ndim - value.ndim))


def messages(a, x, value):
    m = x[a.indices]
    return m if value is None else m * lifted(value, x)


def product(x, value=None, reduce="sum"):
    return pdl.spmm(A, x, value, reduce=reduce)


def product_reference(x, value=None, reduce="sum"):
    how = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[reduce]
    m = messages(A, x, value)
    return np.stack([how(m[A.row == i], axis=0) if (A.row == i).any() else np.zeros(x.shape[1:]) for i in range(5)])


def tall(x, value=None):
    return pdl.spmm(TALL, x, value)


def tall_reference(x, value=None):
    m = messages(TALL, x, value)
    return np.stack([m[TALL.row == i].sum(0) for i in range(40)])


def dots(q, k):
    return pdl.sddmm(A, q, k)


def dots_reference(q, k):
    return np.stack([(q[i] * k[j]).sum(-1) for i, j in PAIRS])


def softmax(score):
    return pdl.edge_softmax(A, score)


def softmax_reference(score):
    e = np.exp(score)
    return np.stack([e[n] / e[A.row == i].sum(0) for n, (i, _) in enumerate(PAIRS)])


def at_ends(x, which):
    return {"rows": pdl.at_rows, "columns": pdl.at_columns}[which](A, x)


def at_ends_reference(x, which):
    return x[A.row if which == "rows" else A.indices]


# x, value (None: ones): every way that values are spread over channels
PRODUCTS = [
    ((5,), None), ((5,), (7,)), ((5, 3), (7,)), ((5, 3), (7, 3)), ((5, 2, 3), (7, 2)), ((5, 2, 3), None),
    ((5, 2, 3), (7,)), ((5, 2, 2, 3), (7, 2, 2)), ((5, 3), (7, 1)), ((5, 0), (7,)),
]  # fmt: skip
WIDE = [
    ((5, 150), (7,)), ((5, 37), None), ((5, 8, 8), (7, 8)), ((5, 3, 40), (7, 3)), ((5, 20, 2), (7, 20)),
    ((5, 20), (7, 20)), ((5, 16), (7,)),
]  # fmt: skip
WHOLE = [(8, 2), (16, 2), (4, 4), (8, 4), (16, 4), (2, 8), (4, 8), (16, 8), (1, 16), (2, 16), (4, 16), (8, 16)]


def of(shape):
    return None if shape is None else f(*shape)


CASES = [
    *[Case(product, [f(*x), of(value)], product_reference) for x, value in PRODUCTS],
    *[Case(product, [f(*x), of(value)], product_reference, second=False) for x, value in WIDE],
    *[
        Case(product, [f(*x), of(value)], product_reference, {"reduce": how}, second=len(x) < 3)
        for how in ("mean", "max", "min")
        for x, value in (((5, 3), None), ((5, 2, 3), (7, 2)), ((5, 2), (7, 2)), ((5, 40), (7,)))
    ],
    *[
        Case(tall, [f(3, *rest), of(value)], tall_reference, second=rest == (2,))
        for rest, value in (((2,), (240,)), ((37,), None), ((21,), (240,)), ((2, 2), (240, 2)))
    ],
    *[
        Case(dots, [f(5, *rest), f(5, *rest)], dots_reference, second=len(rest) < 2)
        for rest in ((3,), (1,), (2, 1), (2, 4), (8, 8), (70,), (3, 20), (0,))
    ],
    # whole vectors of heads: one, two, four and eight of them, with two to sixteen channels in a head
    *[Case(dots, [f(5, *rest), f(5, *rest)], dots_reference, second=False) for rest in WHOLE],
    *[
        Case(at_ends, [f(5, *rest)], at_ends_reference, {"which": which}, second=len(rest) < 2)
        for which in ("rows", "columns")
        for rest in ((), (3,), (2, 2), (40,))
    ],
    *[
        Case(softmax, [f(7, *rest) * 3], softmax_reference, second=sum(rest) < 8)
        for rest in ((), (2,), (3,), (8,), (20,), (2, 2))
    ],
]
