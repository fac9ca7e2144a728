"""`pdl bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, MaxMemory, Timeout, numbers_in
from pdl.errors import UsageError

EXAMPLE = (
    "Example:  pdl bench runs/digits/model.pdl --batch 32 --threads 1        pdl bench runs/digits --tune        "
    "pdl bench --machine --renew"
)


def command(
    bundle: Annotated[
        str, typer.Argument(metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle, or a name of `pdl models`.")
    ] = "",
    batch: Annotated[int, typer.Option("--batch", min=1, help="Samples a run.")] = 1,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="By default all cores.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="How long to measure.")] = 3.0,
    size: Annotated[
        list[str] | None, typer.Option("--size", metavar="h=..,w=..", help="Of axes that are not fixed.")
    ] = None,
    value: Annotated[
        list[str] | None, typer.Option("--value", metavar="NAME=X", help="Of inputs, such as a sampling rate.")
    ] = None,
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16.")] = "fp32",
    tune: Annotated[
        bool, typer.Option("--tune", help="Time the forms of its products first; all later runs use the fastest.")
    ] = False,
    machine: Annotated[
        bool, typer.Option("--machine", help="Show the figures of this machine that plans are chosen by.")
    ] = False,
    renew: Annotated[bool, typer.Option("--renew", help="With --machine: measure them again.")] = False,
    timeout: Timeout = None,
    max_memory: MaxMemory = None,
    json: Json = False,
) -> None:
    """Measure a bundle on random inputs: latency, throughput, memory, and where the time goes. No pipeline runs."""
    if machine != (not bundle) or (renew and not machine):
        raise UsageError("give a run, a bundle or a name, or --machine (which --renew belongs to)")
    if machine:
        return _machine(renew, json)
    from pdl.runtime.bench import bench
    from pdl.workflow.exporting import FILE
    from pdl.workflow.locating import located

    wanted, place = numbers_in("--size", size or [], sizes=True), located(bundle)
    place = place / FILE if place.is_dir() else place
    found = bench(
        place, batch=batch, threads=threads, seconds=seconds, sizes=wanted, timeout=timeout, max_memory=max_memory,
        values=numbers_in("--value", value or []), precision=precision, tune=tune,  # type: ignore[arg-type]
    )  # fmt: skip
    facts = found.to_dict()
    if json:
        return style.json(facts)
    ms = {name: facts[name] for name in ("p50_ms", "p90_ms", "p99_ms")}
    before = [(f"untuned {name[:-3]}", f"{value:.3f} ms") for name, value in facts.get("untuned", {}).items()]
    shown = ", ".join(f"{name} {list(shape)}" for name, shape in found.inputs.items())
    style.pairs([
        ("inputs", shown), ("threads", found.threads), ("precision", found.precision), ("runs", len(found.latency)),
        *((f"latency {name[:-3]}", f"{value:.3f} ms") for name, value in ms.items()), *before,
        ("throughput", f"{found.throughput:,.1f} samples/s"), ("load", f"{facts['load_ms']:.1f} ms"),
        ("first run", f"{facts['plan_ms']:.1f} ms more"), ("memory", f"{found.memory / 2**20:,.0f} MiB at most"),
    ])  # fmt: skip
    style.out("")
    total = sum(each["ms"] for each in facts["ops"]) or 1.0
    rows = [(e["op"], f"{e['calls']:.0f}", f"{e['ms']:.3f}", f"{e['ms'] / total:.1%}") for e in facts["ops"]]
    style.table(["op", "calls", "ms", "share"], rows)


def _machine(renew: bool, json: bool) -> None:
    """The figures of this machine, measured if they were not."""
    from pdl import machine as machines
    from pdl.machine.stored import FIGURES, folder

    measured = machines.calibrated()
    if renew and not measured:
        raise UsageError("PDL_CALIBRATE=0: nothing is measured; unset it")
    found = machines.renewed() if renew else machines.current(measuring=True)
    identity, place = machines.identity(), folder()
    file = place / FIGURES if measured and place is not None else None
    kept = file is not None and file.is_file()
    if json:
        return style.json({"machine": identity, "figures": found.to_dict(), "file": file if kept else None})
    style.pairs([
        ("cpu", identity["cpu"]), ("kernels", identity["isa"]),
        ("cores", f"{identity['available']} of {identity['cores']}"),
        ("figures", file if kept else "measured now, not kept" if renew else "built in"),
        *((name, f"{2 * rate / 1e9:.1f} GFLOP/s a core") for name, rate in found.rates.items()),
        *((name, f"{rate / 1e9:.1f} GB/s a core") for name, rate in found.bandwidth.items()),
        ("memory, all cores", f"{found.together / 1e9:.1f} GB/s"),
        *((f"{name} holds", f"{size / 1024:,.0f} KiB") for name, size in found.sizes.items()),
        ("hand-over", f"{found.hand_over * 1e6:.2f} microseconds"),
    ])  # fmt: skip
