"""Sessions side by side on several processes: the weights of one, to rounding, and its checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.framework.distributed.conftest import ENVIRONMENT, Ranks, ranks  # noqa: F401 - a fixture
from tests.rec.next_item.made import recipe

CODE = """
    import sys
    from pathlib import Path
    import numpy as np
    import pdl
    from pdl import checkpoint, nn, optim
    from pdl.data.negatives import Negatives
    from pdl.distributed.group import world
    from pdl.train import Trainer, TrainSettings
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed
    from pdl_rec import GRU4Rec, NextItem
    from pdl_rec.data import Sessions
    from pdl_rec.next_item.loader import SessionParallel, WithNegatives
    from pdl_rec.next_item.losses import BPRMax

    def trainer(steps, compile):
        rng = np.random.default_rng(0)
        offsets = np.cumsum([0, *rng.integers(1, 9, 40)])
        held = Sessions(rng.integers(1, 30, offsets[-1]), offsets, None, np.arange(40))
        loss = BPRMax(negatives=9, in_batch=False)
        task = NextItem(batches="session_parallel", loss=loss)
        counts = np.bincount(held.items, minlength=30)
        loss.prepare(counts)
        with pdl.random.fork_seed(0):
            model = GRU4Rec([6, 5], num_items=29, slots=7, sparse=True)
        loader = WithNegatives(SessionParallel(held, 7, seed=1), Negatives(29, counts=counts, seed=1), 9)
        settings = TrainSettings(epochs=3, max_steps=steps, compile=compile)
        optimizer, group = optim.SGD(model, lr=0.5, momentum=0.9), world()
        make = Trainer if group is None else lambda *a, **k: ParallelTrainer(group, Distributed(), *a, **k)
        return make(task, model, optimizer, {"train": loader}, settings)

    size, first = 1 if world() is None else world().size, world() is None or world().rank == 0
    found = {}
    for compile in (True, False):
        made = trainer(13, compile)
        made.fit()
        tree = made.state_dict()
        if first:
            checkpoint.save(Path(f"at13-{compile}-{size}.safetensors"), tree)
        found |= {f"{compile} {name}": values for name, values in tree["model"].items()}
        again = trainer(None, compile)
        again.load_state_dict(checkpoint.load(Path(f"at13-{compile}-2.safetensors")))  # of two
        again.fit()
        found |= {f"{compile} {name} later": values for name, values in again.state_dict()["model"].items()}
        found[f"{compile} samples"] = np.array([again.state.samples, again.state.step])
    if first:
        np.savez(f"found{size}.npz", **found)
"""


def test_processes_learn_what_one_process_learns(ranks: Ranks, tmp_path: Path) -> None:  # noqa: F811
    found = {}
    for n in (2, 1, 3):
        ranks(n, CODE)
        with np.load(tmp_path / f"found{n}.npz") as arrays:
            found[n] = dict(arrays)
    assert np.abs(found[1]["True state0"]).min() > 0, "sessions are under way"
    for n in (2, 3):
        assert found[n].keys() == found[1].keys()
        for name, values in found[1].items():
            np.testing.assert_allclose(found[n][name], values, rtol=2e-4, atol=2e-5, err_msg=f"{n}: {name}")


def test_a_job_with_checkpoints_trains_as_one_process_does(tmp_path: Path) -> None:
    task = {
        "batches": "session_parallel",
        "compare": [],
        "loss": {"_target_": "pdl_rec.CrossEntropy", "negatives": 6, "in_batch": False},
    }
    made = recipe(tmp_path, task=task, train={"epochs": 2, "checkpoint_every": 5})
    (tmp_path / "recipe.yaml").write_text(json.dumps(made))
    found = []
    for workers in ("1", "2"):
        line = [sys.executable, "-m", "pdl", "train", "-c", "recipe.yaml", "--workers", workers, "--json", "--run"]
        done = subprocess.run(
            [*line, workers], cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        found.append(json.loads(done.stdout)["metrics"])
    alone, two = found
    assert two["train/loss"] == pytest.approx(alone["train/loss"], rel=1e-4)
    assert two["test/mrr@5"] == pytest.approx(alone["test/mrr@5"], abs=0.02)
