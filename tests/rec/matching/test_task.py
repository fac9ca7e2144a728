"""The task of matching, whole: recipes on a little data that is drawn, training that falls, resuming, predicting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
import pdl.runtime
from pdl.config import from_dict
from pdl.errors import ConfigError, DataError
from pdl.train import Hook
from pdl.workflow import Run, evaluate, predict, train
from pdl.workflow.exporting import export
from pdl_rec.data import Atomic, interactions_of, vocabulary_of

RATIOS = {"train": 0.8, "val": 0.1, "test": 0.1}
READS = {"user_fields": ["age"], "item_fields": ["class"]}
HISTORY = {"_target_": "pdl_rec.YouTubeDNN", "dim": 16, "layers": [16]}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bpr": ({"_target_": "pdl_rec.BPRMF", "dim": 16}, {"num_negatives": 4, "l2": 1e-3}),
    "ncf": ({"_target_": "pdl_rec.NCF", "dim": 8, "layers": [16, 8]}, {"loss": "bce", "num_negatives": 4}),
    "youtube_dnn": (HISTORY, {"loss": "softmax", "negatives": "all", "history": 10}),
    "youtube_dnn sampled": (
        {**HISTORY, "example_age": True},
        {"loss": "softmax", "negatives": "shared", "num_negatives": 30, "user_fields": ["age"], "history_of": "before"},
    ),
    "dssm": (
        {"_target_": "pdl_rec.DSSM", "history": True, "identity": True, "dim": 16, "layers": [16]},
        {"loss": "softmax", "negatives": "in_batch", "trigrams": 200, **READS},
    ),
    "simnet": (
        {"_target_": "pdl_rec.SimNet", "history": True, "hidden": 16, "dim": 16},
        {"loss": "hinge", "margin": 0.3, "num_negatives": 4, **READS},
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("atomic")
    Atomic.stand_in(folder, {"name": "shop", **READS})
    return folder


def recipe(root: Path, kind: str, **settings: Any) -> dict[str, Any]:
    model, task = KINDS[kind]
    data = {"_target_": "pdl_rec.data.Atomic", "root": str(root), "name": "shop", "ratios": RATIOS, **READS}
    return {
        "task": {"_target_": "pdl_rec.Matching", "cutoffs": [10], **task},
        "model": model,
        "data": {
            **{split: {**data, "split": split} for split in ("train", "val", "test")},
            "batch_size": 256,
            "eval_batch_size": 128,
            "workers": 1,
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 5e-3},
        "train": {"epochs": 3, "export": False, "report": False, **settings},
    }


def losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["train/loss"] for line in lines if line["kind"] == "epoch"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_recipe_trains_is_resumed_measured_and_used(root: Path, tmp_path: Path, kind: str) -> None:
    whole = train(from_dict(recipe(root, kind)), run=tmp_path / "whole", progress=False)
    fell, steps = losses(tmp_path / "whole"), whole.steps // 3
    assert fell[-1] < fell[0]
    assert 0 < whole.metrics["test/recall@10"] < 1
    config = from_dict(recipe(root, kind, checkpoint_every=steps + 2))

    class Stop(Hook):
        def on_step(self, trainer: Any) -> None:
            if trainer.state.step == steps + 3:  # in the second epoch, one step behind a checkpoint
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, run=tmp_path / "broken", progress=False, hooks=[Stop()])
    resumed = train(config, run=tmp_path / "broken", resume=True, progress=False)
    assert resumed.metrics == whole.metrics, "a resumed run ends with the same bits"
    again = evaluate(tmp_path / "whole")
    assert again.metrics["test/recall@10"] == whole.metrics["test/recall@10"]
    (answer,) = predict(tmp_path / "whole", [_example(kind)], topk=3)
    assert [set(each) for each in answer["items"]] == [{"item", "score"}] * 3
    assert answer["items"][0]["score"] >= answer["items"][1]["score"]


def _example(kind: str) -> str:
    return "1,2,3" if kind == "youtube_dnn" else "7"


def test_a_run_leaves_out_what_a_user_had_and_its_bundle_does_not_know(root: Path, tmp_path: Path) -> None:
    train(from_dict(recipe(root, "bpr", export=True)), run=tmp_path / "run", progress=False)
    (answer,) = predict(tmp_path / "run", ["7"], topk=100)
    (tmp_path / "users.txt").write_text("7\n")
    assert predict(tmp_path / "run", [["7"], tmp_path / "users.txt"], topk=100) == [answer, answer]
    (every,) = predict(tmp_path / "run" / "model.pdl", ["7"], topk=100)
    lines = (root / "shop.inter").read_text().splitlines()
    had = {line.split("\t")[1] for line in lines if line.startswith("7\t")}
    got, missing = {each["item"] for each in answer["items"]}, {each["item"] for each in every["items"]}
    assert missing - got <= had
    assert missing - got
    with pytest.raises(DataError, match="user 'nobody' is not among the 300 that training had"):
        predict(tmp_path / "run", ["nobody"])


def test_a_run_answers_where_its_data_is_gone_and_says_what_it_does_not_know(root: Path, tmp_path: Path) -> None:
    config = recipe(root, "bpr")
    copied = tmp_path / "copy"
    copied.mkdir()
    for file in root.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    for split in ("train", "val", "test"):
        config["data"][split]["root"] = str(copied)
    train(from_dict(config), run=tmp_path / "run", progress=False)
    for file in copied.iterdir():
        file.unlink()
    (answer,) = predict(tmp_path / "run", ["7"], topk=3)
    assert len(answer["items"]) == 3
    assert "not left out" in answer["note"]


def test_a_query_may_be_a_mapping(root: Path, tmp_path: Path) -> None:
    train(from_dict(recipe(root, "dssm")), run=tmp_path / "run", progress=False)
    by_hand = {"history": ["3", "4", "no such item"], "age": "2"}
    one, same, named = predict(tmp_path / "run", [by_hand, json.dumps(by_hand), "7"], topk=5)
    assert one["items"] == same["items"]
    assert one["unknown"] == ["no such item"]
    assert not {"3", "4"} & {each["item"] for each in one["items"]}
    assert named["items"] != one["items"]
    (tmp_path / "rows.csv").write_text('history,age\n"3,4,no such item",2\n')
    (of_file,) = predict(tmp_path / "run", [tmp_path / "rows.csv"], topk=5)
    assert of_file["items"] == one["items"]
    with pytest.raises(DataError, match="none of the columns user, history, age"):
        predict(tmp_path / "run", [{"colour": "red"}])
    with pytest.raises(DataError, match="says nothing of 'age'; the model reads history, age"):
        predict(tmp_path / "run", [{"history": "3,4"}])


def test_overfit_learns_a_few_samples_by_heart(root: Path, tmp_path: Path) -> None:
    config = recipe(root, "bpr")
    config["task"] |= {"loss": "softmax", "negatives": "all", "l2": 0.0}
    config["optim"]["lr"] = 3e-2
    train(from_dict(config), run=tmp_path / "run", overfit=8, progress=False)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"task.negatives": "all", "task.loss": "bpr"}, "negatives=all goes with loss=softmax"),
        ({"task.user_fields": ["age"]}, "BPRMF does not read age"),
        ({"task.user_fields": ["height"]}, "'height'"),
        ({"model": {"_target_": "pdl_rec.SASRec"}}, "is no pdl_rec.MatchingModel"),
    ],
)
def test_what_does_not_fit_is_told_before_training(
    root: Path, tmp_path: Path, changes: dict[str, Any], fault: str
) -> None:
    config = recipe(root, "bpr")
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if name:
            config[section][name] = value
        else:
            config[section] = value
    with pytest.raises(ConfigError, match=fault):
        train(from_dict(config), run=tmp_path / "run", progress=False)


def test_the_loss_of_an_evaluation_is_the_cross_entropy_of_what_is_relevant() -> None:
    from pdl.ranking import Lists
    from pdl_rec import Matching

    class Fixed(pdl.nn.Module):
        def forward(self, query: Any) -> Any:
            return pdl.as_tensor(scores)

    scores = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    relevant = Lists.of_pairs(np.array([0, 0, 1]), np.array([1, 2, 5]), 2)
    excluded = Lists.of_pairs(np.array([1]), np.array([3]), 2)
    batch = {"query": {}, "relevant": relevant, "excluded": excluded}
    got = Matching().evaluate(Fixed(), batch).value.item()
    first, second = np.exp(scores[0, 1:].astype(float)), np.exp(scores[1, [1, 2, 4, 5]].astype(float))
    by_hand = [np.log(first.sum()) - scores[0, [1, 2]].mean(), np.log(second.sum()) - scores[1, 5]]
    assert got == pytest.approx(np.mean(by_hand), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_ranks_as_its_run_does(root: Path, tmp_path: Path, kind: str) -> None:
    train(from_dict(recipe(root, kind, export=True)), run=tmp_path / "run", progress=False)
    whole, bundle = evaluate(tmp_path / "run"), evaluate(tmp_path / "run" / "model.pdl")
    for name in ("test/recall@10", "test/mrr@10", "test/loss"):
        assert bundle.metrics[name] == pytest.approx(whole.metrics[name], rel=1e-4)
    session = pdl.runtime.load(tmp_path / "run" / "model.pdl")
    run = Run(tmp_path / "run").opened()
    deployed = run.task.deployer(run.recipe).deployment(run.model)  # what the bundle holds
    (user,) = predict(tmp_path / "run", ["7"]) if kind not in ("youtube_dnn", "bpr", "ncf") else [{}]
    for requested in _as_people_write(root, recipe(root, kind)):
        (answer,) = predict(deployed, [requested])
        for known in (answer, user or answer):
            got = session(requested)["items"]
            assert [each["item"] for each in got] == [each["item"] for each in known["items"]]
            theirs = [each["score"] for each in known["items"]]
            np.testing.assert_allclose([each["score"] for each in got], theirs, rtol=1e-3, atol=1e-5)


def _as_people_write(root: Path, config: dict[str, Any]) -> list[Any]:
    """What is known of user 7, in the ways in which a model of this recipe is asked."""
    if config["model"]["_target_"] in ("pdl_rec.BPRMF", "pdl_rec.NCF"):
        return ["7", ["7"], {"user": "7"}]
    train_data = Atomic(**{k: v for k, v in config["data"]["train"].items() if k != "_target_"})
    words = {kind: vocabulary_of(train_data, kind) for kind in ("users", "items", "age")}
    train_data.bind(words)
    data, (user,) = interactions_of(train_data), words["users"].encode(["7"])
    assert data.times is not None
    rows = np.flatnonzero(data.users == user)
    had = [words["items"].decode(int(i)) for i in data.items[rows[np.argsort(data.times[rows], kind="stable")]]]
    if "user_fields" not in config["task"]:
        return [had, ",".join(had), {"history": had}]
    age = words["age"].decode(int(data.user_fields["age"][user][0]))
    whole = {"history": had, "age": age}
    return [whole, json.dumps(whole), {"history": ",".join(had), "age": [age]}, f'"history={",".join(had)}",age={age}']


def test_baselines_stand_beside_the_model(root: Path, tmp_path: Path) -> None:
    config = recipe(root, "bpr", epochs=1)
    found = train(from_dict(config), run=tmp_path / "run", progress=False).baselines
    assert list(found) == ["popularity", "item_knn"]
    train_data, test = (
        Atomic(**{k: v for k, v in config["data"][s].items() if k != "_target_"}) for s in ("train", "test")
    )
    words = {kind: vocabulary_of(train_data, kind) for kind in ("users", "items")}
    for each in (train_data, test):
        each.bind(words)
    had, held = interactions_of(train_data), interactions_of(test)
    assert held.known is not None
    counts = np.bincount(had.items, minlength=len(words["items"]) + 1)  # one who comes back counts twice
    own = np.zeros((len(words["users"]) + 1, len(words["items"]) + 1))
    own[had.users, had.items] = 1
    norm = np.sqrt(np.maximum(own.sum(axis=0), 1))
    cosines = own.T @ own / np.outer(norm, norm)
    np.fill_diagonal(cosines, 0)
    for name, scores in (("popularity", np.tile(counts, (len(own), 1))), ("item_knn", own @ cosines)):
        recalls = []
        for user in np.unique(held.users):
            seen = set(held.known.items[held.known.users == user].tolist())
            relevant = set(held.items[held.users == user].tolist()) - seen
            if not relevant:
                continue
            ranked = [(-scores[user, i], i in relevant) for i in range(1, len(words["items"]) + 1) if i not in seen]
            best = sorted(ranked)[:10]  # of equal scores those that are not relevant come first
            recalls.append(sum(hit for _, hit in best) / len(relevant))
        assert found[name]["test/recall@10"] == pytest.approx(np.mean(recalls), abs=2e-3)


def test_tags_of_new_texts_are_ranked_and_named(root: Path, tmp_path: Path) -> None:
    (root / "posts.item").write_text(
        "item_id:token\ttext:token_seq\ttags:token_seq\n"
        + "".join(f"{n}\t{word} {word}s w{n % 7}\t{tag}\n" for n, (word, tag) in enumerate(POSTS * 40))
    )
    data = {"_target_": "pdl_rec.ItemTags", "root": str(root), "name": "posts", "text": "text", "tags": "tags"}
    config = recipe(root, "bpr", epochs=10, monitor="val/hr@1")
    config["model"] = {"_target_": "pdl_rec.TagSpace", "word_dim": 8, "hidden": 16, "dim": 8}
    config["task"] = {"_target_": "pdl_rec.Matching", "loss": "warp", "num_negatives": 4, "cutoffs": [1, 10]}
    config["task"]["user_fields"] = ["text"]
    config["data"] = {**{split: {**data, "split": split} for split in ("train", "val", "test")}, "batch_size": 32}
    found = train(from_dict(config), run=tmp_path / "run", progress=False)
    assert found.metrics["test/hr@1"] > 0.9
    assert found.baselines["popularity"]["test/hr@1"] < 0.6
    cat, boat = predict(tmp_path / "run", ["cat cats", {"text": "boat w1 unheard"}], topk=2)
    assert cat["items"][0]["item"] == "pets"
    assert {each["item"] for each in boat["items"]} == {"sea", "travel"}
    assert boat["unknown"] == ["unheard"]
    export(tmp_path / "run", tmp_path / "model.pdl")
    session = pdl.runtime.load(tmp_path / "model.pdl")
    for requested in ("boat w1 unheard", ["boat", "w1", "unheard"], {"text": "boat w1 unheard"}):
        got = session(requested)
        assert got["unknown"] == ["unheard"]
        assert [e["item"] for e in got["items"]][:2] == [e["item"] for e in boat["items"]]
    with pytest.raises(DataError, match="no word of 'unheard of' is among the"):
        session("unheard of")
    measured = evaluate(tmp_path / "model.pdl").metrics["test/hr@1"]
    assert measured == pytest.approx(found.metrics["test/hr@1"], rel=1e-4)


POSTS = [("cat", "pets"), ("dog", "pets"), ("boat", "sea travel"), ("train", "travel"), ("fish", "sea")]
