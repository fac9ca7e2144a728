"""Rules that replace nodes by others, and the walk that applies them.

A rule looks at one node and what made its inputs. Where its pattern fits it writes new nodes (`Rewriter.emit`) and
answers with the value that now stands for the node's first output, or with a value for each output that is read; else
with None, and it must not have written anything. Old nodes stay while they have readers.

A rule must lower the measure of what it replaces (`pdl.program.passes.measure`), so rewriting ends; where it does not,
what it wrote is taken back.

Rules hold for every size: a symbolic size (`pdl.dims`) is neither a constant nor equal to another by its example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from pdl import dims
from pdl.dtype import Array
from pdl.ops.base import Op, Spec
from pdl.program.ir import Node, Program, Value
from pdl.program.passes.cleanup import remove_dead
from pdl.program.passes.log import log
from pdl.program.passes.measure import TERMS, Measure, lowers
from pdl.program.verify import inferred
from pdl.tensor import Tensor

MOST_WALKS = 1000
R = TypeVar("R", bound=Callable[..., Any])
Rule: TypeAlias = "Callable[[Node, Rewriter], Value | dict[Value, Value] | None]"


def on(*kinds: type[Op]) -> Callable[[R], R]:
    """Marks a rule that fits nodes with ops of these classes alone: it is not asked about others."""

    def marked(rule: R) -> R:
        rule.kinds = kinds  # type: ignore[attr-defined]
        return rule

    return marked


class Rewriter:
    """One walk over a program, front to back; while a node is looked at, its inputs are in their new form."""

    def __init__(self, program: Program, measure: Measure = TERMS) -> None:
        self.program, self.measure = program, measure
        self.uses = program.uses()
        self.fired: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._written = {buffer for buffer, _ in program.effects}
        self._final: dict[Value, Value] = {}
        self._nodes: list[Node] = []
        self._place: dict[Node, int] = {}
        self._gone: set[Node] = set()
        self._at: Node | None = None

    # -- what rules ask ------------------------------------------------------------------------------------------------
    def constant(self, value: Value | None) -> Array | None:
        """The array of a captured tensor that the program does not write to."""
        if value is None or value.tensor is None or value in self._written:
            return None
        return value.tensor._data

    def scalar(self, value: Value | None) -> float | None:
        """The number that a constant of one element holds."""
        array = self.constant(value)
        return None if array is None or array.size != 1 or array.dtype.kind == "c" else float(array.reshape(()))

    def made_by(self, value: Value | None, *kinds: type[Op]) -> Node | None:
        """The node that made `value`, if its op is exactly one of these classes."""
        node = None if value is None else value.node
        return node if node is not None and type(node.op) in kinds else None

    def single(self, value: Value | None, *kinds: type[Op]) -> Node | None:
        """`made_by`, if the value has no other use."""
        return self.made_by(value, *kinds) if value is not None and self.uses[value] == 1 else None

    def place(self, value: Value | None) -> int:
        """When the value is made: the number of its node, -1 for inputs and captured tensors."""
        return -1 if value is None or value.node is None else self._place.get(value.node, len(self._nodes))

    def dead(self, values: Sequence[Value]) -> bool:
        """Whether none of them has a reader."""
        return not any(self.uses[v] for v in values)

    # -- what rules do -------------------------------------------------------------------------------------------------
    def emit(self, op: Op, *inputs: Value | None) -> Value:
        """Write a node before the one under way; its first output."""
        return self.emit_all(op, *inputs)[0]

    def emit_all(self, op: Op, *inputs: Value | None) -> tuple[Value, ...]:
        """Write a node before the one under way; all its outputs."""
        assert self._at is not None
        made = inferred(op, inputs, where=self._at.where, scope=self._at.scope)
        self.uses.update(v for v in inputs if v is not None)
        self._append(made)
        return made.outputs

    def capture(self, array: Array, like: Value | None = None) -> Value:
        """A new constant; its name follows that of `like`."""
        tensor = Tensor._wrap(np.asarray(array, order="C"))
        value = Value(Spec(tensor.shape, tensor.dtype), tensor=tensor)
        if like is not None and like.name is not None:
            value.name = f"{like.name}'"
        self.program.captures.append(value)
        return value

    # -- the walk ------------------------------------------------------------------------------------------------------
    def walk(self, rules: Sequence[Rule]) -> int:
        """Try the rules on every node; returns how often one fitted."""
        serving: dict[type[Op], list[Rule]] = {}
        for node in self.program.nodes:
            self._at = node
            if not self._final.keys().isdisjoint(node.inputs):
                node.inputs = tuple(self._resolve(v) for v in node.inputs)
            kind = type(node.op)
            if kind not in serving:
                serving[kind] = [rule for rule in rules if issubclass(kind, getattr(rule, "kinds", Op))]
            if not self._try(serving[kind], node):
                self._append(node)
        self.program.nodes = [n for n in self._nodes if n not in self._gone]
        self.program.outputs = [self._resolve(v) for v in self.program.outputs]
        self.program.effects = [(b, self._resolve(v)) for b, v in self.program.effects]  # type: ignore[misc]
        return self.fired.total()

    def _append(self, node: Node) -> None:
        self._place[node] = len(self._nodes)
        self._nodes.append(node)

    def _try(self, rules: Sequence[Rule], node: Node) -> bool:
        """Replace the node where a rule fits; False where it is to stay."""
        for rule in rules:
            nodes, captures = len(self._nodes), len(self.program.captures)
            found = rule(node, self)
            if found is None:
                continue
            made = found if isinstance(found, dict) else {node.outputs[0]: found}
            if not self._progress(node, made, self._nodes[nodes:]):
                self.refused[rule.__name__] += 1
                self._take_back(nodes, captures)
                continue
            self.fired[rule.__name__] += 1
            for old, new in made.items():
                self._final[old] = new
                self.uses[new] += self.uses.pop(old, 0)
            self._kill(node)
            return True
        return False

    def _progress(self, node: Node, made: dict[Value, Value], fresh: Sequence[Node]) -> bool:
        """Whether a rule's values stand for all of a node that is read, and have a smaller measure."""
        whole = all(v in made or not self.uses[v] for v in node.outputs)
        return whole and all(lowers(self.measure, node, new, fresh, self.place) for new in made.values())

    def _take_back(self, nodes: int, captures: int) -> None:
        """Forget nodes and constants beyond those counts."""
        for node in self._nodes[nodes:]:
            del self._place[node]
            self.uses.subtract(v for v in node.inputs if v is not None)
        del self._nodes[nodes:], self.program.captures[captures:]

    def _kill(self, node: Node) -> None:
        """Remove a node without readers, and what was made for it alone."""
        stack = [node]
        while stack:
            node = stack.pop()
            self._gone.add(node)
            for value in node.inputs:
                if value is None:
                    continue
                self.uses[value] -= 1
                maker = value.node
                if maker is not None and maker not in self._gone and not maker.op.effect and self.dead(maker.outputs):
                    stack.append(maker)

    def _resolve(self, value: Value | None) -> Value | None:
        while value is not None and value in self._final:
            value = self._final[value]
        return value


def rewrite(program: Program, rules: Sequence[Rule], measure: Measure = TERMS) -> int:
    """Walk until no rule applies any more, remove unused nodes, log what was done; how often rules applied."""
    total: Counter[str] = Counter()
    remove_dead(program)
    for _ in range(MOST_WALKS):
        walk = Rewriter(program, measure)
        if not walk.walk(rules):
            break
        total += walk.fired
    remove_dead(program)
    for name, count in total.items():
        log(program, f"{name.replace('_', ' ')}: {count}")
    for name, count in walk.refused.items():
        log(program, f"{name.replace('_', ' ')}: {count} left, which would make it no simpler")
    return total.total()


# -- sizes -------------------------------------------------------------------------------------------------------------
def same_shape(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are equal for all sizes."""
    return len(a) == len(b) and all(map(dims.same, a, b))


def same_spec(a: Spec, b: Spec) -> bool:
    """Whether dtypes are equal, and shapes for all sizes."""
    return a.dtype == b.dtype and same_shape(a.shape, b.shape)
