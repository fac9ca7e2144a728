"""`pdl compress`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, require_store
from pdl.cli.signals import stoppable
from pdl.errors import UsageError

if TYPE_CHECKING:
    from pdl.workflow.compression import Compressed
    from pdl.workflow.slimming import Step
    from pdl.workflow.slimming_search import Searched

EXAMPLE = "Example:  pdl compress runs/cifar10 --to int8 --samples 512 -o cifar10.int8.pdl"
WORST = 5


def command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The run folder; with --plan also a bundle or a name of the hub.")
    ],
    data: Overrides = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Steps to make it small by: prune, low_rank, tune, sparse, round, tune_rounded, int8; and compile.",
        ),
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            "--within", metavar="POINTS", min=0, help="Search how much the plan leaves: lose at most so many, be fast."
        ),
    ] = None,
    trials: Annotated[int, typer.Option("--trials", min=1, help="How many of each section (--within).")] = 4,
    to: Annotated[
        str, typer.Option("--to", help="int8: weights and activations in bytes; w8, w4: weights alone.")
    ] = "int8",
    images: Annotated[
        Path | None, typer.Option("--images", metavar="FOLDER", help="Find ranges with these pictures.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="How many samples to find ranges with.")] = 512,
    split: Annotated[str, typer.Option("--split", help="What both nets are measured on.")] = "test",
    method: Annotated[str, typer.Option("--method", help="mse, entropy, percentile or minmax.")] = "mse",
    keep: Annotated[str, typer.Option("--keep", help="Leave in floats: first, last or both.")] = "",
    spare: Annotated[
        int, typer.Option("--spare", min=0, help="How many more: those whose bytes cost most (int8).")
    ] = 0,
    rounding: Annotated[
        str, typer.Option("--rounding", help="Of weights (int8): nearest, or adaptive to what layers make of them.")
    ] = "nearest",
    weights: Annotated[str | None, typer.Option("--weights", help="best or last.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Default: RUN/model.int8.pdl; with --plan a folder, needed."),
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="Also write ONNX, with QuantizeLinear ops.")
    ] = None,
    group: Annotated[
        int, typer.Option("--group", min=8, help="Inputs that share a scale (w8, w4), a multiple of 8.")
    ] = 64,
    store: Annotated[
        str, typer.Option("--store", metavar="TYPE", help="What stays in floats (int8): fp32, bf16, fp16, or k4 to k8.")
    ] = "fp32",
    json: Json = False,
) -> None:
    """Write a smaller, faster bundle of a trained run, and show what it costs: metrics, size, latency, noise.

    Nothing is trained: ranges of activations come from validation data, weights are rounded per output channel. With
    w8 and w4 the weights of large matrices are rounded alone: nets that write token by token read less memory.

    With a plan the net is trained again, too: it loses channels, learns from the model as it was, and with the rounding
    of bytes. Settings then change the plan (prune.left=0.3). The same command goes on where it was stopped. With
    --within 1 it is the fastest net of all that were tried that loses at most a point (0.01) of the validation metric:
    prune.left, low_rank.left and sparse.share are searched in turn, each of them that the plan has.
    """
    if plan is not None:
        return _by_plan(run, plan, out, data or [], json, within, trials)
    if within is not None:
        raise UsageError("--within searches the strength of a plan: give one (--plan FILE)")
    from pdl.workflow.compression import compress

    require_store(store)
    made = compress(
        run, out, to=to, overrides=data or [], images=images, samples=samples, split=split, method=method, keep=keep,
        spare=spare, weights=weights, onnx=onnx, group=group, store=store, rounding=rounding,  # type: ignore[arg-type]
    )  # fmt: skip
    style.json(made.to_dict()) if json else _show(made)


def _by_plan(
    model: Path, plan: Path, out: Path | None, settings: list[str], json: bool, within: float | None, trials: int
) -> None:
    """`pdl.workflow.slimming.slim`, or the search of `pdl.workflow.slimming_search`, and a table."""
    from pdl.workflow.slimming import read_plan, slim
    from pdl.workflow.slimming_search import search

    if out is None:
        raise UsageError("--plan writes several runs: say into which folder (-o FOLDER)")
    with stoppable() as stopping:
        common: dict[str, Any] = {"hooks": [stopping], "progress": not json}
        if within is not None:
            found = search(model, read_plan(plan, settings), out, within=within, trials=trials, **common)
            return style.json(found.to_dict()) if json else _show_searched(found, within)
        made = slim(model, read_plan(plan, settings), out, **common)
    style.json(made.to_dict()) if json else _show_steps(made.steps, made.monitor, made.steps[-1].bundle, made.page)


def _show_searched(found: Searched, within: float) -> None:
    _show_steps(found.steps, found.monitor, found.bundle, found.page)
    style.note(f"at most {within:g} points of {found.monitor} lost: {found.chosen.name.replace('_', ' ')}")


def _show_steps(steps: Sequence[Step], name: str, bundle: Path, page: Path) -> None:
    first = steps[0]
    tested = f"test/{name.partition('/')[2]}"
    columns = [each for each in (name, tested) if each in first.metrics]
    rows = [
        (
            step.name.replace("_", " "),
            *(f"{step.metrics[each]:.4f}" if each in step.metrics else "" for each in columns),
            f"{step.size / 1e3:,.1f}",
            f"{step.adds / 1e6:,.2f}",
            f"{step.milliseconds:.3f}",
            f"{first.milliseconds / step.milliseconds:.2f}",
        )
        for step in steps
    ]
    style.table(["step", *columns, "kB", "M multiply-adds", "ms", "times as fast"], rows)
    if first.compiled is not None:
        style.out("")
        head = ["as C", "kB", "ms", "difference", "objects of one alone", "emulated"]
        style.table(head, [_as_c(step) for step in steps])
    style.out("")
    style.pairs([("bundle", str(bundle)), ("page", str(page))])


def _as_c(step: Step) -> tuple[str, ...]:
    made = step.compiled
    assert made is not None
    emulated = "" if made.emulated is None else f"{made.emulated:.1e}"
    return (
        step.name.replace("_", " "), f"{made.size / 1e3:,.1f}", f"{made.milliseconds:.3f}", f"{made.difference:.1e}",
        str(made.alone), emulated,
    )  # fmt: skip


def _show(made: Compressed) -> None:
    rows = [
        (p.name, f"{p.before:.4f}", f"{p.after:.4f}", f"{p.after - p.before:+.4f}")
        for p in made.metrics
        if not (isnan(p.before) and isnan(p.after))
    ]
    kb = made.size
    rows.append(("size", f"{kb.before / 1e3:,.1f} kB", f"{kb.after / 1e3:,.1f} kB", f"{1 / kb.ratio:.2f} of it"))
    rows += [(p.name, f"{p.before:.3f} ms", f"{p.after:.3f} ms", f"{p.ratio:.2f} times as fast") for p in made.latency]
    style.table(["", "fp32", made.to, ""], rows, title=f"measured on {made.split}")
    style.out("")
    if made.errors:
        style.table(["noisiest activations", "dB"], [(e.name, f"{e.noise:.1f}") for e in made.errors[:WORST]])
        style.out("")
    on_bytes, products = made.products
    style.pairs(
        [
            ("bundle", str(made.path)),
            (f"in {made.to}" if made.to != "int8" else "on bytes", f"{on_bytes} of {products} products"),
            ("ranges", f"{made.method}, {made.samples} samples" if made.samples else made.method),
        ]
    )
    for line in made.notes:
        style.note(line)
