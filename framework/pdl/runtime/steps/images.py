"""Steps for images: the input step that decodes one, and what makes a net's input of its pixels.

An image is uint8 [H, W, C] until a step makes floats of it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, TimeLimitError
from pdl.kernels.memory import empty
from pdl.runtime import documents, images, videos
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.frame import Frame
from pdl.runtime.headers import EXTENSIONS
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import are, check, number, one_of
from pdl.runtime.steps.inputs import Flag, Input, InputStep, PreStep
from pdl.runtime.steps.paths import files_of


class ImageInput(InputStep):
    """An image as "rgb" or "gray": an array uint8 [H, W] or [H, W, 1 or 3] (RGB), the bytes of a file, or its path.

    On the command line, and for `predict`, also a folder or a pattern (all images there), a document (all pages of a
    PDF or TIFF file), a video file or "camera" (all frames), or "-" (standard input).

    mode  "rgb" or "gray"
    tall  an image that is at least so many times as high as wide is looked at as it is, and turned by 90 degrees to the
          left and to the right, as a line of text is that runs upwards, downwards, or letter below letter; None: no
          image is
    dpi   at which pages of a PDF are drawn
    """

    name = "image"
    takes, metavar = "image", "FILE"
    about = (
        "an image file, a PDF, a folder, a pattern, an address, a video, camera (or camera:1), or - for standard input"
    )
    dpi: int = documents.DPI
    takes_content = True
    tolerance = 1.0  # decoders and resizes round to grey levels

    def __init__(self, mode: str = "rgb", tall: float | None = None) -> None:
        self.mode = one_of("mode", mode, images.MODES)
        self.tall = None if tall is None else number("tall", tall, 1, 100)

    def parse(self, item: Any, sample: Sample) -> Array:
        return images.read(item, self.mode)

    def views(self, item: Any) -> Sequence[Any]:
        if self.tall is None:
            return (item,)
        image = images.read(item, self.mode)
        return (image, *images.sideways(image)) if images.is_tall(image, self.tall) else (image,)

    def frame(self, value: Array) -> Frame | None:
        return Frame(*value.shape[:2])

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        if isinstance(given, np.ndarray):
            yield Input(f"array {number}", given)
        elif isinstance(given, bytes):
            yield from self._pages(given, f"bytes {number}")
        elif str(given) == "-":
            yield from self._pages(sys.stdin.buffer.read(), "-")
        elif videos.is_video(str(given)):
            for film, frame, image in videos.frames(str(given)):
                yield Input(f"{film.name}#{frame}", image, film)
        else:
            for path in files_of(str(given), (*EXTENSIONS, documents.PDF), "images"):
                yield from self._pages(path, str(path))

    def _pages(self, content: Path | bytes, name: str) -> Iterator[Input]:
        """Each page of a document, an image as it is; an error in place of a document, or of its pages from one on,
        that cannot be read, because files behind it may be readable."""
        try:
            if not documents.is_document(content):
                yield Input(name, content)
                return
            for page, image in documents.pages(content, name, self.dpi):
                yield Input(page.name, image, page=page)
        except TimeLimitError:
            raise
        except DataError as error:
            yield Input(name, None, error=str(error))

    @property
    def flags(self) -> tuple[Flag, ...]:
        return ()

    def from_word(self, word: str) -> Any:
        return word

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Noise of two sizes."""
        return [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((256, 320), (300, 240))]

    def draw(self, item: Any, caption: str, marks: Sequence[Mark]) -> Drawing:
        return Drawing(images.read(item, "rgb"), caption, marks)


# -- geometry ----------------------------------------------------------------------------------------------------------
class Resize(PreStep):
    """To exactly size = [height, width]; method auto, area, linear or nearest."""

    name = "resize"

    def __init__(self, size: Sequence[int], method: str = "auto") -> None:
        self.size, self.method = _size(size), one_of("method", method, images.METHODS)

    def __call__(self, value: Any) -> Any:
        return images.resize(value, self.size, self.method)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, after.shape[:2])


class ResizeShort(PreStep):
    """The shorter side to `size` pixels, proportions kept."""

    name = "resize_short"

    def __init__(self, size: int, method: str = "auto") -> None:
        self.size, self.method = _side(size), one_of("method", method, images.METHODS)

    def __call__(self, value: Any) -> Any:
        return images.resize_short(_sane(value, self.size), self.size, self.method)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, after.shape[:2])


class ResizeHeight(PreStep):
    """The height to `height` pixels, proportions kept, the width at most `width`, and filled up to it on the right with
    `fill` (None: left as it is)."""

    name = "resize_height"

    def __init__(self, height: int, width: int, fill: float | None = None, method: str = "linear") -> None:
        self.height, self.width, self.fill = _side(height), _side(width), None if fill is None else _byte(fill)
        self.method = one_of("method", method, images.METHODS)

    def __call__(self, value: Any) -> Any:
        width = self._width(value)
        resized = images.resize(value, (self.height, width), self.method)
        if self.fill is None:
            return resized
        return images.pad(resized, (0, 0, self.width - width, 0), (self.fill,))

    def _width(self, value: Array) -> int:
        return min(self.width, max(1, math.ceil(self.height * value.shape[1] / value.shape[0])))

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, (self.height, self._width(before)))


class ResizeWithin(PreStep):
    """Shrunk so that no side exceeds `limit`, then both sides to the nearest multiples of `multiple`: detectors."""

    name = "resize_within"

    def __init__(self, limit: int, multiple: int = 32, method: str = "linear") -> None:
        self.limit, self.multiple = _side(limit), _side(multiple)
        self.method = one_of("method", method, images.METHODS)

    def __call__(self, value: Any) -> Any:
        factor = min(1.0, self.limit / max(value.shape[:2]))
        h, w = (max(1, round(n * factor / self.multiple)) * self.multiple for n in value.shape[:2])
        return images.resize(value, (h, w), self.method)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.resized(before, after.shape[:2])


class Crop(PreStep):
    """The middle size = [height, width] pixels; smaller images are filled up with `fill` first."""

    name = "crop"

    def __init__(self, size: Sequence[int], fill: Sequence[float] = (0,)) -> None:
        self.size, self.fill = _size(size), _fill(fill)

    def __call__(self, value: Any) -> Any:
        return images.crop(value, self.size, self.fill)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        (h, w), (height, width) = self.size, before.shape[:2]
        return frame.moved(_offset(w, width), _offset(h, height))


class Pad(PreStep):
    """[left, top, right, bottom] pixels more; mode constant (of `fill`), reflect or edge."""

    name = "pad"

    def __init__(self, padding: Sequence[int], fill: Sequence[float] = (0,), mode: str = "constant") -> None:
        good = are(padding, int, 4) and all(0 <= n <= images.MAX_SIDE for n in padding)
        check(good, f"padding={padding!r} must be four numbers of 0 and more")
        self.padding, self.fill = tuple(padding), _fill(fill)
        self.mode = one_of("mode", mode, images.BORDERS)

    def __call__(self, value: Any) -> Any:
        return images.pad(value, self.padding, self.fill, self.mode)  # type: ignore[arg-type]

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        return frame.moved(self.padding[0], self.padding[1])


class Letterbox(PreStep):
    """Resized into size = [height, width] with its proportions, enlarged only if `enlarge`, the rest filled with
    `fill`: on both sides if `centre`, else on the right and below."""

    name = "letterbox"

    def __init__(
        self,
        size: Sequence[int],
        fill: Sequence[float] = (114,),
        centre: bool = True,
        enlarge: bool = True,
        method: str = "auto",
    ) -> None:
        self.size, self.fill = _size(size), _fill(fill)
        self.centre, self.enlarge = one_of("centre", centre, (True, False)), one_of("enlarge", enlarge, (True, False))
        self.method = one_of("method", method, images.METHODS)

    def __call__(self, value: Any) -> Any:
        return images.letterbox(value, self.size, self.fill, self.method, centre=self.centre, enlarge=self.enlarge)

    def follow(self, frame: Frame, before: Array, after: Array) -> Frame:
        places = images.letterbox_places(before.shape, self.size, centre=self.centre, enlarge=self.enlarge)
        (inner, (left, top, _, _)) = places
        return frame.resized(before, inner).moved(left, top)


class PadTo(PreStep):
    """Filled with `fill` on the right and below to size = [height, width] and from there to the next multiples of
    `multiple`; a larger image to the next multiples. Comes before `layout`; after `normalize`, fill is on its scale.

    With a multiple, images of many sizes become few shapes, so that samples go through the net together.
    """

    name = "pad_to"

    def __init__(self, size: Sequence[int], multiple: int | Sequence[int] = 1, fill: float = 0.0) -> None:
        self.size, self.multiple = _size(size), _size([multiple, multiple] if type(multiple) is int else multiple)
        check(type(fill) in (int, float) and abs(fill) <= 255, f"fill={fill!r} must be a number up to 255")
        self.fill = float(fill)

    def __call__(self, value: Any) -> Any:
        h, w = (
            -(-max(least, n) // m) * m for least, n, m in zip(self.size, value.shape[:2], self.multiple, strict=True)
        )
        return images.pad(value, (0, 0, w - value.shape[1], h - value.shape[0]), (self.fill,))


# -- values ------------------------------------------------------------------------------------------------------------
class Gray(PreStep):
    """To gray, with `channels` 1 or 3 equal channels."""

    name = "gray"

    def __init__(self, channels: int = 1) -> None:
        self.channels = one_of("channels", channels, (1, 3))

    def __call__(self, value: Any) -> Any:
        return images.repeated(images.gray(value), self.channels)


class AutoContrast(PreStep):
    """Bytes stretched to reach from 0 to 255: see `pdl.runtime.images.stretched`."""

    name = "auto_contrast"

    def __init__(self, low: float = 0.0, high: float = 0.0, each: bool = False) -> None:
        for share in (low, high):
            check(type(share) in (int, float) and 0 <= share < 0.5, f"{share!r} must be a share of pixels below 0.5")
        self.low, self.high, self.each = float(low), float(high), one_of("each", each, (True, False))

    def __call__(self, value: Any) -> Any:
        check(value.dtype == np.uint8, f"auto_contrast is for bytes, not {value.dtype}")
        return images.stretched(value, self.low, self.high, each=self.each)


class Reverse(PreStep):
    """The channels in the opposite order: RGB to BGR."""

    name = "reverse"

    def __call__(self, value: Any) -> Any:
        made = empty(value.shape, value.dtype)
        for channel in range(value.shape[2]):  # four times as fast as to copy a reversed view, as the next step would
            made[:, :, channel] = value[:, :, -1 - channel]
        return made


class ToFloat(PreStep):
    """Bytes 0..255 to float32 0..1."""

    name = "to_float"

    def __call__(self, value: Any) -> Any:
        images.require_room(value.shape, 4)
        return (
            np.divide(value, np.float32(255), dtype=np.float32) if value.dtype == np.uint8 else value.astype(np.float32)
        )

    def error(self, before: float) -> float:
        return before / 255


class Normalize(PreStep):
    """(x / 255 - mean) / std as float32, a mean and std for all channels or one a channel; on the 0..1 scale."""

    name = "normalize"

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        good = are(mean, (int, float)) and are(std, (int, float)) and len(mean) == len(std) and len(mean) in (1, 3)
        check(good, f"mean={mean!r}, std={std!r} must be lists of one or three numbers")
        check(all(s > 0 for s in std), f"std={std!r} must be above 0")
        self.mean, self.std = tuple(map(float, mean)), tuple(map(float, std))

    def __call__(self, value: Any) -> Any:
        return images.normalized(value, self.mean, self.std)

    def error(self, before: float) -> float:
        return before / min(self.std) / (255 if before >= 1 else 1)  # of bytes it is whole grey levels


class Layout(PreStep):
    """The axes as the net wants them: "hwc" or "chw"."""

    name = "layout"

    def __init__(self, order: str) -> None:
        self.order = one_of("order", order, ("hwc", "chw"))

    def __call__(self, value: Any) -> Any:
        return np.ascontiguousarray(value.transpose(2, 0, 1)) if self.order == "chw" else value


# -- arguments ---------------------------------------------------------------------------------------------------------
def _side(value: Any) -> int:
    check(type(value) is int and 1 <= value <= images.MAX_SIDE, f"{value!r} must be from 1 to {images.MAX_SIDE}")
    return int(value)


def _size(value: Any) -> tuple[int, int]:
    check(are(value, int, 2), f"size={value!r} must be [height, width]")
    return _side(value[0]), _side(value[1])


def _byte(value: Any) -> float:
    check(type(value) in (int, float) and 0 <= value <= 255, f"fill={value!r} must be from 0 to 255")
    return float(value)


def _fill(value: Any) -> tuple[float, ...]:
    good = are(value, (int, float)) and len(value) in (1, 3)
    check(good, f"fill={value!r} must be a list of one or three numbers")
    return tuple(_byte(v) for v in value)


def _offset(size: int, given: int) -> int:
    """How many pixels the middle `size` of `given` begins before them; see `pdl.runtime.images.crop`."""
    more = max(0, size - given)
    return more // 2 - (given + more - size) // 2


def _sane(value: Array, size: int) -> Array:
    """An image whose longer side stays bounded when its shorter one becomes `size`."""
    long, short = max(value.shape[:2]), min(value.shape[:2])
    check(long * size / short <= images.MAX_SIDE, f"an image of {value.shape[1]} x {value.shape[0]} is too slim")
    return value


STEPS = (
    ImageInput, Resize, ResizeShort, ResizeHeight, ResizeWithin, Letterbox, Crop, Pad, PadTo,
    Gray, AutoContrast, Reverse, ToFloat, Normalize, Layout,
)  # fmt: skip

__all__ = ["STEPS", *(step.__name__ for step in STEPS)]
