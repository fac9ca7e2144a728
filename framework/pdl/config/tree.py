"""The config tree: plain dicts and lists that know their path, and where each key came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Key = tuple[str | int, ...]
LONG = 60  # letters of a value that are not repeated in a message
MISSING = "???"  # how YAML says that a value must still be given


@dataclass(frozen=True)
class Origin:
    """Where a key was written: a line of a file, or an override on the command line."""

    file: Path | None = None
    line: int = 0
    override: str = ""

    def __str__(self) -> str:
        if self.override:
            key, _, value = self.override.partition("=")
            return f"command line: {key if len(value) > LONG else self.override}"
        return f"{shown(self.file)}:{self.line}" if self.file and self.line else shown(self.file)

    def of(self, path: Key) -> str:
        """`file:12: a.b`: the place of the value at a path; the path is left out where the override names it."""
        own = self.override.partition("=")[0].lstrip("+~")
        return ": ".join(part for part in (str(self), dotted(path)) if part and part != own)


class Node(dict[str, Any]):
    """A mapping of the tree; `path` is its place, `origin` the place of its first line."""

    path: Key = ()
    origin: Origin = Origin()


class Items(list[Any]):
    """A list of the tree, with the same two words."""

    path: Key = ()
    origin: Origin = Origin()


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong at one place of the tree; without a message, what follows from another fault."""

    path: Key
    message: str
    origin: Origin | None = None


@dataclass
class Config:
    """A composed recipe: `cfg["train"]["epochs"]`, or `cfg.get("train.epochs")`.

    `tree` is nested Node/Items (dict and list); `origins` says where each key was written; `faults` are problems
    met while composing, which `check` reports with its own; `notices` are lines the user should see (names that
    moved). `kept` has, for each value that comes from the environment, the interpolation that is written in its place
    and the value: it may be a secret.
    """

    tree: Node
    path: Path | None = None
    overrides: tuple[str, ...] = ()
    origins: dict[Key, Origin] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    kept: dict[Key, tuple[str, Any]] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.tree[key]

    def __contains__(self, key: str) -> bool:
        return key in self.tree

    def get(self, dotted: str, default: Any = None) -> Any:
        """The value at `a.b.0.c`, or `default`."""
        here: Any = self.tree
        for name in split(dotted):
            try:
                here = here[name]
            except (KeyError, IndexError, TypeError):
                return default
        return here

    def origin(self, where: str | Key) -> Origin:
        """Where a key was written; for a key that was not, where the nearest mapping around it was."""
        key = split(where) if isinstance(where, str) else where
        while key and key not in self.origins:
            key = key[:-1]
        return self.origins.get(key, Origin(self.path))

    def plain(self) -> dict[str, Any]:
        """The tree as plain dicts and lists."""
        return dict(plain(self.tree))

    def written(self, key: Key, value: Any) -> str | None:
        """What is written for a value that came from the environment; None for all others."""
        text, stands_for = self.kept.get(key, ("", None))
        return text if text and stands_for == value and type(stands_for) is type(value) else None

    def line(self, fault: Fault) -> str:
        """`file:12: a.b: what is wrong` for one fault."""
        origin = fault.origin or self.origin(fault.path)
        return ": ".join(part for part in (origin.of(fault.path), fault.message) if part)


def split(dotted_path: str) -> Key:
    """`a.0.b` -> ("a", 0, "b")."""
    return tuple(int(name) if name.isdigit() else name for name in dotted_path.split(".")) if dotted_path else ()


def dotted(key: Key) -> str:
    """("a", 0, "b") -> `a.0.b`, the form overrides use."""
    return ".".join(map(str, key))


def plain(value: Any) -> Any:
    """A deep copy made of plain dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def leaves(value: Any, path: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Every scalar (and empty container) of a tree with its path, in order."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def shown(file: Path | None) -> str:
    """A path as a person would type it here: relative when it lies below the working directory."""
    if file is None:
        return "config"
    try:
        return str(file.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)
