"""`slim`: a trained model made small by a plan: pruned, given low ranks, trained again with a teacher, made
sparse, rounded to bytes, trained with that, put on bytes, and compiled.

Its folder

    start/         the run, where it began with a bundle
    prune/ low_rank/ tune/ sparse/ round/ tune_rounded/    a run folder for each step
    start.pdl ...  the bundle of each run that was not trained; int8.pdl: the last step's
    c/start/ ...   the sources of each bundle in C
    steps.json     the plan, the steps that are done, and what was measured
    compress.html  the page

Whoever calls it again with the same plan goes on behind the last step that is done, within a training at its last
checkpoint. Settings are chosen on training and validation data; of the test data the page shows the first and the last
net.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl import config, watch
from pdl.config import Config, from_dict
from pdl.config.signature import SECTION
from pdl.errors import DataError, UsageError
from pdl.export.c.running import InC
from pdl.files import read_text, write_atomic
from pdl.hints import Range
from pdl.ops.cost import multiply_adds
from pdl.program import bind, specialise
from pdl.runtime.bench import random_inputs
from pdl.runtime.bundle import read
from pdl.runtime.session import of_bundle
from pdl.suites import installed
from pdl.train.checkpoints import held
from pdl.train.compression import Sparse
from pdl.train.hooks import Hook
from pdl.train.recipe import Recipe
from pdl.workflow.compression import compress
from pdl.workflow.evaluation import evaluate_bundle, recipe_of
from pdl.workflow.exporting import FILE, export
from pdl.workflow.factorising import LowRank, factorise
from pdl.workflow.pruning import Pruning, prune, run_of
from pdl.workflow.rounding import Rounding, round_run
from pdl.workflow.run import CONFIG, Run, overlaid
from pdl.workflow.slimming_compile import AsC, Compiled, Programs
from pdl.workflow.slimming_report import write_page
from pdl.workflow.training import train

STATE, PAGE = "steps.json", "compress.html"
SPARSE = tuple(each.name for each in fields(Sparse))
TURNS = 30  # runs of every net, in turn


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """A training of the smaller net, by the recipe of the model with other settings.

    set             of the recipe: [train.epochs=5, optim.lr=0.01]
    teacher         whom it learns from: by default the model that is made small; "" without one. Otherwise, and in the
                    other keys, as `compress.distil` of a recipe has it
    """

    set: list[str] = field(default_factory=list)
    teacher: str | None = None
    weight: Annotated[float, Range(0, 1)] = 0.5
    temperature: Annotated[float, Range(above=0)] = 4.0
    features: dict[str, str] | None = None
    feature_weight: Annotated[float, Range(0)] = 1.0


@dataclass(frozen=True, kw_only=True)
class Sparsening(Tuning):
    """A training in which weights become zeros: beside what a `Tuning` has, the keys of `compress.sparse` of a
    recipe."""

    share: Annotated[float, Range(above=0, below=1)] = 0.8
    block: Literal[1, 16] = 16
    ratios: Literal["uniform", "global"] = "global"
    until: Annotated[float, Range(above=0, high=1)] = 0.5


@dataclass(frozen=True, kw_only=True)
class OnBytes:
    """The bundle in int8; of a net that has learned with rounding its own ranges, of others those of so many validation
    samples, with weights rounded to the nearest byte or by what layers make of them (`pdl compress --to int8`)."""

    method: Literal["mse", "entropy", "percentile", "minmax"] = "mse"
    samples: Annotated[int, Range(1)] = 512
    keep: Literal["", "first", "last", "both"] = ""
    rounding: Literal["nearest", "adaptive"] = "nearest"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The steps, in this order; those that are not given are left out.

    prune         channels go (`Pruning`)
    low_rank      weights become products of two smaller ones (`LowRank`)
    tune          it is trained again, with the model as its teacher (`Tuning`)
    sparse        and again, while weights become zeros (`Sparsening`)
    round         roundings of bytes are put into its forward part (`Rounding`)
    tune_rounded  it is trained with them
    int8          a bundle on bytes (`OnBytes`)
    compile       and the net of each of these steps as C, which is no step of its own (`AsC`)
    """

    prune: Annotated[Pruning, SECTION] | None = None
    low_rank: Annotated[LowRank, SECTION] | None = None
    tune: Annotated[Tuning, SECTION] | None = None
    sparse: Annotated[Sparsening, SECTION] | None = None
    round: Annotated[Rounding, SECTION] | None = None
    tune_rounded: Annotated[Tuning, SECTION] | None = None
    int8: Annotated[OnBytes, SECTION] | None = None
    compile: Annotated[AsC, SECTION] | None = None


SECTIONS: dict[str, Callable[..., Any]] = {
    "prune": Pruning, "low_rank": LowRank, "tune": Tuning, "sparse": Sparsening, "round": Rounding,
    "tune_rounded": Tuning, "int8": OnBytes,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What a step came to.

    metrics       of the validation data, and of the test data where the step is the first or the last
    size          bytes of the bundle
    adds          multiply-adds of one input
    milliseconds  of one input, the median; all nets ran in turn
    compiled      the net in C, where the plan asks for it
    """

    name: str
    bundle: Path
    metrics: Mapping[str, float]
    size: int
    adds: float
    milliseconds: float
    compiled: Compiled | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        compiled = None
        if self.compiled is not None:
            compiled = {**asdict(self.compiled), "folder": str(self.compiled.folder)}
        return {**asdict(self), "bundle": str(self.bundle), "compiled": compiled}


@dataclass(frozen=True)
class Slimmed:
    """The steps with what was measured, the first is the model as it was; the metric that its task monitors, and the
    page."""

    steps: Sequence[Step]
    monitor: str
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        steps = [step.to_dict() for step in self.steps]
        return {"monitor": self.monitor, "page": str(self.page), "steps": steps}


def read_plan(path: str | Path, overrides: Sequence[str] = ()) -> Plan:
    """A plan from a YAML file, or a suite's by name (`cv/yolov3_in_c`), checked as a whole. ConfigError with all its
    faults, UsageError where it has no step."""
    known = {f"{suite.name}/{file.stem}": file for suite in installed().values() for file in suite.plans.glob("*.yaml")}
    file = path if Path(path).exists() else known.get(Path(path).as_posix(), path)
    loaded = config.check(config.load(file, list(overrides)), Plan)
    kinds = {**SECTIONS, "compile": AsC}
    given = {name: kinds[name](**(node or {})) for name, node in loaded.plain().items()}
    made = Plan(**given)
    if not given.keys() & SECTIONS.keys():
        raise UsageError(f"{path}: a plan has at least one step of {', '.join(SECTIONS)}")
    if (made.tune_rounded is not None) and made.round is None:
        raise UsageError(f"{path}: tune_rounded trains what `round` has made; give round: {{}}, too")
    return made


def slim(
    model: str | Path,
    plan: Plan,
    out: str | Path,
    *,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
    tested: bool = True,
) -> Slimmed:
    """Make a run, a bundle or a model of the hub small, by a plan, in the folder `out`.

    hooks     of the trainings
    progress  whether they print their progress on standard error
    tested    whether the first and the last net are measured on the test data, too

    UsageError where the folder holds another plan, or a step cannot be made.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        state = _state(folder, model, plan)
        _keep(folder, state)
        if not (folder / "start" / CONFIG).is_file():
            _cleared(folder / "start")
        run = first = run_of(model, folder / "start")
        bundles = {"start": _bundle(folder, "start", first)}
        for name in SECTIONS:
            given = getattr(plan, name)
            if given is None:
                continue
            made = folder / ("int8.pdl" if name == "int8" else name)
            if name not in state["done"]:
                watch.steps(f"compress: {name}", len(state["done"]), _count(plan))
                _MAKERS[name](run, made, given, first, hooks, progress)
                state["done"].append(name)
                _keep(folder, state)
            bundles[name] = made if name == "int8" else _bundle(folder, name, made)
            run = run if name == "int8" else made
        return _measured(folder, state, bundles, tested, plan.compile)


def _count(plan: Plan) -> int:
    return sum(getattr(plan, name) is not None for name in SECTIONS)


# -- what is done ------------------------------------------------------------------------------------------------------
def _state(folder: Path, model: str | Path, plan: Plan) -> dict[str, Any]:
    """steps.json; UsageError where it is of another plan."""
    wanted = {"model": str(model), "plan": json.loads(json.dumps(asdict(plan)))}
    file = folder / STATE
    if not file.is_file():
        if any((folder / name).exists() for name in SECTIONS):
            raise UsageError(f"{folder}: holds something else; name another folder")
        return {**wanted, "done": [], "measured": {}}
    try:
        known: dict[str, Any] = json.loads(read_text(file))
        same = {name: known[name] for name in wanted} == wanted
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: not what this pdl wrote ({error!r}); remove it, or name another folder") from None
    if not same:
        raise UsageError(
            f"{folder}: holds the steps of another model or plan; name another folder, or leave both alone"
        )
    return known


def _keep(folder: Path, state: Mapping[str, Any]) -> None:
    write_atomic(folder / STATE, (json.dumps(state, indent=1) + "\n").encode())


def _cleared(path: Path) -> None:
    """What a step that was killed has left."""
    if path.exists():
        shutil.rmtree(path)


def _prune(run: Path, out: Path, given: Pruning, *_: Any) -> None:
    _cleared(out)
    prune(run, out, given)


def _low_rank(run: Path, out: Path, given: LowRank, *_: Any) -> None:
    _cleared(out)
    factorise(run, out, given)


def _round(run: Path, out: Path, given: Rounding, *_: Any) -> None:
    _cleared(out)
    round_run(run, out, given)


def _tune(run: Path, out: Path, given: Tuning, first: Path, hooks: Sequence[Hook], progress: bool) -> None:
    resume = Run(out).resumable
    if not resume:
        _cleared(out)
    train(_recipe(run, given, first), run=out, resume=resume, hooks=hooks, progress=progress)


def _recipe(run: Path, given: Tuning, first: Path) -> Recipe:
    """The recipe of a run with its own weights to begin with, and a teacher."""
    own: Config = Run.open(run).config(given.set)
    settings = asdict(given)
    del settings["set"]
    zeros = {name: settings.pop(name) for name in SPARSE if name in settings}
    distil = None if given.teacher == "" else {**settings, "teacher": given.teacher or str(first)}
    section = {"weights": str(run), "distil": distil, **({"sparse": zeros} if zeros else {})}
    tree = overlaid(own.plain(), {"compress": section})
    return Recipe(replace(from_dict(tree), path=own.path, overrides=own.overrides))


def _on_bytes(run: Path, out: Path, given: OnBytes, *_: Any) -> None:
    splits = Run.open(run).recipe().data.splits
    split = "val" if "val" in splits else list(splits)[-1]
    compress(run, out, split=split, **asdict(given))


_MAKERS: dict[str, Callable[..., None]] = {
    "prune": _prune, "low_rank": _low_rank, "tune": _tune, "sparse": _tune, "round": _round, "tune_rounded": _tune,
    "int8": _on_bytes,
}  # fmt: skip


# -- what is measured --------------------------------------------------------------------------------------------------
def _bundle(folder: Path, name: str, run: Path) -> Path:
    """The bundle of a run; of one that was trained its own."""
    if name.startswith(("tune", "sparse")) and (run / FILE).is_file():
        return run / FILE
    path = folder / f"{name}.pdl"
    if not path.is_file():
        export(run, path)
    return path


def _measured(
    folder: Path, state: dict[str, Any], bundles: Mapping[str, Path], tested: bool, as_c: AsC | None
) -> Slimmed:
    """Metrics that are not known yet, speeds, and the page."""
    recipe = recipe_of(read(next(iter(bundles.values()))))
    task = recipe.task.build()
    monitor, mode = task.monitored(recipe.settings)
    known: dict[str, dict[str, float]] = state["measured"]
    ends = [*bundles][:1] + [*bundles][-1:] if tested else []
    for name, path in bundles.items():
        there = [s for s in ("val", "test") if s in recipe.data.splits and (s == "val" or name in ends)]
        for split in there:
            if not any(key.startswith(f"{split}/") for key in known.setdefault(name, {})):
                known[name] |= {k: float(v) for k, v in evaluate_bundle(path, split=split).metrics.items()}
                _keep(folder, state)
    sessions: dict[str, Any] = {name: of_bundle(read(path)) for name, path in bundles.items()}
    split = "val" if "val" in recipe.data.splits else next(iter(recipe.data.splits))
    with Programs(folder, as_c, bundles, split) as programs:
        speeds = milliseconds(sessions | {(name, "c"): program for name, program in programs.sessions.items()})
        compiled = {n: Compiled(**found, milliseconds=speeds[n, "c"]) for n, found in programs.found.items()}
    steps = [
        Step(name, path, known[name], path.stat().st_size, _adds(path), speeds[name], compiled.get(name))
        for name, path in bundles.items()
    ]
    page = folder / PAGE
    write_page(page, steps, monitor, mode, state["model"], state["plan"])
    return Slimmed(steps, monitor, page)


def milliseconds(sessions: Mapping[Any, Any]) -> dict[Any, float]:
    """The median of one input, of sessions or programs in C, all in turn, so that a busy machine is busy for all."""
    inputs = {name: random_inputs(session, 1, {}) for name, session in sessions.items()}
    taken: dict[Any, list[float]] = {name: [] for name in sessions}
    for turn in range(TURNS):
        for name, session in sessions.items():
            begin = time.perf_counter()
            session.run(inputs[name])
            if turn:
                own = session.milliseconds if isinstance(session, InC) else (time.perf_counter() - begin) * 1e3
                taken[name].append(own)
    return {name: float(np.median(each)) for name, each in taken.items()}


def _adds(path: Path) -> float:
    """Multiply-adds of a bundle for one input."""
    bundle = read(path)
    program, inputs = bundle.build(), random_inputs(of_bundle(bundle), 1, {})
    plain_sizes = specialise(program, bind(program, [x.shape for x in inputs.values()]))
    nodes = plain_sizes.nodes
    return float(sum(multiply_adds(n.op, [v and v.spec for v in n.inputs], [v.spec for v in n.outputs]) for n in nodes))
