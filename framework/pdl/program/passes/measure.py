"""Why rewriting ends: a number for every value, which each rule must lower where it fires.

A measure gives an op a * (sum of its inputs' numbers) + b, with a >= 1 and b >= 0: an interpretation in natural numbers
that grows with every input. A rule that replaces a value by one of a smaller number then lowers the numbers of all that
depend on it, up to the outputs; these cannot fall for ever, so no two rules can undo each other without end. Whether a
number falls is decided on the pattern alone, for every number that the values below it may have: both sides are linear
in these. (Baader and Nipkow, Term Rewriting and All That, 1998, section 5.3; shared values count once for each path.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from pdl.ops.attention import ScaledDotProductAttention
from pdl.ops.base import Op
from pdl.ops.batchnorm import BatchNormEval
from pdl.ops.conv import Conv
from pdl.ops.epilogue import ConvAct, LinearAct
from pdl.ops.index import GetItem
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import MatMul
from pdl.ops.norm import GroupNorm
from pdl.ops.norm_conv import NormConv
from pdl.ops.packed import PackedConv, PackedLinear
from pdl.ops.quant import DequantizeLinear, QConvPacked, QLinearPacked
from pdl.ops.shape import ExpandDims, PermuteDims, Reshape, Squeeze
from pdl.program.ir import Node, Value

#: what an op multiplies the numbers of its inputs with; more than any permutation adds
FACTOR = 64
_RESHAPES: tuple[type[Op], ...] = (Reshape, ExpandDims, Squeeze)
_MOVES: tuple[type[Op], ...] = (*_RESHAPES, PermuteDims, GetItem)
_PACKED: tuple[type[Op], ...] = (PackedConv, PackedLinear, QConvPacked, QLinearPacked)
_WHOLE: tuple[type[Op], ...] = (NormConv, ConvAct, LinearAct, BatchNormEval, ConvThen, LinearThen)


class Weight(NamedTuple):
    """A node's number: factor * (sum of its inputs' numbers) + more."""

    factor: int
    more: int


class Measure(NamedTuple):
    """levels    a `Weight` for each node; where a rule leaves the first level as it is, it must lower the next
    constant     the number of a constant
    """

    levels: tuple[Callable[[Node], Weight], ...]
    constant: int = 1


def count(value: Value) -> int:
    """Elements, of the example where sizes are symbolic; a size of 0 counts as 1."""
    return math.prod(max(1, int(n)) for n in value.spec.shape)


def moves_nothing(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the dimensions that are larger than 1 stay in their order, whatever the symbolic sizes are."""
    large = [a for a in axes if type(shape[a]) is not int or shape[a] != 1]
    return large == sorted(large)


# -- measures ----------------------------------------------------------------------------------------------------------
def _terms(node: Node) -> Weight:
    """Fewer and simpler ops; permutations of large arrays late, since what is before an op counts `FACTOR` times. An
    array of an eighth of the elements is permuted for less, so that it may give way to a larger one."""
    if isinstance(node.op, _RESHAPES):
        return Weight(1, 1)
    if isinstance(node.op, PermuteDims):
        x = node.inputs[0]
        assert x is not None
        if moves_nothing([a % len(node.op.axes) for a in node.op.axes], x.spec.shape):
            return Weight(1, 2)
        return Weight(1, 4 + 2 * (count(x).bit_length() // 3))
    return Weight(FACTOR, 1 if isinstance(node.op, _PACKED) else 2)


def _reshapes_first(node: Node) -> Weight:
    """Reshapes before permutations."""
    return Weight(1, 1) if isinstance(node.op, PermuteDims) else Weight(2, 1)


def _parts(node: Node) -> Weight:
    """Fused ops, and products of which it is not said that they are linear layers, weigh more than their parts."""
    whole = isinstance(node.op, _WHOLE) and not (isinstance(node.op, BatchNormEval) and _bare(node))
    return Weight(FACTOR**4, 1) if whole else Weight(FACTOR, 3 if isinstance(node.op, MatMul) else 2)


def _bare(node: Node) -> bool:
    return node.inputs[-1] is None and getattr(node.op, "activation", None) is None


def _bytes(node: Node) -> Weight:
    """What moves numbers after rounding them and before restoring them: it multiplies more than the second only."""
    if isinstance(node.op, DequantizeLinear):
        return Weight(1, 1)
    return Weight(2, 1) if isinstance(node.op, _MOVES) else Weight(FACTOR, 1)


def _rows(node: Node) -> Weight:
    """Elements that are computed; attention that cuts q, k and v from one array reads it three times."""
    if isinstance(node.op, GetItem):
        return Weight(1, 0)
    packed = isinstance(node.op, ScaledDotProductAttention) and node.inputs[1] is None
    return Weight(4 if packed else 1, sum(map(count, node.outputs)))


def _taps(node: Node) -> Weight:
    """Taps of convolutions."""
    w = node.inputs[1] if isinstance(node.op, Conv | ConvThen) else None
    return Weight(1, 0 if w is None else math.prod(map(int, w.spec.shape[:-2])))


def _groups(node: Node) -> Weight:
    """Group norms whose channels are not told apart."""
    return Weight(1, int(isinstance(node.op, GroupNorm) and node.outputs[0].spec.shape[-1] == 1))


#: of most passes
TERMS = Measure((_terms, _reshapes_first))
#: of those that take fused ops apart, that bring rounding forward, that cut rows, that cut windows, that find channels
PARTS, BYTES, ROWS, TAPS = Measure((_parts,)), Measure((_bytes,), 0), Measure((_rows,), 0), Measure((_taps,), 0)
GROUPS = Measure((_groups,), 0)


# -- comparison --------------------------------------------------------------------------------------------------------
#: a number as factors of those of some values, and (None) what is added
Form: TypeAlias = "dict[Value | None, int]"


def lowers(measure: Measure, old: Node, new: Value, made: Sequence[Node], place: Callable[[Value], int]) -> bool:
    """Whether `new`, made by the nodes `made` out of values that `old` depends on, has a smaller number than `old`."""
    fresh = set(made)
    leaves = {v for n in made for v in n.inputs if v is not None and v.tensor is None and v.node not in fresh}
    if new.node not in fresh and new.tensor is None:
        leaves = {new}
    first = min(map(place, leaves), default=0)  # what is made before that depends on no leaf
    for weight in measure.levels:
        before = _Numbers(weight, measure.constant, leaves, lambda v: place(v) < first)
        after = _Numbers(weight, measure.constant, leaves, lambda v: False)
        a, b = before.of_node(old), after.of(new)
        if any(b[v] > a.get(v, 0) for v in b):
            return False
        if b[None] < a[None]:
            return True
        if a != b:
            return False
    return False


class _Numbers:
    """The numbers of values as linear forms of those of `leaves`; what is `beyond` them counts as 0."""

    def __init__(
        self, weight: Callable[[Node], Weight], constant: int, leaves: set[Value], beyond: Callable[[Value], bool]
    ) -> None:
        self.weight, self.constant, self.leaves, self.beyond = weight, constant, leaves, beyond
        self.known: dict[Node, Form] = {}

    def of(self, value: Value) -> Form:
        if value in self.leaves:
            return {value: 1, None: 0}
        if value.node is None or self.beyond(value):
            return {None: self.constant if value.tensor is not None else 0}
        if value.node not in self.known:
            self.known[value.node] = self.of_node(value.node)
        return self.known[value.node]

    def of_node(self, node: Node) -> Form:
        factor, more = self.weight(node)
        form: Form = {None: more}
        for value in node.inputs:
            for v, times in self.of(value).items() if value is not None else ():
                form[v] = form.get(v, 0) + factor * times
        return form
