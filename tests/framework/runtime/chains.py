"""Bundles of several ops in a row, with conditions, loops and calls among them, as the number says: ops and attributes
are those of the cases (`tests.framework.ops.hostile`), some changed, and each reads what others before it made.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from pdl.ops.base import Op, Spec
from pdl.runtime import bundle, weights
from tests.framework.ops.hostile import Sample, change_attribute, changed_input, samples

LARGE = 1 << 22  # elements of an array that a chain is not continued with
TURNS = (0, 1, 3, 50, 2**16, 2**40, -1)  # that loops are to take


class Value(NamedTuple):
    """Something that a node may read: where it stands in its program, and its spec."""

    place: tuple[str, int]
    spec: Spec


class Chain:
    """A program under way: what it reads from outside, and its nodes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.leaves: list[np.ndarray] = []
        self.nodes: list[tuple[dict[str, Any], list[Value | None], list[Spec]]] = []
        self.pool: list[Value] = []

    def pick(self, values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def leaf(self, array: np.ndarray) -> Value:
        """An array of the bundle, or an input."""
        self.leaves.append(array)
        self.pool.append(Value(("leaf", len(self.leaves) - 1), Spec(array.shape, array.dtype)))
        return self.pool[-1]

    def add(self, attributes: dict[str, Any], ins: list[Value | None], *, forced: Any = None) -> bool:
        """A node, if the op takes these inputs; `forced` are specs to state where it does not."""
        try:
            op = Op.from_dict(copy.deepcopy(attributes))
            made = op.infer(*[None if v is None else v.spec for v in ins])
            specs = [made] if isinstance(made, Spec) else list(made)
        except Exception:  # raw ones are found when the bundle is read
            if forced is None:
                return False
            specs = forced
        if any(math.prod(map(int, s.shape)) > LARGE for s in specs):
            return False
        self.nodes.append((attributes, ins, specs))
        self.pool += [Value(("out", len(self.nodes) - 1 + 1000 * i), spec) for i, spec in enumerate(specs)]
        return True

    # -- what may be added ---------------------------------------------------------------------------------------------
    def some_op(self) -> None:
        """An op of the cases, with inputs of the pool where they fit."""
        for _ in range(8):
            sample: Sample = self.pick(samples()[self.pick(list(samples()))])
            attributes = copy.deepcopy(sample.attributes)
            if self.rng.random() < 0.2:
                change_attribute(self.rng, attributes)
            if self.add(attributes, [self.found(x) for x in sample.inputs]):
                return
        if self.rng.random() < 0.2:
            outs = [v.spec for v in self.pool[-1:]]
            self.add(attributes, [self.found(x) for x in sample.inputs], forced=outs)

    def found(self, x: np.ndarray | None) -> Value | None:
        """Something to read in the place of an input of a case."""
        if x is None:
            return None
        fits = [v for v in self.pool if v.spec.dtype == x.dtype and len(v.spec.shape) == x.ndim]
        if fits and self.rng.random() < 0.8:
            return self.pick(fits)  # type: ignore[no-any-return]
        made = changed_input(self.rng, x) if self.rng.random() < 0.15 else x
        return self.leaf(made)

    def some_block(self) -> None:
        """A condition, a loop or a call of a program that gives what it takes."""
        state = self.pick(self.pool)
        kind = self.pick(("Cond", "While", "Call", "WhileGrad"))
        if kind == "Cond":
            pred = self.leaf(np.array(self.rng.random() < 0.5))
            self.add({"op": "Cond", "then": self.body(state.spec), "other": self.body(state.spec)}, [pred, state])
        elif kind == "Call":
            call = {"op": "Call", "block": self.body(state.spec), "wanted": [False], "copied": self.pick((0, 1, 2))}
            self.add(call, [state])
        else:
            self.loop(state, kind)

    def loop(self, state: Value, kind: str) -> None:
        number = Spec((), np.dtype(np.int64))
        ins = [number, state.spec, number, number]  # the turn, the state, how many turns, 1
        test = _program(ins, [({"op": "Less"}, [0, 2], [Spec((), np.dtype(bool))])], [4])
        step = ({"op": "Add"}, [0, 3], [number])
        rows = self.rows(state.spec)
        body = _program(ins, [step, *_rows(rows, 1, 5, state.spec)], [4, 4 + len(rows)])
        turn, turns, one = (self.leaf(np.array(n)) for n in (0, self.pick(TURNS), self.pick((1, 1, 1, 0, -1))))
        outer: list[Value | None] = [turn, state, turns, one]
        attributes = {"op": "While", "test": test, "body": body, "count": 2}
        if self.rng.random() < 0.5:
            attributes["maximum"] = self.pick((0, 5, 2**16, 2**40))
        if kind == "While":
            self.add(attributes, outer)
            return
        gradient = self.body(state.spec)
        self.add(
            {"op": "WhileGrad", "body": body, "gradient": gradient, "count": 2, "wanted": [False, True, False, False]},
            [turns, state, *outer], forced=[state.spec],
        )  # fmt: skip

    def rows(self, spec: Spec) -> list[dict[str, Any]]:
        """Ops in a row that give what they take."""
        fit = keeping(spec)
        return [copy.deepcopy(self.pick(fit)) for _ in range(int(self.rng.integers(0, 4)))] if fit else []

    def body(self, spec: Spec) -> dict[str, Any]:
        rows = self.rows(spec)
        return _program([spec], _rows(rows, 0, 1, spec), [len(rows)])

    # -- the whole -----------------------------------------------------------------------------------------------------
    def packed(self) -> tuple[bytes, dict[str, np.ndarray]]:
        """The bundle, and what to run it with."""
        stored = [x.dtype in weights.NAMES for x in self.leaves]
        given = [not s or self.rng.random() < 0.5 for s in stored]
        order = [i for i, g in enumerate(given) if g] + [i for i, g in enumerate(given) if not g]
        at = {("leaf", i): place for place, i in enumerate(order)}
        count = len(order)
        for number, (_, _, specs) in enumerate(self.nodes):
            for i in range(len(specs)):
                at["out", number + 1000 * i] = count
                count += 1
        values = [_stated(f"x{i}", Spec(self.leaves[i].shape, self.leaves[i].dtype)) for i in order]
        inputs = sum(given)
        nodes = [
            {**attributes, "in": [None if v is None else at[v.place] for v in ins], "out": _out(specs)}
            for attributes, ins, specs in self.nodes
        ]
        read = {at[v.place] for _, ins, _ in self.nodes for v in ins if v is not None}
        outputs = [place for place in range(len(order), count) if place not in read or self.rng.random() < 0.2]
        program = _parts(values[:inputs], nodes, outputs, captures=values[inputs:])
        names = {"inputs": [v["name"] for v in values[:inputs]], "outputs": [f"y{i}" for i in outputs]}
        arrays = {f"x{i}": x for i, x in enumerate(self.leaves)}
        kept = {v["name"]: arrays[v["name"]] for v in values[inputs:]}
        data = bundle.pack({"kind": "program", "program": program, **names}, kept)
        return data, {v["name"]: arrays[v["name"]] for v in values[:inputs]}


def chained(rng: np.random.Generator) -> tuple[bytes, dict[str, np.ndarray]]:
    """A bundle, and what to run it with."""
    made = Chain(rng)
    made.leaf(rng.standard_normal((2, 3)).astype(np.float32))
    for _ in range(int(rng.integers(2, 9))):
        made.some_block() if rng.random() < 0.25 else made.some_op()
    return made.packed()


@functools.lru_cache(256)
def keeping(spec: Spec) -> list[dict[str, Any]]:
    """Ops of one input, as the cases call them, that give what they take."""
    calls = [sample for each in samples().values() for sample in each if len(sample.inputs) == 1]
    return [sample.attributes for sample in calls if _keeps(sample.attributes, spec)]


def _keeps(attributes: dict[str, Any], spec: Spec) -> bool:
    try:
        return bool(Op.from_dict(copy.deepcopy(attributes)).infer(spec) == spec)
    except Exception:
        return False


def _rows(rows: list[dict[str, Any]], reads: int, first: int, spec: Spec) -> list[Any]:
    """Nodes in a row from the value `reads`; what they make is numbered from `first`."""
    return [(row, [reads if i == 0 else first + i - 1], [spec]) for i, row in enumerate(rows)]


def _program(ins: list[Spec], nodes: list[Any], outputs: list[int]) -> dict[str, Any]:
    """A program as an attribute."""
    values = [_stated(f"v{i}", spec) for i, spec in enumerate(ins)]
    made = [{**attributes, "in": refs, "out": _out(specs)} for attributes, refs, specs in nodes]
    return {"program": {**_parts(values, made, outputs), "constants": {}}}


def _parts(inputs: Any, nodes: Any, outputs: Any, captures: Any = ()) -> dict[str, Any]:
    return {
        "name": "m", "sizes": {}, "inputs": inputs, "captures": list(captures), "nodes": nodes, "effects": [],
        "outputs": outputs,
    }  # fmt: skip


def _stated(name: str, spec: Spec) -> dict[str, Any]:
    return {"name": name, "shape": list(map(int, spec.shape)), "dtype": spec.dtype.name}


def _out(specs: list[Spec]) -> list[Any]:
    return [[list(map(int, s.shape)), s.dtype.name] for s in specs]

