"""The step `segmentation`: the class of each pixel of an image, of the scores that a net gives on a coarser grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, BinaryIO, ClassVar

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError, listed
from pdl.kernels import image as kernels
from pdl.runtime import images
from pdl.runtime.drawing import Drawing
from pdl.runtime.frame import Frame
from pdl.runtime.steps import Sample
from pdl.runtime.steps.inputs import Flag, InputStep
from pdl.runtime.steps.outputs import Form, Labelled
from pdl.suites import suggest
from pdl_cv.palette import encoded_map, palette

TINT = 0.55  # of the colours that are laid over an image
NEARLY = 2e-3  # share of pixels whose best two classes may be too close for two runs of a net to agree
LINE = 3  # classes in a caption


class Segmentation(Labelled):
    """{"mask": uint8 [H, W], "classes": [{"name", "share"}]} of scores [h, w, C]: the class of each pixel of the
    original image, and the share of its pixels that each class has, largest first. Names are the labels of the bundle.

    Scores are enlarged to the original image (bilinear), and the highest decides.
    """

    name = "segmentation"
    unprinted: ClassVar[Sequence[str]] = ("mask",)

    def __init__(self) -> None:
        self.cutout: int | None = None

    def __call__(self, value: Any, sample: Sample) -> Any:
        frame = sample.framed(self.name)
        if not isinstance(value, np.ndarray) or value.ndim != 3 or value.shape[2] < 2:
            shown = f"{value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise UsageError(f"segmentation: expected scores [h, w, C] of two classes or more, got {shown}")
        (image,) = sample.inputs.values()
        return self._answer(classes_of(value, frame, image.shape[:2]))

    def _answer(self, mask: Array) -> dict[str, Any]:
        counts = np.bincount(mask.reshape(-1))
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda k: (-counts[k], k))
        shares = [{"name": self.label(k), "share": round(float(counts[k] / mask.size), 6)} for k in order]
        return {"classes": shares, "mask": mask}

    # -- for people ----------------------------------------------------------------------------------------------------
    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["classes"])

    def caption(self, answer: Any) -> str:
        said = [f"{each['name']} {each['share']:.0%}" for each in answer["classes"][:LINE]]
        return ", ".join(said) + (", ..." if len(answer["classes"]) > LINE else "")

    def draw(self, item: Any, answer: Any, source: InputStep) -> Drawing:
        plain = source.draw(item, self.caption(answer), ())
        return plain if plain.image is None else replace(plain, image=tinted(plain.image, answer["mask"]))

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """The same classes but for a few pixels (`NEARLY`): between two classes of nearly one score the least
        difference decides."""
        return bool(np.mean(ours["mask"] != theirs["mask"]) <= NEARLY)

    def joined(self, answers: Sequence[Any], places: Sequence[tuple[int, int]], size: tuple[int, int]) -> Any:
        """Tiles side by side: of two that overlap each decides up to the middle. The first answer, for the whole image,
        is not needed."""
        mask = np.zeros(size, np.uint8)
        tiles = [(place, answer["mask"]) for place, answer in zip(places[1:], answers[1:], strict=True)]
        across = _borders([(x, tile.shape[1]) for (x, _), tile in tiles])
        down = _borders([(y, tile.shape[0]) for (_, y), tile in tiles])
        for (x, y), tile in tiles:
            (left, right), (top, bottom) = across[x], down[y]
            mask[top:bottom, left:right] = tile[top - y : bottom - y, left - x : right - x]
        return self._answer(mask)

    # -- files ---------------------------------------------------------------------------------------------------------
    @property
    def forms(self) -> Sequence[Form]:
        return [
            Form("mask", ".png", "the number of each pixel's class, with a palette", _Mask),
            Form("cutout", ".png", "what is not of the first class (or of --cutout), on transparent ground", _Cutout),
        ]

    @property
    def flags(self) -> Sequence[Flag]:
        return [Flag("--cutout", "CLASS", "The class that --format cutout cuts out.")]

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> Segmentation:
        wanted = values.get("--cutout")
        if not wanted:
            return self
        name = wanted[-1]
        if name not in self.labels:
            raise UsageError(f"--cutout {name}: it is none of {listed(self.labels, 30)}{suggest(name, self.labels)}")
        made = copy(self)
        made.cutout = list(self.labels).index(name)
        return made


def classes_of(scores: Array, frame: Frame, size: tuple[int, int]) -> Array:
    """uint8 [H, W]: the class of the highest score at each pixel of the image of a `frame`, of scores [h, w, C] on a
    grid over the net's input of `size` (height, width). Bilinear between the middles of cells; at the edges and outside
    the nearest cell's."""
    cells = scores.shape[0] / size[0], scores.shape[1] / size[1]
    # the middle of pixel x of the original lies at (x + 1/2 - offset) / scale in the input
    factor = (cells[0] / frame.scale[1], cells[1] / frame.scale[0])
    shift = ((0.5 - frame.offset[1]) * factor[0] - 0.5, (0.5 - frame.offset[0]) * factor[1] - 0.5)
    found = np.empty((frame.height, frame.width), np.uint8)
    kernels.highest(found, np.ascontiguousarray(scores, np.float32), factor, shift)
    return found


def tinted(image: Array, mask: Array) -> Array:
    """An image uint8 [H, W, 3] with the colour of each pixel's class (Pascal VOC's) laid over it; class 0, which is
    black, and 255, what counts nothing, stay as they are."""
    colours = palette()[mask].astype(np.float32)
    over = ((mask != 0) & (mask != 255))[..., None]
    return np.where(over, (1 - TINT) * image + TINT * colours, image).astype(np.uint8)


@dataclass
class _Mask:
    """Writes masks as PNG."""

    stream: BinaryIO
    name: str

    def add(self, prediction: Any) -> None:
        self.stream.write(encoded_map(prediction.answer.value["mask"], border=True))

    def close(self) -> None:
        """Nothing follows."""


@dataclass
class _Cutout:
    """Writes what is of a class, or not of the first, as PNG with an alpha channel, no larger than needed."""

    stream: BinaryIO
    name: str

    def add(self, prediction: Any) -> None:
        cv2 = images.opencv("segmentation: pictures are written")
        (step,) = (steps[-1] for steps in prediction.pipeline.post.values() if steps)
        mask = prediction.answer.value["mask"]
        inside = mask != 0 if step.cutout is None else mask == step.cutout
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        image = images.read(prediction.item, "rgb")
        whole = np.dstack([image[..., ::-1], np.where(inside, 255, 0).astype(np.uint8)])
        part = whole[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] if len(rows) else whole
        self.stream.write(cv2.imencode(".png", part)[1].tobytes())

    def close(self) -> None:
        """Nothing follows."""


def _borders(spans: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """From where to where each span (begin, length) counts, by its begin: up to the middle of what two share."""
    known = dict(sorted(spans))
    begins = list(known)
    middles = [(a + known[a] + b) // 2 for a, b in pairwise(begins)]
    edges = [0, *middles, begins[-1] + known[begins[-1]]]
    return {begin: (edges[i], edges[i + 1]) for i, begin in enumerate(begins)}
