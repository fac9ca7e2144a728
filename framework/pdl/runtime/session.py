"""`load` and `Session`: a model ready to run, from a bundle or a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from pdl.dtype import Array, DType
from pdl.errors import DataError, DtypeError, PdlError, ShapeError, UsageError
from pdl.kernels import runtime

if TYPE_CHECKING:
    from pathlib import Path

    from pdl.program import Program
    from pdl.runtime.bundle import Bundle
    from pdl.runtime.pipeline import Pipeline
    from pdl.runtime.plan import Timer

Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Port:
    """An input or output: its name, shape (symbolic sizes are `pdl.dims.Dim`; None where it depends on values) and
    dtype."""

    name: str
    shape: tuple[int, ...] | None
    dtype: DType | None

    def __str__(self) -> str:
        shape = "any shape" if self.shape is None else f"[{', '.join(map(str, self.shape))}]"
        return f"{self.name} {'' if self.dtype is None else self.dtype.name}{shape}"


class Engine(Protocol):
    """What runs the arrays: plans of a program, or an interpreted graph."""

    def __call__(self, arrays: Sequence[Array], timer: Timer | None = None) -> list[Array]:
        """The outputs for the inputs, both in the order of the ports."""


class Session:
    """A model ready to run. Any number of threads may use one session, and any number of sessions may run at once.

    inputs, outputs   the model's ports, in order
    bundle            the file it came from, with card, config, labels and metrics; None for a bare program
    """

    def __init__(
        self,
        engine: Engine,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        *,
        pipeline: Pipeline | None = None,
        bundle: Bundle | None = None,
        threads: int | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads={threads} must be at least 1")
        self.engine, self.inputs, self.outputs = engine, tuple(inputs), tuple(outputs)
        self.pipeline, self.bundle, self.threads = pipeline, bundle, threads
        self._names = [port.name for port in self.outputs]

    @classmethod
    def of(
        cls,
        program: Program,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        precision: Precision = "fp32",
        memory: int | None = None,
        **options: Any,
    ) -> Session:
        """A session of a traced program; names of inputs and outputs default to its own.

        memory   bytes that plans for input shapes used earlier may keep
        """
        from pdl.runtime.plan import MEMORY, Plans

        program = _in_precision(program, precision)
        with _faults(options.get("bundle"), PdlError):
            engine = Plans(program, memory=MEMORY if memory is None else memory)
        names = outputs or [f"y{i}" if len(program.outputs) > 1 else "y" for i in range(len(program.outputs))]
        takes = [
            Port(name, v.spec.shape, v.spec.dtype)
            for name, v in zip(inputs or [v.name or "x" for v in program.inputs], program.inputs, strict=True)
        ]
        gives = [Port(n, v.spec.shape, v.spec.dtype) for n, v in zip(names, program.outputs, strict=True) if v]
        return cls(engine, takes, gives, **options)

    def __call__(self, item: Any) -> Any:
        """The prediction for one input: an image, a row, or whatever else the model's pipeline takes."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[Any]:
        """The predictions for several items, in order; samples that fit go through the model together."""
        if self.pipeline is None:
            names = ", ".join(str(port) for port in self.inputs)
            raise UsageError(f"this model has no pipeline; give arrays: session.run({{...}}) with {names}")
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Any], *, timer: Timer | None = None) -> dict[str, Array]:
        """The outputs by name, for arrays by name; the caller owns them.

        timer   called as timer(node, begin, end) for every node, in seconds of `time.perf_counter`
        """
        arrays = self._arrays(inputs)
        before = None if self.threads is None else runtime.limit_threads(self.threads)
        try:  # `threads.limit` and `_faults` without the microseconds that context managers take
            made = self.engine(arrays, timer)
        except PdlError:
            raise
        except Exception as error:
            with _faults(self.bundle):
                raise error
        finally:
            if before is not None:
                runtime.limit_threads(before)
        return dict(zip(self._names, made, strict=True))

    def _arrays(self, inputs: Mapping[str, Any]) -> list[Array]:
        try:
            found = [self._array(port, inputs[port.name]) for port in self.inputs]
        except KeyError:
            found = []
        if not len(found) == len(inputs) == len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise UsageError(f"the model takes the inputs {names}; got {', '.join(inputs) or 'none'}")
        return found

    def _array(self, port: Port, value: Any) -> Array:
        array = np.asarray(value)
        if port.dtype is not None and array.dtype != port.dtype:
            if not np.can_cast(array.dtype, port.dtype, "same_kind"):
                raise DtypeError(f"input {port.name} is {port.dtype.name}, got {array.dtype}; convert it first")
            array = array.astype(port.dtype)
        if port.shape is not None and array.ndim != len(port.shape):
            raise ShapeError(f"input {port}: got an array of shape {array.shape}")
        return array


def load(
    source: str | Path | bytes, *, threads: int | None = None, precision: Precision = "fp32", memory: int | None = None
) -> Session:
    """The session of a bundle, given by its path or its bytes.

    threads     that kernels use in this session; by default all cores this process may use
    precision   "bf16" stores activations and weights in bfloat16 and computes sums in float32
    memory      bytes that plans for input shapes used earlier may keep; by default 256 MiB

    Raises DataError where the file is damaged or no bundle, PackageError where it needs a step of a distribution that
    is not installed.
    """
    from pdl.runtime.bundle import read

    return of_bundle(read(source), threads=threads, precision=precision, memory=memory)


def of_bundle(bundle: Bundle, *, precision: Precision = "fp32", memory: int | None = None, **options: Any) -> Session:
    """The session of a bundle that has been read; the arguments are those of `load`. With `pipeline=None` none of its
    steps are looked for."""
    from pdl.runtime.pipeline import Pipeline

    if "pipeline" not in options:
        options["pipeline"] = Pipeline.of(bundle)
    options["bundle"] = bundle
    stored = bundle.program
    if stored["kind"] == "onnx":
        return _of_graph(stored["graph"], bundle.weights, precision, memory, options)
    names = {"inputs": stored["inputs"], "outputs": stored["outputs"]}
    return Session.of(bundle.build(), **names, precision=precision, memory=memory, **options)


def _of_graph(
    graph: Any, weights: Mapping[str, Array], precision: str, memory: int | None, options: dict[str, Any]
) -> Session:
    """The session of an ONNX graph that no one program can hold."""
    from pdl.onnx.graph import Graph
    from pdl.runtime.graphs import Graphs
    from pdl.runtime.plan import MEMORY

    if precision != "fp32":
        raise UsageError(f"precision={precision!r}: this model is an ONNX graph traced at run time, which runs in fp32")
    engine = Graphs(Graph.from_dict(graph, weights), memory=MEMORY if memory is None else memory)
    return Session(engine, *engine.ports(), **options)


@contextmanager
def _faults(bundle: Bundle | None, *explained: type[Exception]) -> Iterator[None]:
    """What the program of a bundle runs into as a DataError that names the file: what nobody explains, and errors of
    the classes in `explained`."""
    try:
        yield
    except Exception as error:
        if bundle is None or (isinstance(error, PdlError) and not isinstance(error, explained)):
            raise
        said = str(error) if isinstance(error, PdlError) else f"{type(error).__name__}: {error}"
        raise DataError(f"{bundle.source}: its program cannot be run ({said}); export it again") from error


def _in_precision(program: Program, precision: str) -> Program:
    if precision == "fp32":
        return program
    if precision != "bf16":
        raise UsageError(f"precision={precision!r} must be 'fp32' or 'bf16'")
    from pdl.program.passes.precision import to_bf16
    from pdl.runtime.plan import frozen

    return to_bf16(frozen(program))
