"""The keys that a recipe may have: type, range, default and meaning, read from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdl import suites
from pdl.config.common_arguments import COMMON
from pdl.config.parts import SECTIONS, find, is_short, parts
from pdl.config.signature import SECTION, TARGET, Argument, Supplied, signature, unwrap
from pdl.config.text import ABSENT
from pdl.config.tree import Config, Items, Key, Node, dotted, split
from pdl.config.words import describe
from pdl.errors import ConfigError, UsageError


@dataclass(frozen=True)
class KeyInfo:
    """One key of a recipe, or argument of a part.

    key       dotted, as overrides name it
    values    what it may hold, in words
    default   what holds where the recipe does not say; ABSENT where it must
    meaning   from the docstring of the class that takes it; empty where that is silent
    given     what the recipe says; ABSENT where it does not
    """

    key: str
    values: str
    default: Any
    meaning: str
    given: Any

    def __str__(self) -> str:
        """`a number > 0; default 0.1`."""
        here = "" if self.given is ABSENT else f"here {_written(self.given)}"
        default = "required" * (not here) if self.default is ABSENT else f"default {_written(self.default)}"
        return "; ".join(filter(None, [self.values, default, here]))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        known = {"key": self.key, "values": self.values, "required": self.default is ABSENT, "meaning": self.meaning}
        known |= {} if self.default is ABSENT else {"default": _plain(self.default)}
        return known | ({} if self.given is ABSENT else {"value": self.given})


def keys(schema: type, words: Sequence[str] = (), config: Config | None = None) -> list[KeyInfo]:
    """The keys of a recipe's schema, and those of the parts that `config` names.

    words   sections (train, data, data.transforms), keys (train.ema), or parts (sgd, resnet18, pdl_cv.LeNet); by
            default all sections. UsageError for a word that is none of these
    """
    every = list(_keys({} if config is None else config.tree, schema, (), frozenset()))
    if not words:
        return every
    return [info for word in words for info in _of_word(word, every)]


def with_defaults(config: Config, schema: type) -> Config:
    """The same recipe with all that it leaves to defaults; values that YAML cannot write are left out."""
    filled = Config(_copied(config.tree), config.path, config.overrides, dict(config.origins))
    for info in list(_keys(filled.tree, schema, (), frozenset())):
        if info.given is ABSENT and info.default is not ABSENT and _is_plain(info.default):
            *around, name = split(info.key)
            here: Any = filled.tree
            for step in around:
                here = here.setdefault(step, Node()) if isinstance(here, dict) else here[step]
            here[name] = _plain(info.default)
    return filled


def meaning(part: Any, name: str) -> str:
    """What the docstring of a class, or of one that it inherits from, says of an argument: its line in a table of
    arguments, or the sentence with its name between backticks; or what such arguments mean everywhere (`COMMON`)."""
    for cls in part.__mro__ if inspect.isclass(part) else (part,):
        text = inspect.cleandoc(cls.__doc__ or "") if cls is not object else ""
        if found := _in_table(text, name) or _in_sentence(text, name):
            return found
    return COMMON.get(name, "")


def _of_word(word: str, every: list[KeyInfo]) -> list[KeyInfo]:
    found = [info for info in every if info.key == word or info.key.startswith(f"{word}.")]
    if found:
        return found
    try:
        named = find(word) if is_short(word) else None
        return list(_arguments(named.arguments if named else {}, suites.locate(named.target if named else word), ()))
    except ConfigError as error:
        sections = list(dict.fromkeys(info.key.partition(".")[0] for info in every))
        hint = suites.suggest(word, [*sections, *(info.key for info in every)]) or f"; sections: {', '.join(sections)}"
        raise UsageError(f"{word!r} is no section or key{hint}, nor a part: {error}") from None


def _keys(node: Any, schema: type, path: Key, supplied: frozenset[str]) -> Iterator[KeyInfo]:
    """The keys of a mapping for which a class stands, those of sections and parts inside after each."""
    for name, argument in signature(schema).arguments.items():
        if name in supplied:
            continue
        where, given = (*path, name), node.get(name, ABSENT) if isinstance(node, Mapping) else ABSENT
        bare, extras = unwrap(argument.hint)
        if SECTION in extras:
            yield from _keys(given, bare, where, frozenset())
            continue
        yield _info(where, argument, schema, given)
        own = frozenset[str]().union(*(each.names for each in extras if isinstance(each, Supplied)))
        yield from _inside(given, where, own) if given is not ABSENT else _in_general(where, own)


def _in_general(path: Key, supplied: frozenset[str]) -> Iterator[KeyInfo]:
    """The keys of any optimizer or schedule, where the recipe names none; which of them take a key, if not all do."""
    if SECTIONS.get(path) not in ("optimizers", "schedules"):
        return
    takers: dict[str, list[str]] = {}
    first: dict[str, KeyInfo] = {}
    known = parts(SECTIONS[path])
    for part in known:
        for info in _keys({}, suites.locate(part.target), path, supplied):
            takers.setdefault(info.key, []).append(part.name)
            first.setdefault(info.key, info)
    for key, info in first.items():
        of = "" if len(takers[key]) == len(known) else f"(of {', '.join(takers[key])})"
        yield replace(info, meaning=f"{info.meaning} {of}".strip())


def _inside(given: Any, path: Key, supplied: frozenset[str]) -> Iterator[KeyInfo]:
    """The keys of a part that the recipe names, and of those in lists."""
    if isinstance(given, list):
        for index, item in enumerate(given):
            yield from _inside(item, (*path, index), frozenset())
    elif isinstance(given, Mapping) and isinstance(given.get(TARGET), str):
        try:
            part = suites.locate(given[TARGET])
        except ConfigError:  # the check says so
            return
        yield from _keys(given, part, path, supplied)


def _arguments(given: Mapping[str, Any], part: Any, path: Key) -> Iterator[KeyInfo]:
    """Those of a part that stands alone."""
    made_by_program = frozenset({"params"}) if "params" in signature(part).arguments else frozenset[str]()
    yield from _keys(given, part, path, made_by_program)


def _info(path: Key, argument: Argument, owner: Any, given: Any) -> KeyInfo:
    values, said = describe(argument.hint), meaning(owner, str(path[-1]))
    if path in SECTIONS:
        kind = SECTIONS[path]
        said = said or f"see `pdl list {kind}`"
        names = [each.name for each in parts(kind)]
        values += f", such as {', '.join(names[:8])}" if names else ""
    default = ABSENT if argument.required else argument.default
    return KeyInfo(dotted(path), values, default, said, _name_of_part(given))


def _name_of_part(given: Any) -> Any:
    """A value, of a part its import path alone: its arguments are keys of their own."""
    if isinstance(given, list):
        return [_name_of_part(item) for item in given]
    return given[TARGET] if isinstance(given, Mapping) and TARGET in given else given


_ROW = re.compile(r"^(\w+(?:, \w+)*) {2,}(\S.*(?:\n +\S.*)*)", re.MULTILINE)


_BESIDE = re.compile(r"; {2,}(\w+(?:, \w+)*)(?:: | {2,})(?=\S)")  # between two arguments on one line


def _in_table(text: str, name: str) -> str:
    for names, said in _ROW.findall(_BESIDE.sub(r"\n\1  ", text)):
        if name in names.split(", "):
            return " ".join(said.split())
    return ""


def _in_sentence(text: str, name: str) -> str:
    for paragraph in text.split("\n\n"):
        for sentence in re.split(r"(?<=[.;])\s+(?=[A-Z`(])", " ".join(paragraph.split())):
            if re.search(rf"`{name}\b[^`]*`", sentence):
                return sentence.rstrip(".;")
    return ""


def _written(value: Any) -> str:
    """As in a recipe, on one line."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_written(item)}' for key, item in value.items())}}}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, (bool, int, float, str, Path))


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return Items(map(_plain, value))
    if isinstance(value, dict):
        return Node({key: _plain(item) for key, item in value.items()})
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _copied(value: Any) -> Any:
    """The tree in mappings and lists of its own, which know their places."""
    if not isinstance(value, (Node, Items)):
        return value
    made: Any = (
        Node({key: _copied(item) for key, item in value.items()})
        if isinstance(value, Node)
        else Items(map(_copied, value))
    )
    made.path, made.origin = value.path, value.origin
    return made
