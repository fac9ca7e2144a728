"""Notes as a standard MIDI file (MIDI 1.0, RP-001)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

QUARTER, TEMPO = 480, 500_000  # ticks of a quarter note, and its microseconds: 120 a minute
PER_SECOND = QUARTER * 1_000_000 / TEMPO


def midi(notes: Iterable[Mapping[str, Any]]) -> bytes:
    """A file of one track, format 0, of notes {"start", "end" (seconds), "midi" (0 to 127), "amplitude" (0 to 1)}. The
    velocity is 127 times the amplitude, and at least 1; no note is shorter than a tick."""
    events = []
    for note in notes:
        begin = round(note["start"] * PER_SECOND)
        end = max(begin + 1, round(note["end"] * PER_SECOND))
        velocity = min(127, max(1, round(127 * note["amplitude"])))
        events += [(begin, 0x90, note["midi"], velocity), (end, 0x80, note["midi"], 0)]
    track, now = b"\x00\xff\x51\x03" + TEMPO.to_bytes(3, "big"), 0
    for at, kind, number, velocity in sorted(events):  # what ends comes before what begins
        track += _length(at - now) + bytes((kind, number, velocity))
        now = at
    track += b"\x00\xff\x2f\x00"
    return b"MThd" + struct.pack(">IHHH", 6, 0, 1, QUARTER) + b"MTrk" + struct.pack(">I", len(track)) + track


def _length(ticks: int) -> bytes:
    """Seven bits a byte, the highest first; all but the last have their top bit set."""
    made = [ticks & 127]
    while ticks := ticks >> 7:
        made.append(ticks & 127 | 128)
    return bytes(reversed(made))
