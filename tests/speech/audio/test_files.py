"""Recordings by path and by content, of any format."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, PackageError, UsageError
from pdl_speech.audio import AudioInfo, audio_info, files, read_audio, wav, write_audio


def tone(rate: int, seconds: float = 0.5, channels: int = 1) -> np.ndarray:
    t = np.arange(int(rate * seconds)) / rate
    return np.stack([0.5 * np.sin(2 * np.pi * 440 * (k + 1) * t) for k in range(channels)], 1).astype(np.float32)


def test_channels_are_averaged_and_rates_changed(tmp_path: Path) -> None:
    x, path = tone(44_100, 1.0, 3), tmp_path / "not_named_as_wav.flac"
    wav.write(path, x, 44_100, "float32")
    assert audio_info(path) == AudioInfo("WAV", 44_100, 3, 44_100)
    assert audio_info(path.read_bytes()).seconds == 1.0
    samples, rate = read_audio(path)
    assert rate == 44_100
    assert samples.dtype == np.float32
    assert np.allclose(samples, x.mean(axis=1), rtol=0, atol=1e-7)
    assert np.array_equal(read_audio(str(path), start=1000, frames=10)[0], samples[1000:1010])
    lower, rate = read_audio(path.read_bytes(), 16_000)
    assert (rate, len(lower)) == (16_000, 16_000)
    expected = tone(16_000, 1.0, 3).mean(axis=1)
    assert np.abs(lower - expected)[100:-100].max() < 1e-4


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"hello, this is text", "it begins with b'hello"),
        (b"\0\0\0\x20ftypM4A " + bytes(40), "M4A; convert it: ffmpeg"),
        (b"\x1aE\xdf\xa3" + bytes(40), "WebM"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "not audio"),
        (b"RIFF\x24\0\0\0WEBPVP8 " + bytes(40), "not audio"),
        (wav.encoded(np.zeros(0, np.float32), 8000), "it has no samples"),
    ],
)
def test_what_is_no_audio(data: bytes, what: str) -> None:
    with pytest.raises(DataError, match=what):
        read_audio(data)


def test_bad_calls(tmp_path: Path) -> None:
    data = wav.encoded(tone(8000), 8000)
    for call in (
        lambda: read_audio(data, 0),
        lambda: read_audio(data, 16_000.0),  # type: ignore[arg-type]
        lambda: read_audio(data, start=4000, frames=1),
        lambda: write_audio(tmp_path / "x.doc", tone(8000), 8000),
        lambda: write_audio(tmp_path / "x.flac", tone(8000), 8000, "float32"),
    ):
        with pytest.raises(UsageError):
            call()


def test_without_soundfile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(PackageError, match=r'audio: FLAC needs soundfile .*pip install "pdl-speech\[audio\]"'):
        read_audio(b"fLaC" + bytes(40))
    assert len(read_audio(wav.encoded(tone(8000), 8000))[0]) == 4000


@pytest.mark.parametrize(
    ("ending", "kind", "error"),
    [
        (".flac", "FLAC", 1e-4),
        (".aiff", "AIFF", 1e-4),
        (".ogg", "Ogg", 0.1),
        (".mp3", "MP3", 0.1),
        (".wav", "WAV", 1e-4),
    ],
)
def test_other_formats(ending: str, kind: str, error: float, tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    x, path = tone(16_000, 1.0, 2), tmp_path / f"x{ending}"
    write_audio(path, x, 16_000)
    info = audio_info(path)
    assert (info.format, info.rate, info.channels) == (kind, 16_000, 2)
    assert info.frames == len(read_audio(path)[0])
    assert abs(info.frames - 16_000) <= 1200, "MP3 is padded to whole frames"
    if kind != "MP3":
        assert np.abs(read_audio(path.read_bytes())[0] - x.mean(axis=1)).max() < error
        part = read_audio(path, start=8000, frames=2000)[0]
        assert np.abs(part - x[8000:10_000].mean(axis=1)).max() < error


def test_cut_and_damaged_ones() -> None:
    soundfile = pytest.importorskip("soundfile")
    rng = np.random.default_rng(0)
    file = io.BytesIO()
    soundfile.write(file, rng.uniform(-0.5, 0.5, 40_000), 16_000, format="FLAC")
    data = file.getvalue()
    for bad in (data[:20], data[: len(data) // 2], data[:100] + bytes(len(data) - 100)):
        with pytest.raises(DataError, match="audio: "):
            read_audio(bad)


def test_a_length_that_is_not_known_is_no_length(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        samplerate, channels, frames = 16_000, 1, 2**63 - 1

    with pytest.raises(DataError, match="a known length"):
        files._info(Endless(), "x.flac", "FLAC")

    class Long(Endless):
        frames = wav.MOST_SAMPLES + 1

    info: Any = files._info(Long(), "x.flac", "FLAC")
    with pytest.raises(DataError, match="in parts"):
        wav.span(0, None, info.frames, info.channels, "x.flac")
