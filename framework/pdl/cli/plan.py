"""`pdl plan`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Recipe, recipe

EXAMPLE = "Example:  pdl plan -c cv/digits_lenet --mesh data=2,tensor=2        pdl plan -c cv/digits_lenet --workers 4"


def command(
    words: Overrides = None,
    config: Recipe = None,
    mesh: Annotated[
        str | None,
        typer.Option(
            "--mesh",
            metavar="data=2,tensor=2,pipeline=2",
            show_default=False,
            help="By default the recipe's `distributed`.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-j", metavar="N", min=1, show_default=False, help="All meshes of N processes."),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            "--bandwidth", metavar="GB/S", show_default=False, help="Between processes; by default measured here."
        ),
    ] = None,
    latency: Annotated[
        float | None,
        typer.Option("--latency", metavar="US", show_default=False, help="Microseconds of a message; as --bandwidth."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what training a recipe on a mesh of processes takes: memory of each, bytes and time of a step.

    One process's program (of a pipeline each stage's) is made and run a few times on this machine; others are started
    to measure messages alone.
    Loading of data is not counted.
    """
    from pdl.workflow import plan

    found, left, link = plan(
        recipe(config, words), mesh=mesh, workers=workers,
        bandwidth=None if bandwidth is None else bandwidth * 1e9, latency=None if latency is None else latency * 1e-6,
    )  # fmt: skip
    if json:
        told = {"bandwidth": link.bandwidth, "latency": link.latency, "how": link.how}
        return style.json({"link": told, "plans": [each.to_dict() for each in found], "left_out": left})
    if workers is None:
        _one(found[0])
    else:
        style.table(
            ["mesh", "step ms", "memory", "sent", "bottleneck"],
            [(_mesh(p), f"{p.step * 1e3:.2f}", style.size(p.bytes), style.size(sum(p.sent.values())), p.bottleneck)
             for p in found],
        )  # fmt: skip
        for line in left:
            style.note(f"left out: {line}")
    style.out(f"\nmessages: {link.bandwidth / 1e9:.3g} GB/s, {link.latency * 1e6:.3g} us each ({link.how})")


def _one(plan: Any) -> None:
    """Tables of one mesh."""
    style.table(
        ["memory", "bytes"],
        [*[(kind, style.size(n)) for kind, n in plan.memory.items() if n], ("in all", style.size(plan.bytes))],
        title=f"{'the largest' if plan.stages else 'each'} process of {_mesh(plan)}",
    )
    style.out("")
    rows = [
        (kind, f"{seconds * 1e3:.3f}", f"{seconds / plan.step:.0%}", *_sent(plan, kind))
        for kind, seconds in plan.seconds.items()
    ]
    style.table(
        ["step", "ms", "share", "sent", "messages"], [*rows, ("in all", f"{plan.step * 1e3:.3f}", "", "", "")],
        title=f"a step: {plan.samples:,} samples a process",
    )  # fmt: skip
    if plan.stages:
        style.out("")
        style.table(
            ["stage", "process", "begins with", "weights", "micro-batches", "of each", "forward ms", "backward ms"],
            [(str(number), str(s["process"]), s["begins"], style.size(s["weights"]), str(s["under_way"]),
              style.size(s["micro_batch"]), f"{s['forward'] * 1e3:.3f}", f"{s['backward'] * 1e3:.3f}")
             for number, s in enumerate(plan.stages)],
            title="stages",
        )  # fmt: skip
    style.out("")
    longest = ", ".join(f"{op} {share:.0%}" for op, share in plan.ops)
    style.pairs([("bottleneck", plan.bottleneck), ("longest ops", longest), ("weights", plan.cut or None)])


def _sent(plan: Any, kind: str) -> tuple[str, str]:
    return (style.size(plan.sent[kind]), str(plan.messages[kind])) if kind in plan.sent else ("", "")


def _mesh(plan: Any) -> str:
    return " x ".join(f"{axis}={n}" for axis, n in plan.mesh.items() if n > 1) or "one process"
