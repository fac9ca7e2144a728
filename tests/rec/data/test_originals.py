"""The files of GroupLens and Yoochoose as they are published, made here in small, and what is made of them."""

from __future__ import annotations

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pdl.data import DataFault
from pdl_rec.data import PairFile, originals

GENRES = ["unknown", "Action", "Children's", "Comedy"]
FILMS = {
    "Toy Story (1995)": "0011", "Land (1995) (V)": "0100", "unknown": "1000", "Misérables, Les (1995)": "0000",
}  # fmt: skip


def write_movielens(path: Path, **change: str) -> None:
    flags = ["|".join(given) for given in FILMS.values()]
    films = enumerate(zip(FILMS, flags, strict=True), 1)
    items = [f"{n}|{title}|01-Jan-1995||http://x|{flag}" for n, (title, flag) in films]
    held = {
        "u.genre": "".join(f"{genre}|{n}\n" for n, genre in enumerate(GENRES)) + "\n",
        "u.data": "2\t1\t3\t881250949\n1\t3\t5\t891717742\n2\t4\t1\t878887116\n",
        "u.user": "1|24|M|technician|85711\n2|53|F|other|94043\n",
        "u.item": "\n".join(items) + "\n",
    } | change
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in held.items():
            archive.writestr(f"ml-100k/{name}", text.encode("latin-1"))


def test_movielens(tmp_path: Path) -> None:
    out = tmp_path / "ml-100k"
    out.mkdir()
    write_movielens(tmp_path / "ml-100k.zip")
    originals.movielens({"ml-100k.zip": tmp_path / "ml-100k.zip"}, out)
    assert (out / "ml-100k.inter").read_text().splitlines()[:2] == [
        "user_id:token\titem_id:token\trating:float\ttimestamp:float", "2\t1\t3\t881250949",
    ]  # fmt: skip
    assert (out / "ml-100k.user").read_text().splitlines()[2] == "2\t53\tF\tother\t94043"
    assert (out / "ml-100k.item").read_text("utf-8").splitlines() == [
        "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq",
        "1\tToy Story\t1995\tChildren's Comedy", "2\tLand (1995)\tV\tAction", "3\tunknown\tunknown\tunknown",
        "4\tMisérables, Les\t1995\t",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"u.data": "1\t2\t3\n"}, "u.data:1: 4 columns are expected"),
        ({"u.user": ""}, "u.user: 5 columns are expected"),
        ({"u.item": "1|Toy Story (1995)|||x|0|0\n"}, "u.item:1: 9 columns are expected"),
    ],
)
def test_damaged_movielens(tmp_path: Path, change: dict[str, str], match: str) -> None:
    write_movielens(tmp_path / "ml-100k.zip", **change)
    with pytest.raises(DataFault, match=match):
        originals.movielens({"ml-100k.zip": tmp_path / "ml-100k.zip"}, tmp_path)
    (tmp_path / "ml-100k.zip").write_bytes(b"PK")
    with pytest.raises(DataFault, match=r"has no readable ml-100k/u.genre"):
        originals.movielens({"ml-100k.zip": tmp_path / "ml-100k.zip"}, tmp_path)


def test_packed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    originals.packed({"a.txt": tmp_path / "a.txt"}, tmp_path, names={"a.txt": "b.txt.gz"})
    assert gzip.decompress((tmp_path / "b.txt.gz").read_bytes()) == b"words"


# -- Yoochoose ---------------------------------------------------------------------------------------------------------
def write_clicks(path: Path, seed: int) -> list[tuple[int, int, int]]:
    """(session, second, item) of clicks over four days, and the file that says so."""
    rng = np.random.default_rng(seed)
    begin = int(np.datetime64("2014-09-26T00:00:00").astype("datetime64[s]").astype(int))
    clicks = []
    for session in rng.permutation(np.arange(1, 200)).tolist():
        at = begin + int(rng.integers(0, 4 * 86_400))
        for _ in range(int(rng.integers(1, 6))):
            clicks.append((session, at, int(rng.integers(1, 40) ** 2)))
            at += int(rng.integers(1, 900))
    lines = [f"{s},{np.datetime64(t, 's')}.123Z,{i},0\n" for s, t, i in clicks]
    path.write_text("".join(lines))
    return clicks


def prepared(clicks: list[tuple[int, int, int]], fraction: int) -> tuple[list[str], list[str]]:
    """What SR-GNN's preprocess.py does, click by click."""
    items: dict[int, list[int]] = {}
    end: dict[int, int] = {}
    for session, second, item in clicks:
        items.setdefault(session, []).append(item)
        end[session] = second
    items = {session: each for session, each in items.items() if len(each) > 1}
    count: dict[int, int] = {}
    for each in items.values():
        for item in each:
            count[item] = count.get(item, 0) + 1
    items = {session: [item for item in each if count[item] >= 5] for session, each in items.items()}
    items = {session: each for session, each in items.items() if len(each) > 1}
    split = max(end[session] for session in items) - 86_400
    train = sorted((session for session in items if end[session] < split), key=lambda session: end[session])
    test = sorted((session for session in items if end[session] > split), key=lambda session: end[session])
    number: dict[int, int] = {}
    coded = [[number.setdefault(item, len(number) + 1) for item in items[session]] for session in train]
    known = [[number[item] for item in items[session] if item in number] for session in test]
    owner = [n for n, each in enumerate(coded) for _ in each[1:]]
    last = owner[-int(len(owner) / fraction)]
    pairs = [(each[:-back], each[-back]) for each in known for back in range(1, len(each))]
    return (
        [" ".join(map(str, each)) for each in coded[last:]],
        [f"{' '.join(map(str, before))}\t{target}" for before, target in pairs],
    )


@pytest.mark.parametrize("seed", range(4))
def test_yoochoose(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "yoochoose-clicks.dat"
    clicks = write_clicks(path, seed)
    originals.yoochoose({path.name: path}, tmp_path, fraction=3)
    found = [tmp_path / f"yoochoose1_3_{split}.txt.gz" for split in ("train", "test")]
    assert tuple(gzip.decompress(each.read_bytes()).decode().splitlines() for each in found) == prepared(clicks, 3)
    assert len(PairFile(found[0]))
    assert len(PairFile(found[1], unseen="keep"))


def test_no_clicks(tmp_path: Path) -> None:
    path = tmp_path / "yoochoose-clicks.dat"
    path.write_text("1,noon,2,0\n")
    with pytest.raises(DataFault, match=r"is no list of clicks"):
        originals.yoochoose({path.name: path}, tmp_path, fraction=64)
    write_clicks(path, 0)
    with pytest.raises(DataFault, match=r"are too few for 1/64000"):
        originals.yoochoose({path.name: path}, tmp_path, fraction=64_000)


@pytest.mark.slow
@pytest.mark.skipif("PDL_TEST_DATA" not in os.environ, reason="PDL_TEST_DATA names no folder of real data")
def test_hashes_are_those_of_the_data_that_was_measured(tmp_path: Path) -> None:
    import hashlib

    from pdl.hub.public import public_set

    for each in public_set("yoochoose100k").files:
        name = each.file.replace("yoochoose-clicks-100k", "yoochoose100k")
        data = gzip.decompress((Path(os.environ["PDL_TEST_DATA"]) / f"rec/{name}.gz").read_bytes())
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each.bytes, each.sha256)
