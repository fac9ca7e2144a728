"""Who had to do with what: interactions in columns, and the base of the data sets that give them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pdl.data.dataset import Batch, Dataset, Sample, digest
from pdl.errors import ConfigError, UsageError
from pdl.vocabulary import Vocabulary
from pdl_rec.data.sessions import Sessions, Unseen, unwrap

SIDES = ("users", "items")


@dataclass(frozen=True)
class Interactions:
    """Row i says that a user had to do with an item.

    users, items  int64 [N], from 1 on; 0 is one that the vocabulary does not know
    ratings       float64 [N], or None where the data has none
    times         float64 [N], or None
    known         what came before, in splits cut from the same data: none for train, train for val, train and val for
                  test; its own fields are empty
    user_fields   what is known of users: name -> [size of the vocabulary of users, L], row u that of user u; int64
                  numbers by the vocabulary of that name, zeros behind the last; float64 for numbers
    item_fields   the same of items
    """

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray | None = None
    times: np.ndarray | None = None
    known: Interactions | None = None
    user_fields: dict[str, np.ndarray] = field(default_factory=dict)
    item_fields: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.users)

    def take(self, rows: np.ndarray) -> Interactions:
        """These rows, in that order, with the same `known` and fields."""
        ratings = None if self.ratings is None else self.ratings[rows]
        times = None if self.times is None else self.times[rows]
        return replace(self, users=self.users[rows], items=self.items[rows], ratings=ratings, times=times)

    def seen(self) -> Interactions:
        """Those whose user and item are both known to the vocabularies."""
        return self.take(np.flatnonzero((self.users > 0) & (self.items > 0)))

    def histories(self) -> Sessions:
        """The items of each user in order of time (as they came, where there are no times); a session is a user, named
        by number."""
        order = np.argsort(self.users, kind="stable") if self.times is None else np.lexsort((self.times, self.users))
        names, counts = np.unique(self.users, return_counts=True)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return Sessions(self.items[order], offsets, None if self.times is None else self.times[order], names)


@dataclass(frozen=True)
class Field:
    """A field of users or items before it is numbered: `values` has a row for each of them and one of zeros before.
    For names, value k stands for `names[k - 1]`; a field of numbers has no names."""

    side: str
    values: np.ndarray
    names: list[str] | None


class InteractionData(Dataset):
    """Base of the data sets whose samples are interactions: {"user": int, "item": int}, and "rating" and "time" where
    there are any.

    Like `SessionData` it knows names until `bind` gives numbers, and binding changes neither length nor order; what
    `unseen="drop"` drops is left out by `interactions_of`. With "keep" an unseen user or item is 0, and one that no
    model can hit.

    raw     interactions whose user and item numbers stand for `names["users"][k - 1]`, `names["items"][k - 1]`
    fields  by name
    source  the file they are from
    """

    unfoldable = "its class does not say how its splits were cut; a subclass defines dealing, pooled and dealt"

    def __init__(
        self,
        raw: Interactions,
        names: Mapping[str, list[str]],
        fields: Mapping[str, Field],
        *,
        unseen: Unseen,
        source: str,
    ) -> None:
        if unseen not in ("drop", "keep"):
            raise ConfigError(f"{type(self).__name__}: unseen={unseen!r} is neither drop nor keep")
        self.raw, self.names, self.fields, self.unseen, self.source = raw, dict(names), dict(fields), unseen, source
        self._bound: Interactions | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> Sample:
        return {name: column[0] for name, column in self.get_batch(np.array([index])).items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The columns of these rows."""
        rows = self.interactions.take(indices)
        columns = {"user": rows.users, "item": rows.items, "rating": rows.ratings, "time": rows.times}
        return {name: column for name, column in columns.items() if column is not None}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of names, columns, fields and of what came before."""
        parts: list[str | np.ndarray] = [type(self).__name__, *("\n".join(names) for names in self.names.values())]
        for each in (self.raw, self.raw.known):
            if each is not None:
                columns = (each.users, each.items, each.ratings, each.times)
                parts += [column for column in columns if column is not None]
        for name, one in self.fields.items():
            parts += [name, one.values, "\n".join(one.names or ())]
        return digest(*parts)

    def path_of(self, index: int) -> str | None:
        return self.source

    def _with(self, raw: Interactions) -> InteractionData:
        """This data set with other interactions."""
        made = copy.copy(self)
        made.raw, made._bound = raw, None
        made.__dict__.pop("fingerprint", None)
        return made

    def counts(self, kind: str, rows: np.ndarray | None = None) -> tuple[list[str], np.ndarray]:
        """(names of a kind, how often each occurs): "users" and "items" in interactions, those of a field in the users
        or items that do."""
        some = self.raw if rows is None else self.raw.take(rows)
        sides = {"users": some.users, "items": some.items}
        if kind in sides:
            return self.names[kind], np.bincount(sides[kind], minlength=len(self.names[kind]) + 1)[1:]
        one = self.fields.get(kind)
        if one is None or one.names is None:
            have = [*sides, *(name for name, other in self.fields.items() if other.names is not None)]
            raise ConfigError(f"{type(self).__name__}: {kind!r} has no names; those of {', '.join(have)} do")
        return one.names, names_in(one, np.unique(sides[one.side]))

    def bind(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        """Number users, items and those of their fields that have a vocabulary."""
        tables = {side: _renumber(self.names[side], vocabularies[side]) for side in SIDES}
        fields = {side: numbered_fields(self.fields, side, tables[side], vocabularies) for side in SIDES}
        bound = _numbered(self.raw, tables)
        known = None if self.raw.known is None else _numbered(self.raw.known, tables).seen()
        self._bound = replace(bound, known=known, user_fields=fields["users"], item_fields=fields["items"])

    @property
    def interactions(self) -> Interactions:
        """The interactions by number, as many as there are samples. UsageError before `bind`."""
        if self._bound is None:
            raise UsageError(
                f"{type(self).__name__} has names and no numbers yet; call bind({{'users': ..., 'items': ...}})"
            )
        return self._bound


def numbered_fields(
    fields: Mapping[str, Field], side: str, table: np.ndarray, vocabularies: Mapping[str, Vocabulary]
) -> dict[str, np.ndarray]:
    """The fields of one side by number: name -> [size of its vocabulary, L]; `table` numbers the users or items.
    Names without a vocabulary are left out."""
    found = {}
    for name, one in fields.items():
        if one.side != side or (one.names is not None and name not in vocabularies):
            continue
        values = one.values if one.names is None else _renumber(one.names, vocabularies[name])[one.values]
        rows = np.zeros((len(vocabularies[side]) + 1, values.shape[1]), values.dtype)
        rows[table] = values
        rows[0] = 0
        found[name] = rows
    return found


def concatenated(parts: Sequence[Interactions]) -> Interactions:
    """Interactions one behind another; nothing is known before them."""

    def whole(name: str) -> Any:
        columns = [getattr(part, name) for part in parts]
        return None if any(column is None for column in columns) else np.concatenate(columns)

    return Interactions(*(whole(name) for name in ("users", "items", "ratings", "times")))


def names_in(one: Field, rows: np.ndarray) -> np.ndarray:
    """How often each name of a field occurs in these users or items (numbers, each once)."""
    return np.bincount(one.values[rows].reshape(-1), minlength=len(one.names or ()) + 1)[1:]


def _renumber(names: list[str], vocabulary: Vocabulary) -> np.ndarray:
    return np.concatenate([[0], vocabulary.encode(names)])


def _numbered(raw: Interactions, tables: Mapping[str, np.ndarray]) -> Interactions:
    return replace(raw, users=tables["users"][raw.users], items=tables["items"][raw.items])


def interactions_of(dataset: Any) -> Interactions:
    """The interactions of a bound data set, or of a `pdl.data.Few` or `Subset` of one."""
    base, rows = unwrap(dataset)
    if not isinstance(base, InteractionData):
        raise ConfigError(f"{type(base).__name__} gives no interactions; use a data set such as pdl_rec.data.Atomic")
    held = base.interactions if rows is None else base.interactions.take(rows)
    return held.seen() if base.unseen == "drop" else held
