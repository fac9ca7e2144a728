"""`pdl init ocr.recognition --script NAME --fonts DIR`: recipes that learn from drawn lines alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdl import workflow
from pdl.cli import main
from pdl.config.compose import load
from pdl.errors import DataError, UsageError
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.workflow.new_recipe import init
from pdl_ocr.data.fonts import able_to_write, coverage, font_files
from pdl_ocr.data.standin import write_list
from pdl_ocr.scripts import characters_of

GREEK = "αλφα βητα Γαμμα δελτα 12 γάμμα abc\n"


@pytest.fixture(scope="module")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of nine fonts of this machine with Greek letters, and of one from which these are cut."""
    subset = pytest.importorskip("fontTools.subset")
    try:
        files = font_files("/usr/share/fonts")
        able = able_to_write(files, characters_of("greek"), 0.9)
    except DataError:
        pytest.skip("no fonts with Greek letters are installed here")
    if len(able) < 9:
        pytest.skip("fewer than nine fonts with Greek letters are installed here")
    folder = tmp_path_factory.mktemp("fonts")
    for path in able[:: len(able) // 9][:9]:
        (folder / path.name).symlink_to(path)
    subset.main([str(able[0]), "--unicodes=20-7e", "--layout-features=", f"--output-file={folder / 'latin.ttf'}"])
    assert "π" not in coverage(folder / "latin.ttf")
    return folder


SMALL = [f"data.{split}.count={count}" for split, count in (("train", 64), ("val", 16), ("test", 16))]


def test_a_recipe_for_a_script_trains_unedited(fonts: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "words.txt").write_text(GREEK, encoding="utf-8")
    given = ["--script", "greek", "--fonts", str(fonts), "--texts", str(tmp_path / "words.txt")]
    assert main(["init", "ocr.recognition", *given, "--out", str(tmp_path / "greek.yaml")]) == 0
    said = capsys.readouterr().out
    assert "9 of 10 fonts have" in said
    assert "5 of 7 different words of words.txt are written in greek alone" in said
    config = load(tmp_path / "greek.yaml", [*SMALL, "train.epochs=1"])
    recipe = Recipe(config)
    assert [fault for fault in recipe.task.build().check(recipe) if fault.severity == "error"] == []
    train, val = (recipe.data.splits[split].build() for split in ("train", "val"))
    if "unseen: 0.2" in (tmp_path / "greek.yaml").read_text():  # where hashes of the names put some apart
        assert not {path.name for path in train.fonts} & {path.name for path in val.fonts}
    assert set(" ".join(train.texts)) <= set(characters_of("greek")) | {" "}
    workflow.train(config, run=tmp_path / "run", progress=False)
    assert opened(tmp_path / "run/model.pdl").bundle.labels == [*characters_of("greek"), " "]


def test_without_texts_words_are_random_and_apart(fonts: Path, tmp_path: Path) -> None:
    recipe = Recipe(load(init("ocr.recognition", out=tmp_path / "r.yaml", script="greek", fonts=str(fonts)), SMALL))
    texts = recipe.data.splits["train"].build().texts
    assert all(1 <= len(text) <= 16 and text == " ".join(text.split()) for text in texts)
    assert any(" " in text for text in texts)
    letters = [c for text in texts for c in text if c != " "]
    assert 0.7 < sum(c.isalpha() or not c.isascii() for c in letters) / len(letters) < 0.95


def test_a_recipe_may_begin_with_a_net_that_reads(fonts: Path, tmp_path: Path) -> None:
    begun = {"pretrained": "ocr/ppocr_v6_rec_tiny"}
    expected = {"_target_": "pdl_ocr.PPOCRv6Recogniser", "size": "tiny", **begun}
    for settings in ({"script": "greek", "fonts": str(fonts)}, {"data": write_list(tmp_path, "train")}):
        config = load(init("ocr.recognition", out=tmp_path / "r.yaml", force=True, **begun, **settings))
        assert config["model"] == expected
        assert config["data"]["transforms"]["train"][-3]["height"] == 48
        assert config["task"].get("shortest_first", False) is False


def test_what_cannot_be_drawn_is_told(fonts: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("only latin 12", encoding="utf-8")

    def refused(message: str, kind: type[Exception], **settings: Any) -> None:
        with pytest.raises(kind, match=message):
            init("ocr.recognition", out=tmp_path / "r.yaml", **settings)

    good = {"script": "greek", "fonts": str(fonts)}
    refused("'grek' is no script.*did you mean 'greek'", UsageError, script="grek", fonts=str(fonts))
    refused(r"which fonts\? --fonts DIR", UsageError, script="greek")
    refused("no font files .* are there; --fonts names", UsageError, script="greek", fonts=str(tmp_path))
    refused(
        r"none of 10 fonts has 50% of the \d+ letters .*; .* has the most, \d+", DataError, **good | {"script": "kana"}
    )
    refused("none of its 3 words has letters of greek", DataError, **good, texts=str(words))
    refused("no such file; --texts names", UsageError, **good, texts=str(tmp_path / "none.txt"))
    refused("--data and --script are two recipes", UsageError, **good, data=tmp_path)
    refused("--fonts belongs to --script", UsageError, fonts=str(fonts))
    close = "ocr/ppocr_v4_re"
    refused(f"--pretrained {close}: .*did you mean '{close}c'", UsageError, **good, pretrained=close)
    refused(r"what is to be learned\?", UsageError)
    assert not (tmp_path / "r.yaml").exists()
