"""`bundle_of`: from a name of the hub to a file that the runtime runs.

A published bundle is that file. Another's model, an ONNX graph or a file of weights, becomes a bundle on this machine
when it is first used, as its entry's `build` says, and stays in the cache: <cache>/built/<key>/NAME.pdl. The key is a
hash of all that goes into it: the file, `build` with the files it names, licence, metric and card, and pdl's version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pdl import watch
from pdl.config import build as build_node
from pdl.dims import Dim
from pdl.errors import DataError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.export.imported import import_model, pipeline_of
from pdl.export.systems import opened
from pdl.files import replacing
from pdl.hub.cache import BUILT, cache_dir, lock, writing
from pdl.hub.entries import Build, Entry, System
from pdl.hub.files import obtain, usable
from pdl.hub.index import incompatible
from pdl.hub.pretrained import load_state
from pdl.hub.states import state_of
from pdl.nn import Module, init
from pdl.nn.streaming import Streaming
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.bundle import SUFFIX, read
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources
from pdl.version import __version__
from pdl.vocabulary import Vocabulary

GRAPHS, METADATA = (".onnx",), "metadata:"


def bundle_of(name: str | Path) -> Path:
    """The bundle of a name such as `cv/digits_lenet`; a path to a bundle is returned as it is.

    Fetches and builds what is not on this machine, once; afterwards no socket is opened. UsageError for a name that
    nobody knows and for a file that is no bundle; otherwise as `pdl.hub.resolve`.
    """
    if Path(name).is_file():
        return _require_bundle(Path(name))
    wanted = usable(str(name))
    if wanted.file.endswith(SUFFIX):
        return obtain(wanted)
    key = _key(wanted)
    target = cache_dir() / BUILT / key / f"{wanted.short}{SUFFIX}"
    if _good(target):
        return target
    file = obtain(wanted)
    with lock(cache_dir() / BUILT, key, wanted.name, watch.note):
        if not _good(target):  # nobody was quicker
            _build(wanted, file, target)
    return target


def _require_bundle(path: Path) -> Path:
    if path.suffix in GRAPHS:
        raise UsageError(f"{path} is no bundle; make one of it: pdl import {path}")
    if path.suffix in (".yaml", ".yml"):
        raise UsageError(
            f"{path} is no bundle; a recipe becomes one by pdl train -c {path}, a file of several models by "
            f"pdl export {path}"
        )
    if path.suffix in (".pth", ".pt", ".safetensors"):
        raise UsageError(
            f"{path} holds weights and not the net they belong to, so it cannot be run; a recipe can begin with them: "
            f"pdl train -c RECIPE model.pretrained={path}"
        )
    return path


def _good(path: Path) -> bool:
    """Whether a bundle was built and is whole; a damaged one is reported and built again."""
    if not path.is_file():
        return False
    try:
        read(path)
    except DataError as error:
        watch.note(f"{error}; building it again")
        return False
    return True


def _key(entry: Entry) -> str:
    """A name for exactly this bundle."""
    build = entry.build or Build()
    pipeline = build.pipeline if isinstance(build.pipeline, str) else None
    named = [entry.card, pipeline, _labels_file(build), build.arrays]
    named += (build.vocabularies or {}).values()
    files = {name: hashlib.sha256(_inside(entry, name).read_bytes()).hexdigest() for name in named if name}
    facts = {
        "file": entry.sha256, "build": asdict(build), "files": files, "pdl": __version__, "licence": entry.licence,
        "origin": entry.origin, "metric": asdict(entry.metric) if entry.metric else None, "task": entry.task,
        "package": f"{entry.package.name} {entry.package.version}",
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _labels_file(build: Build) -> str | None:
    labels = build.labels
    return None if labels is None or labels.startswith(METADATA) else labels


def _inside(entry: Entry, name: str) -> Path:
    path = entry.inside(name)
    if not path.is_file():
        raise DataError(
            f"{entry.name}: {path} is missing, which hub.yaml names; install {entry.package.distribution or 'it'} again"
        )
    return path


# -- building ----------------------------------------------------------------------------------------------------------
def _build(entry: Entry, file: Path, target: Path) -> None:
    """The bundle of a foreign file, in its place whole or not at all."""
    named = entry.build is not None and entry.build.model is not None
    make = _of_graph if file.suffix in GRAPHS and not named else _of_weights
    with writing(target, entry.bytes):
        target.parent.mkdir(parents=True, exist_ok=True)
    with writing(target, entry.bytes), replacing(target) as part:
        make(entry, file, part)


def _facts(entry: Entry) -> dict[str, Any]:
    """What the bundle says of itself."""
    card = _inside(entry, entry.card).read_text(encoding="utf-8") if entry.card else ""
    metrics = {entry.metric.name: entry.metric.value} if entry.metric else {}
    about = {"task": entry.task, "origin": entry.origin, "file": f"{entry.file}, sha256 {entry.sha256}"}
    if entry.metric:
        about["measured"] = f"{entry.metric.data}: {entry.metric.protocol}"
    return {"card": card, "licence": entry.licence, "metrics": metrics, "about": about}


def _of_graph(entry: Entry, file: Path, path: Path) -> None:
    """Of an ONNX graph; compared with ONNX Runtime where that is installed."""
    build = entry.build or Build()
    labels = _labels_file(build)
    given = str(_inside(entry, labels)) if labels else build.labels
    pipeline = _pipeline(entry, build)
    axes: dict[str, Any] = {"sizes": build.sizes, "shapes": build.shapes}
    import_model(file, path, pipeline=pipeline, labels=given, name=entry.short, **axes, **_facts(entry))


def _of_weights(entry: Entry, file: Path, path: Path) -> None:
    """For weights: the net of `build.model` loads them, and its bundle is compared with it on random images."""
    build = entry.build
    if build is None or build.model is None:
        raise UsageError(f"{entry.name}: {entry.file} holds weights alone, and its entry does not say of which net")
    with init.skipped():
        model = build_node(build.model)
    report = load_state(model, state_of(entry, lambda: file))
    if report.adapted or report.fresh:
        raise DataError(f"{entry.name}: its entry names a net that the weights do not fill:\n{report}")
    facts = _facts(entry)
    how = f"{report.loaded} tensors of {entry.file}{f' ({report.converted})' if report.converted else ''}"
    facts["about"] |= {"model": build.model["_target_"], "weights": how}
    write(path, _deployment(entry, build, model.eval(), facts), name=entry.short, metrics=facts["metrics"])


def _pipeline(entry: Entry, build: Build) -> Mapping[str, Any] | None:
    return pipeline_of(_inside(entry, build.pipeline)) if isinstance(build.pipeline, str) else build.pipeline


def _deployment(entry: Entry, build: Build, model: Module, facts: dict[str, Any]) -> Deployment:
    """The net with its pipeline; sizes stay open where the net allows it."""
    steps = {"pre": {}, "post": {}, **(_pipeline(entry, build) or {})}
    labels = _inside(entry, name).read_text(encoding="utf-8").splitlines() if (name := _labels_file(build)) else []
    vocabularies = {
        name: Vocabulary.read(_inside(entry, file).read_text(encoding="utf-8"), file)
        for name, file in (build.vocabularies or {}).items()
    }
    pipeline = Pipeline.read(steps, Resources(labels, vocabularies), entry.name)
    samples = pipeline.input.samples(np.random.default_rng(0)) if pipeline is not None else []
    if pipeline is None or not samples:
        raise UsageError(f"{entry.name}: weights need build.pipeline, which makes the net's input of an image or text")
    ((takes, first),) = pipeline.prepare(samples[0]).items()
    axes = "hw" if len(first.shape) > 1 else "t"
    sizes = (Dim.symbol("n", 3), *(Dim.symbol(axis, size) for axis, size in zip(axes, first.shape, strict=False)))
    return Deployment(
        module=model,
        inputs={takes: Spec((*sizes, *first.shape[2:]), first.dtype)},
        outputs=tuple(steps["post"]) or ("y",),
        pre=steps["pre"],
        post=steps["post"],
        samples=samples,
        labels=labels,
        vocabularies=vocabularies,
        card=facts["card"],
        licence=facts["licence"],
        about=facts["about"],
        stream=model if isinstance(model, Streaming) else None,
    )


# -- systems -----------------------------------------------------------------------------------------------------------
def open_system(system: System, **options: Any) -> Any:
    """The predictor of a system (`pdl.runtime.predict.Predictor`), with a session for each part, which is fetched and
    built on first use.

    options   those of `pdl.runtime.load`, for every part
    """
    problem = incompatible(system)
    if problem:
        raise UsageError(problem)
    where = f"{system.origin_line}: {system.name}"
    return opened(system.predictor, system.parts, where, lambda part: load(bundle_of(part), **options))
