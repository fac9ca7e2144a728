"""Recordings of orders with the values of their slots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from pdl.data.dataset import ConcatDataset, Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import Fault, fault, unreadable
from pdl.data.splits import check_ratios, stable_split, stratified_split
from pdl.data.store import locate
from pdl.dtype import Array
from pdl.errors import ConfigError, listed
from pdl.files import read_bytes
from pdl.hints import Range
from pdl_speech.audio.files import AUDIO_FILES
from pdl_speech.data import standin
from pdl_speech.data.recordings import Rate, fault_of, read_recording
from pdl_speech.data.table import FILES, SPLITS, named_column, read_table
from pdl_speech.data.transcripts import SPEAKERS, TEXTS, samples_of, within

LABELS, INTENT = "labels.json", "intent"
LISTS = ("train", "val", "test")
MOST_BYTES = 1 << 28
FORM = 'expected {"ID": {"slots": {"size": "small", ...}}, ...}'


class Order(NamedTuple):
    """A recording's file, what is said of its slots, who says it ("": unknown), and its split ("": none is named)."""

    path: Path
    said: Mapping[str, str]
    speaker: str = ""
    split: str = ""


class SpokenOrders(Dataset):
    """Sample i is {"audio": float32 [T], "slots": int64 [S]}: of each slot the number of its value, 0 where it is not
    said. Told apart by what is there:

    - a folder with labels.json {"ID": {"intent": ..., "slots": {"size": "small", ...}}}, recordings audio/ID.* and
      lists of IDs train.txt, val.txt, test.txt, as of Picovoice's speech-to-intent benchmark; intents are one more slot
      where there are several
    - a table (.csv, .tsv) with a header: a column of the files (file, path, audio, ...), one for each slot, empty where
      it is not said, and where there are any, one of speakers and one of splits

    path    the folder or the table; a relative one is also looked for under PDL_DATA
    slots   their names; by default all of labels.json, in the order in which they occur, and all columns of a table but
            those of files, splits, speakers and texts
    values  what can be said of each slot, by its name; by default all that is said in any split, sorted. "" (not said)
            is always number 0 and is not listed
    split   train, val or test, of the lists or of the column; or, with `ratios`, the part that is cut out
    ratios  such as {train: 0.9, val: 0.1}: cut by a hash of the speakers, whose voices are then in one split alone, or,
            where no speaker is known, of the files' names, at these shares of each value of the first slot; out of
            train where splits are told. Give all splits the same
    seed    of that cut
    rate    to which recordings are resampled (Hz); usually ${model.features.rate}
    """

    def __init__(
        self,
        path: str | Path,
        *,
        rate: Rate,
        slots: Sequence[str] | None = None,
        values: Mapping[str, Sequence[str]] | None = None,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.path, self.rate = locate(path), rate
        if not self.path.exists():
            raise fault(self.path, "it is not there", "name a folder with labels.json or a table (path=)")
        every, names = _of_folder(self.path) if self.path.is_dir() else _of_table(self.path)
        names = _chosen(self.path, names, slots)
        self.slots: dict[str, list[str]] = {name: _values(self.path, every, name, values) for name in names}
        numbers = {name: {value: i for i, value in enumerate(own)} for name, own in self.slots.items()}
        found = np.array([[numbers[name][each.said.get(name, "")] for name in names] for each in every], np.int64)
        rows = _of_split(self.path, every, found, split, ratios, seed)
        self.orders, self.targets = [every[row] for row in rows], found[rows]

    def __len__(self) -> int:
        return len(self.orders)

    def __getitem__(self, index: int) -> Sample:
        return {"audio": read_recording(self.path_of(index), self.rate, index), "slots": self.targets[index]}

    @cached_property
    def speakers(self) -> list[str]:
        """Who says it; "" where that is not known."""
        return [each.speaker for each in self.orders]

    @cached_property
    def lengths(self) -> Array:
        """int64 [N]: the samples of each at `rate`, by the headers of the files; 0 of those that cannot be read."""
        return np.array([samples_of(each.path, self.rate) for each in self.orders], np.int64)

    def path_of(self, index: int) -> str:
        return str(self.orders[index].path)

    def fault_of(self, index: int) -> Fault | None:
        return fault_of(self.path_of(index), index)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files' names and sizes, of slots and values; the recordings are not read."""
        sizes = [each.path.stat().st_size if each.path.is_file() else -1 for each in self.orders]
        names = (each.path.name for each in self.orders)
        return digest(*names, json.dumps(self.slots), self.targets, np.array(sizes, np.int64))

    def dealing(self, by: str | None = None) -> Dealing:
        """By speakers, where they are known; otherwise each value of a slot in equal shares."""
        if len(self) and all(self.speakers):
            return Dealing("by speakers", groups=np.unique(self.speakers, return_inverse=True)[1].reshape(-1))
        if by is not None and by not in self.slots:
            raise ConfigError(f"SpokenOrders: {by!r} is none of its slots {listed(self.slots, 20)}")
        name = by or next(iter(self.slots))
        return Dealing(f"stratified by the values of {name}", self.targets[:, list(self.slots).index(name)])

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        first = datasets[0]
        if any(list(each.slots.items()) != list(first.slots.items()) or each.rate != first.rate for each in datasets):
            raise ConfigError("SpokenOrders: splits with other slots, values or rates do not make one data set")
        made = object.__new__(cls)
        made.path, made.rate, made.slots = first.path, first.rate, first.slots
        made.orders = [order for each in datasets for order in each.orders]
        made.targets = np.concatenate([each.targets for each in datasets])
        return made

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_orders(folder)
        return StandIn({"path": str(path), "slots": None, "values": None, "ratios": None}, "pairs of spoken digits")


# -- reading -----------------------------------------------------------------------------------------------------------
def _of_folder(path: Path) -> tuple[list[Order], list[str]]:
    """All orders of a folder, in the order of labels.json, and the names of their slots."""
    file = path / LABELS
    if not file.is_file():
        raise fault(path, f"it has no {LABELS}", "name a folder that has one, or a table (.csv, .tsv) of recordings")
    try:
        found = json.loads(read_bytes(file, MOST_BYTES))
    except OSError as error:
        raise unreadable(str(file), error) from error
    except ValueError as error:
        raise fault(file, f"it is no JSON: {error}", FORM) from error
    if not isinstance(found, dict) or not found:
        raise fault(file, "it holds no orders by ID", FORM)
    said = {key: _said(file, key, each) for key, each in found.items()}
    if len({each[INTENT] for each in said.values()}) < 2:
        for each in said.values():
            del each[INTENT]
    folder = path / "audio"
    files = {each.stem: each for each in sorted(folder.glob("*")) if each.suffix.lower() in AUDIO_FILES}
    split_of = _lists(path, said)
    orders = [
        Order(files.get(key, folder / f"{key}{AUDIO_FILES[0]}"), each, split=split_of.get(key, ""))
        for key, each in said.items()
    ]
    return orders, list(dict.fromkeys(name for each in said.values() for name in each))


def _said(file: Path, key: str, order: Any) -> dict[str, str]:
    """The intent and the values of an order, by slot."""
    slots = order.get("slots") if isinstance(order, dict) else None
    if not isinstance(slots, dict) or not all(isinstance(value, str) for value in slots.values()):
        raise fault(file, f"the order {key!r:.60} has no slots with texts", FORM)
    if INTENT in slots:
        raise fault(file, f"the order {key!r:.60} has a slot called {INTENT}", "call it something else")
    return {INTENT: str(order.get(INTENT, "")), **{name: value.strip() for name, value in slots.items()}}


def _lists(path: Path, known: Mapping[str, Any]) -> dict[str, str]:
    """The split of each ID, by the lists that are there."""
    found: dict[str, str] = {}
    for split in LISTS:
        file = path / f"{split}.txt"
        lines = read_bytes(file, MOST_BYTES).decode("utf-8-sig").splitlines() if file.is_file() else []
        for line, text in enumerate(lines, 1):
            key = text.strip()
            if key and key not in known:
                raise fault(file, f"{key!r:.60} is not in {LABELS}", "take it out, or add its slots", line=line)
            if key in found:
                raise fault(file, f"{key!r:.60} is in {found[key]}.txt, too", "keep it in one list", line=line)
            if key:
                found[key] = split
    return found


def _of_table(path: Path) -> tuple[list[Order], list[str]]:
    """All orders of a table, and its columns that may be slots."""
    lines, table = read_table(path)
    columns = list(table[0])
    file = named_column(path, columns, FILES, "file")
    speaker, split = (
        next((column for name in names for column in columns if column.lower() == name), None)
        for names in (SPEAKERS, SPLITS)
    )
    others = [each for each in columns if each and each not in (file, speaker, split) and each.lower() not in TEXTS]
    orders = []
    for line, row in zip(lines, table, strict=True):
        if not (name := row[file].strip()):
            raise fault(path, "it names no file", "name the file of the recording", line=line)
        who, which = (row[column].strip() if column else "" for column in (speaker, split))
        orders.append(Order(path.parent / name, {each: row[each].strip() for each in others}, who, which))
    return orders, others


def _chosen(path: Path, names: Sequence[str], slots: Sequence[str] | None) -> list[str]:
    chosen = list(names if slots is None else slots)
    strange = [name for name in chosen if name not in names] + [name for name in chosen if chosen.count(name) > 1]
    if strange or not chosen:
        what = f"{strange[0]!r} is none of its slots, or named twice" if strange else "it has no slots"
        raise fault(path, what, f"name some of {listed(names, 20) or 'its columns'} (slots=), each once")
    return chosen


def _values(path: Path, orders: Sequence[Order], name: str, given: Mapping[str, Sequence[str]] | None) -> list[str]:
    """The values of a slot, "" in front."""
    said = {each.said.get(name, "") for each in orders} - {""}
    if given is None or name not in given:
        return ["", *sorted(said)]
    known = [str(value) for value in given[name]]
    if "" in known or len(set(known)) < len(known):
        raise ConfigError(f"SpokenOrders: values of {name}: {known} must be texts, each once, without the empty one")
    if strange := sorted(said - set(known)):
        what = f"the slot {name} has the value {strange[0]!r}, none of {listed(known)}"
        raise fault(path, what, "correct it, or add it (values)")
    return ["", *known]


def _of_split(
    path: Path,
    orders: Sequence[Order],
    targets: Array,
    split: str | None,
    ratios: Mapping[str, float] | None,
    seed: int,
) -> list[int]:
    """The rows of a split; DataError where there are none."""
    if split is None:
        if ratios is not None:
            raise ConfigError("SpokenOrders: ratios are given but no split; add split=train (or val, test)")
        return list(range(len(orders)))
    cut = ratios is not None and split in check_ratios("SpokenOrders", ratios)
    wanted, told = "train" if cut else split, sorted({each.split for each in orders} - {""})
    if not told and not cut:
        advice = f"cut it: give every split the same ratios, such as {{train: 0.9, {split}: 0.1}}"
        raise fault(path, "nothing tells its splits: no lists train.txt, test.txt, and no column", advice)
    rows = [row for row, each in enumerate(orders) if not told or each.split == wanted]
    if not rows:
        raise fault(path, f"it has no recordings for split {wanted!r}, only for {listed(told)}", "name one")
    if cut and ratios is not None:
        speakers = [orders[row].speaker for row in rows]
        if all(speakers):
            rows = [rows[i] for i in stable_split(speakers, ratios, split, seed=seed)]
        else:
            names = [within(orders[row].path, path) for row in rows]
            rows = [rows[i] for i in stratified_split(targets[rows, 0], ratios, split, seed=seed, keys=names)]
        if not rows:
            what = f"no recordings are left for split {split!r}"
            raise fault(path, what, "add some, or choose other ratios or another seed")
    return rows


def slots_of(dataset: Any) -> dict[str, list[str]] | None:
    """The slots of a data set, or of those that it is made of, with their values; None where it has none."""
    if isinstance(dataset, ConcatDataset):
        found = [slots_of(each) for each in dataset.datasets]
        if any(list((each or {}).items()) != list((found[0] or {}).items()) for each in found):
            raise ConfigError("data sets with other slots or values make no data set of orders; give both the same")
        return found[0]
    own = getattr(dataset, "slots", None)
    inner = getattr(dataset, "dataset", None)
    return own if own is not None or inner is None else slots_of(inner)
