"""Models by name: `pdl.create_model("resnet18", num_classes=10)`, where users of timm expect it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pdl.config.building import build
from pdl.config.checks import from_dict
from pdl.config.parts import Named, find, variants
from pdl.config.schema import Checker
from pdl.config.signature import TARGET, signature
from pdl.config.tree import dotted
from pdl.errors import ShapeError, UsageError
from pdl.hub.catalogue import catalogue
from pdl.hub.index import index
from pdl.hub.pretrained import load_pretrained
from pdl.nn import Identity, Module
from pdl.nn.stages import CONTAINERS, head_of
from pdl.suites import locate
from pdl.tensor import Tensor


def list_models(pattern: str = "*", *, task: str | None = None, pretrained: bool = False) -> list[str]:
    """Names that `create_model` takes, of all installed suites, in order: those with a text in them, or that match a
    pattern with * and ?. With `pretrained`, those for which the hub has weights."""
    names = sorted(model.name for model in catalogue(pattern, task=task))
    return [name for name in names if not pretrained or weights_of(name)]


def create_model(
    name: str,
    *,
    pretrained: bool | str = False,
    num_classes: int | None = None,
    in_chans: int | None = None,
    features_only: bool = False,
    **arguments: Any,
) -> Module:
    """A model by its name (`pdl.list_models()`), with fresh or pretrained weights.

    pretrained     True: the weights that the hub has for it (`pdl models NAME`); or a name of the hub, a file, a run
    num_classes    of the head; 0: no head, the model gives the features that the head would get
    in_chans       channels of the images; pretrained weights are adapted
    features_only  the model gives a list of feature maps [N, H, W, C] instead, one for each resolution (`Features`)
    arguments      further ones of the model's class (`pdl config keys NAME`)

    UsageError for a name that nobody has, an argument that the model does not take, weights that there are not.
    """
    named = find(name, "models")
    takes = signature(locate(named.target)).arguments
    given = dict(arguments)
    if num_classes:
        given["num_classes"] = num_classes
    if in_chans is not None:
        given["in_channels"] = in_chans
    if unknown := [word for word in given if word not in takes]:
        raise UsageError(f"{name} takes no {', '.join(unknown)}; its arguments: {', '.join(takes)}")
    if missing := [word for word, each in takes.items() if each.required and word not in {*given, *named.arguments}]:
        raise UsageError(f"{name} needs {', '.join(missing)}: create_model({name!r}, {missing[0]}=...)")
    node, checker = from_dict(named.node(given)).tree, Checker()
    checker.value(node, Module, ())
    if checker.faults:
        raise UsageError("; ".join(f"{name}: {dotted(each.path)}: {each.message}" for each in checker.faults))
    model: Module = build(node)
    if pretrained:
        load_pretrained(model, _weights(named) if pretrained is True else pretrained)
    if num_classes == 0 or features_only:
        _without_head(model, name)
    return Features(model) if features_only else model


def weights_of(name: str) -> list[str]:
    """Entries of the hub whose weights are for the model of this name."""
    named = find(name, "models")
    return [entry.name for entry in index().values() if entry.build is not None and _is(entry.build.model, named)]


def _is(model: Any, named: Named) -> bool:
    """Whether what an entry builds is this variant: the same class, and the same arguments as far as they are not those
    of data."""
    if not model or model.get(TARGET) != named.target:
        return False
    defaults = {word: each.default for word, each in signature(locate(named.target)).arguments.items()}
    ours = defaults | dict(named.arguments)
    theirs = {word: value for word, value in model.items() if word not in (TARGET, "num_classes", "in_channels")}
    return all(ours.get(word) == value for word, value in theirs.items()) and all(
        theirs.get(word, defaults.get(word)) == value for word, value in named.arguments.items()
    )


def _weights(named: Named) -> str:
    if found := weights_of(named.name):
        return found[0]
    have = [each.name for each in variants() if weights_of(each.name)]
    known = f"; it has some for {', '.join(have)}" if have else ""
    raise UsageError(
        f"{named.name}: the hub has no weights for it{known}; pretrained=... also takes a name of `pdl models`, a file "
        "(torchvision's, timm's) or a run folder"
    )


def _without_head(model: Module, name: str) -> None:
    heads = head_of(model)
    if not heads:
        raise UsageError(f"{name} names no head, so it cannot be left out")
    for path in heads:
        owner, _, last = path.rpartition(".")
        setattr(model.get_submodule(owner), last, Identity())


class Features(Module):
    """The feature maps of a convolutional net, from high to low resolution: of each resolution the last, as timm's
    `features_only`. x [N, H, W, C] -> a list of [N, h, w, c].

    Maps are those between the net's blocks; where these are wrapped in one module, those between its blocks. A net
    whose blocks hand on something else, such as a norm to be applied by the next one, has a method `maps(x)` that gives
    them.
    """

    def __init__(self, net: Module) -> None:
        self.net = net
        self._maps: list[tuple[int, Tensor]] = []
        for level, module in () if hasattr(net, "maps") else _levels(net, 0):
            module.register_forward_hook(partial(self._keep, level))

    def _keep(self, level: int, module: Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 4:
            self._maps.append((level, output))

    def forward(self, x: Tensor) -> list[Tensor]:
        """x [N, H, W, C] -> feature maps."""
        if hasattr(self.net, "maps"):
            return _last([(0, each) for each in self.net.maps(x)], 0)
        self._maps.clear()
        self.net(x)
        maps, self._maps = self._maps, []
        found = [_last(maps, level) for level in sorted({level for level, _ in maps})]
        several = [each for each in found if len(each) > 1]
        if not several:
            raise ShapeError(f"{type(self.net).__name__}: its blocks hand on no feature maps of several resolutions")
        return several[0]


def _last(maps: list[tuple[int, Tensor]], level: int) -> list[Tensor]:
    """The last map of each resolution, as long as these fall: a pool at the end may enlarge."""
    found: dict[int, Tensor] = {}
    for at, each in maps:
        height = each.shape[1]
        if at == level and height <= min(found, default=height):
            found[height] = each
    return list(found.values())


def _levels(module: Module, level: int) -> Iterator[tuple[int, Module]]:
    """The modules below one, with how many others than plain containers they are in."""
    for child in module.children():
        container = type(child) in CONTAINERS
        if not container:
            yield level, child
        yield from _levels(child, level + (not container))
