"""`pdl init ocr.detection --fonts DIR`: recipes that learn from drawn pages alone."""

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
from pdl_ocr.data.fonts import coverage, font_files, letters_of
from pdl_ocr.scripts import characters_of

SMALL = [
    *(f"data.{split}.{name}" for split in ("train", "val", "test") for name in ("side=[160,240]", "height=[10,16]")),
    "data.train.count=12",
    "data.val.count=3",
    "data.test.count=3",
    "data.batch_size=4",
    "data.workers=0",
    "data.transforms.train.0.size=96",
    "data.transforms.eval.0.limit=160",
    "model.width=0.35",
    "model.channels=32",
    "train.epochs=1",
]


@pytest.fixture(scope="module")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of eight fonts of this machine with Latin letters."""
    letters = letters_of(characters_of("latin"))
    try:
        files = font_files("/usr/share/fonts")
    except DataError:
        pytest.skip("no fonts are installed here")
    folder = tmp_path_factory.mktemp("fonts")
    for path in files:
        if len(letters & coverage(path)) > 0.9 * len(letters):
            (folder / path.name).symlink_to(path)
            if len(list(folder.iterdir())) == 8:
                return folder
    pytest.skip("fewer than eight fonts with Latin letters are installed here")


def test_a_recipe_of_fonts_trains_unedited(fonts: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "words.txt").write_text("apple Berry αβγ cherry 12\n", encoding="utf-8")
    given = ["--fonts", str(fonts), "--texts", str(tmp_path / "words.txt")]
    assert main(["init", "ocr.detection", *given, "--out", str(tmp_path / "pages.yaml")]) == 0
    said = capsys.readouterr().out
    assert "latin: 247 letters" in said
    assert "3 of 5 different words of words.txt are written in latin alone and are drawn" in said
    config = load(tmp_path / "pages.yaml", SMALL)
    recipe = Recipe(config)
    assert [fault for fault in recipe.task.build().check(recipe) if fault.severity == "error"] == []
    train, val = (recipe.data.splits[split].build() for split in ("train", "val"))
    assert train.texts(0) != val.texts(0)
    if "unseen: 0.2" in (tmp_path / "pages.yaml").read_text():  # where hashes of the names put some apart
        assert not {path.name for path in train.fonts} & {path.name for path in val.fonts}
    workflow.train(config, run=tmp_path / "run", progress=False)
    assert (tmp_path / "run/report.html").is_file()
    assert isinstance(opened(tmp_path / "run/model.pdl")(train[0]["image"])["boxes"], list)


def test_words_may_be_random_and_of_another_script(fonts: Path, tmp_path: Path) -> None:
    out = init("ocr.detection", out=tmp_path / "r.yaml", fonts=str(fonts), script="vietnamese")
    data = Recipe(load(out, SMALL)).data.splits["train"].build()
    assert set("".join(text for i in range(12) for text in data.texts(i))) <= {*characters_of("vietnamese"), " "}


def test_what_cannot_be_drawn_is_told(fonts: Path, tmp_path: Path) -> None:
    def refused(message: str, kind: type[Exception], **settings: Any) -> None:
        with pytest.raises(kind, match=message):
            init("ocr.detection", out=tmp_path / "r.yaml", **settings)

    good = {"fonts": str(fonts)}
    refused("'latn' is no script.*did you mean 'latin'", UsageError, **good, script="latn")
    refused("no font files .* are there; --fonts names", UsageError, fonts=str(tmp_path))
    refused(r"none of 8 fonts has 50% of the \d+ letters", DataError, **good, script="kana")
    refused("no such file; --texts names", UsageError, **good, texts=str(tmp_path / "none.txt"))
    refused("--data and --fonts are two recipes", UsageError, **good, data=tmp_path)
    refused("--script belongs to --fonts", UsageError, script="latin")
    refused("--texts belongs to --fonts", UsageError, texts="words.txt")
    refused(r"what is to be learned\?", UsageError)
    assert not (tmp_path / "r.yaml").exists()
