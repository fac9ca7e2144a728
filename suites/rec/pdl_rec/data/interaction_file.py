"""Interactions of users and items out of a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import StandIn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_rec.data import standin
from pdl_rec.data.atomic_files import from_one
from pdl_rec.data.interactions import InteractionData, Interactions
from pdl_rec.data.session_file import in_seconds
from pdl_rec.data.sessions import Unseen
from pdl_rec.data.splits import Order, part_of
from pdl_rec.data.tables import Kind, read, source


class InteractionFile(InteractionData):
    """Interactions from a csv or tsv file with a line for each (a purchase, a rating, a loan), gzipped or not.

    path        a relative one is also looked for under PDL_DATA
    user, item  names of these columns
    rating      the column of ratings, or None
    time        the column of times: numbers, or ISO 8601; None where the file has none
    unit        of times that are numbers: s, ms, us or ns
    split       train, val or test
    ratios      {train: 0.8, val: 0.1, test: 0.1}, rounded as RecBole does (see `pdl_rec.data.splits.part_of`); without
                them the last event of each user is test and the one before it val
    order       what is cut off: "random" events, or the last ones in "time"
    by_user     whether each user's events are cut, or all of them together
    seed        of a random cut
    min_rating  leave out interactions with lower ratings, before the cut
    unseen      of users and items that training does not have: "drop" the interactions, or "keep" them
    separator   tab, comma, semicolon or bar; by default found from the first line
    """

    def __init__(
        self,
        path: str | Path,
        *,
        user: str = "user_id",
        item: str = "item_id",
        rating: str | None = None,
        time: str | None = None,
        unit: Literal["s", "ms", "us", "ns"] = "s",
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        order: Order = "random",
        by_user: bool = True,
        seed: Annotated[int, Range(0)] = 0,
        min_rating: float | None = None,
        unseen: Unseen = "drop",
        separator: str | None = None,
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
        if min_rating is not None:
            if ratings is None:
                raise ConfigError(f"InteractionFile: min_rating={min_rating} needs the column of ratings (rating=)")
            raw = raw.take(np.flatnonzero(ratings >= min_rating))
        if split is not None:
            raw = cut_out("InteractionFile", raw, split, ratios=ratios, order=order, by_user=by_user, seed=seed)
        elif ratios is not None:
            raise ConfigError("InteractionFile: ratios cut the file up; say which part with split=")
        names = {"users": table[user].names, "items": table[item].names}
        super().__init__(raw, names, {}, unseen=unseen, source=file.name)
        self.split = split

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        columns = {"session": settings.get("user", "user_id"), "item": settings.get("item", "item_id"),
                   "time": settings.get("time")}  # fmt: skip
        path = standin.write_events(folder, {**settings, **columns})
        return StandIn({"path": str(path), "rating": None, "min_rating": None}, standin.WHAT)


def cut_out(
    owner: str,
    raw: Interactions,
    split: str,
    *,
    ratios: Mapping[str, float] | None,
    order: Order,
    by_user: bool,
    seed: int,
) -> Interactions:
    """The interactions of a split, cut as `pdl_rec.data.splits.part_of` does, with those of earlier splits as
    `known`."""
    names, part = part_of(owner, raw.users, raw.times, ratios=ratios, order=order, by_user=by_user, seed=seed)
    if split not in names:
        raise ConfigError(f"{owner}: split={split!r} is none of {', '.join(names)}")
    at = names.index(split)
    known = raw.take(np.flatnonzero(part < at)) if at else None
    own = raw.take(np.flatnonzero(part == at))
    return Interactions(own.users, own.items, own.ratings, own.times, known)
