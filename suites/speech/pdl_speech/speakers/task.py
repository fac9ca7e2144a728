"""The task of verifying speakers: what the trainer calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np

import pdl
from pdl import nn
from pdl.data import DataLoader, Dataset, Fault
from pdl.data.faults import DataFault
from pdl.data.store import locate
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Evaluation, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.embeddings import Listed, Scored, Trials, listed_pairs
from pdl.train.open_set import learned_classes, numbered
from pdl_speech.data.recordings import Rate
from pdl_speech.fitting import answer, check_rates
from pdl_speech.models.speaker_net import SpeakerNet
from pdl_speech.speakers.baselines import baselines
from pdl_speech.speakers.check import check_recipe, known
from pdl_speech.speakers.deploy import ALL, SpeakerDeployer
from pdl_speech.speakers.loader import Voices, read_trials, voice_loader
from pdl_speech.speakers.metrics import speaker_metrics
from pdl_speech.speakers.preview import SpeakerPreviewer
from pdl_speech.speakers.report import SpeakerReporter

NARROW = {"channels": 16, "aggregated": 48, "last": 48}  # of nets in quick tests


class SpeakerVerification(Task):
    """Whether two recordings are of one speaker, by the cosine of their embeddings. Models are
    `pdl_speech.models.SpeakerNet`s. Speakers of val and test are not in train.

    loss        aam: additive angular margin softmax over the speakers of training (`pdl.nn.ArcFaceLoss`; Deng et al.,
                arXiv 1801.07698); ge2e: the speakers of a batch against each other (`pdl.nn.GE2ELoss`; Wan et al.,
                arXiv 1710.10467). What it learns is no part of a bundle
    margin      of aam, in radians
    scale       of aam
    crops       of ge2e: samples of each speaker in a batch
    speakers    of training, in the order of their numbers; by default the data's
    rate        of the waveforms in Hz; by default the data set's
    trials      pairs of recordings at most that an evaluation compares: of more so many are drawn, always the same
    trial_list  a file of lines "1 a.wav b.wav" (1: one speaker), as of VoxCeleb, for the split that has its recordings;
                a relative one is also looked for under PDL_DATA
    mistakes    how many of the worst trials the report shows

    An evaluation takes whole recordings, unless its transforms cut them. Samples are {"audio": float32 [T], "label":
    int}, classes are speakers.
    """

    monitor = "val/eer"
    monitor_mode = "min"

    def __init__(
        self,
        *,
        loss: Literal["aam", "ge2e"] = "aam",
        margin: Annotated[float, Range(0, below=math.pi / 2)] = 0.2,
        scale: Annotated[float, Range(above=0)] = 30.0,
        crops: Annotated[int, Range(2)] = 2,
        speakers: Sequence[str] | None = None,
        rate: Rate | None = None,
        trials: Annotated[int, Range(1)] = 100_000,
        trial_list: str | None = None,
        mistakes: Annotated[int, Range(0)] = 12,
    ) -> None:
        self.loss, self.margin, self.scale, self.crops = loss, margin, scale, crops
        self.speakers, self.rate = list(speakers or ()), rate
        self.trials, self.trial_list, self.mistakes = trials, trial_list, mistakes
        self.listed: Listed = ()

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        embeddings, criterion = model(pdl.as_tensor(batch["audio"])), cast(SpeakerNet, model).criterion
        assert criterion is not None
        if self.loss == "aam":
            value = criterion(embeddings, pdl.as_tensor(batch["label"]))
        else:
            n, size = embeddings.shape
            value = criterion(embeddings.reshape(n // self.crops, self.crops, size))
        return Loss(value, len(batch["label"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        labels, embeddings = batch["label"], embedded(model, batch["audio"])
        seen = (embeddings, labels, np.asarray(batch["index"]), batch["name"])
        return Loss(pdl.zeros(()), len(labels), seen, known=False)

    def metrics(self) -> dict[str, Metric]:
        return speaker_metrics(Trials(most=self.trials, listed=self.listed))

    def calibrate(self, evaluation: Evaluation) -> Mapping[str, Any]:
        """The cosine from which on a bundle answers that it is one speaker: that of the EER."""
        scored: Scored = evaluation.details["trials"]
        threshold = scored.threshold()
        return {} if np.isnan(threshold) else {"threshold": threshold}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the speakers of training and on a rate; see that no other split has one of them."""
        speakers = learned_classes(self.speakers, datasets, "speakers")
        if found := known(datasets):
            raise DataError("\n".join(f"data.{each.split}: {each.what}; {each.advice}" for each in found))
        self.speakers = speakers
        self.rate = self.rate or next((each.rate for each in datasets.values() if hasattr(each, "rate")), None)
        if self.trial_list is not None:
            self.listed = read_trials(locate(self.trial_list))
            self._require_listed(datasets)

    def _require_listed(self, datasets: Mapping[str, Dataset]) -> None:
        """ConfigError where neither val nor test has all recordings of the list of trials."""
        measured = [data for split, data in datasets.items() if split != "train"]
        paths = [[data.path_of(i) or "" for i in range(len(data))] for data in measured]
        if measured and not any(listed_pairs(self.listed, names) for names in paths):
            first, have = self.listed[0][1], next((each[0] for each in paths if each), "none")
            raise ConfigError(
                f"task.trial_list {self.trial_list}: val and test lack some of its recordings, such as {first!r} "
                f"(theirs are called as {have!r}), or have them in pieces; correct the list, or leave it out"
            )

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model, with what its loss learns, and the threshold."""
        made = super().model(recipe)
        if isinstance(made, SpeakerNet):
            if self.loss == "ge2e":
                made.criterion = nn.GE2ELoss()
            elif self.speakers:
                count, size = len(self.speakers), made.embedding_size
                made.criterion = nn.ArcFaceLoss(count, size, margin=self.margin, scale=self.scale)
            made.register_buffer("threshold", np.array([ALL], np.float32), exact=True)
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one recording of each split through its transforms and the model."""
        if isinstance(model, Deployed):
            return
        check_rates(model, datasets)
        if not isinstance(model, SpeakerNet):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_speech.SpeakerNet, so it embeds no voices")
        for split, dataset in datasets.items():
            loader = self.loader(dataset, recipe, training=split == "train", seed=0)
            try:
                waves = loader.samples([0], 0)["audio"]
            except DataFault:
                if recipe.data.on_error == "skip":
                    continue
                raise
            stage = "train" if split == "train" else "eval"
            shape = answer(model, waves, f"data.{split} after data.transforms.{stage}", recipe).shape
            if shape != (1, model.embedding_size):
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape}, expected (1, {model.embedding_size})"
                )

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        numbers = numbered(dataset, self.speakers) if training else None
        crops = self.crops if self.loss == "ge2e" else None
        return voice_loader(Voices(dataset, numbers), recipe.data, training=training, seed=seed, crops=crops)

    def learned_config(self) -> dict[str, Any]:
        return {"speakers": self.speakers, "rate": self.rate}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Mean and standard deviation of cepstra."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of a folder for each speaker; or a table."""
        name = "AudioTable" if path.is_file() else "AudioFolder"
        where = {"path": str(path)} if path.is_file() else {"root": str(path)}
        return {"_target_": f"pdl_speech.data.{name}", **where, "rate": self.rate}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """Several recordings of each speaker, so that there are trials."""
        own = {} if recipe.model.get("pretrained") else NARROW
        settings = {f"model.{name}": size for name, size in own.items() if name in recipe.model.takes}
        return SmokeTest(train=128, test=120, epochs=6, batch_size=32, settings=settings)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> SpeakerDeployer:
        return SpeakerDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> SpeakerPreviewer:
        return SpeakerPreviewer(self, recipe)

    def reporter(self) -> SpeakerReporter:
        return SpeakerReporter(self)


def embedded(model: Module, waves: Any) -> Array:
    """Embeddings float32 [N, D] of waveforms [N, T], or of a list of waveforms [T], those of one length together."""
    if not isinstance(waves, list):
        return np.array(model(pdl.as_tensor(waves)).numpy())
    lengths, found = np.array([len(wave) for wave in waves]), dict[int, Array]()
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length).tolist()
        made = model(pdl.as_tensor(np.stack([waves[row] for row in rows]))).numpy()
        found |= dict(zip(rows, np.array(made), strict=True))
    return np.stack([found[row] for row in range(len(waves))])
