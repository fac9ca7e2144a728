"""The steps of key information extraction: the lines of a page in, the values of its fields out.

The text of a page is that of its lines in reading order, in pieces of a few words. A net says of every character how
likely the value of a field begins there, ends there, and has it inside; the answer is the most likely span.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.files import read_bytes
from pdl.runtime.steps import Input, InputStep, Resources, Sample
from pdl.runtime.steps.arguments import are, check, count, flag, number, one_of, text, texts
from pdl.runtime.steps.outputs import Thresholded
from pdl_ocr.layout import Boxes, places

WIDTH = 24  # characters of a piece
PIECES = (*range(8, 64, 8), *range(64, 128, 16), *range(128, 513, 32))  # what arrays of a page are filled up to
MOST_BYTES = 1 << 24
INSIDE = 0.1  # what a character that is inside counts, in the score of a span
BEGINNINGS = 64  # the most likely ones, which are looked at
SCORES = ("begin", "end", "inside")
MEMO = "page_text"
_ALONE = (
    r"\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"  # Thai, Han, kana, ...
)
_TOKEN = re.compile(rf"\d+(?:[.,/:-]\d+)*|[{_ALONE}]|(?:(?![{_ALONE}])[^\W\d_])+|\S")


class Position(NamedTuple):
    """A character of a page: the line in reading order, and where it is in its text."""

    line: int
    at: int


class Span(NamedTuple):
    """A piece of the text of a page, both ends included."""

    first: Position
    last: Position

    def text(self, lines: Sequence[str]) -> str:
        """What it says; a space stands between lines."""
        (first, begin), (last, end) = self
        if first == last:
            return lines[first][begin : end + 1]
        return " ".join([lines[first][begin:], *lines[first + 1 : last], lines[last][: end + 1]])


class Piece(NamedTuple):
    """Characters [begin, end) of a line."""

    line: int
    begin: int
    end: int


@dataclass(frozen=True)
class PageText:
    """The text of a page.

    lines     of text, in reading order
    order     their numbers among the lines as they were given
    pieces    of at most `width` characters each, cut between words
    boxes     float32 [P, 4]: left, top, right and bottom of each: across in widths of what is written on the page, down
              in median heights of lines, from its upper left corner
    """

    lines: list[str]
    order: list[int]
    pieces: list[Piece]
    boxes: Array
    width: int

    @classmethod
    def of(cls, lines: Sequence[Mapping[str, Any]], width: int = WIDTH) -> PageText:
        """Of lines {"text", "polygon"}, those without text left out. DataError where one is not as it should be."""
        kept = [i for i, line in enumerate(lines) if _text_of(line, i).strip()]
        if not kept:
            return cls([], [], [], np.zeros((0, 4), np.float32), width)
        corners = np.stack([_corners_of(lines[i], i) for i in kept])
        order = [place.line for place in places(corners.tolist())]
        boxes = Boxes.of(corners[order])
        left, top = boxes.left.min(), boxes.top.min()
        across, down = max(float(boxes.right.max() - left), 1e-6), boxes.height
        edges = np.stack([(boxes.left - left) / across, (boxes.top - top) / down], axis=1)
        ends = np.stack([(boxes.right - left) / across, (boxes.bottom - top) / down], axis=1)
        written = [str(lines[kept[i]]["text"]).strip() for i in order]
        pieces = [piece for number, line in enumerate(written) for piece in pieces_of(number, line, width)]
        made = np.array([_part(edges[p.line], ends[p.line], p, len(written[p.line])) for p in pieces], np.float32)
        return cls(written, [kept[i] for i in order], pieces, made, width)

    @property
    def rows(self) -> int:
        """How many pieces arrays of it have room for."""
        return next((each for each in PIECES if each >= len(self.pieces)), PIECES[-1])

    @property
    def known(self) -> list[Piece]:
        """The pieces that there is room for."""
        return self.pieces[: self.rows]

    def positions(self) -> list[Position | None]:
        """The character at each place of an array [rows x width]; None where there is none."""
        found: list[Position | None] = [None] * (self.rows * self.width)
        for row, (line, begin, end) in enumerate(self.known):
            start = row * self.width
            found[start : start + end - begin] = [Position(line, at) for at in range(begin, end)]
        return found

    def places(self) -> dict[Position, int]:
        """The place of each character in an array [rows x width]."""
        return {position: place for place, position in enumerate(self.positions()) if position is not None}

    def characters(self, numbers: Mapping[str, int]) -> Array:
        """int64 [rows, width]: numbers of characters, 1 of those that have none, 0 where there is none."""
        found = np.zeros((self.rows, self.width), np.int64)
        for row, (line, begin, end) in enumerate(self.known):
            found[row, : end - begin] = [numbers.get(c, 1) for c in self.lines[line][begin:end]]
        return found

    def padded_boxes(self) -> Array:
        """float32 [rows, 4]: `boxes`, 0 behind them."""
        found = np.zeros((self.rows, 4), np.float32)
        found[: len(self.known)] = self.boxes[: self.rows]
        return found

    def edges(self, *, whole: bool = True) -> Array:
        """bool [2, rows x width]: the characters that a value can begin with, and those that it can end with: not
        spaces, nor, if values are `whole`, what stands within a word or a number."""
        found = np.zeros((2, self.rows * self.width), bool)
        edges = [edges_of(line) if whole else np.array([[not c.isspace() for c in line]] * 2) for line in self.lines]
        for row, (line, begin, end) in enumerate(self.known):
            start = row * self.width
            found[:, start : start + end - begin] = edges[line][:, begin:end]
        return found


def pieces_of(number: int, line: str, width: int) -> Iterator[Piece]:
    """The pieces of a line, cut behind the last space that there is."""
    begin = 0
    while begin < len(line):
        end = min(len(line), begin + width)
        space = line.rfind(" ", begin + 1, end)
        if end < len(line) and space > 0:
            end = space + 1
        yield Piece(number, begin, end)
        begin = end


def _part(corner: Array, end: Array, piece: Piece, length: int) -> tuple[float, float, float, float]:
    """The box of a piece: its share of that of the line, by its characters."""
    step = (end[0] - corner[0]) / length
    return corner[0] + step * piece.begin, corner[1], corner[0] + step * piece.end, end[1]


def _text_of(line: Any, number: int) -> str:
    said = line.get("text") if isinstance(line, Mapping) else None
    if not isinstance(said, str):
        raise DataError(f'line {number}: {str(line)[:60]!r} is not {{"text": "...", "polygon": [[x, y], ...]}}')
    return said


def _corners_of(line: Mapping[str, Any], number: int) -> Array:
    """The four corners of a line; of a polygon with more the box around it."""
    try:
        found = np.asarray(line.get("polygon"), np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != 2 or found.shape[1] != 2 or len(found) < 3 or not np.isfinite(found).all():
        raise DataError(f"line {number} ({line['text'][:40]!r}) has no polygon [[x, y], ...] of three corners or more")
    if len(found) == 4:
        return found
    (left, top), (right, bottom) = found.min(axis=0), found.max(axis=0)
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])


def squashed(text: str) -> str:
    """The letters and digits of a text, without case: what is compared."""
    return "".join(c for c in text.casefold() if c.isalnum())


# -- words and numbers -------------------------------------------------------------------------------------------------
def edges_of(line: str) -> Array:
    """bool [2, characters]: those that a value can begin with, and those that it can end with, which are the ends of
    words, of numbers (dates and prices, too) and of signs. Scripts that are written without spaces have no words to be
    cut in two."""
    found = np.zeros((2, len(line)), bool)
    for token in _TOKEN.finditer(line):
        found[0, token.start()] = found[1, token.end() - 1] = True
    return found


# -- what a page is read from ------------------------------------------------------------------------------------------
class PageLines(InputStep):
    """The lines of a page -> the characters of its pieces int64 [P, width], or their boxes float32 [P, 4] (`PageText`).

    An item is what a reader of pages answers: {"lines": [{"text", "polygon"}, ...]}, also as the path of a JSON file of
    one or of a list of these (`pdl predict READER PAGES --json > pages.json`). Lines may be in any order. P is the
    next of `PIECES`; of larger pages the end is left out, and "cut" in the answer says how many characters were read.

    gives        "characters" or "boxes"
    vocabulary   of the characters, whose first two names are the padding and the unknown one
    width        characters of a piece
    """

    name = "page_lines"
    takes, metavar = "page", "FILE.json"
    about = "the lines of a page: a JSON file, as a reader of pages writes it"
    together = 1 << 17

    def __init__(self, gives: str, vocabulary: str = "characters", width: int = WIDTH) -> None:
        self.gives = one_of("gives", gives, ("characters", "boxes"))
        self.vocabulary, self.width = text("vocabulary", vocabulary), count("width", width, most=256)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        self._names = resources.vocabularies[self.vocabulary].names
        check(len(self._names) >= 2, f"page_lines: {self.vocabulary} must begin with a padding and an unknown one")

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each character."""
        return numbers_of(self._names)

    def parse(self, item: Any, sample: Sample) -> Array:
        page = sample.memo.get(MEMO)
        if page is None:
            page = sample.memo[MEMO] = PageText.of(lines_of(item), self.width)
            if len(page.pieces) > page.rows:
                sample.note_cut(sum(piece.end - piece.begin for piece in page.known))
        return page.characters(self.numbers) if self.gives == "characters" else page.padded_boxes()

    def title(self, item: Any) -> str:
        return str(item) if isinstance(item, str | Path) else f"{len(lines_of(item))} lines"

    def file(self, path: str | Path) -> Iterator[Input]:
        """The pages of a JSON file, named by what they were read from where it says so."""
        for at, page in enumerate(_pages_of(path), 1):
            name = page.get("input") if isinstance(page, dict) else None
            yield Input(name if isinstance(name, str) else f"{path}:{at}", page)

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        return self.file(given) if isinstance(given, str | Path) else iter([Input(self.title(given), given)])

    def from_word(self, word: str) -> Any:
        return Path(word)

    def group(self, array: Array) -> Hashable:
        return len(array)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        if self.gives == "characters":
            return rng.integers(1, len(self._names), shape)
        corners = rng.random((*shape[:-1], 2), np.float32) * (1, 40)
        return np.concatenate([corners, corners + np.array([0.2, 1])], axis=-1).astype(np.float32)

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """A few pages of words that nobody wrote."""
        letters = [c for c in self._names[2:] if not c.isspace()] or ["x"]
        return [_made_up(letters, rng) for _ in range(3)]


def _made_up(letters: Sequence[str], rng: np.random.Generator) -> dict[str, Any]:
    lines = []
    for row in range(int(rng.integers(3, 12))):
        said = "".join(letters[i] for i in rng.integers(0, len(letters), int(rng.integers(1, 30))))
        right, top = 10.0 + 8 * len(said), 20.0 * row
        lines.append({"text": said, "polygon": [[10, top], [right, top], [right, top + 15], [10, top + 15]]})
    return {"lines": lines}


def numbers_of(names: Sequence[str]) -> dict[str, int]:
    """The number of each character of a vocabulary that begins with the padding and the unknown one."""
    return {name: number for number, name in enumerate(names) if number > 1}


def lines_of(item: Any) -> Sequence[Any]:
    """The lines of an item; DataError for what is none."""
    if isinstance(item, str | Path):
        pages = _pages_of(item)
        if len(pages) != 1:
            raise DataError(f"{item}: has {len(pages)} pages, where one is asked for")
        item = pages[0]
    lines = item.get("lines") if isinstance(item, Mapping) else item
    if not isinstance(lines, Sequence) or isinstance(lines, str):
        raise DataError(f'{str(item)[:60]!r} is no page: expected {{"lines": [{{"text", "polygon"}}, ...]}}')
    return lines


def _pages_of(path: str | Path) -> list[Any]:
    try:
        found = json.loads(read_bytes(path, MOST_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        how = "give a file as a reader of pages writes it: pdl predict READER PAGES --json > pages.json"
        raise DataError(f"{path}: not JSON ({error}); {how}") from error
    return found if isinstance(found, list) and not (found and _is_line(found[0])) else [found]


def _is_line(value: Any) -> bool:
    return isinstance(value, dict) and "text" in value


# -- what is said of it ------------------------------------------------------------------------------------------------
class FieldValues(Thresholded):
    """{"fields": {name: {"text", "score", "lines"}}} of the logits [P x width + 1, 3 F] of F fields: of a begin, of an
    end and of being inside, the last row that of "not there". `lines` are the numbers of the lines that a value is on,
    as they were given; a field that is not on the page is left out.

    A span (i, j) with a letter or a digit weighs p(begins at i) p(ends at j) times the product of p(inside) / 0.5 of
    those of its characters for which that is less than 1, to the power `INSIDE`. The value is the text (by letters and
    digits) whose spans weigh most together, as a total may stand in several places; its score is the sum of their p(i)
    p(j). The field is not there where that is more likely than not.

    names     of the fields
    longest   the most characters of a value, for each
    score     values with less are left out
    whole     whether values begin and end with words and numbers
    """

    name = "field_values"
    any_script = True

    def __init__(self, names: Sequence[str], longest: Sequence[int], score: float = 0.0, whole: bool = True) -> None:
        self.whole = flag("whole", whole)
        self.names = texts("names", names)
        check(are(longest, int, len(self.names)), f"longest={longest!r:.60} must be a number for each of names")
        self.longest, self.score = [count("longest", each) for each in longest], number("score", score, 0, 1)
        check(len(self.names) > 0, "field_values: names must be one or more")

    def __call__(self, value: Any, sample: Sample) -> Any:
        page = sample.memo.get(MEMO)
        shape = None if page is None else (page.rows * page.width + 1, len(SCORES) * len(self.names))
        if page is None or value.shape != shape:
            raise UsageError(f"field_values: logits {value.shape} must be {shape}, behind the step page_lines")
        return {"fields": self.values(page, value)}

    def values(self, page: PageText, logits: Array) -> dict[str, dict[str, Any]]:
        """The values of the fields that are there."""
        positions, found = page.positions(), {}
        likely = likely_spans(logits, page.edges(whole=self.whole), self.longest)
        for name, candidates in zip(self.names, likely, strict=True):
            same: dict[str, list[tuple[Candidate, Span]]] = {}
            for each in candidates:
                first, last = positions[each.first], positions[each.last]
                assert first is not None
                assert last is not None
                span = Span(first, last)
                if letters := squashed(span.text(page.lines)):
                    same.setdefault(letters, []).append((each, span))
            if not same:
                continue
            best = max(same.values(), key=lambda group: sum(np.exp(each.weight) for each, _ in group))
            span, score = max(best, key=lambda one: one[0].weight)[1], min(1.0, sum(each.p for each, _ in best))
            if score >= self.score:
                lines = sorted(page.order[line] for line in range(span.first.line, span.last.line + 1))
                found[name] = {"text": span.text(page.lines), "score": score, "lines": lines}
        return found

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return rows_of(answer["fields"])

    def caption(self, answer: Any) -> str:
        return caption_of(answer["fields"])


def rows_of(fields: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The values of fields as rows of a table."""
    return [{"field": name, "text": each["text"], "score": each["score"]} for name, each in fields.items()]


def caption_of(fields: Mapping[str, Mapping[str, Any]]) -> str:
    """The values of fields in a line."""
    return "; ".join(f"{name}: {each['text']}" for name, each in fields.items()) or "no fields"


class Candidate(NamedTuple):
    """Places [first, last] in the text of a page that may be a value: p, and log p with what lies inside."""

    first: int
    last: int
    p: float
    weight: float


def likely_spans(logits: Array, edges: Array, longest: Sequence[int]) -> list[list[Candidate]]:
    """The likely spans of each field, for each of the `BEGINNINGS` most likely beginnings the best one; none where the
    field is not there.

    logits    float [T + 1, 3 F]: see `FieldValues`
    edges     bool [2, T]: the places that a value can begin at, and end at
    longest   the most places of a value of each field
    """
    begin, end, inside = np.split(np.asarray(logits, np.float64).T, len(SCORES))  # [F, T + 1] each
    begin, end = (_log_softmax(side, allowed) for side, allowed in zip((begin, end), edges, strict=True))
    outside = INSIDE * np.minimum(0, -np.logaddexp(0, -inside[:, :-1]) - np.log(0.5))
    sums = np.cumsum(outside, axis=1)
    found: list[list[Candidate]] = []
    places = np.arange(edges.shape[1])
    for f, most in enumerate(longest):
        found.append([])
        if begin[f, -1] + end[f, -1] >= 2 * np.log(0.5):
            continue
        first = np.argsort(-begin[f, :-1], kind="stable")[:BEGINNINGS, None]
        both = begin[f, first] + end[f, None, :-1]
        total = both + sums[f] - sums[f, first] + outside[f, first]
        total[(places < first) | (places >= first + most)] = -np.inf
        for row, last in enumerate(total.argmax(axis=1).tolist()):
            if np.isfinite(total[row, last]):
                p = float(np.exp(both[row, last]))
                found[-1].append(Candidate(int(first[row, 0]), last, p, float(total[row, last])))
    return found


def _log_softmax(scores: Array, allowed: Array) -> Array:
    """Over the allowed places and "not there", the last one; -inf elsewhere."""
    kept = np.where(np.append(allowed, True), scores, -np.inf)
    top = kept.max(axis=1, keepdims=True)
    found: Array = kept - top - np.log(np.exp(kept - top).sum(axis=1, keepdims=True))
    return found
