"""The task: correct spelling, character by character."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp.correction.baselines import baselines
from pdl_nlp.correction.check import check
from pdl_nlp.correction.deploy import CorrectionDeployer, chosen
from pdl_nlp.correction.loader import Mistakes, pairs_of, with_noise
from pdl_nlp.correction.metrics import WorstCorrections, correction_metrics
from pdl_nlp.correction.report import CorrectionReporter
from pdl_nlp.fitting import WithTokenizer, small_encoder
from pdl_nlp.loader import loader_of
from pdl_nlp.models.base import CorrectionModel


class Correction(WithTokenizer, Task):
    """Spelling correction of texts whose mistakes are single characters exchanged for others. A character is wrong with
    the probability g = sigmoid(d), and if it is, it should be c with softmax(scores)_c: training minimises -log of
    1 - g of right characters and of g softmax(scores)_c of wrong ones, the mean over all. A change is made where it has
    at least the probability `threshold`.

    threshold        of g softmax(scores)_c
    copies           right texts that training reads once more with made-up mistakes, so often; and once without any
    rate             share of the characters that are mistaken in those, of such as training ever mistakes
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next five; by default characters
    vectors          the vectors of words that the model begins with
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        characters that occur less often in training are unknown
    vocabulary_size  the most tokens, padding and the unknown one among them
    max_length       tokens of a text that count, from its beginning
    mistakes         how many of the worst mistakes the report shows
    """

    monitor = "val/correction_f1"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        threshold: Annotated[float, Range(0, 1)] = 0.5,
        copies: Annotated[int, Range(0)] = 1,
        rate: Annotated[float, Range(0, 1)] = 0.05,
        tokenizer: str | Mapping[str, Any] | None = None,
        vectors: str | None = None,
        lower: bool = False,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        max_length: Annotated[int, Range(1)] = 256,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.threshold, self.copies, self.rate, self.vectors = threshold, copies, rate, vectors
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.max_length, self.mistakes = max_length, mistakes

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        tokens, right = pdl.as_tensor(batch["tokens"]), pdl.as_tensor(batch["right"])
        scores, detect = model(tokens)
        losses, real = self._losses(scores, detect, tokens, right)
        return Loss(losses.sum() / real.sum(), len(batch["tokens"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        tokens, right, count = pdl.as_tensor(batch["tokens"]), pdl.as_tensor(batch["right"]), len(batch["tokens"])
        if isinstance(model, Deployed):
            best, p = (each.numpy() for each in model(tokens))
            found = self._changed(tokens.numpy(), best, p)
            return Loss(pdl.zeros(()), count, (tokens, found, right, np.zeros(count)), known=False)
        scores, detect = model(tokens)
        losses, real = self._losses(scores, detect, tokens, right)
        found = self._changed(tokens.numpy(), *(each.numpy() for each in chosen(scores, detect)))
        return Loss(losses.sum() / real.sum(), count, (tokens, found, right, losses.sum(axis=1)))

    def _losses(self, scores: Tensor, detect: Tensor, tokens: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """-log p of each token [N, T], 0 behind the last one; and float32 [N, T], 1 where there is one."""
        real = pdl.astype(pdl.greater_equal(right, 0), pdl.float32)
        wrong = pdl.astype(pdl.not_equal(tokens, right), pdl.float32) * real
        gate = pdl.binary_cross_entropy_with_logits(detect, wrong, reduction="none") * real
        wanted = pdl.where(wrong > 0, right, -1)
        return gate + pdl.cross_entropy(scores, wanted, ignore_index=-1, reduction="none"), real

    def _changed(self, tokens: Any, best: Any, p: Any) -> Any:
        """The tokens int [N, T] after correction, as the step `corrections` changes them."""
        single = np.array([len(token) == 1 for token in self.tokenizer.tokens])
        return np.where((p >= self.threshold) & single[best], best, tokens)

    def metrics(self) -> dict[str, Metric]:
        return {**correction_metrics(), "mistakes": WorstCorrections(self.mistakes)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        *texts, losses = (each.numpy() if isinstance(each, Tensor) else each for each in loss.outputs)
        for name, metric in metrics.items():
            metric.update(*texts, *((losses, batch["index"]) if name == "mistakes" else ()))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the characters of the training texts, wrong and right."""
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        if "right" not in train[0]:
            raise DataError(f"data.train: {type(train).__name__} has no right texts; take pdl_nlp.data.CorrectionFile")
        if self.kind is None and recipe.model.get("pretrained") is None:
            self.kind = "characters"
        self.fit_tokenizer(recipe, [text for pair in pairs_of(train) for text in pair])

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary; sizes of a pretrained encoder where the recipe leaves them out."""
        return self.token_facts(recipe)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, CorrectionModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.CorrectionModel, so it corrects nothing")
        self.check_reader(model, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches by length; in training with right texts and made-up mistakes."""
        pairs = with_noise(pairs_of(dataset), self.copies, self.rate, seed) if training else None
        numbers = Mistakes(dataset, self.tokenizer, self.max_length, pairs)
        return loader_of(numbers, recipe.data, training=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Nothing changed, and a dictionary of mistakes."""
        return baselines(datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """Lines of a text, a tab, and the right one."""
        return {"_target_": "pdl_nlp.data.CorrectionFile", "path": str(path)}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> CorrectionDeployer:
        return CorrectionDeployer(self, recipe)

    def reporter(self) -> CorrectionReporter:
        return CorrectionReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = small_encoder(recipe) or {"model.dim": 24, "model.hidden": 24}
        return SmokeTest(settings={"task.min_count": 1, **small, "optim.lr": 5e-3})
