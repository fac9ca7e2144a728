"""`search`: a plan under a budget: the fastest net that loses at most so many points, of what shares of channels,
ranks and weights leave, in floats and on bytes.

Its folder

    prune_0.5/ prune_0.5_low_rank_0.75/ ...   a folder of `slim` for each trial, named by what is left
    chosen.pdl      the fastest bundle within the budget
    search.json     the model, the plan and the budget, and the test data's metrics of the first and the chosen net
    compress.html   the page

All is chosen on validation data. Whoever calls it again goes on where it was stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pdl import watch
from pdl.errors import DataError, UsageError
from pdl.files import read_bytes, read_text, write_atomic
from pdl.pruning.choosing import Unreachable
from pdl.runtime.bundle import read
from pdl.runtime.session import of_bundle
from pdl.train.checkpoints import held
from pdl.train.hooks import Hook
from pdl.workflow.evaluation import evaluate_bundle, recipe_of
from pdl.workflow.slimming import PAGE, Plan, Slimmed, Step, milliseconds, slim
from pdl.workflow.slimming_report import write_search

STATE, CHOSEN = "search.json", "chosen.pdl"


@dataclass(frozen=True)
class Searched:
    """Every net that was measured, the first is the model as it was; the one that was chosen, which is the first where
    no other one is within the budget; the metric, and the page. `bundle` is a copy of the chosen one."""

    steps: Sequence[Step]
    chosen: Step
    monitor: str
    bundle: Path
    page: Path

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        steps = [step.to_dict() for step in self.steps]
        about = {"monitor": self.monitor, "bundle": str(self.bundle), "page": str(self.page)}
        return {**about, "chosen": self.chosen.name, "steps": steps}


#: what is searched, section by section of the plan: the key, and whether more of it leaves more of the net
AXES = {"prune": ("left", True), "low_rank": ("left", True), "sparse": ("share", False)}


def search(
    model: str | Path,
    plan: Plan,
    out: str | Path,
    *,
    within: float,
    trials: int = 4,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
) -> Searched:
    """Make a model as fast as may be by a plan, in the folder `out`: how much is pruned, how low ranks are and how
    many weights are zeros is found by halving, of one of the plan's sections after the other, with what was best of
    those before.

    within   points (hundredths) of the validation metric that its task monitors, which may be lost
    trials   of each section; of each trial, every step's bundle is a candidate, on bytes or not

    UsageError where the plan has nothing to search, there is no validation data, or the folder holds another search.
    """
    axes = [name for name in AXES if getattr(plan, name) is not None]
    if not axes and plan.int8 is None:
        raise UsageError(f"--within searches {', '.join(AXES)} and int8; give the plan one of them, prune: {{}}, say")
    if plan.compile is not None:
        raise UsageError("--within makes many nets; leave `compile` out of the plan, and pdl compile the chosen one")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        state = _state(folder, model, plan, within)
        found = _Found(model, folder, within, hooks, progress)
        chosen: dict[str, float] = {}  # what is left, by section
        for number, axis in enumerate(axes):
            low, high, best = 0.0, 1.0, None
            for trial in range(trials):
                left = round((low + high) / 2, 4)
                watch.steps(f"compress: {axis}, {left:g} left", number * trials + trial, len(axes) * trials)
                enough = found.tried(_of(plan, {**chosen, axis: left}), {**chosen, axis: left})
                low, high = (low, left) if enough else (left, high)
                best = left if enough else best
            if best is not None:
                chosen[axis] = best
        if not axes:
            found.tried(plan, {})
        if found.first is None:
            raise UsageError(f"{model}: no share of its cost that was tried can be reached by this plan")
        steps = [found.first, *found.candidates]
        taken = milliseconds({step.name: of_bundle(read(step.bundle)) for step in steps})
        steps = [replace(step, milliseconds=taken[step.name]) for step in steps]
        fit = [step for step in steps if found.lost(step) <= within]
        fastest = min(fit, key=lambda step: step.milliseconds)
        steps, fastest = _tested(folder, state, steps, fastest)
        write_atomic(folder / CHOSEN, read_bytes(fastest.bundle))
        write_search(folder / PAGE, steps, fastest, found.monitor, found.mode, state)
        return Searched(steps, fastest, found.monitor, folder / CHOSEN, folder / PAGE)


def _of(plan: Plan, left: Mapping[str, float]) -> Plan:
    """The plan with so much left by these sections, without others that are searched."""
    made: dict[str, Any] = {}
    for name, (key, more) in AXES.items():
        section = getattr(plan, name)
        share = left.get(name)
        value = None if share is None else share if more else round(1 - share, 4)
        made[name] = None if section is None or share is None else replace(section, **{key: value})
    return replace(plan, **made)


class _Found:
    """The nets of all trials."""

    def __init__(self, model: str | Path, folder: Path, within: float, hooks: Sequence[Hook], progress: bool) -> None:
        self.model, self.folder, self.within = model, folder, within
        self.given: dict[str, Any] = {"hooks": hooks, "progress": progress, "tested": False}
        self.first: Step | None = None
        self.candidates: list[Step] = []
        self.monitor, self.mode = "", ""

    def tried(self, plan: Plan, left: Mapping[str, float]) -> bool:
        """Whether a net of the plan loses no more than the budget; false, too, where its cost cannot be reached: then
        more has to be left."""
        name = "_".join(f"{axis}_{share:g}" for axis, share in left.items()) or "plan"
        try:
            made = slim(self.model, plan, self.folder / name, **self.given)
        except Unreachable:
            return False
        if self.first is None:
            self.first, (self.monitor, self.mode) = made.steps[0], _monitored(made)
        label = ", ".join(f"{axis.replace('_', ' ')} {share:g}" for axis, share in left.items())
        own = [replace(step, name=f"{label}: {step.name}" if label else step.name) for step in made.steps[1:]]
        self.candidates += own
        return any(self.lost(step) <= self.within for step in own)

    def lost(self, step: Step) -> float:
        """Points."""
        assert self.first is not None
        off = step.metrics[self.monitor] - self.first.metrics[self.monitor]
        return 100 * (-off if self.mode == "max" else off)


def _monitored(made: Slimmed) -> tuple[str, str]:
    recipe = recipe_of(read(made.steps[0].bundle))
    monitor, mode = recipe.task.build().monitored(recipe.settings)
    if monitor not in made.steps[0].metrics:
        raise UsageError(f"--within compares {monitor}, and the recipe has no data.val to measure it on; give it one")
    return monitor, mode


def _state(folder: Path, model: str | Path, plan: Plan, within: float) -> dict[str, Any]:
    wanted = {"model": str(model), "plan": json.loads(json.dumps(asdict(plan))), "within": within}
    file = folder / STATE
    if not file.is_file():
        if any(folder.glob("*/steps.json")) or (folder / "steps.json").exists():
            raise UsageError(f"{folder}: holds something else; name another folder")
        state = {**wanted, "tested": {}}
        _keep(folder, state)
        return state
    try:
        known: dict[str, Any] = json.loads(read_text(file))
        same = {name: known[name] for name in wanted} == wanted and isinstance(known["tested"], dict)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: not what this pdl wrote ({error!r}); remove it, or name another folder") from None
    if not same:
        raise UsageError(f"{folder}: holds the search of another model, plan or budget; name another folder")
    return known


def _keep(folder: Path, state: Mapping[str, Any]) -> None:
    write_atomic(folder / STATE, (json.dumps(state, indent=1) + "\n").encode())


def _tested(folder: Path, state: dict[str, Any], steps: Sequence[Step], chosen: Step) -> tuple[list[Step], Step]:
    """The first and the chosen net with metrics of the test data, where there is any; each is measured once."""
    if "test" not in recipe_of(read(steps[0].bundle)).data.splits:
        return list(steps), chosen
    for step in {steps[0].name: steps[0], chosen.name: chosen}.values():
        if step.name not in state["tested"]:
            found = evaluate_bundle(step.bundle, split="test").metrics
            state["tested"][step.name] = {name: float(value) for name, value in found.items()}
            _keep(folder, state)
    ends = {steps[0].name, chosen.name}
    full = [replace(s, metrics={**s.metrics, **state["tested"][s.name]}) if s.name in ends else s for s in steps]
    return full, next(step for step in full if step.name == chosen.name)
