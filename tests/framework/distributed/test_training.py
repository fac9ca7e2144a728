"""A training on several ranks is the training on one, to rounding, and the same bits each time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.framework.distributed.conftest import ENVIRONMENT, Ranks

#: sentences of unequal length: the loss is a mean over words, of which each rank has another number
CODE = """
    import hashlib, sys
    from dataclasses import replace
    import numpy as np
    import pdl
    from pdl import nn, optim
    from pdl.data import ArrayDataset, DataLoader
    from pdl.distributed.group import world
    from pdl.train import Loss, Task, Trainer, TrainSettings
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed

    class Net(nn.Module):
        def __init__(self):
            self.table, self.other = nn.Embedding(30, 6, sparse=True), nn.Embedding(30, 6, padding_idx=3)
            self.inner, self.unused, self.head = nn.Linear(6, 8), nn.Linear(2, 2), nn.Linear(8, 5)

        def forward(self, x):
            return self.head(pdl.tanh(self.inner(self.table(x) + self.other(x) * self.other(29 - x))))

    class Tag(Task):
        def step(self, model, batch):
            x, y = pdl.as_tensor(batch["x"]), pdl.as_tensor(batch["y"])
            known = (y >= 0).astype("float32")
            losses = pdl.cross_entropy(model(x), pdl.where(y < 0, 0, y), reduction="none")
            weight = known.sum()
            return Loss((losses * known).sum() / pdl.maximum(weight, 1.0), weight.detach())

        def metrics(self):
            return {}

    def trained(parallel, **settings):
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 30, (49, 7)), rng.integers(0, 5, (49, 7))
        y[np.arange(7) > rng.integers(0, 7, (49, 1))] = -1
        chosen = {"epochs": 3, **settings}
        with pdl.random.fork_seed(0):
            model = Net()
        loaders = {"train": DataLoader(ArrayDataset(x=x, y=y), batch_size=8, shuffle=True)}
        loaders["val"] = DataLoader(ArrayDataset(x=x, y=y), batch_size=16)
        optimizer = optim.SGD(model, lr=0.5, momentum=0.9)
        group = world()
        make = Trainer if group is None else lambda *a, **k: ParallelTrainer(group, Distributed(**parallel), *a, **k)
        trainer = make(Tag(), model, optimizer, loaders, TrainSettings(**chosen))
        trainer.fit()
        return trainer

    CASES = [
        ({}, {}),
        ({"overlap": True, "bucket_megabytes": 1e-4}, {"clip_norm": 0.5, "ema": 0.9}),
        ({}, {"accumulate": 2}),
        ({}, {"compile": False, "clip_value": 0.01}),
        ({"zero": 1, "overlap": True, "bucket_megabytes": 2e-4}, {"clip_norm": 0.5, "ema": 0.9}),
        ({"zero": 1}, {"clip_value": 0.01}),
        ({"zero": 2, "bucket_megabytes": 2e-4}, {"clip_norm": 0.5, "ema": 0.9}),
        ({"zero": 2, "overlap": True, "bucket_megabytes": 2e-4}, {"clip_norm": 0.5, "freeze": "inner.bias"}),
        ({"zero": 3, "bucket_megabytes": 2e-4}, {"clip_norm": 0.5, "ema": 0.9}),
        ({"zero": 3, "bucket_megabytes": 2e-4, "overlap": True}, {"ema": 0.5, "freeze": "head.bias"}),
        ({"zero": 3, "bucket_megabytes": 2e-4}, {"compile": False, "freeze": "inner.bias"}),
        ({"zero": 3, "bucket_megabytes": 2e-4}, {"accumulate": 2, "clip_value": 0.01}),
    ]
    found = {}
    for number, (parallel, settings) in enumerate(CASES):
        trainer = trained(parallel, **settings)
        for name, p in trainer.model.state_dict().items():
            found[f"{number} {name}"] = p.data
        for name, state in trainer.state_dict()["optimizer"]["state"].items():
            found |= {f"{number} {name} {key}": np.asarray(value) for key, value in state.items()}
        if parallel.get("zero") == 3 and world() is not None:
            assert (trainer.weights.most_asked > 0) == (trainer.compiled is not None), "rows of tables are asked for"
        if trainer.ema is not None:
            averages = trainer.state_dict()["ema"]["average"]
            found |= {f"{number} {name} average": average for name, average in averages.items()}
        state, compiled = trainer.state, trainer.compiled
        found[f"{number} losses"] = np.array([state.loss, state.train_loss, state.metrics["val/loss"]])
        found[f"{number} counts"] = np.array([state.step, state.samples])
        if compiled is not None:
            assert compiled.failures == 0
            assert compiled.hits > 10
    group = world()
    if group is not None:
        digest = hashlib.sha256(b"".join(x.tobytes() for x in found.values())).hexdigest()
        assert len(set(group.texts(digest))) == 1, "ranks differ"
    if group is None or group.rank == 0:
        np.savez(f"found{1 if group is None else group.size}.npz", **found)
"""


def test_ranks_learn_what_one_process_learns(ranks: Ranks, tmp_path: Path) -> None:
    found = []
    for n in (1, 2, 3, 3):
        ranks(n, CODE)
        with np.load(tmp_path / f"found{n}.npz") as arrays:
            found.append(dict(arrays))
    alone, *several = found
    for other in several:
        assert other.keys() == alone.keys()
        for name, values in alone.items():
            np.testing.assert_allclose(other[name], values, rtol=2e-4, atol=2e-5, err_msg=name)
    assert all((several[1][name] == values).all() for name, values in several[2].items()), "another run, other bits"


def pdl(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "pdl", *arguments]
    environment = {**os.environ, "PDL_RUNS": str(cwd), **ENVIRONMENT}
    return subprocess.Popen(line, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_job_is_interrupted_and_gone_on_with_alone(tmp_path: Path) -> None:
    recipe = ["train.epochs=30", "train.report=false", "train.export=false", "train.checkpoint_every=5"]
    job = pdl("train", "-c", "cv/digits_lenet", "--workers", "2", "--run", "run", *recipe, cwd=tmp_path)
    log = tmp_path / "run" / "metrics.jsonl"
    while not (log.is_file() and '"epoch"' in log.read_text()) and job.poll() is None:
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGUSR1, f"{out}\n{err}"
    assert "interrupted; go on with: pdl train --resume run" in err
    assert "prterun" not in err
    assert out == ""
    done = pdl("train", "--resume", "run", "--workers", "1", "--json", cwd=tmp_path)
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    result = json.loads(out)
    assert result["epochs"] == 30
    assert result["metrics"]["test/accuracy"] > 0.9


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["optim.lr=1e30"], 1, "training diverged: the loss is"),
        (["data.train.root=nowhere"], 2, "data.train"),
    ],
)
def test_an_error_is_said_once(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    job = pdl("train", "-c", "cv/digits_lenet", "--workers", "2", *words, cwd=tmp_path)
    out, err = job.communicate(timeout=60)
    assert job.returncode == code, f"{out}\n{err}"
    assert err.count(said) == 1
    assert "rank 1" not in err
    assert "MPI_ABORT" not in err
