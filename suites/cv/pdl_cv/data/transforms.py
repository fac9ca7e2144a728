"""Transforms of clips and of skeleton sequences.

Of a clip, `Segments` or `Stride` choose frames: sample["clip"], a `pdl_cv.data.clips.Clip` or an array [T, H, W, C],
becomes uint8 [frames, H, W, C]. `EachFrame` then gives every frame the same transforms of images, with the same random
numbers. `sample["skeleton"]` is float32 [T, joints, channels]; `Resample` or `FillUp` give all of them one length.

Whatever mirrors a clip (`pdl.data.transforms.RandomHorizontalFlip`) exchanges left and right, and so classes that tell
them apart; what reverses it in time, or changes its pace, does so to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform, deployed_steps
from pdl.data.randomness import SampleRandom
from pdl.dtype import Array
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl_cv.data.clips import chosen
from pdl_cv.steps.clips import places, three_crops
from pdl_cv.steps.skeletons import centred, filled_up, resampled

Count = Annotated[int, Range(1)]
Amount = Annotated[float, Range(0)]


# -- clips -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Chosen(Transform):
    """Chooses frames of a clip."""

    frames: Count = 8
    random: bool = False
    clips: Count = 1

    def __post_init__(self) -> None:
        if min(self.frames, self.clips) < 1 or (self.random and self.clips > 1):
            raise ConfigError(
                f"{type(self).__name__}: frames={self.frames}, clips={self.clips}, random={self.random}: both are at "
                "least 1, and several clips are for evaluation, without random"
            )

    apart: ClassVar[int | None] = None

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if "clip" not in sample:
            raise UsageError(f'{type(self).__name__} is for samples with a "clip", not with {", ".join(sample)}')
        draws = [rng.uniform() for _ in range(self.frames)] if self.random else []
        found = chosen(sample["clip"], lambda have: self.places(have, draws))
        return {**sample, "clip": found if self.clips > 1 else found[0]}

    def places(self, have: int, draws: Sequence[float]) -> Array:
        """int64 [clips, frames] of `have` frames; `draws` from 0 to 1, one for each frame, are what is random."""
        raise NotImplementedError

    def deployed(self) -> list[dict[str, Any]]:
        if self.random:
            raise UsageError(f"{type(self).__name__} with random: true is for training")
        return [{"step": "clip", "frames": self.frames, "stride": self.apart, "clips": self.clips}]


@dataclass(frozen=True)
class Segments(_Chosen):
    """A frame of each of `frames` parts of equal length of the clip: the middle one, with `random` any (Wang et al.,
    arXiv 1608.00859).

    frames  how many
    random  for training
    clips   of evaluation: so many choices, evenly spread, whose probabilities the task averages
    """

    def places(self, have: int, draws: Sequence[float]) -> Array:
        if not self.random:
            return places(have, self.frames, None, self.clips)
        at = (np.arange(self.frames) + np.asarray(draws)) * have / self.frames
        return np.minimum(at.astype(np.int64), have - 1)[None]


@dataclass(frozen=True)
class Stride(_Chosen):
    """`frames` frames that are `stride` apart: in the middle of the clip, with `random` anywhere (dense sampling; Tran
    et al., arXiv 1711.11248). The last frame is repeated behind a clip that is shorter.

    frames  how many
    random  for training
    clips   of evaluation: so many, evenly spread, whose probabilities the task averages
    stride  1: frames that follow each other
    """

    stride: Count = 2

    @property
    def apart(self) -> int | None:  # type: ignore[override]
        return self.stride

    def places(self, have: int, draws: Sequence[float]) -> Array:
        if not self.random:
            return places(have, self.frames, self.stride, self.clips)
        first = int(draws[0] * (max(0, have - (self.frames - 1) * self.stride - 1) + 1))
        return np.minimum(first + self.stride * np.arange(self.frames), have - 1)[None]


@dataclass(frozen=True)
class EachFrame(Transform):
    """Transforms of images, for each frame with the same random numbers, so that all are cropped and coloured alike.

    transforms  in this order
    """

    transforms: Sequence[Transform]

    def __post_init__(self) -> None:
        self._set(transforms=tuple(self.transforms))
        if any(getattr(each, "batch_level", False) or getattr(each, "joins", False) for each in self.transforms):
            raise ConfigError("EachFrame: transforms of one image each; those of several or of whole batches are none")

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        clip = sample["clip"]
        if not isinstance(clip, np.ndarray):
            raise UsageError("EachFrame: no frames are chosen yet; put Segments or Stride before it")
        frames = []
        for frame in clip.reshape(-1, *clip.shape[-3:]):
            held: Sample = {"image": frame, "index": sample.get("index")}
            for number, each in enumerate(self.transforms):
                held = each(held, rng.fork(number))
            frames.append(held["image"])
        made = np.stack(frames)
        return {**sample, "clip": made.reshape(*clip.shape[:-3], *made.shape[1:])}

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "each_frame", "steps": deployed_steps(self.transforms)}]


@dataclass(frozen=True)
class ThreeCrops(Transform):
    """Of evaluation: three windows of `size` at both ends and in the middle of the longer side, whose probabilities the
    task averages: [T, H, W, C] -> [3, T, size, size, C], of several clips [3 K, ...]. Comes last.

    size  pixels a side
    """

    size: Count

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        return {**sample, "clip": three_crops(sample["clip"], (self.size, self.size))}

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "three_crops", "size": [self.size, self.size]}]


# -- skeletons ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _OfSkeletons(Transform):
    """Changes sample["skeleton"], float32 [T, V, C]."""

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if "skeleton" not in sample:
            raise UsageError(f'{type(self).__name__} is for samples with a "skeleton", not with {", ".join(sample)}')
        return {**sample, "skeleton": self.changed(sample["skeleton"], rng)}

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        """The sequence afterwards; x is never written to."""
        raise NotImplementedError(f"{type(self).__name__} must define changed")


@dataclass(frozen=True)
class Resample(_OfSkeletons):
    """A sequence at `frames` times evenly spread over it, by linear interpolation.

    frames  how many
    least   below 1, for training: over a random part of the sequence that is at least this share of it
    warp    for training: at a pace that grows or falls evenly along half a cosine, from 1 - a to 1 + a times its mean,
            a random up to this, either way
    """

    frames: Count = 64
    least: Annotated[float, Range(None, 1, above=0)] = 1.0
    warp: Annotated[float, Range(0, below=1)] = 0.0

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        length = (len(x) - 1) * rng.uniform(self.least, 1.0)
        first = rng.uniform(0.0, len(x) - 1 - length)
        time = np.linspace(0, 1, self.frames)
        if self.warp:
            time = time - rng.uniform(-self.warp, self.warp) * np.sin(np.pi * time) / np.pi
        return resampled(x, first + length * time)

    def deployed(self) -> list[dict[str, Any]]:
        if self.least < 1 or self.warp:
            raise UsageError("Resample with least below 1, or with warp, is for training")
        return [{"step": "skeleton", "frames": self.frames}]


@dataclass(frozen=True)
class FillUp(_OfSkeletons):
    """A sequence of `frames` frames: of a longer one the middle; behind a shorter one zeros, which nets take for no
    frames (`pdl_cv.STGCN`).

    frames  how many
    """

    frames: Count

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        return filled_up(x, self.frames)

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "skeleton", "frames": self.frames, "fill": True}]


@dataclass(frozen=True)
class Centred(_OfSkeletons):
    """Places less the mean place of one joint over the sequence, in units of the mean distance of two joints: where a
    body stands and how large it is do not matter. Comes behind `Resample` or `FillUp`.

    joint  of the middle of the body
    unit   two joints, such as those of the trunk's ends; None: in the units of the data
    """

    joint: Annotated[int, Range(0)]
    unit: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.unit is not None:
            self._set(unit=tuple(self.unit))
            if len(self.unit) != 2:
                raise ConfigError(f"Centred: unit={list(self.unit)} must be two joints")

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        return centred(x, self.joint, None if self.unit is None else (self.unit[0], self.unit[1]))

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "centred", "joint": self.joint, "unit": None if self.unit is None else list(self.unit)}]


@dataclass(frozen=True)
class RandomTurn(_OfSkeletons):
    """Turns a sequence [T, V, 3] as a whole around axis 1, the vertical one, by up to `degrees` to either side, and
    around the two others by up to `tilt`; of [T, V, 2] in the plane by up to `tilt`.

    degrees  around the vertical axis
    tilt     around the others
    """

    degrees: Amount = 20.0
    tilt: Amount = 5.0

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        most = [self.tilt, self.degrees, self.tilt] if x.shape[2] == 3 else [self.tilt]
        turn = np.eye(x.shape[2])
        for axis, limit in enumerate(most):
            angle = np.deg2rad(rng.uniform(-limit, limit))
            a, b = [k for k in range(x.shape[2]) if k != axis] if x.shape[2] == 3 else (0, 1)
            about = np.eye(x.shape[2])
            about[a, a] = about[b, b] = np.cos(angle)
            about[a, b], about[b, a] = -np.sin(angle), np.sin(angle)
            turn = turn @ about
        return np.asarray(x @ np.asarray(turn.T, np.float32))


@dataclass(frozen=True)
class RandomMirror(_OfSkeletons):
    """Exchanges left and right: axis 0 of places is negated, and the joints of a pair change places. Comes behind
    `Centred`. Classes that tell left from right must be exchanged, too: leave it out for these.

    pairs  joints of the left and of the right side
    p      probability
    """

    pairs: Sequence[Sequence[int]]
    p: Annotated[float, Range(0, 1)] = 0.5

    def __post_init__(self) -> None:
        self._set(pairs=tuple(tuple(pair) for pair in self.pairs))
        joints = [joint for pair in self.pairs for joint in pair]
        if any(len(pair) != 2 for pair in self.pairs) or len(set(joints)) < len(joints):
            raise ConfigError("RandomMirror: pairs must be pairs of joints, each joint in one")

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        if rng.uniform() >= self.p:
            return x
        order = np.arange(x.shape[1])
        for left, right in self.pairs:
            order[[left, right]] = right, left
        flip = np.ones(x.shape[2], np.float32)
        flip[0] = -1
        return np.asarray(x[:, order] * flip)


@dataclass(frozen=True)
class RandomSize(_OfSkeletons):
    """Places times a random factor for each axis, from 1 - `by` to 1 + `by`.

    by  share
    """

    by: Annotated[float, Range(0, below=1)] = 0.1

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        factors = [rng.uniform(1 - self.by, 1 + self.by) for _ in range(x.shape[2])]
        return np.asarray(x * np.array(factors, np.float32))


@dataclass(frozen=True)
class Jitter(_OfSkeletons):
    """Normal noise on each place; frames of zeros, which are none, stay.

    std  its standard deviation, in the units that places have by then
    """

    std: Amount = 0.01

    def changed(self, x: Array, rng: SampleRandom) -> Array:
        noise = np.asarray(rng.generator().normal(0, self.std, x.shape), np.float32)
        return np.asarray(x + noise * x.any(axis=(1, 2), keepdims=True))
