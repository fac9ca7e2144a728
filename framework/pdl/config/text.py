"""A config as text: shown with origins, compared with another, written into the run folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdl.config.tree import Config, Key, dotted, leaves, plain, shown
from pdl.files import write_atomic

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "-"})()


def to_yaml(tree: Any) -> str:
    """YAML that composes back to exactly this tree, or this Config: text that looks like a number is quoted, literal
    `${` is escaped. What a Config has from the environment stays an interpolation.
    """
    from omegaconf import OmegaConf

    config = tree if isinstance(tree, Config) else Config(tree)
    return OmegaConf.to_yaml(OmegaConf.create(_escaped(plain(config.tree), (), config)))


def quoted(text: str | os.PathLike[str]) -> str:
    """Text as a YAML string that composes back to itself: for writers of recipes."""
    return "'" + str(text).replace("'", "''").replace("${", "\\${") + "'"


def flow(numbers: Mapping[str, float]) -> str:
    """Numbers by plain names as a YAML mapping in one line: for writers of recipes."""
    return f"{{{', '.join(f'{name}: {value}' for name, value in numbers.items())}}}"


def show(config: Config, *, origins: bool = False) -> str:
    """The resolved tree as YAML; with `origins` each line ends with the file and line (or override) that set it."""
    text = to_yaml(config)
    if not origins:
        return text
    lines = text.splitlines()
    notes = {number: str(config.origin(key)) for key, number in _line_numbers(text).items()}
    width = min(max((len(line) for line in lines), default=0), 70)
    noted = (
        f"{line:<{width}}  # {notes[number]}" if number in notes else line for number, line in enumerate(lines, start=1)
    )
    return "\n".join(noted) + "\n"


@dataclass(frozen=True)
class Difference:
    """One key whose value differs; ABSENT where a side lacks it."""

    key: str
    left: Any
    right: Any

    def __str__(self) -> str:
        if self.left is ABSENT:
            return f"+ {self.key}: {self.right}"
        return f"- {self.key}: {self.left}" if self.right is ABSENT else f"  {self.key}: {self.left} -> {self.right}"


def diff(left: Config, right: Config) -> list[Difference]:
    """Keys whose resolved values differ, in the order of the left tree, then what only the right one has."""
    a, b = ({dotted(key): value for key, value in leaves(each.plain())} for each in (left, right))
    keys = [*a, *(key for key in b if key not in a)]
    pairs = ((key, a.get(key, ABSENT), b.get(key, ABSENT)) for key in keys)
    return [
        Difference(key, x, y)
        for key, x, y in pairs
        if (x is ABSENT) != (y is ABSENT) or x != y or type(x) is not type(y)
    ]


def dump(config: Config, folder: str | Path) -> Path:
    """Write the resolved config as `config.yaml` into a run folder, whole or not at all; `load(folder)` gives the
    same tree back.
    """
    target = Path(folder) / "config.yaml"
    made_from = " ".join([shown(config.path), *config.overrides])
    text = f"# {' '.join(made_from.split())}\n{to_yaml(config)}"
    write_atomic(target, text)
    return target


def _escaped(value: Any, path: Key, config: Config) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(item, (*path, key), config) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item, (*path, index), config) for index, item in enumerate(value)]
    if text := config.written(path, value):
        return text
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value) if isinstance(value, str) else value


def _line_numbers(text: str) -> dict[Key, int]:
    """The line of every scalar (or empty container) of YAML text that `to_yaml` wrote."""
    import yaml

    found: dict[Key, int] = {}

    def walk(node: Any, path: Key) -> None:
        if isinstance(node, yaml.MappingNode) and node.value:
            for name, value in node.value:
                walk(value, (*path, name.value))
        elif isinstance(node, yaml.SequenceNode) and node.value:
            for index, value in enumerate(node.value):
                walk(value, (*path, index))
        else:
            found[path] = node.start_mark.line + 1

    walk(yaml.compose(text, Loader=yaml.SafeLoader), ())
    return found
