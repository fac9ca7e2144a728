"""Who or what a vector is most like: a gallery of vectors by name, made of a folder by the model that compares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, ShapeError, UsageError
from pdl.files import replacing
from pdl.runtime.arrays import read_arrays
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check, count, number, text
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import PostStep, Ranking, Thresholded, ranked_alike

ENROLLED = Flag(
    "--enrolled",
    "FOLDER|FILE",
    "Answer which of these an input is most like: a folder with a folder, or a file, of each, or what --keep wrote.",
)
KEEP = Flag("--keep", "OUT.npz", "Keep the vectors of --enrolled in this file, for the next --enrolled.")
MOST_BYTES = 1 << 30
SAME = 1e-2  # distance of two vectors of one input by one model, on any machine


def unit(vectors: Array) -> Array:
    """float32: vectors [..., C] over their lengths."""
    made = np.asarray(vectors, np.float64)
    return (made / np.maximum(np.linalg.norm(made, axis=-1, keepdims=True), 1e-12)).astype(np.float32)


@dataclass(frozen=True)
class Enrolment:
    """Vectors by name.

    names    each once
    vectors  float32 [P, C] of length 1: the direction of the mean of the directions of what was given for a name
    probe    float32 [C]: the vector of an input that the model makes up, by which another model is told; [0] of models
             that make none up, or do not take it
    """

    names: Sequence[str]
    vectors: Array
    probe: Array

    flag: ClassVar[Flag] = ENROLLED
    further: ClassVar[Sequence[str]] = ()
    """Arrays of a subclass, by name, with a row for each name."""

    @classmethod
    def of(cls, place: str | Path, predictor: Any) -> Self:
        """What lies at a place, by a predictor that answers {"vector"}: DataError where that is nothing, or vectors of
        another model."""
        path, probe = Path(place).expanduser(), _probe(predictor)
        if path.is_dir():
            return cls._of_folder(path, predictor, probe)
        if path.suffix != ".npz" or not path.is_file():
            have = "no such file or folder" if not path.exists() else "neither a folder nor a file *.npz"
            raise DataError(f"{path}: {have}; name a folder with a folder, or a file, for each, or what --keep wrote")
        return cls._read(path, probe)

    @classmethod
    def _of_folder(cls, path: Path, predictor: Any, probe: Array) -> Self:
        step, names, vectors = predictor.pipeline.input, list[str](), list[Array]()
        for place in sorted(each for each in path.iterdir() if not each.name.startswith(".")):
            given = [each.item for each in step.expand(str(place), 0)]
            name = place.name if place.is_dir() else place.stem
            if name in names:
                raise DataError(f"{place}: there is another {name!r} in {path}; put all of one name into one folder")
            names.append(name)
            found = [answer.value["vector"] for answer in predictor.pipeline.answers(given, predictor.run)]
            vectors.append(unit(unit(np.array(found)).mean(axis=0)))
        if not names:
            raise DataError(f"{path}: an empty folder; put a folder, or a file, into it for each name")
        return cls(names, np.stack(vectors), probe)

    @classmethod
    def _read(cls, path: Path, probe: Array) -> Self:
        advice = f"enrol them again: {cls.flag.name} FOLDER {KEEP.name} FILE"
        try:
            found = read_arrays(path, ("names", "vectors", "probe", *cls.further), MOST_BYTES)
            names, vectors, known = (found[name] for name in ("names", "vectors", "probe"))
        except (ValueError, KeyError) as error:
            raise DataError(f"{path}: no file of enrolled vectors ({error}); {advice}") from None
        good = (
            names.dtype.kind == "U" and names.ndim == 1 and len(set(names.tolist())) == len(names) > 0
            and vectors.dtype == known.dtype == np.float32 and vectors.ndim == 2 and len(vectors) == len(names)
            and known.ndim == 1 and np.isfinite(vectors).all() and np.isfinite(known).all()
            and all(cls.fits(found[name], len(names)) for name in cls.further)
        )  # fmt: skip
        if not good:
            raise DataError(f"{path}: no file of enrolled vectors; {advice}")
        if known.shape != probe.shape or np.linalg.norm(known - probe) > SAME:
            raise DataError(f"{path}: enrolled by another model, whose vectors mean something else; {advice}")
        return cls(names.tolist(), unit(vectors), known, *(found[name] for name in cls.further))

    @classmethod
    def fits(cls, array: Array, count: int) -> bool:
        """Whether an array of `further` is one of so many names."""
        raise NotImplementedError(f"{cls.__name__}.further, so it must define fits")

    @classmethod
    def named(cls, values: Mapping[str, Sequence[str]], predictor: Any) -> Self | None:
        """What options of a command line name, kept where they say so; None where they name nothing."""
        places, targets, name = values.get(cls.flag.name, ()), values.get(KEEP.name, ()), cls.flag.name
        if not places:
            check(not targets, f"{KEEP.name} keeps the vectors of {name}: add {name} FOLDER")
            return None
        check(len(places) == 1, f"{name} is given {len(places)} times; put all into one folder")
        known = cls.of(places[0], predictor)
        for target in targets:
            known.write(target)
        return known

    def write(self, path: str | Path) -> None:
        """A *.npz that `of` reads."""
        if Path(path).suffix != ".npz":
            raise UsageError(f"{KEEP.name} {path}: vectors are kept in a file *.npz")
        with replacing(Path(path).expanduser()) as part, part.open("wb") as file:
            more = {name: getattr(self, name) for name in self.further}
            np.savez(file, names=np.array(self.names), vectors=self.vectors, probe=self.probe, **more)


def _probe(predictor: Any) -> Array:
    items = predictor.pipeline.input.samples(np.random.default_rng(0))[:1]
    try:
        answers = predictor.pipeline.answers(items, predictor.run) if items else []
    except ShapeError:  # of a model for inputs of one size, which none of its steps brings about
        return np.zeros(0, np.float32)
    return unit(np.array(answers[0].value["vector"])) if answers else np.zeros(0, np.float32)


class Gallery(PostStep):
    """{"vector": float32 [C] as a list}. With `--enrolled` who or what the input is most like: `Enrolled`.

    threshold  the least cosine with one that is enrolled; null: the nearest one always answers
    nobody     the answer where no cosine reaches that
    k          how many of the nearest an answer has
    """

    name = "gallery"

    def __init__(self, threshold: float | None = None, nobody: str = "nobody", k: int = 5) -> None:
        self.threshold = None if threshold is None else number("threshold", threshold, -1, 1)
        self.nobody, self.k = text("nobody", nobody), count("k", k)

    def __call__(self, value: Any, sample: Sample) -> Any:
        check(value.ndim == 1, f"gallery: {value.shape} is no vector")
        return {"vector": value.tolist()}

    @property
    def flags(self) -> Sequence[Flag]:
        return (ENROLLED, KEEP)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        known = Enrolment.named(values, predictor)
        if known is None:
            return self
        check(self.nobody not in known.names, f"{ENROLLED.name}: {self.nobody!r} is the answer for none; rename it")
        return Enrolled(known, -1.0 if self.threshold is None else self.threshold, self.nobody, self.k)


class Enrolled(Ranking, Thresholded):
    """{"label", "score", "top": [{"label", "score"} of the k nearest]} of a vector [C]: the name in an enrolment with
    the largest cosine, which is the score, or `nobody` where that is below `score`."""

    any_script: ClassVar[bool] = True

    def __init__(self, known: Enrolment, score: float, nobody: str, k: int) -> None:
        self.known, self.score, self.nobody, self.k = known, score, nobody, k

    def __call__(self, value: Any, sample: Sample) -> Any:
        cosines = self.known.vectors @ unit(value)
        best = np.argsort(-cosines, kind="stable")[: self.k]
        top = [{"label": self.known.names[i], "score": float(cosines[i])} for i in best.tolist()]
        label = top[0]["label"] if top[0]["score"] >= self.score else self.nobody
        return {"label": label, "score": top[0]["score"], "top": top}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        nobody = answer["label"] == self.nobody
        return [{"label": self.nobody, "score": answer["score"]}] if nobody else list(answer["top"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Scores as close as that to the threshold, or to each other, may change the answer."""
        near = abs(ours["score"] - self.score) <= tolerance or self.nobody not in (ours["label"], theirs["label"])
        return (ours["label"] == theirs["label"] or near) and ranked_alike(
            ours["top"], theirs["top"], "label", tolerance
        )

    def caption(self, answer: Any) -> str:
        return f"{answer['label']}  {answer['score']:.2f}"


STEPS = (Gallery,)
