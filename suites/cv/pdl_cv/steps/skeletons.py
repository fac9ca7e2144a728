"""Skeletons as inputs of nets: the joints of a body at some times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import are, check, count
from pdl.runtime.steps.inputs import Input, InputStep, PreStep
from pdl.runtime.steps.paths import files_of
from pdl_cv.steps.clips import MOST_FRAMES, SHOWN, filmstrip, mapped

FILES = (".npy",)
SIDE = 112  # pixels of a drawn skeleton
Edges = Sequence[Sequence[int]]


def resampled(x: Array, at: Array) -> Array:
    """A sequence [T, ...] at times from 0 to T - 1, by linear interpolation: float32 [len(at), ...]."""
    below = np.clip(np.floor(at).astype(np.int64), 0, max(len(x) - 2, 0))
    part = (at - below).astype(np.float32).reshape(-1, *[1] * (x.ndim - 1))
    return np.asarray(x[below] * (1 - part) + x[np.minimum(below + 1, len(x) - 1)] * part, np.float32)


def filled_up(x: Array, frames: int) -> Array:
    """A sequence [T, ...] with zeros behind it, of a longer one the middle: [frames, ...]."""
    first = max(0, (len(x) - frames) // 2)
    made = np.zeros((frames, *x.shape[1:]), np.float32)
    made[: min(len(x), frames)] = x[first : first + frames]
    return made


def centred(x: Array, joint: int, unit: tuple[int, int] | None) -> Array:
    """Joints [T, V, C] less the mean place of one of them, in units of the mean distance of two; frames of zeros, which
    are none, stay."""
    there = x.any(axis=(1, 2))
    if not there.any():
        return x
    seen = x[there] - x[there, joint].mean(axis=0)
    if unit is not None:
        length = float(np.linalg.norm(seen[:, unit[0]] - seen[:, unit[1]], axis=-1).mean())
        seen = seen / length if length > 1e-6 else seen
    made = np.zeros_like(x)
    made[there] = seen
    return made


def read_skeletons(item: Any, joints: int, channels: int) -> Array:
    """Joints float32 [T, V, C] of an array or *.npy; DataError for others."""
    if isinstance(item, str | Path):
        x, name = mapped(Path(item).expanduser()), str(item)
    else:
        x, name = np.asarray(item), "a skeleton"
    good = x.dtype.kind in "fiu" and x.ndim == 3 and x.shape[1:] == (joints, channels) and 0 < len(x) <= MOST_FRAMES
    if not good:
        raise DataError(
            f"{name}: {x.dtype} {x.shape}; expected numbers [T, {joints}, {channels}]: frames, joints, places"
        )
    found = x.astype(np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"{name}: some numbers are not finite; write 0 for joints that were not found")
    return found


class SkeletonInput(InputStep):
    """The joints of a body, float32 [frames, joints, channels].

    joints, channels  how many, and how many numbers tell the place of one
    frames  a sequence is resampled to so many
    fill    it is filled up with zeros, or cut, instead
    edges   pairs of joints that lines join in drawings
    """

    name = "skeleton"
    takes, metavar = "skeleton", "FILE"
    takes_content = False
    tolerance = 1e-5

    def __init__(self, joints: int, channels: int, frames: int, fill: bool = False, edges: Edges = ()) -> None:
        self.joints, self.channels, self.frames = (
            count("joints", joints),
            count("channels", channels),
            count("frames", frames),
        )
        check(type(fill) is bool, f"fill={fill!r:.60} must be true or false")
        good = isinstance(edges, list | tuple) and all(are(e, int, 2) and 0 <= min(e) <= max(e) < joints for e in edges)
        check(good, f"edges must be pairs of joints from 0 to {joints - 1}")
        self.fill, self.edges = fill, edges
        self.about = f"*.npy of numbers [T, {joints}, {channels}], a folder of such files, or a pattern"

    def parse(self, item: Any, sample: Sample) -> Array:
        x = read_skeletons(item, self.joints, self.channels)
        return filled_up(x, self.frames) if self.fill else resampled(x, (len(x) - 1) * np.linspace(0, 1, self.frames))

    def title(self, item: Any) -> str:
        return str(item) if isinstance(item, str | Path) else "skeleton"

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        if isinstance(given, str | Path):
            yield from (Input(str(each), each) for each in files_of(str(given), FILES, "skeletons"))
        else:
            yield Input(f"skeleton {number}", given)

    @property
    def flags(self) -> tuple[Any, ...]:
        return ()

    def from_word(self, word: str) -> Any:
        return word

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Random walks of two lengths."""
        steps = (rng.normal(0, 0.1, (length, self.joints, self.channels)) for length in (self.frames + 5, 12))
        return [each.cumsum(axis=0).astype(np.float32) for each in steps]

    def draw(self, item: Any, caption: str, marks: Sequence[Mark]) -> Drawing:
        return Drawing(drawn(read_skeletons(item, self.joints, self.channels), self.edges), caption, marks)


class Centred(PreStep):
    """See `centred`."""

    name = "centred"

    def __init__(self, joint: int, unit: Sequence[int] | None = None) -> None:
        self.joint = count("joint", joint, 0)
        check(unit is None or are(unit, int, 2), f"unit={unit!r:.60} must be two joints")
        self.unit = None if unit is None else (unit[0], unit[1])

    def __call__(self, value: Any) -> Any:
        return centred(value, self.joint, self.unit)


def drawn(x: Array, edges: Edges) -> Array:
    """Joints [T, V, C] at eight times, seen along the last axis, as pictures beside each other: uint8 [H, W, 3]."""
    seen = x[x.any(axis=(1, 2))] if x.any() else x
    at = seen[np.rint(np.linspace(0, len(seen) - 1, SHOWN)).astype(np.int64)][..., :2]
    low, high = at.min(axis=(0, 1)), at.max(axis=(0, 1))
    flat = (at - (low + high) / 2) * (SIDE - 12) / max(float((high - low).max()), 1e-6) + SIDE / 2
    pictures = np.full((SHOWN, SIDE, SIDE, 3), 245, np.uint8)
    for picture, joints in zip(pictures, flat, strict=True):
        for a, b in edges:
            line = np.linspace(joints[a], joints[b], 2 * SIDE)
            _dot(picture, line, (90, 120, 170), 1)
        _dot(picture, joints, (200, 60, 40), 2)
    return filmstrip(pictures)


def _dot(picture: Array, points: Array, colour: tuple[int, int, int], size: int) -> None:
    for x, y in np.unique(np.rint(points).astype(np.int64), axis=0).clip(0, SIDE - 1).tolist():
        picture[max(0, y - size + 1) : y + size, max(0, x - size + 1) : x + size] = colour
