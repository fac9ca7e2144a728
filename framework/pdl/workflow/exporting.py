"""What one does with a run or a recipe: `export` a run to a file, `check` a recipe before it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from pdl import random
from pdl.config import Config
from pdl.dtype import Array
from pdl.errors import PdlError, TraceError, UsageError, listed
from pdl.export.bundle import Comparison, Store, Written, answers_agree, to_bytes, traced, write
from pdl.export.decoder import Traced
from pdl.export.deployment import Deployment
from pdl.export.stream import TracedStream, trace_stream
from pdl.export.systems import Composed, write_system
from pdl.files import read_text, write_atomic
from pdl.hub.pretrained import deferred
from pdl.nn import Module
from pdl.ops.base import Op
from pdl.program import Program
from pdl.report import Card
from pdl.runtime.bench import random_inputs
from pdl.runtime.bundle import Bundle, answering, read
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import pipeline_of
from pdl.runtime.session import Session, of_bundle
from pdl.train.assembly import assemble
from pdl.train.parts import Deployer
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.baselines import comparison
from pdl.workflow.measuring import measure
from pdl.workflow.result import Result
from pdl.workflow.run import Run

Target = Literal["bundle", "onnx"]
FILE = "model.pdl"
MEASURED = ("test", "val")  # splits on which the cost of storing in halves is measured


@dataclass(frozen=True)
class Exported:
    """What `export` made: the file, facts about it as (name, value), and lines for people."""

    path: Path
    facts: list[tuple[str, Any]]
    notes: list[str] = field(default_factory=list)


def export(
    run: str | Path,
    out: str | Path | None = None,
    *,
    to: Target = "bundle",
    opset: int | None = None,
    weights: str | None = None,
    licence: str = "",
    store: Store = "fp32",
    form: str = "",
    values: Mapping[str, Sequence[str]] | None = None,
) -> Exported:
    """Write a trained run as a bundle (RUN/model.pdl by default) or as ONNX (RUN/model.onnx, and model_step.onnx of a
    net that can be streamed: see `pdl.export.onnx.stream_to_onnx`).

    weights   "best" or "last"; by default what the run's own test used
    licence   of the weights, for the card
    store     "bf16" or "fp16" keep the bundle's weights in half the bytes. What that costs is measured on the test data
              (or the validation data); the bundle and its card then state the metrics that it reaches itself
    form      one of `Deployer.forms`, such as "dense" of detectors, which gives all boxes before suppression
    values    of options of `pdl predict` that the bundle is to answer with, such as {"--lm": ["words.arpa"]}; what they
              name is in it. It states no metrics, for those of the run are of other answers

    The file is checked against the model on samples of the run's data, or, where these are gone, on made-up ones.
    """
    folder = Run.open(run)
    if to == "onnx" and store != "fp32":
        raise UsageError("--store belongs to bundles; --to onnx writes float32")
    if to == "onnx" and values:
        raise UsageError(f"{listed(list(values))}: an ONNX file holds no answers; leave out --to onnx")
    opened = folder.opened(weights)
    recipe, task, model = opened.recipe, opened.task, opened.model
    result = Result.load(folder.result) if folder.result.is_file() else None
    metrics: Mapping[str, float | None] = {} if result is None else result.metrics
    split, dataset, notes = _data(task, recipe)
    deployer = task.deployer(recipe)
    deployer.choose(form)
    composed = deployer.composed(model, dataset, values or {})
    if composed is not None:
        if to == "onnx":
            raise UsageError(f"--form {form} is of several programs, which are no ONNX file; leave out --to onnx")
        target = Path(out) if out else folder.path / FILE
        return _export_composed(target, composed, deployer, model, folder, opened.weights, licence, store, notes)
    deployment = deployment_of(deployer, model, dataset)
    deployment.about |= {"form": form} if form else {}
    kept: list[tuple[str, Any]] = []
    if values:
        deployment, kept = _answering(deployment, values)
        metrics, result = {}, None
    cost: list[tuple[str, Any]] = []
    if store != "fp32" and split in MEASURED and not values:
        metrics, cost = _costs(task, recipe, deployment, dataset, split, store)
    describe(deployment, deployer.card(model), metrics, result, licence=licence, weights=opened.weights)
    name = str(folder.describe()["recipe"])
    if to == "onnx":
        return _to_onnx(Path(out) if out else folder.path / "model.onnx", deployment, name, metrics, opset, notes)
    if opset is not None:
        raise UsageError("--opset belongs to --to onnx")
    made = write_bundle(Path(out) if out else folder.path / FILE, deployment, folder, metrics, store)
    return Exported(made.path, [*facts_of(made), *kept, *cost], [*notes, *made.notes])


def _answering(deployment: Deployment, values: Mapping[str, Sequence[str]]) -> tuple[Deployment, list[tuple[str, Any]]]:
    """A deployment whose bundle answers with these values of options, and facts about them."""
    pipeline = pipeline_of(deployment)
    post, kept = pipeline.kept(deployment.post, values, deployment)
    made = replace(
        deployment,
        post=post,
        vocabularies={**deployment.vocabularies, **kept.vocabularies},
        constants={**deployment.constants, **kept.constants},
        about={**deployment.about, **kept.about},
    )
    return made, list(kept.about.items())


def _export_composed(
    path: Path,
    composed: Composed,
    deployer: Deployer,
    model: Module,
    run: Run,
    weights: str,
    licence: str,
    store: Store,
    notes: list[str],
) -> Exported:
    """The bundle of a system, each part of which is held to the net; it states no metrics."""
    facts: list[tuple[str, Any]] = []
    with TemporaryDirectory() as draft:
        files = {part: Path(draft) / f"{part}{path.suffix}" for part in composed.parts}
        for part, deployment in composed.parts.items():
            if given := composed.values.get(part):
                deployment, kept = _answering(deployment, given)
                facts += kept
            describe(deployment, deployer.card(model), {}, None, licence=licence, weights=weights)
            made = write_bundle(files[part], deployment, run, {}, store)
            facts += [(f"part {part}, difference", f"{(made.stored or made.comparison).difference:.1e} of outputs")]
            notes = [*notes, *made.notes]
        card, config = deployer.card(model).markdown(licence=licence), read_text(run.path / "config.yaml")
        about = {**deployer.recipe.identity(), "weights": weights}
        said: dict[str, Any] = {"licence": licence, "card": card, "config": config, "about": about}
        whole = write_system(path, composed.predictor, files, where=str(run.path), **said)
    return Exported(path, [("bundle", str(path)), ("size", f"{whole.size / 1000:,.1f} kB"), *facts], notes)


def export_bundle(bundle: str | Path, out: str | Path, *, values: Mapping[str, Sequence[str]]) -> Exported:
    """Write a bundle that answers as another one does with these values of options of `pdl predict`, as `export` does
    of a run; its program and weights are the same."""
    given = of_bundle(read(bundle))
    post, kept = pipeline_of(given).kept(given.bundle.pipeline["post"], values, given)  # type: ignore[union-attr]
    more: dict[str, Any] = {"vocabularies": kept.vocabularies, "constants": kept.constants, "about": kept.about}
    data = answering(bundle, post, **more)
    of_bundle(read(data))  # its steps take what they are given
    write_atomic(out, data)
    return Exported(Path(out), [("bundle", str(out)), ("size", f"{len(data) / 1000:,.1f} kB"), *kept.about.items()])


def deployment_of(deployer: Deployer, model: Module, dataset: Any = None) -> Deployment:
    """What the deployer makes of a model."""
    made = deployer.deployment(model, dataset)
    if not isinstance(made, Deployment):
        raise UsageError(f"{type(deployer).__name__}.deployment gave {type(made).__name__}, expected a Deployment")
    return made


def describe(
    deployment: Deployment,
    card: Card,
    metrics: Mapping[str, float | None],
    result: Result | None,
    *,
    licence: str = "",
    weights: str = "",
) -> None:
    """Give a deployment its card, with these metrics and what else the run's result knows."""
    selection = "" if result is None else result.selection
    beside = comparison(result) if result is not None and result.baselines else None
    deployment.card = card.markdown(metrics=metrics, selection=selection, baselines=beside, licence=licence)
    deployment.licence = licence
    deployment.about |= {"weights": weights}


def write_bundle(
    path: Path, deployment: Deployment, run: Run, metrics: Mapping[str, float | None], store: Store = "fp32"
) -> Written:
    """The bundle of a run's model, with the run's recipe and the names of the weights that it began with; see
    `pdl.export.bundle.write`.
    """
    began = [report["source"] for report in run.describe().get("pretrained", [])]
    if began:
        deployment.about |= {"pretrained": ", ".join(began)}
    config = read_text(run.path / "config.yaml")
    return write(path, deployment, name=str(run.describe()["recipe"]), metrics=metrics, config=config, store=store)


def _costs(
    task: Task,
    recipe: Recipe,
    deployment: Deployment,
    dataset: Any,
    split: str,
    store: Store,
) -> tuple[dict[str, float | None], list[tuple[str, Any]]]:
    """What storing in halves costs: the metrics of the split, measured on the weights as they are stored, and lines
    that show them before and after. Of the run's own metrics none is kept: they are those of other numbers.
    """
    program, _ = traced(deployment)
    before, after = (
        measure(
            task,
            of_bundle(read(to_bytes(program, deployment, store=each))),
            deployment,
            deployment.module,
            task.loader(dataset, recipe, training=False, seed=0),
            split,
        )
        for each in ("fp32", store)
    )
    lines = [
        (f"{split}/{name}", f"{value:.4f} as float32, {after[name]:.4f} as {store} ({after[name] - value:+.4f})")
        for name, value in before.items()
        if not (isnan(value) and isnan(after[name]))  # such as the precision of sizes that no object has
    ]
    return {f"{split}/{name}": value for name, value in after.items()}, lines


def facts_of(made: Written) -> list[tuple[str, Any]]:
    """What `pdl export` shows of a bundle."""
    compared = made.stored or made.comparison
    shapes = ", ".join(f"{v.name} [{', '.join(map(str, v.spec.shape))}]" for v in made.program.inputs)
    return [
        ("bundle", str(made.path)),
        ("size", f"{made.size / 1000:,.1f} kB"),
        ("inputs", shapes),
        ("checked on", f"{compared.samples} samples"),
        ("difference", f"{compared.difference:.1e} of outputs{_levels(compared)}"),
        *([("before rounding", f"{made.comparison.difference:.1e} of outputs")] if made.stored else []),
    ]


def _levels(compared: Comparison) -> str:
    return "" if compared.prepared is None else f", {compared.prepared:.2g} grey levels of images"


def _data(task: Task, recipe: Recipe) -> tuple[str, Any, list[str]]:
    """The first split that exists, its name, and a line if there is none."""
    said = "the recipe names none"
    for split in ("test", "val", "train"):
        if split not in recipe.data.splits:
            continue
        try:
            found = recipe.data.datasets((split,))
            task.prepare(recipe, found)
        except (PdlError, OSError) as error:
            said = str(error).splitlines()[0]
            continue
        return split, found[split], []
    return "", None, [f"the run's data is not here ({said}): checked on made-up samples"]


def _to_onnx(
    path: Path,
    deployment: Deployment,
    name: str,
    metrics: Mapping[str, float | None],
    opset: int | None,
    notes: list[str],
) -> Exported:
    from pdl.export.onnx import DEFAULT, decoder_to_onnx, stream_to_onnx, to_onnx

    program, fixed = traced(deployment)
    pipeline, alone = deployment.pipeline, [deployment.prepared(sample) for sample in deployment.samples]
    batches = [pipeline.collate([each]) if pipeline else {k: x[None] for k, x in each.items()} for each in alone]
    samples = [[batch[name] for name in deployment.inputs] for batch in batches]
    metadata = {
        "name": name, "licence": deployment.licence, "labels": list(deployment.labels), "metrics": dict(metrics),
        "pre": deployment.pre, "post": deployment.post, "card": deployment.card, **deployment.about,
    }  # fmt: skip
    if isinstance(program, Traced):
        files = decoder_to_onnx(
            *(program.encode, program.step, program.kinds, path), writing=deployment.writing, opset=opset or DEFAULT,
            samples=[{name: batch[name] for name in deployment.inputs} for batch in batches], metadata=metadata,
        )  # fmt: skip
        facts = [fact for each in files for fact in _facts_of_onnx(each)]
        return Exported(files[-1].path, facts, [*notes, *fixed, *(note for each in files for note in each.notes)])
    names: dict[str, Any] = {"inputs": list(deployment.inputs), "outputs": list(deployment.outputs)}
    judge = _judge(pipeline, deployment.samples)
    files = [to_onnx(program, path, opset=opset or DEFAULT, metadata=metadata, samples=samples, judge=judge, **names)]
    if deployment.stream is not None:
        more: dict[str, Any] = {"names": (names["inputs"][0], names["outputs"][0]), "metadata": metadata}
        few = [each[0][0] for each in samples[:1]]
        files.append(
            stream_to_onnx(trace_stream(deployment.stream), path, sequences=few, opset=opset or DEFAULT, **more)
        )
    return _onnx_files(files, [*notes, *fixed])


def _onnx_files(files: Sequence[Any], notes: Sequence[str]) -> Exported:
    """What is said of the file of a net, and of that of its step where it can be streamed."""
    facts = [fact for each in files for fact in _facts_of_onnx(each)]
    return Exported(files[0].path, facts, [*notes, *(note for each in files for note in each.notes)])


def _judge(pipeline: Pipeline | None, items: Sequence[Any]) -> Any:
    """How outputs for these items are compared: by the answers alone where their rows may change places, else (None)
    number by number."""
    if pipeline is None or not pipeline.unordered:
        return None
    from pdl.export.onnx import TOLERANCE

    def judge(number: int, found: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
        ours, theirs = ({name: y[0] for name, y in each.items()} for each in (found, wanted))
        same = answers_agree(pipeline, ours, theirs, pipeline.parse(items[number]), TOLERANCE)
        return 0.0 if same else float("inf")

    return judge


def bundle_to_onnx(bundle: str | Path, out: str | Path | None = None, *, opset: int | None = None) -> Exported:
    """Write the net of a bundle as ONNX (NAME.onnx here by default), and NAME_step.onnx of one that can be streamed,
    compared with ONNX Runtime on a made-up input where the bundle has a pipeline.

    UsageError for a bundle that keeps an imported graph which no program can hold.
    """
    from pdl.export.onnx import DEFAULT, stream_to_onnx, to_onnx

    given = read(bundle)
    if given.parts:
        raise UsageError(f"{bundle}: holds several models ({', '.join(given.parts)}); export each by itself")
    path = Path(out) if out else Path(f"{Path(bundle).stem}.onnx")
    if given.kind == "decoder":
        return _decoder_bundle_to_onnx(given, path, opset)
    if given.kind != "program":
        raise UsageError(f"{bundle}: keeps the ONNX graph that it was imported from; use that file")
    meta, session = given.meta, of_bundle(given)
    samples, judge = [], None
    if session.pipeline is not None:
        samples = [_made_up(session)]
        judge = _judge(session.pipeline, session.pipeline.input.samples(np.random.default_rng(0)))
    metadata = {
        "name": meta["name"], "licence": meta["licence"], "labels": given.labels, "metrics": meta["metrics"],
        "pre": given.pipeline["pre"], "post": given.pipeline["post"], "card": given.card, **meta["about"],
    }  # fmt: skip
    names: dict[str, Any] = {"inputs": given.program["inputs"], "outputs": given.program["outputs"]}
    to: dict[str, Any] = {"opset": opset or DEFAULT, "metadata": metadata}
    files = [to_onnx(given.build(), path, samples=samples, judge=judge, **to, **names)]
    if "stream" in given.program:
        ends = names["inputs"][0], names["outputs"][0]
        few = [each[0][0] for each in samples]
        files.append(stream_to_onnx(TracedStream(*given.build_stream()), path, names=ends, sequences=few, **to))
    return _onnx_files(files, [])


def _decoder_bundle_to_onnx(given: Bundle, path: Path, opset: int | None) -> Exported:
    """The two programs of a net that writes, compared on made-up inputs."""
    from pdl.export.onnx import DEFAULT, decoder_to_onnx

    session = of_bundle(given)
    encode, step, kinds, writing = given.build_decoder()
    made_up = [] if session.pipeline is None else [_made_up(session)]
    metadata = {"name": given.meta["name"], "licence": given.meta["licence"], "card": given.card, **given.meta["about"]}
    files = decoder_to_onnx(
        *(encode, step, kinds, path), writing=writing, opset=opset or DEFAULT, metadata=metadata,
        samples=[dict(zip(given.program["inputs"], each, strict=True)) for each in made_up],
    )  # fmt: skip
    return Exported(files[-1].path, [fact for each in files for fact in _facts_of_onnx(each)])


def _made_up(session: Session) -> list[Array]:
    """Inputs for a net: of an item that the input step makes up, or else values that it knows to be valid."""
    pipeline = session.pipeline
    assert pipeline is not None
    items = pipeline.input.samples(np.random.default_rng(0))
    made = pipeline.collate([pipeline.prepare(items[0])]) if items else random_inputs(session, 1, {})
    return [made[port.name] for port in session.inputs]


def _facts_of_onnx(made: Any) -> list[tuple[str, Any]]:
    """What `pdl export --to onnx` shows."""
    against = (
        f"{made.difference:.1e} from {made.runtime}"
        if made.difference is not None
        else "not compared: pip install onnxruntime"
    )
    return [
        ("onnx", str(made.path)), ("opset", made.opset), ("size", f"{made.nbytes / 1000:,.1f} kB"),
        ("nodes", made.nodes), ("inputs", ", ".join(f"{p.name} [{', '.join(map(str, p.shape))}]" for p in made.inputs)),
        ("difference", against),
    ]  # fmt: skip


# -- before training ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Checked:
    """What prevents an export (`faults`, each with its line of code), and remarks."""

    faults: list[str]
    notes: list[str]
    inputs: str = ""


def check(config: Config, *, to: Target = "bundle", opset: int | None = None) -> Checked:
    """Whether the model of a recipe exports, before it is trained: fresh weights, one sample of the data, no file."""
    recipe = Recipe(config)
    task, seed = recipe.task.build(), recipe.settings.seed
    with random.fork_seed(seed), deferred():
        parts = assemble(task, recipe, seed=seed, splits=tuple(recipe.data.splits)[:1])
        dataset = getattr(next(iter(parts.loaders.values())), "dataset", None)
        faults, programs, notes = _programs_of(task, parts.model, recipe, dataset)
    if not programs:
        return Checked(faults, notes)
    for program in programs:
        faults += unfit(program)
        if to == "onnx":
            from pdl.export.onnx import DEFAULT, missing

            faults += [f"{where}: {op} has no ONNX form" for op, where in missing(program, opset=opset or DEFAULT)]
    inputs = ", ".join(f"{v.name} [{', '.join(map(str, v.spec.shape))}]" for v in programs[0].inputs)
    return Checked(faults, notes, inputs)


def _programs_of(task: Task, model: Module, recipe: Recipe, dataset: Any) -> tuple[list[str], list[Program], list[str]]:
    """Faults, the program, or those of a net that writes or can be streamed, and notes."""
    try:
        deployment = deployment_of(task.deployer(recipe), model, dataset)
        program, notes = traced(deployment)
    except TraceError as error:
        return [f"{error.where}: {error.reason}"], [], []
    except UsageError as error:
        return str(error).splitlines(), [], []
    found = [program.encode, program.step] if isinstance(program, Traced) else [program]
    if deployment.stream is not None:
        found.append(trace_stream(deployment.stream).step)
    return [], [each for each in found if each is not None], notes


def unfit(program: Program) -> list[str]:
    """Ops that no bundle holds, each with its line: random numbers, results whose size is known only when they run."""
    found = []
    for node in program.nodes:
        op, name = node.op, node.op.op_name
        if op.dynamic or (type(op).cpu is Op.cpu and op.view is None and type(op).run is Op.run):
            found.append(f"{node.where}: {name} makes results whose size depends on values")
        elif name in ("DropoutMask", "Noise", "Seed"):
            found.append(f"{node.where}: {name} draws random numbers in evaluation mode")
    found += [f"{buffer.name} is changed when the model runs, in evaluation mode" for buffer, _ in program.effects]
    return found
