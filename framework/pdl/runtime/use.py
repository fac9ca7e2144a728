"""What one does with a bundle: `predict` on many inputs, `info` on the file, `bench` its speed."""

from __future__ import annotations

import glob
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from pdl import threads as pool
from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.bundle import Bundle, read
from pdl.runtime.headers import EXTENSIONS
from pdl.runtime.pipeline import describe
from pdl.runtime.readers import Reader
from pdl.runtime.session import Port, Precision, Session, load

OnError = Literal["raise", "tell"]
RANKING = {"top", "top_items", "bit_strings"}
"""Steps of which `topk` says how many answers they give."""


# -- predict -----------------------------------------------------------------------------------------------------------
class Predictor(Protocol):
    """What answers for inputs: a session with a pipeline, or several together."""

    def batch(self, items: list[Any]) -> list[Any]:
        """The answers, in order."""


@dataclass(frozen=True)
class Given:
    """An input that is no file, and what it is: Given("session", "item1,item2"), with a name for its answer if it has
    none of its own. What a model takes is checked."""

    kind: str
    value: Any
    name: str | None = None


def predict(
    bundle: str | Path | Predictor,
    inputs: Sequence[Any],
    *,
    topk: int | None = None,
    batch_size: int = 32,
    on_error: OnError = "raise",
    **options: Any,
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(name, item, {"input": name, ...prediction}) for each input in order, by a bundle or by what has `batch`.

    An input of a model of pictures is a path, a folder or a pattern (all pictures there), "-" (a picture on standard
    input), the bytes of a picture file, or an array uint8 [H, W] or [H, W, C], RGB. Of a model that reads something
    else it is that (a session "item1,item2" or ["item1", "item2"]), or the `Path` of a file of many. `options` are
    those of `pdl.runtime.load`.

    on_error   "tell": an input that the model can say nothing about gives {"input": name, "error": why}
    """
    if batch_size < 1 or (topk is not None and topk < 1):
        raise UsageError(f"topk={topk} and batch_size={batch_size} must be at least 1")
    predictor = load(bundle, **options) if isinstance(bundle, str | Path) else bundle
    if topk is not None and isinstance(predictor, Session) and RANKING & {*_steps_after(predictor.bundle)}:
        predictor.pipeline.set(k=topk)  # type: ignore[union-attr]
    yield from answered(items(inputs, reader_of(predictor)), predictor, batch_size, on_error)


def answered(
    named: Iterator[tuple[str, Any]], predictor: Predictor, batch_size: int, on_error: OnError
) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """As `predict`, for inputs with their names."""
    reader = reader_of(predictor)
    while group := list(islice(named, batch_size)):
        errors = _errors(reader, [item for _, item in group]) if on_error == "tell" else {}
        answers = iter(predictor.batch([item for i, (_, item) in enumerate(group) if i not in errors]))
        for number, (name, item) in enumerate(group):
            answer = {"error": errors[number]} if number in errors else next(answers)
            said = answer if isinstance(answer, dict) else {"output": answer}
            yield name, item, {"input": name, **said}


def _errors(reader: Reader | None, group: Sequence[Any]) -> dict[int, str]:
    """Which of several items the reader can make nothing of, and why."""
    found: dict[int, str] = {}
    for number, item in enumerate(group if reader is not None else ()):
        try:
            reader.read(item, {})  # type: ignore[union-attr]
        except DataError as error:
            found[number] = str(error)
    return found


def reader_of(predictor: Any) -> Reader | None:
    """What says what an input of a predictor is; None where it is a picture."""
    pipeline = getattr(predictor, "pipeline", None)
    return getattr(predictor, "reader", None) if pipeline is None else pipeline.reader


def _steps_after(bundle: Bundle | None) -> list[str]:
    steps = bundle.pipeline["post"].values() if bundle is not None else ()
    return [step["step"] for each in steps for step in each]


def items(inputs: Sequence[Any], reader: Reader | None = None) -> Iterator[tuple[str, Any]]:
    """(name, item) for everything that the inputs of `predict` mean: the path of every picture, bytes, arrays; or what
    the reader takes.
    """
    takes = reader.takes if reader is not None else "picture"
    if not len(inputs):
        raise UsageError(_nothing(takes))
    for number, given in enumerate(inputs):
        if isinstance(given, Given) and given.kind not in (reader.accepts if reader is not None else ()):
            raise UsageError(f"this model takes a {takes}, not a {given.kind}")
        item, name = (given.value, given.name) if isinstance(given, Given) else (given, None)
        if reader is not None:
            yield from reader.rows(item) if isinstance(item, Path) else [(name or reader.called(item), item)]
        elif isinstance(item, np.ndarray):
            yield f"array {number}", item
        elif isinstance(item, bytes):
            yield f"bytes {number}", item
        elif str(item) == "-":
            yield "-", sys.stdin.buffer.read()
        else:
            yield from ((str(path), path) for path in expand(str(item)))


def _nothing(takes: str) -> str:
    if takes == "picture":
        return "predict: no input; name a picture, a folder, a pattern, or - for standard input"
    how = {"node": "--nodes A,B", "pair": "--pairs FILE", "graph": "--new-graph DIR"}.get(takes, f"--{takes} ...")
    return f"predict: no input; this model takes a {takes}: {how}, or a file of them"


def expand(name: str) -> list[Path]:
    """The files behind a path, a folder (at any depth) or a pattern, sorted."""
    path = Path(name).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in EXTENSIONS and p.is_file())
        where = f"in this folder are no pictures ({', '.join(EXTENSIONS)})"
    else:
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file())
        where = "no file matches this pattern" if glob.has_magic(name) else "no such file"
    if not found:
        raise DataError(f"{name}: {where}")
    return found


# -- info --------------------------------------------------------------------------------------------------------------
def info(path: str | Path) -> dict[str, Any]:
    """What a bundle is, as plain values."""
    bundle = read(path)
    session = load(path)
    meta, stored = bundle.meta, bundle.program
    steps = {when: {name: describe(each) for name, each in bundle.pipeline[when].items()} for when in ("pre", "post")}
    labels = bundle.labels
    facts = {
        "bundle": os.fspath(path),
        "name": meta["name"],
        **meta["about"],
        "inputs": [str(port) for port in session.inputs],
        "outputs": [str(port) for port in session.outputs],
        "ops": len(stored["program"]["nodes"]) if bundle.kind == "program" else f"a graph of kind {bundle.kind}",
        "weights": _numbers(bundle.weights),
        "size": f"{bundle.size / 1000:,.1f} kB",
        "before": steps["pre"],
        "after": steps["post"],
        "labels": _few(labels) if labels else None,
        "vocabularies": {name: _few(names) for name, names in bundle.vocabularies.items()},
        **({"constants": _numbers(bundle.constants)} if bundle.constants else {}),
        "metrics": meta["metrics"],
        "licence": meta["licence"] or "not stated",
        "created": f"{meta['created']} by pdl {meta['pdl']}",
        "more": f"PDL_LOG=plan pdl bench {os.fspath(path)} tells what the runtime makes of it",
    }
    trained = meta["about"].get("weights")
    return {**facts, "trained": trained} if trained else facts


def _few(names: Sequence[str]) -> str:
    """`5: ant, bee, ...`."""
    return f"{len(names):,}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"


def _numbers(arrays: Mapping[str, Array]) -> str:
    """How many numbers, in which types."""
    sizes: dict[str, int] = {}
    for array in arrays.values():
        sizes[array.dtype.name] = sizes.get(array.dtype.name, 0) + array.size
    kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(sizes.items(), key=lambda each: -each[1]))
    of = f" ({kinds})" if kinds and list(sizes) != ["float32"] else ""
    return f"{sum(sizes.values()):,} numbers in {len(arrays)} tensors{of}"


# -- bench -------------------------------------------------------------------------------------------------------------
@dataclass
class Bench:
    """How fast a bundle runs.

    latency   seconds of each run, without the pipeline
    plan      seconds that the first run took longer: planning, packing weights
    memory    largest resident set of this process, bytes
    ops       op name -> [calls a run, seconds a run], slowest first
    """

    inputs: dict[str, tuple[int, ...]]
    batch: int
    threads: int
    precision: str
    latency: list[float]
    plan: float
    load: float
    memory: int
    ops: dict[str, tuple[float, float]] = field(default_factory=dict)

    def percentile(self, share: float) -> float:
        """Latency in seconds that this share of the runs (in percent) does not exceed."""
        return float(np.percentile(self.latency, share))

    @property
    def throughput(self) -> float:
        """Samples a second."""
        return self.batch * len(self.latency) / sum(self.latency)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; times in milliseconds."""
        times = {f"p{p}_ms": 1e3 * self.percentile(p) for p in (50, 90, 99)}
        ops = [{"op": op, "calls": calls, "ms": 1e3 * seconds} for op, (calls, seconds) in self.ops.items()]
        return {
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "batch": self.batch, "threads": self.threads, "precision": self.precision, "runs": len(self.latency),
            **times, "samples_per_second": self.throughput, "load_ms": 1e3 * self.load, "plan_ms": 1e3 * self.plan,
            "memory_bytes": self.memory, "ops": ops,
        }  # fmt: skip


def bench(
    bundle: str | Path,
    *,
    batch: int = 1,
    threads: int | None = None,
    seconds: float = 3.0,
    sizes: Mapping[str, int] | None = None,
    precision: Precision = "fp32",
) -> Bench:
    """Run a bundle on random inputs for so long, then a few runs op by op.

    sizes   of the symbolic axes, such as {"h": 224, "w": 224}; by default those of the example it was traced with
    """
    if batch < 1 or not seconds > 0:
        raise UsageError(f"batch={batch} must be at least 1 and seconds={seconds} above 0")
    begin = time.perf_counter()
    session = load(bundle, threads=threads, precision=precision)
    loaded = time.perf_counter() - begin
    inputs = random_inputs(session, batch, dict(sizes or {}))
    first = _timed(session, inputs)
    latency: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(latency) < 5:
        latency.append(_timed(session, inputs))
    return Bench(
        inputs={name: array.shape for name, array in inputs.items()},
        batch=batch,
        threads=threads or pool.get_num_threads(),
        precision=precision,
        latency=latency,
        plan=max(0.0, first - float(np.median(latency))),
        load=loaded,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        ops=_by_op(session, inputs, min(50, len(latency))),
    )


def random_inputs(session: Session, batch: int, sizes: dict[str, int]) -> dict[str, Array]:
    """Made-up inputs of a model by name; `sizes` as `bench` takes them."""
    known: dict[str, int] = {}
    for port in session.inputs:
        if port.shape is None or port.dtype is None:
            raise UsageError(f"input {port.name} has no shape of its own, so bench cannot make one up")
        known |= {n.text: int(n) for n in port.shape if isinstance(n, Dim) and n.text in n.names}
    first = _batch_axes(session.inputs)
    if batch > 1 and not first:
        raise UsageError(f"input {session.inputs[0]}: its batch is fixed")
    if unknown := sorted(set(sizes) - known.keys()):
        names = ", ".join(str(port) for port in session.inputs)
        raise UsageError(f"no size {', '.join(unknown)} can be chosen; inputs are {names}")
    at = known | dict.fromkeys(first, batch) | sizes
    rng = np.random.default_rng(0)
    return {port.name: _random_values(session, port, rng, at).astype(port.dtype) for port in session.inputs}


def _batch_axes(ports: Sequence[Port]) -> list[str]:
    """The axes that samples are counted along: "n", where there is one; else the symbolic first axes."""
    first = {str(port.shape[0]) for port in ports if port.shape and isinstance(port.shape[0], Dim)}
    return ["n"] if "n" in first else sorted(first)


def _random_values(session: Session, port: Port, rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
    """Values that the input takes: numbers with names, where the pipeline knows of names."""
    shape = tuple(n.at(sizes) if isinstance(n, Dim) else n for n in port.shape or ())
    made = session.pipeline.random(port.name, shape, rng, sizes) if session.pipeline is not None else None
    if made is not None:
        return made
    whole = port.dtype is not None and port.dtype.kind in "iub"
    return rng.integers(0, 2, shape) if whole else rng.standard_normal(shape)


def _timed(session: Session, inputs: Mapping[str, Array]) -> float:
    begin = time.perf_counter()
    session.run(inputs)
    return time.perf_counter() - begin


def _by_op(session: Session, inputs: Mapping[str, Array], runs: int) -> dict[str, tuple[float, float]]:
    """Calls and seconds of each op in a run, slowest first."""
    found: dict[str, list[float]] = {}

    def timer(node: Any, begin: float, end: float) -> None:
        each = found.setdefault(type(node.op).__name__, [0.0, 0.0])
        each[0] += 1
        each[1] += end - begin

    for _ in range(runs):
        session.run(inputs, timer=timer)
    order = sorted(found, key=lambda name: -found[name][1])
    return {name: (found[name][0] / runs, found[name][1] / runs) for name in order}
