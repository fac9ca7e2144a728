"""`pdl compress`."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, require_store

if TYPE_CHECKING:
    from pdl.workflow.compression import Compressed

EXAMPLE = "Example:  pdl compress runs/cifar10 --to int8 --samples 512 -o cifar10.int8.pdl"
WORST = 5


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder.")],
    data: Overrides = None,
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
    weights: Annotated[str | None, typer.Option("--weights", help="best or last.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: RUN/model.int8.pdl")] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="Also write ONNX, with QuantizeLinear ops.")
    ] = None,
    group: Annotated[
        int, typer.Option("--group", min=8, help="Inputs that share a scale (w8, w4), a multiple of 8.")
    ] = 64,
    store: Annotated[
        str, typer.Option("--store", metavar="TYPE", help="What stays in floats: fp32, or bf16 or fp16 (int8).")
    ] = "fp32",
    json: Json = False,
) -> None:
    """Write a smaller, faster bundle of a trained run, and show what it costs: metrics, size, latency, noise.

    Nothing is trained: ranges of activations come from validation data, weights are rounded per output channel. With
    w8 and w4 the weights of large matrices are rounded alone: nets that write token by token read less memory.
    """
    from pdl.workflow.compression import compress

    require_store(store)
    made = compress(
        run, out, to=to, overrides=data or [], images=images, samples=samples, split=split, method=method, keep=keep,
        weights=weights, onnx=onnx, group=group, store=store,  # type: ignore[arg-type]
    )  # fmt: skip
    style.json(made.to_dict()) if json else _show(made)


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
