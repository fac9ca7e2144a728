"""The task of filling the slots of spoken orders: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl_speech.data.orders import LISTS, slots_of
from pdl_speech.data.recordings import Rate
from pdl_speech.fitting import answer, check_rates, first_waves
from pdl_speech.models.slot_net import SlotNet
from pdl_speech.slots.baselines import baselines
from pdl_speech.slots.check import check_recipe
from pdl_speech.slots.deploy import SlotDeployer
from pdl_speech.slots.loader import order_loader
from pdl_speech.slots.metrics import slot_metrics
from pdl_speech.slots.preview import SlotPreviewer
from pdl_speech.slots.report import SlotReporter

NARROW = {"width": 32, "blocks": 2, "hidden": 16}  # of nets in quick tests


class SlotFilling(Task):
    """Which values the slots of a spoken order have, from its sound alone: a class for each slot, by the sum of their
    cross-entropies. Models are `pdl_speech.SlotNet`s.

    slots            the values of each, in the order of their numbers, the first one "" (not said); by default the data
                     set's
    rate             of the waveforms in Hz; by default the data set's
    label_smoothing  share of the target that is spread evenly over all values of a slot (Szegedy et al., arXiv
                     1512.00567); in training only
    mistakes         how many of the worst mistakes the report shows

    Samples are {"audio": float32 [T], "slots": int64 [S]}.
    """

    monitor = "val/whole"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        slots: Mapping[str, Sequence[str]] | None = None,
        rate: Rate | None = None,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.slots = {name: list(values) for name, values in (slots or {}).items()}
        wrong = [name for name, values in self.slots.items() if values[:1] != [""] or len({*values}) < len(values)]
        if wrong:
            raise ConfigError(f'task.slots.{wrong[0]}: {self.slots[wrong[0]]} must be "" and its values, each once')
        self.rate, self.label_smoothing, self.mistakes = rate, label_smoothing, mistakes

    @property
    def sizes(self) -> list[int]:
        """How many values each slot has, "" among them."""
        return [len(values) for values in self.slots.values()]

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        logits = model(pdl.as_tensor(batch["audio"]), pdl.as_tensor(batch["samples"]))
        return Loss(self._loss(logits, batch, self.label_smoothing), len(batch["slots"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        logits, said = self._heard(model, batch), np.asarray(batch["slots"])
        found = np.stack([part.numpy().argmax(axis=1) for part in self._parts(logits)], axis=1)
        return Loss(self._loss(logits, batch), len(said), (found, said, np.asarray(batch["index"])))

    def _heard(self, model: Module, batch: Any) -> pdl.Tensor:
        """Logits [N, K]; a bundle, which takes no lengths, is given each recording alone."""
        audio, samples = batch["audio"], batch["samples"]
        if not isinstance(model, Deployed):
            return model(pdl.as_tensor(audio), pdl.as_tensor(samples))  # type: ignore[no-any-return]
        rows = zip(audio, samples.tolist(), strict=True)
        found: list[Array] = [model(pdl.as_tensor(sound[None, :count])).numpy()[0] for sound, count in rows]
        return pdl.as_tensor(np.stack(found))

    def _parts(self, logits: pdl.Tensor) -> list[pdl.Tensor]:
        """Logits [N, K] by slot."""
        ends = np.cumsum(self.sizes).tolist()
        return [logits[:, end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def _loss(self, logits: pdl.Tensor, batch: Any, smoothing: float = 0.0) -> pdl.Tensor:
        """The sum over the slots of the mean of -log p(value)."""
        said = pdl.as_tensor(batch["slots"])
        total = pdl.zeros(())
        for k, part in enumerate(self._parts(logits)):
            total = total + pdl.cross_entropy(part, said[:, k], label_smoothing=smoothing)
        return total

    def metrics(self) -> dict[str, Metric]:
        return slot_metrics(list(self.slots))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the slots with their values, and on a rate."""
        for split, dataset in datasets.items():
            found = slots_of(dataset)
            if found is None:
                raise ConfigError(
                    f"data.{split}: {type(dataset).__name__} has no slots; take one that has, such as "
                    "pdl_speech.data.SpokenOrders"
                )
            self.slots = self.slots or found
            if list(found.items()) != list(self.slots.items()):
                raise DataError(
                    f"data.{split}: has the slots {_said(found)}, expected {_said(self.slots)}; all splits need the "
                    "same slots and values: set slots and values of the data sets"
                )
        self.rate = self.rate or next((each.rate for each in datasets.values() if hasattr(each, "rate")), None)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"sizes": self.sizes}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one recording of each split through its transforms and the model."""
        if isinstance(model, Deployed):
            return
        check_rates(model, datasets)
        if not isinstance(model, SlotNet):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_speech.SlotNet, so it fills no slots")
        if model.sizes != self.sizes:
            raise ConfigError(
                f'model.sizes={model.sizes}, but the slots {listed(self.slots)} have {self.sizes} values ("" among '
                "them); leave it out"
            )
        for waves, source in first_waves(self, datasets, recipe):
            answer(model, waves, source, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        return order_loader(dataset, recipe.data, training=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {"slots": self.slots, "rate": self.rate}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent values, and those of the nearest recording."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder or a table, in any form of `pdl_speech.data.SpokenOrders`."""
        own = split if any((path / f"{name}.txt").is_file() for name in LISTS) else None
        values = {name: said[1:] for name, said in self.slots.items()}
        return {"_target_": "pdl_speech.data.SpokenOrders", "path": str(path), "split": own, "ratios": None,
                "rate": self.rate, "slots": list(self.slots), "values": values}  # fmt: skip

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, self, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        settings = {f"model.{name}": size for name, size in NARROW.items() if name in recipe.model.takes}
        return SmokeTest(train=64, test=16, epochs=6, batch_size=16, settings=settings)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> SlotDeployer:
        return SlotDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> SlotPreviewer:
        return SlotPreviewer(self, recipe)

    def reporter(self) -> SlotReporter:
        return SlotReporter(self)


def _said(slots: Mapping[str, Sequence[str]]) -> str:
    return listed([f"{name} ({len(values)}: {listed(values[1:], 3)})" for name, values in slots.items()])
