"""Look dialogues over before training: what cannot be read, dialogues without a reply, dialogues that two splits have,
tokens that are unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data.checks import Progress
from pdl.data.faults import Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_nlp.classification.check import UNKNOWN
from pdl_nlp.dialogue.loader import replies_of, turns_of
from pdl_nlp.fitting import unknown_share

if TYPE_CHECKING:
    from pdl_nlp.dialogue.task import Dialogue


def check(task: Dialogue, recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the dialogues of a recipe."""
    faults: list[Fault] = []
    found: dict[str, list[list[str]]] = {}
    for split, part in recipe.data.splits.items():
        try:
            data = part.build()
            found[split] = turns_of(data)
            if split == "train":
                task.prepare(recipe, {"train": data})
        except DataError as error:
            faults.append(Fault(None, None, str(error), "see above", split=split))
    trained = {"\n".join(turns) for turns in found.get("train", ())}
    for split, dialogues in found.items():
        where: dict[str, Any] = {"split": split, "severity": "warning"}
        short = sum(len(turns) < 2 for turns in dialogues)
        if short:
            what = f"{short:,} of {len(dialogues):,} dialogues have one turn, and so no reply"
            faults.append(Fault(None, None, what, "take them out", **where))
        again = 0 if split == "train" else sum("\n".join(turns) in trained for turns in dialogues)
        if again:
            what = f"{again:,} of {len(dialogues):,} dialogues are in train, too"
            advice = f"take them out of one of the two, or {split} measures memory"
            faults.append(Fault(None, None, what, advice, **where))
        if "tokens" in task.vocabularies:
            share = unknown_share(task.tokenizer, replies_of(dialogues, 1)[1])
            if share > UNKNOWN:
                what = f"{share:.1%} of the tokens are unknown"
                faults.append(Fault(None, None, what, "lower task.min_count, or give a tokenizer of pieces", **where))
        if progress is not None:
            progress(split, len(dialogues), len(dialogues))
    return faults
