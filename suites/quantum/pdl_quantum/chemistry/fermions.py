"""Sums of products of creation and annihilation operators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pdl.errors import UsageError

Product = tuple[tuple[int, bool], ...]
"""Operators from left to right: (mode, whether it creates)."""
_PART = re.compile(r"(\d+)(\^?)$")


class FermionSum:
    """sum_k c_k a_p^(+) a_q^(+) ..., on n modes, with {a_p, a_q^+} = 1 where p = q, else 0, and {a_p, a_q} = 0.

        FermionSum(4, {((2, True), (0, False)): 0.5})
        FermionSum.product(4, "2^ 0", 0.5)         # the same, 2^ creates in mode 2

    num_modes   n;    terms  {product: coefficient}
    """

    def __init__(
        self, num_modes: int, terms: Mapping[Product, complex] | Iterable[tuple[Product, complex]] = ()
    ) -> None:
        self.num_modes = int(num_modes)
        self.terms: dict[Product, complex] = {}
        for product, factor in terms.items() if isinstance(terms, Mapping) else terms:
            for mode, _ in product:
                if not 0 <= mode < self.num_modes:
                    raise UsageError(f"there is no mode {mode}, only 0 to {self.num_modes - 1}")
            self.terms[product] = self.terms.get(product, 0.0) + factor

    @staticmethod
    def product(num_modes: int, text: str, factor: complex = 1.0) -> FermionSum:
        """One product as text: "3^ 1" creates in mode 3 what it takes from 1; "" is the identity."""
        parts = []
        for part in text.split():
            found = _PART.match(part)
            if found is None:
                raise UsageError(f"{part!r} is no operator; write 3^ to create in mode 3, 3 to annihilate there")
            parts.append((int(found[1]), bool(found[2])))
        return FermionSum(num_modes, {tuple(parts): factor})

    @staticmethod
    def number(num_modes: int, modes: Iterable[int] | None = None) -> FermionSum:
        """How many of these modes are occupied (by default of all)."""
        chosen = range(num_modes) if modes is None else modes
        return FermionSum(num_modes, ((((mode, True), (mode, False)), 1.0) for mode in chosen))

    # -- algebra -------------------------------------------------------------------------------------------------------
    def __add__(self, other: FermionSum | complex) -> FermionSum:
        if not isinstance(other, FermionSum):
            other = FermionSum(self.num_modes, [((), other)])
        self._require_same(other)
        return FermionSum(self.num_modes, [*self.terms.items(), *other.terms.items()])

    __radd__ = __add__

    def __mul__(self, other: FermionSum | complex) -> FermionSum:
        if not isinstance(other, FermionSum):
            return FermionSum(self.num_modes, {product: c * other for product, c in self.terms.items()})
        self._require_same(other)
        pairs = ((a + b, x * y) for a, x in self.terms.items() for b, y in other.terms.items())
        return FermionSum(self.num_modes, pairs)

    def __rmul__(self, other: complex) -> FermionSum:
        return self * other

    def __neg__(self) -> FermionSum:
        return self * -1.0

    def __sub__(self, other: FermionSum | complex) -> FermionSum:
        return self + other * -1.0

    def adjoint(self) -> FermionSum:
        """The Hermitian conjugate."""
        made = ((tuple((m, not up) for m, up in reversed(p)), complex(c).conjugate()) for p, c in self.terms.items())
        return FermionSum(self.num_modes, made)

    def normal_ordered(self, tolerance: float = 1e-12) -> FermionSum:
        """Equal to this, with creation before annihilation and modes descending in each: a form that is unique, so
        two sums are equal where their ordered terms are."""
        found: dict[Product, complex] = {}
        waiting = list(self.terms.items())
        while waiting:
            product, factor = waiting.pop()
            at = next((i for i in range(len(product) - 1) if _wrong(product[i], product[i + 1])), None)
            if at is None:
                if not any(product[i] == product[i + 1] for i in range(len(product) - 1)):  # a a = 0
                    found[product] = found.get(product, 0.0) + factor
                continue
            left, right = product[at], product[at + 1]
            waiting.append(((*product[:at], right, left, *product[at + 2 :]), -factor))
            if left[0] == right[0]:  # a a^+ = 1 - a^+ a
                waiting.append(((*product[:at], *product[at + 2 :]), factor))
        return FermionSum(self.num_modes, {p: c for p, c in sorted(found.items()) if abs(c) > tolerance})

    def _require_same(self, other: FermionSum) -> None:
        if other.num_modes != self.num_modes:
            raise UsageError(f"sums on {self.num_modes} and on {other.num_modes} modes do not go together")

    def __repr__(self) -> str:
        shown = " + ".join(
            f"{c:.6g} {' '.join(f'{mode}^' if up else f'{mode}' for mode, up in product)}"
            for product, c in list(self.terms.items())[:4]
        )
        return f"FermionSum({self.num_modes} modes, {len(self.terms)} terms: {shown}{' + ...' * (len(self.terms) > 4)})"


def _wrong(left: tuple[int, bool], right: tuple[int, bool]) -> bool:
    """Whether two neighbours stand in the wrong order."""
    return (not left[1] and right[1]) or (left[1] == right[1] and left[0] < right[0])
