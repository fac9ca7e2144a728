"""Texts with tags, made from features of items."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.splits import check_ratios, stable_split
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.vocabulary import Vocabulary
from pdl_rec.data import standin
from pdl_rec.data.atomic_files import AtomicFiles
from pdl_rec.data.interactions import Field, InteractionData, Interactions


class ItemTags(InteractionData):
    """The items of RecBole's NAME.item as texts with tags, for `pdl_rec.TagSpace`: sample i is one (text, tag). What
    `pdl_rec.Matching` calls a user is a text here, and what it calls an item is a tag.

    root, name  as for `pdl_rec.data.Atomic`
    text, tags  the fields that hold them (token_seq)
    split       train, val or test
    ratios      {train: 0.8, val: 0.1, test: 0.1}: a text falls where the hash of its item's name and `seed` says

    Texts of val and test are new ones, so they are numbered for themselves; only words and tags are those of training.
    """

    unfoldable = "the texts of each split are numbered for themselves, and a text with several tags is several samples"

    def __init__(
        self,
        root: str | Path | None = None,
        name: str = "ml-100k",
        *,
        text: str = "movie_title",
        tags: str = "class",
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        files = AtomicFiles(root, name)
        items = files.read("item", {"item_id": "token"})["item_id"]
        words, marks = (files.field("item", each, items) for each in (text, tags))
        if words.names is None or marks.names is None:
            raise ConfigError(f"ItemTags: text={text} and tags={tags} must be fields of words, and one holds numbers")
        rows = np.arange(1, len(items.names) + 1)
        if split is not None:
            shares = check_ratios("ItemTags", ratios or {"train": 0.8, "val": 0.1, "test": 0.1})
            if split not in shares:
                raise ConfigError(f"ItemTags: split={split!r} is none of {', '.join(shares)}")
            rows = rows[stable_split(items.names, shares, split, seed=seed)]
        values = marks.values[rows]
        texts, places = np.nonzero(values)
        raw = Interactions(texts + 1, values[texts, places])
        held = np.concatenate([np.zeros_like(words.values[:1]), words.values[rows]])
        names = {"users": [items.names[row - 1] for row in rows], "items": marks.names}
        super().__init__(
            raw, names, {text: Field("users", held, words.names)}, unseen="keep", source=files.path("item")
        )
        self.split = split

    def bind(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        """Number words and tags; texts have the numbers of their own split."""
        super().bind({**vocabularies, "users": Vocabulary(self.names["users"])})

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        name = settings.get("name", "ml-100k")
        fields = [settings.get("text", "movie_title"), settings.get("tags", "class")]
        standin.write_atomic(folder, name, (), fields)
        return StandIn({"root": str(folder), "name": name}, standin.WHAT)
