"""`pdl.Model`: the training loop for a module and arrays, without a recipe.

    model = pdl.Model(net).prepare(optimizer=pdl.optim.Adam(net.parameters(), lr=1e-3), loss=pdl.cross_entropy,
    metrics={"accuracy": Accuracy})
    model.fit((x, y), val=(x_val, y_val), epochs=5, batch_size=64)
    model.evaluate((x_test, y_test))           # {"loss": ..., "accuracy": ...}
    model.predict(x_test)                      # array [N, ...]

It is the loop of `pdl train` (`pdl.train.loop.Trainer`) around a task made of the given functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np

from pdl import checkpoint, random
from pdl.checkpoint import LAST
from pdl.config.building import build
from pdl.config.parts import find, is_short
from pdl.config.signature import TARGET, signature
from pdl.data import ArrayDataset, DataLoader, Dataset, IterableDataset
from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.export.bundle import Store, Written, write
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.optim import Optimizer, Schedule
from pdl.suites import locate
from pdl.tensor import Tensor, as_tensor, no_grad
from pdl.train.checkpoints import Checkpoints, held
from pdl.train.hooks import EarlyStop, Hook
from pdl.train.log import MetricsLog, Progress
from pdl.train.loop import Trainer, evaluate
from pdl.train.metrics import Metric
from pdl.train.settings import TrainSettings
from pdl.train.task import Loss, Task

#: rows of the samples that an exported bundle is compared on
MAX_SAMPLES = 64

LossFunction = Callable[[Any, Any], Tensor]


class FunctionTask(Task):
    """A task made of a loss function and metrics. A batch is a tuple (inputs..., target), or a dict of which `inputs`
    and `target` are
    keys; by default the first and the second one."""

    def __init__(
        self,
        loss: LossFunction | None,
        metrics: Mapping[str, Callable[[], Metric]],
        inputs: Sequence[str] | None = None,
        target: str | None = None,
    ) -> None:
        self.loss, self._metrics, self.inputs, self.target = loss, dict(metrics), inputs, target

    def step(self, model: Module, batch: Any) -> Loss:
        inputs, target = self.split(batch)
        outputs = model(*map(as_tensor, inputs))
        if self.loss is None:
            raise UsageError("pdl.Model: no loss was given; call prepare(loss=...) before fit or evaluate")
        value = self.loss(outputs, as_tensor(target))
        return Loss(value, len(target), (_kept(outputs), _kept(target)))

    def metrics(self) -> dict[str, Metric]:
        return {name: make() for name, make in self._metrics.items()}

    def split(self, batch: Any) -> tuple[list[Any], Any]:
        """The inputs and the target (None where there is none) of a batch."""
        if isinstance(batch, dict):
            names = [name for name in batch if name != "index"]
            inputs = list(self.inputs or names[:1])
            target = self.target or next((name for name in names if name not in inputs), None)
            return [batch[name] for name in inputs], None if target is None else batch.get(target)
        parts = list(batch) if isinstance(batch, tuple | list) else [batch]
        return (parts[:-1], parts[-1]) if len(parts) > 1 else (parts, None)


def _kept(x: Any) -> Any:
    """What a metric gets: tensors without their gradient, and lists of numbers as arrays."""
    return x.detach() if isinstance(x, Tensor) else np.asarray(x) if isinstance(x, list) else x


class Model:
    """A module with all that it takes to train, measure and use it."""

    def __init__(self, net: Module) -> None:
        self.net = net
        self.optimizer: Optimizer | None = None
        self.schedule: Schedule | None = None
        self.task = FunctionTask(None, {})

    def prepare(
        self,
        *,
        optimizer: Optimizer | str | Mapping[str, Any] | None = None,
        loss: LossFunction | str | Mapping[str, Any] | None = None,
        metrics: Mapping[str, Callable[[], Metric]] | Sequence[str] | None = None,
        schedule: Schedule | str | Mapping[str, Any] | None = None,
        inputs: Sequence[str] | None = None,
        target: str | None = None,
    ) -> Self:
        """Say how to train.

        optimizer  of the net's parameters
        loss       loss(outputs, target) -> tensor with one element, such as `pdl.cross_entropy`
        metrics    name -> class (or function without arguments) that makes a `Metric`
        schedule   of the learning rate, such as `pdl.optim.OneCycle()`

        Each may be given by its short name in recipes, too (`pdl list optimizers`): `optimizer="adam"`,
        `loss="cross_entropy"`, `metrics=["accuracy"]`; with arguments: `{"_target_": "sgd", "lr": 0.1}`.

        inputs, target  keys of the batches, where these are dicts; by default the first and the second
        """
        self.optimizer = _made(optimizer, "optimizers", params=self.net)
        self.schedule = _made(schedule, "schedules")
        self.task = FunctionTask(_made(loss, "losses"), _metrics(metrics or {}), inputs, target)
        return self

    def __repr__(self) -> str:
        known = {"optimizer": self.optimizer, "loss": self.task.loss, "schedule": self.schedule}
        said = [f"{word}={_name(made)}" for word, made in known.items() if made is not None]
        said += [f"metrics=[{', '.join(self.task.metrics())}]"] * bool(self.task.metrics())
        return f"Model({', '.join([type(self.net).__name__, *said])})"

    def fit(
        self,
        data: Any,
        *,
        val: Any = None,
        epochs: int = 1,
        batch_size: int = 32,
        seed: int = 0,
        shuffle: bool = True,
        run: str | Path | None = None,
        resume: bool = False,
        hooks: Sequence[Hook] = (),
        progress: bool = True,
        **settings: Any,
    ) -> list[dict[str, float]]:
        """Train, and return the numbers of each epoch: [{"train/loss": ..., "val/loss": ..., "val/accuracy": ...},
        ...].

        `data` and `val` are arrays (x, y), a dict of arrays, a Dataset, a DataLoader, or anything that iterates over
        batches. Further `settings` are those of a recipe's `train` section (accumulate, clip_norm, ema, early_stop,
        freeze for the time of this call, ...). With `run` the folder gets metrics.jsonl and checkpoints, and `resume`
        goes on from there.
        """
        if self.optimizer is None:
            raise UsageError("pdl.Model: no optimizer was given; call prepare(optimizer=..., loss=...) before fit")
        chosen = TrainSettings(epochs=epochs, seed=seed, **settings)
        loaders = {"train": batches(data, batch_size, shuffle=shuffle, seed=seed)}
        if val is not None:
            loaders["val"] = batches(val, batch_size)
        history, folder = History(), None if run is None else Path(run)
        trainer = Trainer(self.task, self.net, self.optimizer, loaders, chosen, schedule=self.schedule)
        trainer.hooks = [*hooks, history, *_hooks(chosen, folder, progress)]
        with nullcontext() if folder is None else held(folder), random.fork_seed(seed):
            if resume and folder is not None and (last := folder / "checkpoints" / LAST).is_file():
                trainer.load_state_dict(checkpoint.load(last))
            try:
                trainer.fit()
            finally:
                trainer.frozen.release()
        return history.epochs

    def evaluate(self, data: Any, *, batch_size: int = 32) -> dict[str, float]:
        """Loss and metrics over data: {"loss": ..., "accuracy": ...}."""
        measured = evaluate(self.task, self.net, batches(data, batch_size), split="data")
        return {name.partition("/")[2]: value for name, value in measured.metrics.items()}

    def predict(self, data: Any, *, batch_size: int = 32) -> Array:
        """The outputs for all inputs, in order: array [N, ...]. `data` as in `fit`, or one array of inputs."""
        if isinstance(data, np.ndarray | Tensor):
            data = {"x": np.asarray(data)}
        self.net.eval()
        with no_grad():
            outputs = [self.net(*map(as_tensor, self.task.split(batch)[0])).data for batch in batches(data, batch_size)]
        if not outputs:
            raise UsageError("pdl.Model.predict: the data has no batches")
        return np.concatenate(outputs)

    def save(self, path: str | Path) -> None:
        """Write the weights as safetensors, under the names of `state_dict`; the file's name ends in .safetensors."""
        if Path(path).suffix != ".safetensors":
            raise UsageError(f"{path}: weights are written as safetensors; name it {Path(path).stem}.safetensors")
        checkpoint.save(path, dict(self.net.state_dict()))

    def load(self, path: str | Path) -> Self:
        """Read weights that `save` wrote, or those of a checkpoint of a run."""
        tree = checkpoint.load(path)
        self.net.load_state_dict(tree["model"] if isinstance(tree.get("model"), dict) else tree)
        return self

    def export(
        self, path: str | Path, *samples: Any, names: Sequence[str] = (), store: Store = "fp32", **facts: Any
    ) -> Written:
        """Write a bundle that `pdl.runtime.load` runs without the code of the net: same numbers, any batch size.

        samples   one array [N, ...] for each input of the net; the bundle is compared with the net on them, and is not
                  written where they differ (CheckError)
        names     of the inputs; by default x, or x0, x1, ...
        store     how weights lie in the file: "bf16", "fp16", or "k4" to "k8" (`pdl.export.bundle`)
        facts     labels, card, licence, about: see `pdl.export.Deployment`
        """
        arrays = [np.asarray(x) for x in samples]
        if not arrays or any(x.ndim < 1 or len(x) != len(arrays[0]) or not len(x) for x in arrays):
            shapes = ", ".join(str(x.shape) for x in arrays) or "none"
            raise UsageError(f"pdl.Model.export: give an array [N, ...] for each input, N >= 1; got {shapes}")
        called = list(names) or (["x"] if len(arrays) == 1 else [f"x{i}" for i in range(len(arrays))])
        inputs = {
            name: Spec((Dim.symbol("n", max(2, len(x))), *x.shape[1:]), x.dtype)
            for name, x in zip(called, arrays, strict=True)
        }
        rows = [dict(zip(called, row, strict=True)) for row in zip(*arrays, strict=True)]
        self.net.eval()
        with no_grad():
            made = self.net(*[as_tensor(x[:1]) for x in arrays])
        count = len(made) if isinstance(made, tuple | list) else 1
        outputs = ("y",) if count == 1 else tuple(f"y{i}" for i in range(count))
        kept = rows[:MAX_SAMPLES]
        return write(path, Deployment(self.net, inputs, outputs, {}, {}, kept, lambda row: row, **facts), store=store)

    def summary(self, shape: Sequence[int] | None = None) -> str:
        """A table of layers, output shapes, parameters and FLOPs, for an input of `shape` (with a batch size)."""
        from pdl.nn import summary

        return str(summary(self.net, tuple(shape)) if shape is not None else summary(self.net))


def _made(given: Any, kind: str, **supplied: Any) -> Any:
    """A part that is given by its short name, or as in a recipe; all else as it is."""
    if not isinstance(given, str | Mapping):
        return given
    node = {TARGET: given} if isinstance(given, str) else dict(given)
    if is_short(node.get(TARGET)):
        node = find(node[TARGET], kind).node(node)
    return build(node, **supplied)


def _metrics(given: Mapping[str, Callable[[], Metric]] | Sequence[str]) -> Mapping[str, Callable[[], Metric]]:
    if isinstance(given, Mapping):
        return given
    names = [given] if isinstance(given, str) else given
    made = {name: locate(find(name, "metrics").target) for name in names}
    for name, cls in made.items():
        if needed := [word for word, argument in signature(cls).arguments.items() if argument.required]:
            arguments = ", ".join(f"{word}=..." for word in needed)
            example = f'metrics={{"{name}": lambda: {cls.__name__}({arguments})}}'
            raise UsageError(f"{name} needs {', '.join(needed)}: {example}")
    return made


def _name(made: Any) -> str:
    return getattr(made, "__name__", type(made).__name__)


class History(Hook):
    """Keeps the numbers of every epoch."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def on_epoch(self, trainer: Trainer) -> None:
        self.epochs.append(dict(trainer.epoch_log))

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs = list(state.get("epochs", ()))


def _hooks(settings: TrainSettings, run: Path | None, progress: bool) -> list[Hook]:
    made: list[Hook] = [EarlyStop(settings.early_stop)] if settings.early_stop is not None else []
    if progress:
        made.append(Progress(sys.stderr))
    if run is not None:
        run.mkdir(parents=True, exist_ok=True)
        made.insert(0, MetricsLog(run / "metrics.jsonl", settings.log_every))
        made.append(
            Checkpoints(
                run / "checkpoints",
                every=settings.checkpoint_every,
                seconds=settings.checkpoint_seconds,
                keep_last=settings.keep_last,
            )
        )
    return made


def batches(data: Any, batch_size: int, *, shuffle: bool = False, seed: int = 0) -> Iterable[Any]:
    """Something that iterates over batches, made of what people have."""
    if isinstance(data, tuple):
        inputs = ["x"] if len(data) == 2 else [f"x{i}" for i in range(len(data) - 1)]
        data = dict(zip([*inputs, "y"], data, strict=True))
    if isinstance(data, dict):
        arrays: dict[str, Any] = {name: np.asarray(array) for name, array in data.items()}
        data = ArrayDataset(**arrays)
    if isinstance(data, Dataset | IterableDataset) or _has_samples(data):
        shuffled = shuffle and not isinstance(data, IterableDataset)
        return DataLoader(data, batch_size=batch_size, shuffle=shuffled, seed=seed)
    if not isinstance(data, Iterable) or iter(data) is data:
        name = type(data).__name__
        raise UsageError(f"pdl.Model: {name} can be iterated over once only; give arrays, a Dataset or a DataLoader")
    return data


def _has_samples(data: Any) -> bool:
    """Whether this is a data set of anybody's making: samples by index, and not batches to iterate over. A list may be
    either: batches have targets with a length."""
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return False
    if not isinstance(data, list):
        return not isinstance(data, Iterable)
    return bool(data) and isinstance(data[0], tuple) and np.ndim(data[0][-1]) == 0
