"""Several nets that answer as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdl.dtype import is_floating
from pdl.errors import UsageError
from pdl.nn.container import ModuleList
from pdl.nn.module import Module
from pdl.tensor import Tensor


class Ensemble(Module):
    """The mean of what its members answer to the same inputs (Hansen & Salamon, TPAMI 1990; Lakshminarayanan et al.,
    arXiv 1612.01474). Of logits that is the normalised geometric mean of the members' probabilities.

    members  nets whose answers are tensors of numbers of the same shape, or tuples of such; other answers, such as
             boxes, have no mean (UsageError)
    """

    def __init__(self, members: Sequence[Module]) -> None:
        if not members:
            raise UsageError("Ensemble: it needs a member at least")
        self.members = ModuleList(members)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Arguments as of every member -> an answer as of every member."""
        return _mean([member(*args, **kwargs) for member in self.members])


def _mean(answers: Sequence[Any]) -> Any:
    first = answers[0]
    if isinstance(first, tuple):
        means = [_mean(parts) for parts in zip(*answers, strict=True)]
        return type(first)(*means) if hasattr(first, "_fields") else tuple(means)
    if not isinstance(first, Tensor) or not is_floating(first.dtype):
        what = f"a tensor of {first.dtype}" if isinstance(first, Tensor) else f"a {type(first).__name__}"
        raise UsageError(f"Ensemble: its members answer {what}, which has no mean; expected tensors of real numbers")
    if len({answer.shape for answer in answers}) > 1:
        shapes = ", ".join(str(answer.shape) for answer in answers)
        raise UsageError(f"Ensemble: its members answer in the shapes {shapes}; expected one shape")
    total = first
    for answer in answers[1:]:
        total = total + answer
    return total * (1 / len(answers))
