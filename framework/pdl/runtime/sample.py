"""One input on its way through a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.frame import Frame


@dataclass
class Sample:
    """What a pipeline makes of one input, kept until its answer is computed.

    inputs    of the model by name, without a batch axis
    frame     where the pixels of an image come from
    excluded  indices that ranking steps leave out of the answer, such as those of a history
    notes     remarks on the input, part of the answer: {"unknown": [names that the model lacks], "cut": how many
              characters it read of a longer text}
    memo      what input steps that read the same item share
    outputs   of the model by name, without a batch axis, once it has run
    """

    inputs: dict[str, Array] = field(default_factory=dict)
    frame: Frame | None = None
    excluded: Array | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)
    outputs: Mapping[str, Array] = field(default_factory=dict)

    def framed(self, step: str) -> Frame:
        """Where the pixels come from; UsageError from a step that needs to know it where no image was given."""
        if self.frame is None:
            raise UsageError(f"{step}: needs to know where the output lies in an image: call the session with one")
        return self.frame

    def note_unknown(self, names: Sequence[str]) -> None:
        """Note names in the input that the model does not know: left out, or read as unknown."""
        if names:
            self.notes["unknown"] = [*self.notes.get("unknown", ()), *names]

    def note_cut(self, length: int | None) -> None:
        """Remark that of a longer text the model reads so many characters; None: it reads all."""
        if length is not None:
            self.notes["cut"] = length
