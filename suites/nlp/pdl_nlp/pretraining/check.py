"""Look texts over before pretraining: what cannot be read, texts that both splits have, tokens that are unknown."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from pdl.data.checks import Progress
from pdl.data.dataset import digest
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.fitting import unknown_share
from pdl_nlp.tokenizers import BERT

if TYPE_CHECKING:
    from pdl_nlp.pretraining.task import MaskedLanguageModel

MOST = 100_000  # texts of a split that are looked at
UNKNOWN = 0.05  # of the tokens: more make the vocabulary too small for these texts


def check(task: MaskedLanguageModel, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the texts of a recipe, of each split the first `MOST`."""
    faults: list[Fault] = []
    found = {}
    for split, part in recipe.data.splits.items():
        try:
            found[split] = part.build()
        except DataError as error:
            faults.append(Fault(None, None, str(error), "see above", split=split))
    if "train" in found:
        task.fit_tokenizer(recipe, task.texts(found["train"]), special=BERT)
    trained = set[str]()
    for split, data in found.items():
        texts = [text for text in islice(task.texts(data), MOST) if text.strip()]
        where: dict[str, Any] = {"split": split}
        if not texts:
            faults.append(Fault(None, None, "no text", "name files with texts", **where))
            continue
        if "tokens" in task.vocabularies and (share := unknown_share(task.tokenizer, texts)) > UNKNOWN:
            what = f"{share:.0%} of the tokens are unknown"
            faults.append(Fault(None, None, what, "make a vocabulary of these texts (`pdl vocab`)", **where))
        keys = [digest(text) for text in texts]
        if split == "train":
            trained = set(keys)
        elif again := sum(key in trained for key in keys):
            what = f"{again:,} of {len(texts):,} texts are in the training data, too"
            faults.append(Fault(None, None, what, "take them out of one of them", **where))
        if progress is not None:
            progress(split, len(texts), len(texts))
    return faults
