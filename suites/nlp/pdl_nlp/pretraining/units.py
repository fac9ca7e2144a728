"""Words, phrases and entities of texts: what is masked as a whole (ERNIE: Sun et al., arXiv 1904.09223).

They come from tagged text, or from a tagger (the bundle of a `pdl_nlp.Tagging` that finds words with parts of speech),
whose answers are kept in the cache, so that a text is tagged once however often it is read.

    entity   names of people, places and organisations (tags nr, ns, nt, nz; neighbours with one tag are one), what
             stands in《》, and spans of tags that mark some (BIO, BIOES, BMES)
    phrase   an entity; a run of nouns and what qualifies them (a, an, b, j, l, n*, vn); a run of numerals and measure
             words (m, q, t); at most `LONGEST` words each; any other word alone
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.files import cache_root
from pdl_nlp.schemes import Tags
from pdl_nlp.tokenizers import Encodings

WORD, PHRASE, ENTITY = 1, 2, 4
"""Bits of a token's mark: a word begins here, a phrase begins here, part of an entity."""
ENTITIES = frozenset({"nr", "ns", "nt", "nz", "PER", "LOC", "ORG"})
NOMINAL, NUMERAL = frozenset({"a", "an", "b", "j", "l", "vn"}), frozenset({"m", "q", "t"})
TITLE = ("《", "》")
LONGEST = 4  # words of a phrase
TITLE_WORDS = 12  # words between《 and 》that are a title
LINE = 500  # characters that a tagger sees at once
TOGETHER = 64


class Words(NamedTuple):
    """The words of a text.

    spans     int32 [W, 2]: begin and end of each, in code points
    tags      [W]: of each
    """

    spans: Array
    tags: Sequence[str]


def marks(words: Words) -> Array:
    """uint8 [W]: `WORD`, `PHRASE` where one begins with the word, and `ENTITY` of those that are part of one."""
    made = np.full(len(words.tags), WORD | PHRASE, np.uint8)
    before, run = "", 0
    for number, tag in enumerate(words.tags):
        kind = _kind(tag)
        touching = number > 0 and words.spans[number, 0] <= words.spans[number - 1, 1] + 1
        if kind and kind == before and touching and run < LONGEST:
            made[number] &= ~np.uint8(PHRASE)
            run += 1
        else:
            run = 1
        if tag in ENTITIES:
            made[number] |= ENTITY
        before = kind
    return made


def _kind(tag: str) -> str:
    """What kind of phrase a word may be part of; "" of none."""
    if tag in ENTITIES:
        return tag
    return "nominal" if tag in NOMINAL or tag[:1] == "n" else "numeral" if tag in NUMERAL else ""


def mark_titles(text: str, words: Words, made: Array) -> None:
    """Make entities of what stands in《》, the signs left out."""
    begins = words.spans[:, 0]
    end = 0
    while (begin := text.find(TITLE[0], end)) >= 0 and (end := text.find(TITLE[1], begin)) >= 0:
        first, last = np.searchsorted(begins, (begin + 1, end))
        if 0 < last - first <= TITLE_WORDS:
            made[first:last] |= ENTITY
            made[first + 1 : last] &= ~np.uint8(PHRASE)
            made[last : last + 1] |= PHRASE


def of_tokens(encodings: Encodings, texts: Sequence[str], words: Sequence[Words]) -> Array:
    """uint8 [sum]: the marks of all tokens of texts whose words are known. A token of no word is one by itself; one
    that reaches over several is part of the first."""
    found = np.full(len(encodings.ids), WORD | PHRASE, np.uint8)
    for number, (text, each) in enumerate(zip(texts, words, strict=True)):
        if not len(each.tags):
            continue
        made = marks(each)
        mark_titles(text, each, made)
        rows = slice(encodings.starts[number], encodings.starts[number + 1])
        begins = encodings.offsets[rows, 0]
        word = np.searchsorted(each.spans[:, 0], begins, side="right") - 1
        inside = (word >= 0) & (begins < each.spans[word, 1])
        again = inside[1:] & inside[:-1] & (word[1:] == word[:-1])
        own = np.where(inside, made[word], WORD | PHRASE)
        own[1:][again] &= ~np.uint8(WORD | PHRASE)
        own[:1] |= WORD | PHRASE
        found[rows] = own
    return found


def of_tags(tokens: Sequence[str], tags: Sequence[str], between: str) -> tuple[str, Words]:
    """The text of tagged words with `between` them, and its words; of tags that mark spans (BIO, ...) a span is one
    word, an entity."""
    ends = np.cumsum([len(token) + len(between) for token in tokens], dtype=np.int64) - len(between)
    spans = np.stack([ends - [len(token) for token in tokens], ends], axis=1).astype(np.int32)
    names = sorted(set(tags))
    scheme = Tags(names)
    if scheme.scheme == "none":
        return between.join(tokens), Words(spans, tags)
    joined = list[tuple[int, int]]()
    kinds, at = list[str](), 0
    for begin, end, _ in scheme.spans(np.array([names.index(tag) for tag in tags])).tolist():
        joined += [(number, number + 1) for number in range(at, begin)]
        kinds += [""] * (begin - at)
        joined.append((begin, end))
        kinds.append("nz")
        at = end
    joined += [(number, number + 1) for number in range(at, len(tokens))]
    kinds += [""] * (len(tokens) - at)
    rows = np.array(joined).reshape(-1, 2)
    return between.join(tokens), Words(np.stack([spans[rows[:, 0], 0], spans[rows[:, 1] - 1, 1]], axis=1), kinds)


class Tagger:
    """The words of raw texts by a tagger, kept in a file of the cache that is named by the tagger's bundle.

    source  a run, bundle or name of the hub whose answers are spans of words with tags
    """

    def __init__(self, source: str | Path) -> None:
        from pdl_nlp.checkpoints import bundle_at

        self.file = bundle_at(source)
        from pdl.runtime.bundle import read

        bundle = read(self.file)
        steps = [step.get("step") for each in bundle.pipeline["post"].values() for step in each]
        if "spans" not in steps:
            raise UsageError(f"task.tagger={source}: its answers are no words with tags; give a run of pdl_nlp.Tagging")
        from pdl.data.dataset import digest

        self.key = digest(self.file.read_bytes())

    @cached_property
    def session(self) -> Any:
        """The tagger's session."""
        from pdl.runtime import load

        return load(self.file)

    @cached_property
    def held(self) -> sqlite3.Connection:
        """What is known of texts: rows of a text's hash and its words as JSON."""
        folder = cache_root() / "nlp" / "tagged"
        folder.mkdir(parents=True, exist_ok=True)
        found = sqlite3.connect(folder / f"{self.key}.sqlite", timeout=60, check_same_thread=False)
        found.execute("CREATE TABLE IF NOT EXISTS words (text BLOB PRIMARY KEY, found TEXT) WITHOUT ROWID")
        return found

    def __call__(self, texts: Sequence[str]) -> list[Words]:
        """The words of each text."""
        from pdl.data.dataset import digest

        keys = [bytes.fromhex(digest(text)) for text in texts]
        found: dict[bytes, str] = {}
        for key in keys:
            row = self.held.execute("SELECT found FROM words WHERE text = ?", (key,)).fetchone()
            if row is not None:
                found[key] = row[0]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            tagged = dict(zip(missing, self._tagged(list(missing.values())), strict=True))
            with self.held:
                self.held.executemany("INSERT OR REPLACE INTO words VALUES (?, ?)", tagged.items())
            found |= tagged
        return [_words(found[key]) for key in keys]

    def _tagged(self, texts: Sequence[str]) -> list[str]:
        """The words of each text as JSON, texts of about one length together."""
        parts = [(number, begin, part) for number, text in enumerate(texts) for begin, part in _lines(text)]
        parts.sort(key=lambda each: len(each[2]))
        made: list[list[tuple[int, int, str]]] = [[] for _ in texts]
        waiting = iter(parts)
        while group := list(islice(waiting, TOGETHER)):
            answers = self.session.batch([part for _, _, part in group])
            for (number, begin, _), answer in zip(group, answers, strict=True):
                made[number] += [(begin + s["start"], begin + s["end"], s["tag"]) for s in answer["spans"]]
        return [json.dumps(sorted(each), ensure_ascii=False, separators=(",", ":")) for each in made]


def _words(text: str) -> Words:
    rows = json.loads(text)
    spans = np.array([row[:2] for row in rows], np.int32).reshape(-1, 2)
    return Words(spans, [row[2] for row in rows])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text, each with where it begins; long ones in parts of `LINE` characters."""
    begin = 0
    for line in text.splitlines(keepends=True):
        for at in range(0, len(line), LINE):
            part = line[at : at + LINE]
            if part.strip():
                yield begin + at, part
        begin += len(line)


def samples_of(dataset: Any) -> Iterator[dict[str, Any]]:
    """The samples of a data set or a stream, in order."""
    return iter(dataset) if not hasattr(dataset, "__len__") else (dataset[index] for index in range(len(dataset)))
