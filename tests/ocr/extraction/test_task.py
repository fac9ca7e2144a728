"""The task: training, the bundle, what `pdl check` and `pdl init` make of pages with fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config.compose import load
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.train.assembly import assemble
from pdl.workflow.new_recipe import init
from pdl_ocr import LineTransformer
from pdl_ocr.data.standin import receipt, write_receipts
from pdl_ocr.extraction.metrics import FieldAnswer, f1

SMALL = ["data.workers=0", "model.dim=32", "model.layers=1", "model.dropout=0.0"]


def lines_of(rows: list[tuple[str, int, int]]) -> dict[str, Any]:
    """Lines at places as a reader tells them."""
    boxes = [(x, y, x + 9 * len(text), y + 16) for text, x, y in rows]
    polygons = [[[a, b], [c, b], [c, d], [a, d]] for a, b, c, d in boxes]
    return {"lines": [{"text": row[0], "polygon": polygon} for row, polygon in zip(rows, polygons, strict=True)]}


def test_a_recipe_is_written_learns_and_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`pdl init`, train, and the bundle on a receipt that it has not seen, whatever the order of its lines."""
    data = write_receipts(tmp_path, "train")
    recipe = init("ocr.extraction", data=data, out=tmp_path / "recipe.yaml")
    fast = ["train.epochs=30", "data.batch_size=8", "optim.lr=5.0e-3", "train.ema=null"]
    done = workflow.train(load(recipe, [*fast, *SMALL]), run=tmp_path / "run", progress=False)
    assert done.metrics["test/f1"] > 0.8
    assert set(done.metrics) >= {"test/exact", "test/f1/company", "test/f1/date", "test/f1/total"}
    rows, fields = receipt(SampleRandom(2, 1, 5))  # as those of validation: others than in training
    page = lines_of(rows)
    session = opened(tmp_path / "run/model.pdl")
    found = session(page)["fields"]
    assert {name: each["text"] for name, each in found.items()} == fields
    assert [rows[i][0] for i in found["date"]["lines"]] == [f"DATE: {fields['date']}"]
    turned = {"lines": page["lines"][::-1]}
    assert {name: each["text"] for name, each in session(turned)["fields"].items()} == fields
    (tmp_path / "pages.json").write_text(json.dumps([{"input": "a.png", **page}, {"input": "b.png", **turned}]))
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "pages.json"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(each["input"], each["fields"]["total"]["text"]) for each in said] == [
        ("a.png", fields["total"]), ("b.png", fields["total"]),
    ]  # fmt: skip
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "pages.json"), "--score", "1"]) == 0


def test_rare_fields_are_left_out_whatever_they_are_called(tmp_path: Path) -> None:
    data = write_receipts(tmp_path, "train")
    file = next(data.glob("key/*"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "x\nmodel: {_target_: os.system}": "1", "it's": "2"}))
    recipe = init("ocr.extraction", data=data, out=tmp_path / "recipe.yaml")
    made = load(recipe)
    assert made["task"]["fields"] == ["company", "date", "total"]
    assert made["model"]["_target_"] == "pdl_ocr.LineTransformer"


def test_few_pages_are_cut_so_that_no_split_is_empty(tmp_path: Path) -> None:
    for count in range(14, 20):
        data = write_receipts(tmp_path / str(count), "train")
        for file in sorted(data.glob("box/*"))[count:]:
            file.unlink()
        recipe = init("ocr.extraction", data=data, out=tmp_path / f"{count}.yaml")
        made = Recipe(load(recipe)).data.datasets(["train", "val", "test"])
        assert sum(map(len, made.values())) == count
        assert all(map(len, made.values()))


def test_every_weight_has_a_gradient_and_padding_changes_nothing(tmp_path: Path) -> None:
    recipe = Recipe(load("ocr/page_fields", [f"data.train.path={write_receipts(tmp_path, 'train')}", *SMALL]))
    task = recipe.task.build()
    parts = assemble(task, recipe)
    batch: Any = next(iter(parts.loaders["train"]))
    task.step(parts.model, batch).value.backward()
    none = [
        name for name, p in parts.model.named_parameters() if p.grad is None or not np.abs(p.grad.numpy()).max() > 0
    ]
    assert none == ["absent.weight", "absent.bias"] or none == []
    parts.model.eval()
    characters, boxes = (pdl.as_tensor(batch[name]) for name in ("characters", "boxes"))
    more = pdl.concat([characters, characters * 0], axis=1), pdl.concat([boxes, boxes * 0], axis=1)
    with pdl.no_grad():
        a, b = parts.model(characters, boxes).numpy(), parts.model(*more).numpy()
    places = characters.shape[1] * characters.shape[2]
    real = batch["characters"].reshape(len(a), -1) > 0
    np.testing.assert_allclose(b[:, :places][real], a[:, :-1][real], atol=2e-5)
    np.testing.assert_allclose(b[:, -1], a[:, -1], atol=2e-5)


def test_the_loss_is_what_its_formula_says(tmp_path: Path) -> None:
    recipe = Recipe(load("ocr/page_fields", [f"data.train.path={write_receipts(tmp_path, 'train')}", *SMALL]))
    task = recipe.task.build()
    batch: Any = next(iter(assemble(task, recipe).loaders["train"]))
    rng = np.random.default_rng(0)
    logits = rng.standard_normal(batch["targets"].shape).astype(np.float32)
    found = {name: float(value.numpy()) for name, value in task.losses(pdl.as_tensor(logits), batch).items()}
    place, inside = [], []
    for scores, wanted, allowed, letters in zip(
        logits.astype(np.float64), batch["targets"], batch["allowed"], batch["characters"], strict=True
    ):
        for f in range(3):
            for side in range(2):
                p = np.exp(scores[:, 3 * side + f]) * allowed[:, side]
                place.append(-np.log((p * wanted[:, 3 * side + f]).sum() / p.sum()))
            p = 1 / (1 + np.exp(-scores[:-1, 6 + f]))
            y = wanted[:-1, 6 + f]
            real = letters.ravel() > 0
            inside.append(-np.log(np.where(y > 0, p, 1 - p))[real].mean())
    assert found["place"] == pytest.approx(2 * np.mean(place) / 2, rel=1e-4)
    assert found["inside"] == pytest.approx(5 * np.mean(inside), rel=1e-4)


def test_values_within_words_are_learned_where_a_reader_lost_spaces(tmp_path: Path) -> None:
    data = write_receipts(tmp_path, "train")
    for file in data.glob("box/*"):
        rows = [row.rsplit(",", 1) for row in file.read_text().splitlines()]
        joined = [f"{place},{text.replace(' ', '')}{'8:13' if 'DATE' in text else ''}" for place, text in rows]
        file.write_text("\n".join(joined) + "\n")
    task = (recipe := Recipe(load("ocr/page_fields", [f"data.train.path={data}", *SMALL]))).task.build()
    batch: Any = next(iter(assemble(task, recipe).loaders["train"]))
    assert task.whole is False
    assert task.step_arguments["whole"] is False
    assert batch["known"].all()


def test_f1_counts_what_is_there_and_what_was_found() -> None:
    answers = [
        FieldAnswer(0, "a", "RM 9.00", "rm9.00", 0.9),  # right by letters and digits
        FieldAnswer(0, "b", "", "x", 0.9),
        FieldAnswer(1, "a", "y", "", 0.9),
        FieldAnswer(1, "b", "", "", 0.9),
    ]
    assert not FieldAnswer(0, "a", "", ".", 0.9).right
    assert f1(answers) == pytest.approx(2 / 4)
    assert f1(answers, exact=True) == 0


def test_check_tells_what_is_wrong_with_pages(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir()
    rows = ["image,total,shop"]
    for i in range(30):
        (tmp_path / f"{i}.png").write_bytes(b"")
        said = "" if i == 20 else f"1,2,41,2,41,12,1,12,TOTAL {i}.00\n"
        (tmp_path / "box" / f"{i}.txt").write_text(said)
        rows.append(f"{i}.png,{i}.00,{'a' if i == 4 else ''}")
    (tmp_path / "fields.csv").write_text("\n".join(rows))
    recipe = Recipe(load("ocr/page_fields", [f"data.train.path={tmp_path}"]))
    said = " ".join(str(each) for each in recipe.task.build().check(recipe))
    for words in ("the shop 'a' does not stand on the page", "20.png", "has no line with a text"):
        assert words in said
    assert "the total" not in said


def test_data_that_cannot_teach_is_an_error(tmp_path: Path) -> None:
    data = write_receipts(tmp_path, "train")
    for wrong, said in (
        (["task.fields=[tip]"], "has no value of tip"),
        (["model.fields=2"], r"model.fields=2, but the data has 3"),
        (["model={_target_: pdl_ocr.DB}"], "is no pdl_ocr.LineTransformer"),
    ):
        config = load("ocr/page_fields", [f"data.train.path={data}", *wrong])
        with pytest.raises((ConfigError, DataError), match=said):
            workflow.train(config, run=tmp_path / "run", progress=False)
    for file in data.glob("key/*"):
        file.write_text('{"company": "NOWHERE"}')
    with pytest.raises(DataError, match="no value of company stands on its page"):
        workflow.train(load("ocr/page_fields", [f"data.train.path={data}"]), run=tmp_path / "other", progress=False)
    few = write_receipts(tmp_path / "few", "test")
    for file in list(few.glob("box/*"))[3:]:
        file.unlink()
    with pytest.raises(DataError, match="pages for training; at least 10 are needed"):
        init("ocr.extraction", data=few, out=tmp_path / "recipe.yaml")


def test_the_net_is_told_shapes_that_it_cannot_take() -> None:
    net = LineTransformer(vocab_size=9, fields=2, dim=16, heads=2)
    with pytest.raises(pdl.errors.ShapeError, match=r"expected \[N, P, C\], \[N, P, 4\]"):
        net(pdl.zeros((1, 8, 24), dtype="int64"), pdl.zeros((1, 8, 2)))
