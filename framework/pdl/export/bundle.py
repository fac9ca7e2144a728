"""Writing a bundle: traced, packed, run through the runtime against the model it came from, and only then put in place.

The check runs on real samples, in float32, one by one and together:

- the pipeline of the bundle gives the arrays that training's gives: of a picture within one of 256 grey levels, of
  anything else exactly;
- on the same arrays the outputs differ by at most 1e-5 of the larger of 1 and the largest output;
- the answers (label, labels, text or items) are the same; items whose scores are that close may change places.

A bundle that fails any of these is not written.

With `store="bf16"` or `"fp16"` matrices and kernels lie in the file in half the bytes, each number rounded once; the
program stays in float32. Vectors (biases, norms) stay float32: they are few, and statistics span many magnitudes. The
bundle with float32 weights must pass the check above first; then the stored one must give the same answers, with
outputs within `ROUNDINGS` times one rounding of the largest (6 % for bf16, 0.8 % for fp16). Rounding errors of layers
are independent and add up like the root of their number, so this leaves room for hundreds of layers; what is beyond has
been damaged by the storage. What the rounding costs in the task's own metric is measured by `pdl export`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl.dtype import Array
from pdl.errors import CheckError, UsageError
from pdl.export.deployment import Deployment
from pdl.export.symbolic import trace_symbolic
from pdl.files import write_atomic
from pdl.program import Program
from pdl.runtime import bundle
from pdl.runtime.sample import Sample
from pdl.runtime.session import Session, load
from pdl.runtime.weights import HALVES
from pdl.tensor import as_tensor, no_grad

TOLERANCE = 1e-5
ANSWERS = ("label", "labels", "text")
Store = Literal["fp32", "bf16", "fp16"]
#: the largest relative error of one rounding
ROUNDING = {"bf16": 2.0**-8, "fp16": 2.0**-11}
ROUNDINGS = 16
_FAULT = "This is a fault in pdl: please report it with the recipe"


@dataclass(frozen=True)
class Comparison:
    """Bundle against model: number of samples, largest difference of outputs (see the module), and of prepared
    pictures in grey levels (None where inputs are none)."""

    samples: int
    difference: float
    levels: float | None


@dataclass(frozen=True)
class Written:
    """A bundle that was written, and what it was held to; `notes` are lines for people.

    comparison  of the bundle with float32 weights
    stored      of the bundle as it lies in the file, where that is in halves
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

    store   "bf16" or "fp16" keep weights in half the bytes; see the module
    """
    program, notes = trace_symbolic(deployment.module, deployment.inputs)
    data = to_bytes(program, deployment, name=name, metrics=metrics, config=config)
    comparison, stored = compare(load(data), deployment), None
    if store != "fp32":
        data = to_bytes(program, deployment, name=name, metrics=metrics, config=config, store=store)
        stored = compare_stored(load(data), deployment, store)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(target, data)
    return Written(target, len(data), program, comparison, notes, stored)


def to_bytes(
    program: Program,
    deployment: Deployment,
    *,
    name: str = "model",
    metrics: Mapping[str, float | None] | None = None,
    config: str = "",
    store: Store = "fp32",
) -> bytes:
    """The bundle, unchecked."""
    content, arrays = content_of(program, list(deployment.inputs), list(deployment.outputs))
    if store != "fp32":
        arrays = halved(arrays, store)
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
        about={**deployment.about, **({} if store == "fp32" else {"stored": f"matrices and kernels in {store}"})},
    )


def halved(arrays: Mapping[str, Array], store: Store) -> dict[str, Array]:
    """The arrays as they are stored: float32 of two and more dimensions rounded to the nearest bfloat16 or float16.

    UsageError for another word, CheckError where a finite number is too large for float16.
    """
    if store not in HALVES:
        raise UsageError(f"--store {store}: choose fp32, {' or '.join(HALVES)}")
    kept = {}
    for name, array in arrays.items():
        kept[name] = array
        if array.dtype == np.float32 and array.ndim >= 2:
            with np.errstate(over="ignore"):
                kept[name] = array.astype(HALVES[store])
            if not np.array_equal(np.isfinite(kept[name]), np.isfinite(array)):
                largest = float(np.abs(array[np.isfinite(array)]).max())
                raise CheckError(
                    f"{name} holds {largest:.3g}, more than the 65504 of float16; nothing was written: use --store bf16"
                )
    return kept


def compare_stored(session: Session, deployment: Deployment, store: Store) -> Comparison:
    """Hold a bundle with rounded weights to the model: the same answers, outputs within `ROUNDINGS` roundings."""
    try:
        return compare(session, deployment, ROUNDINGS * ROUNDING[store], "Rounding costs this model too much")
    except CheckError as error:
        other = "--store fp16, which rounds finer, or --store fp32" if store == "bf16" else "--store fp32"
        raise CheckError(f"with weights stored as {store}: {error}; use {other}") from None


def content_of(program: Program, inputs: list[str], outputs: list[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """program.json and the arrays of a program; every captured tensor gets a name of its own."""
    program = program.copy()
    names = program.names()
    for value in program.captures:
        value.name = names[value]
    arrays = {names[v]: v.tensor._data for v in program.captures if v.tensor is not None}
    return {"kind": "program", "program": program.to_dict(), "inputs": inputs, "outputs": outputs}, arrays


def compare(session: Session, deployment: Deployment, tolerance: float = TOLERANCE, reason: str = _FAULT) -> Comparison:
    """Hold a session to the model on the deployment's samples; CheckError, with the reason, beyond the tolerance."""
    wanted = [deployment.prepare(sample) for sample in deployment.samples]
    levels = _compare_inputs(session, deployment, wanted)
    worst = 0.0
    for members in _batches(session, wanted):
        for group in [*([i] for i in members), members] if len(members) > 1 else [members]:
            samples = [wanted[i] for i in group]
            arrays = _joined(session, samples)
            ours, theirs = session.run(arrays), run_model(deployment, arrays)
            worst = max(worst, _difference(ours, theirs))
            _demand_same_answers(session, ours, theirs, samples, tolerance)
    if not worst <= tolerance:
        raise CheckError(
            f"the bundle's outputs differ from the model's by {worst:.2g} of the largest, more than {tolerance:g}; "
            f"nothing was written. {reason}"
        )
    return Comparison(len(wanted), worst, levels)


def run_model(deployment: Deployment, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of the model itself, by name, in evaluation mode."""
    module, training = deployment.module, deployment.module.training
    module.eval()
    try:
        with no_grad():
            made = module(*[as_tensor(arrays[name]) for name in deployment.inputs])
    finally:
        module.train(training)
    tensors = made if isinstance(made, tuple | list) else (made,)
    return {name: t.numpy() for name, t in zip(deployment.outputs, tensors, strict=True)}


def _batches(session: Session, inputs: list[dict[str, Array]]) -> Iterator[list[int]]:
    """The numbers of samples that go through the model together."""
    if session.pipeline is None:
        yield from ([number] for number in range(len(inputs)))
    else:
        yield from (members for members, _ in session.pipeline.batches([Sample(each) for each in inputs]))


def _joined(session: Session, samples: list[dict[str, Array]]) -> dict[str, Array]:
    """Samples as one batch."""
    if session.pipeline is not None:
        return session.pipeline.joined(samples)
    return {name: np.stack([each[name] for each in samples]) for name in samples[0]}


def _compare_inputs(session: Session, deployment: Deployment, wanted: list[dict[str, Array]]) -> float | None:
    """The largest difference between both pipelines, in grey levels of a picture; what is no picture must be equal."""
    if session.pipeline is None:
        return 0.0
    level = _level(next(iter(deployment.pre.values()))) if session.pipeline.reader is None else None
    worst = 0.0
    for sample, theirs in zip(deployment.samples, wanted, strict=True):
        ours = session.pipeline.prepare(sample)
        for name, array in theirs.items():
            if ours[name].shape != array.shape or ours[name].dtype != array.dtype:
                raise CheckError(
                    f"the bundle's pipeline makes {ours[name].dtype} {ours[name].shape} of a sample, training's "
                    f"{array.dtype} {array.shape}; nothing was written"
                )
            if level is not None:
                worst = max(worst, float(np.abs(ours[name].astype(np.float64) - array).max(initial=0)) / level)
            elif not np.array_equal(ours[name], array):
                raise CheckError(
                    f"the bundle's pipeline makes another {name} of {str(sample)[:60]} than training's; nothing was "
                    "written"
                )
    if worst > 1.001:
        raise CheckError(
            f"the bundle's pipeline differs from training's by {worst:.2g} grey levels, more than 1; "
            "nothing was written"
        )
    return None if level is None else worst


def _level(steps: list[dict[str, Any]]) -> float:
    """What one of 256 grey levels becomes in the prepared array."""
    for step in steps:
        if step["step"] == "normalize":
            return 1 / 255 / min(step["std"])
        if step["step"] == "to_float":
            return 1 / 255
    return 1.0


def _difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """max |a - b| / max(1, max |b|) over the outputs; infinite where shapes differ or only one has NaN."""
    worst = 0.0
    for name, b in theirs.items():
        a = ours[name]
        if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
            return float("inf")
        off = float(np.nanmax(np.abs(a.astype(np.float64) - b), initial=0.0))
        worst = max(worst, off / max(1.0, float(np.nanmax(np.abs(b.astype(np.float64)), initial=0.0))))
    return worst


def _demand_same_answers(
    session: Session,
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    samples: list[dict[str, Array]],
    tolerance: float,
) -> None:
    if session.pipeline is None:
        return
    for row, inputs in enumerate(samples):
        sample = Sample(inputs)
        a, b = (session.pipeline.finish({name: y[row] for name, y in each.items()}, sample) for each in (ours, theirs))
        if not isinstance(a, dict):
            continue
        for key in ANSWERS:
            if key in a and _names(a[key]) != _names(b[key]):
                raise CheckError(
                    f"the bundle answers {a[key]!r} where the model answers {b[key]!r}; nothing was written"
                )
        if "items" in a and not _same_items(a["items"], b["items"], tolerance):
            raise CheckError(
                f"the bundle ranks {_names(a['items'], 'item')} where the model ranks {_names(b['items'], 'item')}; "
                "nothing was written"
            )


def _same_items(a: list[dict[str, Any]], b: list[dict[str, Any]], tolerance: float) -> bool:
    """Whether two rankings are the same but for items whose scores are as close as outputs may be."""
    most = 2 * tolerance * max([1.0, *(abs(each["score"]) for each in b)])
    return len(a) == len(b) and all(
        x["item"] == y["item"] or abs(x["score"] - y["score"]) <= most for x, y in zip(a, b, strict=True)
    )


def _names(answer: Any, key: str = "label") -> Any:
    """An answer without its scores."""
    return [each[key] for each in answer] if isinstance(answer, list) else answer
