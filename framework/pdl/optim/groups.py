"""Parameter groups: which options hold for which parameter, decided by name.

A group is a plain dict, as in PyTorch: its options by name ("lr", "weight_decay", ...), and the parallel lists "names"
and "params".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Protocol, TypeAlias, runtime_checkable

from pdl.errors import UsageError
from pdl.hints import Range
from pdl.tensor import Tensor


@runtime_checkable
class HasParameters(Protocol):
    """A module."""

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """(name, parameter) pairs."""


Group: TypeAlias = dict[str, Any]
Params: TypeAlias = (
    HasParameters
    | Tensor
    | Iterable[Tensor]
    | Iterable[tuple[str, Tensor]]
    | Iterable[dict[str, Any]]
    | Mapping[str, Tensor]
)
#: `{"match": "*.bias" | ["head.*", ...], option: value, ...}`
Rule: TypeAlias = Mapping[str, Any]
LayerDecay: TypeAlias = Annotated[float, Range(high=1, above=0)] | None


def make_groups(
    params: Params,
    defaults: Mapping[str, Any],
    rules: Sequence[Rule],
    no_decay: bool | Sequence[str],
    layer_decay: float | None = None,
) -> list[Group]:
    """The groups of an optimiser; see `Optimizer` for the forms that `params` may take."""
    layers = None if layer_decay is None else _layers(params, layer_decay)
    if isinstance(params, HasParameters | Tensor | Mapping):
        params = [{"params": params}]
    given: list[Any] = list(params)
    if not given:
        raise UsageError("the optimiser got no parameters; was the module given one, or is the generator used up?")
    if not isinstance(given[0], Mapping):
        given = [{"params": given}]
    groups = [_group(entry, defaults, number) for number, entry in enumerate(given)]
    groups = _apply_rules(groups, rules, defaults)
    groups = _split_decay(groups, no_decay)
    if layers is not None and layer_decay is not None:
        groups = _split_layers(groups, layers, layer_decay)
    _refuse_repeats(groups)
    return [group for group in groups if group["params"]]


def _group(entry: Mapping[str, Any], defaults: Mapping[str, Any], number: int) -> Group:
    options = {name: value for name, value in entry.items() if name not in ("params", "names")}
    _refuse_unknown(f"group {number}", options, defaults)
    pairs = list(_named(entry["params"], entry.get("names"), f"group{number}." if number else ""))
    return {**defaults, **options, "names": [name for name, _ in pairs], "params": [p for _, p in pairs]}


def _named(params: Any, names: Sequence[str] | None, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """(name, parameter) pairs; parameters that come without a name are numbered."""
    if isinstance(params, HasParameters):
        params = {name: p for name, p in params.named_parameters() if p.requires_grad}
        if not params:
            raise UsageError("optimiser: every parameter of the module is frozen, there is nothing to learn")
    items = params.items() if isinstance(params, Mapping) else [params] if isinstance(params, Tensor) else params
    for number, item in enumerate(items):
        name, value = item if isinstance(item, tuple) else (names[number] if names else f"{prefix}{number}", item)
        if not isinstance(value, Tensor):
            raise UsageError(f"optimiser: parameter {name} is a {type(value).__name__}, not a tensor")
        if not value.is_leaf:
            raise UsageError(f"optimiser: parameter {name} is the result of an op; only leaves can be learned")
        yield name, value


def _apply_rules(groups: list[Group], rules: Sequence[Rule], defaults: Mapping[str, Any]) -> list[Group]:
    """Split each group by the first rule that matches a name; every rule must match something."""
    used = [False] * len(rules)
    found = []
    for group in groups:
        which = [_first_match(name, rules) for name in group["names"]]
        for number in sorted(set(which), key=lambda n: -1 if n is None else n):
            part = _part(group, [w == number for w in which])
            if number is not None:
                used[number] = True
                part.update({name: value for name, value in rules[number].items() if name != "match"})
            found.append(part)
    names = [name for group in groups for name in group["names"]]
    for number, rule in enumerate(rules):
        _refuse_unknown(f"groups[{number}]", {name: None for name in rule if name != "match"}, defaults)
        if not used[number]:
            raise UsageError(
                f"optimiser: groups[{number}] (match={rule.get('match')!r}) matches no parameter that is learned; "
                f"names are {_some(names)}"
            )
    return found


def _first_match(name: str, rules: Sequence[Rule]) -> int | None:
    return next((n for n, rule in enumerate(rules) if _matches(name, rule.get("match", ()))), None)


def _matches(name: str, patterns: str | Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in ([patterns] if isinstance(patterns, str) else patterns))


def _split_decay(groups: list[Group], no_decay: bool | Sequence[str]) -> list[Group]:
    """Give the exempt parameters of every decaying group a group of their own, with weight_decay 0."""
    found = []
    for group in groups:
        pairs = zip(group["names"], group["params"], strict=True)
        exempt = [_is_exempt(name, p, no_decay) for name, p in pairs]
        if group.get("weight_decay") and any(exempt):
            found += [_part(group, [not e for e in exempt]), {**_part(group, exempt), "weight_decay": 0.0}]
        else:
            found.append(group)
    return found


def _is_exempt(name: str, p: Tensor, no_decay: bool | Sequence[str]) -> bool:
    """With True: biases, and everything with fewer than two dimensions (scale and shift of norms)."""
    if isinstance(no_decay, bool):
        return no_decay and (p.ndim < 2 or name.rpartition(".")[2] == "bias")
    return _matches(name, no_decay)


def _layers(params: Params, decay: float) -> list[list[str]]:
    """The module's layers from the head down."""
    from pdl.nn import Module, stages

    if not 0 < decay <= 1:
        raise UsageError(
            f"optimiser: layer_decay {decay} is outside (0, 1]; 0.75 is common, 1 is the same rate for all"
        )
    if not isinstance(params, Module):
        raise UsageError(
            "optimiser: layer_decay needs the module itself, whose layers have an order; "
            f"it was given {type(params).__name__}"
        )
    return stages(params)[::-1]


def _split_layers(groups: list[Group], layers: list[list[str]], decay: float) -> list[Group]:
    """Split each group by layer; the rate of the layer d steps before the head is the group's times decay^d."""
    found = []
    for distance, layer in enumerate(layers):
        members = set(layer)
        for group in groups:
            part = _part(group, [name in members for name in group["names"]])
            found.append({**part, "lr": part["lr"] * decay**distance})
    return found


def _part(group: Group, mask: Sequence[bool]) -> Group:
    chosen = {key: [x for x, keep in zip(group[key], mask, strict=True) if keep] for key in ("names", "params")}
    return {**group, **chosen}


def _refuse_unknown(where: str, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    unknown = [name for name in options if name not in defaults]
    if unknown:
        raise UsageError(
            f"optimiser: {where} sets {unknown[0]!r}, which is no option of it; there are {', '.join(defaults)}"
        )


def _refuse_repeats(groups: list[Group]) -> None:
    seen: dict[int, str] = {}
    names: set[str] = set()
    for group in groups:
        for name, p in zip(group["names"], group["params"], strict=True):
            if id(p) in seen:
                raise UsageError(f"optimiser: {name} is in two groups (there as {seen[id(p)]})")
            if name in names:
                raise UsageError(f"optimiser: two parameters are named {name}")
            seen[id(p)] = name
            names.add(name)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
