"""Interactions of users and items out of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pdl.data.dataset import Dataset, Dealing, StandIn, not_dealt
from pdl.errors import ConfigError, UsageError
from pdl.hints import Inherited, Range
from pdl_rec.data import standin
from pdl_rec.data.atomic_files import from_one
from pdl_rec.data.interactions import Field, InteractionData, Interactions, concatenated
from pdl_rec.data.session_file import in_seconds
from pdl_rec.data.sessions import Unseen
from pdl_rec.data.splits import Order, part_of
from pdl_rec.data.tables import Kind, read, source


class CutInteractions(InteractionData):
    """Base of the data sets whose splits are cut from one set of interactions; earlier splits are what is `known`.

    split       train, val or test
    ratios      {train: 0.8, val: 0.1, test: 0.1}, rounded as RecBole does (see `pdl_rec.data.splits.part_of`); without
                them the last event of each user is test and the one before it val
    order       what is cut off: "random" events, or the last ones in "time"
    by_user     whether each user's events are cut, or all of them together
    seed        of a random cut
    min_rating  leave out interactions with lower ratings, before the cut
    unseen      of users and items that training does not have: "drop" the interactions, or "keep" them
    """

    no_ratings: ClassVar[str]  # what is to be done about min_rating without ratings

    def __init__(
        self,
        raw: Interactions,
        names: Mapping[str, list[str]],
        fields: Mapping[str, Field],
        source: str,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        order: Order = "random",
        by_user: bool = True,
        seed: Annotated[int, Range(0)] = 0,
        min_rating: float | None = None,
        unseen: Unseen = "drop",
    ) -> None:
        owner = type(self).__name__
        if min_rating is not None:
            if raw.ratings is None:
                raise ConfigError(f"{owner}: min_rating={min_rating} needs {self.no_ratings}")
            raw = raw.take(np.flatnonzero(raw.ratings >= min_rating))
        if split is None and ratios is not None:
            raise ConfigError(f"{owner}: ratios cut the file up; say which part with split=")
        if split is not None:
            parts, part = part_of(owner, raw.users, raw.times, ratios=ratios, order=order, by_user=by_user, seed=seed)
            if split not in parts:
                raise ConfigError(f"{owner}: split={split!r} is none of {', '.join(parts)}")
            at = parts.index(split)
            known = raw.take(np.flatnonzero(part < at)) if at else None
            raw = replace(raw.take(np.flatnonzero(part == at)), known=known)
        super().__init__(raw, names, fields, unseen=unseen, source=source)
        self.split, self.by_user = split, by_user
        self.in_time = split is not None and (order == "time" or ratios is None)

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        """Event by event, each user's in equal shares where users are cut each (`by_user`)."""
        if self.in_time:
            reason = "they are cut in time, and a fold would learn from what came later; cut events at random: ratios"
            raise not_dealt(self, f"{reason}, and order: random")
        how = "cut at random, event by event"
        return Dealing(f"{how}, of each user alike", self.raw.users) if self.by_user else Dealing(how)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        """The interactions of the splits of one file."""
        first = datasets[0]
        if any(each.names != first.names for each in datasets):
            files = ", ".join(dict.fromkeys(each.source for each in datasets))
            raise UsageError(f"the splits are files of their own ({files}), not cut from one: give ratios")
        if len({each.split for each in datasets}) < len(datasets):
            raise UsageError(f"two splits of the recipe are the same interactions of {first.source}")
        made: Dataset = first._with(concatenated([each.raw for each in datasets]))
        return made

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        """These interactions, with those before them as what is `known`."""
        known = self.raw.take(before) if len(before) else None
        return self._with(replace(self.raw.take(rows), known=known))


class InteractionFile(CutInteractions):
    """Interactions from a csv or tsv file with a line for each (a purchase, a rating, a loan), gzipped or not.

    path        a relative one is also looked for under PDL_DATA
    user, item  names of these columns
    rating      the column of ratings, or None
    time        the column of times: numbers, or ISO 8601; None where the file has none
    unit        of times that are numbers: s, ms, us or ns
    separator   tab, comma, semicolon or bar; by default found from the first line
    All else is as in `CutInteractions`.
    """

    no_ratings = "the column of ratings (rating=)"

    def __init__(
        self,
        path: str | Path,
        *,
        user: str = "user_id",
        item: str = "item_id",
        rating: str | None = None,
        time: str | None = None,
        unit: Literal["s", "ms", "us", "ns"] = "s",
        separator: str | None = None,
        **options: Inherited,
    ) -> None:
        wanted: dict[str, Kind] = {user: "token", item: "token"}
        if rating is not None:
            wanted[rating] = "float"
        if time is not None:
            wanted[time] = "time"
        if len(wanted) < 2 + (rating is not None) + (time is not None):
            raise ConfigError(f"InteractionFile: user={user}, item={item}, rating={rating} and time={time} must be "
                              "different columns")  # fmt: skip
        file = source(path)
        table = read(file, wanted, separator=separator)
        ratings = None if rating is None else table[rating]
        times = None if time is None else in_seconds(table[time], unit)
        raw = Interactions(from_one(table[user]), from_one(table[item]), ratings, times)
        names = {"users": table[user].names, "items": table[item].names}
        super().__init__(raw, names, {}, file.name, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        columns = {"session": settings.get("user", "user_id"), "item": settings.get("item", "item_id"),
                   "time": settings.get("time")}  # fmt: skip
        path = standin.write_events(folder, {**settings, **columns})
        return StandIn({"path": str(path), "rating": None, "min_rating": None}, standin.WHAT)
