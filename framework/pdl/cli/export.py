"""`pdl export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Recipe, recipe, require_store
from pdl.errors import UsageError, listed

EXAMPLE = (
    "Example:  pdl export runs/digits        pdl export --check -c cv/digits_lenet"
    "        pdl export runs/talks --lm words.arpa --beam 100 -o talks.pdl"
)
SETTINGS = {"ignore_unknown_options": True}
"""Options that typer does not know are those of the model."""
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN",
        help="The run folder, and options of its answers (pdl predict RUN --help) that the bundle is to keep; with "
        "--check, settings of the recipe.",
        show_default=False,
    ),
]
TARGETS = ("bundle", "onnx")


def command(
    words: Words = None,
    config: Recipe = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="By default RUN/model.pdl or RUN/model.onnx.")
    ] = None,
    to: Annotated[str, typer.Option("--to", help="bundle or onnx.")] = "bundle",
    opset: Annotated[int | None, typer.Option("--opset", metavar="N", help="Of the ONNX file.")] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", help="best or last; by default those of the run's test.")
    ] = None,
    store: Annotated[
        str,
        typer.Option(
            "--store", metavar="TYPE", help="fp32, bf16 or fp16 (half the bytes), k4 to k8 (shared values); measured."
        ),
    ] = "fp32",
    form: Annotated[
        str,
        typer.Option("--form", metavar="NAME", help="Another form of it, such as dense: boxes before suppression."),
    ] = "",
    licence: Annotated[str, typer.Option("--licence", metavar="TEXT", help="Of the weights, for the card.")] = "",
    check: Annotated[bool, typer.Option("--check", help="Before training: does this recipe's model export?")] = False,
    json: Json = False,
) -> None:
    """Write a trained run to one file: a bundle for pdl's runtime, or ONNX. It is held to the model before it is kept.

    A bundle keeps options of `pdl predict RUN`, such as a language model (--lm FILE), and answers with them; it can be
    made of a bundle, too. A bundle, or a pretrained model by name, is written as ONNX (--to onnx); of one that can be
    streamed, NAME_step.onnx reads a chunk, with its states as inputs and outputs. Several models that answer together,
    told by a file or by a name, become one bundle.

    With --check nothing is trained or written: each op and line of code that stands in the way is named (exit code 1).
    """
    if to not in TARGETS:
        raise UsageError(f"--to {to}: choose {' or '.join(TARGETS)}")
    require_store(store)
    if out is not None and out.suffix == ".onnx" and to == "bundle" and not check:
        raise UsageError(f"-o {out}: its name is that of an ONNX file; add --to onnx, or name a bundle: {out.stem}.pdl")
    given, values = _parted(words or ())
    if check:
        if values:
            raise UsageError(f"{next(iter(values))}: --check has no such option; pdl export --help shows all")
        return _check(config, given, to, opset, json)
    if config is not None:
        raise UsageError("-c belongs to --check; to export a run, name its folder: pdl export RUN")
    if len(given) != 1:
        raise UsageError("which run? write: pdl export RUN")
    from pdl.workflow.exporting import bundle_to_onnx, export, export_bundle
    from pdl.workflow.locating import located
    from pdl.workflow.systems import export_system, is_system

    changed = bool(weights or form or store != "fp32")
    if is_system(given[0]):
        if to != "bundle" or opset is not None or changed or values:
            named = listed(["--to", "--opset", "--weights", "--store", "--form", *values])
            raise UsageError(f"{given[0]} is several models: {named} are for one")
        return _show(export_system(given[0], out, licence=licence), json)
    source = located(given[0])
    if source.is_file() and values:
        if to != "bundle" or opset is not None or changed or licence or out is None:
            raise UsageError(f"{given[0]} is a bundle: to keep {listed(list(values))} in another, add -o FILE alone")
        made = export_bundle(source, out, values=values)
    elif source.is_file():
        _require_onnx(given[0], to, changed or bool(licence))
        made = bundle_to_onnx(source, out, opset=opset)
    else:
        chosen: Any = {"to": to, "weights": weights, "store": store}
        made = export(source, out, opset=opset, licence=licence, form=form, values=values, **chosen)
    _show(made, json)


def _parted(words: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Words, and values of options of the model by name: "--beam 100" or "--beam=100"."""
    given, values, waiting = list[str](), dict[str, list[str]](), iter(words)
    for word in waiting:
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            given.append(word)
            continue
        if not name.startswith("--"):
            raise UsageError(f"{name}: no such option; pdl export --help shows all")
        found = value if equals else next(waiting, "--")
        if found.startswith("--"):
            raise UsageError(f"{name} needs a value, as options of a model that a bundle keeps do: pdl predict --help")
        values.setdefault(name, []).append(found)
    return given, values


def _show(made: Any, json: bool) -> None:
    if json:
        return style.json({**dict(made.facts), "notes": made.notes})
    for note in made.notes:
        style.note(note)
    style.pairs(made.facts)


def _require_onnx(source: str, to: str, changed: bool) -> None:
    if to != "onnx":
        raise UsageError(f"{source} is a bundle already; --to onnx makes an ONNX file of it")
    if changed:
        raise UsageError(f"{source} is a bundle: --weights, --store, --form and --licence belong to runs")


def _check(config: Path | None, overrides: list[str], to: Any, opset: int | None, json: bool) -> None:
    from pdl.workflow.exporting import check

    found = check(recipe(config, overrides), to=to, opset=opset)
    if json:
        style.json({"good": not found.faults, "faults": found.faults, "notes": found.notes, "inputs": found.inputs})
    else:
        for note in found.notes:
            style.note(note)
        for fault in found.faults:
            style.error(fault)
        style.out(f"faults: {len(found.faults)}" if found.faults else f"it exports: {found.inputs}")
    if found.faults:
        raise typer.Exit(1)
