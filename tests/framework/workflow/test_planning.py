"""Plans of trainings on meshes: their numbers against those of the programs, and what cannot be planned."""

from __future__ import annotations

import json

import pytest

import pdl.config
from pdl.cli import main
from pdl.distributed.links import Link
from pdl.errors import UsageError
from pdl.train.recipe import Recipe
from pdl.workflow import plan
from pdl.workflow.planning import Planner
from pdl.workflow.step_program import step_facts

Capture = pytest.CaptureFixture[str]
SETTINGS = ["train.ema=null", "data.batch_size=32"]


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(Recipe(pdl.config.load("cv/digits_lenet", SETTINGS)), Link(1e9, 1e-4, "as given"))


def test_one_process_takes_what_its_program_does(planner: Planner) -> None:
    facts = step_facts(pdl.config.load("cv/digits_lenet", SETTINGS))
    alone = planner.plan({})
    assert alone.samples == 32
    assert alone.memory["whole weights"] == alone.memory["gradients"] == facts["parameter_bytes"]
    assert alone.memory["gradients"] + alone.memory["activations"] == facts["arena_bytes"]
    assert alone.memory["optimizer"] == 2 * facts["parameter_bytes"]  # Adam
    assert alone.sent == {}


def test_a_mesh_divides_and_sends(planner: Planner) -> None:
    alone, both = planner.plan({}), planner.plan({"data": 2, "tensor": 2})
    weights = alone.memory["whole weights"]
    assert both.samples == 16
    assert 2 * both.memory["cut weights"] + both.memory["whole weights"] == weights
    assert both.memory["cut weights"] > 0.49 * weights
    parts = both.memory["cut weights"] + both.memory["whole weights"]
    assert both.memory["optimizer"] == both.memory["exchange"] == 2 * parts
    assert both.sent["gradients"] == parts  # of two processes: half there, half back
    assert both.sent["tensor"] > 16 * 84 * 4  # what the second full layer sums, and more
    messages = both.messages["tensor"] * 1e-4 + both.sent["tensor"] / 1e9
    assert both.seconds["tensor"] == pytest.approx(messages)
    assert both.step == pytest.approx(sum(both.seconds.values()))
    again = planner.plan({})  # the model is what it was
    assert again.memory == alone.memory


def test_shares_of_weights_rows_and_averages() -> None:
    link, words = Link(1e9, 1e-4, "as given"), ["data.batch_size=32", "train.clip_norm=1"]
    plans = [
        Planner(Recipe(pdl.config.load("cv/digits_lenet", [*words, f"distributed.zero={zero}"])), link).plan(
            {"data": 2}
        )
        for zero in (2, 3)
    ]
    two, three = (plan.memory for plan in plans)
    assert 2 * three["whole weights"] == two["whole weights"] == two["averages"] == 2 * three["averages"]
    assert three["gathered"] == 2 * two["whole weights"]  # a bucket holds all of it
    assert all(plan.seconds["averages"] > 0 for plan in plans)
    rows = Planner(Recipe(pdl.config.load("rec/synthetic_deepfm", ["model.sparse=true"])), link).plan({"data": 2})
    assert 0 < rows.memory["exchange"] < rows.memory["whole weights"] / 4  # of what does not come as rows
    assert rows.sent["gradients"] > rows.memory["exchange"] / 2


def test_stages_have_their_weights_and_wait(planner: Planner) -> None:
    alone, piped = planner.plan({}), planner.plan({"pipeline": 2})
    assert piped.samples == 32
    held = [s["weights"] for s in piped.stages]
    assert sum(held) == alone.memory["whole weights"]
    assert piped.memory["whole weights"] == max(held)
    assert piped.memory["optimizer"] == 2 * max(held)
    assert [s["under_way"] for s in piped.stages] == [2, 1]
    assert piped.memory["activations"] in [s["under_way"] * s["micro_batch"] for s in piped.stages]
    assert piped.messages["pipeline"] == 8  # of a process: 8 micro-batches there, or their gradients back
    forth, back = (s["forward"] + s["backward"] + 2 * s["between"] for s in piped.stages)
    assert piped.seconds["compute"] == pytest.approx(8 * max(forth, back))
    assert piped.seconds["bubble"] == pytest.approx(min(forth, back), rel=0.5)
    assert piped.seconds["pipeline"] >= 8 * 1e-4  # a process does nothing else while it sends


def test_meshes_of_workers_are_sorted_by_time(planner: Planner) -> None:
    found, left = planner.meshes(4)
    assert [p.step for p in found] == sorted(p.step for p in found)
    sizes = {(p.mesh["data"], p.mesh["pipeline"], p.mesh["tensor"]) for p in found}
    assert sizes == {(4, 1, 1), (2, 1, 2), (1, 1, 4), (2, 2, 1), (1, 4, 1), (1, 2, 2)}
    assert left == []


def test_the_command_prints_tables_and_json(capsys: Capture) -> None:
    arguments = ["plan", "-c", "cv/digits_lenet", "--bandwidth", "1", "--latency", "50"]
    assert main([*arguments, "--mesh", "tensor=2"]) == 0
    said = capsys.readouterr().out
    assert "each process of tensor=2" in said
    assert "8 of 10 parameters, 99.6% of the weights, are cut" in said
    assert main([*arguments, "--workers", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["link"] == {"bandwidth": 1e9, "latency": pytest.approx(5e-5), "how": "as given"}
    assert {tuple(p["mesh"].values()) for p in told["plans"]} == {(2, 1, 1), (1, 2, 1), (1, 1, 2)}


def test_what_cannot_be_planned_is_said() -> None:
    config = pdl.config.load("cv/digits_lenet")
    with pytest.raises(UsageError, match="choose one"):
        plan(config, mesh="data=2", workers=2, bandwidth=1e9, latency=1e-5)
    lamb = pdl.config.load("cv/digits_lenet", ["optim={_target_: Lamb, lr: 0.1}"])
    with pytest.raises(UsageError, match="LAMB needs all of a parameter"):
        plan(lamb, mesh="tensor=2", bandwidth=1e9, latency=1e-5)
    with pytest.raises(UsageError, match="'pipe=2' is no axis and its size"):
        plan(config, mesh="pipe=2", bandwidth=1e9, latency=1e-5)
