"""Distributions that a bundle requires besides pdl: those of its ops, and of what asks its parts together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pdl import packages
from pdl.errors import PackageError, UsageError
from pdl.ops.base import OPS, find_op


def op_names(program: Any) -> Iterator[str]:
    """The names of a program's ops as they stand in program.json, and of those of programs inside it; what is no
    program is for `checked` to refuse."""
    nodes = program.get("nodes") if isinstance(program, dict) else None
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict) and isinstance(node.get("op"), str):
            yield node["op"]
            for value in node.values():
                yield from op_names(value.get("program")) if isinstance(value, dict) else ()


def stored_ops(stored: Mapping[str, Any]) -> Iterator[str]:
    """The names of the ops of all programs in program.json."""
    for part in ("program", "encode", "step"):
        yield from op_names(stored.get(part))
    stream = stored.get("stream")
    yield from op_names(stream.get("program")) if isinstance(stream, dict) else ()


def of_program(stored: Mapping[str, Any]) -> set[str]:
    """Those that program.json needs; UsageError where no installed one declares what it names."""
    return of_ops(stored) | of_system(stored)


def of_ops(stored: Mapping[str, Any]) -> set[str]:
    """The distributions that ops of program.json come with. UsageError for an op that no installed one declares: nobody
    else could read the bundle."""
    found = set()
    for name in dict.fromkeys(name for name in stored_ops(stored) if "." in name):
        provided = packages.provided(packages.OPS, name)
        if provided is None:
            raise UsageError(f"no bundle can hold the op {name}: its distribution lacks {declaration(OPS[name], name)}")
        found.add(provided.distribution)
    return found


def of_system(stored: Mapping[str, Any]) -> set[str]:
    """The distribution that declares what asks the parts of a system together; none for a single model. UsageError
    where no installed one does."""
    if "system" not in stored:
        return set()
    provided = packages.provided(packages.SYSTEMS, stored["system"])
    if provided is None:
        raise UsageError(f"no bundle can hold the system {stored['system']}: no distribution declares it")
    return {provided.distribution}


def declaration(named: type, name: str, group: str = packages.OPS) -> str:
    """What the pyproject.toml of a class's distribution has to say, so that bundles find it."""
    return f'[project.entry-points."{group}"] "{name}" = "{named.__module__}:{named.__qualname__}"'


def import_ops(stored: Mapping[str, Any], requires: Sequence[str], source: str) -> None:
    """Import the ops of others that program.json names, and nothing else of theirs. PackageError where the distribution
    is not installed."""
    for name in stored_ops(stored):
        if "." in name and find_op(name) is None:
            check_installed(requires, f"the op {name!r:.60}", source)


def check_installed(requires: Sequence[str], what: str, source: str) -> None:
    """PackageError where a distribution that a bundle says it requires is not installed: the one line that says so."""
    absent = packages.missing(requires)
    if absent:
        raise PackageError(
            f"{source} needs {what} of {' or '.join(absent)}, which is not installed: pip install {' '.join(absent)}"
        )
