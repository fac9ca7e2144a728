"""Lines of text in the formats that people have them in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from pdl.errors import DataError
from pdl_ocr.data import TextLines
from pdl_ocr.data.lines import image_size

WORDS = ["JOINT", 'say "hi", you', "日本", "e\N{COMBINING ACUTE ACCENT}té"]
READ = ["JOINT", 'say "hi", you', "日本", "été"]


def image(path: Path, width: int = 60, height: int = 20) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shade = np.linspace(0, 255, width).astype(np.uint8)
    cv2.imwrite(str(path), np.broadcast_to(shade[None, :, None], (height, width, 3)))
    return path


def paddle(folder: Path) -> Path:
    (folder / "rec_gt.txt").write_text("".join(f"img/{i}.png\t{w}\n" for i, w in enumerate(WORDS)), encoding="utf-8")
    return folder / "rec_gt.txt"


def icdar(folder: Path) -> Path:
    rows = (f'img/{i}.png, "{w}"' for i, w in enumerate(w.replace('"', r"\"") for w in WORDS))
    (folder / "gt.txt").write_text("\ufeff" + "\r\n".join(rows), encoding="utf-8")
    return folder


def table(folder: Path) -> Path:
    quoted = (w.replace('"', '""') for w in WORDS)
    rows = "".join(f'{i},"{w}",img/{i}.png\n' for i, w in enumerate(quoted))
    (folder / "labels.csv").write_text("Number,Text,Filename\n" + rows, encoding="utf-8")
    return folder / "labels.csv"


@pytest.mark.parametrize("form", [paddle, icdar, table])
def test_lists(form: Callable[[Path], Path], tmp_path: Path) -> None:
    for i in range(len(WORDS)):
        image(tmp_path / f"img/{i}.png", width=40 + 20 * i)
    data = TextLines(form(tmp_path))
    assert data.texts == READ
    assert [data[i]["text"] for i in range(4)] == READ
    assert data.widths.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert data[3]["image"].shape == (20, 100, 3)
    assert data.path_of(0) == str(tmp_path / "img/0.png")


def test_pages_of_paddleocr_are_cut_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    image(tmp_path / "page.png", 200, 100)
    boxes = [
        {"transcription": "wide", "points": [[10, 10], [90, 10], [90, 30], [10, 30]]},
        {"transcription": "###", "points": [[0, 0], [5, 0], [5, 5], [0, 5]]},
        {"transcription": "many", "points": [[10, 50], [50, 50], [90, 50], [90, 70], [50, 70], [10, 70]]},
        {"transcription": "tall", "points": [[150, 10], [170, 10], [170, 90], [150, 90]]},
    ]
    (tmp_path / "Label.txt").write_text(f"page.png\t{json.dumps(boxes)}\n", encoding="utf-8")
    data = TextLines(tmp_path / "Label.txt")
    assert data.texts == ["wide", "many", "tall"]
    shapes = [data[i]["image"].shape for i in range(3)]
    assert shapes == [(20, 80, 3), (20, 80, 3), (20, 80, 3)]
    assert data.widths == pytest.approx([w / h for h, w, _ in shapes])
    assert TextLines(tmp_path / "Label.txt", mode="gray")[0]["image"].shape == (20, 80, 1)


def test_boxes_beside_pages_are_split_by_page(tmp_path: Path) -> None:
    for i in range(20):
        image(tmp_path / f"img/{i:02}.jpg", 200, 100)
        rows = "".join(f"10,{y},90,{y},90,{y + 15},10,{y + 15},{i} LINE {y}, TEXT\n" for y in (10, 40))
        (tmp_path / "box").mkdir(exist_ok=True)
        (tmp_path / f"box/{i:02}.txt").write_text(rows, encoding="utf-8")
    whole = TextLines(tmp_path)
    assert len(whole) == 40
    assert whole.texts[0] == "0 LINE 10, TEXT"
    parts = [TextLines(tmp_path, split=s, ratios={"train": 0.7, "val": 0.3}) for s in ("train", "val")]  # type: ignore[arg-type]
    pages = [{data.path_of(i) for i in range(len(data))} for data in parts]
    assert sum(map(len, parts)) == 40
    assert not pages[0] & pages[1]
    assert all(pages)


def test_a_folder_has_a_list_for_each_split(tmp_path: Path) -> None:
    image(tmp_path / "a.png")
    for name, word in (("train.txt", "one"), ("val.txt", "two"), ("test.txt", "three")):
        (tmp_path / name).write_text(f"a.png\t{word}\n", encoding="utf-8")
    assert [TextLines(tmp_path, split=s).texts for s in ("train", "val", "test")] == [["one"], ["two"], ["three"]]  # type: ignore[arg-type]


@pytest.mark.parametrize("ending", [".png", ".jpg", ".bmp"])
def test_sizes_from_the_heads_of_files(ending: str, tmp_path: Path) -> None:
    assert image_size(image(tmp_path / f"x{ending}", 123, 45)) == (123, 45)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "the list is empty"),
        ("a.txt", "one two three\n", "a.txt:1.*is no line of a known form; expected path<TAB>text"),
        ("a.txt", "../x.png\ttext\n", "is not below"),
        ("a.txt", "/etc/passwd\ttext\n", "is not below"),
        ("a.txt", 'x.png\t[{"transcription": 3, "points": []}]\n', "a.txt:1.*has no transcription"),
        ("a.txt", 'x.png\t[{"transcription": "a", "points": [[0, 0], [1, NaN], [2, 2]]}]\n', "no points"),
        ("a.txt", 'x.png\t[{"transcription": "a"\n', "a.txt:1.*not JSON"),
        ("a.csv", "image,text\nx.png\n", "a.csv.*has no image or no text"),
    ],
)
def test_lists_that_are_wrong(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        TextLines(tmp_path / name)


def test_text_that_is_not_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x.png\tfine\ny.png\tgr\xfcn\n")
    with pytest.raises(DataError, match=r"a\.txt:2.*not UTF-8"):
        TextLines(tmp_path / "a.txt")


def test_a_polygon_outside_of_its_page(tmp_path: Path) -> None:
    image(tmp_path / "page.png", 50, 50)
    (tmp_path / "page.txt").write_text("100,100,150,100,150,120,100,120,far\n", encoding="utf-8")
    with pytest.raises(DataError, match="'far' lies outside of the image of 50 x 50"):
        TextLines(tmp_path)[0]


def test_an_empty_folder_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no list of lines is there \(train\.txt, gt\.txt"):
        TextLines(tmp_path, split="train")
