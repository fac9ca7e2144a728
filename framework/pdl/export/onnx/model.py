"""`to_onnx`: a program as an ONNX file, checked, and compared with ONNX Runtime where that is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdl.dtype import Array
from pdl.errors import CheckError, PdlError, UsageError
from pdl.export.onnx.compare import Judge
from pdl.export.onnx.graph import FIRST, PLAIN, Body, Graph, Written, onnx_dtype, symbolic, to_first, to_last
from pdl.export.onnx.walk import write_nodes
from pdl.files import write_atomic
from pdl.program.ir import Program, Value
from pdl.program.passes import FINAL, run_passes
from pdl.version import __version__

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

#: the oldest opset written: since then Squeeze, Unsqueeze and Split read their axes from inputs
OLDEST = 13
#: by default the oldest opset with LayerNormalization: runtimes since 2022 read it, converters for small devices too
DEFAULT = 17
#: bytes of constants beyond which they go to a file of their own, for a protobuf message ends at 2 GiB
EXTERNAL = (1 << 31) - (1 << 24)
#: the largest difference from ONNX Runtime: |a - b| over the larger of 1 and the largest |b|
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Port:
    """An input or output of the ONNX graph. `channels_first`: it is [N, C, *spatial] where the program has
    [N, *spatial, C].
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    channels_first: bool

    def of_program(self, array: Array) -> Array:
        """An array as the program has it, as the graph has it."""
        return array.transpose(to_first(array.ndim)) if self.channels_first else array

    def to_program(self, array: Array) -> Array:
        """An array as the graph has it, as the program has it."""
        return array.transpose(to_last(array.ndim)) if self.channels_first else array


@dataclass(frozen=True)
class Report:
    """What was written.

    difference   largest difference from ONNX Runtime on the samples (see `TOLERANCE`); None where none was made
    runtime      "onnxruntime 1.20.0", or "" where it is not installed or there were no samples
    """

    path: Path
    opset: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: int
    nbytes: int
    samples: int = 0
    difference: float | None = None
    runtime: str = ""
    notes: tuple[str, ...] = field(default=())


def to_onnx(
    program: Program,
    path: str | Path,
    *,
    opset: int = DEFAULT,
    metadata: Mapping[str, Any] | None = None,
    samples: Sequence[Sequence[Array]] = (),
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tolerance: float = TOLERANCE,
    judge: Judge | None = None,
    channels_first: bool = True,
) -> Report:
    """Write a program, traced in evaluation mode, as an ONNX file.

    Images [N, H, W, C] become [N, C, H, W]: inputs that image ops read, and outputs that they make. Symbolic sizes of
    the program are symbolic in the file.

    metadata         key -> text (anything else is stored as JSON): licence, metrics, ...; without empty ones
    samples          arrays for the program's inputs, in its layout, one sequence per run: on these the file must agree
                     with the program within `tolerance`, if ONNX Runtime is installed
    inputs, outputs  names of the graph's inputs and outputs; by default those of the program
    judge            how far the outputs of a sample are apart, where that is not the largest difference (`Judge`)
    channels_first   False: all inputs and outputs are laid out as in the program, so that outputs can be fed back

    Raises UsageError where the package onnx is missing, for an opset that cannot be written, and, naming each op and
    source line, for ops without an ONNX form; CheckError where the file differs from the program.
    """
    onnx = _package()
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST <= opset <= newest:
        raise UsageError(f"opset {opset} is outside {OLDEST} to {newest}, which onnx {onnx.__version__} can hold")
    graph, takes, gives = _write(program, opset, inputs, outputs, channels_first)
    _require_complete(program, graph)
    nodes = _needed(graph.nodes, [port.name for port in gives])
    model = _model(program.name, nodes, graph, takes, gives, opset, metadata or {})
    target = Path(path)
    nbytes = _save(model, target, sum(a.nbytes for a in graph.constants.values()))
    report = Report(target, opset, takes, gives, len(nodes), nbytes, notes=tuple(graph.notes))
    return _compared(report, program, samples, tolerance, judge) if samples else report


def missing(program: Program, *, opset: int = DEFAULT) -> list[tuple[str, str]]:
    """(op, "file:line") of everything in a program that has no ONNX form; nothing is written. Needs no package."""
    return _write(program, opset)[0].faults


def _package() -> Any:
    try:
        import onnx
    except ImportError:
        raise UsageError('export to onnx needs the package onnx: pip install "pdl-core[onnx]"') from None
    return onnx


def _require_complete(program: Program, graph: Graph) -> None:
    if graph.faults:
        lines = [f"  {where or 'unknown place'}: {what}" for what, where in dict.fromkeys(graph.faults)]
        listed = "\n".join(lines)
        raise UsageError(f"{program.name} holds ops that opset {graph.opset} of ONNX cannot express:\n{listed}")


# -- the graph ---------------------------------------------------------------------------------------------------------
def _write(
    program: Program,
    opset: int,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    channels_first: bool = True,
) -> tuple[Graph, tuple[Port, ...], tuple[Port, ...]]:
    """The graph, its inputs and its outputs."""
    if program.effects:
        changed = ", ".join(sorted({buffer.name or "a buffer" for buffer, _ in program.effects}))
        raise UsageError(f"{program.name} changes {changed} when it runs; trace the model in evaluation mode (.eval())")
    program = run_passes(program.copy(), FINAL)
    graph = Graph(opset)
    graph.uses = program.uses()
    takes = _inputs(program, graph, inputs, channels_first)
    write_nodes(graph, program.nodes)
    return graph, takes, _outputs(program, graph, outputs, channels_first)


def _inputs(program: Program, graph: Graph, names: Sequence[str] | None, channels_first: bool) -> tuple[Port, ...]:
    ports = []
    for value, name in zip(program.inputs, _names("input", program.inputs, names), strict=True):
        first = channels_first and _is_image(program, value)
        port = Port(graph.names.unique(name), _arranged(value.spec.shape, first), value.spec.dtype.name, first)
        for axis, n in enumerate(port.shape):
            if symbolic(n) and n.text in n.names:
                graph.symbols.setdefault(n.text, (port.name, axis))
            elif symbolic(n) and len(n.expression) == 1:
                for name in n.names:
                    graph.factors.setdefault(name, (port.name, axis, n))
        _require_dtype(graph, port)
        graph.put_input(value, port.name, FIRST if first else PLAIN)
        ports.append(port)
    return tuple(ports)


def _outputs(program: Program, graph: Graph, names: Sequence[str] | None, channels_first: bool) -> tuple[Port, ...]:
    """Ports for the outputs, each in the layout that it has."""
    values = [v for v in program.outputs if v is not None]
    ports = []
    for value, name in zip(values, _names("output", values, names), strict=True):
        first = channels_first and graph.made_first(value)
        made = graph.first(value) if first else graph.plain(value)
        name = graph.names.unique(name)
        graph.nodes.append(Written("Identity", graph.names.unique("Identity"), "", [made], [name], {}))
        ports.append(Port(name, _arranged(value.spec.shape, first), value.spec.dtype.name, first))
        _require_dtype(graph, ports[-1])
    return tuple(ports)


def _require_dtype(graph: Graph, port: Port) -> None:
    try:
        onnx_dtype(port.dtype)
    except UsageError as error:
        graph.faults.append((f"{port.name}: {error}", ""))


def _names(kind: str, values: Sequence[Value], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if len(names) != len(values):
            raise UsageError(f"{len(names)} {kind} names for {len(values)} {kind}s")
        return list(names)
    own = [v.name if v.node is None and v.tensor is None else None for v in values]
    return [n or (kind if len(values) == 1 else f"{kind}{i}") for i, n in enumerate(own)]


def _arranged(shape: tuple[int, ...], first: bool) -> tuple[int, ...]:
    return tuple(shape[a] for a in to_first(len(shape))) if first else shape


def _is_image(program: Program, value: Value) -> bool:
    """Whether ops on images read an input: directly, or after ops that keep the layout."""
    from pdl.export.onnx.layout import KEEPS, WANTS

    if len(value.spec.shape) < 4:
        return False
    readers, seen, open_values = program.readers(), {value}, [value]
    while open_values:
        current = open_values.pop()
        for node in readers.get(current, []):
            if isinstance(node.op, WANTS) and node.inputs[0] is current:
                return True
            if isinstance(node.op, KEEPS) and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                open_values.append(node.outputs[0])
    return False


def _needed(nodes: list[Written], outputs: Sequence[str]) -> list[Written]:
    """The nodes that outputs depend on, in order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(_read_by(node))
    return kept[::-1]


def _read_by(node: Written) -> set[str]:
    """Names that a node reads, those that bodies inside it take from outside included."""
    found = set(node.inputs)
    for value in node.attributes.values():
        if isinstance(value, Body):
            found.update(name for inner in value.nodes for name in _read_by(inner))
    return found


# -- protobuf ----------------------------------------------------------------------------------------------------------
def _model(
    name: str, nodes: list[Written], graph: Graph, takes: Sequence[Port], gives: Sequence[Port], opset: int,
    metadata: Mapping[str, Any],
) -> ModelProto:  # fmt: skip
    from onnx import helper, numpy_helper

    used = {read for node in nodes for read in _read_by(node)}
    made = helper.make_graph(
        [_node(n) for n in nodes], name, [_info(p.name, p.shape, p.dtype) for p in takes],
        [_info(p.name, p.shape, p.dtype) for p in gives],
        [numpy_helper.from_array(array, key) for key, array in graph.constants.items() if key in used],
    )  # fmt: skip
    domains = [helper.make_opsetid("", opset)]
    model = helper.make_model(made, opset_imports=domains, ir_version=helper.find_min_ir_version_for(domains))
    model.producer_name, model.producer_version = "pdl", __version__
    properties = {"pdl_version": __version__, **{k: v for k, v in metadata.items() if v not in ("", None)}}
    helper.set_model_props(model, {k: v if isinstance(v, str) else json.dumps(v) for k, v in properties.items()})
    return model


def _node(node: Written) -> NodeProto:
    from onnx import helper

    attributes = {k: _graph(node.name, v) if isinstance(v, Body) else v for k, v in node.attributes.items()}
    return helper.make_node(node.kind, node.inputs, node.outputs, name=node.name, domain=node.domain, **attributes)


def _graph(name: str, body: Body) -> GraphProto:
    from onnx import helper

    inputs, outputs = ([_info(n, s.shape, s.dtype.name) for n, s in ports] for ports in (body.inputs, body.outputs))
    return helper.make_graph([_node(n) for n in body.nodes], name, inputs, outputs)


def _info(name: str, shape: Sequence[int], dtype: str) -> ValueInfoProto:
    from onnx import helper

    return helper.make_tensor_value_info(name, onnx_dtype(dtype), [n.text if symbolic(n) else int(n) for n in shape])


def _save(model: ModelProto, path: Path, constants: int) -> int:
    """Check and write; the bytes written. Large constants go to PATH.data beside the file."""
    import onnx

    path.parent.mkdir(parents=True, exist_ok=True)
    beside = _data_of(path)
    beside.unlink(missing_ok=True)  # onnx would append to it
    if constants < EXTERNAL:
        _check(model)
        write_atomic(path, model.SerializeToString())
        return path.stat().st_size
    onnx.save_model(model, str(path), save_as_external_data=True, location=beside.name)
    _check(str(path))
    return path.stat().st_size + beside.stat().st_size


def _check(model: ModelProto | str) -> None:
    """onnx's own checker, with shape inference."""
    import onnx

    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise UsageError(f"the checker of onnx {onnx.__version__} refuses the model: {error}") from error


def _remove(path: Path) -> None:
    """A file that was refused, and its large constants."""
    path.unlink()
    _data_of(path).unlink(missing_ok=True)


def _data_of(path: Path) -> Path:
    """The file for large constants."""
    return path.with_name(path.name + ".data")


# -- against ONNX Runtime ----------------------------------------------------------------------------------------------
def _compared(
    report: Report, program: Program, samples: Sequence[Sequence[Array]], tolerance: float, judge: Judge | None
) -> Report:
    from dataclasses import replace

    from pdl.export.onnx.compare import difference, runtime_name

    runtime = runtime_name()
    if not runtime:
        return replace(report, notes=(*report.notes, "onnxruntime is not installed: the file was not compared"))
    try:
        found = difference(report, program, samples, judge)
    except PdlError:
        _remove(report.path)
        raise
    if not found <= tolerance:
        _remove(report.path)
        raise CheckError(
            f"{report.path} differs from the program by {found:.2g} on {len(samples)} samples in {runtime}, "
            f"more than {tolerance:.0e}; the file is removed"
        )
    return replace(report, samples=len(samples), difference=found, runtime=runtime)
