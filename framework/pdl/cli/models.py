"""`pdl models`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json
from pdl.errors import UsageError
from pdl.suites import suggest

if TYPE_CHECKING:
    from pdl.hub import Entry
    from pdl.hub.catalogue import Model
    from pdl.hub.systems import System

EXAMPLE = "Example:  pdl models 'resnet*' --task classification"
NO_ARGS_IS_HELP = False
FEW = 24  # models that are shown one a line, with what a recipe writes


def command(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Part of a name, or a pattern with * and ?.")] = "*",
    task: Annotated[str | None, typer.Option("--task", help="Only models for this task.")] = None,
    json: Json = False,
) -> None:
    """List pretrained models (`pdl download` and `pretrained:` in a recipe take their names), then the models that
    recipes can train.
    """
    from pdl.hub import broken
    from pdl.hub.catalogue import catalogue, combined, pretrained

    entries, models = pretrained(pattern, task=task), catalogue(pattern, task=task)
    systems = combined(pattern, task=task)
    for fault in (line for error in broken().values() for line in error.problems):
        style.note(fault)
    if json:
        facts = {
            "pretrained": [_facts(each) for each in entries],
            "systems": [each.to_dict() for each in systems],
            "architectures": [vars(each) for each in models],
        }
        return style.json(facts)
    if entries or systems:
        _pretrained(entries, systems)
    if models:
        _architectures(models, apart=bool(entries or systems))
    if not entries and not models and not systems:
        every = [*(each.name for each in pretrained()), *(each.name for each in catalogue())]
        of_task = f" for the task {task!r}" if task else ""
        raise UsageError(f"nothing is named like {pattern!r}{of_task}{suggest(pattern, every)}")


def _pretrained(entries: Iterable[Entry], systems: Iterable[System]) -> None:
    from pdl.hub import entry

    rows = [_row(each, [each]) for each in entries]
    rows += [_row(each, [entry(part) for part in each.parts.values()]) for each in systems]
    style.table(["pretrained", "task", "size", "reaches", "on", "licence", "cached"], rows)


def _row(named: Entry | System, files: list[Entry]) -> list[Any]:
    """The line of a model, or of a system with its files."""
    from pdl.hub.files import present
    from pdl.hub.index import incompatible

    cached = "yes" if all(present(each) for each in files) else "no"
    here = f"needs pdl {named.pdl}" if incompatible(named) else cached
    metric = f"{named.metric.name} {named.metric.value:.4g}" if named.metric else None
    data = named.metric.data if named.metric else None
    licence = ", ".join(dict.fromkeys(each.licence for each in files))
    return [named.name, named.task, style.size(sum(each.bytes for each in files)), metric, data, licence, here]


def _architectures(models: list[Model], *, apart: bool) -> None:
    if apart:
        style.out("")
    if len(models) <= FEW:
        rows = [[each.name, each.task, each.target, each.arguments] for each in models]
        return style.table(["to train", "task", "_target_", "arguments"], rows)
    families: dict[tuple[str, str, str], list[str]] = {}
    for each in models:
        families.setdefault((each.suite, each.family, each.task), []).append(each.name)
    rows = [[suite, family, task, " ".join(names)] for (suite, family, task), names in families.items()]
    style.table(["suite", "family", "task", "to train"], rows)
    style.note("\n`pdl models PATTERN` shows what a recipe writes to get a model")


def _facts(entry: Entry) -> dict[str, Any]:
    from pdl.hub.files import present
    from pdl.hub.index import incompatible

    path = present(entry)
    return {**entry.to_dict(), "cached": path is not None, "path": path, "incompatible": incompatible(entry)}
