"""Vectors of words from elsewhere: files of word2vec's text form, and runs of `pdl_nlp.WordVectors`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.data.faults import fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl.files import PACKED
from pdl.runtime import tables
from pdl_nlp import checkpoints
from pdl_nlp.steps.letters import Letters

if TYPE_CHECKING:
    from pdl.nn import Module
    from pdl_nlp.models.word2vec import Word2Vec

BLOCK = 4096  # words whose vectors are made together
FORMS = tuple(f"{end}{packed}" for end in (".vec", ".txt") for packed in ("", *PACKED))


class Vectors:
    """Vectors of words: `dim`, and `names` of those that are listed.

    source  a file of lines `word number number ...` (word2vec's, fastText's and GloVe's text form, with or without a
            first line of two numbers, packed too); or a run or bundle of `pdl_nlp.WordVectors`
    """

    def __init__(self, source: str | Path) -> None:
        self.source = str(source)
        if self.source.endswith(FORMS):
            self.names, self._array = _read(Path(source))
            self._find = {name: row for row, name in enumerate(self.names)}
            self.dim = self._array.shape[1]
            return
        self.net, tokens, letters = _of_bundle(self.source)
        self.names, self.dim = tokens[2:], self.net.dim
        self._letters = letters
        self._find = {name: row for row, name in enumerate(tokens) if row > 1}

    def of(self, words: Sequence[str]) -> tuple[Array, Array]:
        """Vectors float32 [N, dim], and bool [N]: which words have one (others are 0)."""
        rows = np.array([self._find.get(word, -1) for word in words], np.int64).reshape(-1)
        if hasattr(self, "_array"):
            found = np.where(rows[:, None] >= 0, self._array[rows], np.float32(0))
            return found, rows >= 0
        made = made_by(self.net, np.maximum(rows, 0), words, self._letters)
        return made, np.abs(made).max(axis=1, initial=0) > 0


def fill(model: Module, names: Sequence[str], source: Vectors) -> int:
    """Let a model's table of tokens, its `embed`, begin with these vectors: those of the tokens (`names`, by number)
    that have one. -> how many have. ConfigError where the model has no such table, or one of another width."""
    table = getattr(model, "embed", None)
    if table is None or table.weight.shape[0] != len(names):
        raise ConfigError(f"task.vectors: {type(model).__name__} has no table of vectors of the tokens; leave them out")
    if table.weight.shape[1] != source.dim:
        own = table.weight.shape[1]
        raise ConfigError(f"model.dim={own}, but the vectors of {source.source} have {source.dim}; leave model.dim out")
    found, there = source.of(names)
    there[:2] = False  # padding, and what is unknown
    if not there.any():
        raise DataError(f"{source.source}: has vectors of none of the {len(names):,} tokens; are they of one language?")
    # as large as the values they replace, so that the layers behind find what they expect
    scale = float(np.sqrt(np.mean(np.square(table.weight.data[2:]))) / np.sqrt(np.mean(np.square(found[there]))))
    table.weight.data[there] = found[there] * scale
    return int(there.sum())


def table_of(net: Word2Vec, tokens: Sequence[str], letters: Letters | None) -> Array:
    """The vectors of all tokens float32 [V, dim]; 0 for the first two, padding and what is unknown."""
    made = made_by(net, np.arange(len(tokens)), ["", "", *tokens[2:]], letters)
    made[:2] = 0
    return made


def made_by(net: Word2Vec, rows: Array, words: Sequence[str], letters: Letters | None) -> Array:
    """The vectors that a net gives words, float32 [N, dim]: `rows` are their numbers, 0 for unknown ones."""
    found = [np.zeros((0, net.dim), np.float32)]
    with pdl.no_grad():
        for start in range(0, len(rows), BLOCK):
            these = pdl.as_tensor(rows[None, start : start + BLOCK])
            spelled = None if letters is None else pdl.as_tensor(letters.encode(words[start : start + BLOCK])[None])
            found.append(net(these, spelled).numpy()[0])
    return np.concatenate(found)


def _read(path: Path) -> tuple[list[str], Array]:
    from pdl_nlp.data.reading import locate

    path = locate(path, None)
    names, rows = list[str](), list[Array]()
    with tables.opened(path) as file:
        for number, line in enumerate(tables.lines_of(file, str(path)), 1):
            name, *cells = line.rstrip().split(" ")
            if number == 1 and len(cells) == 1:  # how many words and numbers there are
                continue
            row = _numbers(cells)
            if row is None or (rows and len(row) != len(rows[0])):
                of = f" {len(rows[0])}" if rows else ""
                what = f"{line.rstrip()[:40]!r} is no word with{of} finite numbers behind it"
                raise fault(path, what, "write `word 0.1 -0.2 ...`", line=number)
            names.append(name)
            rows.append(row)
    if not rows:
        raise fault(path, "holds no vectors", "give lines `word 0.1 -0.2 ...`")
    return names, np.stack(rows)


def _numbers(cells: Sequence[str]) -> Array | None:
    try:
        row = np.array(cells, np.float32)
    except ValueError:
        return None
    return row if len(row) and np.isfinite(row).all() else None


def _of_bundle(source: str) -> tuple[Word2Vec, list[str], Letters | None]:
    """The net, its tokens and how it reads letters."""
    from pdl.config import build
    from pdl.hub.states import read_state
    from pdl.runtime.bundle import read as read_bundle
    from pdl_nlp.models.word2vec import FastText, Word2Vec

    bundle, section = read_bundle(checkpoints.bundle_at(source)), checkpoints.model_of(source)
    net: Any = build({**section})
    if not isinstance(net, Word2Vec):
        what = f"task.vectors={source}: {type(net).__name__} gives words no vectors"
        raise ConfigError(f"{what}; a run of pdl_nlp.WordVectors does, or a file ({', '.join(FORMS)})")
    held = read_state(source).arrays
    net.words.weight.data[:] = held["words.weight"]
    if isinstance(net, FastText):
        net.grams.weight.data[:] = held["grams.weight"]
    letters = None
    if net.letters:
        (step,) = bundle.pipeline["pre"]["letters"]
        letters = Letters(bundle.vocabularies["letters"], step["width"], lower=step.get("lower", False))
    return net.eval(), list(bundle.vocabularies["tokens"]), letters
