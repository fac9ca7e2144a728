"""Words with tags: CoNLL's columns, or word/TAG between spaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data import Dataset, Sample, digest
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.runtime import tables
from pdl.suites import suggest
from pdl_nlp.data import standin
from pdl_nlp.data.base import part_of, require_some, sorted_names
from pdl_nlp.data.reading import Normal, locate, normalised

Form = Literal["columns", "words", "lines"]
Share = Annotated[float, Range(0, 1)]
Sentence = tuple[int, list[str], list[str]]
"""The line that a sentence begins on, its words, and the tag of each."""


class TaggedFile(Dataset):
    """Sentences whose words have tags. Sample i is {"tokens": list of str [T], "tags": int64 [T]}.

    path       a relative one is also looked for below PDL_DATA; .gz, .bz2 and .xz are unpacked
    form       "columns": a word a line with its columns, sentences between blank lines (CoNLL; -DOCSTART- lines are
               left out); "words": a sentence a line, `word/TAG word/TAG`; "lines": a sentence a line, and its tags in
               the same line of another file
    token      the number of the column of words, from 0. CoNLL-U has them in 1: comments (#), spans (3-4) and empty
               words (3.1) are then left out
    tag        that of tags; below 0 from the end. CoNLL-U has universal parts of speech in 3
    separator  of columns, by default a tab where a line has one, else white space; of words and tags "/"
    tags       of "lines": the file whose lines have the tags of the words in the lines of `path`, with spaces between
    classes    the tags in the order of their numbers; by default those that occur, sorted
    window     longer sentences, such as the words of a whole talk, are cut into pieces of so many words
    split      the part to take, where `ratios` cut the file by a hash of the sentence and `seed`
    between    the part to take in the order of the file, as shares of its sentences: [0.9, 1] is the last tenth
    normalise  a form of Unicode that words are brought into, such as NFKC; by default they stay as they are written
    address    where a missing file can be had, as `pdl.data.to_get` takes it
    """

    foldable = True

    def __init__(
        self,
        path: str | Path,
        *,
        form: Form = "columns",
        token: int = 0,
        tag: int = -1,
        separator: str | None = None,
        tags: str | Path | None = None,
        classes: Sequence[str] | None = None,
        window: Annotated[int, Range(1)] | None = None,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        between: tuple[Share, Share] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        file = locate(path, address)
        if (form == "lines") != (tags is not None):
            raise ConfigError(
                "TaggedFile: form=lines reads the tags from a second file, tags=PATH; others read one file"
            )
        if between is not None and (ratios is not None or between[0] >= between[1]):
            raise ConfigError(f"TaggedFile: between={list(between)} must be two ascending shares, and without ratios")
        if tags is not None:
            found = list(_of_lines(file, locate(tags, address)))
        elif form == "columns":
            found = list(_of_columns(file, token, tag, separator))
        else:
            found = list(_of_words(file, separator or "/"))
        if window is not None:
            found = [piece for each in found for piece in _pieces(*each, window, 1 if form == "columns" else 0)]
        self.classes = list(classes) if classes is not None else sorted_names(t for _, _, tags in found for t in tags)
        words = [[normalised(word, normalise) for word in each] for _, each, _ in found]
        rows = part_of("TaggedFile", [" ".join(each) for each in words], split, ratios, seed)
        first, last = (0, len(found)) if between is None else (round(share * len(found)) for share in between)
        kept = range(first, last) if rows is None else rows.tolist()
        require_some(file, len(kept), split)
        self.source, self.split = file, split
        self.tokens, self.names = [words[i] for i in kept], [found[i][2] for i in kept]
        self.lines = [found[i][0] for i in kept]
        self.bind(self.classes)

    def bind(self, classes: Sequence[str]) -> None:
        """Number the tags as in this list from now on; DataFault for a sentence with a tag that is not in it."""
        numbers = {name: number for number, name in enumerate(classes)}
        for index, tags in enumerate(self.names):
            if unknown := next((name for name in tags if name not in numbers), None):
                what = f"tag {unknown!r} is none of {listed(classes)}"
                advice = f"correct it, or name all tags in the recipe{suggest(unknown, classes)}"
                raise fault(self.source, what, advice, index=index, line=self.lines[index])
        self.tags = [np.array([numbers[name] for name in tags], np.int64) for tags in self.names]
        self.classes = list(classes)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Sample:
        return {"tokens": self.tokens[index], "tags": self.tags[index]}

    def path_of(self, index: int) -> str | None:
        return str(self.source)

    def line_of(self, index: int) -> int | None:
        """The line that sentence `index` begins on."""
        return self.lines[index]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of the words and their tags."""
        return digest(type(self).__name__, *self.classes, *("\n".join(each) for each in (*self.tokens, *self.names)))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path, tags = standin.write_tagged(folder, settings)
        return StandIn({"path": str(path), **({} if tags is None else {"tags": str(tags)})}, standin.WHAT)


def _pieces(line: int, words: list[str], tags: list[str], window: int, step: int) -> Iterator[Sentence]:
    """A sentence in pieces of at most `window` words, where a word takes `step` lines."""
    for at in range(0, len(words), window):
        yield line + at * step, words[at : at + window], tags[at : at + window]


def _of_columns(path: Path, token: int, tag: int, separator: str | None) -> Iterator[Sentence]:
    begin, words, tags = 0, list[str](), list[str]()
    with tables.opened(path) as file:
        for number, line in enumerate(tables.lines_of(file, str(path)), 1):
            line = line.rstrip("\r\n")
            if line.startswith("-DOCSTART-") or (token == 1 and line.startswith("#")):
                continue
            if not line.strip():
                if words:
                    yield begin, words, tags
                words, tags = [], []
                continue
            cells = line.split(separator or ("\t" if "\t" in line else None))
            try:
                word, name = cells[token], cells[tag]
            except IndexError:
                what = f"{len(cells)} columns; word and tag are columns {token} and {tag}"
                raise fault(path, what, "correct the line, or token, tag and separator", line=number) from None
            if len(cells) < 2:
                raise fault(path, "a word without a tag", "write the word, a tab or space, and its tag", line=number)
            if token == 1 and not cells[0].isdigit():
                continue
            begin = begin if words else number
            words.append(word)
            tags.append(name)
    if words:
        yield begin, words, tags


def _of_words(path: Path, separator: str) -> Iterator[Sentence]:
    with tables.opened(path) as file:
        for number, line in enumerate(tables.lines_of(file, str(path)), 1):
            pairs = [word.rpartition(separator) for word in line.split()]
            if wrong := next((tag for word, _, tag in pairs if not word or not tag), None):
                what = f"{wrong!r:.40} is not word{separator}TAG"
                raise fault(path, what, "give each word its tag, or set separator=", line=number)
            if pairs:
                yield number, [word for word, _, _ in pairs], [tag for _, _, tag in pairs]


def _of_lines(path: Path, tags: Path) -> Iterator[Sentence]:
    with tables.opened(path) as file, tables.opened(tags) as other:
        both = zip_longest(tables.lines_of(file, str(path)), tables.lines_of(other, str(tags)))
        for number, (line, names) in enumerate(both, 1):
            words, found = ("" if each is None else each for each in (line, names))
            if len(words.split()) != len(found.split()):
                what = f"{len(words.split())} words, but {len(found.split())} tags in {tags.name}"
                raise fault(path, what, "give each word its tag, in the same line of the other file", line=number)
            if words.split():
                yield number, words.split(), found.split()
