"""Event files, read back by TensorBoard where it is installed, and by their own definition everywhere."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pdl.train.tensorboard import EventWriter, masked_crc


def test_crc_of_the_standard() -> None:
    crc = 0xE3069283  # CRC-32C of "123456789" (RFC 3720, B.4 uses the same polynomial)
    assert masked_crc(b"123456789") == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_records_are_framed(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    writer.scalar("train/loss", 0.5, 7)
    writer.close()
    data, records = next(tmp_path.iterdir()).read_bytes(), []
    while data:
        (length,) = struct.unpack_from("<Q", data)
        assert struct.unpack_from("<I", data, 8)[0] == masked_crc(data[:8])
        records.append(data[12 : 12 + length])
        assert struct.unpack_from("<I", data, 12 + length)[0] == masked_crc(records[-1])
        data = data[16 + length :]
    assert records[0].endswith(b"brain.Event:2")
    assert b"train/loss" in records[1]
    assert struct.pack("<f", 0.5) in records[1]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_them(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    writer = EventWriter(tmp_path)
    for step in (0, 200, 70000):
        writer.scalar("val/accuracy", step / 100000, step)
    writer.close()
    events = list(loader.LegacyEventFileLoader(str(next(tmp_path.iterdir()))).Load())
    assert [(e.step, round(e.summary.value[0].simple_value, 4)) for e in events[1:]] == [
        (0, 0.0),
        (200, 0.002),
        (70000, 0.7),
    ]
