"""`pdl selftest`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, which
from pdl.errors import UsageError

if TYPE_CHECKING:
    from pdl.workflow.selftest import Outcome

EXAMPLE = "Example:  pdl selftest -c cv/digits_lenet        pdl selftest --all"
SIGNS = {"passed": ("✓", "ok  "), "failed": ("✗", "FAIL"), "skipped": ("-", "skip")}


def command(
    overrides: Overrides = None,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", metavar="RECIPE", help="A recipe: a name or a YAML file. May be repeated."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every recipe that the installed suites ship (`pdl config list`).")
    ] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the run folders and bundles, and say where.")] = False,
    json: Json = False,
) -> None:
    """Try recipes whole, in seconds each: train on a little data, resume, evaluate, export, predict from the bundle.

    A recipe's own data is used where it is on this machine, otherwise a stand-in of real data that comes with its
    suite; the line says which. Nothing is fetched from the network. Exit code 1 when a recipe fails, or none passes.
    """
    from pdl.config.named import name_of

    if not config and not everything:
        raise UsageError(which(overrides or (), other=", or --all"))
    recipes = _recipes(config or [], everything)
    width = max(len(name_of(each) or str(each)) for each in recipes)
    with _folder(keep) as folder:
        found = []
        for number, recipe in enumerate(recipes):
            found.append(_one(recipe, overrides or [], folder / str(number)))
            if not json:
                _show(found[-1], width)
    counts = {status: sum(each.status == status for each in found) for status in SIGNS}
    if json:
        style.json({**counts, "recipes": [vars(each) for each in found]})
    else:
        seconds = sum(each.seconds for each in found)
        style.out(", ".join(f"{count} {status}" for status, count in counts.items() if count) + f" in {seconds:.1f} s")
    if counts["failed"] or not counts["passed"]:
        raise typer.Exit(1)


def _recipes(named: list[Path], everything: bool) -> list[Path]:
    from pdl.config import source
    from pdl.config.named import find, shipped

    if everything and named:
        raise UsageError("-c names recipes and --all takes every one: give one of the two")
    files = list(shipped().values()) if everything else [find(each) for each in named]
    for file in files:
        if not file.exists():
            source.read(file)  # says what was probably meant
    if not files:
        raise UsageError("no installed suite ships recipes; name a file: -c RECIPE.yaml")
    return files


def _one(recipe: Path, overrides: list[str], folder: Path) -> Outcome:
    """Try one recipe; says what it is at."""
    from pdl.config.named import name_of
    from pdl.workflow.selftest import STEPS, run

    names = list(STEPS)

    def tell(step: str) -> None:
        style.working(f"{name_of(recipe) or recipe}: {step} ({names.index(step) + 1} of {len(names)})")

    try:
        return run(recipe, overrides, folder=folder, tell=tell)
    finally:
        style.working("")


def _show(outcome: Outcome, width: int) -> None:
    """One line, and on standard error what else there is to say."""
    first, *more = outcome.reason.splitlines() or [""]
    passed = outcome.status == "passed"
    said = (
        f"{_facts(outcome.facts)}  ({outcome.data}, {outcome.seconds:.1f} s)" if passed else f"{outcome.step}: {first}"
    )
    style.out(f"{style.sign(*SIGNS[outcome.status])} {outcome.recipe:<{width}}  {said}")
    for line in more:
        style.note(f"    {line}")


def _facts(facts: dict[str, Any]) -> str:
    first, last = facts["loss"]
    answers = f"{facts['inputs']} answers of the {facts['bundle_bytes'] / 1000:,.0f} kB bundle"
    return f"loss {first:.2f} -> {last:.2f}, resumes exactly, {answers} within {facts['difference']:.0e}"


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    """Where runs and bundles go; taken away afterwards unless they are kept."""
    path = Path(tempfile.mkdtemp(prefix="pdl-selftest-"))
    try:
        yield path
    finally:
        if keep:
            style.note(f"kept: {path}")
        else:
            shutil.rmtree(path, ignore_errors=True)
