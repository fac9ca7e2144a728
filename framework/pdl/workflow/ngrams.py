"""N-gram language models out of texts, for searches that a language model joins in (`pdl predict --lm`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdl import ngram
from pdl.errors import UsageError
from pdl.runtime import tables


def learn(
    files: Sequence[str | Path],
    out: str | Path,
    *,
    order: int = 3,
    characters: bool = False,
    lower: bool = False,
    test: str | Path | None = None,
) -> dict[str, Any]:
    """Learn n-grams from the texts of files and write them as an ARPA file. Returns facts: order, tokens, n-grams of
    each length, and of the texts of `test` perplexity, tokens and how many of them are unknown.

    files       a text a line, empty ones left out; each also .gz, .bz2 or .xz
    order       n
    characters  of characters, with a sign for a space; otherwise of words between white space
    lower       letters are lowered
    """
    if not files:
        raise UsageError("which texts? name at least one file")
    split = ngram.characters if characters else str.split

    def texts(path: str | Path) -> Iterator[list[str]]:
        with tables.opened(Path(path).expanduser()) as file:
            for line in tables.lines_of(file, str(path)):
                if line.strip():
                    yield split(line.lower() if lower else line)

    model = ngram.train((text for path in files for text in texts(path)), order)
    model.write(out)
    facts = {"order": model.order, "tokens": len(model.tokens) - 2, "ngrams": model.counts, "file": str(out)}
    if test is not None:
        perplexity, tokens, unknown = model.perplexity(texts(test))
        facts["test"] = {"perplexity": perplexity, "tokens": tokens, "unknown": unknown}
    return facts
