"""Texts to be found: lines of files, and passages of the files of a folder; an index of vectors that is kept."""

from __future__ import annotations

import hashlib
import io
import json
from bisect import bisect_left, bisect_right
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from pdl import watch
from pdl.dtype import Array
from pdl.errors import DataError, UsageError, listed
from pdl.files import PACKED, cache_root, write_atomic
from pdl.ranking import top_k
from pdl.runtime import tables
from pdl.runtime.sample import Sample
from pdl_nlp.tokenizers.base import Tokenizer

WINDOW = 126  # tokens of a passage, without the special ones; a quarter of them are those of the one before
FOLDER = "search"  # of kept indices, in the cache


class Passage(NamedTuple):
    """A text, and where it is from: file:line, or file:first-last."""

    text: str
    place: str


def passages_in(place: str, tokenizer: Tokenizer, window: int = WINDOW) -> list[Passage]:
    """The lines of a file, or the texts of all files in a folder by their paths inside of it; cut into passages where
    they have more than `window` tokens. Files of a folder that are no texts are left out, which is said."""
    path = Path(place)
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
        others = [str(each.relative_to(path)) for each in files if not _is_text(each)]
        if others:
            watch.note(f"--search {place}: {len(others)} of {len(files)} files are no texts: {listed(others, 3)}")
            files = [each for each in files if str(each.relative_to(path)) not in others]
        whole = ((str(each.relative_to(path)), _text(str(each))) for each in files)
        return [
            Passage(text, f"{name}:{first}" if first == last else f"{name}:{first}-{last}")
            for name, lines in whole
            for text, first, last in cut(lines, tokenizer, window)
        ]
    if not path.is_file() and place != "-":
        raise UsageError(f"--search {place}: no such file or folder; name a file of lines, or a folder of text files")
    lines = enumerate(_text(place).split("\n"), 1)
    found = ((number, text) for number, line in lines for text, *_ in cut(line, tokenizer, window))
    return [Passage(text, f"{place}:{number}") for number, text in found]


def cut(text: str, tokenizer: Tokenizer, window: int) -> Iterator[tuple[str, int, int]]:
    """Passages of whole words, of at most `window` tokens each, white space in them single: their texts, and the
    numbers of their first and last lines from 1. What has no token has none."""
    made = tokenizer.encode_many([text])
    if not len(made.ids):
        return
    lines = [place for place, letter in enumerate(text) if letter == "\n"]
    begins = [0, *(np.flatnonzero(np.diff(made.words)) + 1).tolist(), len(made.ids)]
    for start, stop in _windows(begins, window):
        begin, end = int(made.offsets[start, 0]), int(made.offsets[stop - 1, 1])
        # the first passage begins, and the last one ends, as the text does: signs that are no token belong to them
        begin, end = begin if start else 0, end if stop < len(made.ids) else len(text)
        part = text[begin:end]
        begin, end = begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())
        yield " ".join(part.split()), bisect_left(lines, begin) + 1, bisect_left(lines, end) + 1


def _windows(begins: Sequence[int], window: int) -> Iterator[tuple[int, int]]:
    """Ends of windows of tokens, of words that begin at `begins`, the end of the last one behind them. A word that is
    longer than a window is cut."""
    if longest := [(a, b) for a, b in pairwise(begins) if b - a > window]:
        begins = sorted({*begins, *(place for a, b in longest for place in range(a, b, window))})
    start, last = 0, begins[-1]
    while True:
        stop = begins[bisect_right(begins, start + window) - 1]
        yield start, stop
        if stop == last:
            return
        start = max(begins[bisect_right(begins, stop - window // 4) - 1], begins[bisect_right(begins, start)])


@dataclass(frozen=True)
class TextIndex:
    """Passages, and their vectors float32 [N, C] of length 1."""

    passages: Sequence[Passage]
    vectors: Array

    @classmethod
    def of(cls, places: Sequence[str], predictor: Any) -> TextIndex:
        """Of files and folders, by a model that gives vectors."""
        step = predictor.pipeline.input
        window = max(1, min(WINDOW, step.max_length - 2))
        found = list[tuple[Passage, Array]]()
        for place in places:
            passages = passages_in(place, step.tokenizer, window)
            vectors = zip(passages, kept(place, passages, predictor), strict=True)
            found += [(passage, vector) for passage, vector in vectors if vector is not None]
        if not found:
            raise DataError("--search: no text there has a token that the model knows; give lines of text")
        return cls([passage for passage, _ in found], unit(np.stack([vector for _, vector in found])))

    def search(self, queries: Array, k: int) -> tuple[Array, Array]:
        """Cosines [Q, k] and numbers of the nearest passages int64 [Q, k] of vectors [Q, C], nearest first."""
        return top_k(unit(queries) @ self.vectors.T, min(k, len(self.passages)), first=0)


def unit(vectors: Array) -> Array:
    """Vectors [N, C] with the length 1; one of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def vectors_of(texts: Sequence[str], predictor: Any) -> list[Array | None]:
    """The vector of each text by a model whose output `vector` is one; None where a text has no token. Texts of about
    one length go through the net together; `pdl.watch.steps` hears how many are done."""
    pipeline, found, samples = predictor.pipeline, list[Array | None]([None] * len(texts)), dict[int, Sample]()
    for number, text in enumerate(texts):
        try:
            samples[number] = pipeline.parse(pipeline.input.candidate(text))
        except DataError:
            continue
    numbers, done = list(samples), 0
    for members, inputs in pipeline.batches(list(samples.values())):
        for member, vector in zip(members, predictor.run(inputs)["vector"], strict=True):
            found[numbers[member]] = vector
        done += len(members)
        watch.steps("vectors of texts", done, len(numbers))
    return found


def kept(place: str, passages: Sequence[Passage], predictor: Any) -> list[Array | None]:
    """The vector of each passage by a model; None of one without tokens. Those that an earlier search in this place by
    this model has made come from the cache (the folder search of `pdl.files.cache_root()`: a file for each place and
    model, with as many bytes as the vectors have), which is brought up to date: what has changed is computed, what is
    gone is left out."""
    keys = [hashlib.blake2b(each.text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for each in passages]
    file = None if place == "-" else _file(place, predictor)
    before = {} if file is None else _read(file)
    new = {key: each.text for key, each in zip(keys, passages, strict=True) if key not in before}
    made = zip(new, vectors_of(list(new.values()), predictor), strict=True)
    known = before | {key: vector for key, vector in made if vector is not None}
    found = {key: known[key] for key in keys if key in known}
    if file is not None and found.keys() != before.keys():
        _write(file, found)
    return [found.get(key) for key in keys]


def _file(place: str, predictor: Any) -> Path | None:
    """The index of a place; None for a model that is no bundle, which has no hash."""
    bundle = getattr(predictor, "bundle", None)
    if bundle is None:
        return None
    named = [str(Path(place).resolve()), bundle.meta["members"]]
    return cache_root() / FOLDER / f"{hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:32]}.npz"


def _read(file: Path) -> dict[bytes, Array]:
    """Vectors by the hashes of their texts; none where there is no index, or it is damaged."""
    try:
        content = file.read_bytes()
    except OSError:
        return {}
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as held:
            keys, vectors = held["keys"], held["vectors"]
    except (ValueError, KeyError, BadZipFile, EOFError) as error:
        watch.note(f"{file}: is damaged and made anew ({error})")
        return {}
    return dict(zip(map(bytes, keys), vectors, strict=False))


def _write(file: Path, vectors: dict[bytes, Array]) -> None:
    content = io.BytesIO()
    keys = np.frombuffer(b"".join(vectors), np.uint8).reshape(-1, 16)
    np.savez(content, keys=keys, vectors=np.array(list(vectors.values()), np.float32))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, content.getvalue())
    except OSError as error:
        watch.note(f"{file}: the index is not kept: {error.strerror}; PDL_CACHE names another folder")


def _is_text(file: Path) -> bool:
    """Whether a file has no byte 0 in its beginning, as git judges; or is UTF-16, or packed."""
    with file.open("rb") as opened:
        begin = opened.read(8000)
    return b"\0" not in begin or begin[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) or file.suffix.lower() in PACKED


def _text(place: str) -> str:
    with tables.opened(place) as file:
        return "\n".join(line.rstrip("\r\n") for line in tables.lines_of(file, place))
