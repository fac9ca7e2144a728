"""Look lines of text over before training: characters that cannot be read, texts that do not fit their images, lines
that are turned or tiny, images with two texts. Lines of two splits are found by their pixels, as other images."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from pdl.data import Dataset
from pdl.data.checks import Progress, check, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import PdlError
from pdl.train import Recipe
from pdl_ocr.data.lines import TextLines
from pdl_ocr.data.synthetic import SyntheticLines
from pdl_ocr.models.recogniser import Recogniser
from pdl_ocr.recognition.loader import Widths, ratios_of, standing, texts_of
from pdl_ocr.scripts import is_right_to_left, logical

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition

SHOWN = 5  # faults of a kind and split
MOST = 1000  # faults of a kind that are gathered
TINY = 6  # pixels of height
SQUEEZED = 1.25  # times narrower than its proportions are, from which on a line counts as squeezed
FEW = 0.01  # of the lines may be squeezed
TURNED = 1.5  # times as high as wide


def check_recipe(recipe: Recipe, task: TextRecognition, progress: Progress | None = None) -> list[Fault]:
    """Faults of the lines of a recipe: of their files, their texts, and of both together."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    faults = check(sources, progress=progress)
    found = {split: data for split, data in open_all(sources, []).items() if len(data)}
    try:
        task.skip = True  # what cannot be learned is listed, rather than ending it
        task.prepare(recipe, found)
        if isinstance(net := task.model(recipe), Recogniser):
            task.take(net)
    except PdlError as error:
        return [*faults, Fault(None, None, str(error), "see above")]
    for split, data in found.items():
        long = _long(task, recipe, data, split)
        shapes = _shapes(task, data, split)
        for kind in (_empty(data), _unknown(task, data), _unordered(data), long, shapes, _ambiguous(data)):
            faults += shorten(list(islice(kind, MOST)), SHOWN, split)
        faults += _alike(task, data, split) + _squeezed(recipe, data, split)
    return faults


def _empty(data: Dataset) -> Iterator[Fault]:
    for index, text in enumerate(texts_of(data)):
        if not text.strip():
            yield Fault(data.path_of(index), index, "its text is empty", "write what it says, or leave the line out")


def _unknown(task: TextRecognition, data: Dataset) -> Iterator[Fault]:
    """One fault for each character that is not in the dictionary, the most frequent first."""
    counts, first = Counter[str](), dict[str, int]()
    for index, text in enumerate(texts_of(data)):
        for character in task.seen(text):
            if character not in task.numbers:
                counts[character] += 1
                first.setdefault(character, index)
    for character, count in counts.most_common():
        index = first[character]
        name = unicodedata.name(character, f"U+{ord(character):04X}").lower()
        what = f"the character {character!r} ({name}) is not in the dictionary, {count} times; here first"
        yield Fault(data.path_of(index), index, what, "add it (task.characters, task.dictionary), or task.skip=true")


def _unordered(data: Dataset) -> Iterator[Fault]:
    """Texts of scripts written from right to left that begin with what ends a sentence: they are stored as they are
    seen, and not in the order in which they are typed. Those that are drawn are right as they are."""
    if isinstance(data, SyntheticLines):
        return
    for index, text in enumerate(texts_of(data)):
        if is_right_to_left(text) and text[0] in ".,؟،؛!?:" and text[-1] not in ".,؟،؛!?:":
            what = f"{text!r:.40} looks as if it were written backwards"
            advice = "store texts in logical order, as they are typed; the task reverses them itself"
            yield Fault(data.path_of(index), index, what, advice)


def _alike(task: TextRecognition, data: Dataset, split: str) -> list[Fault]:
    """One warning of texts in two directions that are seen as another text is, which is what the task answers."""
    read = [(index, text, logical(task.seen(text))) for index, text in enumerate(texts_of(data))]
    found = [each for each in read if each[2] != task.clean(each[1])]
    if not found:
        return []
    index, text, other = found[0]
    what = f"{text!r:.40} looks just like {other!r:.40}, which is what will be read; {len(found)} such texts are there"
    advice = "no image tells them apart: measured, they are mistakes"
    return [Fault(data.path_of(index), index, what, advice, split=split, severity="warning")]


def _long(task: TextRecognition, recipe: Recipe, data: Dataset, split: str) -> Iterator[Fault]:
    if task.net is None:
        return
    texts = texts_of(data)
    needed, steps = task.needed(texts), task.steps(data, recipe, training=split == "train")
    for index in np.flatnonzero(needed > steps).tolist():
        what = f"{texts[index]!r:.40} needs {needed[index]} steps, the image gives {steps[index]}"
        yield Fault(data.path_of(index), index, what, task.net.too_long()[1])


def _squeezed(recipe: Recipe, data: Dataset, split: str) -> list[Fault]:
    """One warning of lines too wide for the transforms, which make them narrower than their proportions are."""
    training = split == "train"
    resize = Widths(recipe.data.transforms(training=training)).resize
    ratios = ratios_of(data)
    squeezed = np.flatnonzero(ratios * resize.height > SQUEEZED * resize.width)
    if len(squeezed) < FEW * len(ratios):
        return []
    widest = int(np.argmax(ratios))
    enough = int(-(-np.quantile(ratios, 1 - FEW) * resize.height // 32) * 32)
    what = (
        f"{len(squeezed)} of {len(ratios)} lines are squeezed into the {resize.width} pixels of ResizeHeight, by up to "
        f"{ratios[widest] * resize.height / resize.width:.1f} times; here the most"
    )
    advice = f"give it a width of {enough} (data.transforms.eval), or cut long lines"
    return [Fault(data.path_of(widest), widest, what, advice, split=split, severity="warning")]


def _shapes(task: TextRecognition, data: Dataset, split: str) -> Iterator[Fault]:
    """Lines that stand upright, where the task does not read them so, and lines of pages that are tiny."""
    texts, known = texts_of(data), task.tall is not None
    upright = standing(data, task.tall or TURNED) if split == "train" or not known else np.zeros(0, bool)
    for index in np.flatnonzero(upright).tolist():
        what = f"higher than wide, but it says {texts[index]!r:.40}" + known * ": it is left out of training"
        advice = "turn it, so that it is read from left to right"
        yield Fault(data.path_of(index), index, what, advice, severity="warning" if known else "error")
    for index, line in enumerate(getattr(data, "lines", ()) if isinstance(data, TextLines) else ()):
        if line.polygon is not None:
            corners = np.array(line.polygon)
            if np.ptp(corners[:, 1]) < TINY:
                what = f"{line.text!r:.40} is {np.ptp(corners[:, 1]):.0f} pixels high"
                yield Fault(str(line.image), index, what, "leave out what cannot be read")
            elif _crosses(corners):
                yield Fault(str(line.image), index, f"the polygon of {line.text!r:.40} crosses itself", "correct it")


def _crosses(corners: np.ndarray) -> bool:
    """Whether two edges of a polygon [P, 2] that have no corner in common cross."""
    count = len(corners)
    edges = [(corners[i], corners[(i + 1) % count]) for i in range(count)]
    return any(
        _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0
        for i, (a, b) in enumerate(edges)
        for j, (c, d) in enumerate(edges)
        if j > i + 1 and (j + 1) % count != i
    )


def _side(a: np.ndarray, b: np.ndarray, point: np.ndarray) -> float:
    return float((b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0]))


def _ambiguous(data: Dataset) -> Iterator[Fault]:
    """Image files with the same bytes and different texts."""
    first: dict[str, int] = {}
    lines = data.lines if isinstance(data, TextLines) else []
    for index, line in enumerate(lines):
        if line.polygon is None:
            other = lines[first.setdefault(_hash(str(line.image)), index)]
            if other.text != line.text:
                what = f"says {line.text!r:.40}, but {other.image.name}, which is the same image, {other.text!r:.40}"
                yield Fault(str(line.image), index, what, "correct one of them")


def _hash(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # reported by the check of files
        return path
