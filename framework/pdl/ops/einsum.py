"""Einstein summation, by matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pdl.errors import ShapeError
from pdl.ops.cast import as_tensors
from pdl.ops.linalg import diagonal, matmul
from pdl.ops.reduce import sum
from pdl.ops.shape import moveaxis, permute_dims, reshape
from pdl.tensor import Tensor, TensorLike


def einsum(equation: str, *operands: TensorLike) -> Tensor:
    """Einstein summation, ``einsum("bij,bjk->bik", a, b)``: products summed over the letters that the output lacks.

    Without "->" the output has the letters that occur once, in alphabetical order. "..." stands for dimensions that
    broadcast. Operands are contracted from the left, two at a time, as matrix products.
    """
    tensors = as_tensors(*operands)
    terms, result = _parse(equation, tensors)
    letters, x = terms[0], tensors[0]
    letters, x = _take_diagonals(letters, x)
    for number, (other, y) in enumerate(zip(terms[1:], tensors[1:], strict=True), start=2):
        other, y = _take_diagonals(other, y)
        needed = set(result).union(*terms[number:])
        letters, x = _contract(letters, x, other, y, needed)
    extra = tuple(i for i, c in enumerate(letters) if c not in result)
    if extra:
        x, letters = sum(x, axis=extra), "".join(c for c in letters if c in result)
    return x if letters == result else permute_dims(x, [letters.index(c) for c in result])


def _parse(equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """The letters of each operand and of the output; '...' becomes capital Greek letters, aligned from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(tensors):
        raise ShapeError(f"einsum: {equation!r} names {len(terms)} operands, {len(tensors)} were given")
    hidden = "".join(chr(0x391 + i) for i in range(16))
    longest, parsed = 0, []
    for term, x in zip(terms, tensors, strict=True):
        dots = x.ndim - len(term.replace("...", ""))
        if dots < 0 or (dots and "..." not in term):
            raise ShapeError(
                f"einsum: {term!r} of {equation!r} names {x.ndim - dots} dimensions, {x.shape} has {x.ndim}"
            )
        longest = max(longest, dots)
        parsed.append(term.replace("...", hidden[len(hidden) - dots :]))
    dotted = hidden[len(hidden) - longest :]
    if not arrow:
        counted = "".join(parsed)
        right = "..." + "".join(sorted(c for c in set(counted) - set(hidden) if counted.count(c) == 1))
    result = right.replace("...", dotted)
    sizes: dict[str, int] = {}
    for term, x in zip(parsed, tensors, strict=True):
        for c, n in zip(term, x.shape, strict=True):
            if sizes.setdefault(c, n) not in (1, n) and n != 1:
                raise ShapeError(f"einsum: in {equation!r} {c!r} has the sizes {sizes[c]} and {n}")
            sizes[c] = max(sizes[c], n)
    if set(result) - set(sizes) or len(set(result)) != len(result):
        raise ShapeError(f"einsum: the output {right!r} of {equation!r} has letters that no input has, or one twice")
    return parsed, result


def _take_diagonals(letters: str, x: Tensor) -> tuple[str, Tensor]:
    """A letter that an operand has twice stands for its diagonal."""
    for c in sorted(set(letters)):
        while letters.count(c) > 1:
            i, j = letters.index(c), letters.rindex(c)
            x = diagonal(moveaxis(x, (i, j), (-2, -1)))
            letters = letters[:i] + letters[i + 1 : j] + letters[j + 1 :] + c
    return letters, x


def _contract(p: str, a: Tensor, q: str, b: Tensor, needed: set[str]) -> tuple[str, Tensor]:
    """Two operands to one, which keeps the letters in `needed`: [batch, rows, inner] @ [batch, inner, columns]."""
    a, p = _sum_out(a, p, set(q) | needed)
    b, q = _sum_out(b, q, set(p) | needed)
    size_a, size_b = dict(zip(p, a.shape, strict=True)), dict(zip(q, b.shape, strict=True))
    batch = [c for c in p if c in q and (c in needed or size_a[c] != size_b[c])]
    inner = [c for c in p if c in q and c not in batch]
    rows, columns = [c for c in p if c not in q], [c for c in q if c not in p]

    def arrange(x: Tensor, letters: str, sizes: dict[str, int], first: list[str], second: list[str]) -> Tensor:
        order = [letters.index(c) for c in (*batch, *first, *second)]
        x = x if order == list(range(x.ndim)) else permute_dims(x, order)
        return reshape(
            x, [sizes[c] for c in batch] + [math.prod(sizes[c] for c in first), math.prod(sizes[c] for c in second)]
        )

    y = matmul(arrange(a, p, size_a, rows, inner), arrange(b, q, size_b, inner, columns))
    made = reshape(y, (*y.shape[: len(batch)], *[size_a[c] for c in rows], *[size_b[c] for c in columns]))
    return "".join((*batch, *rows, *columns)), made


def _sum_out(x: Tensor, letters: str, kept: set[str]) -> tuple[Tensor, str]:
    axes = tuple(i for i, c in enumerate(letters) if c not in kept)
    return (sum(x, axis=axes), "".join(c for c in letters if c in kept)) if axes else (x, letters)


__all__ = ["einsum"]
