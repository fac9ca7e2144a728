"""Weights of Paddle: `.pdiparams`, which needs the program beside it (`.pdmodel`, or the `.json` of Paddle 3), read
without Paddle and without running anything (`pdl.onnx.paddle_params`); and layers whose names Paddle2ONNX has lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import map_file, read_bytes
from pdl.onnx.graph import Graph
from pdl.onnx.paddle_params import JSON, PARAMETERS, PROGRAM, Unreadable, parameter_names, records

MOST_PROGRAM = 2**28
_LAYER = re.compile(r"(\w+_\d+)\.w_0")
_NORM = re.compile(r"helper\.reshape\.(\d+)")

__all__ = ["PARAMETERS", "is_paddle", "named_as_in_paddle", "read_paddle"]


def read_paddle(path: Path) -> dict[str, Array]:
    """The parameters of a `.pdiparams` by name, windows on the mapped file; DataError for a damaged one, and where no
    program of the same name lies beside it."""
    names = _names(path)
    try:
        return dict(records(map_file(path), names))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except Unreadable as error:
        raise DataError(f"{path}: {error}") from None


def _names(path: Path) -> list[str]:
    """The names of what a `.pdiparams` holds, in its order."""
    program = path.with_suffix(PROGRAM)
    if not program.is_file() and path.with_suffix(JSON).is_file():
        program = path.with_suffix(JSON)
    try:
        found = parameter_names(memoryview(read_bytes(program, MOST_PROGRAM)))
    except OSError as error:
        raise DataError(
            f"{path}: {program.name}, which names what it holds, cannot be read ({error.strerror}): both are of one "
            "export"
        ) from None
    except Unreadable as error:
        raise DataError(f"{program}: {error}") from None
    if not found:
        raise DataError(f"{program}: it has no parameters")
    return found


# -- ONNX --------------------------------------------------------------------------------------------------------------
def is_paddle(names: Iterable[str]) -> bool:
    """Whether tensors of a graph have names that Paddle gives, as those of Paddle2ONNX have."""
    return any(_LAYER.fullmatch(name) for name in names)


def named_as_in_paddle(graph: Graph, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of a graph, where those of Paddle2ONNX have lost their names under the ones that Paddle gives: a bias is
    what is added behind a convolution `conv2d_7.w_0`, of the shape [C]; kernels of transposed and of one-dimensional
    convolutions and the weights of norms are numbered in the graph's order. Graphs of others are left as they are."""
    found = dict(tensors)
    if not is_paddle(found):
        return found
    origin = {name: name for name in found}  # of what passes through Identity and Cast
    added: dict[str, str] = {}
    for node in graph.nodes:
        if node.op in ("Identity", "Cast"):
            origin[node.outputs[0]] = origin.get(node.inputs[0], node.inputs[0])
        elif node.op == "Add":
            one, other = (origin.get(name, name) for name in node.inputs)
            added.update({value: array for value, array in ((one, other), (other, one)) if array in found})
    counts: dict[str, int] = {}
    for node in graph.nodes:
        weight = origin.get(node.inputs[1]) if node.op in ("Conv", "ConvTranspose") else None
        if weight is None or weight not in found:
            continue
        layer = match[1] if (match := _LAYER.fullmatch(weight)) else _numbered(node.op, counts)
        found[f"{layer}.w_0"] = found.pop(weight)
        bias = origin.get(node.inputs[2]) if len(node.inputs) > 2 else added.get(node.outputs[0])
        if bias in found:
            found[f"{layer}.b_0"] = found.pop(bias).reshape(-1)
    for name in list(found):
        if match := _NORM.fullmatch(name):
            number = int(match[1])
            found[f"layer_norm_{number // 2}.{'b_0' if number % 2 else 'w_0'}"] = found.pop(name)
    return found


def _numbered(op: str, counts: dict[str, int]) -> str:
    kind = "conv2d_transpose" if op == "ConvTranspose" else "conv1d"
    counts[kind] = counts.get(kind, -1) + 1
    return f"{kind}_{counts[kind]}"
