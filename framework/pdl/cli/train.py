"""`pdl train`."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Quiet, Recipe, Verbose, baselines, recipe
from pdl.cli.signals import stoppable
from pdl.distributed.elastic import Supervisor, bounds, is_member
from pdl.distributed.launcher import command as command_line
from pdl.distributed.launcher import job_rank, job_size, start
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl train -c cv/digits_lenet train.epochs=3    (go on with: pdl train --resume RUN)"
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OVERRIDES", help="train.epochs=3  +key=value  ~key. With --resume, the run.", show_default=False
    ),
]
Folder = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="The run folder; by default the next free one below runs/.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the run folder.")]
Fast = Annotated[bool, typer.Option("--fast-dev-run", help="A few batches of everything, to see that it works.")]
Overfit = Annotated[int, typer.Option("--overfit", metavar="N", min=0, help="Learn N samples by heart, as a check.")]

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        "-j",
        metavar="N",
        min=1,
        show_default=False,
        help="Share every batch among N processes of this machine (distributed.data).",
    ),
]
Elastic = Annotated[
    str | None,
    typer.Option(
        "--elastic",
        metavar="MIN:MAX",
        show_default=False,
        help="As --workers, with processes that may come and go; lost ones are started again.",
    ),
]
Profile = Annotated[
    bool, typer.Option("--profile", help="Only run a few steps and tell where their time goes; writes trace.json.")
]
Steps = Annotated[int, typer.Option("--profile-steps", metavar="N", min=1, help="How many steps to profile.")]


def command(
    words: Words = None,
    config: Recipe = None,
    run: Folder = None,
    resume: Resume = False,
    fast_dev_run: Fast = False,
    overfit: Overfit = 0,
    workers: Workers = None,
    elastic: Elastic = None,
    profile: Profile = False,
    profile_steps: Steps = 20,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Train a recipe. The run folder then holds config.yaml, metrics, checkpoints, report.html, result.json, and in
    train.log what was printed.

    Ctrl-C, SIGTERM and SIGHUP end it after the step under way, with a checkpoint; a second one at once.
    """
    from pdl.workflow import train

    overrides = list(words or ())
    if quiet and verbose:
        raise UsageError("--quiet and --verbose: choose one")
    if profile and (resume or fast_dev_run or overfit):
        raise UsageError("--profile stands alone: it trains a fresh model for a few steps and keeps no weights")
    if resume:
        run, overrides = _run_folder(run, overrides)
        config = config or run / "config.yaml"
    if elastic is not None and (workers is not None or profile):
        raise UsageError("--elastic says how many processes there are; leave out --workers and --profile")
    if workers is not None:
        overrides.append(f"distributed.data={workers}")
    loaded = recipe(config, overrides)
    section = loaded.get("distributed") or {}
    axes = {axis: int(section.get(axis, 1)) for axis in ("pipeline", "tensor")}
    each = math.prod(axes.values())  # processes that have one model among them
    if workers is not None and each > 1:
        if workers % each:
            told = " x ".join(f"{axis}={n}" for axis, n in axes.items() if n > 1)
            raise UsageError(
                f"--workers {workers}: distributed.{told} needs a multiple of {each}; another mesh "
                f"({' '.join(f'distributed.{axis}=1' for axis, n in axes.items() if n > 1)}) may go on with the run"
            )
        overrides[-1] = f"distributed.data={workers // each}"
        loaded = recipe(config, overrides)
        section = loaded.get("distributed") or {}
    workers = int(section.get("data", 1)) * each
    if elastic is not None or (workers > 1 and job_size() == 1 and not is_member()):
        flags = {"--resume": resume, "--fast-dev-run": fast_dev_run, "--quiet": quiet, "--verbose": verbose}
        given = [flag for flag, wanted in {**flags, "--json": json, "--profile": profile}.items() if wanted]
        given += ["--profile-steps", str(profile_steps)] if profile else []
        given += ["--run", str(run)] if run is not None else []
        again = ["train", "-c", str(config), *given, "--overfit", str(overfit), *overrides]
        if elastic is not None:
            raise typer.Exit(_elastic(again, loaded, *bounds(elastic)))
        raise typer.Exit(start(command_line(again, workers), timeout=patience(loaded)))
    if profile:
        with stoppable():
            return _profile(loaded, run, profile_steps, json)
    with stoppable() as stopping:
        result = train(
            loaded, run=run, resume=resume, fast_dev_run=fast_dev_run, overfit=overfit, hooks=[stopping],
            progress=not quiet, verbose=verbose,
        )  # fmt: skip
    if job_rank():
        return
    if json:
        return style.json(result.to_dict())
    style.pairs(result.rows())
    baselines(result)


def patience(loaded: Any) -> float:
    """Seconds that a process may be behind the others, of a recipe that is not checked yet."""
    seconds = (loaded.get("distributed") or {}).get("timeout")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else 600.0


def _elastic(words: list[str], loaded: Any, least: int, most: int) -> int:
    """Train with processes that may come and go; the exit code."""
    from pdl.train import Recipe as Checked
    from pdl.workflow.elastic import check

    checked = Checked(loaded)  # what is wrong is said once
    check(checked)
    settings = checked.distributed
    line = [sys.executable, "-m", "pdl", *words]
    return Supervisor(line, least, most, heartbeat=settings.heartbeat, timeout=settings.timeout).run()


def _profile(config: Any, run: Path | None, steps: int, json: bool) -> None:
    """`pdl.workflow.profile`, and its tables."""
    from pdl.workflow import profile

    found = profile(config, run=run, steps=steps)
    if job_rank():
        return
    for line in found.messages:
        style.note(line)
    if json:
        return style.json({**found.to_dict(), "trace": str(found.trace)})
    kind = "compiled" if found.compiled == found.recorded else "eager" if not found.compiled else "partly compiled"
    ms = found.seconds * 1e3 / found.recorded
    style.table(
        ["phase", "ms", "share", "in ops"],
        [(name, f"{whole:.2f}", f"{share:.1%}", f"{within:.2f}") for name, whole, share, within in found.phases()],
        title=f"{found.recorded} {kind} steps of {ms:.2f} ms",
    )
    style.out("")
    style.table(
        ["op", "phase", "calls", "ms", "share", "GFLOP/s", "GB/s"],
        [
            (op, phase, *("-" if x is None else f"{x:{form}}" for x, form in zip(rest, FORMATS, strict=True)))
            for op, phase, *rest in found.ops()
        ],
    )
    if found.group is not None:
        style.out("")
        style.table(
            ["messages", "number", "ms", "MB"],
            [(kind, f"{number:.1f}", f"{ms:.3f}", f"{mb:.3f}") for kind, number, ms, mb in found.messages_between()],
            title=f"between {found.group.size} processes, clocks within {found.clock[:, 1].max() * 1e6:.0f} us",
        )
    style.out(f"\n{found.trace} is for chrome://tracing or https://ui.perfetto.dev")


FORMATS = (".1f", ".3f", ".1%", ".1f", ".1f")  # of the numbers in a line about an op


def _run_folder(run: Path | None, words: list[str]) -> tuple[Path, list[str]]:
    """`--resume RUN x=y` and `--run RUN --resume x=y` are the same."""
    if run is None and words and "=" not in words[0]:
        run, words = Path(words[0]), words[1:]
    if run is None:
        raise UsageError("which run? write: pdl train --resume RUN")
    return run, words
