"""The speech synthesis task: what the trainer calls."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Dataset, Fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.task import first_samples
from pdl_speech.audio.griffin_lim import MelVocoder
from pdl_speech.features import LogMel
from pdl_speech.fitting import check_rates
from pdl_speech.models.fast_speech import FastSpeech2, Spoken
from pdl_speech.recognition.loader import Labelled, lengths_of, texts_of
from pdl_speech.steps.text import spelled
from pdl_speech.synthesis.baselines import baselines
from pdl_speech.synthesis.check import check_recipe
from pdl_speech.synthesis.deploy import SynthesisDeployer, constants
from pdl_speech.synthesis.loader import octaves_of, spoken_loader
from pdl_speech.synthesis.metrics import Compared, Said, mel_difference, sound_distortion, synthesis_metrics
from pdl_speech.synthesis.preview import SynthesisPreviewer
from pdl_speech.synthesis.report import SynthesisReporter

MOST = 1000  # characters that there may be
LONGEST = 6.0  # ln frames of a character
MEASURED = 200  # recordings of training that spectra and pitch are normalised by


class SpeechSynthesis(Task):
    """Texts are said, in the voice of the recordings: one speaker's. Models are `pdl_speech.FastSpeech2`; how long each
    character is they learn from recordings with texts alone, and sounds are made of their spectra by the method of
    Griffin and Lim (`pdl_speech.audio.MelVocoder`).

    characters  that can be said, in the order of their numbers from 1 on; by default those of the texts for training.
                Letters, digits and signs that change how a text is said; spaces stand for pauses
    lower       whether texts are lowered first
    skip        leave out of training what cannot be learned: texts with nothing to be said or with characters that are
                not among those known, and those with more characters than their recording has frames. Without it they
                are an error
    examples    how many texts the report has to be looked at and heard

    Samples are {"audio": float32 [T], "text": str}.
    """

    monitor = "val/mcd"
    monitor_mode = "min"

    def __init__(
        self,
        *,
        characters: str | None = None,
        lower: bool = True,
        skip: bool = False,
        examples: Annotated[int, Range(0, 100)] = 6,
    ) -> None:
        self.characters = unicodedata.normalize("NFC", characters or "")
        twice = [c for c, n in Counter(self.characters).items() if n > 1]
        if twice:
            raise ConfigError(f"task.characters: {listed(twice, 10)} more than once; give each character once")
        self.lower, self.skip, self.examples = lower, skip, examples
        self.known: Dataset | None = None  # for training
        self.front: LogMel  # once the model is known
        self.copies: dict[Any, float] = {}  # distortion of copy synthesis, of recordings that were measured

    # -- texts ---------------------------------------------------------------------------------------------------------
    def clean(self, text: str) -> str:
        """A text as it is said."""
        return spelled(text, lower=self.lower)

    def encode(self, text: str) -> Array:
        """int64 [U]: the numbers of a text's characters; those that are not known have none."""
        numbers = {c: i for i, c in enumerate(self.characters, 1)}
        return np.array([numbers[c] for c in self.clean(text) if c in numbers], np.int64)

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        return self._loss(self._learned(model, batch))

    def _learned(self, model: Any, batch: Any) -> Spoken:
        names = ("texts", "audio", "samples", "prior", "pitch")
        made: Spoken = model.learn(*(pdl.as_tensor(batch[name]) for name in names))
        return made

    def _loss(self, said: Spoken) -> Loss:
        """L1 of the spectra; of durations half the deviance of Poisson's distribution, whose mean is that of the
        recordings (that of logarithms, as in the paper, is a fifth shorter), by frames; squared errors of pitch and
        energy; -ln p of the alignments."""
        frames, characters = (pdl.sum(pdl.astype(x, pdl.float32)) for x in (said.frames, said.characters))
        there = pdl.expand_dims(pdl.arange(said.heard.shape[1]), axis=0) < pdl.expand_dims(said.frames, axis=1)
        off = pdl.where(pdl.expand_dims(there, axis=2), pdl.abs(said.mel - said.heard), 0.0)
        long, expected = pdl.astype(said.durations, pdl.float32), pdl.exp(pdl.minimum(said.duration, LONGEST))
        deviance = expected - long + long * (pdl.log(pdl.maximum(long, 1.0)) - said.duration)
        parts = {
            "mel": pdl.sum(off) / (frames * said.heard.shape[2]),
            "duration": pdl.sum(pdl.where(said.durations > 0, deviance, 0.0)) / frames,
            "pitch": pdl.sum(pdl.square(said.pitch - said.pitch_heard)) / characters,
            "energy": pdl.sum(pdl.square(said.energy - said.energy_heard)) / characters,
            "alignment": pdl.mean(said.alignment),
        }
        total = parts["mel"] + parts["duration"] + parts["pitch"] + parts["energy"] + parts["alignment"]
        return Loss(total, len(said.frames), parts=dict(parts))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Texts are said from the texts alone; the loss is that of the recordings' lengths, pitches and energies."""
        truth = list(self.recordings(batch))
        texts = batch["texts"]
        places = np.arange(2 * max(len(heard) for _, _, heard, _ in truth) + 32)[None].repeat(len(texts), axis=0)
        manner = np.array([[1, 0]], np.float32).repeat(len(texts), axis=0)
        mel, frames = (y.numpy() for y in model(*map(pdl.as_tensor, (texts, manner, places))))
        learned = None if isinstance(model, Deployed) else self._learned(model, batch)
        rows, said = [], []
        for n, (text, numbers, heard, index) in enumerate(truth):
            made = mel[n, : frames[n]]
            sound = self.vocoder(made)
            rows.append(self.compared(made, int(frames[n]), heard, sound, index))
            durations = None if learned is None else learned.durations.numpy()[n, : len(numbers)]
            said.append(Said(text, np.array(made), heard, sound, durations, index))
        if learned is None:
            return Loss(pdl.zeros(()), len(truth), (rows, said), known=False)
        loss = self._loss(learned)
        loss.outputs = (rows, said)
        return loss

    def compared(self, made: Array, frames: int, heard: Array, sound: Array, index: int) -> Compared:
        """ln mel energies [frames, bands] that were made, of so many frames in all, and the sound [T] of them, against
        those that are heard of the recording of this number."""
        key = index, heard.shape, float(heard.sum())
        if key not in self.copies:
            self.copies[key] = sound_distortion(self.vocoder(heard), heard, self.listen)
        mcd, off = sound_distortion(sound, heard, self.listen), abs(frames - len(heard)) / len(heard)
        return Compared(mel_difference(made, heard), mcd, self.copies[key], off)

    def recordings(self, batch: Any) -> Iterator[tuple[str, Array, Array, int]]:
        """Of each recording of a batch its text as it is said, the numbers of the characters int64 [U], ln mel energies
        [frames, bands], and the number of the sample."""
        heard = self.front(pdl.as_tensor(batch["audio"]), pdl.as_tensor(batch["samples"])).numpy()
        rows = zip(batch["text"], batch["texts"], batch["samples"].tolist(), heard, batch["index"], strict=True)
        for text, numbers, count, mel, index in rows:
            yield self.clean(text).strip(), numbers[numbers > 0], np.array(mel[: self.front.frames(count)]), int(index)

    @cached_property
    def vocoder(self) -> MelVocoder:
        """What makes sounds of spectra."""
        held = constants(self.front)
        return MelVocoder(held["filters"], held["window"], self.front.hop_length, self.front.power)

    def listen(self, sound: Array) -> Array:
        """ln mel energies [frames, bands] of a sound [T]."""
        return np.array(self.front(pdl.as_tensor(sound[None])).numpy()[0])

    def metrics(self) -> dict[str, Metric]:
        return synthesis_metrics(self.examples)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the characters, and keep the recordings for training, which the model is fitted to."""
        train = datasets.get("train")
        if not self.characters:
            if train is None:
                raise DataError("data.train is needed to know the characters; give it, or task.characters")
            self.characters = "".join(sorted({c for text in texts_of(train) for c in self.clean(text)}))
        if not 1 <= len(self.characters) <= MOST:
            raise DataError(f"there are {len(self.characters)} characters to be said, expected 1 to {MOST:,}")
        self.known = train
        if train is not None and not self.skip:
            self._all_known(train)

    def _all_known(self, train: Dataset) -> None:
        for index, text in enumerate(texts_of(train)):
            said = self.clean(text)
            unknown = sorted(set(said) - set(self.characters))
            if unknown or not said:
                what = f"characters that are not known, {listed(unknown)}" if unknown else "nothing that can be said"
                raise DataError(
                    f"data.train: {text!r:.60} in {train.path_of(index) or f'sample {index}'} has {what}. Write out "
                    "what is said, add the characters (task.characters), or leave such texts out (task.skip=true)"
                )

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"characters": len(self.characters) + 1}

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model, whose normalisation is that of the recordings for training, where these are known."""
        made = super().model(recipe)
        if isinstance(made, FastSpeech2):
            self._take(made.features)
            if self.known is not None and recipe.model.get("pretrained") is None:
                made.fit(self._measured(self.known, made.features))
        return made

    def _take(self, front: LogMel) -> None:
        self.front = front
        self.__dict__.pop("vocoder", None)

    def _measured(self, known: Dataset, front: LogMel) -> Iterator[tuple[Array, Array, int]]:
        few = first_samples(known, min(MEASURED, len(known)))
        for number in range(len(few)):
            sample = few[number]
            yield sample["audio"], octaves_of(sample["audio"], front), len(self.encode(sample["text"]))

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Compare rates, and texts with the frames of their recordings."""
        if isinstance(model, Deployed):
            part = recipe.model.part("features")
            assert part is not None
            self._take(part.build())
            return
        check_rates(model, datasets)
        if not isinstance(model, FastSpeech2):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_speech.FastSpeech2, so it says no texts")
        train = datasets.get("train")
        if train is None:
            return
        short = np.flatnonzero(self._characters(train) > self._frames(train))
        if len(short) and not self.skip:
            index = int(short[0])
            raise DataError(
                f"data.train: {len(short)} of {len(train)} texts have more characters than their recordings have "
                f"frames ({1000 * model.features.hop_length / model.rate:g} ms), the first in "
                f"{train.path_of(index) or f'sample {index}'}: correct them, take a smaller model.features.hop_length, "
                "or leave them out (task.skip=true)"
            )
        if not len(self._learnable(train)):
            raise DataError(f"data.train: none of {len(train)} texts can be learned; see `pdl check`")

    def _characters(self, dataset: Dataset) -> Array:
        return np.array([len(self.encode(text)) for text in texts_of(dataset)], np.int64)

    def _frames(self, dataset: Dataset) -> Array:
        return np.maximum(self.front.frames(lengths_of(dataset)), 0)

    def _learnable(self, dataset: Dataset) -> Array:
        """int64 [n]: the recordings whose text is of known characters, for which there are frames enough."""
        said = [self.clean(text) for text in texts_of(dataset)]
        known = np.array([bool(text) and set(text) <= set(self.characters) for text in said], bool)
        return np.flatnonzero(known & (self._characters(dataset) <= self._frames(dataset)))

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        rows = self._learnable(dataset) if training and self.skip else np.arange(len(dataset))
        return spoken_loader(
            Labelled(dataset, rows, self.encode),
            lengths_of(dataset)[rows],
            self._characters(dataset)[rows],
            self.front,
            recipe.data,
            training=training,
            seed=seed,
        )

    def learned_config(self) -> dict[str, Any]:
        return {"characters": self.characters}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, self, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=24, test=4, epochs=3, batch_size=8)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A table or a folder, in any form of `pdl_speech.data.Transcripts`."""
        return {"_target_": "pdl_speech.data.Transcripts", "path": str(path), "rate": "${model.features.rate}"}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The mean spectrum of each character."""
        return baselines(self, recipe, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def previewer(self, recipe: Recipe) -> SynthesisPreviewer:
        return SynthesisPreviewer(self, recipe)

    def reporter(self) -> SynthesisReporter:
        return SynthesisReporter(self)

    def deployer(self, recipe: Recipe) -> SynthesisDeployer:
        return SynthesisDeployer(self, recipe)
