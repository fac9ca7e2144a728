"""Writing a bundle: traced, packed, run through the runtime against the model it came from, and only then put in place.

The check runs on real samples, in float32, one by one and together:

- the pipeline of the bundle gives the arrays that training's gives, exactly or as near as the input step allows: of an
  image within one of 256 grey levels;
- on the same arrays the outputs differ by at most the deployment's tolerance, by default 1e-5, of the larger of 1 and
  the largest output;
- the answers are the same, as the last step of an output compares them (`PostStep.agrees`); of nets that write token
  by token these are words, and outputs are what is computed of the sources, and the scores of every step on the way.

A bundle that fails any of these is not written.

With `store="bf16"` or `"fp16"` matrices and kernels lie in the file in half the bytes, each number rounded once; the
program stays in float32. Vectors (biases, norms) stay float32: they are few, and statistics span many magnitudes. The
bundle with float32 weights must pass the check above first; then the stored one must give the same answers, with
outputs within `ROUNDINGS` times one rounding of the largest (6 % for bf16, 0.8 % for fp16). Rounding errors of layers
are independent and add up like the root of their number, so this leaves room for hundreds of layers; what is beyond has
been damaged by the storage. With "k4" to "k8" the elements of each matrix and kernel share 2^4 to 2^8 values, which
are chosen for it, and only their numbers are stored; the same check holds, with a rounding of 2^-4 to 2^-8. What the
rounding costs in the task's own metric is measured by `pdl export`. Zeros of arrays that are mostly such, as those of
a net whose weights were pruned one by one, are left out of any program's bundle, exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from pdl.dtype import Array
from pdl.errors import CheckError, UsageError
from pdl.export.decoder import Traced, trace_decoder
from pdl.export.deployment import Deployment
from pdl.export.stream import TracedStream, trace_stream
from pdl.export.symbolic import trace_symbolic
from pdl.files import write_atomic
from pdl.nn.decoder import Decoder
from pdl.program import Program
from pdl.runtime import bundle, streams
from pdl.runtime.decoding import stored
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.sample import Sample
from pdl.runtime.session import Session, of_bundle
from pdl.runtime.weights import BITS, HALVES, coded, without_zeros

Store = Literal["fp32", "bf16", "fp16", "k4", "k5", "k6", "k7", "k8"]
#: how a word of `Store` shares values: bits of an element
SHARED = {f"k{bits}": bits for bits in BITS}
#: the largest relative error of one rounding; of shared values, of the largest number
ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11, **{store: 2.0**-bits for store, bits in SHARED.items()}}
ROUNDINGS = 16
_FAULT = "This is a fault in pdl: please report it with the recipe"


@dataclass(frozen=True)
class Comparison:
    """Bundle against model: number of samples, largest difference of outputs (see the module), and of prepared inputs
    as a share of what their steps allow (None where they must be equal)."""

    samples: int
    difference: float
    prepared: float | None


@dataclass(frozen=True)
class Written:
    """A bundle that was written, and how it was checked; `notes` are lines for people.

    comparison  of the bundle with float32 weights
    stored      of the bundle as stored, where that is in half the bytes
    """

    path: Path
    size: int
    program: Program
    comparison: Comparison
    notes: list[str] = field(default_factory=list)
    stored: Comparison | None = None


def write(
    path: str | Path,
    deployment: Deployment,
    *,
    name: str = "model",
    metrics: Mapping[str, float | None] | None = None,
    config: str = "",
    store: Store = "fp32",
) -> Written:
    """Write the bundle of a deployment, whole or not at all. CheckError where it does not agree with the model.

    store   "bf16" or "fp16" keep weights in half the bytes, "k4" to "k8" as shared values; see the module
    """
    program, notes = traced(deployment)
    stream = None if deployment.stream is None else trace_stream(deployment.stream)
    data = to_bytes(program, deployment, name=name, metrics=metrics, config=config, stream=stream)
    comparison, kept = compare(of_bundle(bundle.read(data)), deployment), None
    if store != "fp32":
        data = to_bytes(program, deployment, name=name, metrics=metrics, config=config, store=store, stream=stream)
        kept = compare_stored(of_bundle(bundle.read(data)), deployment, store)
    target = Path(path)
    write_atomic(target, data)
    main = program.step if isinstance(program, Traced) else program
    return Written(target, len(data), main, comparison, notes, kept)


def traced(deployment: Deployment) -> tuple[Program | Traced, list[str]]:
    """The program of a deployment, or the two of a decoder, and a line for every size that had to be fixed."""
    if deployment.writing is None:
        return trace_symbolic(deployment.module, deployment.inputs)
    if not isinstance(deployment.module, Decoder):
        raise UsageError(f"{type(deployment.module).__name__} is no pdl.nn.Decoder, so it cannot write token by token")
    own = {name: spec for name, spec in deployment.inputs.items() if name != deployment.writing.prompt}
    made = trace_decoder(deployment.module, own)
    return made, made.notes


def to_bytes(
    program: Program | Traced,
    deployment: Deployment,
    *,
    name: str = "model",
    metrics: Mapping[str, float | None] | None = None,
    config: str = "",
    store: Store = "fp32",
    stream: TracedStream | None = None,
) -> bytes:
    """The bundle, unchecked."""
    if isinstance(program, Traced):
        assert deployment.writing is not None
        parts = (program.encode, program.step, program.kinds, deployment.writing)
        content, arrays = stored.content_of(*parts, list(deployment.inputs))
    else:
        content, arrays = content_of(program, list(deployment.inputs), list(deployment.outputs), stream)
    if store != "fp32":
        arrays = as_stored(arrays, store)
    about = {} if store == "fp32" else {"stored": f"matrices and kernels {_how(store)}"}
    if isinstance(program, Program):
        whole, arrays = arrays, {name: without_zeros(array) for name, array in arrays.items()}
        if sparse := sum(arrays[name] is not array for name, array in whole.items()):
            about["zeros"] = f"left out of {sparse} tensor{'s' * (sparse > 1)}"
    return bundle.pack(
        content,
        arrays,
        name=name,
        pipeline={"pre": deployment.pre, "post": deployment.post},
        labels=deployment.labels,
        vocabularies=deployment.vocabularies,
        constants=deployment.constants,
        card=deployment.card,
        config=config,
        licence=deployment.licence,
        metrics=metrics,
        about={**deployment.about, **about},
    )


def _how(store: Store) -> str:
    return f"of {1 << SHARED[store]} shared values" if store in SHARED else f"in {store}"


def as_stored(arrays: Mapping[str, Array], store: Store) -> dict[str, Array]:
    """The arrays as they are stored: float32 of two and more dimensions rounded to the nearest bfloat16 or float16, or
    as shared values, where that takes fewer bytes.

    UsageError for another word, CheckError where a finite number is too large for float16, or values cannot be shared.
    """
    if store not in ROUNDING:
        raise UsageError(f"--store {store}: choose one of {', '.join(get_args(Store))}")
    form = _shared if store in SHARED else _halved
    return {
        name: form(name, array, store) if array.dtype == np.float32 and array.ndim >= 2 else array
        for name, array in arrays.items()
    }


def _shared(name: str, array: Array, store: Store) -> Array:
    if not np.isfinite(array).all():
        raise CheckError(f"{name} has numbers that are not finite, which share no values; use --store fp32")
    made = coded(array, SHARED[store]) if array.size else array
    return made if made.nbytes < array.nbytes else array


def _halved(name: str, array: Array, store: Store) -> Array:
    with np.errstate(over="ignore"):
        made: Array = array.astype(HALVES[store])
    if not np.array_equal(np.isfinite(made), np.isfinite(array)):
        largest = float(np.abs(array[np.isfinite(array)]).max())
        raise CheckError(
            f"{name} holds {largest:.3g}, more than the 65504 of float16; nothing was written: use --store bf16"
        )
    return made


def compare_stored(session: Session, deployment: Deployment, store: Store) -> Comparison:
    """Hold a bundle with rounded weights to the model: the same answers, outputs within `ROUNDINGS` roundings."""
    try:
        return compare(session, deployment, ROUNDINGS * ROUNDING[store], "Rounding costs this model too much")
    except CheckError as error:
        finer = "fp16" if store == "bf16" else f"k{SHARED[store] + 1}" if SHARED.get(store, 8) < 8 else ""
        other = f"--store {finer}, which rounds finer, or --store fp32" if finer else "--store fp32"
        raise CheckError(f"with weights stored as {store}: {error}; use {other}") from None


def content_of(
    program: Program, inputs: list[str], outputs: list[str], stream: TracedStream | None = None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """program.json and the arrays of a program, and of the step of a stream; every captured tensor gets a name of its
    own."""
    if stream is None:
        made, arrays = stored.stored_together({"program": program})
        return {"kind": "program", **made, "inputs": inputs, "outputs": outputs}, arrays
    made, arrays = stored.stored_together({"program": program, "stream": stream.step})
    step = streams.to_dict(made["stream"], stream.kinds, stream.framing)
    content = {"kind": "program", "program": made["program"], "inputs": inputs, "outputs": outputs, "stream": step}
    return content, arrays


def compare(
    session: Session, deployment: Deployment, tolerance: float | None = None, reason: str = _FAULT
) -> Comparison:
    """Hold a session to the model on the deployment's samples; CheckError, with the reason, beyond the tolerance, by
    default the deployment's."""
    tolerance = deployment.tolerance if tolerance is None else tolerance
    wanted = [deployment.prepared(sample) for sample in deployment.samples]
    prepared = _compare_inputs(session, deployment, wanted)
    worst = 0.0
    for members in _batches(session, wanted):
        for group in [*([i] for i in members), members] if len(members) > 1 else [members]:
            samples = [wanted[i] for i in group]
            arrays = _collated(session, samples)
            ours, theirs = session.run(arrays), deployment.run(arrays)
            if deployment.writing is not None:
                worst = max(worst, _step_difference(session, deployment, arrays, theirs["tokens"][:, 0]))
            if session.pipeline is None or not session.pipeline.unordered:
                worst = max(worst, _difference(ours, theirs))
            if not worst <= tolerance:
                raise CheckError(
                    f"the bundle's outputs differ from the model's by {worst:.2g} of the largest, more than "
                    f"{tolerance:g}; nothing was written. {reason}"
                )
            _check_answers(session, ours, theirs, [deployment.samples[i] for i in group], tolerance)
        if session.streams is not None:
            worst = max(worst, _stream_difference(session, deployment, [wanted[i] for i in members], tolerance))
    return Comparison(len(wanted), worst, prepared)


def _batches(session: Session, inputs: list[dict[str, Array]]) -> Iterator[list[int]]:
    """The numbers of samples that go through the model together."""
    if session.pipeline is None:
        yield from ([number] for number in range(len(inputs)))
    else:
        samples = [Sample(each) for each in inputs]
        yield from (members for members, _ in session.pipeline.batches(samples, batch_size=len(samples)))


def _collated(session: Session, samples: list[dict[str, Array]]) -> dict[str, Array]:
    """Samples as one batch."""
    if session.pipeline is not None:
        return session.pipeline.collate(samples)
    return {name: np.stack([each[name] for each in samples]) for name in samples[0]}


def _compare_inputs(session: Session, deployment: Deployment, wanted: list[dict[str, Array]]) -> float | None:
    """The largest difference between both pipelines, as a share of the tolerance; None where there is none."""
    pipeline, worst, exact = session.pipeline, 0.0, True
    for sample, theirs in zip(deployment.samples, wanted, strict=True) if pipeline is not None else ():
        ours = pipeline.prepare(sample)  # type: ignore[union-attr]
        for name, array in theirs.items():
            if ours[name].shape != array.shape or ours[name].dtype != array.dtype:
                raise CheckError(
                    f"the bundle's pipeline makes {ours[name].dtype} {ours[name].shape} of a sample, training's "
                    f"{array.dtype} {array.shape}; nothing was written"
                )
            allowed = pipeline.tolerance(name)  # type: ignore[union-attr]
            exact = exact and not allowed
            if allowed:
                worst = max(worst, float(np.abs(ours[name].astype(np.float64) - array).max(initial=0)) / allowed)
            elif not np.array_equal(ours[name], array):
                raise CheckError(
                    f"the bundle's pipeline makes another {name} of {str(sample)[:60]} than training's; nothing was "
                    "written"
                )
    if worst > 1.001:
        raise CheckError(
            f"the bundle's pipeline differs from training's by {worst:.2g} of what its input allows (of an image, one "
            "of 256 grey levels); nothing was written"
        )
    return None if exact else worst


def _difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """max |a - b| / max(1, max |b|) over the outputs; infinite where shapes differ, or what is NaN or infinite."""
    worst = 0.0
    for name, b in theirs.items():
        a = ours[name]
        if a.shape != b.shape:
            return float("inf")
        finite = np.isfinite(b)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=a.dtype.kind == "f"):
            return float("inf")
        off = np.abs(a[finite].astype(np.float64) - b[finite])
        worst = max(worst, float(off.max(initial=0.0)) / max(1.0, float(np.abs(b[finite]).max(initial=0.0))))
    return worst


def answers_agree(
    pipeline: Pipeline, ours: Mapping[str, Array], theirs: Mapping[str, Array], sample: Sample, tolerance: float
) -> bool:
    """Whether the answers for a sample are the same, made of outputs that differ by `tolerance` of the largest."""
    largest = max((float(np.nanmax(np.abs(y.astype(np.float64)), initial=0.0)) for y in theirs.values()), default=0.0)
    return pipeline.agree(ours, theirs, sample, 2 * tolerance * max(1.0, largest))


def _step_difference(session: Session, deployment: Deployment, arrays: Mapping[str, Array], tokens: Array) -> float:
    """`_difference` of what a decoder computes of its sources, and of the scores of every step of the model's own
    answers."""
    writers = session.engine, deployment.writer
    given = [arrays[name] for name in deployment.inputs]
    made = [writer.replay(given, tokens) for writer in writers]  # type: ignore[attr-defined]
    return max(_difference({"": a}, {"": b}) for a, b in zip(*made, strict=True))


def _stream_difference(
    session: Session, deployment: Deployment, samples: list[dict[str, Array]], tolerance: float
) -> float:
    """`_difference` of what a stream gives and the model; CheckError beyond the tolerance."""
    worst = 0.0
    for sample in samples:
        (element,) = sample.values()
        steps = streams.run_whole(session.begin_stream(None), element, (7 * len(element) // 16,))
        theirs = deployment.run(_collated(session, [sample]))
        name = deployment.outputs[0]
        made = np.concatenate(steps) if steps else theirs[name][0, :0]
        worst = max(worst, _difference({name: made}, {name: theirs[name][0]}))
    if not worst <= tolerance:
        raise CheckError(
            f"a stream of the bundle differs from the model by {worst:.2g} of the largest output, more than "
            f"{tolerance:g}; nothing was written. {_FAULT}"
        )
    return worst


def _check_answers(
    session: Session,
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    items: Sequence[Any],
    tolerance: float,
) -> None:
    """CheckError where the answers made of two sets of outputs differ; `items` are the samples they are for."""
    pipeline = session.pipeline
    for row, item in enumerate(items if pipeline is not None else ()):
        sample = pipeline.parse(item)  # type: ignore[union-attr]
        a, b = ({name: y[row] for name, y in each.items()} for each in (ours, theirs))
        if not answers_agree(pipeline, a, b, sample, tolerance):  # type: ignore[arg-type]
            said, wanted = (pipeline.finish(each, sample) for each in (a, b))  # type: ignore[union-attr]
            raise CheckError(
                f"the bundle answers {str(said)[:300]} where the model answers {str(wanted)[:300]}; nothing was written"
            )
