"""`pdl import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Opening, numbers_in
from pdl.cli.deadline import ends_within
from pdl.errors import UsageError
from pdl.limits import OPENING

#: inputs and outputs that are shown
MOST = 20
EXAMPLE = "Example:  pdl import net.onnx -o net.pdl --size h=224 --size w=224 --labels classes.txt"


def command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="An ONNX or TensorFlow Lite file, a program of Paddle or the folder with it.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The bundle; by default MODEL with .pdl.")
    ] = None,
    pipeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Steps before and after the net (YAML or JSON).")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(metavar="FILE", help="Labels, one a line; or metadata:KEY of the model.")
    ] = None,
    size: Annotated[
        list[str] | None, typer.Option(metavar="NAME=N", help="Fix a dynamic size; several: h=224,w=224.")
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=X", help="Make an input of numbers, such as a sampling rate, a constant."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=AXES", help="Open fixed sizes of an input, or tell multiples: image=n,3,32*h,w."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write it though the other runtime's results differ.")] = False,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare it with the runtime of its format.")
    ] = True,
    timeout: Opening = OPENING,
    json: Json = False,
) -> None:
    """Make a bundle of a model of ONNX, TensorFlow Lite or Paddle, and compare it with the runtime that it was made
    for, ONNX Runtime, LiteRT or Paddle, where that is installed."""
    from pdl.export.imported import import_model

    fixed, held = numbers_in("--size", size or [], sizes=True), numbers_in("--value", value or [])
    with ends_within(str(model), timeout):
        facts = import_model(
            model, out, pipeline=pipeline, labels=labels, sizes=fixed, values=held,
            shapes=dict(map(_axes, shape or [])), force=force, check=check, timeout=timeout,
        )  # fmt: skip
    style.json(facts) if json else style.pairs(_lines(facts))


def _axes(text: str) -> tuple[str, list[int | str]]:
    """An input's name and its axes, of NAME=n,3,h,w."""
    name, sign, axes = text.partition("=")
    if not (name and sign and axes):
        raise UsageError(f"--shape {text}: expected an input and its axes, such as image=n,3,h,w")
    return name, [int(axis) if axis.strip().isdecimal() else axis.strip() for axis in axes.split(",")]


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "bundle", f"{facts['bundle']} ({facts['size'] / 2**20:,.2f} MiB, {facts['kind']})"
    yield "opset", ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in facts["opset"].items())
    if facts["producer"]:
        yield "producer", facts["producer"]
    for label in ("inputs", "outputs"):
        shown = facts[label][:MOST]
        more = len(facts[label]) - len(shown)
        yield label, ", ".join([*shown, f"and {more} more (--json has all)"] if more else shown)
    yield "ops", ", ".join(f"{name} {count}" for name, count in facts["ops"].items())
    for check in facts["checks"]:
        at = ", ".join(f"{name}={n}" for name, n in check["sizes"].items()) or "fixed sizes"
        yield facts["runtime"], f"{at}: difference {check['difference']:.2g}, {check['relative']:.2g} of the spread"
    for note in facts["notes"]:
        yield "note", note
