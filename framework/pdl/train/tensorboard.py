"""Event files for TensorBoard, written without it.

The file is a TFRecord: each record is length (uint64), masked CRC-32C of the length, data, masked CRC-32C of the
data; the data is a protocol-buffer `Event` (wall_time = 1, step = 2, file_version = 3, summary = 5; summary.value = 1
with tag = 1, simple_value = 2).
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pdl.train.hooks import Hook

if TYPE_CHECKING:
    from pdl.train.loop import Evaluation, Trainer

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reflected


def _table() -> tuple[int, ...]:
    rows = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        rows.append(byte)
    return tuple(rows)


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """CRC-32C of the data, rotated and offset as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _text(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


class EventWriter:
    """Appends scalars to one event file of a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self._file = (folder / name).open("wb")
        self._record(self._event(0) + _text(3, b"brain.Event:2"))

    def scalar(self, name: str, value: float, step: int) -> None:
        """One point of the curve `name`."""
        point = _text(1, name.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", value)
        self._record(self._event(step) + _text(5, _text(1, point)))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def _event(self, step: int) -> bytes:
        return _varint(1 << 3 | 1) + struct.pack("<d", time.time()) + _varint(2 << 3) + _varint(step)

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data)))
        self._file.flush()


class TensorBoard(Hook):
    """Loss and learning rate by step, metrics by evaluation, into `folder`."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every
        self._writer: EventWriter | None = None

    def _write(self, values: dict[str, float], step: int) -> None:
        if self._writer is None:
            self._writer = EventWriter(self.folder)
        for name, value in values.items():
            self._writer.scalar(name, value, step)

    def on_step(self, trainer: Trainer) -> None:
        if trainer.state.step % self.every == 0:
            last = trainer.last
            self._write({"train/loss": last.loss, "train/lr": last.lr, **last.parts}, trainer.state.step)

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self._write(evaluation.metrics, trainer.state.step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
