"""RecBole's atomic files in folders and zips: what they hold, how they are cut, what is said where they are damaged."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdl
from pdl.data import DataFault, Few, Subset
from pdl.errors import ConfigError, UsageError
from pdl.train import Recipe, assemble
from pdl.train.assembly import learned_config, restored
from pdl_rec import SSR, NextItem
from pdl_rec.data import Atomic, AtomicSessions, ClickFile, bind, interactions_of, sessions_of, vocabulary_of
from pdl_rec.data.splits import part_of

FILES = {
    "inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    "u1\ta\t5\t30\nu1\tb\t3\t10\nu2\ta\t4\t5\nu1\tc\t1\t20\nu2\td\t2\t6\nu3\tb\t4\t1\n",
    "user": "user_id:token\tage:token\theight:float\nu2\t40\t1.7\nu1\t30\t1.6\nu9\t50\t1.5\n",
    "item": "item_id:token\tclass:token_seq\tvector:float_seq\na\tx y\t0.5 1\nb\t\t2\nc\ty\t\nd\tz x y\t1 2 3\n",
}
Ratios = {"train": 0.8, "val": 0.1, "test": 0.1}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PDL_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "store"


@pytest.fixture
def folder(store: Path) -> Path:
    path = store / "shop"
    path.mkdir(parents=True)
    for kind, text in FILES.items():
        (path / f"shop.{kind}").write_text(text)
    return path


def zipped(folder: Path, file: Path, inside: str) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in folder.iterdir():
            archive.write(each, inside + each.name)
    return file


def pairs(dataset: Any) -> list[tuple[str, str]]:
    names = dataset.names
    raw = dataset.raw
    return [(names["users"][u - 1], names["items"][i - 1]) for u, i in zip(raw.users, raw.items, strict=True)]


def test_folder_zip_and_wheel_give_the_same(folder: Path, tmp_path: Path) -> None:
    wheel = zipped(folder, tmp_path / "recbole-1.2.1-py3-none-any.whl", "recbole/dataset_example/shop/")
    found = [
        Atomic(root, "shop").fingerprint
        for root in (None, folder, folder.parent, zipped(folder, tmp_path / "a.zip", ""), wheel)
    ]
    assert len(set(found)) == 1
    assert AtomicSessions(name="shop").fingerprint == AtomicSessions(wheel, "shop").fingerprint


def test_rows_of_clicks_are_found_in_the_same_places(folder: Path, store: Path) -> None:
    def rows() -> int:
        return len(ClickFile("shop/shop.inter", join={"user_id": "shop/shop.user"}).table["age"])

    assert rows() == 6
    archive = zipped(folder, store.parent / "shop_atomic.zip", "any/where/")
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    (store / "rec").mkdir()
    archive.rename(store / "rec/shop_atomic.zip")
    assert rows() == 6
    (store / "rec/shop_atomic.zip").write_bytes(b"PK")
    with pytest.raises(DataFault, match="the zip is damaged"):
        rows()
    (store / "rec/shop_atomic.zip").unlink()
    with pytest.raises(DataFault, match="shop is not there"):
        rows()


def test_fields_stand_beside_the_numbers(folder: Path) -> None:
    data = Atomic(name="shop", user_fields=["age", "height"], item_fields=["class", "vector"])
    with pytest.raises(UsageError, match="call bind"):
        data[0]
    vocabularies = {kind: vocabulary_of(data, kind) for kind in ("users", "items", "age", "class")}
    assert vocabularies["age"].names == ["40", "30"]
    bind(Few(data, 2), vocabularies)
    held = interactions_of(data)
    assert held.users.tolist() == [1, 1, 2, 1, 2, 3]
    assert held.items.tolist() == [1, 2, 1, 3, 4, 2]
    assert held.user_fields["age"].tolist() == [[0], [2], [1], [0]]
    assert held.user_fields["height"].tolist() == [[0], [1.6], [1.7], [0]]
    assert held.item_fields["class"].tolist() == [[0, 0, 0], [1, 2, 0], [0, 0, 0], [2, 0, 0], [3, 1, 2]]
    assert held.item_fields["vector"].tolist() == [[0, 0, 0], [0.5, 1, 0], [2, 0, 0], [0, 0, 0], [1, 2, 3]]
    assert data[4] == {"user": 2, "item": 4, "rating": 2.0, "time": 6.0}
    histories = held.histories()
    assert [histories.session(row).tolist() for row in range(3)] == [[2, 3, 1], [1, 4], [2]]


def test_histories_know_their_items(folder: Path) -> None:
    data = AtomicSessions(name="shop", item_fields=["class", "vector"])
    vocabularies = {kind: vocabulary_of(data, kind) for kind in ("items", "class")}
    assert vocabularies["class"].names == ["x", "y", "z"]
    bind(data, vocabularies)
    assert data.item_fields["class"].tolist() == [[0, 0, 0], [1, 2, 0], [0, 0, 0], [2, 0, 0], [3, 1, 2]]
    assert data.item_fields["vector"].tolist() == [[0, 0, 0], [0.5, 1, 0], [2, 0, 0], [0, 0, 0], [1, 2, 3]]
    seldom = vocabulary_of(Subset(data, [0]), "class")
    assert seldom.names == ["x", "y"]


def test_a_model_of_fields_is_told_of_them(folder: Path) -> None:
    """The task gives SSR the sizes, which go into the config, and the values, which go with the weights."""
    task, source = NextItem(), {"name": "shop", "item_fields": ["class", "vector"]}
    recipe: dict[str, Any] = {
        "task": {"_target_": "pdl_rec.NextItem"},
        "model": {"_target_": "pdl_rec.SSR", "width": 4, "hidden": 4},
        "data": {"train": {"_target_": "pdl_rec.data.AtomicSessions", **source}},
        "optim": {"_target_": "pdl.optim.Adam"},
    }
    parts = assemble(task, Recipe(recipe))
    model, data = parts.model, parts.datasets["train"]
    assert isinstance(model, SSR)
    for name, values in data.item_fields.items():
        np.testing.assert_allclose(model.about.all()[name].data, values)
    learned = learned_config(task, Recipe(recipe))["model"]
    assert learned["fields"] == {"class": [3, 3], "vector": [0, 3]}
    again = NextItem()
    again.vocabularies["items"] = task.vocabularies["items"]
    net = restored(again, Recipe({**recipe, "model": {**recipe["model"], **learned}}))
    net.load_state_dict(model.state_dict())
    items = pdl.tensor(np.array([[1, 4, 2]]))
    np.testing.assert_array_equal(net.eval()(items).data, model.eval()(items).data)


def test_unseen_users_and_items(folder: Path) -> None:
    vocabularies = {kind: vocabulary_of(Subset(Atomic(name="shop"), [0, 1]), kind) for kind in ("users", "items")}
    for unseen, users, items in (("drop", [1, 1], [1, 2]), ("keep", [1, 1, 0, 1, 0, 0], [1, 2, 1, 0, 0, 2])):
        data = Atomic(name="shop", unseen=unseen)  # type: ignore[arg-type]
        data.bind(vocabularies)
        assert len(data) == 6
        assert interactions_of(data).users.tolist() == users
        assert interactions_of(data).items.tolist() == items


def test_leave_one_out_knows_what_came_before(folder: Path) -> None:
    parts = {split: Atomic(name="shop", split=split, order="time") for split in ("train", "val", "test")}
    assert pairs(parts["train"]) == [("u1", "b"), ("u2", "a"), ("u3", "b")]
    assert pairs(parts["val"]) == [("u1", "c")]
    assert pairs(parts["test"]) == [("u1", "a"), ("u2", "d")]
    known = {split: part.raw.known for split, part in parts.items()}
    assert known["train"] is None
    assert [len(known[split]) for split in ("val", "test")] == [3, 4]  # type: ignore[arg-type]
    assert pairs(Atomic(name="shop", min_rating=4)) == [("u1", "a"), ("u2", "a"), ("u3", "b")]
    test = AtomicSessions(name="shop", split="test", leave_one_out=True)
    test.bind({"items": vocabulary_of(test)})
    rows, events = sessions_of(test).targets()
    assert (rows.tolist(), events.tolist()) == ([0, 1], [2, 4])


def recbole(total: int, shares: list[float]) -> list[int]:
    """RecBole 1.2's rounding, step by step."""
    counts = [int(share * total) for share in shares]
    counts[0] = total - sum(counts[1:])
    for i in range(1, len(shares)):
        if counts[0] <= 1:
            break
        if 0 < shares[-i] * total < 1:
            counts[-i] += 1
            counts[0] -= 1
    return counts


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.sampled_from(["random", "time"]), st.booleans())
def test_shares_are_rounded_as_recbole_does(users: list[int], order: Any, by_user: bool) -> None:
    own, times = np.array(users), np.random.default_rng(0).permutation(len(users)).astype(float)
    names, part = part_of("X", own, times, ratios=Ratios, order=order, by_user=by_user, seed=3)
    assert names == list(Ratios)
    for user in set(users) if by_user else [None]:
        rows = np.flatnonzero(own == user) if by_user else np.arange(len(own))
        assert np.bincount(part[rows], minlength=3).tolist() == recbole(len(rows), list(Ratios.values()))
        if order == "time":
            assert (np.diff(part[rows][np.argsort(times[rows])]) >= 0).all()


@pytest.mark.parametrize(
    ("kind", "change", "match"),
    [
        ("inter", lambda t: t.replace("item_id:token", "item:token"), "no column 'item_id'.*did you mean 'item'"),
        (
            "inter",
            lambda t: t.replace("rating:float", "rating:number"),
            "'rating:number' of the first line has no type",
        ),
        ("inter", lambda t: t.replace("user_id:token", "user_id:float"), "'user_id' is float, expected token"),
        ("inter", lambda t: t.replace("\t20", "\tlate"), "5: column 'timestamp:float': .*'late'"),
        ("inter", lambda t: t.replace("u2\td\t2\t6", "u2\td"), "6: Expected 4 columns, got 2"),
        ("inter", lambda t: t.replace("u2\td", "\td"), "6: column 'user_id:token' is empty"),
        ("inter", lambda t: "", "the file is empty"),
        ("inter", lambda t: t.split("\n")[0] + "\n", "a header and no rows"),
        ("item", lambda t: t.replace("1 2 3", "1 2 x"), "column 'vector'.*'x'.*numbers with spaces"),
        ("item", lambda t: t.replace("class", "klass"), "no column 'class'.*did you mean 'klass'"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_damage_is_told(folder: Path, kind: str, change: Callable[[str], str], match: str, packed: bool) -> None:
    file = folder / f"shop.{kind}"
    file.write_text(change(FILES[kind]))
    root = zipped(folder, folder.parent / "x.zip", "deep/") if packed else folder
    with pytest.raises(DataFault, match=rf"(?s)shop\.{kind}.*{match}"):
        Atomic(root, "shop", item_fields=["class", "vector"])


def test_damaged_and_absent_archives(folder: Path, store: Path) -> None:
    whole = zipped(folder, store / "x.zip", "")
    (store / "cut.zip").write_bytes(whole.read_bytes()[:200])
    with pytest.raises(DataFault, match="damaged or cut off"):
        Atomic(store / "cut.zip", "shop")
    with pytest.raises(DataFault, match=r"expected one member other\.inter, found none"):
        Atomic(whole, "other")
    with zipfile.ZipFile(whole, "a") as archive:
        archive.writestr("again/shop.inter", "x")
    with pytest.raises(DataFault, match=r"found shop.inter, again/shop.inter"):
        Atomic(whole, "shop")
    with pytest.raises(DataFault, match=r"ml-100k is not there.*fetch it: pdl data get rec/ml100k"):
        Atomic()
    (folder / "shop.user").unlink()
    with pytest.raises(DataFault, match=r"no such file.*leave its fields out"):
        Atomic(folder, "shop", user_fields=["age"])


def test_a_member_that_would_not_fit_is_refused(folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl_rec.data.atomic_files.MAX_MEMBER_BYTES", 100)
    with pytest.raises(DataFault, match="passes the limits"):
        Atomic(zipped(folder, store / "x.zip", ""), "shop")


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"split": "dev"}, "split='dev' is none of train, val, test"),
        ({"ratios": Ratios}, "say which part"),
        ({"user_fields": ["age"], "item_fields": ["age"]}, "a name means one field"),
        ({"unseen": "lose"}, "neither drop nor keep"),
    ],
)
def test_arguments_that_make_no_sense(folder: Path, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Atomic(folder, "shop", **arguments)


REAL = Path(os.environ.get("PDL_DATA", "")) / "rec/ml-100k_atomic.zip"


@pytest.mark.skipif(not REAL.is_file(), reason="ml-100k is not under PDL_DATA")
def test_movielens() -> None:
    parts = [Atomic(REAL, split=split, ratios=Ratios, item_fields=["class"]) for split in Ratios]
    assert [len(part) for part in parts] == [80808, 9596, 9596]
    assert len(vocabulary_of(parts[0], "class")) == 19
    data = AtomicSessions(REAL, split="train", leave_one_out=True)
    assert (len(data), len(data.raw.items)) == (943, 100_000 - 2 * 943)


def test_in_memory_only(folder: Path, store: Path) -> None:
    """A zip is read without a file being written."""
    whole = zipped(folder, store / "x.zip", "")
    before = sorted(store.rglob("*"))
    Atomic(whole, "shop", user_fields=["age"])
    assert sorted(store.rglob("*")) == before
