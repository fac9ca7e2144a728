"""One YAML file as written: its faults with line numbers, and the line of every key."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdl.config import named
from pdl.config.tree import Fault, Key, Origin, shown
from pdl.errors import ConfigError
from pdl.files import read_text

DEEPEST = 40
"""Levels of nesting in a recipe."""

MOST = 100_000
"""Values in a recipe, with those that aliases and interpolations repeat."""

MOST_BYTES = 256 << 10
"""Bytes of a recipe."""

_MERGE = "tag:yaml.org,2002:merge"


def read(path: Path) -> Mapping[Key, Origin]:
    """The line of every key of a YAML file, by path. Raises ConfigError with every fault a reader of the text can
    see.
    """
    return _read(path, text(path))


@functools.lru_cache(128)  # parts are read for every recipe that builds on them
def _read(path: Path, written: str) -> Mapping[Key, Origin]:
    import yaml

    try:
        root = yaml.compose(written, Loader=_loader())
    except yaml.YAMLError as error:
        raise ConfigError(syntax(path, error)) from None
    if root is None:
        raise ConfigError(f"{shown(path)}:1: the file is empty; a recipe has the keys task, model, data, optim, train")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise ConfigError(f"{shown(path)}:{_line(root)}: expected a mapping (`key: value` lines), got {kind}")
    marks, faults = keys(root, path)
    _defaults(root, path, faults)
    if faults:
        raise ConfigError([f"{fault.origin}: {fault.message}" for fault in faults])
    return marks


def values(path: Path) -> dict[str, Any]:
    """The values of a YAML file as they are written: nothing is composed, and interpolations stay text. ConfigError as
    of `read`."""
    read(path)
    return dict(parsed(text(path), path))


def parsed(written: str, path: Path) -> Any:
    """What YAML text holds, within the limits of a recipe; `path` names it in errors. Raises ConfigError."""
    import yaml

    loader = _loader()(written)
    try:
        if len(written) > MOST_BYTES:
            raise ConfigError(f"{shown(path)}: {len(written)} letters of YAML, more than the limit of {MOST_BYTES}")
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {}, path)
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(syntax(path, error)) from None
    except _Boundless as error:
        raise ConfigError(f"{error.origin}: {error}") from None
    finally:
        loader.dispose()


@functools.cache
def _loader() -> Any:
    """A YAML loader that stops where text is nested too deeply."""
    import yaml

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.depth += 1
            if self.depth > DEEPEST:
                raise yaml.composer.ComposerError(None, None, _TOO_DEEP, self.peek_event().start_mark)
            found = super().compose_node(parent, index)
            self.depth -= 1
            return found

    return Loader


def keys(root: Any, path: Path) -> tuple[dict[Key, Origin], list[Fault]]:
    """The line of every key below a YAML node, and what is wrong with keys: written twice, or of another kind than
    text. Nodes that no program can hold are a fault of their own: an alias inside of what it stands for, or aliases of
    aliases that stand for millions of values.
    """
    marks: dict[Key, Origin] = {}
    faults: list[Fault] = []
    try:
        _measure(root, {}, path)
    except _Boundless as error:
        return marks, [Fault((), str(error), error.origin)]
    _walk(root, (), path, marks, faults)
    return marks, faults


_TOO_DEEP = f"nested more than {DEEPEST} levels deep"


class _Boundless(Exception):
    def __init__(self, message: str, node: Any, file: Path) -> None:
        super().__init__(message)
        self.origin = Origin(file, _line(node))


def _measure(node: Any, known: dict[int, tuple[int, int] | None], file: Path) -> tuple[int, int]:
    """Values and levels at and below a node, where each alias counts as what it stands for; raises _Boundless."""
    if id(node) in known:
        found = known[id(node)]
        if found is None:
            raise _Boundless("an alias (*name) stands inside of what it is an alias of (&name)", node, file)
        return found
    known[id(node)] = None  # under way
    pairs = node.value if isinstance(node.value, list) else ()
    below = [_measure(x, known, file) for pair in pairs for x in (pair if isinstance(pair, tuple) else (pair,))]
    values, levels = 1 + sum(n for n, _ in below), 1 + max((deep for _, deep in below), default=0)
    if levels > DEEPEST:
        raise _Boundless(_TOO_DEEP, node, file)
    if values > MOST:
        raise _Boundless(f"stands for more than {MOST:,} values, as aliases (*name) repeat them", node, file)
    known[id(node)] = values, levels
    return values, levels


def syntax(path: Path, error: Any) -> str:
    """One line for a YAML error: file, line, what the parser met."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = f":{mark.line + 1}" if mark else ""
    problem = (getattr(error, "problem", None) or str(error)).strip().splitlines()[0]
    if r"'\t'" in problem:
        problem += "; YAML is indented with spaces, not tabs"
    elif "found '?'" in problem:
        problem += "; inside { } a missing value is written in quotes: '???'"
    elif "mapping values are not allowed" in problem:
        problem += "; check the indentation, and quote text that contains ': '"
    elif "another document" in problem or "expected '<document start>'" in problem:
        problem += "; a recipe is one YAML document"
    elif problem.startswith("could not determine a constructor"):
        problem += "; YAML tags (`!...`) are not part of the config grammar"
    return f"{shown(path)}{line}: not valid YAML: {problem}"


def _defaults(root: Any, path: Path, faults: list[Fault]) -> None:
    """A defaults list without `_self_` would let the parts override the recipe, silently."""
    lists = [value for name, value in root.value if name.value == "defaults"]
    if lists and len(root.value) > 1 and not any(getattr(item, "value", None) == "_self_" for item in lists[0].value):
        message = "the defaults list has no `- _self_`; add it as the last entry, so that this file wins over its parts"
        faults.append(Fault(("defaults",), message, Origin(path, _line(lists[0]))))


def text(path: Path) -> str:
    """The text of a file. Raises ConfigError that says why it cannot be read."""
    try:
        return read_text(path, MOST_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{shown(path)}: no such file{_similar(path)}") from None
    except IsADirectoryError:
        raise ConfigError(
            f"{shown(path)}: is a folder; name the recipe file in it, or a run folder with config.yaml"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown(path)}: byte {error.start} is not UTF-8 text; save the file as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: {error.strerror}") from None


def _similar(path: Path) -> str:
    there = path.parent.is_dir()
    names = sorted(file.name for file in path.parent.iterdir() if file.suffix in (".yaml", ".yml")) if there else []
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{shown(path.parent / close[0])}'?"
    if shipped := named.hint(path):
        return shipped
    if not there:
        return f"; the folder {shown(path.parent)} does not exist either"
    return (
        f"; recipes in {shown(path.parent) or '.'}: {', '.join(names)}"
        if names
        else "; there is no recipe in that folder"
    )


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _walk(node: Any, path: Key, file: Path, marks: dict[Key, Origin], faults: list[Fault]) -> None:
    import yaml

    if isinstance(node, yaml.MappingNode):
        _walk_mapping(node, path, file, marks, faults)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            marks[*path, index] = Origin(file, _line(item))
            _walk(item, (*path, index), file, marks, faults)
    elif not node.tag.startswith("tag:yaml.org,2002:"):
        faults.append(Fault(path, f"YAML tag {node.tag} is not part of the config grammar", Origin(file, _line(node))))


def _walk_mapping(node: Any, path: Key, file: Path, marks: dict[Key, Origin], faults: list[Fault]) -> None:
    seen: dict[str, int] = {}
    for name, value in node.value:
        if name.tag == _MERGE:
            _walk(value, path, file, marks, faults)
            continue
        key, place = _key(name), Origin(file, _line(name))
        if key is None:
            faults.append(
                Fault(path, f"the key {name.value!r} is read by YAML as {_kind(name)}; put it in quotes", place)
            )
            continue
        where = ".".join(map(str, (*path, key)))
        if key in seen:
            faults.append(Fault(path, f"{where}: written twice (also on line {seen[key]}); keep one", place))
        seen[key] = place.line
        marks[*path, key] = place
        _walk(value, (*path, key), file, marks, faults)


def _key(name: Any) -> Any:
    if name.tag == "tag:yaml.org,2002:str":
        return name.value
    return int(name.value) if name.tag == "tag:yaml.org,2002:int" and name.value.isdigit() else None


def _kind(name: Any) -> str:
    return f"a {name.tag.rpartition(':')[2]}"
