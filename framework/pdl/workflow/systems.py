"""Systems of one's own: several models that answer together, told by a file.

    # masks.yaml
    parts: {detect: runs/faces, each: runs/masks/model.pdl}
    predictor: {_target_: pdl_cv.Cascade, margin: 1.2}

`pdl predict masks.yaml photo.jpg` then asks them together, and `pdl export masks.yaml` makes one bundle of them. What
may be called so, the documents of the suites say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdl.config.tree import Config
from pdl.errors import ConfigError, UsageError
from pdl.export.from_hub import bundle_of
from pdl.export.systems import opened, write_system
from pdl.files import read_text
from pdl.hub.index import incompatible
from pdl.hub.schema import IndexChecker, index_tree
from pdl.hub.systems import system
from pdl.runtime.predict import Predictor
from pdl.workflow.exporting import FILE, Exported
from pdl.workflow.locating import located

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class SystemFile:
    """What such a file says.

    parts      argument of the predictor -> a run folder, a bundle or a name of the hub; paths are relative to the file
    predictor  {_target_: pdl_cv.Cascade, ...}: what is called with a model for each part, and with these arguments
    """

    parts: dict[str, str]
    predictor: dict[str, Any]


def is_system(word: str | Path) -> bool:
    """Whether a word names a system: a file of one, or a system of the hub."""
    path = Path(word).expanduser()
    return path.suffix in SUFFIXES if path.is_file() else not path.exists() and system(word) is not None


def read_file(path: Path) -> SystemFile:
    """What a file says, its paths as seen from here. ConfigError for one with faults."""
    said, marks = index_tree(path, "parts")
    config, checker = Config(said, path, origins=marks), IndexChecker()
    checker.arguments(said, SystemFile, ())
    if checker.faults:
        raise ConfigError([config.line(fault) for fault in checker.faults])
    parts = {argument: _place(path.parent, word) for argument, word in said["parts"].items()}
    return SystemFile(parts, said["predictor"])


def open_file(path: Path, open_part: Callable[[str], Predictor]) -> Predictor:
    """The predictor of a system's file. ConfigError for a file with faults, before any part is opened.

    open_part   opens a run folder, a bundle or a name of the hub
    """
    said = read_file(path)
    return opened(said.predictor, said.parts, str(path), open_part)


def export_system(word: str | Path, out: str | Path | None = None, *, licence: str = "") -> Exported:
    """Write a system, told by a file or named by the hub, as one bundle (NAME.pdl by default, beside the file or here).

    licence   of all of it; by default those of its parts
    Run folders are taken by the bundles in them; UsageError where one has none.
    """
    path = Path(word).expanduser()
    facts: dict[str, Any] = {"licence": licence}
    if path.is_file():
        said, target = read_file(path), path.with_suffix(".pdl")
        predictor, parts, where = said.predictor, {name: _bundle(each) for name, each in said.parts.items()}, str(path)
    else:
        known = system(word)
        if known is None:
            raise UsageError(f"{word}: no file of a system, and none of the hub")
        if problem := incompatible(known):
            raise UsageError(problem)
        predictor, where, target = known.predictor, known.name, Path(f"{known.short}.pdl")
        parts = {name: bundle_of(each) for name, each in known.parts.items()}
        facts["about"] = {"task": known.task}
        if known.metric is not None:
            facts["metrics"] = {known.metric.name: known.metric.value}
            facts["about"]["measured"] = f"{known.metric.data}: {known.metric.protocol}"
        if known.card is not None:
            facts["card"] = read_text(known.package.folder / known.card)
    target = target if out is None else Path(out)
    made = write_system(target, predictor, parts, where=where, **facts)
    sizes = [(f"part {name}", f"{each.meta['name']}, {each.size / 1000:,.1f} kB") for name, each in made.parts.items()]
    return Exported(target, [("bundle", str(target)), ("size", f"{made.size / 1000:,.1f} kB"), *sizes])


def _bundle(word: str) -> Path:
    """The bundle of a part."""
    place = located(word)
    if place.is_file():
        return place
    if not (place / FILE).is_file():
        raise UsageError(f"{word}: the run has no bundle ({FILE}); write it first: pdl export {word}")
    return place / FILE


def _place(folder: Path, word: str) -> str:
    """A path, relative to the folder where something is there; else the word, a name of the hub."""
    there = folder / Path(word).expanduser()
    return str(there) if there.exists() else word
