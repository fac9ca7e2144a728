"""One input on its way through a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pdl.dtype import Array
from pdl.runtime.frame import Frame


@dataclass
class Sample:
    """What a pipeline made of one input, kept until the answer is there.

    inputs   of the model by name, without a batch axis
    frame    where the pixels of a picture come from
    told     what is worth knowing about the input, such as {"unknown": [names that were left out]}; part of the answer
    """

    inputs: dict[str, Array] = field(default_factory=dict)
    frame: Frame | None = None
    told: dict[str, Any] = field(default_factory=dict)
