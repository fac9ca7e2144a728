"""`package`: a bundle becomes a wheel. Whoever installs it uses the model by name: `pdl predict my-model photo.jpg`.

The wheel of `pdl-my-model` holds data and no code but a docstring:

    pdl_my_model/__init__.py            what it is
    pdl_my_model/hub.yaml               the index with its one entry (see pdl.hub)
    pdl_my_model/weights/my-model.pdl   the bundle, which states the licence that the package states
    pdl_my_model/cards/my-model.md      its card

The entry is read back by the reader of `pdl.hub` before the wheel is written.
"""

from __future__ import annotations

import hashlib
import keyword
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pdl import packages, suites
from pdl.config.source import parsed
from pdl.errors import ConfigError, UsageError
from pdl.export.bundle import Store
from pdl.files import write_atomic
from pdl.runtime.bundle import Bundle, is_bundle, read, restate
from pdl.runtime.session import of_bundle
from pdl.runtime.steps import registry
from pdl.workflow.exporting import FILE, export
from pdl.workflow.result import Result
from pdl.workflow.run import Run
from pdl.workflow.wheel import Wheel

PREFIX = "pdl-"
RECIPE = "unzip -p {file} config.yaml > recipe.yaml; pdl train -c recipe.yaml"


@dataclass(frozen=True)
class Packaged:
    """The wheel that was written, the name of the model, its entry, and lines for people."""

    path: Path
    model: str
    entry: dict[str, Any]
    size: int
    notes: list[str] = field(default_factory=list)
    example: str = "INPUT"


def package(
    source: str | Path,
    *,
    name: str,
    version: str,
    out: str | Path = "dist",
    licence: str | None = None,
    task: str | None = None,
    summary: str | None = None,
    origin: str | None = None,
    store: Store = "fp32",
    force: bool = False,
) -> Packaged:
    """Write a wheel of the bundle of a run, or of a bundle, into the folder `out`.

    name      of the distribution, pdl-...; what follows is the model's name
    licence   SPDX name of the weights' licence; task: classification, ...; summary: one line; origin: who made it.
              By default what the bundle says of itself.
    store     "bf16" or "fp16" export the run anew, its weights in half the bytes, and measure that
    force     replace a wheel of this name and version that holds something else
    """
    project, release = _name(name), _version(version)
    model = project.removeprefix(PREFIX)
    _require_free(project, model)
    with TemporaryDirectory() as draft:
        file, cost = _file(Path(source), store, Path(draft))
        given = read(file)
        of_bundle(given)  # its program and steps are known here
        stated = _licence(licence or given.meta["licence"])
        data = restate(file, licence=stated, card=_card(given.card, model, stated))
    bundle = read(data)
    entry = index_entry(bundle, data, model, {"task": task, "summary": summary, "origin": origin})
    wheel = _wheel(project, release, model, entry, bundle, data)
    _require_readable(wheel, model)
    target, content = Path(out) / wheel.filename, wheel.to_bytes()
    if target.exists() and target.read_bytes() != content and not force:
        raise UsageError(f"{target} exists with other content; give another --version, or --force to replace it")
    write_atomic(target, content)
    return Packaged(target, model, entry, len(content), [*cost, *_notes(source, entry)], _example(source))


# -- what it is called -------------------------------------------------------------------------------------------------
def _name(name: str) -> str:
    """The name in its normal form (PEP 503): letters in lower case, single dashes."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise UsageError(f"--name {name!r}: letters, digits, '-', '_' and '.', with a letter or digit at both ends")
    normal = _normal(name)
    module = _module(normal)
    if not normal.startswith(PREFIX):
        raise UsageError(f"--name {name}: names of packaged models begin with pdl-; write --name {PREFIX}{normal}")
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UsageError(f"--name {name}: {module} is no name that Python can import")
    return normal


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _module(project: str) -> str:
    """The import package of a distribution whose name is in its normal form."""
    return project.replace("-", "_")


def _version(version: str) -> str:
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(f"--version {version!r} is no version; write one such as 1.0 or 1.0.post1 (PEP 440)") from None


def _licence(licence: str) -> str:
    """The SPDX expression in its normal form."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    if not licence.strip():
        raise UsageError(
            "the bundle does not state a licence; others may use it only under one: --licence Apache-2.0, or another "
            "SPDX name (LicenseRef-Proprietary where it is nobody's but yours)"
        )
    try:
        return str(canonicalize_license_expression(licence))
    except InvalidLicenseExpression as error:
        raise UsageError(f"licence {licence!r}: {error}; give an SPDX name such as Apache-2.0 with --licence") from None


def _require_free(project: str, model: str) -> None:
    """UsageError where something that is installed has the name: neither could be used with the other installed."""
    from pdl import hub

    module = _module(project)
    if project == packages.CORE:
        raise UsageError(f"--name {project}: that is the framework itself; choose another")
    suite = next((each for each in suites.installed().values() if model == each.name or module == each.package), None)
    if suite is not None:
        raise UsageError(f"--name {project}: that is the suite {suite.name!r} ({suite.distribution}); choose another")
    other = packages.installed(packages.MODELS).get(model)
    if other is not None and other.package != module:
        raise UsageError(f"--name {project}: {other.distribution} has a model {model!r}; choose another")
    for entry in hub.index().values():
        if _normal(entry.short) == model and entry.package.package != module:
            raise UsageError(f"--name {project}: {model!r} would be taken for {entry.name}; choose another")


# -- what is in it -----------------------------------------------------------------------------------------------------
def _file(source: Path, store: Store, draft: Path) -> tuple[Path, list[str]]:
    """The bundle meant, in `draft` where it is made for this, and what storing it in halves costs, a line a metric."""
    if is_bundle(source):
        if store != "fp32":
            raise UsageError(
                f"--store {store} belongs to runs; a bundle is taken as it is: pdl export RUN --store {store}"
            )
        return source, []
    run = Run.open(source)
    if store != "fp32":
        made = export(run.path, draft / FILE, store=store)
        return made.path, [*made.notes, *(f"{name}: {value}" for name, value in made.facts if "/" in name)]
    file = run.path / FILE
    if not file.is_file():
        raise UsageError(f"{source}: the run has no bundle ({FILE}); write it first: pdl export {source}")
    return file, []


def _card(card: str, model: str, licence: str) -> str:
    """The card with the licence and the use of the packaged model in place of the bundle's own."""
    use = (
        f"    pdl predict {model} INPUT\n\nor, in Python, `pdl.runtime.load(pdl.export.bundle_of({model!r}))`: the "
        "session answers for an input as the command does."
    )
    for title, text in (("Licence", f"{licence} (SPDX)."), ("Use", use)):
        parts = re.split(rf"^## {title}$.*?(?=^## |\Z)", card, maxsplit=1, flags=re.MULTILINE | re.DOTALL)
        before, after = parts if len(parts) == 2 else (card, "")
        card = "\n\n".join(part for part in (before.strip(), f"## {title}\n\n{text}", after.strip()) if part) + "\n"
    return card


def index_entry(bundle: Bundle, data: bytes, model: str, said: Mapping[str, str | None]) -> dict[str, Any]:
    """A bundle's part of the hub.yaml of a package that holds it as weights/MODEL.pdl: what is not `said` (task,
    summary, origin) the bundle knows.
    """
    name = f"{model}.pdl"
    made = (
        f"trained with pdl {bundle.meta['pdl']}" if bundle.config.strip() else f"a bundle of pdl {bundle.meta['pdl']}"
    )
    entry: dict[str, Any] = {
        "task": said["task"] or _task(bundle),
        "summary": said["summary"] or _summary(bundle),
        "licence": bundle.meta["licence"],
        "origin": said["origin"] or f"{made}, {bundle.meta['created'][:10]}",
        "pdl": packages.series(),
        "file": name,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "sources": [{"package": f"weights/{name}"}],
    }
    metric = _metric(bundle)
    if metric is not None:
        entry["metric"] = metric
    if bundle.config.strip():
        entry["command"] = RECIPE.format(file=name)
    return {**entry, "card": f"cards/{model}.md"}


def _task(bundle: Bundle) -> str:
    """`classification`, of a task class such as pdl_cv.Classification, or of steps that name classes."""
    target = str(bundle.meta["about"].get("task", ""))
    if target:
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", target.rpartition(".")[2]).lower()
    if "top" in registry.names(bundle.pipeline):
        return "classification"
    raise UsageError("the bundle does not say what its model is for; give it: --task classification")


def _summary(bundle: Bundle) -> str:
    """The card's title, or the bundle's name."""
    title = next((line[2:].strip() for line in bundle.card.splitlines() if line.startswith("# ")), "")
    return title or str(bundle.meta["name"])


def _metric(bundle: Bundle) -> dict[str, Any] | None:
    """The number that the run was judged by, on the split kept for the end if there is one."""
    known = {name: value for name, value in bundle.meta["metrics"].items() if value is not None}
    tree = _recipe(bundle)
    watched = str((tree.get("train") or {}).get("monitor") or "").rpartition("/")[2]
    measured = [name for split in ("test", "val") for name in known if name.startswith(f"{split}/")]
    order = sorted(
        measured, key=lambda name: (name.startswith("val/"), not name.endswith(f"/{watched}"), "loss" in name)
    )
    if not order:
        return None
    name = order[0]
    split = name.partition("/")[0]
    data = (tree.get("data") or {}).get(split) or {}
    where = f"{data['_target_']}, {split}" if "_target_" in data else f"the {split} data of its recipe"
    about = bundle.meta["about"]
    details = [f"weights: {about['weights']}"] if "weights" in about else []
    details += [str(about["stored"])] if "stored" in about else []
    how = "; ".join(["one pass over the split, float32 arithmetic", *details])
    return {"name": name, "value": float(known[name]), "data": where, "protocol": how}


def _recipe(bundle: Bundle) -> dict[str, Any]:
    try:
        tree = parsed(bundle.config, Path(bundle.source)) or {}
    except ConfigError:
        tree = None
    if not isinstance(tree, dict):
        raise UsageError(f"{bundle.source}: its config.yaml is no recipe; export it again")
    return tree


def _requires(bundle: Bundle) -> list[str]:
    """This pdl's series, and those of the distributions that the bundle requires."""
    others = (f"{name}{packages.series(version(name))}" for name in bundle.meta["requires"])
    return sorted({f"{packages.CORE}[train]{packages.series()}", *others})


def _wheel(project: str, release: str, model: str, entry: dict[str, Any], bundle: Bundle, data: bytes) -> Wheel:
    import yaml

    module = _module(project)
    index = yaml.safe_dump({"format": 1, "models": {model: entry}}, sort_keys=False, allow_unicode=True, width=110)
    files = {
        f"{module}/__init__.py": f'"""A model for pdl, used by name: `pdl predict {model} INPUT`; see hub.yaml."""\n',
        f"{module}/hub.yaml": index,
        f"{module}/{entry['card']}": bundle.card,
    }
    licence = f"The weights in this package are licensed under {entry['licence']}.\nOrigin: {entry['origin']}.\n"
    return Wheel(
        name=project,
        version=release,
        summary=entry["summary"],
        licence=entry["licence"],
        requires=_requires(bundle),
        files={
            **{name: text.encode() for name, text in files.items()},
            f"{module}/weights/{entry['file']}": data,
        },
        licences={"LICENCE.txt": licence.encode()},
        entry_points={packages.MODELS: {model: module}},
        description=bundle.card,
    )


def _require_readable(wheel: Wheel, model: str) -> None:
    """The index as its reader takes it; ConfigError names what a value given on the command line breaks."""
    from pdl.hub import schema

    module = _module(wheel.name)
    with TemporaryDirectory() as folder:
        index = Path(folder) / "hub.yaml"
        index.write_bytes(wheel.files[f"{module}/hub.yaml"])
        schema.read(packages.Package(model, module, wheel.version, Path(folder), group=packages.MODELS))


# -- what to say about it ----------------------------------------------------------------------------------------------
def _notes(source: str | Path, entry: Mapping[str, Any]) -> list[str]:
    notes = [] if "metric" in entry else ["the bundle holds no measured metric, so the index names none"]
    result = Path(source) / "result.json"
    status = Result.load(result).status if result.is_file() else ""
    if status in ("fast dev run", "overfit"):
        notes.append(f"the run was a trial ({status}); its model has hardly learned anything")
    return notes


def _example(source: str | Path) -> str:
    """The example that the run keeps, as one would type it."""
    result = Path(source) / "result.json"
    if not result.is_file():
        return "INPUT"
    return shlex.join(shlex.split(Result.load(result).next)[3:]) or "INPUT"
