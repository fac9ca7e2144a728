"""A model of sessions in use: predictions of run and bundle, the bundle itself, csv to csv."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl.runtime
import pdl.train
from pdl.cli import main
from pdl.config import from_dict
from pdl.errors import DataError
from pdl.runtime.bench import bench
from pdl.runtime.info import info
from pdl.workflow.exporting import export
from pdl.workflow.run import Run
from pdl.workflow.selftest.compare import differences
from tests.rec.next_item.made import recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("use")
    cfg = recipe(folder, train={"epochs": 3, "export": True})
    pdl.workflow.train(from_dict(cfg), run=folder / "run", progress=False)
    return folder / "run"


def items_of(prediction: dict[str, Any]) -> list[str]:
    return [each["item"] for each in prediction["items"]]


SESSIONS = ["item3", "item4,item5", "item1,item2,item3,nothing", ["item9", "item10", "item11", "item0", "item1"] * 3]


def test_run_and_bundle_answer_the_same(run: Path) -> None:
    ours = pdl.workflow.predict(run, SESSIONS, topk=5)
    theirs = pdl.workflow.predict(run / "model.pdl", SESSIONS, topk=5)
    assert differences(ours, theirs).lines == []
    assert [len(each["items"]) for each in ours] == [5] * 4
    assert [each.get("unknown") for each in ours] == [None, None, ["nothing"], None]
    assert ours[0]["input"] == "item3"
    assert items_of(ours[1])[0] == "item6", "item k is followed by k + 1 in this data"
    assert len(pdl.workflow.predict(run, ["item3"])[0]["items"]) == 12, "by default 20, or as many as there are"


def test_scores_are_those_of_the_model(run: Path) -> None:
    opened = Run.open(run).opened()
    task, model = opened.task, opened.model.eval()
    items = task.vocabularies["items"]
    scores = model(pdl.as_tensor(items.encode(["item4", "item5"])[None])).detach().numpy()[0]
    (found,) = pdl.workflow.predict(run, ["item4,item5"], topk=3)
    order = 1 + np.argsort(-scores[1:], kind="stable")[:3]
    assert items_of(found) == [items.decode(int(n)) for n in order]
    assert [each["score"] for each in found["items"]] == pytest.approx(scores[order].tolist(), abs=1e-5)


def test_the_bundle_measures_what_the_run_does(run: Path) -> None:
    ours, theirs = (pdl.workflow.evaluate(each).metrics for each in (run, run / "model.pdl"))
    assert ours.keys() == theirs.keys()
    assert list(theirs.values()) == pytest.approx(list(ours.values()), abs=1e-5)


def test_what_the_bundle_says_of_itself(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    assert session.bundle is not None
    assert [str(port) for port in session.inputs] == ["items int64[n, t]"]
    assert len(session.bundle.vocabularies["items"]) == 12
    card = session.bundle.card
    assert "full ranking over 12 items, ties count against the target" in card
    assert "up to their 6 newest items" in card
    assert "| test/recall@1 |" in card
    steps = info(run / "model.pdl")["before"]["items"]
    assert "columns=[session_id, item_id, timestamp]" in steps
    assert bench(run / "model.pdl", batch=2, seconds=0.01, sizes={"t": 5}).inputs == {"items": (2, 5)}


def test_baselines_stand_beside_the_model(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads((run / "result.json").read_text())
    shown = {f"test/{kind}@{k}" for kind in ("recall", "mrr") for k in (1, 5)}
    assert all(shown <= metrics.keys() <= result["metrics"].keys() for metrics in result["baselines"].values())
    rules, popular = (result["baselines"][name]["test/recall@1"] for name in ("sequential_rules", "popularity"))
    assert rules > 0.9 > popular, "item k is followed by k + 1"
    bundle = pdl.runtime.load(run / "model.pdl").bundle
    assert bundle is not None
    assert f"{result['metrics']['test/recall@1']:.4f} | {popular:.4f} | {rules:.4f} |" in bundle.card
    assert main(["eval", str(run / "model.pdl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baselines"] == result["baselines"], "measured anew, and the same"


def test_items_of_the_session_are_left_out_where_the_task_says_so(run: Path, tmp_path: Path) -> None:
    cfg = recipe(tmp_path, task={"self_recommendation": False}, train={"epochs": 1, "export": True})
    pdl.workflow.train(from_dict(cfg), run=tmp_path / "run", progress=False)
    ours = pdl.workflow.predict(tmp_path / "run", ["item4,item5"])
    (theirs,) = pdl.workflow.predict(tmp_path / "run" / "model.pdl", ["item4,item5"])
    assert differences(ours, [theirs]).lines == []
    assert set(items_of(theirs)) == {f"item{k}" for k in range(12)} - {"item4", "item5"}


def test_export_without_the_data_and_in_halves(run: Path, tmp_path: Path) -> None:
    made = export(run, tmp_path / "half.pdl", store="bf16")
    assert any(name.startswith("test/") for name, _ in made.facts), "what rounding costs is measured"
    assert "grey" not in str(made.facts)
    config = (run / "config.yaml").read_text()
    try:
        (run / "config.yaml").write_text(config.replace(".csv", ".gone.csv"))
        made = export(run, tmp_path / "again.pdl")
    finally:
        (run / "config.yaml").write_text(config)
    assert any("made-up samples" in note for note in made.notes)
    (ours,) = pdl.workflow.predict(run, ["item4"])
    (theirs,) = pdl.workflow.predict(tmp_path / "again.pdl", ["item4"])
    assert differences([ours], [theirs]).lines == []


def test_from_csv_to_csv(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [("b", "item2", 9), ("a", "item7", 1), ("b", "item1", 3), ("c", "kiwi", 1), ("a", "plum", 2)]
    Path("in.csv").write_text("timestamp,session_id,item_id\n" + "".join(f"{t},{s},{i}\n" for s, i, t in rows))
    written = []
    for model in (run, run / "model.pdl"):
        assert main(["predict", str(model), "in.csv", "--out", "out.csv", "--topk", "2"]) == 0
        said = capsys.readouterr()
        assert "1 of 3 inputs have no answer" in said.err
        with Path("out.csv").open(newline="") as file:
            written.append([(row["session"], row["rank"], row["item"]) for row in csv.DictReader(file)])
    assert written[0] == written[1]
    assert [row[:2] for row in written[0]] == [("b", "1"), ("b", "2"), ("a", "1"), ("a", "2")]
    assert written[0][0][2] == "item3"


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suggested = json.loads((run / "result.json").read_text())["next"].split()
    assert suggested[:2] == ["pdl", "predict"]
    assert main([*suggested[1:], "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert len(found["items"]) == 12
    assert main(["predict", str(run), "--session", "itm3"]) == 3
    assert "the item itm3 is not among the 12 that the model knows; did you mean 'item3'?" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"absent\.csv: cannot be read"):
        pdl.workflow.predict(run, [Path("absent.csv")])
