"""What the ways to several machines share: the layout of processes, names that are checked, files that are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pdl import packages
from pdl.config import Config
from pdl.config.text import to_yaml
from pdl.config.tree import dotted, leaves
from pdl.errors import UsageError
from pdl.files import write_atomic
from pdl.version import __version__

#: DNS-1035, with room for what Kubernetes and Slurm add
NAME = r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?"


@dataclass(frozen=True)
class Layout:
    """`places` processes of `threads` threads on each of `nodes` machines."""

    nodes: int = 1
    places: int = 1
    threads: int = 2

    @property
    def workers(self) -> int:
        """All processes."""
        return self.nodes * self.places


def layout(
    workers: int | None = None, nodes: int | None = None, places: int | None = None, threads: int | None = None
) -> Layout:
    """A layout of what is given of these: by default a machine for each process. UsageError where they contradict."""
    if workers is None:
        nodes, places = nodes or 1, places or 1
    elif nodes is None:
        places = places or 1
        nodes = workers // places
    elif places is None:
        places = workers // nodes
    if workers is not None and workers != nodes * places:
        raise UsageError(
            f"{workers} processes do not make {nodes} machines with {places} each; give two of --workers, --nodes and "
            "--workers-per-node"
        )
    if nodes * places < 1:
        raise UsageError(f"--workers {workers}, --nodes {nodes}: each machine must have a process")
    return Layout(nodes, places, threads or Layout.threads)


def job_name(given: str | None, recipe: Config) -> str:
    """The name of the job: `given`, or that of the recipe with what such names may not hold as dashes."""
    name = given or re.sub(r"[^a-z0-9]+", "-", (recipe.path.stem if recipe.path else "run").lower()).strip("-")
    expected = "a letter, then small letters, digits and dashes, 50 at most"
    return matched("--name", name, NAME, expected)


def matched(option: str, value: str, pattern: str, expected: str) -> str:
    """`value`; UsageError where it is not all of the pattern."""
    if re.fullmatch(pattern, value, re.ASCII) is None:
        raise UsageError(f"{option} {value!r}: expected {expected}")
    return value


def recipe_text(recipe: Config) -> str:
    """The resolved recipe as YAML."""
    return f"# written by pdl launch {__version__}\n{to_yaml(recipe)}"


def needed(recipe: Config) -> list[str]:
    """What pip installs to train a recipe: pdl-core and the suites that it names, at the versions here."""
    used = {str(value).partition(".")[0] for key, value in leaves(recipe.plain()) if key and key[-1] == "_target_"}
    found = [each for each in packages.installed(packages.SUITES).values() if each.package in used]
    suites = [f"{each.distribution}[train]=={each.version}" for each in sorted(found, key=lambda each: each.name)]
    return [f"pdl-core[train,mpi]=={__version__}", *suites]


def paths_in(recipe: Config) -> list[str]:
    """`key=path` of each absolute path in a recipe: a file or folder that each machine must have."""
    return [f"{dotted(key)}={value}" for key, value in leaves(recipe.plain()) if str(value).startswith("/")]


def write_files(folder: str | Path, files: Mapping[str, str], *, force: bool = False) -> list[Path]:
    """Write texts into a folder. UsageError where one would replace another text, unless `force`."""
    paths = [Path(folder) / name for name in files]
    if not force and (changed := list(_differing(paths, files.values()))):
        raise UsageError(f"{changed[0]}: is there, with another text; name another folder (--save), or use --force")
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text)
    return paths


def _differing(paths: list[Path], texts: object) -> Iterator[Path]:
    for path, text in zip(paths, texts, strict=True):  # type: ignore[call-overload]
        if path.exists() and path.read_bytes() != text.encode():
            yield path
