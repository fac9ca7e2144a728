"""What weights there are: the WEIGHTS tables of the installed suites, as one index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pdl import suites
from pdl.errors import PdlError

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Weights:
    """One published file of weights.

    file     its name, the same in every folder and mirror
    sha256   64 lower-case hex digits of its content
    bytes    its size
    licence  SPDX name; weights carry their own
    source   where they come from: a paper, a command and a data set, a foreign checkpoint
    metrics  what they reach, for example {"imagenet/accuracy": 0.698}
    """

    file: str
    sha256: str
    bytes: int
    licence: str
    source: str
    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "/" in self.file or self.file in ("", ".", ".."):
            raise PdlError(f"weights {self.file!r}: the file is a plain name, without folders")
        if not _SHA256.fullmatch(self.sha256):
            raise PdlError(f"weights {self.file}: sha256 {self.sha256!r} is not 64 lower-case hex digits")


@dataclass(frozen=True)
class Entry:
    """Weights with the name they are asked for (`cv/resnet18`) and the suite they belong to."""

    name: str
    suite: suites.Suite
    weights: Weights


def index() -> dict[str, Entry]:
    """Every file of weights that an installed suite knows, by name. Imports the suites' model families."""
    found = {}
    for suite, family in suites.model_families():
        for variant, weights in getattr(family, "WEIGHTS", {}).items():
            name = f"{suite.name}/{variant}"
            found[name] = Entry(name, suite, weights)
    return found
