"""The task of key information extraction: what the trainer calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.vocabulary import Vocabulary
from pdl_ocr.extraction.alignment import is_whole, spans_of
from pdl_ocr.extraction.baselines import baselines
from pdl_ocr.extraction.check import check_recipe
from pdl_ocr.extraction.deploy import ExtractionDeployer
from pdl_ocr.extraction.loader import own_logits, page_loader
from pdl_ocr.extraction.metrics import extraction_metrics
from pdl_ocr.extraction.preview import ExtractionPreviewer
from pdl_ocr.extraction.report import ExtractionReporter
from pdl_ocr.models.line_transformer import LineTransformer
from pdl_ocr.steps.fields import SCORES, WIDTH, FieldValues, PageText, numbers_of

FORBIDDEN = -1e4
INSIDE = 5.0  # what the loss of being inside weighs
SPECIAL = ("[PAD]", "[UNK]")
FEW = 0.02  # of the values may cut words, where all are taken for whole
LONGER = 1.25  # than the longest value in training a value may be


class InformationExtraction(Task):
    """What a page says of its fields, such as company, date and total of a receipt (key information extraction): each
    is a span of the text of its lines in reading order. Models are `pdl_ocr.LineTransformer`s.

    fields     names of the fields; by default those of the data for training
    width      characters of the pieces that lines are read in
    longest    the most characters of a value of each field; by default 1.25 times as many as in training
    whole      whether values begin and end with words and numbers; by default if nearly all in training do: readers
               that lose spaces give others
    min_count  characters that occur less often in training are unknown
    mistakes   how many of the most certain mistakes the report shows

    The loss of a field is -log sum p(begins at i) - log sum p(ends at j), over all places i, j where its value stands
    (labels do not say which of them is meant; that of a field that is not there is a place of its own), and 5 times the
    mean binary cross-entropy of the characters inside. Values that stand nowhere on their page teach nothing; in
    evaluation they count. Samples are those of `pdl_ocr.data.PageFields`.
    """

    monitor = "val/f1"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        fields: Sequence[str] | None = None,
        width: Annotated[int, Range(8, 256)] = WIDTH,
        longest: Sequence[int] | None = None,
        whole: bool | None = None,
        min_count: Annotated[int, Range(1)] = 1,
        mistakes: Annotated[int, Range(0)] = 40,
    ) -> None:
        self.fields, self.width, self.longest = list(fields or ()), width, list(longest or ())
        twice = [name for name, n in Counter(self.fields).items() if n > 1]
        if twice:
            raise ConfigError(f"task.fields: {listed(twice)} more than once")
        self.whole, self.min_count, self.mistakes = whole, min_count, mistakes

    @property
    def step_arguments(self) -> dict[str, Any]:
        """The arguments of `FieldValues`, which makes values of logits."""
        return {"names": self.fields, "longest": self.longest, "whole": self.whole is not False}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        losses = self.losses(self._logits(model, batch), batch)
        value = losses["place"] + losses["inside"]
        return Loss(value, len(batch["characters"]), parts={name: each.detach() for name, each in losses.items()})

    def _logits(self, model: Module, batch: Any) -> pdl.Tensor:
        found: pdl.Tensor = model(pdl.as_tensor(batch["characters"]), pdl.as_tensor(batch["boxes"]))
        return found

    def losses(self, logits: pdl.Tensor, batch: Any) -> dict[str, pdl.Tensor]:
        """The weighted parts of the loss, for logits [N, T + 1, 3 F]."""
        targets, allowed, known = (pdl.as_tensor(batch[name]) for name in ("targets", "allowed", "known"))
        f, count = logits.shape[2] // len(SCORES), known.sum() + 1e-6
        place: Any = 0.0
        for side in range(2):
            part = slice(side * f, (side + 1) * f)
            scores = logits[..., part] + FORBIDDEN * (1.0 - allowed[..., side : side + 1])
            there = pdl.logsumexp(scores + FORBIDDEN * (1.0 - targets[..., part]), axis=1)
            place = place + ((pdl.logsumexp(scores, axis=1) - there) * known).sum() / (2.0 * count)
        real = pdl.astype(pdl.flatten(pdl.as_tensor(batch["characters"]), 1, 2) > 0, logits.dtype)
        inside, wanted = logits[:, :-1, 2 * f :], targets[:, :-1, 2 * f :]
        each = ((pdl.softplus(inside) - inside * wanted) * pdl.expand_dims(real, axis=2)).sum(axis=1)
        each = each / pdl.expand_dims(real.sum(axis=1), axis=1)
        return {"place": place, "inside": INSIDE * (each * known).sum() / count}

    def evaluate(self, model: Module, batch: Any) -> Loss:
        logits, count = self._logits(model, batch), len(batch["characters"])
        found = self.values(logits.numpy(), batch["page"])
        if isinstance(model, Deployed):
            return Loss(pdl.zeros(()), count, (found,), known=False)
        losses = self.losses(logits, batch)
        return Loss(losses["place"] + losses["inside"], count, (found,))

    def values(self, logits: np.ndarray, pages: Sequence[PageText]) -> list[dict[str, Any]]:
        """{field: {"text", "score", "lines"}} of pages in a batch."""
        step = FieldValues(**self.step_arguments)
        return [step.values(page, own_logits(each, page)) for each, page in zip(logits, pages, strict=True)]

    def metrics(self) -> dict[str, Metric]:
        return extraction_metrics(self.fields)

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for metric in metrics.values():
            metric.update(loss.outputs[0], batch["fields"], batch["index"])

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the fields, the characters, and how long values are."""
        train = datasets.get("train")
        for split, data in datasets.items():
            own = {name for index in range(len(data)) for name in data[index]["fields"]}
            if self.fields and own.isdisjoint(self.fields):
                have = listed(sorted(own), 10) or "none"
                raise DataError(f"data.{split} has no value of {listed(self.fields, 10)}; its fields are {have}")
        if train is None:
            if "characters" not in self.vocabularies:
                raise DataError("data.train is needed to know the characters; give it, or use the run that was trained")
            return
        pages = [train[index] for index in range(len(train))]
        there = Counter(name for page in pages for name in page["fields"])
        self.fields = self.fields or list(there)
        lacking = [name for name in self.fields if not there[name]]
        if not self.fields or lacking:
            what = f"has no value of {listed(lacking)}" if lacking else "has no fields"
            raise DataError(f"data.train {what}; it has {listed(list(there)) or 'none'} (task.fields)")
        if "characters" not in self.vocabularies:
            counts = Counter(c for page in pages for line in page["lines"] for c in line["text"].strip())
            kept = sorted(c for c, n in counts.items() if n >= self.min_count)
            self.vocabularies["characters"] = Vocabulary([*SPECIAL, *kept])
        if not self.longest or self.whole is None:
            self._measure(pages)

    def _measure(self, pages: Sequence[Any]) -> None:
        """How long values are, and whether they are of whole words."""
        found, cut, count = dict.fromkeys(self.fields, 0), 0, 0
        for page in pages:
            text = PageText.of(page["lines"], self.width)
            for name in self.fields:
                spans = spans_of(page["fields"].get(name, ""), text.lines)
                found[name] = max([found[name], *(len(span.text(text.lines)) for span in spans)])
                count += bool(spans)
                cut += bool(spans) and not is_whole(spans[0], text.lines)
        lost = [name for name, most in found.items() if not most]
        if lost:
            raise DataError(f"data.train: no value of {listed(lost)} stands on its page; see `pdl check`")
        self.longest = self.longest or [int(LONGER * most) + 1 for most in found.values()]
        self.whole = cut <= FEW * count if self.whole is None else self.whole

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each character, once they are known."""
        return numbers_of(self.vocabularies["characters"].names)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"vocab_size": len(self.vocabularies["characters"]), "fields": len(self.fields)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, LineTransformer):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_ocr.LineTransformer, so it finds no fields")
        for name, own in self.facts(recipe).items():
            if getattr(model, name) != own:
                raise ConfigError(f"model.{name}={getattr(model, name)}, but the data has {own}; leave it out")

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        return page_loader(
            dataset, recipe.data, training=training, seed=seed, fields=self.fields, numbers=self.numbers,
            width=self.width, whole=self.whole is not False,
        )  # fmt: skip

    def learned_config(self) -> dict[str, Any]:
        return {"fields": self.fields, "longest": self.longest, "whole": self.whole}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, self.fields, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=48, test=8, epochs=8, batch_size=8)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder or a list, in any format of `pdl_ocr.data.PageFields`."""
        return {"_target_": "pdl_ocr.data.PageFields", "path": str(path)}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Form and place of values."""
        return baselines(self, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def previewer(self, recipe: Recipe) -> ExtractionPreviewer:
        return ExtractionPreviewer(self, recipe)

    def reporter(self) -> ExtractionReporter:
        return ExtractionReporter(self)

    def deployer(self, recipe: Recipe) -> ExtractionDeployer:
        return ExtractionDeployer(self, recipe)
