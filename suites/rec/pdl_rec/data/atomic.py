"""Data sets out of RecBole's atomic files: interactions, or the histories of users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.errors import ConfigError
from pdl.hints import Inherited, Range
from pdl.vocabulary import Vocabulary
from pdl_rec.data import standin
from pdl_rec.data.atomic_files import AtomicFiles, from_one
from pdl_rec.data.interaction_file import CutInteractions
from pdl_rec.data.interactions import Interactions, names_in, numbered_fields
from pdl_rec.data.session_file import grouped
from pdl_rec.data.sessions import SessionData, Unseen
from pdl_rec.data.splits import parted
from pdl_rec.data.tables import Kind


class Atomic(CutInteractions):
    """Interactions from RecBole's atomic files (Zhao et al., arXiv 2011.01731): NAME.inter, and NAME.user and NAME.item
    where their fields are asked for.

    root         a folder, a zip or a wheel that holds them; by default looked for under PDL_DATA and its folder rec
    name         of the data set
    user_fields  fields of users to read, such as [age, gender]
    item_fields  fields of items to read
    All else is as in `CutInteractions`.
    """

    no_ratings = "a column rating:float, and the .inter file has none"

    def __init__(
        self,
        root: str | Path | None = None,
        name: str = "ml-100k",
        *,
        user_fields: Sequence[str] = (),
        item_fields: Sequence[str] = (),
        **options: Inherited,
    ) -> None:
        files = AtomicFiles(root, name)
        both = sorted(set(user_fields) & set(item_fields))
        if both:
            raise ConfigError(f"Atomic: {both[0]!r} is named in user_fields and in item_fields; a name means one field")
        table = files.read("inter", {"user_id": "token", "item_id": "token"}, {"rating": "float", "timestamp": "time"})
        users, items = table["user_id"], table["item_id"]
        raw = Interactions(from_one(users), from_one(items), table.get("rating"), table.get("timestamp"))
        fields = {
            **{each: files.field("user", each, users) for each in user_fields},
            **{each: files.field("item", each, items) for each in item_fields},
        }
        names_of = {"users": users.names, "items": items.names}
        super().__init__(raw, names_of, fields, files.path("inter"), **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        name = settings.get("name", "ml-100k")
        standin.write_atomic(folder, name, settings.get("user_fields", ()), settings.get("item_fields", ()))
        return StandIn({"root": str(folder), "name": name}, standin.WHAT)


class AtomicSessions(SessionData):
    """The history of each user in RecBole's atomic files, as a session.

    root, name     as for `Atomic`
    split          train, val or test, where one of the following rules cuts them (see `pdl_rec.data.splits.cut`):
    leave_one_out  the last item of each user is test, the one before it val; what comes before is known
    ratios         users by a hash of their name and `seed`
    holdout        {val: 1d, test: 1d}
    item_fields    fields of items to read, such as [class, release_year], for models that know items by them
    min_length     users with fewer events are left out
    min_rating     leave out interactions with lower ratings, before the cut
    unseen         of items that training does not have: "drop" the events, or "keep" them as item 0
    """

    def __init__(
        self,
        root: str | Path | None = None,
        name: str = "ml-100k",
        *,
        split: str | None = None,
        leave_one_out: bool = False,
        ratios: Mapping[str, float] | None = None,
        holdout: Mapping[str, Any] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        item_fields: Sequence[str] = (),
        min_length: Annotated[int, Range(1)] = 2,
        min_rating: float | None = None,
        unseen: Unseen = "drop",
    ) -> None:
        files = AtomicFiles(root, name)
        needed: dict[str, Kind] = {"user_id": "token", "item_id": "token", "timestamp": "time"}
        table = files.read("inter", needed if min_rating is None else {**needed, "rating": "float"})
        users, items, times = table["user_id"], table["item_id"], table["timestamp"]
        if min_rating is not None:
            rows = np.flatnonzero(table["rating"] >= min_rating)
            users, items, times = users.take(rows), items.take(rows), times[rows]
        raw, facts = grouped(users, items, times)
        rules: dict[str, Any] = {"ratios": ratios, "holdout": holdout, "leave_one_out": leave_one_out, "seed": seed}
        kept, origin = parted("AtomicSessions", raw, split, min_length=min_length, **facts, **rules)
        super().__init__(kept, items.names, unseen=unseen, source=files.path("inter"), origin=origin)
        self.split = split
        self.fields = {each: files.field("item", each, items) for each in item_fields}
        self.item_fields: dict[str, np.ndarray] = {}

    def bind(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        """Number the items and their features: `item_fields`, as in `pdl_rec.data.Interactions`."""
        super().bind(vocabularies)
        table = np.concatenate([[0], vocabularies["items"].encode(self.known)])
        self.item_fields = numbered_fields(self.fields, "items", table, vocabularies)

    def counts(self, kind: str = "items", rows: np.ndarray | None = None) -> tuple[list[str], np.ndarray]:
        """Also the names of a field, and how often each occurs in the items that do."""
        one = self.fields.get(kind)
        if one is None or one.names is None:
            return super().counts(kind, rows)
        return one.names, names_in(one, np.flatnonzero(super().counts("items", rows)[1]) + 1)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        name = settings.get("name", "ml-100k")
        standin.write_atomic(folder, name, (), settings.get("item_fields", ()))
        return StandIn({"root": str(folder), "name": name}, standin.WHAT)
