"""The step `nearest`: which pictures of a gallery an image is nearest to, by embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Self

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.ranking import top_products
from pdl.runtime import images
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.steps import Sample
from pdl.runtime.steps.arguments import check, count, number, text
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.gallery import KEEP, Enrolment, unit
from pdl.runtime.steps.inputs import Flag, InputStep
from pdl.runtime.steps.outputs import Kept, PostStep, Ranking, Thresholded, ranked_alike
from pdl.vocabulary import Vocabulary

GALLERY = Flag(
    "--gallery",
    "FOLDER|FILE",
    "Answer which pictures of this folder an image is nearest to, or of what --keep wrote; folders in it are classes.",
)
SIDE = 64  # pixels of the pictures that a gallery keeps
DRAWN = 128  # of those that are drawn
GAP = 6


@dataclass(frozen=True)
class Pictures(Enrolment):
    """Pictures by their paths in a folder; a vector is that of one picture.

    pictures  uint8 [P, 64, 64, 3]: small, on white
    """

    pictures: Array

    flag: ClassVar[Flag] = GALLERY
    further: ClassVar[Sequence[str]] = ("pictures",)

    @classmethod
    def _of_folder(cls, path: Path, predictor: Any, probe: Array) -> Self:
        step, names, vectors, pictures = predictor.pipeline.input, list[str](), list[Array](), list[Array]()
        given = list(step.expand(str(path), 0))
        for begin in range(0, len(given), step.batch_size):
            part = given[begin : begin + step.batch_size]
            found = predictor.pipeline.answers([each.item for each in part], predictor.run)
            vectors += [np.array(answer.value["vector"], np.float32) for answer in found]
            names += [Path(each.item).relative_to(path).as_posix() for each in part]
            pictures += [boxed(images.read(each.item, "rgb"), SIDE) for each in part]
        if not names:
            raise DataError(f"{path}: it has no images; put some there, those of a class into a folder of its own")
        return cls(names, unit(np.stack(vectors)), probe, np.stack(pictures))

    @classmethod
    def fits(cls, array: Array, count: int) -> bool:
        return array.dtype == np.uint8 and array.shape == (count, SIDE, SIDE, 3)


class Nearest(PostStep):
    """{"vector": float32 [C] as a list}. With `--gallery` the pictures there that are nearest: `InGallery`.

    threshold  the least cosine with a picture that shows the same; null: the nearest one always answers
    nothing    the answer where no cosine reaches that
    k          how many of the nearest an answer has
    """

    name = "nearest"
    keeps = True

    def __init__(self, threshold: float | None = None, nothing: str = "nothing", k: int = 5) -> None:
        self.threshold = None if threshold is None else number("threshold", threshold, -1, 1)
        self.nothing, self.k = text("nothing", nothing), count("k", k)

    def __call__(self, value: Any, sample: Sample) -> Any:
        check(value.ndim == 1, f"nearest: {value.shape} is no vector")
        return {"vector": value.tolist()}

    @property
    def flags(self) -> Sequence[Flag]:
        return (GALLERY, KEEP)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        known = Pictures.named(values, _Embeds(predictor))
        if known is None:
            return self
        made = InGallery("gallery", self.threshold, self.nothing, self.k)
        made.known = known
        return made

    def kept(self) -> Kept:
        return Kept()

    def caption(self, answer: Any) -> str:
        raise UsageError(f"this model's answers are vectors, which cannot be drawn; add {GALLERY.name} FOLDER")


class InGallery(Nearest, Ranking, Thresholded):
    """{"label", "score", "top": [{"label", "name", "score", "distance"} of the k nearest pictures of a gallery]}.
    `label` is that of the nearest one, `score` its cosine, `distance` that of the unit vectors, sqrt(2 - 2 cosine). The
    label of a picture is the folder that it lies in, or its name where it lies in none.

    gallery  one in the bundle, unless `--gallery` names another: a vocabulary of this name has the paths of its
             pictures, constants NAME.vectors and NAME.pictures the rest
    All else is as in `Nearest`.
    """

    name = "nearest_in"
    any_script: ClassVar[bool] = True
    known: Pictures

    def __init__(self, gallery: str, threshold: float | None = None, nothing: str = "nothing", k: int = 5) -> None:
        super().__init__(threshold, nothing, k)
        self.gallery = text("gallery", gallery)
        self.score = -1.0 if self.threshold is None else self.threshold

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.gallery, self.name)
        names = resources.vocabularies[self.gallery].names
        vectors, pictures = (resources.constants.get(f"{self.gallery}.{part}") for part in ("vectors", "pictures"))
        if vectors is None or pictures is None or not (
            vectors.ndim == 2 and vectors.dtype == np.float32 and len(vectors) == len(names) > 0
            and np.isfinite(vectors).all() and Pictures.fits(pictures, len(names))
        ):  # fmt: skip
            raise UsageError(f"nearest_in: the gallery {self.gallery!r:.60} lacks vectors or pictures of its names")
        self.known = Pictures(names, vectors, np.zeros(0, np.float32), pictures)

    def __call__(self, value: Any, sample: Sample) -> Any:
        names, vectors = self.known.names, self.known.vectors
        check(value.shape == vectors.shape[1:], f"nearest_in: {value.shape} is no vector of {vectors.shape[1]} numbers")
        scores, rows = top_products(unit(value)[None], vectors, min(self.k, len(vectors)), first=0)
        top = [
            {
                "label": label_of(names[row]),
                "name": names[row],
                "score": score,
                "distance": float(np.sqrt(max(0.0, 2 - 2 * score))),
            }
            for score, row in zip(scores[0].tolist(), rows[0].tolist(), strict=True)
        ]
        label = top[0]["label"] if top[0]["score"] >= self.score else self.nothing
        return {"label": label, "score": top[0]["score"], "top": top}

    def kept(self) -> Kept:
        return Kept(
            arguments={"step": self.name, "gallery": self.gallery},
            vocabularies={self.gallery: Vocabulary(self.known.names)},
            constants={f"{self.gallery}.vectors": self.known.vectors, f"{self.gallery}.pictures": self.known.pictures},
            about={"gallery": f"{len(self.known.names):,} pictures"},
        )

    # -- for people ----------------------------------------------------------------------------------------------------
    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["top"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Scores as close as that to the threshold, or to each other, may change the answer."""
        return ranked_alike(ours["top"], theirs["top"], "name", tolerance)

    def caption(self, answer: Any) -> str:
        return f"{answer['label']}  {answer['score']:.2f}"

    def draw(self, item: Any, answer: Any, source: InputStep) -> Drawing:
        """The image, and to its right the nearest pictures, framed green from the threshold on, red below."""
        plain = source.draw(item, self.caption(answer), ())
        assert plain.image is not None
        place = {name: row for row, name in enumerate(self.known.names)}
        pictures = [plain.image, *(self.known.pictures[place[each["name"]]] for each in answer["top"])]
        strip = np.full((DRAWN, len(pictures) * (DRAWN + GAP) - GAP, 3), 255, np.uint8)
        marks = []
        for k, picture in enumerate(pictures):
            left = k * (DRAWN + GAP)
            strip[:, left : left + DRAWN] = boxed(picture, DRAWN)
            if k:
                each, right, low = answer["top"][k - 1], left + DRAWN - 1, DRAWN - 1
                corners = [[left, 0], [right, 0], [right, low], [left, low]]
                said = f"{each['score']:.2f} {each['label']}"
                marks.append(Mark(corners, label=said, colour=2 if each["score"] >= self.score else 1))
        return replace(plain, image=strip, marks=marks, any_script=not plain.caption.isascii())


@dataclass(frozen=True)
class _Embeds:
    """A predictor whose answers are vectors, whatever gallery its bundle has."""

    predictor: Any

    @property
    def pipeline(self) -> Any:
        made = copy(self.predictor.pipeline)
        made.post = {name: [*steps[:-1], Nearest()] for name, steps in made.post.items()}
        return made

    def run(self, inputs: Any, /) -> Any:
        """The outputs of the predictor."""
        return self.predictor.run(inputs)


def label_of(name: str) -> str:
    """Of a picture's path in a gallery: the folder, or, where it lies in none, its name without ending."""
    path = PurePosixPath(name)
    return path.stem if str(path.parent) == "." else str(path.parent)


def boxed(image: Array, side: int) -> Array:
    """An image uint8 [H, W, 3] on a white square, its longer side as long as that."""
    height, width = image.shape[:2]
    scale = side / max(height, width)
    size = max(1, round(height * scale)), max(1, round(width * scale))
    made = np.full((side, side, 3), 255, np.uint8)
    top, left = (side - size[0]) // 2, (side - size[1]) // 2
    made[top : top + size[0], left : left + size[1]] = images.resize(np.ascontiguousarray(image), size)
    return made


def framed(image: Array, *, right: bool) -> Array:
    """A copy of an image uint8 [H, W, 3] in a frame, green or red."""
    made = np.pad(image, ((4, 4), (4, 4), (0, 0)))
    inside = made[4:-4, 4:-4].copy()
    made[:] = (44, 160, 44) if right else (214, 39, 40)
    made[4:-4, 4:-4] = inside
    return made
