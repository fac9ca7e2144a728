"""Systems: several models in one bundle that answer together, such as a detector and a classifier of what it finds.

    program.json     {"format": 1, "kind": "system", "system": "acme.Chain", "arguments": {"margin": 1.2}}
    parts/NAME.pdl   a bundle for each argument NAME that is a model

What asks them is a class that an installed distribution declares under its name:

    [project.entry-points."pdl.systems"]
    "acme.Chain" = "acme.chains:Chain"

It is called with a predictor for each part and with the arguments, plain values that it checks, and is a
`pdl.runtime.predict.Predictor` itself. A file can name nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pdl import packages
from pdl.dtype import Array
from pdl.errors import PdlError, UsageError
from pdl.runtime.required import check_installed
from pdl.runtime.strict import fault

if TYPE_CHECKING:
    from pdl.runtime.bundle import Bundle
    from pdl.runtime.plan import Timer


def find(name: str, source: str, requires: Sequence[str] = ()) -> Any:
    """The class of a system. PackageError where the distribution that it belongs to is not installed or cannot be used;
    DataError for a name that nothing has.

    requires   distributions that the bundle says it needs
    """
    provided = packages.provided(packages.SYSTEMS, name)
    if provided is None:
        check_installed(requires, f"the system {name!r:.60}", source)
        have = ", ".join(sorted(packages.read(packages.SYSTEMS).good)) or "none"
        update = " ".join(["pdl-core", *requires])
        said = f"unknown system {name!r:.60}; installed are {have}"
        raise fault(source, "program.json", said, f"type: pip install --upgrade {update}")
    return provided.load()


def assembled(bundle: Bundle, parts: Mapping[str, Any]) -> Any:
    """The predictor of a system's bundle, of a session for each of its parts. DataError where these do not fit it."""
    name, arguments = bundle.program["system"], bundle.program["arguments"]
    make = find(name, bundle.source, bundle.meta["requires"])
    try:
        made = make(**arguments, **parts)
    except (PdlError, TypeError) as error:
        raise fault(bundle.source, f"program.json: {name}", str(error)) from None
    if made.pipeline is None:
        raise UsageError(f"{bundle.source}: {name} has no pipeline, so nothing says what its inputs are")
    return made


class Together:
    """What runs the arrays of a system: its predictor, as the engine of a session."""

    def __init__(self, predictor: Any) -> None:
        self.predictor = predictor
        self.inputs, self.outputs = list(predictor.pipeline.inputs), list(predictor.pipeline.post)

    def __call__(self, arrays: Sequence[Array], timer: Timer | None = None) -> list[Any]:
        """The outputs for the inputs. `timer` is not called: parts are sessions of their own."""
        made = self.predictor.run(dict(zip(self.inputs, arrays, strict=True)))
        return [made[name] for name in self.outputs]
