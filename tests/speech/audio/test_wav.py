"""WAV files: what is read and written, and the one clear error for each that is damaged."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.errors import DataError, PdlError, UsageError
from pdl_speech.audio import wav

PCM, FLOAT, ALAW, MULAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    return struct.pack("<4sI", name, len(body) if size is None else size) + body + b"\0" * (len(body) % 2)


def fmt(kind: int = PCM, channels: int = 1, rate: int = 8000, bits: int = 16, block: int | None = None) -> bytes:
    block = channels * bits // 8 if block is None else block
    return struct.pack("<HHIIHH", kind, channels, rate, rate * block % 2**32, block, bits)


def extensible(
    kind: int, channels: int, bits: int, tail: bytes = bytes.fromhex("000000001000800000aa00389b71")
) -> bytes:
    return fmt(EXTENSIBLE, channels, bits=bits) + struct.pack("<HHIH", 22, bits, 0, kind) + tail


def riff(*chunks: bytes, size: int | None = None, magic: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack("<I", len(body) if size is None else size) + body


RAW = np.array([0, 1, -1, 1000, -32768, 32767], "<i2")
DATA = chunk(b"data", RAW.tobytes())
EXPECTED = (RAW / 32768).astype(np.float32)[:, None]


# -- what is read ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "raw", "expected"),
    [
        (fmt(bits=8), bytes([0, 128, 255]), [-1, 0, 127 / 128]),
        (fmt(bits=24), bytes([0, 0, 0x80, 1, 0, 0, 0xFF, 0xFF, 0x7F]), [-1, 2.0**-23, 1 - 2.0**-23]),
        (fmt(bits=32), struct.pack("<3i", -(2**31), 2**30, 1 << 8), [-1, 0.5, 2.0**-23]),
        (fmt(FLOAT, bits=32), struct.pack("<3f", -1.5, 0.25, 1), [-1.5, 0.25, 1]),
        (fmt(FLOAT, bits=64), struct.pack("<3d", -1.5, 0.25, 1), [-1.5, 0.25, 1]),
        (fmt(ALAW, bits=8), bytes([0x2A, 0xAA, 0xD5, 0x55]), [-32256 / 32768, 32256 / 32768, 8 / 32768, -8 / 32768]),
        (fmt(MULAW, bits=8), bytes([0x00, 0x80, 0xFF, 0x7F]), [-32124 / 32768, 32124 / 32768, 0, 0]),
        (extensible(PCM, 1, 16), RAW.tobytes(), EXPECTED[:, 0]),
        (extensible(FLOAT, 1, 32), struct.pack("<f", 0.5), [0.5]),
    ],
)
def test_encodings(body: bytes, raw: bytes, expected: Any) -> None:
    samples, rate = wav.read(riff(chunk(b"fmt ", body), chunk(b"data", raw)))
    assert samples.dtype == np.float32
    assert rate == 8000
    assert samples[:, 0].tolist() == np.asarray(expected, np.float32).tolist()


@pytest.mark.parametrize(
    "data",
    [
        riff(chunk(b"LIST", b"odd"), chunk(b"fmt ", fmt()), chunk(b"junk", b""), DATA, chunk(b"id3 ", b"x")),
        riff(DATA, chunk(b"fmt ", fmt())),
        riff(chunk(b"fmt ", fmt()), chunk(b"data", RAW.tobytes(), 0xFFFFFFFF), size=0xFFFFFFFF),
        riff(chunk(b"fmt ", fmt()), chunk(b"data", RAW.tobytes(), 0), size=0),
        riff(chunk(b"fmt ", fmt()), chunk(b"data", RAW.tobytes(), 0), size=36),
        riff(chunk(b"fmt ", fmt()), chunk(b"data", RAW.tobytes(), 0x7FFFF000), size=0x7FFFF024),
        riff(chunk(b"fmt ", fmt()), chunk(b"data", RAW.tobytes(), 0xFFFFFFFF)) + b"\1",  # ended within a frame
        riff(chunk(b"fmt ", fmt()), DATA, size=7),  # the size of all is not used
        riff(chunk(b"fmt ", fmt()), DATA)[:-1] + RAW.tobytes()[-1:],
        riff(chunk(b"ds64", struct.pack("<QQQI", 0, 12, 6, 0)), chunk(b"fmt ", fmt()),
             chunk(b"data", RAW.tobytes(), 0xFFFFFFFF), chunk(b"LIST", b"xx"), size=0xFFFFFFFF, magic=b"RF64"),
    ],
)  # fmt: skip
def test_chunks_in_any_order_and_sizes_that_pipes_write(data: bytes) -> None:
    samples, rate = wav.read(data)
    assert rate == 8000
    assert np.array_equal(samples, EXPECTED)


def test_no_samples() -> None:
    assert wav.read(riff(chunk(b"fmt ", fmt()), chunk(b"data", b"")))[0].shape == (0, 1)


def test_a_range_is_read_alone(tmp_path: Path) -> None:
    path, x = tmp_path / "x.wav", np.linspace(-1, 1, 3000, dtype=np.float32).reshape(1000, 3)
    wav.write(path, x, 44_100, "float32")
    assert wav.info(path) == wav.Wav(44_100, 3, 1000, "float", 32, 80)
    assert np.array_equal(wav.read(path, 100, 50)[0], x[100:150])
    assert np.array_equal(wav.read(path, 990)[0], x[990:])
    for start, frames in ((-1, 2), (0, 1001), (1001, None), (5, -1)):
        with pytest.raises(UsageError, match="it has 1000"):
            wav.read(path, start, frames)


def test_more_samples_than_fit_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with path.open("wb") as file:  # a file with a hole: 600 MB that are nowhere
        file.write(riff(chunk(b"fmt ", fmt(bits=8)), chunk(b"data", b"", 600 << 20)))
        file.truncate(44 + (600 << 20))
    assert wav.info(path).frames == 600 << 20
    with pytest.raises(DataError, match="read it in parts"):
        wav.read(path)
    assert wav.read(path, 500 << 20, 10)[0].tolist() == [[-1.0]] * 10


# -- what is refused ---------------------------------------------------------------------------------------------------
F = chunk(b"fmt ", fmt())
BAD = {
    "no WAV file": [b"", b"RIFF", b"OggS" + b"x" * 40, riff()[:8] + b"AVI "],
    "big-endian": [riff(F, DATA, magic=b"RIFX")],
    "says 12 bytes, 6 are there": [riff(F, DATA)[:-6]],
    "says 1000000000 bytes": [riff(F, chunk(b"data", b"12", 10**9)), riff(chunk(b"LIST", b"12", 10**9), F, DATA)],
    "no chunk at byte 36": [riff(F, b"\0" * 100)],
    "no chunk 'fmt '": [riff(DATA), riff(), riff(*[chunk(b"junk", b"")] * 2000, F, DATA)],
    "no chunk 'data'": [riff(F), riff(F, chunk(b"LIST", b""))],
    "a second chunk 'fmt '": [riff(F, F, DATA)],
    "has 14 bytes, expected 16": [riff(chunk(b"fmt ", fmt()[:14]), DATA)],
    "subtype": [riff(chunk(b"fmt ", extensible(PCM, 1, 16, b"x" * 14)), DATA),
                riff(chunk(b"fmt ", fmt(EXTENSIBLE)), DATA)],
    "encoded as MP3": [riff(chunk(b"fmt ", fmt(0x55)), DATA)],
    "encoded as format 0x1234": [riff(chunk(b"fmt ", fmt(0x1234)), DATA)],
    "12 bits of PCM": [riff(chunk(b"fmt ", fmt(bits=12)), DATA)],
    "16 bits of float": [riff(chunk(b"fmt ", fmt(FLOAT, bits=16)), DATA)],
    "0 channels": [riff(chunk(b"fmt ", fmt(channels=0)), DATA)],
    "33 channels": [riff(chunk(b"fmt ", fmt(channels=33)), DATA)],
    "a rate of 0 Hz": [riff(chunk(b"fmt ", fmt(rate=0)), DATA)],
    "a rate of 4294967295 Hz": [riff(chunk(b"fmt ", fmt(rate=2**32 - 1)), DATA)],
    "block align": [riff(chunk(b"fmt ", fmt(block=3)), DATA), riff(chunk(b"fmt ", fmt(block=0)), DATA)],
    "not whole frames of 4 bytes": [riff(chunk(b"fmt ", fmt(channels=2)), chunk(b"data", b"123456"))],
    "frame 1, channel 0": [
        riff(chunk(b"fmt ", fmt(FLOAT, bits=8 * len(raw) // 2)), chunk(b"data", raw))
        for value in (float("nan"), float("inf"), -float("inf"), 1e9)
        for raw in (struct.pack("<2f", 0, value), struct.pack("<2d", 0, value))
    ],
}  # fmt: skip


@pytest.mark.parametrize(("what", "data"), [(what, data) for what, many in BAD.items() for data in many])
def test_one_clear_error(what: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "take.wav"
    path.write_bytes(data)
    with pytest.raises(DataError) as error:
        wav.read(path)
    assert what in str(error.value)
    assert str(error.value).startswith(f"{path}: ")


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.wav", Path("/dev/zero")):
        with pytest.raises(DataError, match=str(path)):
            wav.read(path)


@settings(max_examples=300)
@given(st.data())
def test_damage_is_a_data_error(data: st.DataObject) -> None:
    """Bytes changed, cut or put in anywhere: samples or a DataError, whatever the sizes say."""
    good = bytearray(
        riff(chunk(b"LIST", b"abc"), chunk(b"fmt ", extensible(PCM, 2, 24)), chunk(b"data", b"abcdef" * 9))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(good)))
        good[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    try:
        samples, rate = wav.read(bytes(good))
    except DataError:
        return
    assert samples.nbytes <= 16 * len(good)
    assert np.isfinite(samples).all()
    assert 1 <= rate <= wav.MOST_RATE


# -- what is written ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("channels", [1, 2, 5, 32])
@pytest.mark.parametrize("frames", [0, 1, 999])
def test_round_trips(channels: int, frames: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.2, 1.2, (frames, channels)).astype(np.float32)
    again, rate = wav.read(wav.encoded(x, 22_050, "float32"))
    assert rate == 22_050
    assert np.array_equal(again, x)
    once = wav.read(wav.encoded(x, 22_050))[0]
    assert np.abs(once - np.clip(x, -1, 32767 / 32768)).max(initial=0) <= 0.5 / 32768
    assert np.array_equal(wav.read(wav.encoded(once, 22_050))[0], once)
    assert once.shape == x.shape


@pytest.mark.parametrize("channels", [1, 2])
def test_as_python_does(channels: int) -> None:
    raw = np.random.default_rng(1).integers(-(2**15), 2**15, (500, channels)).astype("<i2")
    with wave.open(io.BytesIO(wav.encoded((raw / 32768).astype(np.float32), 16_000))) as theirs:
        assert (theirs.getframerate(), theirs.getnchannels(), theirs.getsampwidth()) == (16_000, channels, 2)
        assert theirs.readframes(1000) == raw.tobytes()
    made = io.BytesIO()
    with wave.open(made, "wb") as theirs:
        theirs.setparams((channels, 2, 16_000, 0, "NONE", ""))
        theirs.writeframes(raw.tobytes())
    assert np.array_equal(wav.read(made.getvalue())[0] * 32768, raw)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    x = np.zeros(4, np.float32)
    for samples, rate, encoding in (
        (x.astype(np.int16), 8000, "int16"), (x.reshape(1, 2, 2), 8000, "int16"), (x, 0, "int16"), (x, 8000.0, "int16"),
        (x, 8000, "int24"), (x + np.inf, 8000, "int16"), (np.zeros((2, 33), np.float32), 8000, "int16"),
    ):  # fmt: skip
        with pytest.raises(PdlError):
            wav.write(tmp_path / "x.wav", samples, rate, encoding)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("subtype", "channels"),
    [("PCM_U8", 1), ("PCM_24", 2), ("PCM_32", 1), ("FLOAT", 6), ("DOUBLE", 2), ("ALAW", 1), ("ULAW", 2)],
)
@pytest.mark.parametrize("format", ["WAV", "WAVEX", "RF64"])
def test_as_libsndfile_does(subtype: str, channels: int, format: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    x = np.random.default_rng(2).uniform(-1, 1, (777, channels))
    file = io.BytesIO()
    soundfile.write(file, x, 8000, format=format, subtype=subtype)
    expected = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32", always_2d=True)[0]
    assert np.array_equal(wav.read(file.getvalue())[0], expected)
