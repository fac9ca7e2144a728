"""Facts from folders, archives and single files: what they hold, how they are numbered, what is said of damage."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault, Few
from pdl.errors import ConfigError, DataError
from pdl_graph.data import Triples
from pdl_graph.data.triples import triples_of, vocabularies_of
from pdl_graph.knowledge.check import check_triples, inverse_relations

TEXT = {
    "train": "a\tlikes\tb\nb\tliked by\ta\nb\tlikes\tc\nc\tliked by\tb\nc\tlikes\ta\na\tliked by\tc\n",
    "valid": "a\tlikes\tc\n",
    "test": "a\tknows\td\nb\tlikes\tc\n",
}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PDL_DATA", str(tmp_path / "store"))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "store/graph").mkdir(parents=True)
    return tmp_path / "store/graph"


def folder(store: Path, change: Callable[[str], str] = lambda text: text) -> Path:
    (store / "shop").mkdir()
    for name, text in TEXT.items():
        (store / f"shop/{name}.txt").write_text(change(text))
    return store / "shop"


def tarred(store: Path) -> Path:
    with tarfile.open(store / "shop.tar.gz", "w:gz") as archive:
        for name, text in TEXT.items():
            member = tarfile.TarInfo(f"deep/{name}.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("../../train.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return store / "shop.tar.gz"


def zipped(store: Path) -> Path:
    with zipfile.ZipFile(store / "shop.zip", "w") as archive:
        for name, text in TEXT.items():
            archive.writestr(f"{name}.tsv.gz", gzip.compress(text.encode()))
    return store / "shop.zip"


def facts(data: Triples) -> list[tuple[str, str, str]]:
    entity, relation = data.names["entities"], data.names["relations"]
    return [(entity[h - 1], relation[r - 1], entity[t - 1]) for h, r, t in data.raw]


@pytest.mark.parametrize("made", [folder, tarred, zipped], ids=["folder", "tar", "zip"])
def test_folders_and_archives_give_the_same(store: Path, made: Any) -> None:
    path = made(store)
    before = sorted(store.rglob("*"))
    for source in ("shop", path, f"graph/{path.name}"):
        test = Triples(source, split="test")
        assert facts(test) == [("a", "knows", "d"), ("b", "likes", "c")]
        assert test.names == {"entities": ["a", "b", "c", "d"], "relations": ["likes", "liked by", "knows"]}
        assert len(Triples(source)) == 6
    assert test.raw.dtype == np.int32
    assert sorted(store.rglob("*")) == before


def test_numbers_are_those_of_vocabularies(store: Path) -> None:
    folder(store)
    train, test = Triples("shop"), Triples("shop", split="test")
    (store / "own.csv").write_text('to,what,from\n"b, c",likes,a\n\nz,eats,b\n')
    own = Triples("own.csv", columns=["from", "what", "to"])
    assert facts(own) == [("a", "likes", "b, c"), ("b", "eats", "z")]
    some = Triples("shop", few=3)
    assert (len(some), some.triples.tolist(), len(some.known)) == (3, train.raw[[0, 2, 4]].tolist(), 6)
    known = vocabularies_of([Few(train, 2), test])
    assert known["entities"].names == ["a", "b", "c", "d"]
    own.bind(known)
    assert own.triples.tolist() == [[1, 1, 0], [2, 0, 0]]
    assert own[0] == {"head": 1, "relation": 1, "tail": 0}
    train.bind(known)
    assert triples_of(Few(train, 2))[1].tolist() == train.triples[[0, 3]].tolist()
    with pytest.raises(ConfigError, match="gives no facts"):
        triples_of([1])


def test_a_single_file_is_cut(store: Path) -> None:
    (store / "all.txt").write_text("".join(f"a{i} r b{i % 7}\n" for i in range(50)))
    parts: list[Any] = [
        Triples("all.txt", split=split, ratios={"train": 0.8, "val": 0.1, "test": 0.1}, seed=3)  # type: ignore[arg-type]
        for split in ("train", "val", "test")
    ]
    assert [len(part) for part in parts] == [40, 5, 5]
    assert sorted(row for part in parts for row in facts(part)) == sorted(facts(Triples("all.txt")))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.replace("b\tlikes", "b likes"), r"train.txt:3: 2 columns, expected 3"),
        (lambda t: t.replace("c\tlikes", " \tlikes"), r"train.txt:5: a name is empty"),
        (lambda t: "\n", "no facts"),
        (lambda t: t.replace("likes", "lik\udcff"), r"train.txt:1: not UTF-8"),
    ],
)
def test_damaged_lines_are_told(store: Path, change: Callable[[str], str], match: str) -> None:
    path = folder(store)
    (path / "train.txt").write_bytes(change(TEXT["train"]).encode("utf-8", "surrogateescape"))
    with pytest.raises(DataFault, match=match):
        Triples(path)


def test_what_is_not_there_is_told(store: Path) -> None:
    with pytest.raises(DataFault, match=r"WN18RR is not there.*fetch it: pdl data get graph/wn18rr"):
        Triples("WN18RR")
    (store / "empty").mkdir()
    with pytest.raises(DataFault, match="no files of facts"):
        Triples("empty")
    whole = tarred(store)
    (store / "cut.tar.gz").write_bytes(whole.read_bytes()[:120])
    with pytest.raises(DataFault, match="damaged or cut off"):
        Triples("cut.tar.gz")
    path = folder(store)
    (path / "test.txt").unlink()
    with pytest.raises(DataError, match="no part test, only train, val"):
        Triples(path, split="test")
    (path / "dev.csv").write_text("a,b,c\n")
    with pytest.raises(DataFault, match="two files of val"):
        Triples(path)
    (store / "own.csv").write_text("from,what,to\na,b,c\n")
    with pytest.raises(DataFault, match=r"no column 'form'.*did you mean 'from'"):
        Triples("own.csv", columns=["form", "what", "to"])
    for wrong in ({"split": "dev"}, {"columns": ["a"]}, {"ratios": {"dev": 1.0}}):
        with pytest.raises(ConfigError):
            Triples("own.csv", **wrong)  # type: ignore[arg-type]


def test_large_members_are_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl_graph.data.triples_file.MAX_BYTES", 20)
    for made in (tarred, zipped):
        with pytest.raises(DataFault, match="passes the limits"):
            Triples(made(store))


def test_check_tells_what_misleads(store: Path) -> None:
    path = folder(store)
    (path / "valid.txt").write_text(TEXT["valid"] * 2)
    found = check_triples({split: Triples("shop", split=split) for split in ("train", "val", "test")})  # type: ignore[arg-type]
    match = [(fault.split, fault.severity, fault.what) for fault in found]
    assert match == [
        ("train", "warning", "2 relations have 80% or more of their facts in an inverse one: likes of liked by "
         "(100%), liked by of likes (100%)"),
        ("val", "warning", "1 facts too many: stated twice (first: a, likes, c)"),
        ("test", "error", "1 of 2 facts are in train, too (first: b, likes, c)"),
        ("test", "warning", "1 entities are not in train, in 1 of 2 facts (first: d)"),
        ("test", "warning", "1 relations are not in train, in 1 of 2 facts (first: knows)"),
    ]  # fmt: skip


def test_inverse_relations_are_counted_as_a_loop_counts_them() -> None:
    rng = np.random.default_rng(0)
    triples = rng.integers(1, 8, (60, 3)).astype(np.int32)
    triples = np.concatenate([triples, triples[triples[:, 1] == 2][:, [2, 1, 0]] + [0, 7, 0]]).astype(np.int32)
    facts = {tuple(row) for row in triples.tolist()}
    expected = {}
    for r in range(1, 15):
        own = [row for row in facts if row[1] == r]
        for s in range(1, 15):
            share = sum((t, s, h) in facts for h, _, t in own) / max(len(own), 1)
            if r != s and share >= 0.8:
                expected[r, s] = share
    assert expected
    assert {(r, s): share for r, s, share in inverse_relations(triples)} == pytest.approx(expected)


REAL = Path(os.environ.get("PDL_DATA", "")) / "graph"
SIZES = {"WN18RR": (40943, 11, 86835, 3034, 3134), "FB15k-237": (14541, 237, 272115, 17535, 20466)}


@pytest.mark.parametrize("name", SIZES)
def test_the_benchmarks(name: str) -> None:
    file = REAL / f"{name}.tar.gz"
    if not file.is_file():
        pytest.skip(f"{name} is not under PDL_DATA")
    parts = [Triples(file, split=split) for split in ("train", "val", "test")]  # type: ignore[arg-type]
    known = vocabularies_of(parts)
    assert (len(known["entities"]), len(known["relations"]), *map(len, parts)) == SIZES[name]
