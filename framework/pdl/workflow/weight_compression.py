"""`pdl compress --to w8|w4`: the weights of large matrices in 8 or 4 bits, all else in floats: for nets that read far
more weights than they compute with, such as those that write token by token."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdl import random
from pdl.errors import CheckError, UsageError
from pdl.export.bundle import to_bytes, traced
from pdl.export.decoder import Traced
from pdl.export.deployment import Deployment
from pdl.export.quantise.weights import narrow_weights
from pdl.export.stream import trace_stream
from pdl.files import read_text, write_atomic
from pdl.hub.pretrained import deferred
from pdl.program import Program
from pdl.runtime.bundle import read
from pdl.runtime.decoding import Running, Writer
from pdl.runtime.session import Session, of_bundle
from pdl.train.assembly import assemble
from pdl.train.loop import evaluate
from pdl.workflow.exporting import deployment_of
from pdl.workflow.run import Run

BITS = {"w8": 8, "w4": 4}
KEPT, STEPS = 64, 60  # tokens that stand before those that are timed, and how many are


def compress_weights(
    run: str | Path,
    out: Path | None,
    *,
    to: str,
    group: int,
    overrides: Sequence[str],
    split: str,
    keep: str,
    weights: str | None,
) -> dict[str, Any]:
    """Write the bundle of a run with weights of few bits; what `Compressed` holds, by name. Both nets are measured with
    the task's own metrics: the rounded one has the weights that the bundle's stand for."""
    folder = Run.open(run)
    recipe = folder.recipe(overrides)
    task, seed = folder.task(recipe), recipe.settings.seed
    with random.fork_seed(seed):
        with deferred():
            parts = assemble(task, recipe, seed=seed, splits=[split], training=False)
        folder.load_weights(parts.model, weights)
        if split not in parts.loaders:
            raise UsageError(f"{run}: its recipe has no data.{split} to measure on; choose another --split, or give it")
        dataset = getattr(parts.loaders[split], "dataset", None)
        deployment = deployment_of(task.deployer(recipe), parts.model, dataset)
        program, notes = traced(deployment)
        main = program.step if isinstance(program, Traced) else program
        made = narrow_weights(main, BITS[to], group, keep)
        if not made.rounded:
            raise UsageError(f"{run}: no product of its net has a constant matrix of enough weights in float32")
        small = _with_step(program, made.program)
        step = None if deployment.stream is None else trace_stream(deployment.stream)
        narrow = None if step is None else replace(step, step=narrow_weights(step.step, BITS[to], group, keep).program)
        before = evaluate(task, parts.model, parts.loaders[split], split=split).metrics
        floats = to_bytes(program, deployment, stream=step)
        latency = _latency(deployment, program, small)
        for tensor, rounded in made.rounded:
            tensor._data[...] = rounded
        after = evaluate(task, parts.model, parts.loaders[split], split=split).metrics
    name, config = str(folder.describe()["recipe"]), read_text(folder.path / "config.yaml")
    deployment.about |= {"precision": to, "group": group}
    metrics = {key.removeprefix(f"{split}/"): float(value) for key, value in after.items()}
    data = to_bytes(small, deployment, name=f"{name}.{to}", config=config, metrics=metrics, stream=narrow)
    _check(data, small, deployment)
    path = out or folder.path / f"model.{to}.pdl"
    write_atomic(path, data)
    pairs = [(key.removeprefix(f"{split}/"), float(value), float(after[key])) for key, value in before.items()]
    return {
        "path": path, "split": split, "metrics": pairs, "size": (len(floats), len(data)), "latency": latency,
        "products": made.matrices, "notes": notes, "method": f"{to}, a scale for {group} inputs of an output",
    }  # fmt: skip


def _with_step(program: Program | Traced, made: Program) -> Program | Traced:
    if isinstance(program, Traced):
        return Traced(program.encode, made, program.kinds, program.notes)
    return made


def _check(data: bytes, made: Program | Traced, deployment: Deployment) -> None:
    """The bundle that was read again answers as its programs do."""
    session = of_bundle(read(data))
    if session.pipeline is None or not deployment.samples:
        return
    prepared = session.pipeline.prepare(deployment.samples[0])
    arrays = session.pipeline.collate([prepared])
    given, ours = [arrays[name] for name in deployment.inputs], session.run(arrays)
    if isinstance(made, Traced):
        assert deployment.writing is not None
        theirs = Writer(made.decoding(), deployment.writing, list(deployment.inputs))(given)
    else:
        names = list(deployment.inputs), list(deployment.outputs)
        theirs = list(Session.of(made, inputs=names[0], outputs=names[1]).run(arrays).values())
    if any(not np.allclose(a, b, equal_nan=True) for a, b in zip(ours.values(), theirs, strict=True)):
        raise CheckError("the bundle that was read again gives other numbers than what was written; nothing is kept")


def _latency(deployment: Deployment, before: Program | Traced, after: Program | Traced) -> tuple[float, float] | None:
    """Median milliseconds of a token of one row, both in turn, so that a busy machine is busy for both; None of nets
    that do not write, or that read a source."""
    if not isinstance(before, Traced) or not isinstance(after, Traced) or before.encode is not None:
        return None
    most = int(getattr(deployment.module, "max_length", 2 * (KEPT + STEPS)))
    kept = min(KEPT, max(1, most // 2))
    steps = min(STEPS, max(1, most - kept))
    runs = []
    for each in (before, after):
        running = Running(each.decoding(), (), 1, kept + steps)
        running.step(np.zeros((1, kept), np.int64), np.array([kept]))
        runs.append((running, list[float]()))
    for _ in range(steps):
        for running, taken in runs:
            begin = time.perf_counter()
            running.step(np.zeros((1, 1), np.int64), np.ones(1, np.int64))
            taken.append((time.perf_counter() - begin) * 1e3)
    return float(np.median(runs[0][1])), float(np.median(runs[1][1]))
