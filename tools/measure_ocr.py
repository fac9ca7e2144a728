"""The numbers in the cards of the OCR models: reading words, finding lines, telling upright lines from turned ones.

    python tools/measure_ocr.py words ocr/ppocr_v4_rec icdar2015_words.zip --list test.txt
    python tools/measure_ocr.py boxes ocr/ppocr_v4_det sroie_dev200.zip
    python tools/measure_ocr.py angle ocr/ppocr_v4_cls icdar2015_words.zip --list test.txt
    python tools/measure_ocr.py angle ocr/ppocr_v4_cls sroie_dev200.zip
    python tools/measure_ocr.py pages ocr/ppocr_v4 sroie_dev200.zip
    python tools/measure_ocr.py pages ocr/ppocr_v4 sroie_dev200.zip --turned 90
    python tools/measure_ocr.py pages ocr/ppocr_v4_det pages.zip --recogniser runs/lines/model.pdl

A model is a name of the hub or the path of a bundle. Data are archives as they are commonly handed on: words with a
list "file TAB text"; receipts (SROIE, ICDAR 2019) with img/NNN.jpg and box/NNN.txt, a line
"x1,y1,x2,y2,x3,y3,x4,y4,text" for each line of text.

words   shares of words read right: exact (every character, case and mark as in the list) and plain (letters A-Z and
        digits only, case ignored: the protocol of most papers on scene text); words with no such character count in
        the first alone
boxes   polygons matched one to one, by falling intersection over union, from 0.5 on (the protocol of ICDAR 2015);
        precision, recall and their harmonic mean over all pictures together
angle   share of lines whose side up is told right, each shown upright and turned by 180 degrees: words of a list, or
        the lines of receipts as their corners say. "sure" are answers above 0.9, the only ones that a reader follows
pages   lines of a page found (as in boxes) and read right, spaces and case ignored: SROIE's lists are in capitals, and
        say nothing of the width of gaps; precision, recall and their harmonic mean. "characters" is the share of
        characters read right in the lines that were found: 1 - edit distance / length of the longer text
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from pdl.errors import DataError
from pdl.runtime.images import decode

Numbers = dict[str, float]
Predict = Callable[[list[Any]], list[Any]]


SURE = 0.5  # of a text, below which PP-OCR's readers leave a line out


# -- data --------------------------------------------------------------------------------------------------------------
def words(data: Path, listing: str, most: int) -> Iterator[tuple[np.ndarray, str]]:
    """Pictures of words with their texts."""
    with zipfile.ZipFile(data) as archive:
        name = _only(archive, listing)
        folder = PurePosixPath(name).parent
        for line in archive.read(name).decode("utf-8-sig").splitlines()[:most]:
            file, _, text = line.partition("\t")
            yield decode(archive.read(str(folder / file)), "rgb", file), text


def receipts(data: Path, most: int) -> Iterator[tuple[np.ndarray, list[tuple[np.ndarray, str]]]]:
    """Pictures of pages with the corners and texts of their lines."""
    with zipfile.ZipFile(data) as archive:
        images = [PurePosixPath(n) for n in archive.namelist() if n.endswith(".jpg")]
        pages = sorted(n for n in images if n.parent.name == "img")[:most]
        if not pages:
            raise DataError(f"{data}: no page img/NNN.jpg is there")
        for page in pages:
            name = str(page)
            listed = archive.read(str(page.parent.with_name("box") / f"{page.stem}.txt")).decode("utf-8-sig")
            lines = [line.split(",", 8) for line in listed.splitlines() if line.strip()]
            truth = [(np.array(part[:8], np.float32).reshape(4, 2), part[8]) for part in lines]
            yield decode(archive.read(name), "rgb", name), truth


def _only(archive: zipfile.ZipFile, listing: str) -> str:
    found = [name for name in archive.namelist() if PurePosixPath(name).name == listing]
    if len(found) != 1:
        raise DataError(f"{archive.filename}: {len(found)} files {listing}, expected one; name the list with --list")
    return found[0]


# -- measures ----------------------------------------------------------------------------------------------------------
def measure_words(predict: Predict, args: argparse.Namespace) -> Numbers:
    """Shares of words read right."""
    pictures, texts = zip(*words(args.data, args.list, args.most), strict=True)
    read = [answer["text"] for answer in predict(list(pictures))]
    pairs = [(plain(ours), plain(text)) for ours, text in zip(read, texts, strict=True) if plain(text)]
    return {
        "words": len(texts),
        "exact": float(np.mean([ours == text for ours, text in zip(read, texts, strict=True)])),
        "plain_words": len(pairs),
        "plain": float(np.mean([ours == text for ours, text in pairs])),
    }


def plain(text: str) -> str:
    """Letters A-Z as small ones and digits; nothing else."""
    return "".join(c for c in text.lower() if c.isascii() and c.isalnum())


def measure_angle(predict: Predict, args: argparse.Namespace) -> Numbers:
    """Share of lines whose side up is told right."""
    upright = [x for x, _ in words(args.data, args.list, args.most)] if args.list else list(lines(args.data, args.most))
    found = []
    for label, pictures in (("0", upright), ("180", [np.ascontiguousarray(x[::-1, ::-1]) for x in upright])):
        found += [(answer["label"] == label, answer["score"] > 0.9) for answer in predict(pictures)]
    right, sure = np.array(found).T
    n = len(upright)
    return {
        "lines": n, "right_upright": float(right[:n].mean()), "right_turned": float(right[n:].mean()),
        "right": float(right.mean()), "sure": float(sure.mean()), "right_where_sure": float(right[sure].mean()),
    }  # fmt: skip


def lines(data: Path, most: int) -> Iterator[np.ndarray]:
    """The lines of pages, cut out."""
    from pdl_ocr.reading import straightened

    for picture, truth in receipts(data, most):
        yield from (straightened(picture, corners) for corners, _ in truth)


def measure_boxes(predict: Predict, args: argparse.Namespace) -> Numbers:
    """Precision, recall and harmonic mean of boxes."""
    matched = expected = given = pages = 0
    for picture, truth in receipts(args.data, args.most):
        boxes = [np.array(each["polygon"], np.float32) for each in predict([picture])[0]["boxes"]]
        matched += len(matches(boxes, [corners for corners, _ in truth], args.overlap))
        expected, given, pages = expected + len(truth), given + len(boxes), pages + 1
    return {"pages": pages, "lines": expected, "boxes": given, **_scores(matched, given, expected)}


def matches(ours: list[np.ndarray], truth: list[np.ndarray], least: float) -> list[tuple[int, int]]:
    """Pairs of polygons, the best first, each polygon in one at most."""
    import cv2

    pairs = []
    for i, a in enumerate(ours):
        for j, b in enumerate(truth):
            if (a.min(0) < b.max(0)).all() and (b.min(0) < a.max(0)).all():
                both = cv2.intersectConvexConvex(a, b)[0]
                overlap = both / max(cv2.contourArea(a) + cv2.contourArea(b) - both, 1e-9)
                if overlap >= least:
                    pairs.append((overlap, i, j))
    taken: list[tuple[int, int]] = []
    for _, i, j in sorted(pairs, reverse=True):
        if all(i != one and j != other for one, other in taken):
            taken.append((i, j))
    return taken


def measure_pages(predict: Predict, args: argparse.Namespace) -> Numbers:
    """Precision, recall and harmonic mean of lines read right."""
    matched = expected = given = pages = 0
    shares = []
    for picture, truth in receipts(args.data, args.most):
        picture, truth = turned(picture, truth, args.turned)
        ours = predict([picture])[0]["lines"]
        polygons = [np.array(each["polygon"], np.float32) for each in ours]
        for i, j in matches(polygons, [corners for corners, _ in truth], args.overlap):
            a, b = ("".join(text.lower().split()) for text in (ours[i]["text"], truth[j][1]))
            matched += a == b
            shares.append(1 - distance(a, b) / max(len(a), len(b), 1))
        expected, given, pages = expected + len(truth), given + len(ours), pages + 1
    scores = _scores(matched, given, expected)
    return {"pages": pages, "lines": expected, "read": given, **scores, "characters": float(np.mean(shares))}


def turned(
    picture: np.ndarray, truth: list[tuple[np.ndarray, str]], degrees: float
) -> tuple[np.ndarray, list[tuple[np.ndarray, str]]]:
    """A page turned clockwise, with its lines."""
    from pdl_ocr.rectify import Rectified

    page = Rectified.of(picture.shape[:2], None, -np.radians(degrees))
    if page is None:
        return picture, truth
    return page.image(picture), [(page.forth(corners).astype(np.float32), text) for corners, text in truth]


def distance(a: str, b: str) -> int:
    """The edit distance of Levenshtein."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def _scores(matched: int, given: int, expected: int) -> Numbers:
    precision, recall = matched / max(given, 1), matched / max(expected, 1)
    return {"precision": precision, "recall": recall, "hmean": 2 * matched / max(given + expected, 1)}


# -- the command -------------------------------------------------------------------------------------------------------
def predictor(model: str, recogniser: str | None, threads: int | None) -> Predict:
    """What answers for a list of pictures, 32 at a time."""
    from pdl.export.from_hub import bundle_of, open_system
    from pdl.hub import systems
    from pdl.runtime import load
    from pdl_ocr import Reader

    system = systems.system(model)
    made: Any = open_system(system, threads=threads) if system else load(bundle_of(model), threads=threads)
    if recogniser is not None:
        made = Reader(made, load(bundle_of(recogniser), threads=threads), score=SURE)

    def predict(pictures: list[Any]) -> list[Any]:
        return [answer for i in range(0, len(pictures), 32) for answer in made.batch(pictures[i : i + 32])]

    return predict


MEASURES = {"words": measure_words, "boxes": measure_boxes, "angle": measure_angle, "pages": measure_pages}


def main() -> int:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("model", help="a name of the hub, or a bundle")
    parser.add_argument("--recogniser", help="of pages, where the model is a detector")
    parser.add_argument("data", type=Path, help="the archive")
    parser.add_argument("--list", help="the list of words in the archive, such as test.txt")
    parser.add_argument("--most", type=int, help="only the first so many pictures")
    parser.add_argument("--overlap", type=float, default=0.5, help="from which polygons match")
    parser.add_argument("--turned", type=float, default=0, help="degrees by which pages are turned clockwise")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    found = MEASURES[args.measure](predictor(args.model, args.recogniser, args.threads), args)
    print(json.dumps({"measure": args.measure, "model": args.model, "data": args.data.name, **found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
