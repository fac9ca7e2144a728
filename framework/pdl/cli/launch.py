"""`pdl launch`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Recipe, recipe, which
from pdl.errors import UsageError, listed

EXAMPLE = (
    "Example:  pdl launch -c cv/digits_lenet --hosts node1:2,node2:2"
    "    pdl launch --to slurm -c cv/digits_lenet --nodes 4 --workers-per-node 2 --save job"
    "    pdl launch --to k8s -c cv/digits_lenet --workers 4 --image registry.example/digits:1 --save job"
)
TARGETS = ("slurm", "k8s", "ray")
PODS = TARGETS[1:]
#: options that only some of the ways know
BELONG = {
    "resume": ("hosts",), "dry_run": ("hosts",), "elastic": ("hosts",),
    "save": TARGETS, "workers": TARGETS, "nodes": TARGETS, "workers_per_node": TARGETS, "name": TARGETS,
    "memory": TARGETS, "grace": TARGETS, "restarts": TARGETS, "force": TARGETS,
    "time": ("slurm",), "partition": ("slurm",), "account": ("slurm",),
    "image": PODS, "storage": PODS, "storage_class": PODS, "data": PODS,
}  # fmt: skip


def _option(flag: str, metavar: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, metavar=metavar, help=text, show_default=False, **more)


def command(
    config: Recipe = None,
    overrides: Overrides = None,
    hosts: Annotated[
        str | None, _option("--hosts", "H1:N,..", "Train over these machines now, by ssh, with N processes on each.")
    ] = None,
    to: Annotated[str | None, _option("--to", "|".join(TARGETS), "Write what this system needs, into --save.")] = None,
    save: Annotated[Path | None, _option("--save", "DIR", "The folder to write into.")] = None,
    run: Annotated[str | None, _option("--run", "DIR", "The run folder; of k8s, ray its name in the volume.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="With --hosts: go on with the run.")] = False,
    elastic: Annotated[
        int | None,
        _option("--elastic", "MIN", "With --hosts: after a failure again, with MIN processes or more.", min=1),
    ] = None,
    workers: Annotated[int | None, _option("--workers", "N", "Processes, all together.", min=1)] = None,
    nodes: Annotated[int | None, _option("--nodes", "N", "Machines, or pods.", min=1)] = None,
    workers_per_node: Annotated[
        int | None, _option("--workers-per-node", "N", "Processes of each; by default 1.", min=1)
    ] = None,
    threads: Annotated[int | None, _option("--threads", "N", "Of each process.", min=1)] = None,
    name: Annotated[str | None, _option("--name", "NAME", "Of the job; by default the recipe's.")] = None,
    memory: Annotated[str | None, _option("--memory", "SIZE", "Of each machine or pod, such as 16G or 4Gi.")] = None,
    grace: Annotated[int | None, _option("--grace", "SECONDS", "For a last checkpoint; by default 120.", min=1)] = None,
    restarts: Annotated[int | None, _option("--restarts", "N", "How often it is started again at most.", min=0)] = None,
    time: Annotated[str | None, _option("--time", "H:M:S", "slurm: the time limit.")] = None,
    partition: Annotated[str | None, _option("--partition", "NAME", "slurm: where it runs.")] = None,
    account: Annotated[str | None, _option("--account", "NAME", "slurm: who is charged.")] = None,
    image: Annotated[str | None, _option("--image", "NAME", "k8s, ray: the image, with its registry.")] = None,
    storage: Annotated[str | None, _option("--storage", "SIZE", "k8s, ray: of the volume for runs; 10Gi.")] = None,
    storage_class: Annotated[str | None, _option("--storage-class", "NAME", "k8s, ray: its class.")] = None,
    data: Annotated[str | None, _option("--data", "CLAIM", "k8s, ray: the volume with data sets (PDL_DATA).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that say something else.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --hosts: print the command, run nothing.")] = False,
    json: Json = False,
) -> None:
    """Train a recipe on several machines: over ssh now (--hosts), or with files for Slurm, Kubernetes, KubeRay (--to).

    With --hosts each machine needs the same Python environment and working directory at the same paths, the recipe's
    data, and lets this one in by ssh without a password. NOTES.md, which --to writes, says how to run the files.
    """
    given = dict(locals())
    way = _way(hosts, to)
    asked = {key: given[key] for key in BELONG if given[key] not in (None, False)}
    for key in asked:
        if way not in BELONG[key]:
            flag, belongs = f"--{key.replace('_', '-')}", " and ".join(f"--to {each}" for each in BELONG[key])
            raise UsageError(f"{flag} is for {belongs.replace('--to hosts', '--hosts')}")
    if config is None:
        raise UsageError(which(overrides or ()))
    if way == "hosts":
        asked_hosts = str(hosts).split(",")
        return _on_hosts(config, asked_hosts, list(overrides or ()), run, resume, elastic, threads, dry_run, json)
    _write(way, config, list(overrides or ()), run, threads, asked, json)


def _way(hosts: str | None, to: str | None) -> str:
    if (hosts is None) == (to is None):
        raise UsageError("where? write --hosts node1:2,node2:2, or --to slurm, --to k8s or --to ray")
    if to is not None and to not in TARGETS:
        raise UsageError(f"--to {to}: choose {listed(list(TARGETS))}")
    return to or "hosts"


def _on_hosts(
    config: Path, hosts: list[str], words: list[str], run: str | None, resume: bool, least: int | None,
    threads: int | None, dry_run: bool, json: bool,
) -> None:  # fmt: skip
    from pdl.cli.train import patience
    from pdl.distributed.launcher import start
    from pdl.workflow.launching import on_hosts
    from pdl.workflow.launching.hosts import elastic as go_on
    from pdl.workflow.launching.hosts import places

    flags = {"--resume": resume, "--json": json}
    own = ["-c", str(config), *(flag for flag, wanted in flags.items() if wanted), *(["--run", run] if run else [])]
    if least is not None and not dry_run:
        if run is None:
            raise UsageError("--elastic: name the run folder that is gone on with (--run)")
        given = ["-c", str(config), *(["--json"] if json else []), *words]
        found = patience(recipe(config, words))
        raise typer.Exit(go_on(given, hosts, least, run, threads=threads, timeout=found))
    words = [*words, f"distributed.data={sum(places(hosts).values())}"]
    line = on_hosts([*own, *words], hosts, threads=threads)
    loaded = recipe(config, words)
    if dry_run:
        return style.out(shlex.join(line))
    raise typer.Exit(start(line, timeout=patience(loaded)))


def _write(
    way: str, config: Path, words: list[str], run: str | None, threads: int | None, asked: dict[str, Any], json: bool
) -> None:
    from pdl.workflow.launching import layout, to_kubernetes, to_ray, to_slurm

    if "save" not in asked or (way in PODS and "image" not in asked):
        lacks = "--save DIR" if "save" not in asked else "--image NAME, such as registry.example/digits:1"
        raise UsageError(f"--to {way} needs {lacks}")
    nodes = asked.pop("nodes", 1 if way == "ray" else None)
    places = layout(asked.pop("workers", None), nodes, asked.pop("workers_per_node", None), threads)
    loaded = recipe(config, [*words, f"distributed.data={places.workers}"])
    write: Any = {"slurm": to_slurm, "k8s": to_kubernetes, "ray": to_ray}[way]
    paths = write(loaded, asked.pop("save"), places, run=run, **asked)
    if json:
        return style.json({"files": [str(path) for path in paths]})
    style.pairs([*((("files",) if not i else ("",)) + (str(path),) for i, path in enumerate(paths))])
    notes = next(path for path in paths if path.name == "NOTES.md")
    style.out(f"next   {shlex.quote(str(notes))} has the commands")
