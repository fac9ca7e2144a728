"""A bundle in place of the net it was made from, so that a task measures what is deployed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pdl.errors import UsageError
from pdl.nn import Module
from pdl.runtime.session import Session
from pdl.tensor import Tensor, as_tensor


class Deployed(Module):
    """A session in the place of the net it was made of: tensors in, tensors out, in the order of its ports."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def steps(self) -> Iterator[Mapping[str, Any]]:
        """The steps of the bundle's inputs, as plain values."""
        pre = self.session.bundle.pipeline["pre"] if self.session.bundle is not None else {}
        return (step for each in pre.values() for step in each)

    def forward(self, *inputs: Any) -> Any:
        """The session's outputs."""
        ports = self.session.inputs
        if len(inputs) != len(ports):
            raise UsageError(f"the bundle takes {len(ports)} inputs, its task gives {len(inputs)}")
        answers = self.session.run({port.name: as_tensor(x).numpy() for port, x in zip(ports, inputs, strict=True)})
        made = [Tensor(answers[port.name]) for port in self.session.outputs]
        return made[0] if len(made) == 1 else tuple(made)
