"""The tape: what backward needs of every recorded op, and the sweep over it.

The tape knows an op only by its `vjp`, and a tensor by its `+`; so it is a layer below the ops. With `create_graph` the
sweep records itself, and gradients of gradients come out of the same code.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np

from pdl.dtype import Array
from pdl.errors import GradientError, ShapeError
from pdl.tensor import Hook, TapeNode, Tensor, casting, set_grad_enabled

_order = count()


class Differentiable(Protocol):
    """What the tape knows of an op: ``vjp(g, y, *inputs)``, the gradients of the inputs from that of the output."""

    @property
    def vjp(self) -> Any:
        """The op's own rule."""


class Node:
    """One recorded op: its inputs (tensors), its outputs (arrays, so that no cycle forms) and its place in time."""

    __slots__ = ("_hooks", "inputs", "op", "order", "outputs", "where")

    def __init__(
        self, op: Differentiable, inputs: tuple[Tensor | None, ...], outputs: tuple[Array, ...], where: str | None
    ) -> None:
        self.op = op
        self.inputs: tuple[Tensor | None, ...] | None = inputs
        self.outputs: tuple[Array, ...] = outputs
        self.order = next(_order)
        self.where = where  # the user's line, kept only under `detect_anomaly`
        self._hooks: dict[int, list[Hook]] | None = None

    def hooks_of(self, index: int) -> list[Hook]:
        """The hooks on output `index`, as a list that may be added to."""
        self._hooks = self._hooks or {}
        return self._hooks.setdefault(index, [])

    def parents(self) -> Iterable[Tensor]:
        """The inputs that gradients flow to."""
        if self.inputs is None:
            raise GradientError(
                f"the graph through {type(self.op).__name__} was freed by an earlier backward(); "
                "call the first one with retain_graph=True"
            )
        return (x for x in self.inputs if x is not None and x._requires_grad)

    def vjp(self, grads: list[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Gradients of the inputs from those of the outputs: (input, gradient) pairs."""
        if self._hooks is not None:
            for index, hooks in self._hooks.items():
                grads[index] = _run_hooks(hooks, grads[index])
        several = len(self.outputs) > 1
        outputs = tuple(Tensor._wrap(a, self, i) for i, a in enumerate(self.outputs))
        assert self.inputs is not None
        entries = self.op.vjp(tuple(grads) if several else grads[0], outputs if several else outputs[0], *self.inputs)
        if not isinstance(entries, tuple | list):
            entries = (entries,)
        if len(entries) != len(self.inputs):
            name = type(self.op).__name__
            raise GradientError(f"{name}.vjp returned {len(entries)} gradients for {len(self.inputs)} inputs")
        pairs = []
        for x, entry in zip(self.inputs, entries, strict=True):
            if x is None or entry is None or not x._requires_grad:
                continue
            g = entry() if callable(entry) else entry
            if g is not None:
                pairs.append((x, _checked(g, x, self.op)))
        return pairs


def _checked(g: Tensor, x: Tensor, op: Differentiable) -> Tensor:
    if g.shape != x.shape:
        raise GradientError(f"{type(op).__name__}.vjp gave a gradient of shape {g.shape} for an input {x.shape}")
    return g


def _run_hooks(hooks: list[Hook], g: Tensor | None) -> Tensor | None:
    for hook in list(hooks):
        if g is not None:
            replaced = hook(g)
            g = g if replaced is None else replaced
    return g


def backward(y: Tensor, grad: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
    """Add d(y)/d(leaf) to ``leaf.grad`` of every leaf that `y` came from.

    `grad` is the gradient of `y` itself, 1 where it is left out (then `y` must have one element). The graph is freed on
    the way unless `retain_graph` or `create_graph` is set; the latter records the sweep, for gradients of gradients.
    """
    for leaf, g in _sweep([y], [_seed(y, grad)], None, create_graph, retain_graph or create_graph):
        leaf.grad = g if leaf.grad is None else _add(leaf.grad, g, create_graph)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of `outputs` with respect to `inputs` (leaves or intermediate), returned and not stored.

    `grad_outputs` are the gradients of the outputs (1 where left out). An input that no output depends on is an error,
    or None with `allow_unused`.
    """
    ys = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    xs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = grad_outputs if grad_outputs is not None else [None] * len(ys)
    seeds = [_seed(y, g) for y, g in zip(ys, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    found = {_key(x): g for x, g in _sweep(ys, seeds, xs, create_graph, keep)}
    missing = [i for i, x in enumerate(xs) if _key(x) not in found]
    if missing and not allow_unused:
        raise GradientError(f"no output depends on input {missing[0]}; pass allow_unused=True to get None for it")
    return tuple(found.get(_key(x)) for x in xs)


def _seed(y: Tensor, given: Tensor | None) -> Tensor:
    if not y.requires_grad:
        raise GradientError("no gradient flows here: nothing that made this tensor has requires_grad=True")
    if given is None:
        if y.size != 1:
            raise ShapeError(f"the gradient of a tensor of shape {y.shape} must be given; only one element implies 1")
        return Tensor._wrap(np.ones(y.shape, y.dtype))
    if given.shape != y.shape:
        raise ShapeError(f"a gradient of shape {given.shape} does not fit a tensor of shape {y.shape}")
    return given


def _key(x: Tensor) -> tuple[int, int]:
    """What makes two tensor objects the same place in the graph."""
    return (id(x), -1) if x._node is None else (id(x._node), x._index)


def _add(a: Tensor, b: Tensor, record: bool) -> Tensor:
    with set_grad_enabled(record):
        return a + b


def _sweep(
    ys: list[Tensor], seeds: list[Tensor], wanted: list[Tensor] | None, create_graph: bool, retain: bool
) -> list[tuple[Tensor, Tensor]]:
    """Carry gradients from `ys` back to the leaves, or to `wanted`; newest op first, so each is visited once."""
    useful = None if wanted is None else _on_the_way(ys, wanted)
    targets = None if wanted is None else {_key(x): x for x in wanted}
    results: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    pending: dict[int, tuple[TapeNode, list[Tensor | None]]] = {}
    heap: list[tuple[int, TapeNode]] = []

    def arrive(x: Tensor, g: Tensor) -> None:
        node = x._node
        if node is None:
            if targets is None or _key(x) in targets:
                known = results.get(_key(x))
                results[_key(x)] = (x, g if known is None else known[1] + g)
            return
        if useful is not None and id(node) not in useful and _key(x) not in (targets or ()):
            return
        if node.order not in pending:
            node.parents()  # raises where the graph was freed
            pending[node.order] = (node, [None] * len(node.outputs))
            heapq.heappush(heap, (-node.order, node))
        slots = pending[node.order][1]
        known_g = slots[x._index]
        slots[x._index] = g if known_g is None else known_g + g

    with set_grad_enabled(create_graph), casting(None):
        for y, seed in zip(ys, seeds, strict=True):
            arrive(y, seed)
        while heap:
            node, grads = pending.pop(-heapq.heappop(heap)[0])
            if targets is not None:
                for index, g in enumerate(grads):
                    if g is not None and (id(node), index) in targets:
                        results[id(node), index] = (targets[id(node), index], g)
                if useful is not None and id(node) not in useful:
                    continue
            node_pairs = _vjp(node, grads, create_graph)
            for x, g in node_pairs:
                arrive(x, g)
            if not retain:
                node.inputs, node.outputs = None, ()
        for key, (x, g) in results.items():
            if x._node is None and x._hooks:
                hooked = _run_hooks(x._hooks, g)
                assert hooked is not None
                results[key] = (x, hooked)
    return list(results.values())


def _vjp(node: TapeNode, grads: list[Tensor | None], create_graph: bool) -> list[tuple[Tensor, Tensor]]:
    try:
        return node.vjp(grads)
    except ArithmeticError as error:
        if node.where is not None:
            error.args = (f"{error.args[0]}\n  in the gradient of {type(node.op).__name__}, called at {node.where}",)
        raise


def _on_the_way(ys: list[Tensor], wanted: list[Tensor]) -> set[int]:
    """The nodes (by id) through which some wanted tensor is reached from `ys`."""
    nodes: dict[int, TapeNode] = {}
    stack = [y._node for y in ys if y._node is not None]
    while stack:
        node = stack.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            stack.extend(x._node for x in node.parents() if x._node is not None)
    keys = {_key(x) for x in wanted}
    useful: set[int] = set()
    for node in sorted(nodes.values(), key=lambda n: n.order):
        if any(_key(x) in keys or id(x._node) in useful for x in node.parents()):
            useful.add(id(node))
    return useful


def bind() -> Any:
    """Give `Tensor` its `backward` method."""
    Tensor.backward = backward  # type: ignore[method-assign, assignment]
    return Tensor
