"""What `pdl vocab` does for this suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdl_nlp.data.reading import kind_of, lines, locate, rows, text_of
from pdl_nlp.tokenizers.training import train
from pdl_nlp.tokenizers.writing import write


def write_vocabulary(
    kind: str, files: Sequence[Path], folder: Path, *, size: int, least: int, lower: bool, column: str
) -> dict[str, Any]:
    """Train a tokenizer on the texts of files, write it into a folder, and return facts for people."""
    made = train(kind, _texts(files, column), size=size, least=least, lower=lower)
    written = write(made, folder)
    return {"kind": kind, "tokens": len(made.tokens), "files": [str(file) for file in written]}


def _texts(files: Sequence[Path], column: str) -> Iterator[str]:
    """The texts of tables and JSON lines in this column, and the lines of other files, read as a stream."""
    for path in map(locate, files):
        if kind_of(path):
            yield from (text_of(row, column, path, None) for row in rows(path))
        else:
            yield from (line for _, line in lines(path))
