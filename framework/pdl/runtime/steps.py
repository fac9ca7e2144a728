"""The steps a pipeline may name: registered classes that run with NumPy and kernels.

`PRE` take a picture uint8 [H, W, C] and what follows from it; `POST` take one output of the net for one sample.
Arguments are plain values, checked when a step is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime import pictures
from pdl.runtime.frame import Frame
from pdl.runtime.sample import Sample
from pdl.vocabulary import Vocabulary

PRE: dict[str, type[Step]] = {}
POST: dict[str, type[Step]] = {}


class Step:
    """One step: the arguments of `__init__` are its keys in pipeline.json."""

    name: ClassVar[str]

    def __init_subclass__(cls, *, table: dict[str, type[Step]], name: str) -> None:
        cls.name = name
        table[name] = cls

    def __call__(self, value: Any) -> Any:
        """The value after this step."""
        raise UsageError(f"the step {self.name} does nothing")

    def bind(self, labels: Sequence[str], vocabularies: Mapping[str, Vocabulary]) -> None:
        """What the bundle names, told once before the first call; UsageError where it lacks what the step needs."""

    def hold(self, constants: Mapping[str, Array]) -> None:
        """Arrays of the bundle by name, told once before the first call; UsageError where one is not there."""

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        """Where the pixels of `after`, which this step made of `before`, lie in the original picture. This is the
        default, for steps that move none or add some on the right and below only; resizes override it."""
        return frame


# -- before the net ----------------------------------------------------------------------------------------------------
class Mode(Step, table=PRE, name="mode"):
    """A picture of any kind to "rgb" or "gray"; files are decoded so. Comes first."""

    def __init__(self, mode: str) -> None:
        self.mode = _one_of("mode", mode, pictures.MODES)

    def __call__(self, value: Any) -> Any:
        return pictures.change_mode(value, self.mode)


class Resize(Step, table=PRE, name="resize"):
    """To exactly size = [height, width]; method auto, area, linear or nearest."""

    def __init__(self, size: Sequence[int], method: str = "auto") -> None:
        self.size, self.method = _size(size), _one_of("method", method, pictures.METHODS)

    def __call__(self, value: Any) -> Any:
        return pictures.resize(value, self.size, self.method)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, after.shape[:2])


class ResizeShort(Step, table=PRE, name="resize_short"):
    """The shorter side to `size` pixels, proportions kept."""

    def __init__(self, size: int, method: str = "auto") -> None:
        self.size, self.method = _side(size), _one_of("method", method, pictures.METHODS)

    def __call__(self, value: Any) -> Any:
        return pictures.resize_short(_sane(value, self.size), self.size, self.method)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, after.shape[:2])


class ResizeHeight(Step, table=PRE, name="resize_height"):
    """The height to `height` pixels, proportions kept, the width at most `width`, and filled up to it on the right with
    `fill` (None: left as it is): lines of text."""

    def __init__(self, height: int, width: int, fill: float | None = None, method: str = "linear") -> None:
        self.height, self.width, self.fill = _side(height), _side(width), None if fill is None else _byte(fill)
        self.method = _one_of("method", method, pictures.METHODS)

    def __call__(self, value: Any) -> Any:
        width = self._width(value)
        resized = pictures.resize(value, (self.height, width), self.method)
        if self.fill is None:
            return resized
        return pictures.pad(resized, (0, 0, self.width - width, 0), (self.fill,))

    def _width(self, value: Array) -> int:
        return min(self.width, max(1, math.ceil(self.height * value.shape[1] / value.shape[0])))

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, (self.height, self._width(before)))


class ResizeWithin(Step, table=PRE, name="resize_within"):
    """Shrunk so that no side exceeds `limit`, then both sides to the nearest multiples of `multiple`: detectors."""

    def __init__(self, limit: int, multiple: int = 32, method: str = "linear") -> None:
        self.limit, self.multiple = _side(limit), _side(multiple)
        self.method = _one_of("method", method, pictures.METHODS)

    def __call__(self, value: Any) -> Any:
        factor = min(1.0, self.limit / max(value.shape[:2]))
        h, w = (max(1, round(n * factor / self.multiple)) * self.multiple for n in value.shape[:2])
        return pictures.resize(value, (h, w), self.method)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, after.shape[:2])


class Crop(Step, table=PRE, name="crop"):
    """The middle size = [height, width] pixels; smaller pictures are filled up with `fill` first."""

    def __init__(self, size: Sequence[int], fill: Sequence[float] = (0,)) -> None:
        self.size, self.fill = _size(size), _fill(fill)

    def __call__(self, value: Any) -> Any:
        return pictures.crop(value, self.size, self.fill)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        (h, w), (height, width) = self.size, before.shape[:2]
        return frame.moved(_offset(w, width), _offset(h, height))


class Pad(Step, table=PRE, name="pad"):
    """[left, top, right, bottom] pixels more; mode constant (of `fill`), reflect or edge."""

    def __init__(self, padding: Sequence[int], fill: Sequence[float] = (0,), mode: str = "constant") -> None:
        good = _are(padding, int, 4) and all(0 <= n <= pictures.MAX_SIDE for n in padding)
        _demand(good, f"padding={padding!r} must be four numbers of 0 and more")
        self.padding, self.fill = tuple(padding), _fill(fill)
        self.mode = _one_of("mode", mode, pictures.BORDERS)

    def __call__(self, value: Any) -> Any:
        return pictures.pad(value, self.padding, self.fill, self.mode)  # type: ignore[arg-type]

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.moved(self.padding[0], self.padding[1])


class PadTo(Step, table=PRE, name="pad_to"):
    """Filled with `fill` on the right and below to size = [height, width] and from there to the next multiples of
    `multiple`; a larger picture to the next multiples. Comes before `layout`; after `normalize`, fill is on its scale.

    With a multiple, pictures of many sizes become few shapes, so that samples go through the net together.
    """

    def __init__(self, size: Sequence[int], multiple: int | Sequence[int] = 1, fill: float = 0.0) -> None:
        self.size, self.multiple = _size(size), _size([multiple, multiple] if type(multiple) is int else multiple)
        _demand(type(fill) in (int, float) and abs(fill) <= 255, f"fill={fill!r} must be a number up to 255")
        self.fill = float(fill)

    def __call__(self, value: Any) -> Any:
        h, w = (
            -(-max(least, n) // m) * m for least, n, m in zip(self.size, value.shape[:2], self.multiple, strict=True)
        )
        return pictures.pad(value, (0, 0, w - value.shape[1], h - value.shape[0]), (self.fill,))


class Gray(Step, table=PRE, name="gray"):
    """To gray, with `channels` 1 or 3 equal channels."""

    def __init__(self, channels: int = 1) -> None:
        self.channels = _one_of("channels", channels, (1, 3))

    def __call__(self, value: Any) -> Any:
        return np.repeat(pictures.gray(value), self.channels, axis=2)


class Reverse(Step, table=PRE, name="reverse"):
    """The channels in the opposite order: RGB to BGR."""

    def __call__(self, value: Any) -> Any:
        return value[:, :, ::-1]


class ToFloat(Step, table=PRE, name="to_float"):
    """Bytes 0..255 to float32 0..1."""

    def __call__(self, value: Any) -> Any:
        return (
            np.divide(value, np.float32(255), dtype=np.float32) if value.dtype == np.uint8 else value.astype(np.float32)
        )


class Normalize(Step, table=PRE, name="normalize"):
    """(x / 255 - mean) / std as float32, a mean and std for all channels or one a channel; on the 0..1 scale."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        good = _are(mean, (int, float)) and _are(std, (int, float)) and len(mean) == len(std) and len(mean) in (1, 3)
        _demand(good, f"mean={mean!r}, std={std!r} must be lists of one or three numbers")
        _demand(all(s > 0 for s in std), f"std={std!r} must be above 0")
        self.mean, self.std = tuple(map(float, mean)), tuple(map(float, std))

    def __call__(self, value: Any) -> Any:
        return pictures.scaled(value, self.mean, self.std)


class Layout(Step, table=PRE, name="layout"):
    """The axes as the net wants them: "hwc" or "chw"."""

    def __init__(self, order: str) -> None:
        self.order = _one_of("order", order, ("hwc", "chw"))

    def __call__(self, value: Any) -> Any:
        return np.ascontiguousarray(value.transpose(2, 0, 1)) if self.order == "chw" else value


# -- after the net -----------------------------------------------------------------------------------------------------
class Labelled(Step, table={}, name=""):
    """A step that names classes: those of the bundle, or their numbers."""

    labels: Sequence[str] = ()

    def bind(self, labels: Sequence[str], vocabularies: Mapping[str, Vocabulary]) -> None:
        self.labels = labels

    def label(self, number: int) -> str:
        """The name of a class."""
        return self.labels[number] if number < len(self.labels) else str(number)

    def answer(self, number: int, score: float) -> dict[str, Any]:
        """One class as plain values."""
        return {"label": self.label(number), "class": number, "score": score}


class Informed(Step, table={}, name=""):
    """A step whose answer depends on the input too."""

    def __call__(self, value: Any) -> Any:
        return self.inform(value, Sample())

    def inform(self, value: Any, sample: Sample) -> Any:
        """The value after this step, for an output of the net for `sample`."""
        raise UsageError(f"the step {self.name} does nothing")


class Placed(Informed, table={}, name=""):
    """A step whose answer has places in it, told in pixels of the original picture."""

    def inform(self, value: Any, sample: Sample) -> Any:
        if sample.frame is None:
            raise UsageError(
                f"{self.name}: needs to know where the output lies in a picture: call the session with one"
            )
        return self.place(value, sample.frame)

    def place(self, value: Any, frame: Frame) -> Any:
        """The value after this step; `frame` tells where the output of the net lies in the picture."""
        raise UsageError(f"the step {self.name} does nothing")


class Identity(Step, table=POST, name="identity"):
    """The array itself."""

    def __call__(self, value: Any) -> Any:
        return value


class Softmax(Step, table=POST, name="softmax"):
    """exp(x) / sum exp(x) over the last axis, in float64."""

    def __call__(self, value: Any) -> Any:
        shifted = value.astype(np.float64) - value.max(axis=-1, keepdims=True)
        weights = np.exp(shifted)
        return weights / weights.sum(axis=-1, keepdims=True)


class Sigmoid(Step, table=POST, name="sigmoid"):
    """1 / (1 + exp(-x)), in float64."""

    def __call__(self, value: Any) -> Any:
        return 0.5 * (1 + np.tanh(0.5 * value.astype(np.float64)))


class Top(Labelled, table=POST, name="top"):
    """{"label", "class", "score", "top": [the k best]} of scores [C]."""

    def __init__(self, k: int = 5) -> None:
        _demand(type(k) is int and k >= 1, f"k={k!r} must be at least 1")
        self.k = k

    def __call__(self, value: Any) -> Any:
        _vector(self, value)
        order = np.argsort(-value, kind="stable")[: self.k]
        top = [self.answer(int(i), float(value[i])) for i in order]
        return {**top[0], "top": top}


class Threshold(Labelled, table=POST, name="threshold"):
    """{"labels": [classes whose score is at least `score`, best first]} of scores [C]: several answers, or none."""

    def __init__(self, score: float = 0.5) -> None:
        _demand(type(score) in (int, float), f"score={score!r} must be a number")
        self.score = float(score)

    def __call__(self, value: Any) -> Any:
        _vector(self, value)
        order = np.argsort(-value, kind="stable")
        return {"labels": [self.answer(int(i), float(value[i])) for i in order if value[i] >= self.score]}


class Ctc(Labelled, table=POST, name="ctc"):
    """{"text", "score"} of probabilities [T, C]: the best class of each step, repeats and `blank` dropped (greedy
    decoding, Graves et al., ICML 2006); the score is the mean over the steps kept. Labels do not count the blank;
    `more` are the characters of classes after the labels, such as the space that lists of characters leave out."""

    def __init__(self, blank: int = 0, more: str = "") -> None:
        _demand(type(blank) is int and blank >= 0, f"blank={blank!r} must be a class")
        _demand(type(more) is str, f"more={more!r} must be characters")
        self.blank, self.more = blank, more

    def __call__(self, value: Any) -> Any:
        if value.ndim != 2:
            raise UsageError(f"ctc: expected scores [steps, classes], got {value.shape}")
        best = value.argmax(axis=1)
        kept = (best != self.blank) & np.concatenate([[True], best[1:] != best[:-1]])
        scores = value.max(axis=1)[kept]
        text = "".join(self.label(int(c) - (c > self.blank)) for c in best[kept])
        return {"text": text, "score": float(scores.mean()) if scores.size else 0.0}

    def label(self, number: int) -> str:
        after = number - len(self.labels)
        return self.more[after] if 0 <= after < len(self.more) else super().label(number)


# -- checks of arguments -----------------------------------------------------------------------------------------------
def _demand(good: bool, what: str) -> None:
    if not good:
        raise UsageError(what)


def _one_of(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    good = any(value == each and type(value) is type(each) for each in allowed)
    _demand(good, f"{name}={value!r} is none of {', '.join(map(str, allowed))}")
    return value


def _are(values: Any, kind: Any, count: int | None = None) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return isinstance(values, list | tuple) and all(type(v) in kinds for v in values) and count in (None, len(values))


def _side(value: Any) -> int:
    _demand(type(value) is int and 1 <= value <= pictures.MAX_SIDE, f"{value!r} must be from 1 to {pictures.MAX_SIDE}")
    return int(value)


def _size(value: Any) -> tuple[int, int]:
    _demand(_are(value, int, 2), f"size={value!r} must be [height, width]")
    return _side(value[0]), _side(value[1])


def _byte(value: Any) -> float:
    _demand(type(value) in (int, float) and 0 <= value <= 255, f"fill={value!r} must be from 0 to 255")
    return float(value)


def _fill(value: Any) -> tuple[float, ...]:
    _demand(
        _are(value, (int, float)) and len(value) in (1, 3), f"fill={value!r} must be a list of one or three numbers"
    )
    return tuple(_byte(v) for v in value)


def _offset(size: int, given: int) -> int:
    """How many pixels the middle `size` of `given` begins before them; see `pictures.crop`."""
    more = max(0, size - given)
    return more // 2 - (given + more - size) // 2


def _sane(value: Array, size: int) -> Array:
    """A picture whose longer side stays bounded when its shorter one becomes `size`."""
    long, short = max(value.shape[:2]), min(value.shape[:2])
    _demand(long * size / short <= pictures.MAX_SIDE, f"a picture of {value.shape[1]} x {value.shape[0]} is too slim")
    return value


def _vector(step: Step, value: Any) -> None:
    if not isinstance(value, np.ndarray):
        raise UsageError(f"{step.name}: expected scores [classes], got an answer; such steps come last and once")
    if value.ndim != 1 or not value.size:
        raise UsageError(f"{step.name}: expected scores [classes], got an output of shape {value.shape}")
