"""Checkpoints: one safetensors file holds all arrays, and in its header the JSON of everything else.

A file appears whole or not at all: it is written under a temporary name in the same folder, flushed to the disk, and
renamed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.files import open_file, read_text, write_atomic
from pdl.runtime.weights import NAMES, pieces
from pdl.tensor import Tensor

FORMAT = "1"
LAST, BEST = "last.safetensors", "best.safetensors"
_ARRAY = "$array"  # marks, in the JSON, the place of an array


def save(path: str | Path, tree: dict[str, Any]) -> None:
    """Write nested dicts and lists of arrays, tensors, numbers, strings and None, atomically, from where they lie: a
    model of some gigabytes needs no second copy of itself."""
    arrays: dict[str, Array] = {}
    plain = _take_out(tree, "", arrays)
    header = {"format": FORMAT, "pdl": json.dumps(plain)}
    write_atomic(Path(path), pieces(arrays, header, NAMES | {np.dtype(np.complex64): "C64"}))


def load(path: str | Path) -> dict[str, Any]:
    """The tree that `save` wrote, with arrays (writable copies). Raises DataError for a file that is not such a
    checkpoint."""
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file}: no such checkpoint")
    try:
        open_file(file).close()
        with safe_open(file, framework="numpy") as opened:
            header = opened.metadata() or {}
            arrays = {name: _writable(opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{file}: damaged, or not a checkpoint ({error}); use another one of this run") from error
    if header.get("format") != FORMAT:
        raise DataError(f"{file}: checkpoint format {header.get('format')!r}, this pdl reads {FORMAT!r}")
    tree = _put_back(json.loads(header["pdl"]), arrays)
    assert isinstance(tree, dict)
    return tree


def find(run: str | Path, which: str | None = None) -> Path:
    """The checkpoint "best" or "last" of a run folder; by default the one that the run's own test used, as its
    result.json says, or else the best there is. UsageError where it is not there."""
    folder = Path(run)
    if which is None:
        which = _tested(folder / "result.json")
    known: dict[str | None, tuple[str, ...]] = {"best": (BEST,), "last": (LAST,), None: (BEST, LAST)}
    if which not in known:
        raise UsageError(f"there are no weights {which!r} in a run; choose best or last")
    found = (folder / "checkpoints" / name for name in known[which])
    path = next((each for each in found if each.is_file()), None)
    if path is None:
        lacks = f"has no {which or 'best or last'} checkpoint"
        raise UsageError(f"{folder}: {lacks}; train it first (pdl train --resume {folder})")
    return path


def _tested(result: Path) -> str | None:
    """Which weights a result.json speaks of; None where there is none."""
    if not result.is_file():
        return None
    try:
        return str(json.loads(read_text(result))["weights"]).split()[0]
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{result}: not a result that this pdl wrote ({error!r})") from error


def weights(tree: dict[str, Any]) -> dict[str, Array]:
    """The weights of a run's checkpoint by name: the averages (`train.ema`) where there are any, each in the dtype of
    the weight that it stands for."""
    model: dict[str, Array] = tree["model"]
    averages = (tree.get("ema") or {}).get("average", {})
    return model | {name: array.astype(model[name].dtype) for name, array in averages.items() if name in model}


def _writable(array: Array) -> Array:
    """The array, or a copy where it is a window on what may not be written to."""
    return array if array.flags.writeable else array.copy()


def _take_out(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """`value` fit for JSON, its arrays moved into `arrays` under their path."""
    if isinstance(value, Tensor):
        value = value.data
    if isinstance(value, np.ndarray):
        wide = value.dtype == np.complex128  # the one dtype that safetensors lacks: stored as pairs of float64
        arrays[name] = np.ascontiguousarray(value)[..., None].view(np.float64) if wide else value
        return {_ARRAY: name, "complex128": True} if wide else {_ARRAY: name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise UsageError(
                f"checkpoint: key {wrong[0]!r} of {name or 'the tree'} is no string; state_dict keys must be strings"
            )
        return {key: _take_out(item, f"{name}/{key}" if name else key, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_take_out(item, f"{name}/{index}", arrays) for index, item in enumerate(value)]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise UsageError(
        f"checkpoint: {name} is {type(value).__name__}; only arrays, numbers, strings, lists and dicts can be saved"
    )


def _put_back(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            array = arrays[value[_ARRAY]]
            return array.view(np.complex128)[..., 0] if value.get("complex128") else array
        return {key: _put_back(item, arrays) for key, item in value.items()}
    return [_put_back(item, arrays) for item in value] if isinstance(value, list) else value
