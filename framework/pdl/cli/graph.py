"""`pdl graph`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Overrides, recipe
from pdl.files import write_atomic

EXAMPLE = "Example:  pdl graph cv/digits_lenet -o lenet.svg        pdl graph runs/digits --text"
FOLD_ABOVE = 40


def command(
    target: Annotated[Path, typer.Argument(metavar="RUN|RECIPE", help="A run folder, or a recipe (a file or a name).")],
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="The picture (SVG); by default graph.svg.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the program, one op a line, and draw nothing.")] = False,
    step: Annotated[bool, typer.Option("--step", help="The whole training step, with gradients, as it runs.")] = False,
    whole: Annotated[bool, typer.Option("--whole", help="Draw repeated blocks in full.")] = False,
) -> None:
    """Draw the program of a model and its loss: ops, shapes, modules. Repeated blocks of large nets are drawn once."""
    from pdl.report.drawing import draw
    from pdl.report.graph import fold, graph_of
    from pdl.workflow.step_program import TracedRecipe

    traced = TracedRecipe(recipe(target, overrides))
    program = traced.step().program if step else traced.forward()
    if text:
        return style.out(program.text())
    graph = graph_of(program)
    shown = graph if whole else fold(graph, above=FOLD_ABOVE)
    file = out or Path("graph.svg")
    write_atomic(file, draw(shown))
    style.pairs([("program", graph.name), ("ops", len(program.nodes)), ("drawn", len(shown.boxes)), ("picture", file)])
