"""The speech recognition task: what the trainer calls."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Dataset, Fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError, ShapeError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.runtime.predict import pipeline_of
from pdl.runtime.sample import Sample
from pdl.runtime.session import Session
from pdl.runtime.steps.labels import Ctc
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.task import first_samples
from pdl_speech.fitting import check_rates
from pdl_speech.models.speech_net import SpeechNet, too_short
from pdl_speech.recognition.baselines import baselines
from pdl_speech.recognition.check import check_recipe
from pdl_speech.recognition.deploy import RecognitionDeployer
from pdl_speech.recognition.loader import Labelled, lengths_of, sound_loader, texts_of
from pdl_speech.recognition.metrics import recognition_metrics
from pdl_speech.recognition.preview import RecognitionPreviewer
from pdl_speech.recognition.report import RecognitionReporter

MOST = 10_000  # characters
KEPT = "'-"  # signs that are parts of words
APOSTROPHES = str.maketrans("\u2019\u02bc`", "'''")


class SpeechRecognition(Task):
    """What is said, character by character, by connectionist temporal classification (Graves et al., ICML 2006). Models
    are `pdl_speech.models.SpeechNet`s; class 0 is the blank.

    characters   that can be written, in the order of their classes; by default those of the texts for training
    lower        whether texts are lowered first, in training and in evaluation: case is not heard
    punctuation  whether signs are written; by default only apostrophes and hyphens within words are
    skip         leave out of training what cannot be learned: texts that are empty or have characters that are not
                 among those known, and those with more characters than the net has steps for. Without it they are an
                 error. Evaluation keeps them, as mistakes
    mistakes     how many of the worst mistakes the report draws
    attention    the share of a net's decoder in the loss, beside CTC (Watanabe et al., IEEE JSTSP 11(8), 2017); of nets
                 without one the loss is that of CTC

    Texts are compared in Unicode's normal form C, with one space between words. Samples are {"audio": float32 [T],
    "text": str}, or {"features": float32 [frames, channels], "text": str} for nets with `pdl_speech.features.Given`;
    with {"speaker": str} the report has a table of speakers.
    """

    monitor = "val/wer"
    monitor_mode = "min"

    def __init__(
        self,
        *,
        characters: str | None = None,
        lower: bool = True,
        punctuation: bool = False,
        skip: bool = False,
        mistakes: Annotated[int, Range(0)] = 24,
        attention: Annotated[float, Range(0, 1)] = 0.7,
    ) -> None:
        self.characters = unicodedata.normalize("NFC", characters or "")
        twice = [c for c, n in Counter(self.characters).items() if n > 1]
        if twice:
            raise ConfigError(f"task.characters: {listed(twice, 10)} more than once; give each character once")
        self.lower, self.punctuation, self.skip, self.mistakes = lower, punctuation, skip, mistakes
        self.attention = attention
        self.net: SpeechNet | None = None  # once it is known
        self._numbered: tuple[str, dict[str, int]] = ("", {})

    # -- texts ---------------------------------------------------------------------------------------------------------
    def clean(self, text: str) -> str:
        """A text as it is learned and compared."""
        found = unicodedata.normalize("NFC", text).translate(APOSTROPHES)
        found = found.lower() if self.lower else found
        if not self.punctuation:
            spoken = (c if c in KEPT or unicodedata.category(c)[0] in "LMN" else " " for c in found)
            found = " ".join(word.strip(KEPT) for word in "".join(spoken).split())
        return " ".join(found.split())

    @property
    def numbers(self) -> dict[str, int]:
        """The class of each character."""
        if self._numbered[0] != self.characters:
            self._numbered = (self.characters, {c: i for i, c in enumerate(self.characters, 1)})
        return self._numbered[1]

    def encode(self, text: str) -> Array:
        """int64 [U]: the classes of a text's characters; those that are not known have none."""
        return np.array([self.numbers[c] for c in self.clean(text) if c in self.numbers], np.int64)

    def decode(self, scores: Array, steps: Array) -> list[str]:
        """The texts of scores [N, T, characters + 1], of which each has so many steps, int64 [N]."""
        found = pdl.ctc_greedy_decode(scores, steps)
        return [" ".join("".join(self.characters[c - 1] for c in row).split()) for row in found]

    def needed(self, texts: Sequence[str]) -> Array:
        """int64 [N]: the fewest steps that each text is written in: its characters, and a blank between equal ones."""
        coded = [self.encode(text) for text in texts]
        return np.array([len(row) + int((row[1:] == row[:-1]).sum()) for row in coded], np.int64)

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, SpeechNet)
        heard, real = model.encoded(pdl.as_tensor(batch["audio"]), pdl.as_tensor(batch["samples"]))
        assert real.counts is not None
        loss, count = self._loss(model.classifier(heard), real.counts, batch), len(batch["audio"])
        if model.decoder is None:
            return Loss(loss, count)
        labels, lengths = pdl.as_tensor(batch["labels"]), pdl.as_tensor(batch["lengths"])
        other = model.decoder.loss(heard, labels, lengths, real)
        return Loss(
            (1 - self.attention) * loss + self.attention * other, count, parts={"ctc": loss, "attention": other}
        )

    def evaluate(self, model: Module, batch: Any) -> Loss:
        if isinstance(model, Deployed) and model.session.bundle is not None and model.session.bundle.parts:
            return self._answered(model.session, batch)
        logits, steps = self._heard(model, batch)
        texts = [self.clean(text) for text in batch["text"]]
        found = self._searched(model, logits.numpy(), steps.numpy())
        heard = (found, texts, np.asarray(batch["index"]))
        return Loss(self._loss(logits, steps, batch), len(texts), heard)

    def _answered(self, session: Session, batch: Any) -> Loss:
        """What a system of several models says, which gives texts alone."""
        (port,), pipeline = session.inputs, pipeline_of(session)
        found = []
        for sound, count in zip(batch["audio"], batch["samples"].tolist(), strict=True):
            made = session.run({port.name: sound[None, :count]})
            found.append(pipeline.finish({name: y[0] for name, y in made.items()}, Sample())["text"])
        texts = [self.clean(text) for text in batch["text"]]
        return Loss(pdl.zeros(()), len(texts), (found, texts, np.asarray(batch["index"])), known=False)

    def _searched(self, model: Module, logits: Array, steps: Array) -> list[str]:
        """The texts of logits: those that a bundle searches, where it does; else the most probable class of each
        step."""
        pipeline = model.session.pipeline if isinstance(model, Deployed) else None
        step = None if pipeline is None else pipeline.answering(Ctc)
        if pipeline is None or step is None or step.how is None:
            return self.decode(logits, steps)
        rows = zip(logits, steps.tolist(), strict=True)
        return [pipeline.finish({"logits": row[:count]}, Sample())["text"] for row, count in rows]

    def _heard(self, model: Module, batch: Any) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Logits [N, T, classes] and steps int64 [N]; a bundle, which takes no lengths, is given each sound alone."""
        if not isinstance(model, Deployed):
            return model(pdl.as_tensor(batch["audio"]), pdl.as_tensor(batch["samples"]))  # type: ignore[no-any-return]
        rows = zip(batch["audio"], batch["samples"].tolist(), strict=True)
        found = [model(pdl.as_tensor(sound[None, :count])).numpy()[0] for sound, count in rows]
        logits = np.zeros((len(found), max(map(len, found)), found[0].shape[1]), np.float32)
        for row, made in zip(logits, found, strict=True):
            row[: len(made)] = made
        return pdl.as_tensor(logits), pdl.as_tensor(np.array([len(made) for made in found], np.int64))

    def _loss(self, logits: pdl.Tensor, steps: pdl.Tensor, batch: Any) -> pdl.Tensor:
        """The mean over the texts of -log p(text); 0 for those that no path writes."""
        labels, lengths = pdl.as_tensor(batch["labels"]), pdl.as_tensor(batch["lengths"])
        logs = pdl.log_softmax(logits)
        return pdl.ctc_loss(logs, labels, steps, lengths, reduction="none", zero_infinity=True).mean()

    def metrics(self) -> dict[str, Metric]:
        return recognition_metrics()

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the characters."""
        train = datasets.get("train")
        if not self.characters:
            if train is None:
                raise DataError("data.train is needed to know the characters; give it, or task.characters")
            self.characters = "".join(sorted({c for text in texts_of(train) for c in self.clean(text)}))
        if not 1 <= len(self.characters) <= MOST:
            raise DataError(f"there are {len(self.characters)} characters to be written, expected 1 to {MOST:,}")
        if train is not None and not self.skip:
            self._all_known(train)

    def _all_known(self, train: Dataset) -> None:
        unknown, first = Counter[str](), -1
        for index, text in enumerate(texts_of(train)):
            said = self.clean(text)
            others = [c for c in said if c not in self.numbers]
            first = index if first < 0 and (others or not said) else first
            unknown.update(others)
        if first >= 0:
            shown = ", ".join(f"{c!r} {n} times" for c, n in unknown.most_common(8)) or "an empty text"
            where = train.path_of(first) or f"sample {first}"
            raise DataError(
                f"data.train has texts that cannot be written with the {len(self.characters)} characters known: "
                f"{shown}; the first in {where}. Write out what is said, add the characters (task.characters), or "
                "leave these texts out (task.skip=true)"
            )

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.characters) + 1}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one sound of each split through its transforms and the model, and compare its steps with the texts."""
        if isinstance(model, Deployed):
            return
        check_rates(model, datasets)
        if not isinstance(model, SpeechNet):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_speech.models.SpeechNet, so it writes no texts")
        self.net = model
        train = datasets.get("train")
        if train is not None and not self.skip:
            self._all_fit(train, model)
        elif train is not None and not len(self._learnable(train)):
            raise DataError(f"data.train: none of {len(train)} texts can be learned; see `pdl check`")
        for split, dataset in datasets.items():
            self._one_fits(model, split, dataset, recipe)

    def _one_fits(self, model: SpeechNet, split: str, dataset: Any, recipe: Recipe) -> None:
        loader = self.loader(first_samples(dataset, 1), recipe, training=split == "train", seed=0)
        loader.workers = 0
        batch = next(iter(loader), None)
        if batch is None:  # an unreadable first recording, with on_error=skip
            return
        shape = batch["audio"].shape
        try:
            with evaluating(model):
                logits, _ = model(pdl.as_tensor(batch["audio"]), pdl.as_tensor(batch["samples"]))
        except ShapeError as error:
            raise ConfigError(
                f"model: {recipe.model.target} does not take the sounds of data.{split}, {shape}: {error}"
            ) from error
        wanted = (1, model.steps(shape[1]), len(self.characters) + 1)
        if logits.shape != wanted:
            raise ConfigError(
                f"model: {recipe.model.target} gives outputs of shape {logits.shape} for sounds {shape}, expected "
                f"{wanted}: its steps, and a class for each of {len(self.characters)} characters and the blank; leave "
                "model.num_classes out"
            )

    def _all_fit(self, train: Dataset, net: SpeechNet) -> None:
        texts = texts_of(train)
        short = np.flatnonzero(self.needed(texts) > self.steps(train))
        if len(short):
            index = int(short[0])
            where = train.path_of(index) or f"sample {index}"
            why, advice = too_short(net)
            raise DataError(
                f"data.train: {len(short)} of {len(texts)} texts {why}: {texts[index]!r:.60} in {where}. "
                f"{advice[0].upper()}{advice[1:]}, or leave these texts out (task.skip=true)"
            )

    def steps(self, dataset: Dataset) -> Array:
        """int64 [N]: the steps of each sound of a data set, as it is; of an unknown net its samples."""
        lengths = lengths_of(dataset)
        return lengths if self.net is None else np.maximum(self.net.steps(lengths), 0)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        rows = self._learnable(dataset) if training and self.skip else np.arange(len(dataset))
        longest = max((len(self.clean(text)) for text in texts_of(dataset)), default=0) if training else 0
        return sound_loader(
            Labelled(dataset, rows, self.encode),
            lengths_of(dataset)[rows],
            longest,
            recipe.data,
            training=training,
            seed=seed,
        )

    def _learnable(self, dataset: Dataset) -> Array:
        """int64 [n]: the sounds whose text is of known characters, for which there are steps enough."""
        texts = texts_of(dataset)
        said = [self.clean(text) for text in texts]
        known = np.array([bool(text) and all(c in self.numbers for c in text) for text in said], bool)
        return np.flatnonzero(known & (self.needed(texts) <= self.steps(dataset)))

    def learned_config(self) -> dict[str, Any]:
        return {"characters": self.characters}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, self, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=48, test=8, epochs=6, batch_size=8)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A table or a folder, in any form of `pdl_speech.data.Transcripts`; features, as `pdl_speech.data.AN4`'s."""
        if path.suffix == ".npz":
            return {"_target_": "pdl_speech.data.AN4", "path": str(path), "split": split}
        return {"_target_": "pdl_speech.data.Transcripts", "path": str(path), "rate": "${model.features.rate}"}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The text of the sound for training that is most alike."""
        return baselines(self, recipe, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def previewer(self, recipe: Recipe) -> RecognitionPreviewer:
        return RecognitionPreviewer(self, recipe)

    def reporter(self) -> RecognitionReporter:
        return RecognitionReporter(self)

    def deployer(self, recipe: Recipe) -> RecognitionDeployer:
        return RecognitionDeployer(self, recipe)
