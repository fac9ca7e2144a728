"""`bench`: how fast a bundle runs."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdl import threads as pool
from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import LimitError, PdlError, UsageError
from pdl.runtime.session import Port, Precision, Session, load

PERCENTILES = (50, 90, 99)
#: runs on end of each of two sessions that take turns
TURN = 5


@dataclass
class Bench:
    """How fast a bundle runs.

    latency   seconds of each run, without the pipeline
    plan      seconds that the first run took longer: planning, packing weights
    memory    largest resident set of this process, bytes
    untuned   seconds of runs without what was timed, in turns with the others; none where nothing was tuned
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
    untuned: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Latency in seconds that this share of the runs (in percent) does not exceed."""
        return _percentile(self.latency, share)

    @property
    def throughput(self) -> float:
        """Samples a second."""
        return self.batch * len(self.latency) / sum(self.latency)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; times in milliseconds."""
        times = {f"p{p}_ms": 1e3 * self.percentile(p) for p in PERCENTILES}
        before = {f"p{p}_ms": 1e3 * _percentile(self.untuned, p) for p in PERCENTILES if self.untuned}
        ops = [{"op": op, "calls": calls, "ms": 1e3 * seconds} for op, (calls, seconds) in self.ops.items()]
        return {
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "batch": self.batch, "threads": self.threads, "precision": self.precision, "runs": len(self.latency),
            **times, "samples_per_second": self.throughput, "load_ms": 1e3 * self.load, "plan_ms": 1e3 * self.plan,
            "memory_bytes": self.memory, "ops": ops, **({"untuned": before} if before else {}),
        }  # fmt: skip


def bench(
    bundle: str | Path,
    *,
    batch: int = 1,
    threads: int | None = None,
    seconds: float = 3.0,
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, float] | None = None,
    precision: Precision = "fp32",
    timeout: float | None = None,
    max_memory: int | None = None,
    tune: bool = False,
) -> Bench:
    """Run a bundle on random inputs for so long, then a few runs op by op.

    sizes       of the symbolic axes, such as {"h": 224, "w": 224}; by default those of the example it was traced with
    values      of inputs by name, a number each, such as {"sr": 16000}
    timeout     seconds that opening it may take, and each run; TimeLimitError after that
    max_memory  bytes that a run may take; MemoryLimitError where it needs more
    tune        time the forms of its products first, and run it without what was timed, too
    """
    if batch < 1 or not seconds > 0:
        raise UsageError(f"batch={batch} must be at least 1 and seconds={seconds} above 0")
    options: dict[str, Any] = {
        "threads": threads, "precision": precision, "timeout": timeout, "max_memory": max_memory,
    }  # fmt: skip
    begin = time.perf_counter()
    session = load(bundle, **options, tune=tune or None)
    loaded = time.perf_counter() - begin
    if session.bundle is not None and session.bundle.parts:
        raise UsageError(
            f"{bundle}: a system, whose time depends on what its models find in an input; measure each of them "
            f"({', '.join(session.bundle.parts)}) by itself"
        )
    if session.writing is not None:
        raise UsageError(
            f"{bundle}: writes token by token, and its time depends on how much; measure pdl predict on a file of texts"
        )
    inputs = random_inputs(session, batch, dict(sizes or {}))
    for name, number in (values or {}).items():
        if name not in inputs:
            raise UsageError(f"no input is called {name}; inputs are {', '.join(map(str, session.inputs))}")
        inputs[name] = np.full(inputs[name].shape, number).astype(inputs[name].dtype)
    first = _first(session, inputs, values or {})
    latency: list[float] = []
    untuned: list[float] = []
    both = [(session, latency)]
    if tune:
        both.append((load(bundle, **options, tune=False), untuned))
        _timed(both[1][0], inputs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(latency) < 5:
        for each, taken in both:
            taken.extend(_timed(each, inputs) for _ in range(TURN))
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
        untuned=untuned,
    )


def _first(session: Session, inputs: Mapping[str, Array], values: Mapping[str, float]) -> float:
    """Seconds of the first run; where it fails, whole numbers that were made up may be the reason."""
    try:
        return _timed(session, inputs)
    except LimitError:
        raise
    except PdlError as error:
        made_up = [port for port in session.inputs if port.dtype is not None and port.dtype.kind in "iu"]
        made_up = [port for port in made_up if port.name not in values]
        if not made_up:
            raise
        names = ", ".join(map(str, made_up))
        raise UsageError(
            f"{error}; made-up values went into {names}: give ones that it takes with --value {made_up[0].name}=NUMBER"
        ) from error


def _percentile(times: Sequence[float], share: float) -> float:
    return float(np.percentile(times, share))


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
