"""`search`: a plan under a budget, how much is pruned searched: the fastest net that loses at most so many points.

Its folder

    left_0.5/ ...   a folder of `slim` for each share of the cost that was tried
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
        steps = [{**asdict(step), "bundle": str(step.bundle)} for step in self.steps]
        about = {"monitor": self.monitor, "bundle": str(self.bundle), "page": str(self.page)}
        return {**about, "chosen": self.chosen.name, "steps": steps}


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
    """Make a model as fast as may be by a plan, in the folder `out`, with `prune.left` found by halving.

    within   points (hundredths) of the validation metric that its task monitors, which may be lost
    trials   shares of the cost that are tried; of each, every step's bundle is a candidate, on bytes or not

    UsageError where the plan prunes nothing, there is no validation data, or the folder holds another search.
    """
    if plan.prune is None:
        raise UsageError("--within searches how much is pruned; give the plan a section prune: {}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        state = _state(folder, model, plan, within)
        first: Step | None = None
        candidates: list[Step] = []
        low, high, monitor, mode = 0.0, 1.0, "", ""
        for trial in range(trials):
            left = round((low + high) / 2, 4)
            watch.steps(f"compress: left={left:g}", trial, trials)
            given = replace(plan, prune=replace(plan.prune, left=left))
            try:
                made = slim(model, given, folder / f"left_{left:g}", hooks=hooks, progress=progress, tested=False)
            except Unreachable:
                low = left
                continue
            if first is None:
                first, (monitor, mode) = made.steps[0], _monitored(made)
            own = [replace(step, name=f"{left:g} {step.name}") for step in made.steps[1:]]
            candidates += own
            enough = any(_lost(first, step, monitor, mode) <= within for step in own)
            low, high = (low, left) if enough else (left, high)
        if first is None:
            raise UsageError(f"{model}: no share of its cost that was tried can be reached by taking channels out")
        steps = [first, *candidates]
        taken = milliseconds({step.name: of_bundle(read(step.bundle)) for step in steps})
        steps = [replace(step, milliseconds=taken[step.name]) for step in steps]
        fit = [step for step in steps if _lost(first, step, monitor, mode) <= within]
        chosen = min(fit, key=lambda step: step.milliseconds)
        steps, chosen = _tested(folder, state, steps, chosen)
        write_atomic(folder / CHOSEN, read_bytes(chosen.bundle))
        write_search(folder / PAGE, steps, chosen, monitor, mode, state)
        return Searched(steps, chosen, monitor, folder / CHOSEN, folder / PAGE)


def _monitored(made: Slimmed) -> tuple[str, str]:
    recipe = recipe_of(read(made.steps[0].bundle))
    monitor, mode = recipe.task.build().monitored(recipe.settings)
    if monitor not in made.steps[0].metrics:
        raise UsageError(f"--within compares {monitor}, and the recipe has no data.val to measure it on; give it one")
    return monitor, mode


def _lost(first: Step, step: Step, monitor: str, mode: str) -> float:
    """Points."""
    off = step.metrics[monitor] - first.metrics[monitor]
    return 100 * (-off if mode == "max" else off)


def _state(folder: Path, model: str | Path, plan: Plan, within: float) -> dict[str, Any]:
    wanted = {"model": str(model), "plan": json.loads(json.dumps(asdict(plan))), "within": within}
    file = folder / STATE
    if not file.is_file():
        if any(folder.glob("left_*")) or (folder / "steps.json").exists():
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
