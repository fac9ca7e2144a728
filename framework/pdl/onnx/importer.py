"""`load_model`: an ONNX file as a program with symbolic sizes where that is right at every size, else as a graph.

The graph is traced with examples for its dynamic axes. Python code of the table may branch on a size, and shape
arithmetic may leave what `pdl.dims` follows; so the program is compared, node by node, with fresh traces at other
sizes. Where they differ the model stays a graph, which the runtime traces again for each input shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import PdlError, TimeLimitError, TraceError, UsageError
from pdl.limits import OPENING, limited, require_seconds
from pdl.onnx.axes import Shape, at_sizes, multiple, named_axes, names_in, scaled
from pdl.onnx.check import require_runnable
from pdl.onnx.graph import Graph, show_shape
from pdl.onnx.reader import Model, read
from pdl.onnx.registry import NeedsValue
from pdl.onnx.tracing import difference, trace
from pdl.onnx.values import dtype_named
from pdl.program.ir import Program
from pdl.program.specialise import specialise

#: sizes that nets take for an axis; the first that a graph accepts is its example
LENGTHS = (96, 64, 48, 32, 128, 224, 256, 320, 576, 512, 640, 416, 16, 28, 8, 1024)
BATCHES = (2, 1)
#: sizes at which slices of a few elements end beyond an axis
SMALL = (1, 2, 3)


@dataclass
class Imported:
    """A model that has been read: `program`, or None where only the interpreter can run `graph`.

    shapes     of the inputs by name, sizes known only at run time as text
    examples   a size for each of these that the graph takes
    factors    of sizes that stand for multiples: {"h": 32} where an axis is 32*h
    declared   the sizes of the file itself, of axes that `shapes` opened
    values     of inputs of the file that have become constants
    notes      what the user should know, a line each
    """

    graph: Graph
    opsets: dict[str, int]
    producer: str
    metadata: dict[str, str]
    shapes: dict[str, Shape | None]
    program: Program | None = None
    examples: dict[str, int] = field(default_factory=dict)
    declared: dict[str, int] = field(default_factory=dict)
    factors: dict[str, int] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def load_model(
    source: str | Path | bytes, *, sizes: Mapping[str, int] | None = None, values: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None, timeout: float = OPENING,
) -> Imported:  # fmt: skip
    """Read an ONNX model, check that pdl has all its ops, and trace it.

    sizes     for dynamic axes, by the names that `Imported.shapes` shows: these become fixed
    values    for inputs by name, a number each, such as a sampling rate: these become constants
    shapes    for inputs by name, what the file should have said: names make axes dynamic that it has at the size it was
              traced with, {"image": ["n", 3, "h", "w"]}. "32*h" says that it takes multiples alone: a graph whose form
              depends on what is left of a size is one program then
    timeout   seconds that all of it may take

    Raises UsageError for damaged files, and for unsupported ops: all of them, each with its node; TimeLimitError, at
    the next node, where a file takes longer to read and trace than it may.
    """
    with limited("the given bytes" if isinstance(source, bytes) else str(source), seconds=require_seconds(timeout)):
        return of_model(read(source), sizes, values, shapes)


def of_model(
    model: Model,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
) -> Imported:
    """`load_model` of a model that has been read."""
    graph = model.graph
    require_runnable(graph)
    held, declared = _held(graph, values or {}), _opened(graph, shapes or {})
    named = named_axes(graph.inputs)
    names = {n for shape in named.values() for n in names_in(shape)}
    if unknown := sorted((sizes or {}).keys() - names):
        raise UsageError(f"no size is called {', '.join(unknown)}; the dynamic sizes are {', '.join(sorted(names))}")
    made = Imported(graph, model.opsets, model.producer, model.metadata or {}, fixed(named, sizes or {}), values=held)
    made.declared = {name: size for name, size in declared.items() if name not in (sizes or {})}
    made.factors = _factors(named)
    try:
        _trace(made)
    except NeedsValue as reason:
        made.program = None
        made.notes.append(f"stays a graph, whose program ends where values decide: {reason.reason}")
    except TraceError as reason:
        made.program = None
        made.notes.append(f"stays a graph, which the runtime traces or interprets: {reason.where}: {reason.reason}")
    return made


def _held(graph: Graph, values: Mapping[str, float]) -> dict[str, Array]:
    """Arrays of these numbers, which take the place of inputs of the graph."""
    ports = {port.name: port for port in graph.inputs if port.kind == "tensor" and port.dtype != "string"}
    if unknown := sorted(values.keys() - ports.keys()):
        raise UsageError(f"no input of numbers is called {', '.join(unknown)}; there are {', '.join(ports)}")
    made = {}
    for name, number in values.items():
        dtype = dtype_named(ports[name].dtype or "float32")
        whole = np.iinfo(dtype) if dtype.kind in "iu" else None
        if whole is not None and not (number == int(number) and whole.min <= number <= whole.max):
            raise UsageError(f"input {name} is {dtype.name}, which does not hold {number}")
        shape = tuple(n if isinstance(n, int) else 1 for n in ports[name].shape or ())
        made[name] = np.full(shape, number).astype(dtype)
    graph.inputs = [port for port in graph.inputs if port.name not in made]
    graph.initialisers.update(made)
    return made


def _opened(graph: Graph, shapes: Mapping[str, Sequence[int | str]]) -> dict[str, int]:
    """Give inputs other shapes; the sizes that the file has where these have names."""
    ports = {port.name: port for port in graph.inputs if port.kind == "tensor"}
    if unknown := sorted(shapes.keys() - ports.keys()):
        raise UsageError(f"no input is called {', '.join(unknown)}; there are {', '.join(ports)}")
    declared: dict[str, int] = {}
    for name, wanted in shapes.items():
        own = ports[name].shape
        axes = zip(own or (), wanted, strict=False)
        if own is None or len(own) != len(wanted) or any(isinstance(a, int) and isinstance(b, int) and a != b
                                                         for a, b in axes):  # fmt: skip
            shown = show_shape(tuple(wanted))
            raise UsageError(f"input {name} is {show_shape(own)}, which {shown} does not describe; name axes to open")
        for size, axis in zip(own, wanted, strict=True):
            parts = multiple(axis) if isinstance(axis, str) else (1, "")
            if parts is None:
                shown = show_shape(tuple(wanted))
                raise UsageError(f"input {name}: {shown}: an axis is a number or a name, n, or a multiple: 32*h")
            if isinstance(size, int) and isinstance(axis, str):
                if size % parts[0]:
                    raise UsageError(f"input {name}: {axis}: it is {size} in the file, no multiple of {parts[0]}")
                declared[parts[1]] = size // parts[0]
        ports[name].shape = tuple(wanted)
    return declared


def _factors(shapes: Mapping[str, Shape | None]) -> dict[str, int]:
    """The factor of each size that stands for multiples; UsageError where a size has several."""
    found: dict[str, int] = {}
    for axis in (n for shape in shapes.values() for n in shape or () if isinstance(n, str)):
        factor, name = multiple(axis) or (1, axis)
        if found.setdefault(name, factor) != factor:
            raise UsageError(f"{scaled(found[name], name)} and {scaled(factor, name)}: a size has one factor")
    return {name: factor for name, factor in found.items() if factor > 1}


def fixed(shapes: Mapping[str, Shape | None], sizes: Mapping[str, int]) -> dict[str, Shape | None]:
    """Shapes with numbers for the names of `sizes`."""
    return {name: at_sizes(shape, sizes) for name, shape in shapes.items()}


# -- tracing with examples ---------------------------------------------------------------------------------------------
def _trace(made: Imported) -> None:
    """Trace at the first examples that the graph takes, then compare at other sizes."""
    if None in made.shapes.values():
        raise NeedsValue("the file does not say how many dimensions its inputs have")
    batch, lengths = dynamic(made.shapes)
    problems: list[PdlError] = []
    for examples in attempts(batch, lengths, made.factors):
        try:
            made.program = trace(made.graph, shapes_at(made.shapes, examples, symbolic=True))
        except (TraceError, TimeLimitError):
            raise
        except PdlError as error:
            problems.append(error)
            continue
        made.examples = examples
        return _compare(made)
    sizes = {name: show_shape(shape) for name, shape in made.shapes.items()}
    hint = "; name sizes that it takes with --size" if lengths or batch else ""
    raise UsageError(f"no sizes were found that the graph takes for {sizes}{hint}: {problems[0]}")


def dynamic(shapes: Mapping[str, Shape | None]) -> tuple[list[str], list[str]]:
    """Names of dynamic sizes: those that are the first axis of an input, and the others."""
    first = {n: None for shape in shapes.values() for n in names_in((shape or ())[:1])}
    rest = {n: None for shape in shapes.values() for n in names_in((shape or ())[1:])}
    return list(first), [n for n in rest if n not in first]


def attempts(batch: list[str], lengths: list[str], factors: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Examples to try: sizes that differ from each other first, since axes that are equal hide their difference. Of
    multiples they are the numbers of times that come to about the same."""
    for many in BATCHES if batch else (1,):
        for base in LENGTHS if lengths else (0,):
            for step in (64, 0) if len(lengths) > 1 else (0,):
                sizes = {name: (base + step * i) // factors.get(name, 1) for i, name in enumerate(lengths)}
                yield dict.fromkeys(batch, many) | {name: max(1, size) for name, size in sizes.items()}


def shapes_at(
    shapes: Mapping[str, Shape | None], sizes: Mapping[str, int], *, symbolic: bool = False
) -> dict[str, tuple[int, ...]]:
    """Shapes with numbers for names, or with `Dim`s that have them as examples."""

    known = {name: Dim.symbol(name, n) if symbolic else n for name, n in sizes.items()}
    return {name: at_sizes(shape, known) or () for name, shape in shapes.items()}  # type: ignore[misc]


def _compare(made: Imported) -> None:
    """Compare the program with fresh traces at other sizes; join axes that change together, fix those that cannot."""
    seen = set(made.examples.items())
    for name in list(made.examples):
        tried = 0
        for other in _others(made.examples[name]):
            verdict = _verdict(made, {**made.examples, name: other})
            if verdict is None:
                continue
            if verdict:
                return _leave(made, name, verdict)
            seen.add((name, other))
            tried += 1
            if tried == 2:
                break
        if not tried:
            tied = _tied(made, name)
            _join(made, name, tied) if tied else _fix(made, name)
            return _compare(made)
    for name, size in itertools.product(made.examples, SMALL):
        if (name, size) in seen:
            continue
        sizes = {**made.examples, name: size}
        if not _is_exact(made, sizes) and (verdict := _verdict(made, sizes)):
            return _leave(made, name, verdict)


def _leave(made: Imported, name: str, verdict: str) -> None:
    """Do without a program."""
    made.program = None
    made.notes.append(f"stays a graph, traced anew for each input shape: its form depends on {name} ({verdict})")


def _is_exact(made: Imported, sizes: Mapping[str, int]) -> bool:
    """Whether all shapes are what the program says: a slice of three is shorter where the axis is."""
    assert made.program is not None
    try:
        specialise(made.program, sizes, exact=True)
    except TimeLimitError:
        raise
    except PdlError:
        return False
    return True


def _others(example: int) -> list[int]:
    """Other sizes to try for an axis, near and far."""
    found = [1, 3, 5] if example <= 2 else [example + 1, example * 2, example + 32, example * 3, example // 2]
    return [n for n in found if n != example]


def _verdict(made: Imported, sizes: Mapping[str, int]) -> str | None:
    """How the program differs from a fresh trace at these sizes; "" where it does not, None where there is no trace."""
    assert made.program is not None
    try:  # symbolic, too: with plain numbers more would be constant, and the forms would differ for nothing
        fresh = trace(made.graph, shapes_at(made.shapes, sizes, symbolic=True))
    except (NeedsValue, TimeLimitError):
        raise
    except PdlError:
        return None
    try:
        return difference(specialise(made.program, sizes), specialise(fresh, sizes))
    except TimeLimitError:
        raise
    except PdlError as error:
        return str(error)


def _tied(made: Imported, name: str) -> list[str]:
    """The sizes that must change together with this one: files without names for axes do not say so."""
    example = made.examples[name]
    tied = [n for n, e in made.examples.items() if e == example and n != name]

    def takes(names: list[str]) -> bool:
        moved = (dict.fromkeys([name, *names], size) for size in _others(example))
        return any(_verdict(made, {**made.examples, **sizes}) is not None for sizes in moved)

    if not tied or not takes(tied):
        return []
    for other in list(tied):
        rest = [n for n in tied if n != other]
        tied = rest if takes(rest) else tied
    return tied


def _join(made: Imported, name: str, tied: list[str]) -> None:
    """Give several sizes one name."""
    for other in tied:
        del made.examples[other]
    made.shapes = {port: shape and tuple(_renamed(n, tied, name) for n in shape) for port, shape in made.shapes.items()}
    many = f"{', '.join(tied[:3])} and {len(tied) - 3} more" if len(tied) > 4 else ", ".join(tied)
    made.notes.append(f"{many} and {name} are one size, {name}")
    made.program = trace(made.graph, shapes_at(made.shapes, made.examples, symbolic=True))


def _renamed(axis: int | str, tied: Sequence[str], name: str) -> int | str:
    factor, own = (multiple(axis) if isinstance(axis, str) else None) or (1, "")
    return scaled(factor, name) if own in tied else axis


def _fix(made: Imported, name: str) -> None:
    size = made.examples.pop(name)
    made.shapes = fixed(made.shapes, {name: size})
    made.notes.append(f"{name} is fixed at {size}: the graph takes no other size of those tried")
    made.program = trace(made.graph, shapes_at(made.shapes, made.examples, symbolic=True))
