"""Pages with fields, in every form in which they come."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pdl.errors import DataError
from pdl_ocr.data import PageFields

BOX = "10,10,90,10,90,26,10,26,{}\n"
POINTS = [[10, 10], [90, 10], [90, 26], [10, 26]]


def box(tmp_path: Path) -> Path:
    for folder in ("img", "box", "key"):
        (tmp_path / folder).mkdir()
    for i in range(20):
        (tmp_path / f"img/{i}.jpg").write_bytes(b"")
        (tmp_path / f"box/{i}.txt").write_text(BOX.format(f"TOTAL {i}.00"))
        (tmp_path / f"key/{i}.json").write_text(json.dumps({"total": f"{i}.00", "shop": ""}))
    return tmp_path


def read(tmp_path: Path) -> Path:
    """What a reader wrote, and a table of the values."""
    pages = [
        {"input": f"scans/{i}.jpg", "lines": [{"text": f"TOTAL {i}.00", "score": 0.9, "polygon": POINTS}]}
        for i in range(20)
    ]
    (tmp_path / "pages.json").write_text(json.dumps(pages))
    rows = "".join(f"{i}.jpg;{i}.00;\n" for i in range(20))
    (tmp_path / "fields.csv").write_text("Image;total;shop\n" + rows)
    return tmp_path


def saved(tmp_path: Path) -> Path:
    """A file for each page."""
    (tmp_path / "pages").mkdir()
    for page in json.loads((read(tmp_path) / "pages.json").read_text()):
        (tmp_path / "pages" / Path(page["input"]).with_suffix(".json").name).write_text(json.dumps([page]))
    (tmp_path / "pages.json").unlink()
    return tmp_path


def labelled(tmp_path: Path) -> Path:
    """PaddleOCR's list, with a value of two lines, the lower one first."""
    rows = []
    for i in range(20):
        lower = [[x, y + 20] for x, y in POINTS]
        lines: list[dict[str, Any]] = [
            {"transcription": f"{i}.00", "points": lower, "label": "total"},
            {"transcription": "TOTAL", "points": POINTS, "label": "other"},
        ]
        rows.append(f"{i}.jpg\t{json.dumps(lines)}")
    (tmp_path / "train.txt").write_text("\n".join(rows))
    return tmp_path / "train.txt"


def of_list(tmp_path: Path) -> Path:
    """The folder of a list."""
    return labelled(tmp_path).parent


def without_images(tmp_path: Path) -> Path:
    """Boxes and values alone."""
    shutil.rmtree(box(tmp_path) / "img")
    return tmp_path


@pytest.mark.parametrize("form", [box, without_images, read, saved, labelled, of_list])
def test_forms(form: Any, tmp_path: Path) -> None:
    path = form(tmp_path)
    data = PageFields(path)
    assert len(data) == 20
    assert data.names == ["total"]
    by_name = {Path(data.path_of(i)).stem: data[i] for i in range(20)}
    assert all(sample["fields"] == {"total": f"{name}.00"} for name, sample in by_name.items())
    assert all("TOTAL" in sample["lines"][-1]["text"] for sample in by_name.values())
    ratios = {"train": 0.6, "val": 0.2, "test": 0.2}
    cut = [PageFields(path, split=split, ratios=ratios) for split in ("train", "val", "test")]
    assert sorted(each.path_of(i) for each in cut for i in range(len(each))) == sorted(map(data.path_of, range(20)))
    assert len({each.fingerprint for each in cut}) == 3


def test_lines_of_a_label_are_joined_in_reading_order(tmp_path: Path) -> None:
    lower = [[x, y + 20] for x, y in POINTS]
    lines = [
        {"transcription": "LANE", "points": lower, "label": "address"},
        {"transcription": "MILL", "points": POINTS, "label": "address"},
    ]
    (tmp_path / "list.txt").write_text(f"a.jpg\t{json.dumps(lines)}\n")
    assert PageFields(tmp_path / "list.txt")[0]["fields"] == {"address": "MILL LANE"}


def test_the_list_of_a_split_is_taken(tmp_path: Path) -> None:
    first = labelled(tmp_path).read_text()
    (tmp_path / "val.txt").write_text(first.split("\n")[0])
    assert [len(PageFields(tmp_path, split=split)) for split in ("train", "val")] == [20, 1]
    with pytest.raises(DataError, match=r"several lists \(train.txt, val.txt\); name one as the path"):
        PageFields(tmp_path, split="test")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("key/3.json", "{", "not JSON"),
        ("key/3.json", "[1]", "is no object of fields"),
        ("key/3.json", '{"total": {"a": 1}}', "is no object of fields"),
        ("key/3.json", None, "1 of 20 pages have no fields, such as 3.jpg"),
        ("fields.csv", "image\n", "its columns are image"),
        ("fields.csv", "page,total\n1,2\n", "give a column `image`"),
        ("fields.csv", "image,total\na/1.jpg,2\nb/1.png,2\n", "two pages are called '1'"),
        (
            "pages.json",
            '[{"input": "a/1.jpg", "lines": []}, {"input": "b/1.png", "lines": []}]',
            "two pages are called '1'",
        ),
        ("fields.csv", "image,total\n1.jpg,2,50\n", "more cells than the 2 columns"),
        ("fields.csv", "image,total,shop\n1.jpg,2\n", "fewer cells than the 3 columns"),
        ("fields.csv", "image,total,total\n1.jpg,2,3\n", "two columns are called 'total'"),
        ("pages.json", "[[]]", "page 1 has no lines"),
        ("pages.json", '[{"lines": [{"text": "a", "polygon": [[1, 2]]}]}]', "no polygon"),
        ("pages.json", '[{"lines": [{"text": "a", "polygon": [[1, 2], [NaN, 1], [1, 1]]}]}]', "no polygon"),
        ("pages.json", '[{"lines": [1]}]', "has no text, or no polygon"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, file: str, text: str | None, said: str) -> None:
    path = box(tmp_path) / file
    path.write_text(text) if text is not None else path.unlink()
    with pytest.raises(DataError, match=said):
        PageFields(tmp_path)


def test_a_folder_without_pages_is_told_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no lines of pages are there; expected a folder with box/"):
        PageFields(tmp_path)


def test_a_folder_without_fields_is_told_what_it_lacks(tmp_path: Path) -> None:
    folder = box(tmp_path)
    for file in folder.glob("key/*"):
        file.unlink()
    with pytest.raises(DataError, match="nothing says what the fields are"):
        PageFields(folder)
