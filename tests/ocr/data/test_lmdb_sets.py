"""Lines in LMDB, as the deep-text-recognition-benchmark keeps them."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.data.checks import check
from pdl.errors import DataError, PackageError
from pdl_ocr.data import TextLines

lmdb: Any = pytest.importorskip("lmdb", reason="lmdb is not installed")
WORDS = ["JOINT", "日本", "e\N{COMBINING ACUTE ACCENT}té", "four"]


def encoded(width: int, ending: str = ".png") -> bytes:
    shade = np.linspace(0, 255, width).astype(np.uint8)
    return bytes(cv2.imencode(ending, np.broadcast_to(shade[None, :, None], (20, width, 3)))[1])


def written(
    folder: Path, words: list[str] = WORDS, *, subdir: bool = True, changed: Mapping[str, bytes | None] | None = None
) -> Path:
    """A set of these words; `changed` are values of further keys, None for those that are left out."""
    values: dict[str, bytes | None] = {"num-samples": str(len(words)).encode()}
    for number, word in enumerate(words, 1):
        values[f"label-{number:09d}"] = word.encode()
        values[f"image-{number:09d}"] = encoded(40 + 20 * number, (".png", ".jpg", ".bmp")[number % 3])
    values |= changed or {}
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = lmdb.open(str(folder), map_size=1 << 22, subdir=subdir)
    with made.begin(write=True) as writing:
        for name, value in values.items():
            if value is not None:
                writing.put(name.encode(), value)
    made.close()
    return folder


def test_a_set_is_read_by_threads_and_other_processes(tmp_path: Path) -> None:
    data = TextLines(written(tmp_path / "set"))
    assert data.texts == ["JOINT", "日本", "été", "four"]
    assert data.widths.tolist() == [3.0, 4.0, 5.0, 6.0]
    assert data.path_of(1) == str(tmp_path / "set/image-000000002")
    with ThreadPoolExecutor(4) as pool:
        shapes = list(pool.map(lambda i: data[i % 4]["image"].shape, range(40)))
    assert shapes[:4] == [(20, 60 + 20 * i, 3) for i in range(4)] == shapes[-4:]
    again = pickle.loads(pickle.dumps(data))
    assert np.array_equal(again[2]["image"], data[2]["image"])
    assert again.fingerprint == data.fingerprint != TextLines(written(tmp_path / "other", WORDS[:3])).fingerprint
    assert sorted(os.listdir(tmp_path / "set")) == ["data.mdb", "lock.mdb"]
    if hasattr(os, "fork"):
        child = os.fork()
        if not child:
            os._exit(0 if data[3]["image"].shape == (20, 120, 3) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_folders_files_and_splits(tmp_path: Path) -> None:
    written(tmp_path / "both/train")
    written(tmp_path / "both/val", WORDS[:2])
    assert [len(TextLines(tmp_path / "both", split=split)) for split in ("train", "val")] == [4, 2]  # type: ignore[arg-type]
    assert TextLines(written(tmp_path / "one.lmdb", subdir=False), mode="gray")[0]["image"].shape == (20, 60, 1)
    many = written(tmp_path / "many", [f"w{i}" for i in range(40)])
    parts = [TextLines(many, split=split, ratios={"train": 0.7, "val": 0.3}) for split in ("train", "val")]  # type: ignore[arg-type]
    assert sorted(text for part in parts for text in part.texts) == sorted(f"w{i}" for i in range(40))
    assert all(parts)
    whole: Any = TextLines(many)
    assert len(set(whole.dealing().groups.tolist())) == 40
    assert [line.number for line in whole.dealt(np.array([3, 5]), np.array([0])).lines] == [4, 6]


def test_a_set_that_was_made_anew_is_read_anew(tmp_path: Path) -> None:
    assert len(TextLines(written(tmp_path / "set"))) == 4
    for file in (tmp_path / "set").iterdir():
        file.unlink()
    assert TextLines(written(tmp_path / "set", ["new"])).texts == ["new"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num-samples": None}, "has no key num-samples; expected keys"),
        ({"num-samples": b"many"}, "num-samples is b'many', which is no number"),
        ({"num-samples": b"0"}, "no lines of text"),
        ({"num-samples": b"9"}, "has no key label-000000005, but num-samples is 9"),
        ({"label-000000002": b"\xff"}, "label-000000002 is not UTF-8"),
    ],
)
def test_sets_of_another_form(changed: dict[str, bytes | None], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        TextLines(written(tmp_path / "set", changed=changed))


def test_damaged_images_are_told_with_their_keys(tmp_path: Path) -> None:
    cut = encoded(100, ".jpg")[:-40]
    data = TextLines(written(tmp_path / "set", changed={"image-000000002": None, "image-000000003": cut}))
    for index, message in ((1, "no such key"), (2, "cut off")):
        with pytest.raises(DataError, match=rf"image-00000000{index + 1} .*{message}"):
            data[index]
        assert message in str(data.fault_of(index))
    assert data.fault_of(0) is None
    assert sum("image-00000000" in str(fault) for fault in check({"train": lambda: data})) == 2


def test_damaged_files(tmp_path: Path) -> None:
    whole = written(tmp_path / "set")
    content = (whole / "data.mdb").read_bytes()
    for name, part, message in (
        ("cut", content[: len(content) // 2], "is cut off: [0-9,]+ bytes of [0-9,]+ are there"),
        ("other", b"no database " * 1000, "cannot be opened as an LMDB set"),
        ("empty", b"", "cannot be opened as an LMDB set|is cut off"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.mdb").write_bytes(part)
        with pytest.raises(DataError, match=message):
            TextLines(tmp_path / name)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "set")
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(PackageError, match=r"pip install 'pdl-ocr\[lmdb\]'"):
        TextLines(tmp_path / "set")
