"""`pdl compress --plan`: a trained run made small, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import checkpoint
from pdl.cli import main
from pdl.errors import ConfigError, UsageError
from pdl.export.c.running import compiler
from pdl.ops.quant import QConv, QLinear
from pdl.train import Hook
from pdl.workflow.pruning import Pruning, prune
from pdl.workflow.rounding import round_run
from pdl.workflow.run import Run
from pdl.workflow.slimming import read_plan, slim
from pdl.workflow.slimming_search import search
from pdl.workflow.teachers import teacher
from tests.cv.test_classification import photos, recipe, run  # noqa: F401 - fixtures

PLAN = """
prune: {left: 0.6, by: l1, samples: 16}
tune: {set: [train.epochs=2, train.checkpoint_every=1, train.report=false], teacher: "%s", features: {conv1: conv1}}
round: {samples: 16}
tune_rounded: {set: [train.epochs=1, train.report=false, optim.lr=1.0e-4], teacher: "%s"}
int8: {}
"""


def weights(folder: Path) -> dict[str, Any]:
    return checkpoint.load(folder / "checkpoints" / "last.safetensors")["model"]


@pytest.fixture(scope="module")
def plan(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    path = tmp_path_factory.mktemp("plans") / "plan.yaml"
    path.write_text(PLAN % (run, run / "model.pdl"))
    return path


@pytest.fixture(scope="module")
def small(run: Path, plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    out = tmp_path_factory.mktemp("small")
    assert main(["compress", str(run), "--plan", str(plan), "-o", str(out), "--json"]) == 0
    return out


def test_the_steps_and_what_they_come_to(run: Path, plan: Path, small: Path) -> None:  # noqa: F811
    made = slim(run, read_plan(plan), small, progress=False)  # all is there
    assert [step.name for step in made.steps] == ["start", "prune", "tune", "round", "tune_rounded", "int8"]
    first, *_, last = made.steps
    assert all("val/accuracy" in step.metrics for step in made.steps)
    assert [step.name for step in made.steps if "test/accuracy" in step.metrics] == ["start", "int8"]
    assert last.size < made.steps[3].size < 1.1 * first.size
    assert last.adds <= 0.6 * first.adds
    page = made.page.read_text()
    assert all(word in page for word in ("tune rounded", "times as fast", "val/accuracy over kB", "left: 0.6"))
    session = pdl.runtime.load(last.bundle)
    assert session.bundle is not None
    assert session.bundle.meta["about"]["calibration"] == "as trained"
    assert sum(isinstance(n.op, QConv | QLinear) for n in session.bundle.build().nodes) == 5
    picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    assert session(picture)["label"] in session.bundle.labels
    logged = [json.loads(line) for line in (small / "tune" / "metrics.jsonl").read_text().splitlines()]
    assert {"task", "teacher", "features"} <= next(line for line in logged if line["kind"] == "step").keys()
    assert "eager" not in (small / "tune_rounded" / "train.log").read_text()


def test_who_is_stopped_goes_on(run: Path, plan: Path, small: Path, tmp_path: Path) -> None:  # noqa: F811
    class Killed(Hook):
        def on_step(self, trainer: Any) -> None:
            if trainer.state.step == 2:
                raise RuntimeError("killed")

    out = tmp_path / "small"
    (out / "prune").mkdir(parents=True)  # what a step that was killed leaves
    (out / "prune" / "run.json").write_text("{}")
    state = json.loads((small / "steps.json").read_text())
    (out / "steps.json").write_text(json.dumps({**state, "done": [], "measured": {}}))
    with pytest.raises(RuntimeError, match="killed"):
        slim(run, read_plan(plan), out, hooks=[Killed()], progress=False)
    assert json.loads((out / "steps.json").read_text())["done"] == ["prune"]
    before = (out / "prune" / "checkpoints" / "best.safetensors").stat().st_mtime_ns
    assert (out / "tune" / "checkpoints" / "last.safetensors").is_file()
    slim(run, read_plan(plan), out, progress=False)
    assert (out / "prune" / "checkpoints" / "best.safetensors").stat().st_mtime_ns == before
    for name in ("tune", "tune_rounded"):
        mine, theirs = weights(out / name), weights(small / name)
        assert all(np.array_equal(mine[key], theirs[key]) for key in theirs)


def test_the_fastest_net_within_a_budget(run: Path, tmp_path: Path) -> None:  # noqa: F811
    path, out = tmp_path / "plan.yaml", tmp_path / "found"
    path.write_text("prune: {by: l1, samples: 16}\nint8: {samples: 16, rounding: adaptive}")
    given = ["compress", str(run), "--plan", str(path), "-o", str(out), "--trials", "2", "--json"]
    assert main([*given, "--within", "100"]) == 0  # anything goes, so each trial is smaller than the one before
    assert {each.parent.name for each in out.glob("*/steps.json")} == {"prune_0.5", "prune_0.25"}
    text = (out / "compress.html").read_text()
    assert all(word in text for word in ("chosen: prune 0.", "the budget", "test/accuracy"))
    made = search(run, read_plan(path), out, within=100, trials=2)  # all is there but the speeds
    names = [step.name for step in made.steps]
    assert names == ["start", *(f"prune {left}: {step}" for left in (0.5, 0.25) for step in ("prune", "int8"))]
    assert made.chosen.milliseconds == min(step.milliseconds for step in made.steps)
    assert made.bundle.read_bytes() == made.chosen.bundle.read_bytes()
    tested = {step.name for step in made.steps if "test/accuracy" in step.metrics}
    assert tested == {"start", made.chosen.name}
    assert not any("test/accuracy" in each.read_text() for each in out.glob("*/steps.json"))
    assert main([*given, "--within", "1"]) == 2  # another budget
    assert main(["compress", str(run), "--within", "1"]) == 2
    on_bytes = search(run, read_plan(path, ["~prune"]), tmp_path / "bytes", within=100)
    assert [step.name for step in on_bytes.steps] == ["start", "int8"]


def test_one_section_after_the_other_is_searched(run: Path, tmp_path: Path) -> None:  # noqa: F811
    path, out = tmp_path / "plan.yaml", tmp_path / "found"
    path.write_text("prune: {by: l1, samples: 16}\nlow_rank: {samples: 16}")
    made = search(run, read_plan(path), out, within=0, trials=1)  # untrained nets lose
    assert {each.parent.name for each in out.glob("*/steps.json")} == {"prune_0.5", "low_rank_0.5"}
    assert made.chosen.name == "start"
    made = search(run, read_plan(path), tmp_path / "all", within=100, trials=1)
    assert {each.parent.name for each in (tmp_path / "all").glob("*/steps.json")} == {
        "prune_0.5", "prune_0.5_low_rank_0.5"
    }  # fmt: skip
    assert [step.name for step in made.steps[:2]] == ["start", "prune 0.5: prune"]
    (tmp_path / "tune.yaml").write_text("tune: {}")
    with pytest.raises(UsageError, match="give the plan one of them"):
        search(run, read_plan(tmp_path / "tune.yaml"), tmp_path / "other", within=1)


def test_a_sparse_net_stays_sparse_on_bytes(run: Path, tmp_path: Path) -> None:  # noqa: F811
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "sparse: {share: 0.8, block: 1, set: [train.epochs=2, train.report=false, train.ema=0.9]}\n"
        "round: {samples: 16}\n"
        "tune_rounded: {set: [train.epochs=1, train.report=false, optim.lr=1.0e-4]}\nint8: {}\n"
    )
    made = slim(run, read_plan(plan), tmp_path / "small", progress=False)
    assert [step.name for step in made.steps] == ["start", "sparse", "round", "tune_rounded", "int8"]
    assert made.steps[1].size < 0.75 * made.steps[0].size  # much of it is no weights
    assert "sparse: 80.0% of" in (tmp_path / "small" / "sparse" / "train.log").read_text()
    for name in ("sparse", "tune_rounded"):
        found = weights(tmp_path / "small" / name)
        zeros = [np.mean(w == 0) for w in found.values() if w.ndim > 1 and w.dtype == np.float32]
        assert max(zeros) > 0.5
        assert sum((w == 0).sum() for w in found.values() if w.ndim > 1) > 0.78 * sum(
            w.size for w in found.values() if w.ndim > 1
        )
    about = pdl.runtime.load(made.steps[-1].bundle).bundle.meta["about"]  # type: ignore[union-attr]
    assert "left out of" in about["zeros"]
    bare = tmp_path / "small" / "sparse" / "model.pdl"
    settings = ["~sparse", "~tune_rounded", *(["+compile={samples: 2}"] if compiler() else [])]
    again = slim(bare, read_plan(plan, settings), tmp_path / "more", progress=False)
    assert again.steps[1].name == "round"  # a bundle without its zeros is a model as any other
    for step in again.steps if compiler() else ():
        assert step.compiled is not None
        assert step.compiled.difference <= 1e-5
        assert step.compiled.emulated is None
        assert (step.compiled.folder / "net.c").is_file()
    assert ("ms in C" in again.page.read_text()) == bool(compiler())


def test_other_plans_and_faults(run: Path, plan: Path, small: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(UsageError, match="another model or plan"):
        slim(run, read_plan(plan, ["prune.left=0.5"]), small)
    for text, message in (
        ("prune: {left: 2}", "left"),
        ("prune: {keep: 0.5}", "keep"),
        ("quantize: {}", "quantize"),
        ("int8: {}\ncompile: {cpu: pdp11}", "cpu"),
    ):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            read_plan(tmp_path / "bad.yaml")
    assert read_plan("cv/yolov3_in_c", ["compile.cpu=arm"]).compile.cpu == "arm"  # type: ignore[union-attr]
    assert read_plan("cv/resnet20_half").tune is not None
    (tmp_path / "bad.yaml").write_text("tune_rounded: {}")
    with pytest.raises(UsageError, match="give round"):
        read_plan(tmp_path / "bad.yaml")
    assert main(["compress", str(run), "--plan", str(plan)]) == 2
    assert main(["compress", str(tmp_path / "nowhere"), "--plan", str(plan), "-o", str(tmp_path / "x")]) == 2
    with pytest.raises(UsageError, match="rounded to bytes already"):
        round_run(small / "round", tmp_path / "again")
    with pytest.raises(UsageError, match="channels go before that"):
        prune(small / "round", tmp_path / "again")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "prune").mkdir()
    with pytest.raises(UsageError, match="holds something else"):
        slim(run, read_plan(plan), tmp_path / "taken")


def test_a_pruned_run_is_a_run(run: Path, photos: Path, tmp_path: Path) -> None:  # noqa: F811
    made = prune(run, tmp_path / "p", Pruning(left=0.5, of="parameters", by="taylor", ratios="sensitivity", samples=12))
    before, after = made.costs["parameters"]
    assert after <= 0.5 * before
    opened = Run.open(made.path).opened()
    assert sum(p.size for p in opened.model.parameters()) == after
    found = pdl.workflow.evaluate(made.path, split="val").metrics
    assert found["val/accuracy"] == pytest.approx(made.metrics["val/accuracy"][1])
    bundle = pdl.workflow.export(made.path).path
    given = np.zeros((1, 16, 16, 3), np.float32)
    with pdl.no_grad():
        wanted = teacher(str(made.path))(pdl.tensor(given)).data
        np.testing.assert_allclose(teacher(str(bundle))(pdl.tensor(given)).data, wanted, atol=1e-5)
    again = prune(made.path, tmp_path / "q", Pruning(left=0.7, samples=12))  # and may be made smaller once more
    assert again.costs["macs"][0] == pytest.approx(made.costs["macs"][1])


def test_an_onnx_file_teaches(run: Path, tmp_path: Path) -> None:  # noqa: F811
    pytest.importorskip("onnx")
    path = pdl.workflow.export(run, tmp_path / "net.onnx", to="onnx").path
    given = np.random.default_rng(0).standard_normal((2, 16, 16, 3)).astype(np.float32)
    with pdl.no_grad():
        wanted = teacher(str(run))(pdl.tensor(given)).data
        np.testing.assert_allclose(teacher(str(path))(pdl.tensor(given)).data, wanted, atol=1e-4)
