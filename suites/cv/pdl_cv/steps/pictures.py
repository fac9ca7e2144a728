"""Steps of models that draw pictures: `noise` and `asked`, what they begin with, and `picture`, what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import images
from pdl.runtime.documents import Page
from pdl.runtime.drawing import Drawing
from pdl.runtime.frame import Frame
from pdl.runtime.steps import Sample
from pdl.runtime.steps.arguments import check, count
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.inputs import Flag, Input, InputStep
from pdl.runtime.steps.outputs import Form, Labelled
from pdl.suites import suggest

CLASS = Flag("--class", "NAME|NUMBER", "Draw pictures of this class; by default of all, in turn.")
NUMBER = Flag("-n", "COUNT", "How many pictures: of each --class, or in all.")
SEED = Flag("--seed", "NUMBER", "Of the noise that pictures begin with (0); the same gives the same pictures.")
MOST = 100_000  # pictures of one command


def noise_for(shape: Sequence[int], *seed: int) -> Array:
    """What a picture begins with: normal numbers float32, a function of the seed."""
    return np.random.default_rng(seed).standard_normal(tuple(shape), np.float32)


def as_pixels(images: Array) -> Array:
    """Numbers in [-1, 1] as uint8, [..., H, W, C]."""
    return np.clip(np.rint((images + 1) * 127.5), 0, 255).astype(np.uint8)


class _Order(InputStep):
    """Reads an order {"class": name or number, "seed": number, "number": of the picture}, or a class alone. What is
    left out is 0, a class the first one."""

    labels: Sequence[str] = ()

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        self.labels = resources.labels


class Noise(_Order):
    """An order -> noise float32 [*shape], by its seed and number."""

    name = "noise"
    takes, metavar, about = "class", "NAME|NUMBER", "a class, by name or number, and how many pictures of it"
    batch_size = 64

    def __init__(self, shape: Sequence[int]) -> None:
        check(isinstance(shape, list | tuple) and 0 < len(shape) < 4, f"shape={shape!r:.60} must be 1 to 3 sizes")
        self.shape = [count("shape", n) for n in shape]

    def parse(self, item: Any, sample: Sample) -> Array:
        order = item if isinstance(item, Mapping) else {"class": item}
        return noise_for(self.shape, _whole("seed", order.get("seed", 0)), _whole("number", order.get("number", 0)))

    def title(self, item: Any) -> str:
        return str(item.get("class", 0)) if isinstance(item, Mapping) else str(item)

    @property
    def flags(self) -> tuple[Flag, ...]:
        return (CLASS, NUMBER, SEED) if self.labels else (NUMBER, SEED)

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        asked = values.get(CLASS.name, ())
        seed = _number(SEED.name, values.get(SEED.name, ["0"])[-1])
        given = values.get(NUMBER.name)
        each = _number(NUMBER.name, given[-1]) if given else 1 if asked else max(1, len(self.labels))
        if not 1 <= each <= MOST:
            raise UsageError(f"{NUMBER.name} {each}: expected 1 to {MOST:,} pictures")
        names = [known(name, self.labels) for name in asked for _ in range(each)]
        names = names or [i % max(1, len(self.labels)) for i in range(each)]
        orders = []
        for i, label in enumerate(names):
            said = self.labels[label] if self.labels else "picture"
            order = {"class": label, "seed": seed, "number": i}
            orders.append(Input(f"{said} {i + 1}", order, page=Page("pictures", i + 1)))
        return orders

    def from_word(self, word: str) -> Any:
        raise UsageError(f"{word!r:.60}: this model reads nothing; ask with {CLASS.name} NAME and {NUMBER.name} COUNT")

    def samples(self, rng: np.random.Generator) -> list[Any]:
        return [{"class": 0, "seed": 0, "number": i} for i in range(2)]


class Asked(_Order):
    """An order -> the number of its class, int64 []."""

    name = "asked"
    takes = "class"

    def parse(self, item: Any, sample: Sample) -> Array:
        name = item.get("class", 0) if isinstance(item, Mapping) else item
        sample.memo["asked"] = known(name, self.labels)
        return np.array(sample.memo["asked"], np.int64)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(0, max(1, len(self.labels)), shape)


class Picture(Labelled):
    """Numbers in [-1, 1] -> {"class": name, "picture": uint8 [H, W, C]}; of a picture that was made of an image, the
    part that the image fills, at its size, and no class."""

    name = "picture"
    unprinted = ("picture",)

    def __call__(self, value: Array, sample: Sample) -> Any:
        check(value.ndim == 3 and value.shape[2] in (1, 3), f"picture: {value.shape} is no picture [H, W, 1 or 3]")
        asked = {"class": self.label(sample.memo.get("asked", 0))} if self.labels else {}
        picture = as_pixels(value)
        return {**asked, "picture": picture if sample.frame is None else unframed(picture, sample.frame)}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        height, width = answer["picture"].shape[:2]
        return [{**{key: answer[key] for key in ("class",) if key in answer}, "size": f"{width}x{height}"}]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        far = np.abs(ours["picture"].astype(np.int64) - theirs["picture"].astype(np.int64)).max()
        return ours.get("class") == theirs.get("class") and bool(far <= 1 + 127.5 * tolerance)

    def caption(self, answer: Any) -> str:
        return str(answer.get("class", ""))

    def draw(self, item: Any, answer: Any, source: InputStep) -> Drawing:
        return Drawing(answer["picture"], plain=True)

    @property
    def forms(self) -> Sequence[Form]:
        return (Form("grid", ".png", "all pictures in one, a row for each class", lambda file, _: Grid(file)),)


def unframed(picture: Array, frame: Frame) -> Array:
    """The part of a picture uint8 [h, w, C] in which an image lies, at the size of that: [H, W, C]. Between pixels
    bilinear, outside the nearest."""
    cv2 = images.opencv("picture: it is brought to the size of the image")
    (sx, sy), (x, y) = frame.scale, frame.offset
    # the middle of pixel x of the image lies at (x + 1/2 - offset) / scale in the picture
    matrix = np.array([[1 / sx, 0, (0.5 - x) / sx - 0.5], [0, 1 / sy, (0.5 - y) / sy - 0.5]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    found: Array = cv2.warpAffine(
        picture, matrix, (frame.width, frame.height), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return found.reshape(frame.height, frame.width, -1)


class Grid:
    """A file with all pictures, in rows: one for each class, or of ten."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.kept: dict[str, list[Array]] = {}

    def add(self, prediction: Any) -> None:
        """The next picture."""
        answer = prediction.answer.value
        self.kept.setdefault(answer.get("class", ""), []).append(answer["picture"])

    def close(self) -> None:
        """Write the file."""
        import cv2

        whole = grid(list(self.kept.values()))
        self.file.write(cv2.imencode(".png", whole[..., ::-1])[1].tobytes())


def grid(rows: Sequence[Sequence[Array]], columns: int = 10) -> Array:
    """Pictures uint8 [H, W, C] of one size in rows, of `columns` where there is one, white lines between them; [0, 0,
    1] of none."""
    if len(rows) == 1:
        rows = [rows[0][i : i + columns] for i in range(0, len(rows[0]), columns)]
    first = next((picture for row in rows for picture in row), None)
    if first is None:
        return np.zeros((0, 0, 1), np.uint8)
    height, width, channels = first.shape
    across = max(map(len, rows))
    canvas = np.full((len(rows) * (height + 1) - 1, across * (width + 1) - 1, channels), 255, np.uint8)
    for i, row in enumerate(rows):
        for j, picture in enumerate(row):
            y, x = i * (height + 1), j * (width + 1)
            canvas[y : y + height, x : x + width] = picture
    return canvas


def known(name: Any, labels: Sequence[str]) -> int:
    """The number of a class; DataError where there is none of this name or number."""
    if isinstance(name, str) and name in labels:
        return labels.index(name)
    number = int(name) if isinstance(name, str) and name.isascii() and name.isdigit() else name
    if type(number) is int and 0 <= number < max(1, len(labels)):
        return number
    raise DataError(f"{name!r:.60} is no class of this model; it has {len(labels)}{suggest(str(name), labels)}")


def _number(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{option} {text!r:.60}: expected a whole number, 0 or more")
    return int(text)


def _whole(name: str, value: Any) -> int:
    if type(value) is not int or value < 0:
        raise DataError(f"{name}: {value!r:.60} is no whole number, 0 or more")
    return value


__all__ = ["Asked", "Noise", "Picture"]
