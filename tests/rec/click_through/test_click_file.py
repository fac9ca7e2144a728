"""Rows out of files in every form, in memory and as a stream: the same arrays, splits that fit together, faults."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault
from pdl.errors import ConfigError, DataError, UsageError
from pdl.runtime.fields import Category
from pdl_rec.click_through.fields import Encoding, LabelSpec, Learned, expanded, learn
from pdl_rec.click_through.loader import StreamLoader
from pdl_rec.data import ClickFile, ClickStream
from pdl_rec.data.columns import Text
from pdl_rec.data.reading import CRITEO

CSV = 'click,user,price,tags\n1,ann,1.5,"a b"\n0,bob,,c\n0,ann,-3,\n1,"o\'neill, x",10,a c b d\n'
FIELDS: dict[str, Any] = {
    "user": {},
    "price": {"kind": "number", "scale": "log"},
    "tags": {"kind": "sequence", "length": 3},
}
LABELS = {"click": LabelSpec()}
RATIOS = {"train": 0.7, "val": 0.2, "test": 0.1}


def bound(dataset: Any, fields: Any = FIELDS, labels: Any = LABELS, group: str | None = None) -> Encoding:
    specs = expanded(fields, dataset.columns)
    encoding = Encoding(specs, labels, learn(specs, dataset.blocks, Learned()), group)
    dataset.bind(encoding)
    return encoding


def table(path: Path, rows: int = 1000) -> Path:
    """A file whose column `row` tells the row."""
    rng = np.random.default_rng(0)
    lines = [f"{i % 2},{i},u{rng.integers(40)},{rng.normal():.4f}" for i in range(rows)]
    path.write_text("\n".join(["click,row,user,price", *lines]) + "\n")
    return path


NUMBERED: dict[str, Any] = {"user": {}, "row": {"kind": "number"}, "price": {"kind": "number"}}


def test_csv_becomes_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    data = ClickFile(tmp_path / "a.csv")
    encoding = bound(data)
    names = {name: list(encoding.fields.encoders[name].vocabulary) for name in ("user",)}  # type: ignore[union-attr]
    assert names == {"user": ["ann", "bob", "o'neill, x"]}
    assert data.arrays["ids"].tolist() == [[1, 1, 2, 0], [2, 3, 0, 0], [1, 0, 0, 0], [3, 3, 2, 4]]
    np.testing.assert_allclose(data.arrays["numbers"][:, 0], [np.log(2.5), 0, -np.log(4), np.log(11)], rtol=1e-6)
    assert data.arrays["label"][:, 0].tolist() == [1, 0, 0, 1]
    assert data.record(3) == {"click": "1", "user": "o'neill, x", "price": "10", "tags": "a c b d"}
    one = encoding.fields.encode([data.record(i) for i in range(4)])
    np.testing.assert_array_equal(one["ids"], data.arrays["ids"])
    np.testing.assert_array_equal(one["numbers"], data.arrays["numbers"])


@pytest.mark.parametrize("form", ["csv", "tsv", "gz", "zip", "names", "atomic", "separator"])
def test_every_container_gives_the_same_rows(form: str, tmp_path: Path) -> None:
    text, settings = CSV, dict[str, Any]()
    path = tmp_path / {"gz": "a.csv.gz", "tsv": "a.tsv", "atomic": "a.inter"}.get(form, "a.csv")
    if form in ("tsv", "atomic", "separator"):
        to = "\t" if form != "separator" else ";"
        rows = [
            line.replace(", x", "| x").replace(",", to).replace("|", ",").replace('"', "") for line in text.splitlines()
        ]
        rows[0] = to.join(f"{n}:token" for n in rows[0].split(to)) if form == "atomic" else rows[0]
        text, settings = "\n".join(rows) + "\n", {"separator": ";"} if form == "separator" else {}
    if form == "names":
        text, settings = text.partition("\n")[2], {"names": ["click", "user", "price", "tags"]}
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("in/a.csv", text)
        path = tmp_path / "b.zip" / "in" / "a.csv"
    else:
        path.write_bytes(gzip.compress(text.encode()) if form == "gz" else text.encode())
    data = ClickFile(path, **settings)
    bound(data)
    assert data.arrays["ids"].tolist() == [[1, 1, 2, 0], [2, 3, 0, 0], [1, 0, 0, 0], [3, 3, 2, 4]]
    stream = ClickStream(path, **settings)
    bound(stream)
    np.testing.assert_array_equal(next(stream.buffers())["ids"], data.arrays["ids"])


def test_criteo_form_needs_no_header(tmp_path: Path) -> None:
    rows = [["1", *["3"] * 13, *["68fd1e64"] * 26], ["0", *[""] * 13, *["05db9164"] * 25, ""]]
    (tmp_path / "day").write_text("\n".join("\t".join(row) for row in rows) + "\n")
    data = ClickFile(tmp_path / "day", form="criteo")
    assert tuple(data.columns) == CRITEO
    bound(data, {"I*": {"kind": "number"}, "C*": {"hash": 100}}, {"label": LabelSpec()})
    assert data.arrays["numbers"].tolist() == [[3.0] * 13, [0.0] * 13]
    ids = data.arrays["ids"]
    assert ids.shape == (2, 26)
    assert len(set(ids[0])) == 1
    assert 1 <= ids[0, 0] <= 100
    assert ids[1, -1] == 0
    assert ids[1, 0] != ids[0, 0]


def test_slots_hold_several_ids(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_text("1 101:7 103:a 103:b 103:c\n0 101:9\n\n1 101:7 101:8 103:c 7:0.5\n")
    data = ClickFile(tmp_path / "part-0", form="slots")
    assert data.columns == ["label", "7", "101", "103"]
    fields = {"101": {}, "103": {"kind": "sequence", "length": 2}, "7": {"kind": "number"}}
    bound(data, fields, {"label": LabelSpec()})
    assert data.arrays["ids"][:, 0].tolist() == [1, 3, 1]  # the first id of the slot; 8 stands second once
    names = ["c", "a", "b"]  # by falling count
    assert data.arrays["ids"][0, 1:].tolist() == [1 + names.index("b"), 1 + names.index("c")]
    assert data.arrays["numbers"][:, 0].tolist() == [0.0, 0.0, 0.5]
    stream = ClickStream(tmp_path / "part-0", form="slots")
    bound(stream, fields, {"label": LabelSpec()})
    np.testing.assert_array_equal(next(stream.buffers())["ids"], data.arrays["ids"])


def test_joined_tables(tmp_path: Path) -> None:
    (tmp_path / "clicks.inter").write_text("user:token\titem:token\tclick:float\n2\tx\t1\n1\ty\t0\n9\tx\t0\n")
    (tmp_path / "u.user").write_text("user:token\tage:token\n1\told\n2\tyoung\n")
    join = {"user": tmp_path / "u.user"}
    data = ClickFile(tmp_path / "clicks.inter", join=join)
    assert data.columns == ["user", "item", "click", "age"]
    assert [data.record(i)["age"] for i in range(3)] == ["young", "old", ""]
    bound(data, {"item": {}, "age": {}})
    stream = ClickStream(tmp_path / "clicks.inter", join=join)
    bound(stream, {"item": {}, "age": {}})
    assert data.arrays["ids"].tolist() == [[1, 2], [2, 1], [1, 0]] == next(stream.buffers())["ids"].tolist()


def test_ratios_cut_every_row_into_one_split(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv")
    parts = {s: [r["row"] for r in _records(ClickFile(path, split=s, ratios=RATIOS))] for s in RATIOS}
    assert sorted(int(row) for rows in parts.values() for row in rows) == list(range(1000))
    assert [abs(len(parts[s]) / 1000 - share) < 0.05 for s, share in RATIOS.items()] == [True] * 3
    assert parts["test"] != [r["row"] for r in _records(ClickFile(path, split="test", ratios=RATIOS, seed=1))]
    longer = table(tmp_path / "b.csv", 1500)  # rows that come later move none of the others
    again = [r["row"] for r in _records(ClickFile(longer, split="test", ratios=RATIOS))]
    assert again[: len(parts["test"])] == parts["test"]


def test_several_files_are_one(tmp_path: Path) -> None:
    table(tmp_path / "a.csv", 30)
    table(tmp_path / "b.csv", 50)
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    rows = [int(r["row"]) for s in RATIOS for r in _records(ClickFile(paths, split=s, ratios=RATIOS))]
    assert sorted(rows) == sorted([*range(30), *range(50)])
    stream = ClickStream(paths, buffer=32)
    bound(stream, NUMBERED)
    assert [len(part["label"]) for part in stream.buffers()] == [32, 32, 16]


def _records(data: ClickFile) -> list[dict[str, Any]]:
    return [data.record(i) for i in range(len(data))]


def test_hashes_are_these() -> None:
    """Numbers of names are part of what a run remembers: they must not change."""
    assert Category(hash=1000).encode(["68fd1e64", "", "a"]).tolist() == [365, 0, 822]
    assert Category(hash=1000, seed=1).encode(["68fd1e64"]).tolist() != [365]


def rows_of(batches: Sequence[Any]) -> list[int]:
    return [int(row) for batch in batches for row in batch["numbers"][:, 0]]


def loader(path: Path, **settings: Any) -> StreamLoader:
    stream = ClickStream(path, buffer=300)
    bound(stream, NUMBERED)
    return StreamLoader(stream, **{"batch_size": 64, "shuffle": True, "seed": 3, **settings})


def test_stream_gives_each_row_once_shuffled_within_buffers(tmp_path: Path) -> None:
    made = loader(table(tmp_path / "a.csv"))
    first, second = rows_of(list(made)), rows_of(list(made))
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second
    assert sorted(first[:300]) == list(range(300))
    assert rows_of(list(loader(tmp_path / "a.csv"))) == first
    assert rows_of(list(loader(tmp_path / "a.csv", shuffle=False))) == list(range(1000))
    assert [len(b["index"]) for b in loader(tmp_path / "a.csv", drop_last=True)] == [64] * 15


@pytest.mark.parametrize("done", [0, 1, 4, 5, 9, 15, 16])
def test_stream_goes_on_where_it_was(done: int, tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv")
    whole = [*loader(path)]
    parted = loader(path)
    batches = iter(parted)
    for _ in range(done):
        next(batches)
    state = parted.state_dict()
    batches.close()  # type: ignore[attr-defined]
    again = loader(path)
    again.load_state_dict(state)
    again.set_epoch(0)
    rest = [*again]
    assert rows_of(rest) == rows_of(whole[done:])
    np.testing.assert_array_equal(
        np.concatenate([b["index"] for b in rest] or [np.empty(0)]),
        np.concatenate([b["index"] for b in whole[done:]] or [np.empty(0)]),
    )
    with pytest.raises(UsageError, match="belongs to seed=3, this loader has seed=4"):
        loader(path, seed=4).load_state_dict(state)


def test_a_fault_in_the_thread_reaches_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("click,row,user,price\n1,1,u,0\n2,2,u,0\n")
    stream = ClickStream(path)
    bound(stream, NUMBERED)
    with pytest.raises(DataError, match="label 'click' is 2 in row 1 of 2"):
        next(iter(StreamLoader(stream, batch_size=2, shuffle=True)))


@pytest.mark.parametrize(
    ("text", "fields", "says"),
    [
        ("click,user\n1,a\n0\n", {"user": {}}, "Expected 2 columns, got 1"),
        ("click,user\n1,a\n", {"age": {}}, "has no column 'age'; it has click, user"),
        ("clicked,user\n1,a\n", {"user": {}}, "has no column 'click'"),
        ("click,user\n1,a\n,b\n", {"user": {}}, "the label 'click' is missing in row 1"),
    ],
)
def test_faults_of_files_are_told(text: str, fields: Any, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=says):  # noqa: PT012 - where it is found depends
        data = ClickFile(tmp_path / "a.csv")
        bound(data, fields)
        assert data.arrays


def test_slots_tell_the_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 1:2\n0 nonsense\n")
    with pytest.raises(DataFault, match=r"a:2: 'nonsense' is not slot:id"):
        len(ClickFile(tmp_path / "a", form="slots"))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataFault, match="is not there"):
        ClickFile(tmp_path / "none.csv")
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(ConfigError, match="split='dev' is none of train, val, test"):
        ClickFile(tmp_path / "a.csv", split="dev", ratios=RATIOS)


def test_text_columns_take_rows_with_several_values() -> None:
    column = Text(np.array([0, 1, 1, 2]), ["a", "b", "c"], np.array([0, 1, 1, 4]))
    taken = column.take(np.array([2, 0, 1]))
    assert (taken.codes.tolist(), taken.offsets.tolist()) == ([1, 1, 2, 0], [0, 3, 4, 4])  # type: ignore[union-attr]
    assert column.texts() == ["a", "", "b"]
