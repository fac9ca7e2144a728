"""Sessions as the SR-GNN papers prepare them: a line each, or a line for each prefix with its target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.hints import Range
from pdl_rec.data import standin
from pdl_rec.data.sessions import SessionData, Sessions, Unseen
from pdl_rec.data.splits import parted
from pdl_rec.data.tables import Coded, read, source, words

_SESSION, _TARGET = "session", "target"


class PairFile(SessionData):
    """Sessions from a text file, gzipped or not, with items parted by spaces: `12 7 9` is a session, of which every
    item but the first is to be predicted; `12 7<TAB>9` says that 9 follows 12 and 7, and only 9 is to be predicted.
    A file has lines of one kind (Wu et al., arXiv 1811.00855).

    path        a relative one is also looked for under PDL_DATA
    split       the part to take, where `ratios` cut the file
    ratios      {train: 0.9, val: 0.1}: lines by a hash of their number and `seed`
    min_length  lines with fewer items (the target counts) are left out
    unseen      of items that training does not have: "drop" them, or "keep" them as item 0, which no model can hit
    address     where a missing file can be had, as `pdl.data.to_get` takes it

    There are no times; a session's name is the number of its line.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        min_length: Annotated[int, Range(1)] = 2,
        unseen: Unseen = "drop",
        address: str | None = None,
    ) -> None:
        file = source(path, address)
        paired = "\t" in file.first_lines()[0]
        names = [_SESSION, _TARGET] if paired else [_SESSION]
        table = read(file, dict.fromkeys(names, "text"), separator="\t", header=names)
        items, offsets = _items(file.name, *(table[name] for name in names))
        first = np.diff(offsets) - 1 if paired else None
        raw = Sessions(items.codes + 1, offsets, None, np.arange(1, len(offsets)), first)
        rules: dict[str, Any] = {"ratios": ratios, "seed": seed}
        kept, origin = parted("PairFile", raw, split, min_length=min_length, named=False, **rules)
        super().__init__(kept, items.names, unseen=unseen, source=file.name, origin=origin)
        self.split = split

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_pairs(folder, settings)
        return StandIn({"path": str(path)}, standin.WHAT)


def _items(path: str, sessions: Any, targets: Any = None) -> tuple[Coded, np.ndarray]:
    """(items of all lines one behind another, offsets of the lines)."""
    if targets is not None:
        from pyarrow import compute

        _one_each(path, targets)
        sessions = compute.binary_join_element_wise(sessions, targets, " ")
    return words(sessions)


def _one_each(path: str, targets: Any) -> None:
    from pyarrow import compute

    wrong = compute.index(compute.match_substring_regex(targets, r"^\S+$"), False).as_py()
    if wrong >= 0:
        what = f"the target {targets[wrong].as_py()[:40]!r} is not one item"
        raise fault(path, what, "write the items before it, a tab, and the item that follows", line=wrong + 1)
