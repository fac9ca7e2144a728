"""Recordings by path or content: WAV by our own reader, FLAC, Ogg, MP3 and others by `soundfile` (libsndfile)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, PackageError, UsageError
from pdl.files import replacing
from pdl_speech.audio import wav
from pdl_speech.audio.resample import resample
from pdl_speech.audio.wav import MOST_CHANNELS, MOST_RATE, Source

AUDIO_FILES = (
    ".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".aifc", ".au", ".snd", ".caf", ".w64"
)  # fmt: skip
"""Ends of the names of files that are taken for recordings; what one is, its content says."""

WAV = "WAV"
_SIGNS = {
    b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3", b"FORM": "AIFF", b".snd": "AU", b"caff": "CAF",
    b"riff\x2e\x91\xcf\x11": "W64",
}  # fmt: skip
_OTHERS = {
    b"\x1aE\xdf\xa3": "WebM or Matroska", b"0&\xb2u": "WMA", b"#!AMR": "AMR", b"MThd": "MIDI", b"RIFX": "RIFX",
    b"\xff\xf1": "AAC", b"\xff\xf9": "AAC",
}  # fmt: skip
_WRITTEN = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG", ".mp3": "MP3", ".aiff": "AIFF"}
_MANY = 1 << 62  # frames that libsndfile gives a file that does not say how many it has


@dataclass(frozen=True)
class AudioInfo:
    """What a recording is: its format ("WAV", "FLAC", ...), rate in Hz, channels, and frames (samples a channel)."""

    format: str
    rate: int
    channels: int
    frames: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.frames / self.rate


def sniffed(source: Source) -> str:
    """The format of a recording, by its first bytes; DataError, with what it is instead, for what is none."""
    with wav.opened(source) as (file, where):
        return _sniffed(file, where)


def _sniffed(file: BinaryIO, where: str) -> str:
    head = file.read(12)
    file.seek(0)
    if head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:] == b"WAVE":
        return WAV
    for sign, name in _SIGNS.items():
        if head.startswith(sign) and (name != "AIFF" or head[8:11] == b"AIF"):
            return name
    other = next((name for sign, name in _OTHERS.items() if head.startswith(sign)), None)
    other = "MP4 or M4A" if head[4:8] == b"ftyp" else other
    if other is None and len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 in (0xE2, 0xE4, 0xE6):
        return "MP3"  # a frame of layer III, II or I
    if not head:
        raise DataError(f"{where}: the file is empty (0 bytes)")
    what = f"{other}; convert it: ffmpeg -i FILE NEW.wav" if other else f"it begins with {head!r}"
    raise DataError(f"{where}: not audio that is read ({what}); WAV, FLAC, Ogg, MP3, AIFF, AU, CAF and W64 are")


def audio_info(source: Source) -> AudioInfo:
    """What a recording is, from its header: nothing is decoded. Errors as `read_audio` has them."""
    with wav.opened(source) as (file, where):
        if (found := _sniffed(file, where)) == WAV:
            head = wav.header(file, where)
            return AudioInfo(found, head.rate, head.channels, head.frames)
        with _sound(file, where, found) as sound:
            return _info(sound, where, found)


def read_audio(
    source: Source, rate: int | None = None, *, start: int = 0, frames: int | None = None
) -> tuple[Array, int]:
    """A recording as one channel float32 [T], the mean of its channels, and its rate in Hz.

    source   path or content; the format is that of the content, whatever the name
    rate     to which it is resampled (None: as it is)
    start    first frame that is read, at the rate of the file; `frames` of them, or all to the end (None)

    Full scale is 1; files of floats, and lossy ones, may exceed it.

    DataError: no audio, a damaged or cut file, no samples, NaN, more than 2^28 samples of all channels (4.6 hours of
    one at 16 kHz), which are read in parts. UsageError: a range outside of the file; PackageError: no `soundfile`.
    """
    if rate is not None:
        wav.require_rate(rate)
    with wav.opened(source) as (file, where):
        if (found := _sniffed(file, where)) == WAV:
            head = wav.header(file, where)
            count = wav.span(start, frames, head.frames, head.channels, where)
            real = head.rate
            samples = _mono(wav.blocks(file, head, where, start, count), count)
        else:
            with _sound(file, where, found) as sound:
                facts = _info(sound, where, found)
                count = wav.span(start, frames, facts.frames, facts.channels, where)
                real = facts.rate
                samples = _mono(_blocks(sound, where, facts, start, count), count)
    if not count:
        raise DataError(f"{where}: it has no samples")
    return (samples, real) if rate is None else (resample(samples, real, rate), rate)


def write_audio(path: str | Path, samples: Array, rate: int, encoding: str = "int16") -> None:
    """Write samples [T] or [T, channels], floats where 1 is full scale, whole or not at all, in the format that the
    name ends in: .wav (`encoding` int16, clipped to full scale, or float32), and by `soundfile` .flac and .aiff
    (int16), .ogg, .mp3. UsageError as `wav.encoded` has it."""
    ending = Path(path).suffix.lower()
    if ending not in _WRITTEN:
        raise UsageError(f"{path}: audio is written as {', '.join(_WRITTEN)}")
    if ending == ".wav":
        wav.write(path, samples, rate, encoding)
        return
    if encoding != "int16":
        raise UsageError(f"{path}: encoding={encoding!r} is for .wav")
    x = wav.require_samples(samples, rate)
    lossy = ending in (".ogg", ".mp3")
    data = np.clip(x, -1, 1).astype(np.float32) if lossy else wav.pcm16(x)
    soundfile = _soundfile(_WRITTEN[ending])
    with replacing(path) as part:
        try:
            soundfile.write(part, data, rate, format=_WRITTEN[ending], subtype=None if lossy else "PCM_16")
        except soundfile.LibsndfileError as error:
            raise UsageError(f"{path}: {error.error_string} ({rate} Hz, {x.shape[1]} channels)") from error


# -- by soundfile ------------------------------------------------------------------------------------------------------
def _soundfile(what: str) -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the package without its library
        raise PackageError(
            f'{what} needs soundfile ({error}): pip install "pdl-speech[audio]", or convert it: ffmpeg -i FILE NEW.wav'
        ) from error
    return soundfile


@contextmanager
def _sound(file: BinaryIO, where: str, kind: str) -> Iterator[Any]:
    """The file, open in soundfile, whose errors are DataErrors."""
    soundfile = _soundfile(f"{where}: {kind}")
    try:
        with soundfile.SoundFile(file) as sound:
            yield sound
    except soundfile.LibsndfileError as error:
        raise DataError(f"{where}: damaged or not {kind} that is read: {error.error_string}") from error


def _info(sound: Any, where: str, kind: str) -> AudioInfo:
    rate, channels, frames = sound.samplerate, sound.channels, sound.frames
    if not (1 <= rate <= MOST_RATE and 1 <= channels <= MOST_CHANNELS and 0 <= frames < _MANY):
        raise DataError(
            f"{where}: {rate} Hz, {channels} channels, {frames} frames; expected up to {MOST_RATE} Hz, 1 to "
            f"{MOST_CHANNELS} channels and a known length"
        )
    return AudioInfo(kind, rate, channels, frames)


def _blocks(sound: Any, where: str, facts: AudioInfo, start: int, frames: int) -> Iterator[Array]:
    """As `wav.blocks`."""
    if start:
        sound.seek(start)
    each = max(1, wav.BLOCK // facts.channels)
    for at in range(start, start + frames, each):
        count = min(each, start + frames - at)
        block = sound.read(count, dtype="float32", always_2d=True)
        if len(block) != count:
            raise DataError(f"{where}: cut off: {facts.frames} frames by its header, it ends at {at + len(block)}")
        wav.require_level(block, where, at)
        yield block


def _mono(blocks: Iterator[Array], frames: int) -> Array:
    """float32 [frames], the mean of the channels of blocks [n, channels]."""
    found: Array = np.empty(frames, np.float32)
    at = 0
    for block in blocks:
        channels = block.shape[1]  # a product: `mean` over short rows takes six times as long
        found[at : at + len(block)] = (
            block[:, 0] if channels == 1 else block @ np.full(channels, 1 / channels, np.float32)
        )
        at += len(block)
    return found
