"""Which columns of a user's table hold users, items and times: by their names, and times by what stands in them."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from pdl.runtime.fields import as_number
from pdl.runtime.tables import numbered
from pdl_rec.data.tables import Source, header_of, separator_of

# names that columns go by, letters and digits only, likeliest first
USER = ("userid", "user", "customerid", "customer", "visitorid", "visitor", "clientid", "memberid", "reviewerid",
        "accountid", "reader", "uid")  # fmt: skip
SESSION = (
    "sessionid", "session", "visitid", "visit", "visitorid", "visitor", "basketid", "orderid", "userid", "user",
    "customerid", "clientid",
)  # fmt: skip
ITEM = (
    "itemid", "item", "productid", "product", "articleid", "article", "sku", "movieid", "movie", "trackid", "songid",
    "bookid", "isbn", "asin", "title",
)  # fmt: skip
RATING = ("rating", "stars", "score", "ratings")
TIME = ("timestamp", "time", "ts", "eventtime", "datetime", "createdat", "date", "unixtime")
UNITS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11))
SINCE, UNTIL = 9.4e8, 4.1e9  # seconds: times lie between 1999 and 2099
ISO = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[-+]\d\d:?\d\d)?$")


def named(have: Sequence[str], known: Sequence[str]) -> str | None:
    """The column that goes by one of these names."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in have}
    return next((plain[name] for name in known if name in plain), None)


def sample(table: Source) -> dict[str, list[str]]:
    """What stands in the first lines of each column."""
    names, lines = header_of(table), table.first_lines()
    separator = separator_of(lines[0])
    read = numbered(csv.reader(lines[1:], delimiter=separator), table.name)
    rows = [row for _, row in read if len(row) == len(names)]
    return {name: [row[k].strip() for row in rows] for k, name in enumerate(names)}


def time_column(columns: Mapping[str, Sequence[str]], taken: Collection[str]) -> str | None:
    """The column of times, of those not `taken`: one that is called so, or else one that holds ISO 8601 timestamps, or
    numbers that are seconds (milli-, micro-, nanoseconds) since 1970 in this age."""
    free = [name for name in columns if name not in taken]
    return named(free, TIME) or next((name for name in free if _times(columns[name])), None)


def _times(texts: Sequence[str]) -> bool:
    if not texts:
        return False
    if all(ISO.match(text) for text in texts):
        return True
    numbers = np.array([as_number(text) for text in texts])
    return any(bool(((numbers >= SINCE * k) & (numbers <= UNTIL * k)).all()) for k in (1, 1e3, 1e6, 1e9))


def unit_of(times: np.ndarray) -> str:
    """The unit of times since 1970, by how large they are: s, ms, us or ns."""
    return next((name for name, least in UNITS if np.median(np.abs(times)) >= least), "s")


def missing(data: Path, have: Sequence[str], **found: str | None) -> str:
    """What to say where columns are not found: found(users=None, items="sku")."""
    lacks = " and ".join(what for what, column in found.items() if column is None)
    return f"{data}: which column holds {lacks}? its first line says {', '.join(have[:12])}"
