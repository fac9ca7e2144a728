"""`pdl compile`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json
from pdl.errors import UsageError

EXAMPLE = (
    "Example:  pdl compile cv/digits_lenet --save digits"
    "        pdl compile cv/digits_lenet --to wasm --save site"
    "        pdl compile runs/yolo --shape image=1,416,416,3 --save yolo"
)


def command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A bundle, a run folder, or a pretrained model by name.")
    ],
    to: Annotated[
        str, typer.Option("--to", help="c: sources in C99. wasm: for browsers, with a page. arduino: a library.")
    ] = "c",
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FOLDER", help="Where to write; by default a folder of the model's name."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="INPUT=SIZES", help="The whole shape of an input: image=1,32,32,3."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Of files and functions.")] = "",
    apart: Annotated[
        bool, typer.Option("--apart", help="Weights in a file of their own, which the assembler includes.")
    ] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="3x3 convolutions by Winograd's filters: four times the bytes of weights.")
    ] = False,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--sample", metavar="FILE", help="What the test is made of; by default a run's example, or made-up numbers."
        ),
    ] = None,
    cpu: Annotated[
        str, typer.Option("--cpu", help="Test it on this CPU, too, emulated by QEMU: aarch64, arm or riscv64.")
    ] = "",
    json: Json = False,
) -> None:
    """Write a model as C that needs no library but libm: for microcontrollers, phones, browsers and servers.

    Sizes are fixed, memory is planned and static, weights are constants. Pixels are resized and normalised, and the
    best class is named, or objects are listed in pixels of the picture, where the model's steps are these; the header
    says what else is left to the caller. What it computes is compared with the runtime where this machine has a C
    compiler, Node.js for wasm, a compiler for Cortex-M and QEMU for arduino.
    """
    from pdl.workflow.compiling import compile_model

    folder = save or Path(Path(model).stem or "model")
    made = compile_model(
        model, folder, to=to, shapes=_shapes(shape or ()), name=name, apart=apart, fast=fast, sample=sample, cpu=cpu
    )
    if json:
        return style.json(made.to_dict())
    for note in made.notes:
        style.note(note)
    style.pairs(made.facts)
    return None


def _shapes(words: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by name, of "image=1,32,32,3"."""
    found = {}
    for word in words:
        name, equals, sizes = word.partition("=")
        try:
            found[name] = tuple(int(n) for n in sizes.split(","))
        except ValueError:
            equals = ""
        if not equals or min(found[name]) < 1:
            raise UsageError(f"--shape {word}: write the name of an input and its sizes: --shape image=1,32,32,3")
    return found
