"""The checkpoint file: what goes in comes out, and a kill leaves the old one or the new."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pdl
from pdl import checkpoint
from pdl.checkpoint import BEST, LAST
from pdl.errors import DataError, UsageError
from pdl.random import fork_seed
from pdl.train import Hook, Trainer, TrainSettings, checkpoints
from pdl.train.checkpoints import Checkpoints
from tests.framework.train import toy


def test_round_trip(tmp_path: Path) -> None:
    dtypes = [np.float32, np.float64, ml_dtypes.bfloat16, np.int64, np.bool_, np.complex64, np.complex128]
    tree: dict[str, Any] = {
        "arrays": [np.arange(6).reshape(2, 3).astype(d) for d in dtypes],
        "strided": np.arange(12.0).reshape(3, 4)[:, ::2],
        "nothing": np.zeros((0, 3), np.float32),
        "number": np.float64(2.5),
        "tensor": pdl.tensor([1.0, 2.0]),
        "plain": {"a": 1, "b": [None, "x", True, 0.1 + 0.2, 2**64 - 1]},
    }
    checkpoint.save(tmp_path / "c.safetensors", tree)
    back = checkpoint.load(tmp_path / "c.safetensors")
    for wrote, read in zip(tree["arrays"], back["arrays"], strict=True):
        assert read.dtype == wrote.dtype
        assert np.array_equal(read, wrote)
    assert np.array_equal(back["strided"], tree["strided"])
    assert back["nothing"].shape == (0, 3)
    assert back["number"] == 2.5
    assert back["tensor"].tolist() == [1.0, 2.0]
    assert back["plain"] == tree["plain"]


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_an_interruption_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    file = tmp_path / "c.safetensors"
    checkpoint.save(file, {"x": 1})

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    if call == "write":
        monkeypatch.setattr(checkpoint, "pieces", lambda *_: map(stop, [b"half of it"]))
    else:
        monkeypatch.setattr(os, call, stop)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(file, {"x": 2})
    assert checkpoint.load(file) == {"x": 1}


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"\x10\0\0\0\0\0\0\0{}"])
def test_damaged_files_are_data_errors(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "c.safetensors"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"c.safetensors: damaged"):
        checkpoint.load(file)


def test_what_cannot_be_saved_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a/1 is object"):
        checkpoint.save(tmp_path / "c", {"a": [1, object()]})
    with pytest.raises(UsageError, match=r"key 3 of a is no string"):
        checkpoint.save(tmp_path / "c", {"a": {3: 1}})
    with pytest.raises(UsageError, match=r"no such checkpoint"):
        checkpoint.load(tmp_path / "absent")


class _Clock(Hook):
    """Every epoch takes 0.4 seconds; training is broken off at the end of one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop: int = 0) -> None:
        self.now, self.stop = 0.0, stop
        monkeypatch.setattr(checkpoints.time, "monotonic", lambda: self.now)

    def on_batch(self, trainer: Trainer) -> None:
        if trainer.state.batch == 0:
            self.now += 0.4
            if self.stop and trainer.state.epoch == self.stop:
                raise KeyboardInterrupt


def _fit(folder: Path, clock: _Clock, **options: Any) -> tuple[list[int], str]:
    """Train for 8 short epochs, from the last checkpoint on where there is one; the epochs after which
    last.safetensors was written, and what the weights have become."""
    written = []

    class Kept(Checkpoints):
        def write(self, trainer: Trainer) -> None:
            super().write(trainer)
            written.append(trainer.state.epoch)
            best = checkpoint.load(folder / BEST)
            assert best["state"]["step"] == trainer.state.best_step, "what it speaks of is on the disk"

    with fork_seed(0):
        trainer = toy.regression(TrainSettings(epochs=8))
        trainer.hooks = [clock, Kept(folder, **options)]
        if (folder / LAST).is_file():
            trainer.load_state_dict(checkpoint.load(folder / LAST))
        trainer.fit()
    return written, toy.weights_hash(trainer.model)


def test_short_epochs_do_not_each_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, weights = _fit(tmp_path / "a", _Clock(monkeypatch))
    assert written == [1, 4, 7, 8], "the first, every 1.2 seconds, and the last"
    with pytest.raises(KeyboardInterrupt):
        _fit(tmp_path / "b", _Clock(monkeypatch, stop=6))
    assert checkpoint.load(tmp_path / "b" / LAST)["state"]["epoch"] == 4
    assert _fit(tmp_path / "b", _Clock(monkeypatch)) == ([5, 8], weights), "resumed from epoch 4, with the same bits"
    best = [checkpoint.load(tmp_path / name / BEST) for name in "ab"]
    for name, value in best[0]["model"].items():
        assert np.array_equal(value, best[1]["model"][name])
    every, _ = _fit(tmp_path / "c", _Clock(monkeypatch), every=100)
    assert every == list(range(1, 9)), "who says how often, has it so"
