"""The text recognition task: what the trainer calls."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Dataset, Fault
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.images import answer, first_images
from pdl_ocr.models.recogniser import DECODINGS, CtcDecoding, Decoding, Recogniser
from pdl_ocr.recognition.baselines import baselines
from pdl_ocr.recognition.check import check_recipe
from pdl_ocr.recognition.deploy import RecognitionDeployer
from pdl_ocr.recognition.loader import Labelled, Widths, line_loader, ratios_of, standing, texts_of
from pdl_ocr.recognition.metrics import recognition_metrics
from pdl_ocr.recognition.preview import RecognitionPreviewer
from pdl_ocr.recognition.report import RecognitionReporter
from pdl_ocr.recognition.transfer import keep_characters
from pdl_ocr.scripts import characters_of, logical, visual

MOST = 100_000  # characters


class TextRecognition(Task):
    """What a line of text says. Models are `pdl_ocr.models.Recogniser`s: logits [N, T, characters + 1] of images
    [N, H, W, C]; they bring their loss and how logits become texts, by CTC (class 0 the blank) or until an end (class
    0).

    characters  that can be read, in the order of their classes; by default those of the texts for training
    dictionary  a file with a character a line (a line of one space is the space), or the name of a script of
                `pdl_ocr.scripts`, in place of `characters`
    space       whether the space is read, too, where `dictionary` does not list it
    lower       whether texts are lowered first, in training and in evaluation
    skip        leave out of training the lines that cannot be learned: those with characters that are not in the
                dictionary, and those with more characters than the net has steps for. Without it they are an error.
                Evaluation keeps them, as mistakes
    shortest_first  begin with the narrowest lines and come to the widest at the end of the first epoch: from random
                weights, CTC learns long lines sooner so (SortaGrad; Amodei et al., Deep Speech 2, ICML 2016)
    tall        lines that are at least so many times as high as wide are read as they are, and turned by 90 degrees to
                either side, in evaluation and in bundles; the most certain text counts (as in Li et al., SAR, AAAI
                2019). Those with three characters or more are left out of training, as nobody says which way they run
    mode        "rgb" or "gray": how `pdl predict` reads images; by default as the data set's
    mistakes    how many of the worst mistakes the report draws

    Texts are compared in Unicode's normal form C. Those with letters that are written from right to left are in logical
    order, as they are typed; the net learns them in the order in which they are seen (`pdl_ocr.scripts.visual`), and
    answers are brought back, in evaluation and in bundles alike. Samples are {"image": [H, W, C], "text": str}.
    """

    monitor = "val/accuracy"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        characters: str | None = None,
        dictionary: str | None = None,
        space: bool = True,
        lower: bool = False,
        skip: bool = False,
        shortest_first: bool = False,
        tall: Annotated[float, Range(1, 100)] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        mistakes: Annotated[int, Range(0)] = 40,
    ) -> None:
        if characters is not None and dictionary is not None:
            raise ConfigError("task: characters and dictionary both say what can be read; give one of them")
        if dictionary is not None:
            found = from_dictionary(dictionary)
            characters = found + (" " if space and " " not in found else "")
        self.characters = normal(characters or "")
        twice = [c for c, n in Counter(self.characters).items() if n > 1]
        if twice:
            raise ConfigError(f"task.characters: {listed(twice, 10)} more than once; give each character once")
        self.lower, self.skip, self.mode, self.mistakes = lower, skip, mode, mistakes
        self.shortest_first, self.tall = shortest_first, tall
        self._numbered: tuple[str, dict[str, int]] = ("", {})
        self.net: Recogniser | None = None  # once it is known
        self.decoding: Decoding = CtcDecoding()  # the net's

    # -- texts ---------------------------------------------------------------------------------------------------------
    def clean(self, text: str) -> str:
        """A text as it is learned and compared."""
        found = unicodedata.normalize("NFC", text)
        return found.lower() if self.lower else found

    def seen(self, text: str) -> str:
        """The characters of a text in the order in which they are seen from left to right: what the net writes."""
        return visual(self.clean(text))

    def encode(self, text: str) -> np.ndarray:
        """int64 [U]: the classes of a text's characters, as they are seen; those that are not in the dictionary have
        none."""
        return np.array([self.numbers[c] for c in self.seen(text) if c in self.numbers], np.int64)

    @property
    def numbers(self) -> dict[str, int]:
        """The class of each character."""
        if self._numbered[0] != self.characters:
            self._numbered = (self.characters, {c: i for i, c in enumerate(self.characters, 1)})
        return self._numbered[1]

    def decode(self, scores: np.ndarray) -> list[str]:
        """The texts of scores [N, T, characters + 1] by the net's decoding, in logical order."""
        return [logical("".join(self.characters[c - 1] for c in row)) for row in self.decoding.classes(scores)]

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        parts = model.loss(pdl.as_tensor(batch["image"]), *_wanted(batch))  # type: ignore[attr-defined]
        shown = {name: value.detach() for name, value in parts.items()} if len(parts) > 1 else {}
        total: Any = sum(parts.values())
        return Loss(total, len(batch["image"]), parts=shown)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        logits = model(pdl.as_tensor(batch["image"]))
        texts, scores = [self.clean(text) for text in batch["text"]], logits.numpy()
        found = self.decode(scores)
        for row, images in batch["turned"].items():
            views = [scores[row], *(model(pdl.as_tensor(image[None])).numpy()[0] for image in images)]
            found[row] = self.decode(max(views, key=self.decoding.certainty)[None])[0]
        outputs = (found, texts, np.asarray(batch["index"]))
        rows = np.setdiff1d(np.arange(len(texts)), list(batch["turned"]))  # the loss is of lines that are as they are
        if not len(rows):
            return Loss(pdl.zeros(()), len(texts), outputs, known=False)
        labels, lengths = (np.asarray(batch[name])[rows] for name in ("labels", "lengths"))
        part = logits if len(rows) == len(texts) else pdl.as_tensor(scores[rows])
        loss = self.decoding.loss(part, pdl.as_tensor(labels), pdl.as_tensor(lengths))
        return Loss(loss, len(rows), outputs)

    def metrics(self) -> dict[str, Metric]:
        return recognition_metrics()

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the characters, and on gray or colour."""
        train = datasets.get("train")
        if not self.characters:
            if train is None:
                raise DataError("data.train is needed to know the characters; give it, or task.characters")
            self.characters = "".join(sorted({c for text in texts_of(train) for c in self.seen(text)}))
        if not 1 <= len(self.characters) <= MOST:
            raise DataError(f"there are {len(self.characters)} characters to be read, expected 1 to {MOST:,}")
        if train is not None and not self.skip:
            self._all_known(train)

    def _all_known(self, train: Dataset) -> None:
        unknown, first = Counter[str](), {}
        for index, text in enumerate(texts_of(train)):
            others = [c for c in self.seen(text) if c not in self.numbers]
            unknown.update(others)
            first.update({c: index for c in others if c not in first})
        if unknown:
            shown = ", ".join(f"{c!r} {n} times" for c, n in unknown.most_common(8))
            where = train.path_of(min(first.values())) or f"sample {min(first.values())}"
            raise DataError(
                f"data.train has {len(unknown)} characters that are not among the {len(self.characters)} of the "
                f"dictionary: {shown}{', ...' if len(unknown) > 8 else ''}; the first in {where}. Add them "
                "(task.characters, task.dictionary), or leave out lines that have any (task.skip=true)"
            )

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.characters) + 1}

    def model(self, recipe: Recipe) -> Module:
        """The recipe's, with what the net that it begins with knows of characters that both have."""
        made = super().model(recipe)
        if isinstance(made, Recogniser) and recipe.model.get("pretrained") is not None:
            keep_characters(made, recipe.model.get("pretrained"), self.characters)
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one line of each split through its transforms and the model, and compare its steps with the texts."""
        if isinstance(model, Deployed):
            self.decoding = decoding_of(model)
            return
        if not isinstance(model, Recogniser):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_ocr.models.Recogniser, so it reads no lines")
        self.take(model)
        for images, source in first_images(self, datasets, recipe):
            shape = answer(model, images, source, recipe).shape
            if shape[1:] != (model.steps(images.shape[2]), len(self.characters) + 1):
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape} for images of {images.shape[1:]}, "
                    f"expected [N, {model.steps(images.shape[2])}, {len(self.characters) + 1}]: its steps for images "
                    f"of that width, a class for each of {len(self.characters)} characters and {self.decoding.other}; "
                    "leave model.num_classes out"
                )
        train = datasets.get("train")
        if train is not None and not self.skip:
            self._all_fit(train, recipe)
        if train is not None and not len(self._learnable(train, self._widths(train, recipe, training=True))):
            raise DataError(f"data.train: none of {len(train)} lines can be learned; see `pdl check`")

    def take(self, net: Recogniser) -> None:
        """Learn and decode as this net does."""
        self.net, self.decoding = net, net.decoding

    def _all_fit(self, train: Dataset, recipe: Recipe) -> None:
        assert self.net is not None
        texts = texts_of(train)
        needed, steps = self.needed(texts), self.steps(train, recipe, training=True)
        short = np.flatnonzero((needed > steps) & ~standing(train, self.tall))
        if len(short):
            index = int(short[0])
            where = train.path_of(index) or f"sample {index}"
            why, advice = self.net.too_long()
            raise DataError(
                f"data.train: {len(short)} of {len(texts)} lines {why}: {texts[index]!r:.60} in {where}. "
                f"{advice[0].upper()}{advice[1:]}, or leave these lines out (task.skip=true)"
            )

    def needed(self, texts: Sequence[str]) -> np.ndarray:
        """int64 [N]: the fewest steps that the net writes each text in."""
        return np.array([self.decoding.needed(self.encode(text)) for text in texts], np.int64)

    def steps(self, dataset: Dataset, recipe: Recipe, *, training: bool) -> np.ndarray:
        """int64 [N]: the steps of each line of a data set."""
        return self._steps(self._widths(dataset, recipe, training=training))

    def _steps(self, widths: np.ndarray) -> np.ndarray:
        """int64 [N]: the steps of images of these widths; of an unknown net one for each column."""
        steps: Any = (lambda width: width) if self.net is None else self.net.steps
        return np.array([steps(int(width)) for width in widths], np.int64)

    def _widths(self, dataset: Dataset, recipe: Recipe, *, training: bool) -> np.ndarray:
        return Widths(recipe.data.transforms(training=training)).of(ratios_of(dataset))

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        widths = self._widths(dataset, recipe, training=training)
        rows = self._learnable(dataset, widths) if training else np.arange(len(dataset))
        return line_loader(
            Labelled(dataset, rows, self.encode),
            widths[rows],
            recipe.data,
            training=training,
            seed=seed,
            shortest_first=self.shortest_first,
            tall=self.tall,
        )

    def _learnable(self, dataset: Dataset, widths: np.ndarray) -> np.ndarray:
        """int64 [n]: the lines to learn from: none whose direction is not known (`tall`); with `skip` those that have a
        text, of known characters, for which there are steps enough."""
        good = ~standing(dataset, self.tall)
        if self.skip:
            texts = texts_of(dataset)
            good &= [bool(text) and all(c in self.numbers for c in self.seen(text)) for text in texts]
            good &= self.needed(texts) <= self._steps(widths)
        return np.flatnonzero(good)

    def learned_config(self) -> dict[str, Any]:
        return {"characters": self.characters, "dictionary": None, "mode": self.mode}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, self, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=96, test=16, epochs=12, batch_size=16)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A list, a folder or an LMDB set, in any format of `pdl_ocr.data.TextLines`."""
        return {"_target_": "pdl_ocr.data.TextLines", "path": str(path)}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The text of the line for training that looks most alike."""
        return baselines(self, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def previewer(self, recipe: Recipe) -> RecognitionPreviewer:
        return RecognitionPreviewer(self, recipe)

    def reporter(self) -> RecognitionReporter:
        return RecognitionReporter(self)

    def deployer(self, recipe: Recipe) -> RecognitionDeployer:
        return RecognitionDeployer(self, recipe)


def _wanted(batch: Any) -> tuple[pdl.Tensor, pdl.Tensor]:
    return pdl.as_tensor(batch["labels"]), pdl.as_tensor(batch["lengths"])


def decoding_of(model: Deployed) -> Decoding:
    """That of the net which a bundle was made of, by the last step of its outputs."""
    bundle = model.session.bundle
    post = {} if bundle is None else bundle.pipeline["post"]
    names = [step.get("step") for steps in post.values() for step in steps]
    return next((DECODINGS[name] for name in names if name in DECODINGS), CtcDecoding())


def normal(characters: str) -> str:
    """Unicode's normal form C of a dictionary. Those that would be others of it then, of which PaddleOCR's have a few,
    stay as they are: no label has them, and all keep their classes."""
    found = unicodedata.normalize("NFC", characters)
    if len(set(found)) == len(found) or len(set(characters)) < len(characters):
        return found
    pairs = [(each, unicodedata.normalize("NFC", each)) for each in characters]
    return "".join(each if form in characters or len(form) > 1 else form for each, form in pairs)


def from_dictionary(name: str) -> str:
    """The characters of a dictionary file, or of a script."""
    path = Path(name).expanduser()
    if not path.exists() and "/" not in name and "." not in name:
        return characters_of(name)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"task.dictionary: {path} cannot be read as UTF-8 text: {error}") from error
    found = [line.removesuffix("\r") for line in (lines[:-1] if lines and not lines[-1] else lines)]
    wrong = [(number, line) for number, line in enumerate(found, 1) if len(unicodedata.normalize("NFC", line)) != 1]
    if wrong:
        number, line = wrong[0]
        raise DataError(f"task.dictionary: {path}:{number} is {line!r:.40}; expected one character a line")
    return "".join(found)
