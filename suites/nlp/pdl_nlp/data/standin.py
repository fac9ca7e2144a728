"""Stand-ins: opinions from a small grammar, written in the formats of the data sets, so that recipes and readers can be
tried where the data is not (`pdl selftest`). No sentence is anybody's.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pdl.files import plain_name
from pdl.runtime.tables import csv_line
from pdl_nlp.data.reading import kind_of

SENTENCES = 240  # of a split
THINGS = ("room", "hotel", "breakfast", "film", "plot", "book", "ending", "screen", "keyboard", "service")
GOOD = ("lovely", "brilliant", "clean", "quick", "moving", "superb", "friendly", "sharp")
BAD = ("dreadful", "dull", "dirty", "slow", "noisy", "broken", "rude", "shallow")
MANNERS = ("", "really ", "rather ", "quite ", "simply ")
OPENINGS = ("", "honestly , ", "after two nights , ", "in short , ", "my friend says ")
REASONS = ("", " , and the {other} was {same} , too", " although the {other} was plain", " . we will come again")
WHAT = "opinions drawn from a small seeded grammar"
CLASSES = ("negative", "positive")
MISTAKES = {"o": "u", "e": "i", "r": "l", "s": "z"}
_PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
TAGS = ("O", "B-THING", "B-GOOD", "B-BAD")


def draw(name: str, count: int = SENTENCES) -> Iterator[tuple[str, int]]:
    """(text, 0 for a bad opinion or 1 for a good one); the same for the same name."""
    rng = np.random.default_rng(list(name.encode()))

    def one(of: tuple[str, ...]) -> str:
        return of[int(rng.integers(len(of)))]

    for _ in range(count):
        label = int(rng.integers(2))
        words = GOOD if label else BAD
        reason = one(REASONS).format(other=one(THINGS), same=one(words))
        yield f"{one(OPENINGS)}the {one(THINGS)} was {one(MANNERS)}{one(words)}{reason} .", label


def _labelled(folder: Path, settings: Mapping[str, Any]) -> tuple[Path, list[tuple[str, str]]]:
    """The file to write, and texts with the names of their classes."""
    name = Path(str(settings.get("path", "texts.tsv"))).name
    if not kind_of(name) and not settings.get("columns"):
        name = "texts.tsv"
    spelled = settings.get("names")
    classes = list(spelled) if spelled else list(settings.get("classes") or CLASSES)
    several = settings.get("several")
    found = []
    for text, label in draw(name):
        other = several is not None and "although" in text
        found.append((text, str(several).join([classes[label], *classes[2:3]]) if other else classes[label]))
    return folder / name, found


def write_file(folder: Path, settings: Mapping[str, Any]) -> Path:
    """A file for `TextFile` with these settings: its columns, separator and form. Where the file is cut it holds all
    splits."""
    path, found = _labelled(folder, settings)
    columns, split = settings.get("columns"), settings.get("split_column")
    if keys := settings.get("keys"):
        return _write_lists(folder / f"{'_'.join(keys)}.json", found, columns, keys)
    label_at, text_at, pair = settings.get("label", "label"), settings.get("text", "text"), settings.get("pair")
    names = list(columns or [each for each in (label_at, text_at, pair, split) if each])
    table = []
    for number, (text, label) in enumerate(found):
        part = ("train", "train", "val", "test")[number % 4]
        row = {label_at: label, text_at: text, pair: found[number - 1][0], split: part}
        table.append([row.get(name, "") for name in names])
    plain = plain_name(path.name)
    if plain.endswith((".jsonl", ".ndjson", ".json")):
        return write(path, [json.dumps(dict(zip(names, row, strict=True))) for row in table])
    separator = settings.get("separator") or ("," if plain.endswith(".csv") else "\t")
    join = csv_line if separator == "," else separator.join
    return write(path, [join(row) for row in [*([] if columns else [names]), *table]])


def _write_lists(path: Path, found: list[tuple[str, str]], columns: list[str] | None, keys: list[str]) -> Path:
    """A JSON object with lists under these keys. Under further keys than the first one, called class_split, are texts
    of that class: words in no order."""
    rows = {keys[0]: [{"text": text, "label": label} for text, label in found]}
    for key in keys[1:]:
        rng = np.random.default_rng(list(key.encode()))
        mixed = (" ".join(rng.permutation([*THINGS, *MANNERS])[:5]) for _ in range(len(found) // 8))
        rows[key] = [{"text": " ".join(text.split()), "label": key.partition("_")[0]} for text in mixed]
    if columns == ["text", "label"]:
        return write(path, [json.dumps({key: [list(row.values()) for row in each] for key, each in rows.items()})])
    return write(path, [json.dumps(rows)])


def write_folders(folder: Path, settings: Mapping[str, Any]) -> None:
    """Folders of classes for `TextFolder`, in folders of splits unless ratios cut them or there are none."""
    classes = list(settings.get("classes") or CLASSES)
    split = settings.get("split")
    base = folder if split is None or split in (settings.get("ratios") or {}) else folder / split
    for number, (text, label) in enumerate(draw(str(base.name if base != folder else "all"))):
        write(base / classes[label] / f"{number:03}.txt", [text])


def write_tagged(folder: Path, settings: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """Sentences for `TaggedFile`, in the form that the settings name: things, and what is good or bad about them; and
    the file of their tags, where it is another. Where parts of the file are taken in its order it is as long as they
    need."""
    path = Path(str(settings.get("path", "tagged.txt")))
    name, form = path.name if len(path.parts) < 2 else f"{path.parent.name}_{path.name}", settings.get("form")
    kinds = {**dict.fromkeys(THINGS, 1), **dict.fromkeys(GOOD, 2), **dict.fromkeys(BAD, 3)}
    tags = list(settings.get("classes") or TAGS)
    lines, others = list[str](), list[str]()
    for text, _ in draw(name, SENTENCES * (5 if settings.get("between") else 1)):
        pairs = [(word, tags[min(kinds.get(word, 0), len(tags) - 1)]) for word in text.split()]
        if form == "words":
            lines.append(" ".join(f"{word}{settings.get('separator') or '/'}{tag}" for word, tag in pairs))
            continue
        if form == "lines":
            lines.append(text)
            others.append(" ".join(tag for _, tag in pairs))
            continue
        token, tag_at = int(settings.get("token", 0)), int(settings.get("tag", -1))
        width = max(token + 1, tag_at + 1, 2)
        for number, (word, tag) in enumerate(pairs, 1):
            cells = [str(number), *["_"] * (width - 1)]
            cells[token], cells[tag_at] = word, tag
            lines.append((settings.get("separator") or "\t").join(cells))
        lines.append("")
    return write(folder / name, lines), write(folder / f"{name}.tags", others) if others else None


def write_questions(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Questions for `QuestionFile` about paragraphs of three opinions: what each of the things was like."""
    name = Path(str(settings.get("path", "questions.json"))).name
    rng = np.random.default_rng(list(name.encode()))
    paragraphs = []
    for number in range(SENTENCES):
        things = [THINGS[int(at)] for at in rng.choice(len(THINGS), 3, replace=False)]
        kinds = [(GOOD + BAD)[int(at)] for at in rng.choice(len(GOOD + BAD), 3, replace=False)]
        text, asked = "", []
        for thing, kind in zip(things, kinds, strict=True):
            text += f"the {thing} was "
            answer = {"text": kind, "answer_start": len(text)}
            asked.append({"id": f"{number} {thing}", "question": f"how was the {thing} ?", "answers": [answer]})
            text += f"{kind} . "
        paragraphs.append({"context": text.strip(), "qas": asked})
    tree = {"version": "1", "data": [{"title": "opinions", "paragraphs": paragraphs}]}
    return write(folder / name, [json.dumps(tree)])


def write_mistakes(folder: Path, settings: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """Opinions with a letter of a word exchanged, always the same ones for each other, for `CorrectionFile`; and
    SIGHAN's second file, where the settings name one."""
    name, truth = Path(str(settings.get("path", "mistakes.tsv"))).name, settings.get("truth")
    rng = np.random.default_rng(list(name.encode()))
    lines, said = list[str](), list[str]()
    for number, (right, _) in enumerate(draw(name, SENTENCES * 2)):
        places = [at for at, letter in enumerate(right) if letter in MISTAKES]
        at = places[int(rng.integers(len(places)))]
        wrong = right if rng.random() < 0.25 else right[:at] + MISTAKES[right[at]] + right[at + 1 :]
        lines.append(f"(id={number})\t{wrong}" if truth else f"{wrong}\t{right}")
        said.append(f"{number}, {at + 1}, {right[at]}" if wrong != right else f"{number}, 0")
    other = write(folder / f"{name}.truth", said) if truth else None
    return write(folder / name, lines), other


FOREIGN = {word: f"{word[::-1]}a" for word in (*THINGS, *GOOD, *BAD)}
"""A language made up for translations: things and opinions read backwards, with an a behind them."""


def write_parallel(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Opinions and what they are in the language of `FOREIGN`, for `ParallelText`; gives the settings of the files."""
    path = Path(str(settings.get("path", "texts.tsv")))
    pairs = [(text, " ".join(FOREIGN.get(word, word) for word in text.split())) for text, _ in draw(path.stem)]
    if target := settings.get("target"):
        files = folder / path.name, folder / f"target_{Path(str(target)).name}"
        for file, column in zip(files, zip(*pairs, strict=True), strict=True):
            write(file, list(column))
        return dict(zip(("path", "target"), map(str, files), strict=True))
    columns, text_at, to = settings.get("columns"), settings.get("text", "text"), settings.get("to", "target")
    name = path.name if columns or kind_of(path.name) else "texts.tsv"
    names = list(columns or [text_at, to])
    table = [[{text_at: text, to: target}.get(column, "") for column in names] for text, target in pairs]
    if kind_of(name) == "json":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in table]
        return {"path": str(write(folder / name, lines))}
    separator = settings.get("separator") or kind_of(name) or "\t"
    join = csv_line if separator == "," else separator.join
    lines = [join(row) for row in [*([] if columns else [names]), *table]]
    return {"path": str(write(folder / name, lines))}


def write_lines(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Lines of text for `PlainText`, of which six are a document (and there are twice as many where shares of documents
    are splits); in one file, whatever pattern names real ones."""
    name, documents = _plain(settings.get("path") or "texts.txt"), settings.get("documents")
    texts = [text for text, _ in draw(name, SENTENCES * (2 if documents and settings.get("ratios") else 1))]
    if ".json" in name:
        return write(folder / name, [json.dumps({"text": text}) for text in texts])
    many = 6 if documents else len(texts)
    return write(folder / name, [line for at in range(0, len(texts), many) for line in (*texts[at : at + many], "")])


def write_dialogues(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Dialogues for `DialogueFile`, in the form of DailyDialog: one asks about things, the other answers in opinions of
    one kind."""
    name = _plain(settings.get("path") or "dialogues.txt")
    return write(folder / name, ["".join(f"{turn} __eou__ " for turn, _ in each) for each in _dialogues(name)])


def write_moods(folder: Path, settings: Mapping[str, Any]) -> tuple[Path, Path]:
    """The same for `Utterances`, and the class of each turn: the first of `names` for questions, the others for
    opinions."""
    names = [_plain(settings[part]) for part in ("path", "labels")]
    kinds = list(settings.get("names") or settings.get("classes") or ("none", *CLASSES))
    found = list(_dialogues(names[0]))
    numbers = (" ".join(kinds[min(kind, len(kinds) - 1)] for _, kind in each) for each in found)
    text = ["".join(f"{turn} __eou__ " for turn, _ in each) for each in found]
    return write(folder / names[0], text), write(folder / f"{names[1]}.labels", list(numbers))


def _dialogues(name: str) -> Iterator[list[tuple[str, int]]]:
    """Turns, each with 0 for a question, 1 for a bad or 2 for a good opinion."""
    rng = np.random.default_rng(list(name.encode()))
    for _ in range(SENTENCES):
        words, made = (BAD, GOOD)[kind := int(rng.integers(2))], list[tuple[str, int]]()
        for thing in rng.permutation(THINGS)[: rng.integers(2, 5)].tolist():
            manner = MANNERS[int(rng.integers(len(MANNERS)))]
            answer = f"the {thing} was {manner}{words[int(rng.integers(len(words)))]} ."
            made += [(f"how was the {thing} ?", 0), (answer, 1 + kind)]
        yield made


def _plain(path: Any) -> str:
    """The name of the file that stands for a path, pattern or list."""
    given = Path(str(path if isinstance(path, str | Path) else path[0])).name
    return given.translate(str.maketrans("*?[]", "____"))


def write(path: Path, lines: list[str]) -> Path:
    """The lines as a file, packed as its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(_PACK.get(path.suffix, bytes)(data))
    return path
