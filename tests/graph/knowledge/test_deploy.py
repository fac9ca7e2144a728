"""Runs and bundles of knowledge graphs in use: the same answers to queries by name, one by one and from files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import config, workflow
from pdl.cli import main
from pdl.errors import DataError
from pdl.runtime import bundle, load
from pdl.runtime.bench import bench
from pdl.train import assemble
from pdl.workflow.evaluation import evaluate_bundle
from pdl_graph import KnowledgeGraph
from pdl_graph.data.triples import ROUND, STEPS, write_stand_in
from pdl_graph.knowledge.deploy import as_option

QUERIES: list[Any] = [
    {"head": "place3", "relation": "next"},
    {"relation": "before", "tail": "place40"},
    "head=place47,relation=third",
    '{"relation": "opposite", "tail": "place9"}',
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on places on a circle."""
    root = tmp_path_factory.mktemp("use")
    (root / "data").mkdir()
    write_stand_in(root / "data")
    data = [f"data.{split}.path={root / 'data'}" for split in ("train", "val", "test")]
    settings = ["model.dim=32", "task.num_negatives=16", "data.batch_size=64", "optim.lr=0.03", "train.epochs=40"]
    recipe = config.load("graph/wn18rr_rotate", [*data, *settings, "train.eval_every=20"])
    workflow.train(recipe, run=root / "run", progress=False)
    (root / "asked.csv").write_text("head,relation,tail\nplace3,next,\n,before,place40\nplace99,next,\n")
    return root


def test_a_run_answers(place: Path) -> None:
    found = workflow.predict(place / "run", QUERIES, topk=3)
    assert [each["input"] for each in found] == [
        "place3,next,?", "?,before,place40", "place47,third,?", "?,opposite,place9"
    ]  # fmt: skip
    assert [each["entities"][0]["entity"] for each in found] == ["place4", "place41", "place2", "place33"]
    for each in found:
        scores = [answer["score"] for answer in each["entities"]]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_a_bundle_answers_as_its_run(place: Path) -> None:
    file = place / "run" / "model.pdl"
    for topk in (None, 7, 1000):
        options = {} if topk is None else {"topk": topk}
        ours = workflow.predict(place / "run", QUERIES, **options)
        theirs = workflow.predict(file, QUERIES, topk=topk)
        assert len(ours[0]["entities"]) == min(topk or 10, ROUND)
        for a, b in zip(ours, theirs, strict=True):
            assert a["input"] == b["input"]
            assert [x["entity"] for x in a["entities"]] == [x["entity"] for x in b["entities"]]
            assert [x["score"] for x in a["entities"]] == pytest.approx([x["score"] for x in b["entities"]], abs=1e-5)


def test_scores_of_a_bundle_are_the_models(place: Path) -> None:
    file = place / "run" / "model.pdl"
    known, entities = bundle.read(file).vocabularies["relations"].names, bundle.read(file).vocabularies["entities"]
    assert sorted(known) == sorted(STEPS)
    one = load(file)({"head": "place0", "relation": "next"})["entities"]
    whole = load(file).run({name: np.array([n]) for name, n in (
        ("entity", entities.encode(["place0"])[0]), ("relation", known.index("next") + 1), ("inverse", 0)
    )})  # fmt: skip
    scores = whole["scores"][0]
    assert scores.shape == (ROUND + 1,)
    order = 1 + np.argsort(-scores[1:], kind="stable")[:10]
    assert [each["entity"] for each in one] == [entities.decode(int(n)) for n in order]
    assert [each["score"] for each in one] == pytest.approx(scores[order].tolist())


def test_a_bundle_is_measured_as_its_run(place: Path) -> None:
    ours = workflow.evaluate(place / "run", split="test").metrics
    theirs = evaluate_bundle(place / "run" / "model.pdl", split="test").metrics
    assert ours.keys() == theirs.keys()
    assert theirs == pytest.approx(ours, abs=1e-5)
    assert ours["test/mrr"] > 0.5


def test_the_card_says_what_it_answers(place: Path) -> None:
    card = bundle.read(place / "run" / "model.pdl").card
    for said in (
        f"Ranks the {ROUND} entities of one knowledge graph", "entities that training knows to answer stand among them",
        "--row head=", "filtered ranking", "| test/mrr |",
    ):  # fmt: skip
        assert said in card
    found = bench(place / "run" / "model.pdl", batch=4, threads=1, seconds=0.01)
    assert found.inputs == {"entity": (4,), "relation": (4,), "inverse": (4,)}


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"head": "place99", "relation": "next"}, DataError, r"entity 'place99' is not among the 48 .*did you mean"),
        ({"head": "place1", "relation": "nxt"}, DataError, r"relation 'nxt' is not among the 5 .*did you mean 'next'"),
        ({"head": "place1", "relation": "next", "tail": "place2"}, DataError, "both head and tail"),
        ({"relation": "next"}, DataError, "neither head nor tail"),
        ("place1", DataError, "column=value"),
    ],
)
def test_queries_without_an_answer_are_told(place: Path, query: Any, error: type[Exception], message: str) -> None:
    for ask in (
        lambda: workflow.predict(place / "run", [query]),
        lambda: workflow.predict(place / "run" / "model.pdl", [query]),
    ):
        with pytest.raises(error, match=message):
            ask()


@pytest.mark.parametrize("model", ["run", "run/model.pdl"])
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--row", "head=place3,relation=next", "--topk", "1"], 0, ["place3,next,?", "place4"]),
        (["--row", '{"relation": "before", "tail": "place40"}'], 0, ["?,before,place40", "place41"]),
        (["asked.csv", "--topk", "1"], 0, ["place4", "place41", "entity 'place99' is not among the 48"]),
        (["asked.csv", "--out", "found.csv"], 0, ["1 of 3 inputs have no answer"]),
        (["--row", "head=place99,relation=next"], 3, ["entity 'place99' is not among the 48"]),
        (["--nodes", "place3"], 2, ["has no option --nodes"]),
    ],
)
def test_on_the_command_line(
    place: Path, model: str, arguments: list[str], code: int, said: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:  # fmt: skip
    monkeypatch.chdir(place)
    assert main(["predict", model, *arguments]) == code
    shown = "".join(capsys.readouterr())
    for each in said:
        assert each in shown
    if "--out" in arguments:
        lines = (place / "found.csv").read_text().splitlines()
        assert lines[0] == "row,rank,entity,score"
        assert lines[1].startswith('"place3,next,?",1,place4,')
        assert len(lines) == 1 + 2 * 10


def test_the_example_of_a_run_works(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    task = KnowledgeGraph()
    recipe = workflow.Run(place / "run").recipe()
    said = task.deployer(recipe).example(assemble(task, recipe, splits=("test",)).loaders, place)
    assert main(["predict", "run", *shlex.split(said)]) == 0
    assert "place" in capsys.readouterr().out


def test_names_with_commas_and_quotes_survive(tmp_path: Path, capsys: Any) -> None:
    rows = [f'"thing, {i}"\tis "next" to\t"thing, {(i + 1) % 30}"' for i in range(30)]
    (tmp_path / "data.tsv").write_text("\n".join(rows) + "\n")
    data = [f"data.{split}.path={tmp_path / 'data.tsv'}" for split in ("train", "val", "test")]
    ratios = [f"+data.{split}.ratios={{train: 0.8, val: 0.1, test: 0.1}}" for split in ("train", "val", "test")]
    small = ["model.dim=8", "task.num_negatives=4", "train.epochs=1"]
    run = tmp_path / "run"
    workflow.train(config.load("graph/fb15k237_distmult", [*data, *ratios, *small]), run=run, progress=False)
    names = bundle.read(run / "model.pdl").vocabularies
    query = {"head": names["entities"].decode(3), "relation": names["relations"].decode(1)}
    assert "," in query["head"]
    assert main(["predict", str(run), *shlex.split(as_option(query)), "--topk", "2"]) == 0
    assert len(workflow.predict(run, [query])[0]["entities"]) == 10
