"""Layers whose weights are products of two smaller ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import ConfigError, UsageError
from pdl.nn.fused import conv_norm, finish
from pdl.pruning import ranks
from pdl.workflow.factorising import LowRank, factorise
from pdl.workflow.pruning import Pruning, prune
from pdl.workflow.run import Run
from pdl.workflow.slimming import read_plan, slim
from tests.cv.test_classification import photos, recipe, run  # noqa: F401 - fixtures


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(12, 20), (3, 12)),
        (nn.Conv1d(6, 9, 3, stride=2, padding=1), (2, 11, 6)),
        (nn.Conv2d(6, 9, (3, 5), stride=(2, 1), padding=(1, 2), dilation=(1, 2), bias=False), (2, 9, 13, 6)),
        (nn.Conv3d(3, 8, 2), (1, 4, 5, 6, 3)),
    ],
)
def test_a_layer_of_full_rank_in_two_steps_is_the_layer(layer: nn.Module, shape: tuple[int, ...]) -> None:
    net = nn.Sequential(layer)
    x = pdl.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    with pdl.no_grad():
        wanted = net(x).data
        whole = ranks.Layer("0", layer.weight._data, 1.0, 99)
        full = min(whole.rows.shape)
        ranks.factor(net, whole, full)
        np.testing.assert_allclose(net(x).data, wanted, rtol=1e-3, atol=1e-4)
    s = np.linalg.svd(whole.rows, compute_uv=False)
    first, second = whole.factors(3)
    assert np.linalg.norm(whole.rows - first @ second) == pytest.approx(np.sqrt((s[3:] ** 2).sum()))  # Eckart, Young


def test_a_convolution_before_its_norm() -> None:
    conv, norm = nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6)
    net = nn.Sequential(conv, norm).eval()
    norm.running_mean._data[...] = np.arange(6) / 9
    x = pdl.tensor(np.random.default_rng(1).standard_normal((2, 7, 8, 4)).astype(np.float32))
    ranks.factor(net, ranks.Layer("0", conv.weight._data, 1.0, 9), 2)
    small = net.get_submodule("0")
    with pdl.no_grad():
        for padding in (None, ((2, 0), (1, 1))):
            h = small(x) if padding is None else small.second(small.reduced(x, padding))
            got = finish(conv_norm(x, small, norm, padding=padding))
            np.testing.assert_allclose(got.data, norm(h).data, rtol=1e-4, atol=1e-5)


def test_ranks_by_energy_and_by_damage() -> None:
    draws = np.random.default_rng(0)
    flat = ranks.Layer("flat", draws.standard_normal((40, 40)), 1000.0, 19)
    steep = ranks.Layer("steep", draws.standard_normal((40, 3)) @ draws.standard_normal((3, 40)), 1000.0, 19)
    found = [flat, steep]

    def cost(chosen: list[int | None]) -> float:
        return sum(each.cost(rank, "macs") for each, rank in zip(found, chosen, strict=True))

    assert ranks.by_energy(found, cost, 0.6) == [None, 3]  # which loses nothing, while the other one is all noise
    assert ranks.by_energy(found, cost, 0.5)[0] is not None
    lost = {"flat": 1.0, "steep": 0.1}
    chosen = ranks.by_damage(found, cost, 0.7, lambda layer, rank: lost[layer.name] * (1 - rank / 20))
    assert chosen[0] is None
    assert cost(chosen) <= 0.7 * 2000
    with pytest.raises(UsageError, match="at rank 1 everywhere"):
        ranks.by_energy(found, cost, 0.01)


def test_a_run_of_low_rank_is_a_run(run: Path, tmp_path: Path) -> None:  # noqa: F811
    made = factorise(run, tmp_path / "r", LowRank(left=0.6, of="parameters", samples=12))
    before, after = made.costs["parameters"]
    assert after <= 0.6 * before
    opened = Run.open(made.path).opened()
    assert sum(p.size for p in opened.model.parameters()) == after
    found = pdl.workflow.evaluate(made.path, split="val").metrics
    assert found["val/accuracy"] == pytest.approx(made.metrics["val/accuracy"][1])
    bundle = pdl.workflow.export(made.path).path
    assert pdl.workflow.evaluate(bundle, split="val").metrics["val/accuracy"] == pytest.approx(found["val/accuracy"])
    again = factorise(run, tmp_path / "s", LowRank(left=0.7, by="sensitivity", samples=12))
    assert again.costs["macs"][1] <= 0.7 * again.costs["macs"][0]
    with pytest.raises(UsageError, match="low rank already"):
        factorise(made.path, tmp_path / "t")
    pruned = prune(made.path, tmp_path / "u", Pruning(left=0.6, by="l1", samples=12))  # ranks go as channels do
    assert pruned.costs["macs"][0] == pytest.approx(made.costs["macs"][1])
    assert pruned.costs["macs"][1] <= 0.6 * pruned.costs["macs"][0]
    found = pdl.workflow.evaluate(pruned.path, split="val").metrics
    assert found["val/accuracy"] == pytest.approx(pruned.metrics["val/accuracy"][1])
    assert pdl.workflow.export(pruned.path).path.is_file()
    name = next(iter(made.ranks))
    for wrong, why in (({"nowhere": 1}, "has no linear layer"), ({name: 10_000}, "that cost less")):
        with pytest.raises(ConfigError, match=why):
            ranks.shape(Run.open(run).opened().model, wrong)


def test_a_plan_lowers_ranks_and_trains(run: Path, tmp_path: Path) -> None:  # noqa: F811
    plan = tmp_path / "plan.yaml"
    plan.write_text("low_rank: {left: 0.7, samples: 12}\ntune: {set: [train.epochs=1, train.report=false]}\nint8: {}\n")
    made = slim(run, read_plan(plan), tmp_path / "small", progress=False)
    assert [step.name for step in made.steps] == ["start", "low_rank", "tune", "int8"]
    assert made.steps[2].adds <= 0.71 * made.steps[0].adds
    assert made.steps[3].size < made.steps[2].size
