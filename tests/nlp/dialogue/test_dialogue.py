"""Dialogues: what is read, who is a candidate, measures, and the whole way to a bundle that one can talk with."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl_nlp.data import standin
from pdl_nlp.dialogue.loader import Exchanges, candidates, replies_of
from pdl_nlp.dialogue.metrics import Places, dialogue_metrics
from pdl_nlp.steps.turns import spoken
from pdl_nlp.tokenizers import BERT, Words
from pdl_nlp.tokenizers.base import BERT_PAIR, BERT_SINGLE

WORDS = Words([*BERT.values(), "a", "b", "c"], special=BERT, single=BERT_SINGLE, pair=BERT_PAIR)  # a: 5


def test_turns_are_read_with_who_speaks() -> None:
    found = spoken(WORDS, ["a", "b c", "c"], 20)
    assert found.encoding.ids.tolist() == [2, 5, 3, 6, 7, 3, 7, 3]
    assert found.segments.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]
    short = spoken(WORDS, ["a", "b c", "c"], 5)
    assert short.encoding.ids.tolist() == [2, 7, 3, 7, 3]
    assert short.segments.tolist() == [0, 1, 1, 0, 0]
    reply = spoken(WORDS, ["a b c"], 4, reply=True)
    assert reply.encoding.ids.tolist() == [2, 5, 6, 3]
    assert reply.segments.tolist() == [1] * 4
    plain = Words(["?", "a", "b"], special={"unknown": "?"})
    assert spoken(plain, ["a", "b a"], 2).encoding.ids.tolist() == [2, 1]


def test_every_turn_behind_the_first_is_a_reply() -> None:
    before, replies = replies_of([["a", "b", "c"], ["b"], ["c", "a"]], 1)
    assert (before, replies) == ([["a"], ["b"], ["c"]], ["b", "c", "a"])
    assert replies_of([["a", "b", "c"]], 5)[0] == [["a"], ["a", "b"]]
    data = Exchanges([["a"], ["a", "b c"]], ["b", "a"], WORDS, 16)
    batch = data.get_batch(np.array([0, 1]))
    assert batch["tokens"][0].tolist()[:4] == [2, 5, 3, 0]
    assert batch["reply"].shape == batch["reply_segments"].shape == (2, 8)
    with pytest.raises(DataError, match="no reply to learn from"):
        Exchanges([], [], WORDS, 16)


def test_candidates_are_other_texts() -> None:
    replies = ["x", "y", "x", "z", "w", "v"]
    drawn = candidates(replies, 4, 0)
    assert drawn[:, 0].tolist() == list(range(6))
    assert all(len({replies[at] for at in row}) == 4 for row in drawn.tolist())
    assert (drawn == candidates([0, 1, 0, 3, 4, 5], 4, 0)).all()
    assert (drawn != candidates(replies, 4, 1)).any()
    assert candidates(["x", "x"], 10, 0).shape == (2, 1)


def test_equal_scores_are_in_random_order() -> None:
    scores = np.array([[3.0, 1, 2], [1, 1, 1], [1, 2, 1]])
    found = Places(scores).measured()
    assert found["recall@1"] == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert found["recall@2"] == pytest.approx((1 + 2 / 3 + 1 / 2) / 3)
    assert found["mrr"] == pytest.approx((1 + (1 + 1 / 2 + 1 / 3) / 3 + (1 / 2 + 1 / 3) / 2) / 3)


def test_measures_do_not_depend_on_batches() -> None:
    rng = np.random.default_rng(0)
    turns, replies = rng.standard_normal((2, 30, 5))
    texts = np.arange(30) % 20
    found = []
    for batches in ([np.arange(30)], np.array_split(rng.permutation(30), 4)):
        metrics = dialogue_metrics(10, 3)
        for index in batches:
            for metric in metrics.values():
                metric.update(turns[index], replies[index], index, texts[index])
        found.append({name: metric.compute() for name, metric in metrics.items() if name != "scores"})
    assert found[0] == pytest.approx(found[1])
    drawn = candidates(texts.tolist(), 10, 3)
    scores = np.einsum("nc,nkc->nk", turns, replies[drawn])
    assert found[0]["recall@1"] == pytest.approx((scores.argmax(axis=1) == 0).mean())


def recipe(folder: Path, **task: Any) -> dict[str, Any]:
    data = {
        split: {
            "_target_": "pdl_nlp.data.DialogueFile",
            "path": str(standin.write_dialogues(folder, {"path": f"{split}.txt"})),
        }
        for split in ("train", "val", "test")
    }
    return {
        "task": {"_target_": "pdl_nlp.Dialogue", "max_length": 32, **task},
        "model": {"_target_": "pdl_nlp.SentenceEncoder", "dim": 24, "layers": 1, "heads": 2, "dropout": 0.0},
        "data": {**data, "batch_size": 32},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.01},
        "train": {"epochs": 4},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dialogues")
    workflow.train(from_dict(recipe(folder)), run=folder / "run")
    return folder / "run"


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    assert result["metrics"]["test/mrr"] > 0.4 > 0.29  # by chance 0.293
    assert result["metrics"]["test/recall@1"] <= result["metrics"]["test/recall@5"]
    assert result["baselines"].keys() == {"popularity", "TF-IDF", "BM25"}
    of_bundle = workflow.evaluate(run / "model.pdl", split="test").metrics
    assert of_bundle["test/recall@1"] == pytest.approx(result["metrics"]["test/recall@1"], abs=0.02)
    page = (run / "report.html").read_text()
    assert "Replies by turns that are known" in page


def test_one_can_talk_with_the_bundle(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    turns = ["hello .", "how was the room ?"]
    found = session(turns)["found"]
    assert session("\t".join(turns))["found"] == found == session({"turns": turns})["found"]
    assert [each["score"] for each in found] == sorted((each["score"] for each in found), reverse=True)
    ours = workflow.predict(run, [turns], topk=3)[0]["found"]
    assert [each["text"] for each in ours] == [each["text"] for each in found[:3]]
    monkeypatch.setattr("sys.stdin", io.StringIO("hello .\nhow was the room ?\n"))
    assert main(["chat", str(run / "model.pdl"), "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said[0]["text"] == session("hello .")["found"][0]["text"]
    assert said[1]["text"] == session(["hello .", said[0]["text"], "how was the room ?"])["found"][0]["text"]
    (tmp_path / "lines.txt").write_text(f"{found[0]['text']}\n{found[-1]['text']}\n")
    assert main(["chat", str(run / "model.pdl"), *turns[1:], "--search", str(tmp_path / "lines.txt")]) == 0
    assert capsys.readouterr().out.strip() in {found[0]["text"], found[-1]["text"]}
    with pytest.raises(DataError, match="expected turns"):
        session(3)


def test_what_is_no_dialogue_is_refused(tmp_path: Path) -> None:
    lines = standin.write(tmp_path / "lines.txt", ["a text", "another"] * 20)
    tree = recipe(tmp_path)
    tree["data"]["train"] = {"_target_": "pdl_nlp.data.PlainText", "path": str(lines)}
    with pytest.raises(DataError, match="dialogues have turns; this data has text"):
        workflow.train(from_dict(tree), run=tmp_path / "run")
    tree = recipe(tmp_path)
    tree["model"]["segments"] = 1
    with pytest.raises(ConfigError, match="told from turns by two segments"):
        workflow.train(from_dict(tree), run=tmp_path / "other")


def test_a_recipe_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = standin.write_dialogues(tmp_path, {"path": "talk.txt"})
    assert main(["init", "nlp.dialogue", "--data", str(data), "--out", str(tmp_path / "r.yaml")]) == 0
    assert Recipe(load(tmp_path / "r.yaml")).task.target == "pdl_nlp.Dialogue"
    capsys.readouterr()
    assert main(["check", "-c", str(tmp_path / "r.yaml")]) == 0, capsys.readouterr()
