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
    "        pdl ngram --words commands.txt --out commands.arpa"
    "        pdl predict RUN sound.wav --lm words.arpa"
)


def command(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The ARPA file to write.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES...", help="Texts, one a line; also .gz, .bz2, .xz.", show_default=False),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(
            "--words",
            metavar="FILE",
            help="These words alone; without texts in any order, and each as probable.",
            show_default=False,
        ),
    ] = None,
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
    """Learn an n-gram language model from texts, to be used with `pdl predict --lm`, or kept in a bundle with `pdl
    export --lm`; or make one of a list of words, of which alone a text is then made."""
    from pdl.workflow.ngrams import learn

    facts = learn(files or (), out, words=words, order=order, characters=characters, lower=lower, test=test)
    if json:
        style.json(facts)
        return
    counts = ", ".join(f"{count:,} {n}-grams" for n, count in enumerate(facts["ngrams"], 1))
    lines = [("tokens", f"{facts['tokens']:,}"), ("n-grams", counts)]
    if facts.get("left_out"):
        lines.append(("left out", f"{facts['left_out']:,} texts with other words"))
    if measured := facts.get("test"):
        unknown = f"{measured['unknown']:,} of {measured['tokens']:,} tokens unknown"
        lines.append(("perplexity", f"{measured['perplexity']:.4g} ({unknown})"))
    style.pairs([*lines, ("written", facts["file"])])
