"""Names for the dynamic axes of a graph's inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pdl.dims import Dim
from pdl.onnx.graph import Port

Shape = tuple[int | str, ...]
#: an axis that is a multiple of a size: 32*h
_MULTIPLE = re.compile(r"^(?:([1-9]\d{0,5})\*)?([^\W\d]\w*)$", re.ASCII)
_MADE_UP = re.compile(r"^(unk_|p2o\.|dynamic|\?|.*_dim_\d+$|\d+$|-1$)", re.IGNORECASE)


def named_axes(ports: Sequence[Port]) -> dict[str, Shape | None]:
    """Shapes with a name for every dynamic axis: the model's own, or n, h, w, ... where it has none that says more."""
    taken: dict[str, str] = {}  # name -> the model's own name, or the place it was made up for
    return {
        p.name: None
        if p.shape is None or p.kind != "tensor"
        else tuple(n if isinstance(n, int) else _named(n, p, i, taken) for i, n in enumerate(p.shape))
        for p in ports
    }


def multiple(axis: str) -> tuple[int, str] | None:
    """The factor and the name in an axis such as 32*h, (1, "h") of h; None where it is neither."""
    found = _MULTIPLE.match(axis)
    return found and (int(found[1] or 1), found[2])


def scaled(factor: int, name: str) -> str:
    """The axis of a factor and a name: 32*h."""
    return name if factor == 1 else f"{factor}*{name}"


def names_in(shape: Shape | None) -> list[str]:
    """The names in a shape as `named_axes` gives it, in order."""
    return [_parts(axis)[1] for axis in shape or () if isinstance(axis, str)]


def at_sizes(shape: Shape | None, sizes: Mapping[str, int]) -> Shape | None:
    """The shape with these sizes, numbers or `Dim`s, in the place of their names; other names stay."""

    def at(axis: int | str) -> int | str:
        if isinstance(axis, int):
            return axis
        factor, name = _parts(axis)
        return factor * sizes[name] if name in sizes else axis

    return shape and tuple(map(at, shape))


def _parts(axis: str) -> tuple[int, str]:
    found = multiple(axis)
    assert found is not None, axis
    return found


def _named(own: str | None, port: Port, axis: int, taken: dict[str, str]) -> str:
    factor, name = (own and multiple(own)) or (1, own)
    return scaled(factor, _name(name, port, axis, taken))


def _name(own: str | None, port: Port, axis: int, taken: dict[str, str]) -> str:
    said = own is not None and not _MADE_UP.match(own)
    source = str(own) if own not in (None, "?") else f"{port.name}[{axis}]"
    for name, meant in taken.items():
        if meant == source:
            return name
    first = _identifier(str(own)) if said else _usual(port, axis)
    name, number = first, 2
    while name in taken:
        name, number = f"{first}{number}", number + 1
    taken[name] = source
    return name


def _usual(port: Port, axis: int) -> str:
    """n for the first axis; h and w for images; else the input's name and the axis."""
    pictures = {4: {2: "h", 3: "w"}, 5: {2: "d", 3: "h", 4: "w"}}
    rank = len(port.shape or ())
    return "n" if axis == 0 else pictures.get(rank, {}).get(axis) or _identifier(f"{port.name}_{axis}")


def _identifier(text: str) -> str:
    made = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "size"
    return made if made[0].isalpha() else f"s{made}"


def symbolic(shape: Shape | None) -> tuple[int, ...] | None:
    """The shape with a `Dim` for every name."""
    return at_sizes(shape, {name: Dim.symbol(name, 1) for name in names_in(shape)})  # type: ignore[return-value]
