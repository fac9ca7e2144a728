"""Parts of a model that are not learned (`train.freeze`), or that learn more slowly than others."""

from __future__ import annotations

from collections.abc import Sequence

from pdl.errors import ConfigError
from pdl.nn import Module
from pdl.nn.norm import _BatchNorm
from pdl.nn.stages import head_of, within
from pdl.optim import Optimizer

BACKBONE = "backbone"
BATCH_NORM = "batch_norm"


class Frozen:
    """The frozen part of `model`: its parameters require no gradient until `release`.

    what    "backbone": all but the model's `head` (or, where it has none, its submodule of that name); or a pattern, or
            several, on names of parameters or of modules: "layer1", ["conv1.*", "*.bias"]; "batch_norm", also among
            patterns: all batch norms; None: nothing

    A module all of whose parameters are frozen also stays in evaluation mode (`train`), with everything in it: batch
    norms use their running statistics and do not move them, dropout drops nothing. So the frozen part is one fixed
    function. Raises ConfigError for a pattern that matches nothing, and where nothing would be left to learn.
    """

    def __init__(self, model: Module, what: str | Sequence[str] | None) -> None:
        self.model = model
        parameters = dict(model.named_parameters())
        self.names = [] if what is None else _chosen(model, list(parameters), what)
        if self.names and len(self.names) == len(parameters):
            raise ConfigError(f"train.freeze: {what!r} freezes every parameter, so there is nothing to learn")
        self.changed = [parameters[name] for name in self.names if parameters[name].requires_grad]
        self.numbers = (sum(parameters[name].size for name in self.names), sum(p.size for p in parameters.values()))
        for parameter in self.changed:
            parameter.requires_grad = False
        ids = {id(parameters[name]) for name in self.names}
        self.modules = [each for each in model.modules() if _all_in(each, ids)]

    @property
    def fixed(self) -> list[str]:
        """Names of the parameters and buffers that training leaves as they are."""
        below = {id(buffer) for module in self.modules for buffer in module.buffers()}
        return [*self.names, *(name for name, buffer in self.model.named_buffers() if id(buffer) in below)]

    def train(self, mode: bool = True) -> None:
        """`model.train(mode)`, but for the frozen modules."""
        self.model.train(mode)
        for module in self.modules:
            module.eval()

    def release(self) -> None:
        """Make what was frozen here learnable again."""
        for parameter in self.changed:
            parameter.requires_grad = True

    def __str__(self) -> str:
        count, total = self.numbers
        return f"frozen: {len(self.names)} tensors, {count:,} of {total:,} parameters; {total - count:,} are learned"


def log_lines(frozen: Frozen, optimizer: Optimizer) -> list[str]:
    """Lines for the log before training: what is frozen, and how much learning rates differ."""
    rates: dict[float, list[str]] = {}
    for group in optimizer.param_groups:
        rates.setdefault(group.get("initial_lr") or group["lr"], []).extend(group["names"])
    ends = [f"{rate:.3g} ({_few(rates[rate], 2)})" for rate in (max(rates), min(rates))]
    lines = [str(frozen)] if frozen.names else []
    return [*lines, f"{len(rates)} learning rates, from {ends[0]} to {ends[1]}"] if len(rates) > 1 else lines


def lowest_rate(optimizer: Optimizer) -> dict[str, float]:
    """{"lr_lowest": ...} where groups learn at different rates: logged in addition to the first group's `lr`."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    return {"lr_lowest": min(rates)} if min(rates) != max(rates) else {}


def _chosen(model: Module, names: list[str], what: str | Sequence[str]) -> list[str]:
    head = head_of(model)
    if what == BACKBONE and head:
        return [name for name in names if not within(name, head)]
    patterns = [what] if isinstance(what, str) else list(what)
    if BATCH_NORM in patterns:
        norms = [name for name, module in model.named_modules() if isinstance(module, _BatchNorm)]
        patterns = [each for each in patterns if each != BATCH_NORM or not norms] + norms
    for pattern in patterns:
        if not any(within(name, pattern) for name in names):
            raise ConfigError(_nothing(model, names, pattern))
    return [name for name in names if within(name, patterns)]


def _nothing(model: Module, names: list[str], pattern: str) -> str:
    line = f"train.freeze: {pattern!r} matches no parameter of {type(model).__name__}; names are {_few(names, 6)}"
    if pattern != BACKBONE:
        return line
    return f'{line}; the class names no head either (head = "fc"): give patterns for what is to be frozen'


def _few(names: list[str], count: int) -> str:
    return ", ".join(names[:count]) + (f", ... ({len(names)} in all)" if len(names) > count else "")


def _all_in(module: Module, ids: set[int]) -> bool:
    found = [id(parameter) in ids for parameter in module.parameters()]
    return bool(found) and all(found)
