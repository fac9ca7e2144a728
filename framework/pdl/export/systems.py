"""Systems, several models that answer together, as files and indexes of the hub tell of them: what is called with their
parts, and one bundle of all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdl import packages, suites
from pdl.config.signature import TARGET
from pdl.errors import ConfigError, UsageError
from pdl.export.deployment import Deployment
from pdl.files import read_bytes, write_atomic
from pdl.runtime import bundle
from pdl.runtime.predict import Predictor, pipeline_of
from pdl.runtime.required import declaration
from pdl.runtime.session import of_bundle


@dataclass(frozen=True)
class Composed:
    """A system that a task's net is deployed as: several programs, each a bundle in one.

    predictor  {_target_: what is called with a session for each part, argument: value}
    parts      argument -> what goes into its bundle
    values     of options of `pdl predict`, of parts that are to answer with them
    """

    predictor: Mapping[str, Any]
    parts: Mapping[str, Deployment]
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


def caller(predictor: Mapping[str, Any], parts: Mapping[str, str], where: str) -> tuple[Any, dict[str, Any]]:
    """What a system calls, with its arguments beside the parts, before any part is opened.

    predictor   {_target_: pdl_cv.Cascade, argument: value}
    parts       argument -> what it is a model of
    where       file and line, for messages: ConfigError where the call does not take these arguments
    """
    target = predictor.get(TARGET)
    if target is None:
        raise ConfigError(f"{where}: predictor: it lacks {TARGET}, what is called: {{{TARGET}: pdl_cv.Cascade}}")
    make = suites.locate(target)
    arguments = {key: value for key, value in predictor.items() if key != TARGET}
    try:
        inspect.signature(make).bind(**arguments, **parts)
    except TypeError as error:
        raise ConfigError(f"{where}: {target}: {error}") from None
    return make, arguments


def opened(
    predictor: Mapping[str, Any], parts: Mapping[str, str], where: str, open_part: Callable[[str], Predictor]
) -> Predictor:
    """The predictor of a system; `open_part` opens what a part is called."""
    make, arguments = caller(predictor, parts, where)
    made: Predictor = make(**{name: open_part(word) for name, word in parts.items()}, **arguments)
    return made


def write_system(
    path: Path,
    predictor: Mapping[str, Any],
    parts: Mapping[str, Path],
    *,
    where: str,
    licence: str = "",
    card: str = "",
    config: str = "",
    metrics: Mapping[str, float | None] | None = None,
    about: Mapping[str, Any] | None = None,
) -> bundle.Bundle:
    """Write one bundle of a system whose parts are bundles. It is put in place when it has answered for made-up inputs.

    licence   by default those that the parts state, where all of them do
    card      by default one that names the parts
    config    the recipe of all of it, where there is one

    UsageError where a part is a system itself, and where no bundle can name what is called.
    """
    make, arguments = caller(predictor, {name: str(file) for name, file in parts.items()}, where)
    name = _declared(make, where)
    read = {part: bundle.read(file) for part, file in parts.items()}
    nested = next((part for part, each in read.items() if each.parts), None)
    if nested is not None:
        raise UsageError(f"{where}: parts.{nested}: {parts[nested]} is a system itself; name its models as parts")
    make(**{part: of_bundle(each) for part, each in read.items()}, **arguments)  # says it where parts do not fit
    licence = licence or _licence(read)
    data = bundle.pack(
        {"kind": "system", "system": name, "arguments": arguments},
        {},
        name=path.stem,
        parts={part: bytes(read_bytes(file)) for part, file in parts.items()},
        card=card or _card(path, name, read, licence),
        config=config,
        licence=licence,
        metrics=metrics,
        about={**(about or {}), "parts": {part: each.meta["name"] for part, each in read.items()}},
    )
    made = bundle.read(data)
    session = of_bundle(made)
    session.batch(pipeline_of(session).input.samples(np.random.default_rng(0)))
    write_atomic(path, data)
    return made


def _declared(make: Any, where: str) -> str:
    """The name under which a distribution declares a class to bundles."""
    value = f"{make.__module__}:{make.__qualname__}"
    found = (name for name, each in packages.read(packages.SYSTEMS).good.items() if each.value == value)
    name = next(found, None)
    if name is None:
        line = declaration(make, f"{make.__module__.partition('.')[0]}.{make.__name__}", packages.SYSTEMS)
        raise UsageError(f"{where}: no bundle can hold {make.__name__}: its distribution lacks {line}")
    return name


def _licence(parts: Mapping[str, bundle.Bundle]) -> str:
    """An SPDX expression of what all parts state; empty where one states nothing."""
    stated = [each.meta["licence"] for each in parts.values()]
    return " AND ".join(f"({each})" if " " in each else each for each in sorted(set(stated))) if all(stated) else ""


def _card(path: Path, name: str, parts: Mapping[str, bundle.Bundle], licence: str) -> str:
    """What the system is, for people; the card of each part is in its bundle."""
    rows = ["| part | model | measured | licence |", "|---|---|---|---|"]
    for part, each in parts.items():
        known = (f"{metric} {value:.4g}" for metric, value in each.meta["metrics"].items() if value is not None)
        measured = ", ".join(one for one in known if not one.startswith("train/"))
        rows.append(f"| {part} | {each.meta['name']} | {measured} | {each.meta['licence'] or 'not stated'} |")
    said = [
        f"# {path.stem}: {name} of {', '.join(each.meta['name'] for each in parts.values())}",
        "Several models that answer together; each is a bundle in this one, with its own card.",
        "\n".join(rows),
        "## Metrics",
        "Not measured together.",
        f"## Licence\n\n{licence or 'Not stated by all parts: ask whoever gave you this file.'}",
        f"## Use\n\n    pdl predict {path.name} INPUT",
    ]
    return "\n\n".join(said) + "\n"
