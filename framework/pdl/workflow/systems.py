"""Systems of one's own: several models that answer together, told by a file.

    # masks.yaml
    parts: {detect: runs/faces, each: runs/masks/model.pdl}
    predictor: {_target_: pdl_cv.Cascade, margin: 1.2}

`pdl predict masks.yaml photo.jpg` then asks them together. What may be called so, the documents of the suites say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdl import suites
from pdl.config.signature import TARGET
from pdl.config.tree import Config
from pdl.errors import ConfigError
from pdl.hub.schema import IndexChecker, index_tree
from pdl.runtime.predict import Predictor

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class SystemFile:
    """What such a file says.

    parts      argument of the predictor -> a run folder, a bundle or a name of the hub; paths are relative to the file
    predictor  {_target_: pdl_cv.Cascade, ...}: what is called with a model for each part, and with these arguments
    """

    parts: dict[str, str]
    predictor: dict[str, Any]


def open_file(path: Path, open_part: Callable[[str], Predictor]) -> Predictor:
    """The predictor of a system's file. ConfigError for a file with faults, before any part is opened.

    open_part   opens a run folder, a bundle or a name of the hub
    """
    said, marks = index_tree(path, "parts")
    config, checker = Config(said, path, origins=marks), IndexChecker()
    checker.arguments(said, SystemFile, ())
    if checker.faults:
        raise ConfigError([config.line(fault) for fault in checker.faults])
    target = said["predictor"].get(TARGET)
    if target is None:
        raise ConfigError(f"{path}: predictor: it lacks {TARGET}, what is called: {{{TARGET}: pdl_cv.Cascade}}")
    make = suites.locate(target)
    arguments = {key: value for key, value in said["predictor"].items() if key != TARGET}
    try:
        inspect.signature(make).bind(**arguments, **said["parts"])
    except TypeError as error:
        raise ConfigError(f"{path}: {target}: {error}") from None
    opened = {argument: open_part(_place(path.parent, word)) for argument, word in said["parts"].items()}
    made: Predictor = make(**opened, **arguments)
    return made


def _place(folder: Path, word: str) -> str:
    """A path, relative to the folder where something is there; else the word, a name of the hub."""
    there = folder / Path(word).expanduser()
    return str(there) if there.exists() else word
