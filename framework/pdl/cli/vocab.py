"""`pdl vocab`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json
from pdl.workflow.vocabularies import kinds

EXAMPLE = (
    "Example:  pdl vocab wordpiece corpus.txt.gz --size 8000 --lower --out vocab"
    "        pdl vocab words reviews.tsv --column review --out vocab"
)


def command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(sorted(kinds()))}.")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILES...", help="Texts: a text a line, or *.csv, *.tsv, *.jsonl; also .gz, .bz2, .xz."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write into.")],
    size: Annotated[int, typer.Option("--size", metavar="N", help="Tokens, at most.")] = 30000,
    least: Annotated[int, typer.Option("--least", metavar="N", help="How often what becomes a token must occur.")] = 2,
    lower: Annotated[bool, typer.Option("--lower", help="Lower all letters.")] = False,
    column: Annotated[str, typer.Option("--column", metavar="NAME", help="The column, or key, of the texts.")] = "text",
    json: Json = False,
) -> None:
    """Learn the vocabulary of a tokenizer from texts."""
    from pdl.workflow.vocabularies import vocab

    facts = vocab(kind, files, out, size=size, least=least, lower=lower, column=column)
    lines = [(facts["kind"], f"{facts['tokens']:,} tokens"), ("written", ", ".join(facts["files"]))]
    style.json(facts) if json else style.pairs(lines)
