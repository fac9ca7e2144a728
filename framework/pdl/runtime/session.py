"""`load` and `Session`: a model ready to run, from a bundle or a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

import numpy as np

from pdl import names
from pdl.dtype import Array, DType
from pdl.errors import DataError, DtypeError, LimitError, MemoryLimitError, PdlError, ShapeError, UsageError
from pdl.kernels import runtime
from pdl.limits import MOST_STEPS, OPENING, Limits, default_memory, enter, leave, limited, require_seconds, uncollected

if TYPE_CHECKING:
    from pathlib import Path

    from pdl.program import Program
    from pdl.runtime.bundle import Bundle
    from pdl.runtime.decoding.options import Options, Writing
    from pdl.runtime.pipeline import Pipeline
    from pdl.runtime.plan import Timer
    from pdl.runtime.streams import Stream, Streams

Precision = Literal["fp32", "bf16"]
Made = TypeVar("Made")


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
    name              for messages: the file's, or the program's
    timeout           seconds that a run may take; None: as long as it takes
    max_memory        bytes that a run may take

    A system of several models (`pdl.runtime.systems`) is one, too, whose outputs are answers rather than arrays.

    A run that is late ends with TimeLimitError at the next node of its program, one that would need more memory with
    MemoryLimitError before it takes any, one whose loops take over 65,536 steps with StepLimitError.
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
        name: str = "",
        timeout: float | None = None,
        max_memory: int | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise UsageError(f"threads={threads} must be at least 1")
        self.name = bundle.source if bundle is not None else name or "this model"
        self.timeout, self.max_memory = require_seconds(timeout), _most_memory(max_memory)
        self._limits = Limits(self.name, self.max_memory, MOST_STEPS)
        self.engine, self.inputs, self.outputs = engine, tuple(inputs), tuple(outputs)
        self.pipeline, self.bundle, self.threads = pipeline, bundle, threads
        self._names = [port.name for port in self.outputs]
        self.streams: Callable[[], Streams] | None = None

    @classmethod
    def of(
        cls,
        program: Program,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        precision: Precision = "fp32",
        memory: int | None = None,
        tune: bool | None = None,
        measuring: bool = False,
        **options: Any,
    ) -> Session:
        """A session of a traced program; names of inputs and outputs default to its own.

        memory    bytes that plans for input shapes used earlier may keep
        tune      as `load` has it
        measuring whether the machine may be measured, where a plan needs its figures and it has not been
        options   further arguments of `Session`; `timeout` and `max_memory` hold for preparing the program, too
        """
        from pdl.runtime.plan import MEMORY, Plans

        program = _in_precision(program, precision)
        takes, gives = ports(program, inputs, outputs)

        def engine() -> Plans:
            return Plans(program, memory=MEMORY if memory is None else memory, tune=tune, measuring=measuring)

        return cls(_prepared(engine, program.name, **options), takes, gives, **{"name": program.name, **options})

    def __repr__(self) -> str:
        source = "" if self.bundle is None else f"{self.bundle.source}: "
        takes, gives = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"Session({source}{takes} -> {gives})"

    @property
    def writing(self) -> Writing | None:
        """How a model that writes token by token is asked, with the options of its search; None of others."""
        return getattr(self.engine, "writing", None)

    def with_options(self, options: Options | None = None, **values: Any) -> Session:
        """The same session of a model that writes token by token, with other options of its search (beams=4, ...; see
        `pdl.runtime.decoding.Options`). UsageError for other models."""
        if self.writing is None:
            raise UsageError(f"{self.name} does not write token by token, so it has no options of decoding")
        made, found = copy(self), (options or self.writing.options).but(**values)
        made.engine = self.engine.with_options(found)  # type: ignore[attr-defined]
        made.pipeline = None if self.pipeline is None else self.pipeline.written_by(found)
        return made

    @overload
    def stream(self, item: Any, /) -> Iterator[str]: ...

    @overload
    def stream(self, **options: Any) -> Stream: ...

    def stream(self, *items: Any, **options: Any) -> Any:
        """Of a model that reads chunk by chunk: a `pdl.runtime.streams.Stream`, to `push` pieces of a sequence to;
        `options` are those of its input (of recordings `rate`, in Hz). Of a model that writes token by token, and one
        `item`: its text, bit by bit as it is written."""
        if not items:
            return self.begin_stream(self.pipeline, **options)
        from pdl.runtime.decoding.writer import streamed

        return streamed(self, *items)

    def begin_stream(self, pipeline: Pipeline | None, **options: Any) -> Stream:
        """A stream with the steps of this pipeline. UsageError where the net reads whole inputs alone."""
        from pdl.runtime.streams import Stream

        if self.streams is None:
            raise UsageError(
                f"{self.name} answers for whole inputs and cannot be streamed; a recogniser can, whose recipe has "
                "model.chunk or model.direction=forward"
            )
        return Stream(self.streams(), pipeline, limits=self._held, **options)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The limits of the session, and its threads."""
        with limited(self.name, nbytes=self.max_memory, seconds=self.timeout), _faults(self.bundle):
            before = None if self.threads is None else runtime.limit_threads(self.threads)
            try:
                yield
            finally:
                if before is not None:
                    runtime.limit_threads(before)

    def stream_tokens(self, inputs: Mapping[str, Any]) -> Iterator[Any]:
        """The tokens for a batch of inputs by name, as they are written (`pdl.runtime.decoding.Token`)."""
        tokens = self.engine.stream(self._arrays(inputs))  # type: ignore[attr-defined]
        with limited(self.name, nbytes=self.max_memory, seconds=self.timeout):
            yield from tokens

    def __call__(self, item: Any, *, timeout: float | None = None) -> Any:
        """The prediction for one input: an image, a row, or whatever else the model's pipeline takes.

        timeout   seconds that it may take; None: those of the session
        """
        return self.batch([item], timeout=timeout)[0]

    def batch(self, items: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        """The predictions for several items, in order; samples that fit go through the model together.

        timeout   seconds that all of it may take; None: those of the session
        """
        if self.pipeline is None:
            names = ", ".join(str(port) for port in self.inputs)
            raise UsageError(f"this model has no pipeline; give arrays: session.run({{...}}) with {names}")
        seconds = self.timeout if timeout is None else require_seconds(timeout)
        with limited(self.name, seconds=seconds):
            return [answer.plain() for answer in self.pipeline.answers(items, partial(self.run, timeout=seconds))]

    def run(
        self, inputs: Mapping[str, Any], *, timer: Timer | None = None, timeout: float | None = None
    ) -> dict[str, Array]:
        """The outputs by name, for arrays by name; the caller owns them.

        timer     called as timer(node, begin, end) for every node, in seconds of `time.perf_counter`
        timeout   seconds that it may take; None: those of the session
        """
        arrays = self._arrays(inputs)
        seconds = self.timeout if timeout is None else require_seconds(timeout)
        before = None if self.threads is None else runtime.limit_threads(self.threads)
        outer = enter(self._limits, seconds)
        try:  # `threads.limit`, `limited` and `_faults` without the microseconds that context managers take
            made = self.engine(arrays, timer)
        except PdlError:
            raise
        except Exception as error:
            with _faults(self.bundle):
                raise error
        finally:
            leave(outer)
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
            absent = ", ".join(str(port) for port in self.inputs if port.name not in inputs)
            missing = f"; without {absent}" if absent else ""
            raise UsageError(f"the model takes the inputs {names}; got {', '.join(inputs) or 'none'}{missing}")
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
    source: str | Path | bytes,
    *,
    threads: int | None = None,
    precision: Precision = "fp32",
    memory: int | None = None,
    max_memory: int | None = None,
    timeout: float | None = None,
    tune: bool | None = None,
) -> Session:
    """The session of a bundle, given by its path or its bytes, or by a name of the hub such as "cv/digits_lenet", which
    is fetched when it is first used.

    threads      that kernels use in this session; by default all cores this process may use
    precision    "bf16" stores activations and weights in bfloat16 and computes sums in float32
    memory       bytes that plans for input shapes used earlier may keep; by default 256 MiB
    max_memory   bytes that a run may take, without weights; by default three quarters of this machine's memory. Threads
                 that run at the same time take as much each
    timeout      seconds that preparing its program may take, and each run; by default 5 minutes
                 (`pdl.limits.OPENING`), and runs as long as they take
    tune         True: the first run of every input shape times the forms of its products that were not timed yet on
                 this machine, for up to 8 seconds, and keeps what it finds for all later sessions; None: what was
                 timed counts; False: forms are chosen by estimates alone

    Forms of a product sum in different orders, so answers may differ in their last digits between machines, and after
    tuning.

    Raises DataError where the file is damaged or no bundle, PackageError where it needs a step of a distribution that
    is not installed, TimeLimitError and MemoryLimitError where its program is over a limit.
    """
    from pdl.runtime.bundle import read

    if isinstance(source, str):
        source = names.find(source) or source
    options = {"threads": threads, "max_memory": max_memory, "timeout": timeout}
    choosing = {"tune": tune, "measuring": True}
    with uncollected():
        bundle = read(source, waiting=False)
        try:
            return of_bundle(bundle, precision=precision, memory=memory, choosing=choosing, **options)
        finally:
            bundle.require_whole()  # what is not as it was written explains any other fault
            bundle.forget()


def in_turns(*predictors: Any) -> None:
    """Let sessions that run one after the other, as parts of a system do, run in one block of memory, which is as large
    as the largest of them needs. Where threads run several at the same time, each has a block of its own all the same.
    A predictor that is no session stays as it is."""
    from pdl.runtime.plan import Plans

    engines = [getattr(each, "engine", None) for each in predictors]
    plans = [each for each in engines if isinstance(each, Plans)]
    for each in plans[1:]:
        each.run_in(plans[0].lanes)


def of_bundle(
    bundle: Bundle,
    *,
    precision: Precision = "fp32",
    memory: int | None = None,
    choosing: Mapping[str, Any] | None = None,
    **options: Any,
) -> Session:
    """The session of a bundle that has been read; the arguments are those of `load`. With `pipeline=None` none of its
    steps are looked for. `choosing` has the arguments `tune` and `measuring` of `Session.of`: a machine is not measured
    by default."""
    from pdl.runtime.pipeline import Pipeline

    stored = bundle.program
    if stored["kind"] == "system":
        return _of_system(bundle, {"precision": precision, "memory": memory, "choosing": choosing}, options)
    if "pipeline" not in options:
        options["pipeline"] = Pipeline.of(bundle)
    options["bundle"] = bundle
    if stored["kind"] == "decoder":
        return _of_decoder(bundle, precision, memory, choosing or {}, options)
    if stored["kind"] == "onnx":
        return _of_graph(stored["graph"], bundle.weights, precision, memory, choosing or {}, options)
    names = {"inputs": stored["inputs"], "outputs": stored["outputs"]}
    made = Session.of(bundle.build(), **names, precision=precision, memory=memory, **(choosing or {}), **options)
    if "stream" in stored:
        made.streams = cache(lambda: _streams(bundle, precision, choosing or {}, options))
    return made


def _streams(bundle: Bundle, precision: str, choosing: Mapping[str, Any], options: Mapping[str, Any]) -> Streams:
    """What reads chunks, of a bundle that can be streamed."""
    from pdl.runtime.streams import Streams

    def engine() -> Streams:
        program, kinds, framing = bundle.build_stream()
        return Streams(program, kinds, framing, **choosing)

    if _is_bf16(precision):
        raise UsageError(f"{bundle.source}: a stream runs in fp32")
    return _prepared(engine, "", **options)


def _of_system(bundle: Bundle, choosing: Mapping[str, Any], options: dict[str, Any]) -> Session:
    """The session of several models that answer together; each has a session of its own with the same options."""
    from pdl.runtime.systems import Together, assembled

    options.pop("pipeline", None)
    parts = {name: of_bundle(part, **choosing, **options) for name, part in bundle.parts.items()}
    engine = Together(assembled(bundle, parts))
    takes, gives = ([Port(name, None, None) for name in names] for names in (engine.inputs, engine.outputs))
    return Session(engine, takes, gives, pipeline=engine.predictor.pipeline, bundle=bundle, **options)


def _of_decoder(
    bundle: Bundle, precision: str, memory: int | None, choosing: Mapping[str, Any], options: dict[str, Any]
) -> Session:
    """The session of a net that writes token by token."""
    from pdl.dims import Dim
    from pdl.dtype import int64
    from pdl.runtime.decoding.options import OUTPUTS
    from pdl.runtime.decoding.programs import Programs
    from pdl.runtime.decoding.writer import Writer
    from pdl.runtime.plan import MEMORY

    if _is_bf16(precision):
        raise UsageError(f"{bundle.source}: writes token by token, which runs in fp32")
    encode, step, kinds, writing = bundle.build_decoder()

    def engine() -> Programs:
        return Programs(encode, step, kinds, memory=MEMORY if memory is None else memory, **choosing)

    pipeline, inputs = options["pipeline"], bundle.program["inputs"]
    if pipeline is not None:
        pipeline = options["pipeline"] = pipeline.written_by(writing.options)
    last = None if pipeline is None else pipeline.writes
    made = Writer(_prepared(engine, "", **options), writing, inputs, None if last is None else last.text)
    known = {v.name: Port(v.name or "", v.spec.shape, v.spec.dtype) for v in ([] if encode is None else encode.inputs)}
    n = Dim.symbol("n", 1)
    if encode is not None:
        n = encode.inputs[0].spec.shape[0]  # type: ignore[assignment]
    prompt = Port(writing.prompt or "", (n, Dim.symbol("t", 2)), int64)
    gives = [Port(name, None, None) for name in OUTPUTS]
    return Session(made, [known.get(name, prompt) for name in inputs], gives, **options)


def _of_graph(
    graph: Any,
    weights: Mapping[str, Array],
    precision: str,
    memory: int | None,
    choosing: Mapping[str, Any],
    options: dict[str, Any],
) -> Session:
    """The session of an ONNX graph that no one program can hold."""
    from pdl.onnx.graph import Graph
    from pdl.runtime.graphs import Graphs
    from pdl.runtime.plan import MEMORY

    bf16 = _is_bf16(precision)

    def engine() -> Graphs:
        made = Graph.from_dict(graph, weights)
        return Graphs(made, bf16=bf16, memory=MEMORY if memory is None else memory, **choosing)

    made = _prepared(engine, "", **options)
    return Session(made, *made.ports(), **options)


def ports(
    program: Program, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> tuple[list[Port], list[Port]]:
    """Inputs and outputs of a program under these names, or its own."""
    names = outputs or [f"y{i}" if len(program.outputs) > 1 else "y" for i in range(len(program.outputs))]
    takes = [
        Port(name, v.spec.shape, v.spec.dtype)
        for name, v in zip(inputs or [v.name or "x" for v in program.inputs], program.inputs, strict=True)
    ]
    return takes, [Port(n, v.spec.shape, v.spec.dtype) for n, v in zip(names, program.outputs, strict=True) if v]


def _prepared(
    engine: Callable[[], Made],
    name: str,
    *,
    bundle: Bundle | None = None,
    timeout: float | None = None,
    max_memory: int | None = None,
    **_: Any,
) -> Made:
    """What `engine` makes, within the limits of the session that it is for."""
    what = name if bundle is None else bundle.source
    seconds = OPENING if timeout is None else require_seconds(timeout)
    with (
        limited(what, nbytes=_most_memory(max_memory), steps=MOST_STEPS, seconds=seconds),
        _faults(bundle, PdlError),
    ):
        return engine()


def _most_memory(max_memory: int | None) -> int:
    if max_memory is not None and max_memory < 1:
        raise UsageError(f"max_memory={max_memory} must be at least 1 byte")
    return default_memory() if max_memory is None else max_memory


@contextmanager
def _faults(bundle: Bundle | None, *explained: type[Exception]) -> Iterator[None]:
    """What the program of a bundle runs into as a DataError that names the file: what nobody explains, and errors of
    the classes in `explained`."""
    try:
        yield
    except Exception as error:
        if bundle is None or isinstance(error, LimitError):
            raise
        if isinstance(error, PdlError) and not isinstance(error, explained):
            raise
        if isinstance(error, MemoryError):
            reason = f": {error}" if str(error) else ""
            raise MemoryLimitError(
                f"{bundle.source}: there is not enough memory for it{reason}; give it fewer or smaller inputs"
            ) from error
        said = str(error) if isinstance(error, PdlError) else f"{type(error).__name__}: {error}"
        raise DataError(f"{bundle.source}: its program cannot be run ({said}); export it again") from error


def _is_bf16(precision: str) -> bool:
    if precision not in ("fp32", "bf16"):
        raise UsageError(f"precision={precision!r} must be 'fp32' or 'bf16'")
    return precision == "bf16"


def _in_precision(program: Program, precision: str) -> Program:
    if not _is_bf16(precision):
        return program
    from pdl.program.passes.precision import to_bf16
    from pdl.runtime.plan import frozen

    return to_bf16(frozen(program))
