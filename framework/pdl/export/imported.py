"""`import_model`: a model of ONNX, TensorFlow Lite or Paddle becomes a bundle, after the bundle has been run against
the runtime that the model was made for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.config.source import MOST_BYTES, parsed
from pdl.dtype import Array
from pdl.errors import CheckError, ConfigError, DataError, PdlError, UsageError
from pdl.export.foreign import RUNTIMES, SECONDS, Ended, Foreign, Refused, Runtime
from pdl.files import read_text, write_atomic
from pdl.limits import OPENING, check_time, limited, require_seconds
from pdl.onnx.axes import Shape
from pdl.onnx.importer import Imported, attempts, dynamic, fixed, load_model
from pdl.onnx.reader import program_in
from pdl.onnx.values import dtype_named
from pdl.runtime import bundle
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.session import Session, of_bundle
from pdl.runtime.steps import Resources
from pdl.runtime.strict import parse

#: largest difference to the other runtime, as a part of the spread of an output (which counts as at least
#: `LEAST_SPREAD`: on random inputs many nets answer with numbers near 0)
TOLERANCE, LEAST_SPREAD = 1e-4, 1e-2
#: the same of a quantised model of TensorFlow Lite, which rounds elsewhere: steps of 1/255 of a range add up
ROUNDED = 0.05
#: where that is exceeded, the other runtime's own results for inputs changed by this part, so many times, say how far
#: results may be apart: a sort or a mask is not continuous, a distance of near points is ill-conditioned
NUDGE, NUDGES, SLACK = 2.0**-20, 4, 4.0
#: numbers in all inputs of a comparison
MOST_INPUTS = 2**25
#: what begins a name of labels that the model's own metadata hold
METADATA = "metadata:"
#: random ids are below the first number, or the second where the model does not take these
IDS = (100, 2)


def import_model(
    source: str | Path,
    out: str | Path | None = None,
    *,
    pipeline: str | Path | Mapping[str, Any] | None = None,
    labels: str | None = None,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    force: bool = False,
    check: bool = True,
    timeout: float = OPENING,
    **facts: Any,
) -> dict[str, Any]:
    """Write the bundle of a model of ONNX, TensorFlow Lite or Paddle (by default into the same folder); returns facts
    about it. What a file is shows its content; Paddle's is a program or the folder with it.

    pipeline   the steps before and after the net, {"pre": {...}, "post": {...}}, or a YAML or JSON file with them
    labels     a file of labels, one a line, or "metadata:KEY" for those that the model carries
    sizes      numbers for dynamic axes, which are then fixed
    values     numbers for inputs, which are then constants
    shapes     of inputs, where the file has fixed sizes and its net takes others: {"image": ["n", 3, "h", "w"]}; ONNX
               Runtime, which holds to the file, is then compared at its sizes alone. Or where the net takes multiples
               alone: {"image": ["n", 3, "32*h", "32*w"]}
    force      write it though it differs from the runtime of its format by more than `TOLERANCE` of an output's spread
               (`ROUNDED` for a quantised model of TensorFlow Lite), and by more than that runtime's results change
               where inputs change in their last bits
    check      compare it with that runtime, ONNX Runtime, LiteRT or Paddle, where it is installed
    timeout    seconds that reading the file, preparing its bundle and comparing may take
    facts      what else the bundle says of itself: name, card, licence, metrics, about (see `pdl.runtime.bundle.pack`)

    Raises UsageError for files that are damaged or hold unsupported ops, CheckError where the results differ,
    TimeLimitError where it takes too long.
    """
    source = Path(source)
    with limited(str(source), seconds=require_seconds(timeout)):
        model = load_model(source, sizes=sizes, values=values, shapes=shapes, timeout=timeout)
        names = labels_in(labels, model)
        data = packed(model, facts.pop("name", source.stem), steps_in(pipeline, model, names), names, **facts)
        session = of_bundle(bundle.read(data), timeout=timeout)
        checks = compare(source, model, session) if check else []
    other, most = runtime_of(model), tolerance_of(model)
    for each in checks:
        if each["relative"] > max(most, SLACK * each["sensitivity"]) and not force:
            raise CheckError(
                f"{source} differs from {other.name} by {each['relative']:.2g} of the spread of an output, over "
                f"{most}, whose results change by {each['sensitivity']:.2g} of it where inputs change in their "
                f"last bits: {_shown(checks)}; --force writes the bundle all the same"
            )
        if each["relative"] > most:
            model.notes.append(
                f"its results are as uncertain as that: {other.name}'s own change by {each['sensitivity']:.2g} of the "
                "spread where inputs change in their last bits"
            )
    if not check:
        model.notes.append(f"not compared with {other.name}, as asked")
    path = Path(out) if out is not None else source.with_suffix(bundle.SUFFIX)
    write_atomic(path, data)
    return {
        "bundle": str(path),
        "size": len(data),
        "kind": "program" if model.program is not None else "graph",
        "runtime": other.name,
        "opset": model.opsets,
        "producer": model.producer,
        "inputs": [str(p) for p in session.inputs],
        "outputs": [str(p) for p in session.outputs],
        "ops": dict(Counter(node.op for node in model.graph.walk()).most_common()),
        "notes": model.notes,
        "checks": checks,
    }


# -- the bundle --------------------------------------------------------------------------------------------------------
def packed(
    model: Imported,
    name: str,
    pipeline: Mapping[str, Any],
    labels: Sequence[str],
    *,
    card: str = "",
    about: Mapping[str, Any] | None = None,
    **facts: Any,
) -> bytes:
    """The bytes of the bundle."""
    outputs = [p.name for p in model.graph.outputs]
    arrays: dict[str, Array]
    if model.program is not None:
        for value, label in model.program.names().items():
            value.name = label
        arrays = {str(v.name): v.tensor._data for v in model.program.captures if v.tensor is not None}
        inputs = [p.name for p in model.graph.inputs]
        stored = {"kind": "program", "program": model.program.to_dict(), "inputs": inputs, "outputs": outputs}
    else:
        graph, arrays = model.graph.to_dict()
        stored = {"kind": "onnx", "graph": graph}
    opset = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items())
    source = SOURCES[domain_of(model)]
    about = {**(about or {}), "source": source, "opset": opset, "producer": model.producer}
    card = card or f"# {name}\n\nImported from {source} ({opset}), written by {model.producer or 'an unnamed tool'}.\n"
    return bundle.pack(stored, arrays, name=name, pipeline=pipeline, labels=labels, card=card, about=about, **facts)


def steps_in(given: str | Path | Mapping[str, Any] | None, model: Imported, labels: Sequence[str]) -> dict[str, Any]:
    """The pipeline, or the one in a YAML or JSON file, its steps made once to see that they can be."""
    if given is None:
        return {}
    found, path = (given, "the pipeline") if isinstance(given, Mapping) else (pipeline_of(given), given)
    if not isinstance(found, Mapping) or not found.keys() <= {"format", "pre", "post"}:
        raise DataError(f"{path} is no pipeline: expected a mapping with pre and post, each input or output: steps")
    for part, ports in (("pre", model.graph.inputs), ("post", model.graph.outputs)):
        names = [p.name for p in ports]
        if unknown := sorted(found.get(part, {}).keys() - set(names)):
            raise UsageError(f"{path}: {part} names {', '.join(unknown)}; the model has {', '.join(names)}")
    Pipeline.read({"pre": {}, "post": {}, **found}, Resources(labels), str(path))
    return dict(found)


def pipeline_of(path: str | Path) -> Any:
    """What a YAML or JSON file of a pipeline holds."""
    path = Path(path)
    try:
        text = read_text(path, MOST_BYTES)
        return parse(text.encode(), str(path), "pipeline") if path.suffix == ".json" else parsed(text, path)
    except (OSError, ValueError, ConfigError) as error:
        raise DataError(f"cannot read the pipeline {path}: {error}") from None


def labels_in(given: str | None, model: Imported) -> list[str]:
    """The labels of a file, or of the model's metadata."""
    if given is None:
        return []
    if given.startswith(METADATA):
        key = given.removeprefix(METADATA)
        if key not in model.metadata:
            raise UsageError(f"the model's metadata has {', '.join(model.metadata) or 'no entries'}; no {key!r}")
        return model.metadata[key].splitlines()
    try:
        return read_text(given).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the labels {given}: {error}") from None


# -- against the runtime of its format --------------------------------------------------------------------------------
SOURCES = {"": "ONNX", "tflite": "TensorFlow Lite", "paddle": "Paddle"}


def domain_of(model: Imported) -> str:
    """The domain of the operators of a model's format; "" of ONNX."""
    return next((domain for domain in ("tflite", "paddle") if domain in model.opsets), "")


def runtime_of(model: Imported) -> Runtime:
    """The runtime that a model was made for."""
    return RUNTIMES[domain_of(model)]


def tolerance_of(model: Imported) -> float:
    """How far results may be from those of that runtime, as a part of the spread of an output."""
    quantised = any(node.op == "DequantizeLinear" for node in model.graph.nodes)
    return ROUNDED if quantised and domain_of(model) == "tflite" else TOLERANCE


def compare(source: Path, model: Imported, session: Session, count: int = 2) -> list[dict[str, Any]]:
    """Run both on random inputs of up to `count` sizes; one entry for each. Empty without the other runtime."""
    runtime = runtime_of(model)
    if not runtime.installed():
        model.notes.append(f"not compared: {runtime.package} is not installed (pip install {runtime.package})")
        return []
    if any(port.kind != "tensor" for port in model.graph.inputs):
        model.notes.append("not compared: an input is a sequence or an optional value")
        return []
    found: list[dict[str, Any]] = []
    weights = sum(x.nbytes for x in model.graph.initialisers.values())
    try:
        with Foreign(program_in(source), weights, domain_of(model)) as other:
            _compare_all(model, session, other, count, found)
    except Refused as error:
        if not found:
            model.notes.append(f"not compared: {runtime.name} does not run it ({error})")
        return found
    if not found:
        model.notes.append(f"not compared: {runtime.name} takes none of the sizes tried; give some with --size")
    return found


def _compare_all(model: Imported, session: Session, other: Foreign, count: int, found: list[dict[str, Any]]) -> None:
    for sizes in sizes_to_try(model):
        if any(entry["sizes"] == sizes for entry in found):
            continue
        entry = _compared(model, session, other, sizes)
        if entry is not None:
            found.append(entry)
        if len(found) == count:
            break


def sizes_to_try(model: Imported) -> Iterator[dict[str, int]]:
    """Sizes to compare at: those that the trace was made with, others from them, then what else nets take."""
    batch, lengths = dynamic(model.shapes)
    known = model.examples
    if model.declared:
        yield {**known, **model.declared}
    if known:
        yield {name: 1 if name in batch else size for name, size in known.items()}
        for factor, more in ((2, 0), (1, 32), (1, 1)):
            yield {name: 3 if name in batch else size * factor + more for name, size in known.items()}
    yield from attempts(batch, lengths, model.factors) if batch or lengths else [{}]


def _compared(model: Imported, session: Session, other: Foreign, sizes: Mapping[str, int]) -> dict[str, Any] | None:
    """The difference at these sizes; None where the other runtime does not take them, or the inputs are large."""
    shapes, wanted = fixed(model.shapes, sizes), None
    if sum(math.prod(n if isinstance(n, int) else 1 for n in shape or ()) for shape in shapes.values()) > MOST_INPUTS:
        return None
    for below in IDS:
        feeds = random_inputs(model, shapes, below)
        try:
            wanted = other.run({**feeds, **model.values})
            break
        except Ended:
            raise
        except Refused:  # sizes or ids that the model does not take: the caller tries others
            continue
    if wanted is None:
        return None
    try:
        got = session.run(feeds, timeout=SECONDS)
    except PdlError as error:
        check_time()  # of the whole import
        raise CheckError(f"{runtime_of(model).name} runs the model at {dict(sizes)}, pdl does not: {error}") from error
    pairs = list(zip(got.values(), wanted, strict=True))
    differences = [difference(y, z) for y, z in pairs]
    relative = max((r for _, r in differences), default=0.0)
    return {
        "sizes": dict(sizes),
        "difference": max((d for d, _ in differences), default=0.0),
        "relative": relative,
        "sensitivity": sensitivity(other, {**feeds, **model.values}, wanted) if relative > tolerance_of(model) else 0.0,
    }


def sensitivity(other: Foreign, feeds: Mapping[str, Array], wanted: Sequence[Any]) -> float:
    """By how much of an output's spread the other runtime's results change where floats among the inputs are changed by
    rounding: each by at most `NUDGE` of itself, at random."""
    r, largest = np.random.default_rng(1), 0.0
    for _ in range(NUDGES):
        near = {n: _nudged(x, np.asarray(r.uniform(-NUDGE, NUDGE, x.shape))) for n, x in feeds.items()}
        largest = max([largest, *(difference(y, z)[1] for y, z in zip(other.run(near), wanted, strict=True))])
    return largest


def _nudged(x: Array, by: Array) -> Array:
    return np.asarray(x * (1 + by), x.dtype) if x.dtype.kind == "f" else x


def random_inputs(model: Imported, shapes: Mapping[str, Shape | None], below: int = 2) -> dict[str, Array]:
    """Normal floats; integers from 0 on, `below` a number; numbers as texts."""
    r = np.random.default_rng(0)
    found = {}
    for port in model.graph.inputs:
        dtype = dtype_named(port.dtype or "float32")
        shape = tuple(n if isinstance(n, int) else 1 for n in shapes[port.name] or ())
        values = r.integers(0, below, shape) if dtype.kind in "iubO" else r.standard_normal(shape)
        found[port.name] = (
            np.asarray(values).astype(str).astype(object) if dtype.kind == "O" else np.asarray(values, dtype)
        )
    return found


def difference(y: Any, z: Any) -> tuple[float, float]:
    """Largest difference of two outputs, and as a part of the spread of the second; inf where shapes differ."""
    y, z = np.asarray(y), np.asarray(z)
    if y.shape != z.shape:
        return float("inf"), float("inf")
    if not z.size:
        return 0.0, 0.0
    y, z = y.astype(np.float64), z.astype(np.float64)
    same = (y == z) | (np.isnan(y) & np.isnan(z))
    if same.all():
        return 0.0, 0.0
    apart = float(np.max(np.abs(y[~same] - z[~same])))
    finite = z[np.isfinite(z)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    apart = apart if np.isfinite(apart) else float("inf")
    return apart, apart / max(spread, LEAST_SPREAD)


def _shown(checks: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{c['sizes'] or 'fixed sizes'}: {c['difference']:.2g}" for c in checks)
