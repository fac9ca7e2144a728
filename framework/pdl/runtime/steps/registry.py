"""From the name of a step to its class: pdl's own, or that of an installed distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pdl import packages
from pdl.errors import PackageError
from pdl.runtime.required import check_installed
from pdl.runtime.steps import gallery, images, labels, rows, writing
from pdl.runtime.steps.base import Step
from pdl.runtime.strict import fault

PARTS = (images, rows, labels, gallery, writing)
OWN: dict[str, type[Step]] = {step.name: step for part in PARTS for step in part.STEPS}


def find(name: Any, source: str, part: str, requires: Sequence[str] = ()) -> type[Step]:
    """The class of a step. PackageError where the distribution that it belongs to is not installed, or cannot be used;
    DataError for a name that nothing has.

    requires   distributions that the bundle says it needs
    """
    if isinstance(name, str) and name in OWN:
        return OWN[name]
    provided = packages.provided(packages.STEPS, name) if isinstance(name, str) else None
    if provided is None:
        _refuse(name, source, part, requires)
    found = provided.load()
    if not (isinstance(found, type) and issubclass(found, Step) and found.name == name):
        raise PackageError(f"{provided} cannot be used: {provided.value} is no step of that name")
    return found


def _refuse(name: Any, source: str, part: str, requires: Sequence[str]) -> NoReturn:
    check_installed(requires, f"the step {name!r:.60}", source)
    others = packages.read(packages.STEPS).good
    update = " ".join(["pdl-core", *requires])
    said = f"unknown step {str(name)[:40]!r}; installed are {', '.join(sorted({*OWN, *others}))}"
    raise fault(source, part, said, f"type: pip install --upgrade {update}")


def names(pipeline: Mapping[str, Any]) -> Iterator[str]:
    """The names of all steps of a pipeline, as read from pipeline.json."""
    sides = (pipeline.get(side, {}) for side in ("pre", "post"))
    return (str(step.get("step")) for side in sides for steps in side.values() for step in steps)


def requires(pipeline: Mapping[str, Any]) -> list[str]:
    """The distributions, besides pdl's own, that the steps of a pipeline belong to, as far as these are installed."""
    found = (packages.provided(packages.STEPS, name) for name in names(pipeline) if name not in OWN)
    return sorted({each.distribution for each in found if each is not None})
