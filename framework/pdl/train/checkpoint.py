"""Checkpoints: one safetensors file holds all arrays, and in its header the JSON of everything else.

A file appears whole or not at all: it is written beside its place, flushed to the disk, and renamed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array, bfloat16
from pdl.errors import DataError, UsageError
from pdl.runtime.weights import NAMES, pieces
from pdl.tensor import Tensor
from pdl.train.hooks import Hook

if TYPE_CHECKING:
    from pdl.train.loop import Evaluation, Trainer

FORMAT = "1"
LAST, BEST = "last.safetensors", "best.safetensors"
_ARRAY = "$array"  # marks, in the JSON, the place of an array
_REST = 1.0  # seconds: shorter epochs do not each wait for the disk


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


def _writable(array: Array) -> Array:
    """The array, or a copy where it is a window on what may not be written to."""
    return array if array.flags.writeable else array.copy()


def write_atomic(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Put `data`, or its pieces, at `path`, so that a kill or power cut at any moment leaves the old content or the
    new, never a mixture."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        for piece in [data] if isinstance(data, bytes) else data:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename inside the folder last; systems that cannot open folders do without."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the rename itself was atomic
        pass
    finally:
        os.close(descriptor)


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


class Checkpoints(Hook):
    """Writes last.safetensors (everything a resumed run needs) and best.safetensors (the weights that were best on
    the validation data).

    `every` steps, `seconds` seconds: how often inside an epoch; each epoch ends with one anyway, unless `every` is not
    given and the last one is less than a second old: then the weights that were best meanwhile are kept in memory, and
    a run that is broken off begins again up to a second before. The last epoch always ends with one. With `keep_last`
    k > 1 the latest k also stay as step-<number>.safetensors. This hook comes last, so that it sees what the others
    have become.
    """

    def __init__(
        self, folder: Path, *, every: int | None = None, seconds: float | None = None, keep_last: int = 1
    ) -> None:
        self.folder, self.every, self.seconds, self.keep_last = folder, every, seconds, keep_last
        self._written = time.monotonic()
        self._first = True
        self._best: dict[str, Any] | None = None  # better weights that are not on the disk yet

    def on_start(self, trainer: Trainer) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in self.folder.glob(".*.part"):  # what a kill in the middle of writing left
            part.unlink()
        self._written, self._first, self._best = time.monotonic(), True, None

    def on_step(self, trainer: Trainer) -> None:
        due = self.every is not None and trainer.state.step % self.every == 0
        if due or (self.seconds is not None and time.monotonic() - self._written >= self.seconds):
            self.write(trainer)

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        if not trainer.improved:
            return
        with trainer.averaged():
            weights = trainer.model.state_dict()
            demand_finite(weights, trainer)
            self._best = {"model": weights, "state": asdict(trainer.state)}
            if self._due(trainer):
                self._save_best()
            else:
                self._best["model"] = {name: value.data.copy() for name, value in weights.items()}

    def on_epoch(self, trainer: Trainer) -> None:
        if self._due(trainer):
            self.write(trainer)

    def _due(self, trainer: Trainer) -> bool:
        """Whether this epoch ends with a checkpoint."""
        rested = self.every is not None or time.monotonic() - self._written >= _REST
        return rested or self._first or trainer.finished

    def _save_best(self) -> None:
        if self._best is not None:
            save(self.folder / BEST, self._best)
        self._best = None

    def write(self, trainer: Trainer) -> None:
        """Write last.safetensors; refuses to replace good weights by broken ones. The best weights that it speaks of
        are on the disk before it."""
        demand_finite(trainer.model.state_dict(), trainer)
        self._save_best()
        last = self.folder / LAST
        save(last, trainer.state_dict())
        self._written, self._first = time.monotonic(), False
        if self.keep_last > 1:
            self._keep(last, trainer.state.step)

    def _keep(self, last: Path, step: int) -> None:
        name = self.folder / f"step-{step:08d}.safetensors"
        name.unlink(missing_ok=True)
        try:
            os.link(last, name)
        except OSError:  # a file system without hard links
            write_atomic(name, last.read_bytes())
        for old in sorted(self.folder.glob("step-*.safetensors"))[: -self.keep_last]:
            old.unlink()


def demand_finite(weights: dict[str, Tensor], trainer: Trainer) -> None:
    """Raise NumericalError naming the first tensor with NaN or infinite values."""
    for name, value in weights.items():
        array = value.data.astype(np.float32) if value.dtype == bfloat16 else value.data
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            raise trainer.diverged(f"{name} holds NaN or infinity after step {trainer.state.step}")
