"""Graphs on disk: a folder with an .npy file for each array and a header, opened as memory maps.

    graph.json    {"format": 1, "directed": ..., "classes": [...], "arrays": {"indptr": {"dtype": ..., "shape": ...}}}
    indptr.npy    and the other fields of `Graph`; features with many zeros are x.value, x.indices and x.indptr;
                  masks are mask.NAME; names of nodes are an array of numbers or of text

A graph so stored may be larger than memory. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.errors import UsageError
from pdl.files import read_text
from pdl.ops import CSR
from pdl.runtime.arrays import map_array
from pdl_graph.batch import SparseFeatures
from pdl_graph.typed import FIELDS

if TYPE_CHECKING:
    from pdl_graph.graph import Graph

FORMAT, HEADER = 1, "graph.json"
_ADVICE = "write the graph again (Graph.save)"
_KINDS = {
    "indptr": "i8", "indices": "i4", "x": "f4", "x.indptr": "i8", "x.indices": "i4", "x.value": "f4",
    "edge_weight": "f4", "edge_attr": "f4", "edge_type": "i8", "node_type": "i8",
}  # fmt: skip
_PLAIN = ("y", "edge_weight", "edge_attr", "edge_type", "node_type")


def arrays_of(graph: Graph) -> dict[str, np.ndarray]:
    """Every array of a graph by the name it is stored under; names of nodes are left out."""
    held: dict[str, Any] = {"indptr": graph.indptr, "indices": graph.indices}
    held |= {name: getattr(graph, name) for name in _PLAIN}
    if isinstance(graph.x, SparseFeatures):
        pattern = graph.x.pattern
        held |= {"x.value": graph.x.value, "x.indices": pattern.indices, "x.indptr": pattern.indptr}
    else:
        held["x"] = graph.x
    held |= {f"mask.{split}": mask for split, mask in graph.masks.items()}
    return {name: array for name, array in held.items() if array is not None}


# -- writing -----------------------------------------------------------------------------------------------------------
def save(graph: Graph, folder: Path) -> Path:
    """See `Graph.save`. The folder appears whole or not at all."""
    if folder.exists() and not (folder / HEADER).is_file():
        raise UsageError(f"{folder} is there and holds no graph ({HEADER}); give another place")
    arrays = {name: np.asarray(array, _KINDS.get(name)) for name, array in arrays_of(graph).items()}
    if bad := [split for split in graph.masks if not re.fullmatch(r"[\w.-]+", split)]:
        raise UsageError(f"Graph.save: the mask {bad[0]!r} cannot be a file; name it with letters, digits, - and _")
    if len(graph.names):
        arrays["names"] = _name_array(graph.names)
    about: dict[str, Any] = {"format": FORMAT, "directed": graph.directed, "classes": [str(c) for c in graph.classes]}
    if isinstance(graph.x, SparseFeatures):
        about["features"] = graph.x.shape[1]
    about["arrays"] = {k: {"dtype": v.dtype.str, "shape": list(v.shape)} for k, v in arrays.items()}
    part = folder.with_name(f".{folder.name}.{os.getpid()}.{secrets.token_hex(4)}")
    part.mkdir(parents=True)
    try:
        for name, array in arrays.items():
            np.save(part / f"{name}.npy", array, allow_pickle=False)
        (part / HEADER).write_text(json.dumps(about, indent=1), "utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return folder


def _name_array(names: Any) -> np.ndarray:
    if not isinstance(names, np.ndarray) and not all(isinstance(name, int | np.integer) for name in names):
        return np.array([str(name) for name in names])
    made = np.asarray(names)
    return made if made.ndim == 1 and made.dtype.kind in "iuU" else np.array([str(name) for name in names])


# -- reading -----------------------------------------------------------------------------------------------------------
def open_fields(folder: Path) -> dict[str, Any]:
    """The fields of the `Graph` that a folder holds. DataFault where header and files do not fit together."""
    header = _header(folder)
    arrays = {name: _array(folder, name, entry) for name, entry in header["arrays"].items()}
    _check(folder, arrays, header)
    fields: dict[str, Any] = {name: arrays[name] for name in ("indptr", "indices", "x", *_PLAIN) if name in arrays}
    if "x.value" in arrays:
        pattern = CSR.from_rows(arrays["x.indptr"], arrays["x.indices"], header["features"])
        fields["x"] = SparseFeatures(pattern, arrays["x.value"])
    masks = {name[5:]: array for name, array in arrays.items() if name.startswith("mask.")}
    names = arrays.get("names", ())
    return {**fields, "masks": masks, "names": names, "directed": header["directed"], "classes": header["classes"]}


def _header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    try:
        header = json.loads(read_text(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise fault(path, f"is no readable header of a graph: {error}", _ADVICE) from error
    wanted = {"format": int, "directed": bool, "classes": list, "arrays": dict}
    if not isinstance(header, dict) or not all(isinstance(header.get(k), kind) for k, kind in wanted.items()):
        raise fault(path, f"is no header of a graph: it needs {', '.join(wanted)}", _ADVICE)
    if header["format"] != FORMAT:
        raise fault(path, f"has format {header['format']}, this pdl-graph reads {FORMAT}", "install a newer pdl-graph")
    needed = {"indptr", "indices"} | ({"x.indptr", "x.indices"} if "x.value" in header["arrays"] else set())
    absent = sorted(needed - header["arrays"].keys())
    if absent or ("x.value" in header["arrays"] and not isinstance(header.get("features"), int)):
        raise fault(path, f"names no array {absent[0]!r}" if absent else "says no number of features", _ADVICE)
    return header


def _array(folder: Path, name: str, entry: Any) -> np.ndarray:
    path = folder / f"{name}.npy"
    known = name in _KINDS or name in ("y", "names") or name.startswith("mask.")
    if not known or "/" in name or "\\" in name or not isinstance(entry, dict):
        raise fault(folder / HEADER, f"names an array {name!r} that graphs do not have", _ADVICE)
    try:
        array = map_array(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise fault(path, f"is damaged: {error}", _ADVICE) from error
    found = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if found != {"dtype": entry.get("dtype"), "shape": entry.get("shape")}:
        raise fault(path, f"holds {found}, the header says {entry}", _ADVICE)
    if name in _KINDS and array.dtype != np.dtype(_KINDS[name]):
        raise fault(path, f"holds {array.dtype}, not {np.dtype(_KINDS[name])}", _ADVICE)
    return array


def _check(folder: Path, arrays: dict[str, np.ndarray], header: dict[str, Any]) -> None:
    """Borders that do not rise, ids outside of the graph, arrays of the wrong length."""
    indptr, indices = arrays["indptr"], arrays["indices"]
    nodes = len(indptr) - 1
    _check_borders(folder, "indptr", indptr, indices, nodes)
    if "x.value" in arrays:
        _check_borders(folder, "x.indptr", arrays["x.indptr"], arrays["x.indices"], header["features"])
        if len(arrays["x.value"]) != len(arrays["x.indices"]) or len(arrays["x.indptr"]) != nodes + 1:
            raise fault(folder, "the features do not fit the nodes", _ADVICE)
    for name, array in arrays.items():
        edge = name.startswith("edge_")
        if name in ("indptr", "indices") or name.startswith("x."):
            continue
        if not array.ndim or len(array) != (len(indices) if edge else nodes):
            what = f"{name} has shape {array.shape} for {nodes} nodes and {len(indices)} edges"
            raise fault(folder / f"{name}.npy", what, _ADVICE)
        if name.startswith("mask.") and array.dtype != bool:
            raise fault(folder / f"{name}.npy", f"holds {array.dtype}, not bool", _ADVICE)
        axes = FIELDS[name][1] if name in FIELDS else 2 if name == "y" and array.ndim == 2 else 1
        if array.ndim != axes or (name == "y" and array.dtype.kind not in "ibf"):
            raise fault(folder / f"{name}.npy", f"holds {array.dtype} {array.shape}", _ADVICE)


def _check_borders(folder: Path, name: str, indptr: np.ndarray, indices: np.ndarray, width: int) -> None:
    good = indptr.ndim == indices.ndim == 1 and len(indptr) and indptr[0] == 0 and indptr[-1] == len(indices)
    if not good or (np.diff(indptr) < 0).any():
        raise fault(folder / f"{name}.npy", "does not say where rows begin", _ADVICE)
    step = 1 << 24  # numbers looked at at once: a map larger than memory is read piece by piece
    for start in range(0, len(indices), step):
        piece = indices[start : start + step]
        if piece.min() < 0 or piece.max() >= width:
            bad = start + int(np.flatnonzero((piece < 0) | (piece >= width))[0])
            raise fault(folder, f"entry {bad} names {indices[bad]} of {width}", _ADVICE, index=bad)
