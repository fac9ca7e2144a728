"""Names for the dynamic axes of a graph's inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pdl.dims import Dim
from pdl.onnx.graph import Port

Shape = tuple[int | str, ...]
_MADE_UP = re.compile(r"^(unk_|p2o\.|dynamic|\?|.*_dim_\d+$|\d+$|-1$)", re.IGNORECASE)


def named_axes(ports: Sequence[Port]) -> dict[str, Shape | None]:
    """Shapes with a name for every dynamic axis: the model's own, or n, h, w, ... where it has none that says more."""
    taken: dict[str, str] = {}  # name -> the model's own name, or the place it was made up for
    return {
        p.name: None
        if p.shape is None or p.kind != "tensor"
        else tuple(n if isinstance(n, int) else _name(n, p, i, taken) for i, n in enumerate(p.shape))
        for p in ports
    }


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
    return None if shape is None else tuple(n if isinstance(n, int) else Dim.symbol(n, 1) for n in shape)
