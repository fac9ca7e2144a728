"""`pdl info`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Opening
from pdl.cli.deadline import ends_within
from pdl.limits import OPENING

EXAMPLE = "Example:  pdl info        pdl info runs/digits        pdl info model.pdl"
NO_ARGS_IS_HELP = False


def command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN|BUNDLE|NAME]", help="A run folder, a bundle, or a name of `pdl models`.", show_default=False
        ),
    ] = None,
    timeout: Opening = OPENING,
    json: Json = False,
) -> None:
    """Versions, processor, threads, suites and folders; or, for a run, a bundle or a pretrained model, what it is and
    what it reached.

    PDL_LOG=plan shows what the runtime makes of a bundle's program when it runs: PDL_LOG=plan pdl bench model.pdl.
    """
    from pdl.runtime.bundle import is_bundle
    from pdl.workflow.locating import located

    path = None if run is None else located(run)
    if path is not None and is_bundle(path):
        from pdl.runtime.info import info

        with ends_within(str(path), timeout):
            known = info(path, timeout=timeout)
        return style.json(known) if json else style.pairs(_flat(known))
    facts = installation() if path is None else _of_run(path)
    style.json(facts) if json else style.pairs(_flat(facts if run is None else _readable(facts)))


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a run with units: bytes in MiB, operations in GFLOP."""
    step = dict(facts["step"])
    for name in [n for n in step if n.endswith("_bytes")]:
        step[name.replace("_bytes", "_memory")] = f"{step.pop(name) / 2**20:,.2f} MiB"
    if "flops" in step:
        step["flops"] = f"{step['flops'] / 1e9:,.3f} GFLOP"
    return facts | {"step": step}


def _of_run(run: Path) -> dict[str, Any]:
    from pdl.workflow import info

    return info(run)


def installation() -> dict[str, Any]:
    """Versions of what matters, the machine, the installed suites, and the folders pdl looks into."""
    from pdl import data, hub, packages, suites
    from pdl.workflow.result import machine, versions

    works = [suite for suite, _ in suites.modules()]
    models = packages.installed(packages.MODELS).values()
    return {
        "versions": versions() | _others(),
        "machine": machine(),
        "suites": [f"{each.name} ({each.package} {each.version})" for each in works],
        "models": [f"{each.name} ({each.package} {each.version})" for each in models],
        "left_out": [str(each) for each in packages.left_out()],
        "folders": {"data": str(data.data_root()), "weights": [str(folder) for folder in hub.folders()]},
    }


def _others() -> dict[str, str]:
    """Versions of the libraries that do part of the work; absent ones are left out."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("safetensors", "ml_dtypes", "hydra-core", "opencv-python-headless", "tensorboard"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested facts as `a.b` lines."""
    lines: list[tuple[str, Any]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += _flat(value, f"{prefix}{name}.")
        elif name == "left_out":  # sentences
            lines += [("left out", each) for each in value]
        else:
            lines.append((prefix + name, ", ".join(map(str, value)) or None if isinstance(value, list) else value))
    return lines
