"""Documents as inputs: PDF files and TIFF files of several pages."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, BinaryIO

import cv2
import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime import documents, headers
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import predict as predict_each
from pdl.runtime.steps.images import ImageInput
from pdl.runtime.steps.outputs import Form
from pdl.workflow.prediction import predict
from tests.framework.runtime.test_videos import Mean, Means

LEVELS = [20, 120, 220]


def pdf(sizes: list[tuple[float, float]], levels: list[int] = LEVELS) -> bytes:
    """A PDF whose pages have these sizes in points and are filled with these grey levels."""
    raw = pytest.importorskip("pypdfium2").raw
    import pypdfium2

    document = pypdfium2.PdfDocument.new()
    for (width, height), level in zip(sizes, levels, strict=False):
        page = document.new_page(width, height)
        box = raw.FPDFPageObj_CreateNewRect(0, 0, width, height)
        raw.FPDFPageObj_SetFillColor(box, level, level, level, 255)
        raw.FPDFPath_SetDrawMode(box, raw.FPDF_FILLMODE_WINDING, False)
        raw.FPDFPage_InsertObject(page, box)
        page.gen_content()
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def tiff(path: Path, levels: list[int] = LEVELS) -> Path:
    """A TIFF whose pages differ in size, blue in the order of channels told by its levels."""
    pages = [np.full((20 + 10 * i, 30, 3), (level, 0, 0), np.uint8) for i, level in enumerate(levels)]
    assert cv2.imwritemulti(str(path), pages)
    return path


def test_every_page_of_a_pdf_is_an_input(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(pdf([(144, 72)] * 3))
    found = predict(Means(), [str(path)])
    assert [(each["input"], each["mean"]) for each in found] == [
        (f"{path}#{number}", pytest.approx(level, abs=1)) for number, level in enumerate(LEVELS, 1)
    ]
    ((page, image), *_) = documents.pages(path.read_bytes(), "x")
    assert (page.name, page.dpi, image.shape, image.dtype) == ("x#1", 200, (200, 400, 3), np.uint8)
    assert image.flags.c_contiguous


def test_pages_are_drawn_when_they_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, drawn = pdf([(72, 72)] * 3), []
    monkeypatch.setattr(documents, "_drawn", lambda *given: drawn.append(given[3]) or (documents.Page("", 1), None))
    taken = documents.pages(data, "x")
    assert drawn == []
    next(taken)
    assert drawn == [0]


def test_long_documents_are_opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "AT_ONCE", 2)
    for count in (1, 2, 3, 4, 5):
        levels = [20 * number for number in range(count)]
        found = list(documents.pages(pdf([(30, 30)] * count, levels), "x"))
        assert [page.number for page, _ in found] == list(range(1, count + 1))
        assert [int(image[5, 5, 0]) for _, image in found] == levels


def test_large_pages_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_PIXELS", 10_000)
    ((page, image),) = documents.pages(pdf([(7200, 1800)]), "x")
    assert image.shape[0] * image.shape[1] == pytest.approx(10_000, rel=0.05)
    assert image.shape[1] / image.shape[0] == pytest.approx(4, rel=0.05)
    assert page.dpi == pytest.approx(2)


def test_every_page_of_a_tiff_is_an_input(tmp_path: Path) -> None:
    path = tiff(tmp_path / "scan.tif")
    assert headers.tiff_pages(path.read_bytes()) == 3
    found = list(ImageInput().expand(str(path), 0))
    assert [each.name for each in found] == [f"{path}#{number}" for number in (1, 2, 3)]
    assert [each.item.shape for each in found] == [(20, 30, 3), (30, 30, 3), (40, 30, 3)]
    assert [each.item[0, 0].tolist() for each in found] == [[0, 0, level] for level in LEVELS]
    (single,) = ImageInput().expand(str(tiff(tmp_path / "one.tif", [7])), 0)
    assert (single.name, single.item, single.page) == (str(tmp_path / "one.tif"), tmp_path / "one.tif", None)


def test_documents_in_folders_as_bytes_and_broken_ones(tmp_path: Path) -> None:
    (tmp_path / "b.pdf").write_bytes(pdf([(72, 72)] * 2))
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7 nothing more")
    tiff(tmp_path / "c.tiff", [1, 2])
    found = [each.to_dict() for each in predict_each(Means(), [str(tmp_path)], skip_errors=None)]
    names = ["a.pdf", "b.pdf#1", "b.pdf#2", "c.tiff#1", "c.tiff#2"]
    assert [each["input"] for each in found] == [str(tmp_path / name) for name in names]
    assert "not a PDF that can be read" in found[0]["error"]
    assert [each.name for each in ImageInput().expand((tmp_path / "b.pdf").read_bytes(), 4)] == [
        "bytes 4#1",
        "bytes 4#2",
    ]
    with pytest.raises(DataError, match=r"a\.pdf: not a PDF that can be read"):
        predict(Means(), [str(tmp_path / "a.pdf")])
    with pytest.raises(DataError, match="no such file"):
        predict(Means(), [str(tmp_path / "gone.pdf")])


class Levels:
    """A file of means: a head, one a line, a tail."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.file.write(f"{name}\n".encode())

    def add(self, prediction: Any) -> None:
        self.file.write(f"{prediction.answer.value['mean']:.0f}\n".encode())

    def close(self) -> None:
        self.file.write(b"end\n")


class Formed(Mean):
    """Means that are saved in a form, too."""

    forms = (Form("levels", ".lev", "levels, one a line", Levels),)


class FormedMeans(Means):
    pipeline = Pipeline({"image": [ImageInput("gray")]}, {"mean": [Formed()]})


def test_the_pages_of_a_document_are_saved_in_one_file(tmp_path: Path) -> None:
    first, second = tiff(tmp_path / "a.tif", [0, 0]), tiff(tmp_path / "b.tif", [0, 0, 0])
    single = tmp_path / "c.png"
    cv2.imwrite(str(single), np.full((9, 9), 7, np.uint8))
    given = [str(each) for each in (first, second, single, single, second)]
    found = predict(FormedMeans(), given, save=tmp_path / "out", form="levels")
    names = ["a.lev"] * 2 + ["b.lev"] * 3 + ["c.lev", "c-2.lev"] + ["b-2.lev"] * 3
    assert [each["saved"] for each in found] == [str(tmp_path / "out" / name) for name in names]
    assert (tmp_path / "out/a.lev").read_text() == "a.tif\n0\n0\nend\n"
    assert (tmp_path / "out/c-2.lev").read_text() == "c.png\n7\nend\n"
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == sorted(set(names))


def test_what_an_error_ends_is_not_saved(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    given = [str(tiff(tmp_path / "a.tif", [0, 0])), str(tmp_path / "broken.png")]
    with pytest.raises(DataError, match=r"broken\.png"):
        predict(FormedMeans(), given, batch_size=1, save=tmp_path / "out", form="levels")
    assert list((tmp_path / "out").iterdir()) == []


def test_unknown_forms(tmp_path: Path) -> None:
    path = [str(tiff(tmp_path / "a.tif"))]
    with pytest.raises(UsageError, match="not saved as 'pdf'; it has levels"):
        predict(FormedMeans(), path, save=tmp_path, form="pdf")
    with pytest.raises(UsageError, match="not saved as 'pdf'; its answers are drawn: leave out --format"):
        predict(Means(), path, save=tmp_path, form="pdf")
    with pytest.raises(UsageError, match="--format pdf says what --save writes: add --save DIR"):
        predict(Means(), path, form="pdf")


def test_drawings_of_pages_have_their_numbers(tmp_path: Path) -> None:
    found = predict(Means(), [str(tiff(tmp_path / "scan.tif"))], save=tmp_path / "out")
    assert [Path(each["saved"]).name for each in found] == ["scan-1.png", "scan-2.png", "scan-3.png"]


def test_a_locked_pdf_says_so(tmp_path: Path) -> None:
    pikepdf = pytest.importorskip("pikepdf")
    with pikepdf.open(io.BytesIO(pdf([(72, 72)]))) as document:
        document.save(tmp_path / "locked.pdf", encryption=pikepdf.Encryption(owner="a", user="b"))
    with pytest.raises(DataError, match=r"locked\.pdf: a PDF that asks for a password; save it without one"):
        list(documents.pages(tmp_path / "locked.pdf", "locked.pdf"))


def test_wrong_resolutions_and_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="dpi=5 must be from 20 to 1200"):
        documents.pages(b"%PDF-", "x", 5)
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(UsageError, match=r"x: pages of PDF files .* not installed; pip install 'pdl-core\[pdf\]'"):
        list(documents.pages(b"%PDF-", "x"))
