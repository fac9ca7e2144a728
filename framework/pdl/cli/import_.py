"""`pdl import`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Opening
from pdl.cli.deadline import ends_within
from pdl.errors import UsageError
from pdl.limits import OPENING

EXAMPLE = "Example:  pdl import net.onnx -o net.pdl --size h=224 --size w=224 --labels classes.txt"


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.", show_default=False)],
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
    force: Annotated[bool, typer.Option("--force", help="Write it though ONNX Runtime's results differ.")] = False,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Compare it with ONNX Runtime.")] = True,
    timeout: Opening = OPENING,
    json: Json = False,
) -> None:
    """Make a bundle of an ONNX model, and compare it with ONNX Runtime where that is installed."""
    from pdl.export.imported import import_model

    fixed = sizes_in(size or [])
    with ends_within(str(model), timeout):
        facts = import_model(
            model, out, pipeline=pipeline, labels=labels, sizes=fixed, force=force, check=check, timeout=timeout
        )
    style.json(facts) if json else style.pairs(_lines(facts))


def sizes_in(given: list[str]) -> dict[str, int]:
    """h=224,w=224 as a dict."""
    found = {}
    for entry in (part for text in given for part in text.split(",")):
        name, _, number = entry.partition("=")
        if not name.strip() or not number.strip().isdigit() or int(number) < 1:
            raise UsageError(f"--size {entry!r}: expected NAME=NUMBER, as in h=224")
        found[name.strip()] = int(number)
    return found


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "bundle", f"{facts['bundle']} ({facts['size'] / 2**20:,.2f} MiB, {facts['kind']})"
    yield "opset", ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in facts["opset"].items())
    if facts["producer"]:
        yield "producer", facts["producer"]
    for label in ("inputs", "outputs"):
        yield label, ", ".join(facts[label])
    yield "ops", ", ".join(f"{name} {count}" for name, count in facts["ops"].items())
    for check in facts["checks"]:
        at = ", ".join(f"{name}={n}" for name, n in check["sizes"].items()) or "fixed sizes"
        yield "ONNX Runtime", f"{at}: difference {check['difference']:.2g}, {check['relative']:.2g} of the spread"
    for note in facts["notes"]:
        yield "note", note
