"""`pdl package`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, require_store

EXAMPLE = "Example:  pdl package runs/digits --name pdl-my-model --version 1.0 --licence Apache-2.0"


def command(
    source: Annotated[Path, typer.Argument(metavar="RUN|BUNDLE", help="A run with its bundle, or a bundle.")],
    name: Annotated[str, typer.Option("--name", help="pdl-my-model; it is used as my-model.")],
    version: Annotated[str, typer.Option("--version", help="Of the package, such as 1.0.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write the wheel.")] = Path("dist"),
    licence: Annotated[
        str | None, typer.Option("--licence", metavar="SPDX", help="Of the weights; by default the bundle's.")
    ] = None,
    summary: Annotated[str | None, typer.Option("--summary", help="One line; by default the card's title.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="By default what the bundle says it is for.")] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="Who made the weights.")] = None,
    store: Annotated[
        str,
        typer.Option(
            "--store", metavar="TYPE", help="Of a run: fp32, bf16 or fp16 (half the bytes), k4 to k8 (shared values)."
        ),
    ] = "fp32",
    force: Annotated[bool, typer.Option("--force", help="Replace a wheel that holds something else.")] = False,
    json: Json = False,
) -> None:
    """Make a wheel of a model: installed with pip on another machine, it is used by name there.

    It holds the bundle, its card, and an index entry with licence, origin and metric, which `pdl models` shows.
    """
    require_store(store)
    from pdl.workflow.packaging import package

    given: dict[str, Any] = {"store": store, "licence": licence, "summary": summary, "task": task, "origin": origin}
    made = package(source, name=name, version=version, out=out, force=force, **given)
    for note in made.notes:
        style.note(note)
    following = [f"pip install {shlex.quote(str(made.path))}", f"pdl predict {made.model} {made.example}"]
    if json:
        return style.json(
            {"wheel": str(made.path), "model": made.model, "bytes": made.size, "entry": made.entry, "next": following}
        )
    metric = made.entry.get("metric")
    style.pairs(
        [
            ("wheel", str(made.path)),
            ("size", f"{made.size / 1000:,.1f} kB"),
            ("model", made.model),
            ("licence", made.entry["licence"]),
            ("metric", f"{metric['name']} {metric['value']:.4f} ({metric['data']})" if metric else None),
            *zip(("next", ""), following, strict=True),
        ]
    )
