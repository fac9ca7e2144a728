"""Weights into a model that may differ from theirs in its first and last layer.

Fine-tuning changes the number of classes, and sometimes the number of input channels. A net says which layers depend on
these, in its class attributes `head` and `stem` (dotted names, one or several); all other layers must fit exactly.

    head   a layer whose shapes differ, or which the file lacks, keeps its fresh weights
    stem   its kernels [*size, in, out] are adapted to other input channels (`adapt_channels`)

A family whose nets differ in more than these (tables of positions) says how weights are made to fit in a function
`adapt(model, arrays) -> (arrays, {name: how it was changed})` beside `remap`.

What was adapted, left fresh or left unused is in the `Report`: the training log shows it and result.json keeps it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import local
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import PdlError, ShapeError
from pdl.hub.states import State, read_state
from pdl.nn.stages import head_of, within

if TYPE_CHECKING:
    from pdl.nn import Module


#: whose layouts a file has
WHOSE = {"onnx": "ONNX's", "paddle": "Paddle's"}


@dataclass(frozen=True)
class Report:
    """What became of the weights of `source` in a net.

    loaded     how many tensors were taken as they are
    adapted    name -> how it was changed to fit
    fresh      tensors of the head that keep their random values
    unused     tensors of the file's head that the net has no place for
    converted  how names and axes were converted, where the file is not of pdl
    """

    source: str
    model: str
    loaded: int
    adapted: dict[str, str] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    converted: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For people: one line on the whole, one for each thing that is not as in the file."""
        how = f" ({self.converted})" if self.converted else ""
        whole = f"pretrained {self.source}: {self.loaded} tensors of {self.model} loaded{how}"
        found = [whole] if self.loaded or not self.adapted else []  # parts of a net are adapted behind the whole
        found += [f"pretrained: ADAPTED {name}: {what}" for name, what in self.adapted.items()]
        if self.fresh:
            found.append(f"pretrained: RE-INITIALISED {', '.join(self.fresh)} (the head is learned anew)")
        if self.unused:
            found.append(f"pretrained: NOT USED from the file: {', '.join(self.unused)}")
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())


class _Mode(local):
    """State of this thread: whether loading is skipped, and who receives the reports."""

    deferred = False
    reports: list[Report] | None = None


_mode = _Mode()


@contextmanager
def deferred() -> Iterator[None]:
    """Inside the block `load_pretrained` does nothing: for nets that are given the weights of their own run next, which
    must not depend on a file they once began with.
    """
    before, _mode.deferred = _mode.deferred, True
    try:
        yield
    finally:
        _mode.deferred = before


@contextmanager
def collected() -> Iterator[list[Report]]:
    """The reports of all weights that are loaded inside the block, also by constructors (`pretrained=`)."""
    before, _mode.reports = _mode.reports, []
    try:
        yield _mode.reports
    finally:
        _mode.reports = before


def skipped() -> bool:
    """Whether this is in a block of `deferred`, where nothing else that begins with given weights does so, either."""
    return _mode.deferred


def report(made: Report) -> None:
    """Let the training log show what became of weights, where these are `collected`."""
    if _mode.reports is not None:
        _mode.reports.append(made)


def load_pretrained(model: Module, source: str | Path) -> Report:
    """Fill `model` with the weights of a name of the hub, a bundle, a safetensors file, a PyTorch file, Paddle's
    `.pdiparams` beside its `.pdmodel`, or a run folder.

    Files of others are turned by the `remap` of the model's family (the module of its class), or where it has none by
    `nn.from_torch`. A head for another number of classes stays fresh and a stem for other input channels is adapted;
    the report says so. Anything else that does not fit is a ShapeError that lists all of it, and nothing is changed.
    """
    return load_state(model, read_state(source)) if not _mode.deferred else Report(str(source), type(model).__name__, 0)


def arrays_of(model: Module, source: str | Path) -> Mapping[str, Array]:
    """The arrays of a source in the names and layouts of a net, whether they fit it or not."""
    return _converted(model, read_state(source))[0]


def load_state(model: Module, state: State) -> Report:
    """`load_pretrained` of weights that have been read."""
    arrays, converted = _converted(model, state)
    fit = _Fit(model, arrays)
    if fit.faults:
        raise ShapeError(_explained(model, state, fit))
    model.load_state_dict(fit.taken, strict=False)
    count = len(fit.taken) - len(fit.adapted)
    made = Report(state.source, type(model).__name__, count, fit.adapted, fit.fresh, fit.unused, converted)
    report(made)
    return made


def _converted(model: Module, state: State) -> tuple[Mapping[str, Array], str]:
    """The arrays in pdl's names and layouts, and how they were converted.

    Where the file does not say whose layouts it has, its own come first, and the shapes decide.
    """
    if state.layout == "pdl":
        return _unwrapped(model, state.arrays), ""
    if state.layout == "unknown" and not _Fit(model, state.arrays).faults:
        return state.arrays, ""
    remap, note = _remap_of(model, WHOSE.get(state.layout, "PyTorch's"))
    if state.layout != "unknown":
        return remap(model, state.arrays), note
    try:
        turned = remap(model, state.arrays)
    except (PdlError, LookupError, ValueError):  # not of that family: what is said is how the file itself misfits
        return state.arrays, ""
    return (turned, note) if not _Fit(model, turned).faults else (state.arrays, "")


def _unwrapped(model: Module, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    """The weights under their names in the net, where a bundle's program is a function around it
    (`Deployment.module`) and calls them by the attribute that holds the net: net.embed.weight is embed.weight."""
    own, roots = model.state_dict().keys(), {name.partition(".")[0] for name in arrays}
    inner = {name.partition(".")[2]: each for name, each in arrays.items()}
    return inner if len(roots) == 1 and not own & arrays.keys() and own & inner.keys() else arrays


def _remap_of(model: Module, whose: str) -> tuple[Callable[[Any, Mapping[str, Any]], Mapping[str, Array]], str]:
    """What turns other people's arrays into those of this net, and a word for it."""
    from pdl import nn

    remap = getattr(_family(model), "remap", None)
    if remap is None:
        return nn.from_torch, f"{whose} layouts, turned by pdl.nn.from_torch"
    return remap, f"{whose} layouts, turned by {type(model).__module__}.remap"


def _family(model: Module) -> ModuleType | None:
    return sys.modules.get(type(model).__module__)


class _Fit:
    """How arrays fit a net: what to load (`taken`), and what is reported.

    known    names that both have
    faults   lines; empty where all but head and stem is the same
    """

    def __init__(self, model: Module, given: Mapping[str, Array]) -> None:
        adapt = getattr(_family(model), "adapt", None)
        self.adapted: dict[str, str] = {}
        if adapt is not None:
            given, self.adapted = adapt(model, given)
        own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        shapes = {name: tuple(array.shape) for name, array in given.items()}
        self.known = own.keys() & shapes.keys()
        differing = [name for name in own if shapes.get(name) != own[name]]
        heads = head_of(model) or _last_layer(differing, own, shapes)
        replaced = [head for head in heads if any(within(name, head) for name in differing)]
        self.fresh = [name for name in own if within(name, replaced)]
        self.unused = [name for name in shapes if within(name, heads) and name not in own]
        self.taken: dict[str, Array] = {}
        self.faults: list[str] = []
        for name in own:
            if name in self.fresh:
                continue
            if name not in shapes:
                self.faults.append(f"missing: {name} {own[name]}")
            elif shapes[name] == own[name]:
                self.taken[name] = given[name]
            elif within(name, _stems(model)) and _differ_in_channels(shapes[name], own[name]):
                self.taken[name] = adapt_channels(given[name], own[name][-2])
                self.adapted[name] = _how(shapes[name][-2], own[name][-2])
            else:
                self.faults.append(f"{name}: {shapes[name]}, the model has {own[name]}")
        known = {*own, *self.unused}
        self.faults += [f"not in the model: {name} {shape}" for name, shape in shapes.items() if name not in known]


def _stems(model: Module) -> tuple[str, ...]:
    stem = getattr(model, "stem", ())
    return (stem,) if isinstance(stem, str) else tuple(stem) if isinstance(stem, tuple | list) else ("stem",)


def _last_layer(differing: list[str], own: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, ...]:
    """The head of a net that names none: the one layer that differs, in its number of outputs only."""
    layers = {name.rpartition(".")[0] for name in differing}
    same = all(name in given and own[name][:-1] == given[name][:-1] for name in differing)
    return tuple(layers) if len(layers) == 1 and same else ()


def _differ_in_channels(given: tuple[int, ...], own: tuple[int, ...]) -> bool:
    """Kernels [*size, in, out] of one size and one number of outputs."""
    return len(given) == len(own) > 2 and (*given[:-2], given[-1]) == (*own[:-2], own[-1])


def adapt_channels(kernels: Array, channels: int) -> Array:
    """Kernels [*size, in, out] for another number of input channels, which give the same result for a gray image.

    To one channel: the sum over channels. Otherwise they are repeated in turn (r g b r g ...) and scaled by old / new,
    so that their sum stays the same where new is a multiple of old: one channel to three, a third of it each. It is
    timm's rule (Wightman, `adapt_input_conv` in timm/models/_manipulate.py).
    """
    old = kernels.shape[-2]
    wide = np.asarray(kernels, np.float32)
    if channels == 1:
        return wide.sum(axis=-2, keepdims=True)
    return np.asarray(np.take(wide, np.arange(channels) % old, axis=-2) * np.float32(old / channels))


def _how(old: int, new: int) -> str:
    """In words what `adapt_channels` did."""
    what = "summed" if new == 1 else f"repeated and scaled by {old}/{new}"
    return f"{old} input channel{'s' * (old > 1)} {what} for {new}"


def _explained(model: Module, state: State, fit: _Fit) -> str:
    """Every name with both shapes, and what to do."""
    name = type(model).__name__
    lines = [f"the weights {state.source} do not fit {name}, not counting its head and stem:", *fit.faults]
    if state.hint:
        lines.append(f"they were made for {state.hint}: give the model the same arguments")
    elif not fit.known:
        lines.append(
            "no name fits: these are weights of another net, or under other names than torchvision's or timm's"
        )
    else:
        lines.append("the same net in another size? give the model the arguments that it had when it was trained")
    if not head_of(model):
        lines.append(f"{name} names no head, so its last layer must fit too: set head = 'NAME' in the class")
    return "\n  ".join(lines)
