"""Random ONNX graphs: views, arithmetic, indexing, reductions, products, windows, and arithmetic of sizes that decides
shapes, on small arrays whose sizes are 0 to 7 or symbolic. Each must be imported, and compute what ONNX Runtime does
node by node, at every size that this takes; where it differs from ONNX's reference evaluator, that is right.

    python -m tests.framework.onnx.graphs NUMBER 1 one    the graph of a number, as small as it still fails
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.onnx import load_model
from pdl.onnx.importer import Imported
from pdl.runtime.graphs import Graphs
from pdl.runtime.plan import Plans
from tests.framework.onnx import steps, steps_axes, steps_sizes
from tests.framework.onnx.drawing import SIZES, Case, Drawing, onnx
from tests.framework.program.graphs import Draws, differs
from tests.fuzzing import main, say

MENU = [kind for part in (steps, steps_axes, steps_sizes) for kind, times in part.STEPS.items() for _ in range(times)]


def draw(number: int) -> Case:
    """The case of a number."""
    d = Draws(number)
    drawing = Drawing(d)
    names = ["n", "m"] if d.often(0.7) else []
    for _ in range(d.int(1, 4)):
        drawing.input(_shape(d, names), d.pick((np.float32,) * 6 + (np.int64, np.int32, np.bool_)))
    if not names:
        drawing.case.sizes = [0]
    wanted, tried = d.int(2, 10), 0
    steps = 0
    while steps < wanted and tried < 4 * wanted:
        tried += 1
        steps += drawing.step(d.pick(MENU))
    case = drawing.case
    read = {name for node in case.nodes for name in node.input}
    shown = [v.name for v in drawing.made if v.name not in case.inputs]
    case.outputs = [name for name in shown if name not in read or d.often(0.1)]
    return case.pruned()


def _shape(d: Draws, names: list[str]) -> tuple[int | str, ...]:
    """No 0: in a file that says that a size is not known."""
    rank = d.pick((0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5))
    shape: list[int | str] = [d.pick((1, 1, 2, 3, 4, 4)) for _ in range(rank)]
    for name in names if rank else ():
        if d.often(0.6):
            shape[d.int(0, rank)] = name
    return tuple(shape)


# -- judging -----------------------------------------------------------------------------------------------------------
def outcome(number: int) -> str:
    """What came of the graph of a number."""
    case = draw(number)
    return judged(case) if case.outputs else "empty"


def judged(case: Case) -> str:
    """Whether pdl takes a case, how, and what it computes."""
    data = case.model()
    try:
        made = load_model(data)
        run: Plans = Graphs(made.graph) if made.program is None else Plans(made.program)
    except Exception as error:
        kind = "refused at nothing" if _nothing(case) else "raw refused"
        return f"{kind}: {type(error).__name__}: {error}"
    for i in case.sizes:
        arrays = {name: case.values[name].at[i] for name in case.inputs}
        wanted = [case.values[name].at[i] for name in case.outputs]
        for how, function in (("run", lambda a: run(list(a.values()))), ("interpreted", _interpreted(made))):
            try:
                found = function(arrays)
            except Exception as error:
                return f"{_fault(i, 'refused')}: {how} at {SIZES[i]}: {type(error).__name__}: {error}"
            apart = differs(found, wanted)
            standard = _by_the_standard(data, arrays) if apart else None
            if apart and (standard is None or differs(found, standard)):
                return f"{_fault(i, 'wrong')}: {how} at {SIZES[i]}: {apart}"
    return "graph" if made.program is None else "program"


def _fault(sizes: int, what: str) -> str:
    """A fault at a size of 0 has a name of its own: what is cut out of an axis, such as x[:1], is taken to be there."""
    return f"{what} at nothing" if 0 in SIZES[sizes].values() else f"raw {what}"


def _nothing(case: Case) -> bool:
    """Whether a value has no elements at any size: onnxruntime joins such a one to others that it does not fit."""
    return any(all(x is None or x.size == 0 for x in value.at) for value in case.values.values())


def _interpreted(made: Imported) -> Callable[[dict[str, Any]], list[Any]]:
    return lambda arrays: list(made.graph.run(arrays).values())


def _by_the_standard(data: bytes, arrays: dict[str, Any]) -> list[Any] | None:
    """The outputs by ONNX's reference evaluator; None where it fails."""
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return [np.asarray(y) for y in ReferenceEvaluator(onnx.load_from_string(data)).run(None, arrays)]
    except Exception:
        return None


# -- a smaller case of the same fault ----------------------------------------------------------------------------------
def shrunk(case: Case, judge: Callable[[Case], str] = judged) -> Case:
    """A case that fails alike, of which no part can be left out."""
    kind = judge(case).partition(":")[0]
    while True:
        smaller = next((c for c in _smaller(case) if judge(c).partition(":")[0] == kind), None)
        if smaller is None:
            return case
        case = smaller


def _smaller(case: Case) -> Iterator[Case]:
    if len(case.outputs) > 1:
        for name in case.outputs:
            yield replace(case, outputs=[name]).pruned()
    if len(case.sizes) > 1:
        for i in case.sizes:
            yield replace(case, sizes=[i])
    for node in case.nodes:  # what it made becomes an input, or a constant
        if len(node.output) == 1 and (len(case.nodes) > 1 or node.output[0] not in case.outputs):
            yield from _without(case, node)
    for node in case.nodes:
        if len(case.nodes) > 1 and node.output[0] not in case.outputs:
            yield replace(case, outputs=[node.output[0]]).pruned()
    for name, shape in case.inputs.items():
        for i, n in enumerate(shape):
            if isinstance(n, str) and len(case.sizes) == 1:
                fixed = (*shape[:i], SIZES[case.sizes[0]][n], *shape[i + 1 :])
                yield replace(case, inputs={**case.inputs, name: fixed})


def _without(case: Case, node: Any) -> Iterator[Case]:
    (name,) = node.output
    value, nodes = case.values[name], [other for other in case.nodes if other is not node]
    arrays = [value.at[i] for i in case.sizes]
    if all(np.array_equal(x, arrays[0]) for x in arrays):
        yield replace(case, nodes=nodes, held={**case.held, name: arrays[0]}).pruned()
    shape = [_axis([x.shape[k] for x in arrays], case.sizes) for k in range(value.ndim)]
    if None not in shape:
        yield replace(case, nodes=nodes, inputs={**case.inputs, name: tuple(shape)}).pruned()  # type: ignore[arg-type]


def _axis(found: Sequence[int], sizes: Sequence[int]) -> int | str | None:
    """What an axis is called whose size is this at these sizes."""
    if len(set(found)) == 1 and len(found) > 1 and found[0]:
        return found[0]
    names = [name for name in SIZES[0] if all(SIZES[i][name] == n for i, n in zip(sizes, found, strict=True))]
    return names[0] if names else found[0] if len(set(found)) == 1 and found[0] else None


def show(number: int) -> None:
    """The graph, and the smallest of the same fault."""
    case = draw(number)
    said = judged(case)
    if said.startswith("raw"):
        case = shrunk(case)
    say(said, onnx.printer.to_text(onnx.load_from_string(case.model())))
    for name, x in case.held.items():
        say(f"{name} = {x.tolist()} {x.dtype}")
    made = load_model(case.model())
    say(judged(case), *made.notes, made.program and made.program.text())


if __name__ == "__main__":
    main(outcome, show)
