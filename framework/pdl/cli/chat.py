"""`pdl chat`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, MaxMemory, Timeout
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl chat runs/book --temperature 0.7        pdl chat nlp/minilm --search answers.txt"
SETTINGS = {"ignore_unknown_options": True, "help_option_names": []}
"""Options that typer does not know are those of the model; --help is that of the model, too."""
RESET = "/reset"
ASKING = "> "


def command(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle, or a name of `pdl models`.", show_default=False
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TURN...]",
            help="What is said, in place of standard input; and options of the model, as pdl predict has them.",
            show_default=False,
        ),
    ] = None,
    turns: Annotated[
        int | None,
        typer.Option("--turns", min=1, metavar="N", help="The model reads the last N turns, both sides counted; by "
                     "default all that fit.", show_default=False),
    ] = None,
    json: Json = False,
    timeout: Timeout = None,
    max_memory: MaxMemory = None,
    help: Annotated[bool, typer.Option("-h", "--help", help="Show this, and options of the model.")] = False,
) -> None:
    """Talk with a model that writes text, or that finds the best of other texts (--search FILE: its answers).

    On a terminal, answers appear as they are written; Ctrl-D ends. From a pipe, each line is a turn, and the answer to
    it a line. /reset begins a new conversation.
    """
    if model is None or model.startswith("-"):
        if help:
            return style.out(context.get_help())
        raise UsageError("which model? write it first: pdl chat RUN ...")
    from pdl.runtime.predict import pipeline_of
    from pdl.workflow.chat import Chat
    from pdl.workflow.prediction import open_model, parse_options

    predictor = open_model(model, timeout=timeout, max_memory=max_memory)
    pipeline = pipeline_of(predictor)
    if help:
        flags = [(f"{flag.name} {flag.metavar}".rstrip(), flag.help) for flag in pipeline.flags]
        width = max((len(name) for name, _ in flags), default=0)
        lines = [f"Options of {model}:", *(f"  {name:<{width}}  {about}" for name, about in flags)]
        return style.out(context.get_help() + ("\n\n" + "\n".join(lines) if flags else ""))
    words, values = parse_options(pipeline, arguments or ())
    values.pop("--stream", None)  # which it does anyway
    chat = Chat(predictor, values, turns=turns)
    live = not words and sys.stdin.isatty() and sys.stdout.isatty()
    if live:
        style.note(f"{model}: Ctrl-D ends, {RESET} begins anew")
    for text in iter(words) if words else _lines(live):
        if text == RESET:
            chat.reset()
        elif json:
            style.json({"turn": text, **chat.answer(text)})
        else:
            for piece in chat.stream(text):
                style.piece(style.shown(piece if live else " ".join(piece.splitlines())))
            style.out("")


def _lines(live: bool) -> Iterator[str]:
    """What is said: lines of standard input that are not blank."""
    if live:
        with suppress(ImportError):
            import readline  # noqa: F401  # arrow keys edit a line
        while True:
            try:
                line = input(ASKING)
            except EOFError:
                return style.out("")
            if line.strip():
                yield line.strip()
    else:
        yield from (line.strip() for line in sys.stdin if line.strip())
