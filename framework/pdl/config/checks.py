"""The whole tree against a schema, before anything is built."""

from __future__ import annotations

from typing import Any

from pdl import suites
from pdl.config.places import resolve
from pdl.config.schema import Checker
from pdl.config.signature import SECTION, TARGET, Supplied, signature, unwrap
from pdl.config.tree import Config, Fault, Items, Node
from pdl.config.words import HABITS
from pdl.errors import ConfigError


def check(config: Config, schema: type) -> Config:
    """Raise ConfigError with every fault of the tree, each with file, line, key path, what was expected and what
    was probably meant.

    A tree without faults comes back with small things put right in place: numbers written as text (`"1e-3"`) become
    numbers, names that moved become their present names (with a line in `config.notices`), and relative paths of files
    that are there become absolute ones (see `pdl.config.places`).
    """
    checker = Checker()
    found = faults(config, schema, checker)
    if found:
        raise ConfigError([config.line(fault) for fault in found])
    resolve(config, checker.paths)
    return config


def faults(config: Config, schema: type, checker: Checker | None = None) -> list[Fault]:
    """Every fault of the tree, in the order of the recipe's keys; `check` without the exception."""
    checker = Checker() if checker is None else checker
    _settle(config, schema)
    checker.arguments(config.tree, schema, ())
    config.notices += [notice for notice in checker.notices if notice not in config.notices]
    unresolved = {fault.path for fault in config.faults}
    found = [*config.faults, *(fault for fault in checker.faults if fault.path not in unresolved)]
    return [_misplaced(config, schema, fault) for fault in found if fault.message]


def _settle(config: Config, schema: type) -> None:
    """Put what the command line gives at the top level, `lr=0.1`, into the one section that takes it."""
    top = signature(schema).arguments
    for key in [key for key in config.tree if key not in top and config.origin((key,)).override]:
        homes = _homes(config, schema, key)
        if len(homes) != 1:
            continue
        section = config.tree.setdefault(homes[0], Node())
        section[key] = value = config.tree.pop(key)
        config.origins[homes[0], key] = config.origins.pop((key,))
        config.notices.append(f"{key}={value} is read as {homes[0]}.{key}={value}")


def _homes(config: Config, schema: type, key: Any) -> list[str]:
    """The sections of the recipe that take a key."""
    found = []
    for name, argument in signature(schema).arguments.items():
        bare, extras = unwrap(argument.hint)
        given = config.tree.get(name)
        try:
            part = bare if SECTION in extras else suites.locate(given[TARGET]) if isinstance(given, dict) else None
        except (ConfigError, KeyError, AttributeError):  # said by the check
            continue
        supplied = {name for extra in extras if isinstance(extra, Supplied) for name in extra.names}
        if part is not None and key in signature(part).arguments and key not in supplied:
            found.append(name)
    return found


def _misplaced(config: Config, schema: type, fault: Fault) -> Fault:
    """An unknown top-level key that belongs into a section, or that a part brought."""
    if len(fault.path) != 1 or not fault.message.startswith("unknown key"):
        return fault
    key = HABITS.get(str(fault.path[0]), fault.path[0])
    homes = [f"{section}.{key}" for section in _homes(config, schema, key)]
    if homes:
        return Fault(fault.path, f"no key of the top level; write {' or '.join(homes)}")
    return _misplaced_part(config, fault)


def _misplaced_part(config: Config, fault: Fault) -> Fault:
    """An unknown top-level key that a part brought: hydra places a part at its folder's name unless its header says
    otherwise.
    """
    file = config.origin(fault.path).file
    if file is None or config.path is None or file.resolve() == config.path.resolve():
        return fault
    if str(fault.path[0]) not in file.parts:
        return fault
    return Fault(fault.path, f"{fault.message}; a part with top-level keys starts with the line `# @package _global_`")


def from_dict(tree: dict[str, Any]) -> Config:
    """A Config from a plain dict, for programs that write no file."""
    return Config(_node(tree, ()))


def _node(value: Any, path: tuple[str | int, ...]) -> Any:
    made: Node | Items
    if isinstance(value, dict):
        made = Node({key: _node(item, (*path, key)) for key, item in value.items()})
    elif isinstance(value, (list, tuple)):
        made = Items(_node(item, (*path, index)) for index, item in enumerate(value))
    else:
        return value
    made.path = path
    return made
