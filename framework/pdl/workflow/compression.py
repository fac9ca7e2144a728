"""`pdl compress`: a trained run as a bundle on bytes, and what that costs and saves.

Both nets, in floats and on bytes, run in the same runtime over the same split, under the task's own metrics. Ranges
come from other samples: the validation data, or the training data where there is none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdl import random
from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.errors import CheckError, UsageError
from pdl.export.bundle import Store, to_bytes
from pdl.export.deployment import Deployment
from pdl.export.quantise.calibrate import Batch, Calibration, Error, calibrate
from pdl.export.stream import TracedStream, trace_stream
from pdl.export.symbolic import trace_symbolic
from pdl.files import read_text, write_atomic
from pdl.hub.pretrained import deferred
from pdl.nn import Module
from pdl.ops.quant import QConv, QLinear
from pdl.program import Program
from pdl.program.passes.fuse_quantised import PRODUCTS
from pdl.runtime.bundle import read
from pdl.runtime.session import Session, of_bundle
from pdl.runtime.streams import run_whole
from pdl.tensor import as_tensor, no_grad
from pdl.train.assembly import assemble
from pdl.train.deployed import Deployed
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.exporting import deployment_of
from pdl.workflow.measuring import measure, require_same_net
from pdl.workflow.run import Run
from pdl.workflow.weight_compression import BITS, compress_weights

FILE = "model.int8.pdl"
CALIBRATION = ("val", "train")
BATCHES = (1, 32)  # whose latency is measured
STREAMED = 4  # sequences that a stream is compared on


@dataclass(frozen=True)
class Pair:
    """One number of the net in floats and of the one on bytes."""

    name: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """before / after."""
        return self.before / self.after if self.after else float("inf")


@dataclass(frozen=True)
class Compressed:
    """The file, and both nets side by side.

    metrics   of the split, by name
    size      of the bundles, in bytes
    latency   median milliseconds of a batch, by its size
    errors    of rounded activations, worst first
    products  (on bytes, all)
    """

    path: Path
    split: str
    samples: int
    method: str
    metrics: list[Pair]
    size: Pair
    latency: list[Pair]
    errors: list[Error]
    products: tuple[int, int]
    notes: list[str] = field(default_factory=list)
    to: str = "int8"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "path": str(self.path), "split": self.split, "samples": self.samples, "method": self.method,
            "metrics": {p.name: {"before": p.before, "after": p.after} for p in self.metrics},
            "bytes": {"before": self.size.before, "after": self.size.after},
            "milliseconds": {p.name: {"before": p.before, "after": p.after} for p in self.latency},
            "noise_db": {e.name: round(e.noise, 2) for e in self.errors},
            "products": {"on_bytes": self.products[0], "all": self.products[1]}, "notes": self.notes,
        }  # fmt: skip


def compress(
    run: str | Path,
    out: str | Path | None = None,
    *,
    to: str = "int8",
    overrides: Sequence[str] = (),
    images: str | Path | None = None,
    samples: int = 512,
    split: str = "test",
    method: str = "mse",
    keep: str = "",
    spare: int = 0,
    weights: str | None = None,
    onnx: str | Path | None = None,
    group: int = 64,
    store: Store = "fp32",
    rounding: str = "nearest",
) -> Compressed:
    """Write the bundle of a run on bytes (RUN/model.int8.pdl by default) and compare it with the one in floats.

    to         "int8": weights and activations; "w8" and "w4": the weights of large matrices alone, in 8 or 4 bits
    overrides  point the recipe to other data
    images     a folder of images to find ranges with, in place of the run's own validation data
    samples    how many to find ranges with
    split      on which both are measured; it gives no sample to the ranges
    method     how ranges are chosen, one of `pdl.export.quantise.METHODS`
    keep       products to leave in floats: "first", "last", "both" or ""
    spare      how many more of int8: those whose bytes alone cost the outputs most (mixed precision)
    group      inputs of an output that share a scale, of "w8" and "w4"
    onnx       also write the net as an ONNX file with QuantizeLinear and DequantizeLinear
    store      "bf16" or "fp16" keep what stays in floats in half the bytes, "k4" to "k8" as shared values, of "int8"
    rounding   of weights of int8: "nearest", or "adaptive" to what keeps each layer's outputs on those samples

    Raises UsageError where nothing can be quantised, or data is missing; nothing is written then.
    """
    if to in BITS:
        if onnx is not None or images is not None or store != "fp32" or spare or rounding != "nearest":
            what = "--onnx, --store, --spare and --rounding"
            raise UsageError(f"--to {to}: needs no --images, and has no form of {what}; leave them out")
        target = Path(out) if out else None
        options: dict[str, Any] = {"overrides": overrides, "split": split, "keep": keep, "weights": weights}
        return _of_weights(compress_weights(run, target, to=to, group=group, **options), to)
    if to != "int8":
        raise UsageError(f"--to {to}: expected int8, w8 or w4")
    folder = Run.open(run)
    recipe = folder.recipe(overrides)
    source = None if images is not None else _calibration_split(recipe, split)
    task, seed = folder.task(recipe), recipe.settings.seed
    with random.fork_seed(seed):
        wanted = [each for each in recipe.data.splits if each in (split, source)]
        with deferred():
            parts = assemble(task, recipe, seed=seed, splits=wanted, training=False)
        folder.load_weights(parts.model, weights)
        if split not in parts.loaders:
            raise UsageError(f"{run}: its recipe has no data.{split} to measure on; choose another --split, or give it")
        dataset = getattr(parts.loaders[split], "dataset", None)
        deployment = deployment_of(task.deployer(recipe), parts.model, dataset)
        if deployment.writing is not None:
            raise UsageError(f"{run}: a net that writes token by token is not quantised; export it in floats")
        program, notes = trace_symbolic(deployment.module, deployment.inputs)
        if source is None:
            batches = _of_images(Path(str(images)), deployment, program, samples)
        else:
            batches = _of_split(task, parts.model, deployment, program, recipe, parts.datasets[source], samples)
        made = calibrate(program, batches, method=method, keep=keep, spare=spare, rounding=rounding)
        notes = [*notes, *([f"in floats: {', '.join(made.spared)}"] if made.spared else []), *_gained(made)]
        stream = _stream(deployment, batches, method, keep, rounding)
        before = Session.of(program, inputs=list(deployment.inputs), outputs=list(deployment.outputs))
        after = of_bundle(read(to_bytes(made.program, deployment, store=store, stream=stream)))
        scores = [measure(task, s, deployment, parts.model, parts.loaders[split], split) for s in (before, after)]
    target = Path(out) if out else folder.path / FILE
    size = _write(folder, target, program, made, deployment, scores[1], after, batches[0], store, stream)
    if stream is not None:
        notes = [*notes, _stream_note(after, [batch[0][0] for batch in batches[:STREAMED]])]
    if onnx is not None:
        notes = [*notes, _to_onnx(made, Path(onnx), deployment)]
    return Compressed(
        path=target,
        split=split,
        samples=sum(len(b[0]) for b in batches),
        method=made.method,
        metrics=[Pair(name, value, scores[1][name]) for name, value in scores[0].items()],
        size=size,
        latency=[_latency(before, after, batches[0], n) for n in BATCHES],
        errors=sorted(made.errors, key=lambda e: -e.noise),
        products=_count(made.program),
        notes=notes,
    )


def _of_weights(made: Mapping[str, Any], to: str) -> Compressed:
    latency = [] if made["latency"] is None else [Pair("a token", *made["latency"])]
    metrics, size = [Pair(*each) for each in made["metrics"]], Pair("bytes", *made["size"])
    common = {name: made[name] for name in ("path", "split", "method", "products", "notes")}
    return Compressed(**common, samples=0, metrics=metrics, size=size, latency=latency, errors=[], to=to)


def _to_onnx(made: Calibration, path: Path, deployment: Deployment) -> str:
    """Write the program of pairs; a line that says so. Whoever reads it rounds at the same places, in an order of its
    own, so it is not compared here to the last bit.
    """
    from pdl.export.onnx import to_onnx

    inputs, outputs, labels = list(deployment.inputs), list(deployment.outputs), list(deployment.labels)
    report = to_onnx(made.pairs, path, metadata={"labels": labels}, inputs=inputs, outputs=outputs)
    return f"{path}: {report.nbytes / 1e3:,.1f} kB, opset {report.opset}, {report.nodes} nodes"


def _calibration_split(recipe: Recipe, measured: str) -> str:
    """The split that gives samples for ranges: never the one that is measured."""
    for split in CALIBRATION:
        if split != measured and split in recipe.data.splits:
            return split
    raise UsageError(f"the recipe has no data but data.{measured}, which is measured; give --images FOLDER for ranges")


def _gained(made: Calibration) -> Iterator[str]:
    """A line on adaptive rounding."""
    shares = [g.adapted / g.nearest for g in made.gains if g.nearest > 0]
    if shares:
        yield (
            f"adaptive rounding leaves {np.median(shares):.0%} of a layer's squared error (the median; on rows that it "
            f"was not fitted to), and {sum(share < 1 for share in shares)} of {len(made.gains)} products changed"
        )


def _stream(
    deployment: Deployment, batches: Sequence[Batch], method: str, keep: str, rounding: str
) -> TracedStream | None:
    """The step of a net that can be streamed on bytes, with ranges from the chunks of the same samples."""
    if deployment.stream is None:
        return None
    stream = trace_stream(deployment.stream)
    chunks = [chunk for batch in batches for sequence in batch[0] for chunk in stream.inputs(sequence)]
    return replace(stream, step=calibrate(stream.step, chunks, method=method, keep=keep, rounding=rounding).program)


def _stream_note(session: Session, sequences: Sequence[Array]) -> str:
    """How far a stream is from the whole, both on bytes, whose ranges are their own."""
    worst, largest, same = 0.0, 0.0, list[Array]()
    for sequence in sequences:
        whole = session.run({session.inputs[0].name: sequence[None]})[session.outputs[0].name][0]
        steps = np.concatenate(run_whole(session.begin_stream(None), sequence, (len(sequence),)))
        worst, largest = max(worst, float(np.abs(steps - whole).max())), max(largest, float(np.abs(whole).max()))
        same.append(steps.argmax(axis=-1) == whole.argmax(axis=-1))
    return (
        f"a stream differs from the whole, both on bytes, by {worst / largest:.1e} of the largest output; the largest "
        f"output is the same in {np.concatenate(same).mean():.1%} of steps"
    )


def _count(program: Program) -> tuple[int, int]:
    on_bytes = sum(isinstance(n.op, QConv | QLinear) for n in program.nodes)
    return on_bytes, on_bytes + sum(type(n.op) in PRODUCTS for n in program.nodes)


# -- samples -----------------------------------------------------------------------------------------------------------
class _Listening(Module):
    """A net that records its inputs."""

    def __init__(self, net: Module) -> None:
        self.net = net
        self.seen: list[Batch] = []

    def forward(self, *xs: Any) -> Any:
        """The net's own result."""
        self.seen.append([np.array(x.numpy()) for x in map(as_tensor, xs)])
        return self.net(*xs)

    def __getattr__(self, name: str) -> Any:
        """What else a task asks of its net, such as the losses that a detector has itself."""
        if name == "net":  # not there yet
            raise AttributeError(name)
        return getattr(self.net, name)


class _Answering(Deployed):
    """What is deployed of a net in its place, which records its inputs: such as each recording alone."""

    def __init__(self, deployment: Deployment, program: Program) -> None:
        super().__init__(Session.of(program, inputs=list(deployment.inputs), outputs=list(deployment.outputs)))
        self.seen: list[Batch] = []

    def forward(self, *inputs: Any) -> Any:
        self.seen.append([np.array(as_tensor(x).numpy()) for x in inputs])
        return super().forward(*inputs)


def _of_split(
    task: Task, model: Module, deployment: Deployment, program: Program, recipe: Recipe, dataset: Any, n: int
) -> list[Batch]:
    """What the task gives the net for n samples of a split, spread over the whole of it: files are often in the order
    of their classes.
    """
    require_same_net(deployment, model)
    if isinstance(dataset, Dataset) and len(dataset) > n:
        dataset = Subset(dataset, np.linspace(0, len(dataset) - 1, n).astype(int).tolist())
    listening: Any = _Listening(model) if deployment.module is model else _Answering(deployment, program)
    listening.eval()
    with no_grad():
        for batch in task.loader(dataset, recipe, training=False, seed=0):
            task.evaluate(listening, batch)
            count = sum(len(given[0]) for given in listening.seen)
            if count >= n:
                break
    return list(_cut(listening.seen, n))


def _cut(batches: Iterable[Batch], samples: int, size: int = 32) -> Iterator[Batch]:
    """Batches of at most `size`, `samples` in all."""
    for batch in batches:
        for begin in range(0, len(batch[0]), size):
            part = [x[begin : begin + min(size, samples)] for x in batch]
            samples -= len(part[0])
            yield part
            if samples <= 0:
                return


def _of_images(folder: Path, deployment: Deployment, program: Program, samples: int) -> list[Batch]:
    """Pictures of a folder, prepared as the deployed pipeline does."""
    from pdl.data.image import EXTENSIONS

    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in EXTENSIONS and p.is_file())
    if not paths:
        raise UsageError(f"--images {folder}: there is no picture in it")
    paths = [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, samples).astype(int))]
    prepared = of_bundle(read(to_bytes(program, deployment))).pipeline
    if prepared is None:
        raise UsageError("--images: the model has no pipeline that prepares pictures")
    made = [prepared.prepare(path) for path in paths]
    shapes = {tuple(a.shape for a in each.values()) for each in made}
    if len(shapes) > 1:
        return [[a[None] for a in each.values()] for each in made]
    return list(_cut([[np.stack([each[name] for each in made]) for name in made[0]]], samples))


# -- comparing ---------------------------------------------------------------------------------------------------------
def _latency(before: Session, after: Session, batch: Batch, size: int) -> Pair:
    """Median time of a batch: both in turn, so that a busy machine is busy for both."""
    times: tuple[list[float], list[float]] = ([], [])
    runs = [
        {port.name: np.resize(x, (size, *x.shape[1:])) for port, x in zip(s.inputs, batch, strict=True)}
        for s in (before, after)
    ]
    for turn in range(60 if size == 1 else 12):
        for session, inputs, taken in zip((before, after), runs, times, strict=True):
            begin = time.perf_counter()
            session.run(inputs)
            if turn > 1:
                taken.append((time.perf_counter() - begin) * 1e3)
    return Pair(f"batch {size}", float(np.median(times[0])), float(np.median(times[1])))


def _write(
    folder: Run,
    path: Path,
    program: Program,
    made: Calibration,
    deployment: Deployment,
    metrics: Mapping[str, float],
    measured: Session,
    batch: Batch,
    store: Store,
    stream: TracedStream | None,
) -> Pair:
    """Both bundles in memory; the quantised one is read again, compared with what was measured, and put in place."""
    config = read_text(folder.path / "config.yaml")
    name = str(folder.describe()["recipe"])
    step = None if deployment.stream is None else trace_stream(deployment.stream)
    floats = to_bytes(program, deployment, name=name, config=config, stream=step)
    deployment.about |= {"precision": "int8", "calibration": made.method}
    kept: dict[str, Any] = {"metrics": dict(metrics), "store": store, "stream": stream}
    data = to_bytes(made.program, deployment, name=f"{name}.int8", config=config, **kept)
    inputs = {name: np.ascontiguousarray(x[:4]) for name, x in zip(deployment.inputs, batch, strict=True)}
    ours, theirs = of_bundle(read(data)).run(inputs), measured.run(inputs)
    if any(not np.array_equal(y, theirs[key], equal_nan=True) for key, y in ours.items()):
        raise CheckError("the bundle that was read again gives other numbers than what was measured; nothing is kept")
    write_atomic(path, data)
    return Pair("bytes", len(floats), len(data))
