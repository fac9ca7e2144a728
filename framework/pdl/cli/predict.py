"""`pdl predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, located
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl predict runs/digits photo.png 'scans/*.png' --topk 3        pdl predict digits_lenet digit.png"
Inputs = Annotated[
    list[str],
    typer.Argument(metavar="INPUT...", help="Files, folders, patterns, or - for standard input.", show_default=False),
]


def command(
    run: Annotated[
        str, typer.Argument(metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle, or a name of `pdl models`.")
    ],
    inputs: Inputs,
    topk: Annotated[int, typer.Option("--topk", min=1, help="How many answers for each input.")] = 5,
    json: Json = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Draw the answers into this folder.")
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Inputs looked at together.")] = 32,
) -> None:
    """Use a trained run, a bundle, or a pretrained model by name, on new data. All know how their inputs are prepared.

    A bundle runs in pdl's runtime, without any training code. A name is fetched when it is first used, and then never
    again.
    """
    from pdl.runtime.bundle import is_bundle

    if "-" in inputs and sys.stdin.isatty():
        raise UsageError("'-' reads a file from standard input: pdl predict RUN - < photo.png")
    whole = _system(run)
    model = located(run) if whole is None else whole
    if whole is not None or is_bundle(model):
        found = _of_bundle(model, inputs, topk, batch_size, save)
    else:
        from pdl.train import predict

        found = predict(model, inputs, topk=topk, batch_size=batch_size, save=save)
    if json:
        style.json(found)
    else:
        rows = [row for each in found for row in _rows(each)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        style.table(names, [[row.get(name, "") for name in names] for row in rows])


def _system(word: str) -> Any:
    """The models that a name of the hub stands for, ready to answer together; None where it stands for one, or none."""
    if Path(word).expanduser().exists():
        return None
    from pdl.hub.systems import opened, system

    known = system(word)
    return None if known is None else opened(known)


def _of_bundle(bundle: Any, inputs: list[str], topk: int, batch_size: int, save: Path | None) -> list[dict[str, Any]]:
    """Predictions of a bundle, or of a system; pictures with the answer drawn go into `save`."""
    from pdl.runtime.use import predict

    found = []
    for _, item, prediction in predict(bundle, inputs, topk=topk, batch_size=batch_size):
        if save is not None:
            from pdl.report.answers import draw

            prediction["saved"] = str(draw(item, prediction, save))
        found.append(prediction)
    return found


def _rows(prediction: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each answer; what is the same for all of them stands in the first."""
    single = {name: value for name, value in prediction.items() if not isinstance(value, list)}
    answers: list[dict[str, Any]] = next((value for value in prediction.values() if _is_answers(value)), [{}])
    for number, answer in enumerate(answers):
        yield {**(single if number == 0 else {}), **answer}


def _is_answers(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
