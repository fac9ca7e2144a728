"""Values against annotations: the schema of a part is the signature of its constructor, nothing is written twice.

`Checker.value(value, hint, path)` returns the value as the constructor should get it and collects every fault it
meets. Understood are int, float, bool, str, None, Path, Literal, Enum, unions, list / tuple / Sequence / dict and
the like, Annotated with Range or Choice, and classes (a mapping with `_target_`). What has no annotation is not
judged, but `_target_` mappings inside are.
"""

from __future__ import annotations

import enum
import inspect
import os
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pdl import suites
from pdl.config.allowed import is_plain, refusal
from pdl.config.parts import SECTIONS, find, is_short
from pdl.config.signature import SECTION, TARGET, Supplied, signature, unwrap
from pdl.config.tree import MISSING, Fault, Key, Node, dotted
from pdl.config.words import MAPPINGS, NUMBER, SEQUENCES, WORDS, advice, describe, name_of, show, unknown_key
from pdl.errors import ConfigError
from pdl.hints import Choice, Inferred, Range


class Checker:
    """Walks values and hints together; `faults`, `notices` and `paths` grow as it goes."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.notices: list[str] = []
        self.paths: list[Key] = []  # of values that are places of files

    def value(self, value: Any, hint: Any, path: Key) -> Any:
        """The value as the constructor should get it; faults are collected."""
        bare, extras = unwrap(hint)
        if isinstance(value, str) and value == MISSING:
            return self._fault(path, f"a value must be given ({dotted(path)}=...): {describe(hint)}", value)
        if get_origin(bare) in (Union, types.UnionType):
            return self._union(value, bare, path, extras)
        if isinstance(value, dict) and TARGET in value:
            return self._part(value, hint, path)
        result = self._plain(value, hint, path)
        for extra in extras:
            self._limit(result, extra, hint, path)
        return result

    def arguments(
        self,
        node: dict[str, Any],
        part: Any,
        path: Key,
        supplied: frozenset[str] = frozenset(),
        inferred: frozenset[str] = frozenset(),
    ) -> None:
        """The keys of a mapping against the arguments of a constructor; values are put back as they should be. What is
        `supplied` must not be given, what is `inferred` may be left out."""
        takes = signature(part)
        for key in [key for key in node if key != TARGET]:
            if key in supplied:
                self._fault((*path, key), "is given by the program; remove it from the recipe")
            elif key in takes.arguments:
                node[key] = self.value(node[key], takes.arguments[key].hint, (*path, key))
            elif takes.open_ended:
                self._anything(node[key], (*path, key))
            else:
                self._fault((*path, key), unknown_key(key, [name for name in takes.arguments if name not in supplied]))
        for name, argument in takes.arguments.items():
            if argument.required and name not in node and name not in supplied | inferred:
                needs = f"{name_of(part)} needs" if TARGET in node else "expected"
                self._fault((*path, name), f"missing; {needs} {describe(argument.hint)} here")

    def _fault(self, path: Key, message: str, value: Any = None) -> Any:
        self.faults.append(Fault(path, message))
        return value

    def _expected(self, value: Any, hint: Any, path: Key, remedy: str = "") -> Any:
        return self._fault(path, f"expected {describe(hint)}, got {show(value)}{remedy}", value)

    def _union(self, value: Any, hint: Any, path: Key, extras: tuple[Any, ...]) -> Any:
        """The first member that takes the value as it is, else the first that takes it at all."""
        if value is None and type(None) in get_args(hint):
            return None
        if isinstance(value, str) and any(unwrap(member)[0] is Path for member in get_args(hint)):
            self.paths.append(path)
        members = [_annotate(member, extras) for member in get_args(hint) if member is not type(None)]
        trials = []
        for member in members:
            trial = type(self)()
            trials.append((trial, trial.value(value, member, path)))
        good = [each for each in trials if not each[0].faults]
        same = [each for each in good if type(each[1]) is type(value) and each[1] == value]
        if not good:
            return self._no_member(value, hint, path, [each[0] for each in trials], members)
        chosen = (same or good)[0]
        self.notices += chosen[0].notices
        self.paths += chosen[0].paths
        return chosen[1]

    def _no_member(self, value: Any, hint: Any, path: Key, trials: list[Checker], members: list[Any]) -> Any:
        """The faults of the member that was meant, where that is plain; else what all of them are."""
        alike = [trial for trial, member in zip(trials, members, strict=True) if _same_kind(value, member)]
        fitting = [trial for trial in alike if not any(fault.path == (*path, TARGET) for fault in trial.faults)]
        if len(members) == 1 or alike:
            self.faults += (fitting or alike or trials)[0].faults
            return value
        described = " or ".join(
            describe(member) for member in (*members, *[m for m in get_args(hint) if m is type(None)])
        )
        return self._fault(path, f"expected {described}, got {show(value)}", value)

    def _part(self, node: dict[str, Any], hint: Any, path: Key) -> Any:
        bare, extras = unwrap(hint)
        if is_short(node[TARGET]) and not self._write_out(node, bare, path):
            return node
        part = self._locate(node, path)
        if part is None:
            return node
        if is_plain(get_origin(bare) or bare):
            return self._expected(node, hint, path)
        if problem := refusal(part, node[TARGET], hint):
            return self._fault((*path, TARGET), problem, node)
        if inspect.isabstract(part):
            return self._fault(
                (*path, TARGET), f"{node[TARGET]} is a base class, which cannot be built; name one of its kinds", node
            )
        supplied, inferred = (
            frozenset[str]().union(*(extra.names for extra in extras if isinstance(extra, kind)))
            for kind in (Supplied, Inferred)
        )
        self.arguments(node, part, path, supplied, inferred)
        return node

    def _write_out(self, node: dict[str, Any], bare: Any, path: Key) -> bool:
        """Put the import path, and the arguments of a variant, in the place of a short name."""
        base = bare if inspect.isclass(bare) and not is_plain(bare) and bare is not Any else object
        try:
            full = find(node[TARGET], SECTIONS.get(path), base).node(node)
        except ConfigError as error:
            self._fault((*path, TARGET), str(error))
            return False
        node.clear()
        node.update(full)
        return True

    def _locate(self, node: dict[str, Any], path: Key) -> Any:
        target = node[TARGET]
        if not isinstance(target, str):
            return self._fault((*path, TARGET), f"expected an import path like 'pdl_cv.LeNet', got {show(target)}")
        try:
            new = suites.moved(target)
            if new is not None:
                self.notices.append(
                    f"{dotted((*path, TARGET))}: {target} is now {new}; the old name still works, please change it"
                )
                node[TARGET] = target = new
            return suites.locate(target)
        except ConfigError as error:
            return self._fault((*path, TARGET), str(error))

    def _plain(self, value: Any, hint: Any, path: Key) -> Any:
        """A value that is not a part, against a hint that is not a union."""
        bare, extras = unwrap(hint)
        origin = get_origin(bare) or bare
        if SECTION in extras:
            return self._section(value, bare, path)
        if origin is Any or origin is object or isinstance(origin, typing.TypeVar):
            return self._anything(value, path)
        if origin is Literal:
            return self._literal(value, bare, path)
        if origin in WORDS:
            return self._scalar(value, origin, hint, path)
        if origin in SEQUENCES:
            return self._sequence(value, hint, path)
        if origin in MAPPINGS:
            return self._mapping(value, bare, path)
        if origin in (Path, os.PathLike):
            self.paths.append(path)
            return value if isinstance(value, str) else self._expected(value, hint, path)
        if inspect.isclass(origin) and issubclass(origin, enum.Enum):
            names = [member.name for member in origin]
            return value if value in names else self._fault(path, f"expected {Choice(names)}, got {show(value)}", value)
        return self._object(value, bare, path)

    def _section(self, value: Any, kind: Any, path: Key) -> Any:
        if not isinstance(value, dict):
            return self._fault(
                path,
                f"expected a mapping, got {show(value)}; its keys are {', '.join(signature(kind).arguments)}",
                value,
            )
        self.arguments(value, kind, path)
        return value

    def _object(self, value: Any, hint: Any, path: Key) -> Any:
        """A class (or Callable) was expected, and the value is no mapping with `_target_`; text may be its name."""
        ours = inspect.isclass(hint) and hint.__module__.partition(".")[0] in suites.roots()
        if ours and isinstance(value, str):
            node = Node({TARGET: value})
            node.path = path
            return self._part(node, hint, path)
        if inspect.isclass(hint) and not ours and not isinstance(value, dict):
            return value  # numpy.dtype and the like: the constructor knows what it takes
        return self._expected(value, hint, path, f"; parts are written {{{TARGET}: import.path, ...}}")

    def _anything(self, value: Any, path: Key) -> Any:
        """Not judged, except for the parts inside."""
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        if isinstance(value, str) and value == MISSING:
            return self._fault(path, "a value must be given", value)
        if isinstance(value, dict) and TARGET in value:
            return self._part(value, Any, path)
        for key, item in inner:
            self._anything(item, (*path, key))
        return value

    def _scalar(self, value: Any, kind: Any, hint: Any, path: Key) -> Any:
        if kind is float and isinstance(value, str) and NUMBER.fullmatch(value.strip()):
            return float(value)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        return self._expected(value, hint, path, advice(value, kind))

    def _literal(self, value: Any, hint: Any, path: Key) -> Any:
        choices = get_args(hint)
        if any(value == choice and type(value) is type(choice) for choice in choices):
            return value
        known = [choice for choice in choices if isinstance(choice, str)]
        return self._expected(value, hint, path, suites.suggest(value, known) if isinstance(value, str) else "")

    def _sequence(self, value: Any, hint: Any, path: Key) -> Any:
        bare = unwrap(hint)[0]
        if not isinstance(value, list):
            one = value if isinstance(value, str | int | float) else "a, b"
            return self._expected(value, hint, path, f"; write a list: [{one}]")
        kinds = get_args(bare)
        fixed = get_origin(bare) is tuple and kinds and kinds[-1] is not Ellipsis
        if fixed and len(kinds) != len(value):
            return self._fault(path, f"expected {describe(hint)}, got {len(value)} items", value)
        each = kinds if fixed else [kinds[0] if kinds else Any] * len(value)
        for index, (item, kind) in enumerate(zip(value, each, strict=True)):
            value[index] = self.value(item, kind, (*path, index))
        return value

    def _mapping(self, value: Any, hint: Any, path: Key) -> Any:
        if not isinstance(value, dict):
            return self._expected(value, hint, path)
        kind = (*get_args(hint), Any, Any)[1]
        for key in value:
            value[key] = self.value(value[key], kind, (*path, key))
        return value

    def _limit(self, value: Any, limit: Any, hint: Any, path: Key) -> None:
        if isinstance(limit, Choice) and value is not None and value not in limit:
            hint = suites.suggest(value, map(str, limit.values)) if isinstance(value, str) else ""
            self._fault(path, f"expected {limit}, got {show(value)}{hint}")
        if not isinstance(limit, Range):
            return
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value not in limit:
            self._fault(path, f"{value} is out of range: expected {describe(hint) if hint else limit}")
        for index, item in enumerate(value if isinstance(value, list) else ()):
            self._limit(item, limit, None, (*path, index))


def _annotate(hint: Any, extras: tuple[Any, ...]) -> Any:
    """The limits of a union hold for each of its members."""
    for extra in extras:
        hint = typing.Annotated[hint, extra]
    return hint


def _same_kind(value: Any, hint: Any) -> bool:
    hint, _ = unwrap(hint)
    origin = get_origin(hint) or hint
    if isinstance(value, str):
        return inspect.isclass(origin) and origin.__module__.partition(".")[0] in suites.roots()
    if isinstance(value, dict):
        return (TARGET in value and inspect.isclass(origin) and not is_plain(origin)) or origin in MAPPINGS
    return origin in SEQUENCES if isinstance(value, list) else False
