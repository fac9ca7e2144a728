"""`pdl ngram`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = (
    "Example:  pdl ngram transcripts.txt --out words.arpa --test dev.txt"
    "        pdl ngram lines.txt.gz --characters --order 6 --out letters.arpa"
    "        pdl predict RUN sound.wav --lm words.arpa"
)


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help="Texts, one a line; also .gz, .bz2, .xz.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The ARPA file to write.")],
    order: Annotated[int, typer.Option("--order", metavar="N", help="Tokens of the longest n-grams.")] = 3,
    characters: Annotated[
        bool, typer.Option("--characters", help="N-grams of characters; without it of words between blanks.")
    ] = False,
    lower: Annotated[bool, typer.Option("--lower", help="Lower all letters.")] = False,
    test: Annotated[
        Path | None,
        typer.Option("--test", metavar="FILE", help="Texts to measure the perplexity on.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Learn an n-gram language model from texts, to be used with `pdl predict --lm`."""
    from pdl.workflow.ngrams import learn

    facts = learn(files, out, order=order, characters=characters, lower=lower, test=test)
    if json:
        style.json(facts)
        return
    counts = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(facts["ngrams"], 1))
    lines = [("tokens", f"{facts['tokens']:,}"), ("n-grams", counts)]
    if measured := facts.get("test"):
        unknown = f"{measured['unknown']:,} of {measured['tokens']:,} tokens unknown"
        lines.append(("perplexity", f"{measured['perplexity']:.4g} ({unknown})"))
    style.pairs([*lines, ("written", facts["file"])])
