"""The task: of several replies the one that belongs to the turns before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import pdl
from pdl.data import Fault, bucket_sizes
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl.vocabulary import Vocabulary
from pdl_nlp.dialogue.baselines import baselines
from pdl_nlp.dialogue.check import check
from pdl_nlp.dialogue.deploy import DialogueDeployer
from pdl_nlp.dialogue.loader import SIDES, Exchanges, replies_of, turns_of
from pdl_nlp.dialogue.metrics import dialogue_metrics
from pdl_nlp.dialogue.report import DialogueReporter
from pdl_nlp.embedding.losses import info_nce
from pdl_nlp.fitting import WithTokenizer, small_encoder
from pdl_nlp.loader import loader_of
from pdl_nlp.models.bert import SentenceEncoder
from pdl_nlp.tokenizers import BERT


class Dialogue(WithTokenizer, Task):
    """Replies are found by vectors: one encoder reads turns and replies, told apart by segments (who speaks), and each
    vector of turns is to be nearest to that of its reply among all replies of the batch, and the other way round
    (InfoNCE: van den Oord et al., arXiv 1807.03748; for replies Henderson et al., arXiv 1705.00652). Data are dialogues
    (`pdl_nlp.data.DialogueFile`); every turn behind the first is a reply. Measured is how often the reply that was
    given is first among it and others, drawn from the replies of the split.

    context          turns before a reply that the model reads
    candidates       replies that are ranked, the one that was given among them
    seed             of the draw of the others
    replies          how many replies of training a bundle holds, the most frequent first
    temperature      cosines are divided by it
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next three
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, special ones among them
    max_length       tokens that count: of turns the last, of a reply the first, special ones included
    """

    monitor = "val/mrr"
    monitor_mode = "max"
    overfits = ""  # it learns of batches of replies

    def __init__(
        self,
        *,
        context: Annotated[int, Range(1)] = 3,
        candidates: Annotated[int, Range(2)] = 10,
        seed: Annotated[int, Range(0)] = 0,
        replies: Annotated[int, Range(1)] = 4000,
        temperature: Annotated[float, Range(above=0)] = 0.05,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(6)] | None = None,
        max_length: Annotated[int, Range(4)] = 64,
    ) -> None:
        self.context, self.candidates, self.seed, self.kept = context, candidates, seed, replies
        self.temperature, self.kind, self.lower, self.min_count = temperature, tokenizer, lower, min_count
        self.vocabulary_size, self.max_length = vocabulary_size, max_length
        self.sizes: list[int] | None = None
        self._texts: dict[int, list[str]] = {}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        turns, replies = self._vectors(model, batch)
        return Loss(info_nce(turns, replies, self.temperature), len(batch["index"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        turns, replies = self._vectors(model, batch)
        loss = info_nce(turns, replies, self.temperature)
        return Loss(loss, len(batch["index"]), (turns, replies, batch["index"], batch["text"]))

    def _vectors(self, model: Module, batch: Any) -> Any:
        return [model(*(pdl.as_tensor(batch[name]) for name in (side, f"{side}_segments"))) for side in SIDES]

    def metrics(self) -> dict[str, Metric]:
        return dialogue_metrics(self.candidates, self.seed)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the tokens of the training turns; keep the replies that a bundle answers with."""
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        dialogues = turns_of(train)
        self.fit_tokenizer(recipe, chain(*dialogues), special=BERT)
        before, replies = replies_of(dialogues, self.context)
        counts = Counter(" ".join(reply.split()) for reply in replies)
        self.vocabularies["replies"] = Vocabulary([text for text, _ in counts.most_common(self.kept)])
        self.sizes = bucket_sizes(Exchanges(before, replies, self.tokenizer, self.max_length).lengths)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary; sizes of a pretrained encoder where the recipe leaves them out."""
        return self.token_facts(recipe)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, SentenceEncoder):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.SentenceEncoder, so it gives no vectors")
        if not model.normalised:
            raise ConfigError("model.normalised=false: contrast is of vectors of length 1; leave it out")
        if model.embeddings.segments is None or model.embeddings.segments.weight.shape[0] < 2:
            raise ConfigError("model.segments: replies are told from turns by two segments; leave it out")
        self.check_reader(model, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of turns of about one length with their replies."""
        pairs = Exchanges(*replies_of(turns_of(dataset), self.context), self.tokenizer, self.max_length, self.sizes)
        return loader_of(pairs, recipe.data, training=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Frequent replies, TF-IDF and BM25."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A file of dialogues."""
        return {"_target_": "pdl_nlp.data.DialogueFile", "path": str(path)}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> DialogueDeployer:
        return DialogueDeployer(self, recipe)

    def reporter(self) -> DialogueReporter:
        return DialogueReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(settings={"task.min_count": 1, **small_encoder(recipe), "optim.lr": 2e-3})
