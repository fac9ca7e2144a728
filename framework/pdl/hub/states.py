"""Weights as arrays by name, from whatever holds them: a name of the hub, a bundle, safetensors, PyTorch's own files,
a run folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl import checkpoint
from pdl.config.source import parsed
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError, UsageError
from pdl.files import map_file
from pdl.hub.entries import Build, Entry
from pdl.hub.files import resolve
from pdl.hub.index import entry
from pdl.hub.paddle import PARAMETERS, is_paddle, named_as_in_paddle, read_paddle
from pdl.hub.torch_file import SUFFIXES, read_torch
from pdl.onnx import reader
from pdl.onnx.graph import Graph
from pdl.runtime.strict import parse
from pdl.runtime.weights import MAX_HEADER, from_bytes

ONNX = ".onnx"
Layout = Literal["pdl", "torch", "onnx", "paddle", "unknown"]
#: what a training or an importer may write for names that no module gave (`Program.names`), in decoders as well
_NAMELESS = re.compile(r"((encode|step)\.)?(constant|state)(\.|$)")


@dataclass(frozen=True)
class State:
    """What was read.

    source   the name or path as it was given
    layout   the order of axes; "unknown" where it must be inferred from shapes
    hint     which net the weights were made of, where the file says so
    """

    source: str
    arrays: Mapping[str, Array]
    layout: Layout
    hint: str = ""


def read_state(source: str | Path) -> State:
    """The weights of a name of the hub, a file or a run folder.

    Fetches what is not on this machine. UsageError for an unknown name and for files that hold no parameters
    (ONNX graphs but those of Paddle, bundles imported from them or in int8), DataError for damaged ones.
    """
    name = str(source)
    if (Path(name) / "config.yaml").is_file():
        return State(name, _of_run(name), "pdl")
    if Path(name).is_file():
        return _of_file(name, Path(name), "")
    return state_of(entry(name), lambda: resolve(name))


def state_of(known: Entry, file: Callable[[], Path]) -> State:
    """The weights of an entry of the hub, with what that adds to them; of an ONNX graph, where it names a net, tensors
    under the names that they have there. `file` fetches it."""
    build = known.build or Build()
    graph = known.file.endswith(ONNX) and (build.model is not None or build.trained_as is not None)
    if not graph:
        _require_parameters(known.name, known.file)
    path = file()
    tensors = _tensors(reader.read(path).graph) if graph else {}
    state = State(known.name, tensors, "onnx") if graph else _of_file(known.name, path, _net(build.model))
    if build.arrays is None:
        return state
    more = known.inside(build.arrays)
    return replace(state, arrays={**state.arrays, **from_bytes(map_file(more), str(more), "safetensors")})


def _tensors(graph: Graph) -> dict[str, Array]:
    """The arrays of a graph by name: its initialisers, and what its nodes Constant hold."""
    held = {node.outputs[0]: node.attributes.get("value") for node in graph.nodes if node.op == "Constant"}
    arrays = {name: value for name, value in held.items() if isinstance(value, np.ndarray)}
    return named_as_in_paddle(graph, {**arrays, **graph.initialisers})


def _of_file(source: str, file: Path, hint: str) -> State:
    if file.suffix == ONNX and is_paddle(tensors := _tensors(reader.read(file).graph)):
        return State(source, tensors, "onnx", hint)
    _require_parameters(source, file.name)
    if file.suffix == ".pdl":
        return _of_bundle(source, file)
    if file.suffix in SUFFIXES:
        return State(source, read_torch(file), "torch", hint)
    if file.suffix == ".safetensors":
        return _of_safetensors(source, file, hint)
    if file.suffix == PARAMETERS:
        return State(source, read_paddle(file), "paddle", hint)
    known = ", ".join((".pdl", ".safetensors", *SUFFIXES, PARAMETERS))
    raise DataError(
        f"{file}: weights are read from files named {known}, and from run folders; rename it, or convert it"
    )


def _require_parameters(source: str, file: str) -> None:
    if file.endswith(ONNX):
        raise UsageError(
            f"{source}: an ONNX file is for deployment only: its numbers have lost the names and shapes of the net "
            "that they were trained in, so no net can take them; use it with `pdl predict`"
        )


def _of_run(folder: str) -> Mapping[str, Any]:
    """The weights that a run's own test used, with the averaged ones in place."""
    return checkpoint.weights(checkpoint.load(checkpoint.find(folder)))


def _of_bundle(source: str, file: Path) -> State:
    """The parameters of a bundle, which its program calls by their names in the net."""
    from pdl.runtime.bundle import read

    bundle = read(file)
    about = bundle.meta["about"]
    if bundle.kind not in ("program", "decoder") or "source" in about:
        made = about.get("source", "an ONNX graph")
        raise UsageError(f"{source}: a bundle imported from {made} is for deployment only; no net can take its weights")
    if (precision := about.get("precision")) in ("int8", "w8", "w4"):
        raise UsageError(f"{source}: a bundle in {precision} is for deployment only; use the one it was made from")
    if (kept := str(about.get("stored", ""))).endswith("shared values"):
        raise UsageError(f"{source}: a bundle with {kept} is for deployment only; use the one it was made from")
    held: Mapping[str, Array] = bundle.weights
    if "zeros" in about:
        held = {value.name: value.tensor._data for value in bundle.build().captures}  # type: ignore[misc, union-attr]
    arrays = {name: a for name, a in held.items() if not _NAMELESS.match(name)}
    return State(source, arrays, "pdl", _net_of_recipe(bundle.config) or str(about.get("model", "")))


def _of_safetensors(source: str, file: Path, hint: str) -> State:
    """Files of PyTorch say so in their header ({"format": "pt"}), unless whoever wrote them left it out."""
    try:
        data = map_file(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    arrays = from_bytes(data, str(file), "safetensors")
    length = int.from_bytes(data[:8], "little")
    header = parse(bytes(data[8 : 8 + min(length, MAX_HEADER)]), str(file), "safetensors")
    about = header.get("__metadata__")
    declared = about.get("format") if isinstance(about, dict) else None
    if isinstance(about, dict) and "pdl" in about:
        return State(source, _of_checkpoint(file), "pdl", hint)
    return State(source, arrays, "torch" if declared == "pt" else "unknown", hint)


def _of_checkpoint(file: Path) -> Mapping[str, Array]:
    """The weights in a file of `pdl.Model.save`, or of a run's folder of checkpoints (not the averaged ones)."""
    tree = checkpoint.load(file)
    found = tree["model"] if isinstance(tree.get("model"), dict) else tree
    return dict(found)


def _net_of_recipe(text: str) -> str:
    """The model section of the recipe that a bundle carries."""
    if not text.strip():
        return ""
    try:
        config = parsed(text, Path("config.yaml"))
    except ConfigError:
        return ""
    model = config.get("model") if isinstance(config, dict) else None
    return _net(
        {key: value for key, value in model.items() if key != "pretrained"} if isinstance(model, dict) else None
    )


def _net(model: Mapping[str, Any] | None) -> str:
    """`pdl_cv.LeNet(image_size=8)` of a model section."""
    if not model or "_target_" not in model:
        return ""
    rest = ", ".join(f"{key}={value}" for key, value in model.items() if key != "_target_")
    return f"{model['_target_']}({rest})"
