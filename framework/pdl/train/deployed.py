"""`evaluate_bundle`: the file that is deployed, measured on the data of its own recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pdl import random
from pdl.config import Config, build, check, load
from pdl.errors import UsageError
from pdl.nn import Module
from pdl.runtime.bundle import Bundle, read
from pdl.runtime.session import Session, of_bundle
from pdl.tensor import Tensor, as_tensor
from pdl.train.baselines import measured_anew
from pdl.train.loop import Evaluation
from pdl.train.loop import evaluate as evaluate_split
from pdl.train.result import Result, identity
from pdl.train.task import SPLITS, Task


class Deployed(Module):
    """A session in the place of the net it was made of: tensors in, tensors out, in the order of its ports."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def steps(self) -> Iterator[Mapping[str, Any]]:
        """The steps of the bundle's inputs, as plain values."""
        pre = self.session.bundle.pipeline["pre"] if self.session.bundle is not None else {}
        return (step for each in pre.values() for step in each)

    def forward(self, *inputs: Any) -> Any:
        """The session's outputs."""
        ports = self.session.inputs
        if len(inputs) != len(ports):
            raise UsageError(f"the bundle takes {len(ports)} inputs, its task gives {len(inputs)}")
        answers = self.session.run({port.name: as_tensor(x).numpy() for port, x in zip(ports, inputs, strict=True)})
        made = [Tensor(answers[port.name]) for port in self.session.outputs]
        return made[0] if len(made) == 1 else tuple(made)


def evaluate_bundle(
    path: str | Path, *, split: str = "test", overrides: Sequence[str] = (), baselines: bool = False
) -> Result:
    """Measure a bundle on a split of its recipe's data, or of other data (overrides=["data.test.root=..."]).

    The bundle itself runs, so what is measured is what is deployed: stored in half the bytes, or quantised, if it is.
    With `baselines` those of its task are measured, too. UsageError for a bundle without a recipe (an imported one).
    """
    bundle = read(path)
    config = check(recipe_of(bundle, overrides))
    demand_split(config, split, bundle.source)
    task: Task = build(config["task"])
    task.vocabularies.update(bundle.vocabularies)
    model = Deployed(of_bundle(bundle))
    settings = config.get("train") or {}
    seed = int(settings.get("seed") or 0)
    with random.fork_seed(seed):
        datasets = task.datasets(config, (split,))
        task.prepare(config, datasets)
        task.verify(model, datasets, config)
        loader = task.loader(config, datasets[split], training=False, seed=seed)
        measured = evaluate_split(task, model, loader, split=split)
        others = measured_anew(task, config, datasets[split], split) if baselines else {}
    about = bundle.meta["about"]
    parameters, weights = int(about.get("parameters", 0)), str(about.get("weights", "of the bundle"))
    names = identity(str(bundle.meta["name"]), Path(path), config)
    return evaluated(task, names, measured, seed=seed, parameters=parameters, weights=weights, baselines=others)


def evaluated(task: Task, names: Mapping[str, Any], measured: Evaluation, **facts: Any) -> Result:
    """The result of a measurement without training; `names` say of what (`identity`), `facts` are further fields."""
    return Result(
        **names,
        status="evaluated",
        epochs=0,
        steps=0,
        seconds=round(measured.seconds, 3),
        samples_per_second=None,
        metrics={**task.figures(measured), **measured.metrics},
        **facts,
    )


def recipe_of(bundle: Bundle, overrides: Sequence[str] = ()) -> Config:
    """The resolved recipe that a bundle carries."""
    if not bundle.config.strip():
        raise UsageError(f"{bundle.source}: holds no recipe, so nothing says with what data to measure it")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(bundle.config, encoding="utf-8")
        return load(file, list(overrides), told_as=Path(bundle.source) / file.name)


def demand_split(config: Config, split: str, name: str | Path) -> None:
    """UsageError, with the splits there are, unless the recipe has data for this one."""
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}; splits are {', '.join(SPLITS)}")
    if config["data"].get(split) is None:
        have = [each for each in SPLITS if config["data"].get(each) is not None]
        raise UsageError(
            f"{name}: its recipe has no data.{split}; choose {' or '.join(have)} (--split), or give data.{split}"
        )
