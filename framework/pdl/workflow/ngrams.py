"""N-gram language models out of texts, for searches that a language model joins in (`pdl predict --lm`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdl import ngram
from pdl.errors import UsageError
from pdl.runtime import tables
from pdl.runtime.ctc import word_list


def learn(
    files: Sequence[str | Path],
    out: str | Path,
    *,
    words: str | Path | None = None,
    order: int = 3,
    characters: bool = False,
    lower: bool = False,
    test: str | Path | None = None,
) -> dict[str, Any]:
    """Learn n-grams from the texts of files and write them as an ARPA file. Returns facts: order, tokens, n-grams of
    each length, with `words` how many texts were left out, and of the texts of `test` perplexity, tokens and how many
    of them are unknown.

    files       a text a line, empty ones left out; each also .gz, .bz2 or .xz
    words       a list of words: no others are known, nor are heard with the model, and texts with others are left out.
                Without texts they may follow each other in any order
    order       n
    characters  of characters, with a sign for a space; otherwise of words between white space
    lower       letters are lowered
    """
    if not files and words is None:
        raise UsageError("which texts? name at least one file, or --words FILE")
    if characters and words is not None:
        raise UsageError("--words lists words, --characters learns of characters; leave one of them out")
    known = None
    if words is not None:
        known = {word.lower() if lower else word for word in word_list(Path(words))}
    split = ngram.characters if characters else str.split

    def texts(path: str | Path) -> Iterator[list[str]]:
        with tables.opened(Path(path).expanduser()) as file:
            for line in tables.lines_of(file, str(path)):
                if line.strip():
                    yield split(line.lower() if lower else line)

    left_out = 0

    def learned() -> Iterator[list[str]]:
        nonlocal left_out
        for text in (text for path in files for text in texts(path)):
            if known is None or known.issuperset(text):
                yield text
            else:
                left_out += 1

    model = ngram.train(learned(), order, known)
    model.write(out)
    facts: dict[str, Any] = {
        "order": model.order,
        "tokens": len(model.tokens) - 2,
        "ngrams": model.counts,
        "file": str(out),
    }
    if known is not None:
        facts["left_out"] = left_out
    if test is not None:
        perplexity, tokens, unknown = model.perplexity(texts(test))
        facts["test"] = {"perplexity": perplexity, "tokens": tokens, "unknown": unknown}
    return facts
