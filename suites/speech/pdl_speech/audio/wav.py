"""RIFF/WAVE files, read strictly and written (Microsoft and IBM, Multimedia Programming Interface 1.0, 1991; RF64 as in
EBU Tech 3306). No size of a file is believed before it is compared with the bytes that are there."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.files import open_file, write_atomic

Source: TypeAlias = "str | Path | bytes"
"""A file by its path, or its content."""

MOST_SAMPLES = 1 << 28
"""Samples, of all channels together, that are read at once: 1 GiB as float32, 4.6 hours of one channel at 16 kHz."""

MOST_RATE = 768_000  # Hz
MOST_CHANNELS = 32
MOST_LEVEL = float(1 << 16)  # of samples that are stored as floats, where 1 is full scale
BLOCK = 1 << 18  # samples that are decoded at once
ENCODINGS = ("int16", "float32")

_MAGIC = (b"RIFF", b"RF64", b"BW64")
_MOST_CHUNKS = 1000
_UNKNOWN = 0xFFFFFFFF  # a size that the writer, a pipe, could not go back to
_SOX = 0x7FFFF000  # the same as SoX writes it, rounded down to whole frames
_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_BITS = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64), _ALAW: (8,), _MULAW: (8,)}
_NAMES = {
    _PCM: "PCM", _FLOAT: "float", _ALAW: "A-law", _MULAW: "mu-law", 2: "Microsoft ADPCM", 0x11: "IMA ADPCM",
    0x31: "GSM 6.10", 0x50: "MPEG", 0x55: "MP3", 0x161: "WMA", 0xF1AC: "FLAC",
}  # fmt: skip
_GUID = bytes.fromhex("000000001000800000aa00389b71")  # what follows the format in the subtype of an extensible one


@dataclass(frozen=True)
class Wav:
    """What the header of a WAV file says, checked.

    rate      in Hz                 channels  1 to 32            frames  samples of each channel
    kind      "PCM", "float", "A-law" or "mu-law"                bits    of a stored sample
    begin     byte of the file at which the samples begin
    """

    rate: int
    channels: int
    frames: int
    kind: str
    bits: int
    begin: int

    @property
    def block(self) -> int:
        """Bytes of a frame."""
        return self.channels * self.bits // 8


# -- reading -----------------------------------------------------------------------------------------------------------
def info(source: Source) -> Wav:
    """The header of a WAV file; nothing else is read. DataError as `read` has it."""
    with opened(source) as (file, where):
        return header(file, where)


def read(source: Source, start: int = 0, frames: int | None = None) -> tuple[Array, int]:
    """Samples float32 [frames, channels], where full scale is 1, and their rate; the frames from `start` on, `frames`
    of them (None: all to the end), without reading others.

    Integers are divided by 2^(bits - 1) (unsigned ones of 8 bits less 128), A-law and mu-law decoded as in ITU-T G.711;
    floats are kept as they are and may exceed 1.

    DataError: no WAV file, a damaged or cut one, one of another encoding, one with NaN, infinite values or such beyond
    2^16, more than `MOST_SAMPLES`. UsageError: a range outside of the file.
    """
    with opened(source) as (file, where):
        wav = header(file, where)
        frames = span(start, frames, wav.frames, wav.channels, where)
        found: Array = np.empty((frames, wav.channels), np.float32)
        at = 0
        for block in blocks(file, wav, where, start, frames):
            found[at : at + len(block)] = block
            at += len(block)
    return found, wav.rate


@contextmanager
def opened(source: Source) -> Iterator[tuple[BinaryIO, str]]:
    """A file to read, and its name for messages; DataError where it cannot be opened."""
    if isinstance(source, bytes | bytearray | memoryview):
        yield io.BytesIO(source), "audio"
        return
    try:
        file = open_file(source)
    except OSError as error:
        raise DataError(f"{source}: {error.strerror}") from error
    with file:
        yield file, str(source)


def span(start: int, frames: int | None, total: int, channels: int, where: str) -> int:
    """How many frames to read; UsageError where they are not in the file, DataError where they are too many."""
    count = total - start if frames is None else frames
    if not 0 <= start <= total or not 0 <= count <= total - start:
        raise UsageError(f"{where}: frames {start} to {start + count} are not in it; it has {total}")
    if count * channels > MOST_SAMPLES:
        raise DataError(
            f"{where}: {count} frames of {channels} channel{'s' * (channels > 1)}, more than the limit of "
            f"{MOST_SAMPLES} samples; read it in parts (start=, frames=)"
        )
    return count


def blocks(file: BinaryIO, wav: Wav, where: str, start: int, frames: int) -> Iterator[Array]:
    """Samples float32 [n, channels], piece by piece."""
    file.seek(wav.begin + start * wav.block)
    each = max(1, BLOCK // wav.channels)
    for at in range(start, start + frames, each):
        count = min(each, start + frames - at)
        data = file.read(count * wav.block)
        if len(data) != count * wav.block:
            raise DataError(f"{where}: it became shorter while it was read")
        block = _decoded(data, wav).reshape(count, wav.channels)
        if wav.kind == "float":
            require_level(block, where, at)
        yield block.astype(np.float32, copy=False)


def require_level(block: Array, where: str, at: int) -> None:
    """DataError for NaN, infinite samples and such beyond `MOST_LEVEL`, in frames [n, channels] from `at` on."""
    good = np.abs(block) <= MOST_LEVEL
    if not good.all():
        frame, channel = (int(i) for i in np.argwhere(~good)[0])
        raise DataError(
            f"{where}: sample {block[frame, channel]} at frame {at + frame}, channel {channel}; expected finite ones, "
            f"of which 1 is full scale and {MOST_LEVEL:g} the limit"
        )


def header(file: BinaryIO, where: str) -> Wav:
    """The header of an open WAV file."""

    def fault(what: str) -> DataError:
        return DataError(f"{where}: {what}")

    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    magic, riff, form = struct.unpack("<4sI4s", file.read(12).ljust(12, b"\0"))
    if magic == b"RIFX":
        raise fault("a big-endian WAV file (RIFX); convert it to RIFF")
    if magic not in _MAGIC or form != b"WAVE":
        raise fault(f"no WAV file ({size} bytes); expected it to begin with RIFF....WAVE")
    large, fmt, data, at = None, None, None, 12
    for _ in range(_MOST_CHUNKS):
        if at + 8 > size or (fmt and data):
            break
        file.seek(at)
        name, count = struct.unpack("<4sI", file.read(8))
        begin, left = at + 8, size - at - 8
        if not all(32 <= byte < 127 for byte in name):
            raise fault(f"damaged: no chunk at byte {at}, where {name!r} stands for its name")
        if name == b"data":
            count = large if magic != b"RIFF" and count == _UNKNOWN and large else count
            if _streamed(count, riff, begin) and not 0 < count <= left:
                data = data or (begin, left, True)
                break
        if count > left:
            raise fault(
                f"cut off or damaged: its chunk {name.decode()!r} at byte {at} says {count} bytes, {left} are there"
            )
        if name == b"data":
            data = data or (begin, count, False)
        elif name == b"fmt ":
            if fmt:
                raise fault(f"a second chunk 'fmt ' at byte {at}; expected one")
            fmt = _format(file.read(min(count, 40)), fault)
        elif name == b"ds64" and count >= 16:
            large = struct.unpack("<QQ", file.read(16))[1]
        at = begin + count + count % 2
    if not fmt or not data:
        raise fault(f"it has no chunk {'fmt ' if not fmt else 'data'!r}: it is cut off, or no WAV file")
    rate, channels, kind, bits = fmt
    begin, count, streamed = data
    frames, rest = divmod(count, channels * bits // 8)
    if rest and not streamed:
        raise fault(f"damaged: {count} bytes of samples are not whole frames of {channels * bits // 8} bytes")
    return Wav(rate, channels, frames, _NAMES[kind], bits, begin)


def _streamed(count: int, riff: int, begin: int) -> bool:
    """Whether `count`, the size of samples that begin at byte `begin`, is what is written to a pipe where it is not
    known: 2^32 - 1, that of SoX, or 0 where the size of all is not known either or ends where they begin."""
    if count == 0:
        return riff in (0, _UNKNOWN) or riff + 8 <= begin
    return count == _UNKNOWN or _SOX - 1024 < count <= _SOX


def _format(chunk: bytes, fault: Callable[[str], DataError]) -> tuple[int, int, int, int]:
    """Rate, channels, format and bits."""
    if len(chunk) < 16:
        raise fault(f"its chunk 'fmt ' has {len(chunk)} bytes, expected 16 or more")
    kind, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", chunk)
    if kind == _EXTENSIBLE:
        if len(chunk) < 40 or chunk[26:40] != _GUID:
            raise fault("an extensible format whose subtype is damaged or of no WAV encoding")
        kind = struct.unpack_from("<H", chunk, 24)[0]
    if kind not in _BITS:
        raise fault(
            f"encoded as {_NAMES.get(kind, f'format {kind:#x}')}; expected PCM, float, A-law or mu-law. Convert it: "
            "ffmpeg -i FILE -c:a pcm_s16le NEW.wav"
        )
    if bits not in _BITS[kind]:
        raise fault(f"{bits} bits of {_NAMES[kind]}, expected {' or '.join(map(str, _BITS[kind]))}")
    if not 1 <= channels <= MOST_CHANNELS:
        raise fault(f"{channels} channels, expected 1 to {MOST_CHANNELS}")
    if not 1 <= rate <= MOST_RATE:
        raise fault(f"a rate of {rate} Hz, expected 1 to {MOST_RATE}")
    if block != channels * bits // 8:
        raise fault(
            f"frames of {block} bytes (block align), expected {channels * bits // 8}: {channels} of {bits} bits"
        )
    return rate, channels, kind, bits


def _decoded(data: bytes, wav: Wav) -> Array:
    """Samples float32 (float64 where they are stored so)."""
    if wav.kind == "float":
        return np.frombuffer(data, f"<f{wav.bits // 8}")
    if wav.kind != "PCM":
        return (_MULAW_LEVELS if wav.kind == "mu-law" else _ALAW_LEVELS)[np.frombuffer(data, np.uint8)]
    if wav.bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) * np.float32(1 / 128)
    if wav.bits == 24:  # the upper three bytes of four, which begin one byte before them
        wide: Array = np.ndarray((len(data) // 3,), "<i4", b"\0" + data, 0, (3,)) & np.int32(-256)
        return wide.astype(np.float32) * np.float32(2.0**-31)
    return np.frombuffer(data, f"<i{wav.bits // 8}").astype(np.float32) * np.float32(2.0 ** (1 - wav.bits))


def _g711() -> tuple[Array, Array]:
    """The levels float32 [256] of the codes of A-law and mu-law (ITU-T G.711, tables 1 and 2), where 1 is 2^15."""
    code = np.arange(256)
    alaw, mulaw = code ^ 0x55, code ^ 0xFF
    segment, step = alaw >> 4 & 7, alaw & 15
    linear = np.where(segment == 0, 16 * step + 8, (16 * step + 0x108) << np.maximum(segment - 1, 0))
    a = np.where(alaw & 0x80, linear, -linear)
    linear = ((8 * (mulaw & 15) + 0x84) << (mulaw >> 4 & 7)) - 0x84
    mu = np.where(mulaw & 0x80, -linear, linear)
    return (a / 32768).astype(np.float32), (mu / 32768).astype(np.float32)


_ALAW_LEVELS, _MULAW_LEVELS = _g711()


def mulaw_levels() -> Array:
    """The 255 levels of mu-law, ascending: float32."""
    return np.unique(_MULAW_LEVELS)


# -- writing -----------------------------------------------------------------------------------------------------------
def write(path: str | Path, samples: Array, rate: int, encoding: str = "int16") -> None:
    """Write samples [T] or [T, channels] to a WAV file, whole or not at all; see `encoded`."""
    write_atomic(path, encoded(samples, rate, encoding))


def encoded(samples: Array, rate: int, encoding: str = "int16") -> bytes:
    """The content of a WAV file of samples [T] or [T, channels], floats where 1 is full scale.

    encoding   "int16": round(32768 x), clipped to -32768..32767, so that 1 and beyond is 32767; what `read` gives for
               files of 16 bits comes out as it was. "float32": as they are

    UsageError: another shape or dtype, no such rate or encoding, NaN or infinite samples, 4 GiB or more.
    """
    x = require_samples(samples, rate)
    if encoding not in ENCODINGS:
        raise UsageError(f"encoding={encoding!r}, expected {' or '.join(ENCODINGS)}")
    frames, channels = x.shape
    wide = encoding == "float32"
    kind, bits = (_FLOAT, 32) if wide else (_PCM, 16)
    size = frames * channels * bits // 8
    if size > _UNKNOWN - 256:
        raise UsageError(f"{frames} frames of {channels} channels take {size} bytes; a WAV file holds less than 4 GiB")
    block, extensible = channels * bits // 8, channels > 2
    fmt = struct.pack("<HHIIHH", _EXTENSIBLE if extensible else kind, channels, rate, rate * block, block, bits)
    fmt += struct.pack("<HHIH", 22, bits, 0, kind) + _GUID if extensible else b"\0\0" if wide else b""
    head = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt
    head += struct.pack("<4sII", b"fact", 4, frames) if wide else b""
    head += struct.pack("<4sI", b"data", size)
    body = x.astype("<f4") if wide else pcm16(x).astype("<i2", copy=False)
    return b"".join((b"RIFF", struct.pack("<I", len(head) + size), head, body.tobytes()))


def pcm16(x: Array) -> Array:
    """int16: round(32768 x), clipped to what 16 bits hold."""
    return np.clip(np.rint(x * np.float32(32768)), -32768, 32767).astype(np.int16)


def require_samples(samples: Array, rate: int) -> Array:
    """Samples [T] or [T, channels] as [T, channels]; UsageError where they or the rate cannot be written."""
    x = np.asarray(samples)
    if x.dtype.kind != "f" or x.ndim not in (1, 2):
        raise UsageError(f"samples {x.dtype} {x.shape}, expected floats [T] or [T, channels]")
    x = x[:, None] if x.ndim == 1 else x
    if not 1 <= x.shape[1] <= MOST_CHANNELS:
        raise UsageError(f"{x.shape[1]} channels, expected 1 to {MOST_CHANNELS}; samples are [T, channels]")
    require_rate(rate)
    if not np.isfinite(x).all():
        raise UsageError("samples with NaN or infinite values cannot be written")
    return x


def require_rate(rate: int, name: str = "rate") -> int:
    """A rate in Hz; UsageError where it is none."""
    if not isinstance(rate, int | np.integer) or not 1 <= rate <= MOST_RATE:
        raise UsageError(f"{name}={rate!r}, expected a whole number of Hz from 1 to {MOST_RATE}")
    return int(rate)
