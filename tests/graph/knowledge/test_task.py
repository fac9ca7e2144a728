"""The task: batches, filtered ranks against a loop over all entities, the report, what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.data import Few
from pdl.errors import ConfigError
from pdl.train import Evaluation, assemble
from pdl.train.assembly import learned_config, restored
from pdl_graph import KnowledgeGraph, RotatE
from pdl_graph.data import Triples
from pdl_graph.data.triples import write_stand_in
from pdl_graph.knowledge.metrics import Ranks, measure
from pdl_graph.knowledge.report import cardinality
from tests.graph.recipes import recipe_of

SPLITS = ("train", "val", "test")


def data(folder: Path, **more: Any) -> dict[str, Any]:
    nodes = {s: {"_target_": "pdl_graph.data.Triples", "path": str(folder), "split": s} for s in SPLITS}
    return {"data": {**nodes, "batch_size": 50, "eval_batch_size": 7, **more},
            "model": {"_target_": "pdl_graph.RotatE", "dim": 8, "margin": 3.0}}  # fmt: skip


@pytest.fixture
def cfg(tmp_path: Path) -> dict[str, Any]:
    write_stand_in(tmp_path)
    return data(tmp_path)


def facts_of(parts: Any, splits: Sequence[str] = SPLITS) -> list[tuple[int, int, int]]:
    return [tuple(row) for split in splits for row in parts.datasets[split].triples.tolist()]


def by_loop(task: KnowledgeGraph, model: Any, parts: Any, split: str) -> list[float]:
    """The rank of every query, one entity at a time."""
    known, found = set(facts_of(parts)), []
    test = facts_of(parts, [split])
    for inverse in (0, 1):
        for h, r, t in test:
            e, answer = (t, h) if inverse else (h, t)
            requested = {"entity": np.array([e]), "relation": np.array([r]), "inverse": np.array([inverse])}
            scores = task.scores(model, requested)[0]
            rivals = [x for x in range(1, len(scores)) if x != answer
                      and ((x, r, t) if inverse else (h, r, x)) not in known]  # fmt: skip
            above = sum(scores[x] > scores[answer] for x in rivals)
            level = sum(scores[x] == scores[answer] for x in rivals)
            found.append(1 + above + level / 2)
    return found


def test_filtered_ranks_are_those_of_a_loop(cfg: dict[str, Any]) -> None:
    task = KnowledgeGraph()
    parts = assemble(task, recipe_of(cfg), training=False)
    table: Any = parts.model.entities.weight  # type: ignore[attr-defined]
    table.data[5:9] = table.data[5]  # entities that tie
    measures = task.metrics()
    for batch in parts.loaders["test"]:
        task.update_metrics(measures, task.evaluate(parts.model, batch), batch)
    expected = np.array(by_loop(task, parts.model, parts, "test"))
    np.testing.assert_array_equal(measures["ranks"].compute(), expected)
    assert any(rank % 1 for rank in expected)
    assert measures["mrr"].compute() == pytest.approx((1 / expected).mean())
    assert measures["mr"].compute() == pytest.approx(expected.mean())
    assert measures["hits@3"].compute() == pytest.approx((expected <= 3).mean())


def test_the_filter_knows_splits_that_are_not_measured(cfg: dict[str, Any]) -> None:
    whole, alone = KnowledgeGraph(), KnowledgeGraph()
    batches = list(assemble(whole, recipe_of(cfg), training=False).loaders["test"])
    for one, other in zip(batches, assemble(alone, recipe_of(cfg), splits=("test",)).loaders["test"], strict=True):
        np.testing.assert_array_equal(one["excluded"].values, other["excluded"].values)
        np.testing.assert_array_equal(one["excluded"].start, other["excluded"].start)


def test_batches_of_training_share_entities_that_do_not_answer(cfg: dict[str, Any]) -> None:
    task = KnowledgeGraph(num_negatives=20, subsampling=True)
    parts = assemble(task, recipe_of(cfg), splits=("train",), seed=3)
    known, seen, weights = set(facts_of(parts, ["train"])), [], []
    loader: Any = parts.loaders["train"]
    batches = list(loader)
    for batch in batches:
        assert len(set(batch["negatives"].tolist())) == 20
        assert batch["negatives"].min() >= 1
        for row, (e, r, inverse, answer) in enumerate(
            zip(*(batch[name].tolist() for name in ("entity", "relation", "inverse", "answer")), strict=True)
        ):
            seen.append((answer, r, e) if inverse else (e, r, answer))
            tails, heads = (sum((x[c], x[1]) == (seen[-1][c], r) for x in known) for c in (0, 2))
            weights.append(batch["weight"][row] * np.sqrt(tails + heads))
            facts = [(x, r, e) if inverse else (e, r, x) for x in batch["negatives"].tolist()]
            assert batch["known"][row].tolist() == [fact in known for fact in facts]
    assert sorted(seen) == sorted(2 * facts_of(parts, ["train"]))
    np.testing.assert_allclose(weights, weights[0], rtol=1e-5)
    again = assemble(task, recipe_of(cfg), splits=("train",), seed=3).loaders["train"]
    np.testing.assert_array_equal(next(iter(again))["negatives"], batches[0]["negatives"])
    loader.set_epoch(1)
    assert not np.array_equal(next(iter(loader))["negatives"], batches[0]["negatives"])


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("RotatE", {}),
        ("ComplEx", {"loss": "softmax", "n3": 0.01}),
        ("ComplEx", {"loss": "softmax", "negative_sampling": "all"}),
        ("RotatE", {"loss": "softmax", "negative_sampling": "all"}),
        ("RotatE", {"loss": "margin", "margin": 0.5, "subsampling": True}),
    ],
    ids=str,
)
def test_every_loss_is_learned(cfg: dict[str, Any], model: str, options: dict[str, Any]) -> None:
    cfg["model"] = {"_target_": f"pdl_graph.{model}", "dim": 16, "reciprocal": model == "ComplEx"}
    pdl.seed(0)
    task = KnowledgeGraph(num_negatives=16, **options)
    parts = assemble(task, recipe_of(cfg), splits=("train",))
    optimizer = pdl.optim.Adagrad(parts.model.parameters(), lr=0.1)
    losses: list[float] = []
    for epoch in range(8):
        parts.loaders["train"].set_epoch(epoch)  # type: ignore[attr-defined]
        found = []
        for batch in parts.loaders["train"]:
            loss = task.step(parts.model, batch)
            optimizer.zero_grad()
            loss.value.backward()
            optimizer.step()
            found.append(loss.value.item())
        losses.append(float(np.mean(found)))
    assert losses[-1] < 0.8 * losses[0]


def test_sampled_softmax_over_all_others_is_the_whole(cfg: dict[str, Any]) -> None:
    """With every entity among the negatives, the sampled loss differs from the whole only by what is known."""
    for model in ("RotatE", "DistMult"):
        cfg["model"] = {"_target_": f"pdl_graph.{model}", "dim": 8}
        whole, drawn = (
            KnowledgeGraph(loss="softmax", negative_sampling="all"),
            KnowledgeGraph(loss="softmax", num_negatives=99),
        )
        parts = assemble(drawn, recipe_of(cfg), splits=("train",))
        batch = next(iter(parts.loaders["train"]))
        keep = np.array([name not in ("negatives", "known") for name in batch])
        assert keep.sum() >= 4
        answer = batch["answer"]
        batch["known"] = batch["negatives"][None] == answer[:, None]  # none but the answer is left out
        size = len(batch["negatives"])
        model_ = parts.model
        found = drawn.step(model_, batch).value.item()
        scores = drawn.scores(model_, batch)[:, 1:].astype(np.float64)
        own = scores[np.arange(len(answer)), answer - 1]
        rest = np.exp(scores).sum(1) - np.exp(own)
        expected = np.log(np.exp(own) + rest * (size - 1) / size) - own
        assert found == pytest.approx(expected.mean(), rel=1e-5)
        assert whole.step(model_, batch).value.item() == pytest.approx(
            (np.log(np.exp(scores).sum(1)) - own).mean(), rel=1e-5
        )


def test_unknown_names_are_missed(cfg: dict[str, Any]) -> None:
    task = KnowledgeGraph()
    parts = assemble(task, recipe_of(cfg), training=False)
    test: Any = parts.datasets["test"]
    test.known[:2] = [[0, 1, 1], [1, 0, 1]]
    ranks = Ranks()
    for batch in task.loader(test, recipe_of(cfg), training=False, seed=0):
        loss = task.evaluate(parts.model, batch)
        assert np.isfinite(loss.value.item())
        ranks.update(*loss.outputs)
    found = ranks.compute()
    size = len(test)
    assert np.isinf(found[[0, 1, size, size + 1]]).all()
    assert np.isfinite(found).sum() == 2 * size - 4
    assert measure(found, "mrr") == pytest.approx((1 / found).mean())
    assert measure(np.array([np.inf]), "mr") != measure(np.array([np.inf]), "mr")


def test_the_report_says_where_it_is_right(cfg: dict[str, Any]) -> None:
    task = KnowledgeGraph()
    parts = assemble(task, recipe_of(cfg), training=False)
    loader: Any = parts.loaders["test"]
    ranks = Ranks()
    for batch in loader:
        ranks.update(*task.evaluate(parts.model, batch).outputs)
    evaluation = Evaluation("test", {}, {"ranks": ranks.compute()}, {}, 0.0)
    titles = {section.title: section.html for section in task.reporter().sections(evaluation, loader.dataset)}
    assert list(titles) == ["Filtered ranking (test)", "By kind of relation", "By relation"]
    assert "All 48 entities are ranked but for other answers" in titles["Filtered ranking (test)"]
    assert "1-to-1, heads" in titles["By kind of relation"]
    assert "opposite" in titles["By relation"]


def test_kinds_of_relations() -> None:
    facts = [(1, 1, 2), (3, 1, 4)] + [(1, 2, t) for t in range(2, 6)] + [(h, 3, 1) for h in range(2, 6)]
    facts += [(h, 4, t) for h in (1, 2) for t in (1, 2)]
    assert cardinality(np.array(facts, np.int32), 5).tolist() == [0, 0, 1, 2, 3, 0]


def test_what_is_remembered_restores_the_model(cfg: dict[str, Any]) -> None:
    task = KnowledgeGraph()
    parts = assemble(task, recipe_of(cfg), splits=("train",))
    learned = learned_config(task, recipe_of(cfg))
    assert learned == {"model": {"num_entities": 48, "num_relations": 5}}
    again = restored(KnowledgeGraph(), recipe_of({**cfg, "model": {**cfg["model"], **learned["model"]}}))
    assert isinstance(again, RotatE)
    again.load_state_dict(parts.model.state_dict())
    query = {"entity": np.array([3]), "relation": np.array([1]), "inverse": np.array([1])}
    np.testing.assert_array_equal(task.scores(again, query), task.scores(parts.model, query))


def test_what_does_not_fit_is_told(cfg: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="negative_sampling=all goes with loss=softmax, not margin"):
        KnowledgeGraph(loss="margin", negative_sampling="all")
    cfg["model"] = {"_target_": "pdl.nn.Linear", "in_features": 1, "out_features": 1}
    with pytest.raises(ConfigError):
        assemble(KnowledgeGraph(), recipe_of(cfg))


def test_few_facts_of_training_are_all_that_training_knows(cfg: dict[str, Any]) -> None:
    task = KnowledgeGraph()
    task.prepare(recipe_of(cfg), {"train": Few(Triples(cfg["data"]["train"]["path"]), 30)})
    assert [len(task.known[split]) for split in SPLITS] == [30, 12, 12]
    assert len(task.vocabularies["entities"]) == 48
