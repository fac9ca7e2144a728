"""Look texts over before a language model learns of them: too few, unknown tokens, lines that both splits have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data.checks import Progress
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.fitting import unknown_share
from pdl_nlp.language_modelling.loader import texts_of

if TYPE_CHECKING:
    from pdl_nlp.language_modelling.task import LanguageModel

FEW = 100_000  # characters
UNKNOWN = 0.01  # of the tokens
LONG, SHARED = 40, 0.02  # lines of so many characters are looked at, and so many of them may be in training, too


def check(task: LanguageModel, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the texts of a recipe."""
    faults: list[Fault] = []
    found: dict[str, Any] = {}
    for split, part in recipe.data.splits.items():
        try:
            data = part.build()
            found[split] = data, list(texts_of(data))
        except DataError as error:
            faults.append(Fault(None, None, str(error), "see above", split=split))
    if "train" in found:
        task.prepare(recipe, {"train": found["train"][0]})
    trained = set[str]()
    for split, (_, texts) in found.items():
        where: dict[str, Any] = {"split": split, "severity": "warning"}
        lines = [line for text in texts for line in text.splitlines() if len(line) >= LONG]
        if split == "train":
            trained = set(lines)
            if (many := sum(map(len, texts))) < FEW:
                advice = "give more texts, or begin with a pretrained model"
                faults.append(Fault(None, None, f"{many:,} characters; of so few little is learned", advice, **where))
        elif lines and (again := sum(line in trained for line in lines)) > SHARED * len(lines):
            what = f"{again:,} of {len(lines):,} long lines are in the training texts, too"
            faults.append(Fault(None, None, what, "take them out of one of them", **where))
        if "tokens" in task.vocabularies and task.tokenizer.unknown is not None:
            share = unknown_share(task.tokenizer, texts)
            if share > UNKNOWN:
                advice = "lower task.min_count, or use task.tokenizer=bpe, which knows all"
                faults.append(Fault(None, None, f"{share:.0%} of the tokens are unknown", advice, **where))
        if progress is not None:
            progress(split, len(texts), len(texts))
    return faults
