"""A model with its tables on servers learns what it learns with tables of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.checkpoint import LAST
from pdl.checkpoint import load as load_checkpoint
from pdl.data import ArrayDataset, DataLoader
from pdl.distributed.launcher import mpirun
from pdl.errors import UsageError
from pdl.nn.init import tables_skipped
from pdl.train import Loss, Task, Trainer, TrainSettings
from pdl.train.checkpoints import Checkpoints
from pdl.train.settings import Distributed, Tables
from pdl.train.tables import Ahead, ServedTables
from tests.framework.distributed.conftest import ENVIRONMENT

ROOT = Path(__file__).parents[4]


class Net(nn.Module):
    """Two tables, one with a row of padding; the other is looked up twice, and is all of the last product in `full`."""

    def __init__(self, full: bool = False) -> None:
        self.words, self.tags = nn.Embedding(40, 6, sparse=True, padding_idx=0), nn.Embedding(9, 6, sparse=True)
        nn.init.uniform_(self.tags.weight, -0.5, 0.5)
        self.head, self.full = nn.Linear(6, 1), full

    def forward(self, x):
        tags = self.tags(x % 9) + self.tags(x % 4)
        h = pdl.tanh(self.words(x) + tags).mean(axis=1)
        return self.head(h + self.tags.weight.mean(axis=0) if self.full else h).squeeze(1)


class Sums(Task):
    def step(self, model, batch):
        y = model(pdl.as_tensor(batch["x"]))
        return Loss(((y - pdl.as_tensor(batch["y"])) ** 2).mean(), len(batch["y"]), (y.detach(),))

    def table_rows(self, model, batch):
        return {"words.weight": batch["x"]}


def made(tables=None, folder=None, hooks=(), optimizer=optim.Adam, full=False, **settings):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 40, (60, 5))
    data = ArrayDataset(x=x, y=(x.sum(axis=1) / 100).astype(np.float32))
    loaders = {name: DataLoader(data, batch_size=8, shuffle=name == "train") for name in ("train", "val")}
    settings = TrainSettings(**{"epochs": 3, "clip_value": 1.0, **settings})
    with pdl.random.fork_seed(0), tables_skipped():
        model = Net(full)
    chosen, served = optimizer(model, lr=0.05), None
    if tables is not None:
        served = ServedTables(Distributed(tables=tables), settings, Sums(), model, chosen)
        served.folder = folder
        if tables.mode != "sync" and tables.prefetch:
            loaders["train"] = Ahead(loaders["train"], served)
    else:
        fill(model)
    trainer = Trainer(Sums(), model, chosen, loaders, settings)
    trainer.tables, trainer.hooks = served, [*([served] if served else []), *hooks]
    return trainer


def fill(model):
    """What servers begin with."""
    from pdl.distributed.tables.keys import Initial

    tables = [p for p in model.parameters() if isinstance(p, nn.Table)]
    for at, p in enumerate(tables):
        p.data[...] = Initial(*p.initial, 7919 * at, p.padding)(np.arange(p.shape[0]), p.shape[1])


def weights(trainer):
    return {name: value.data.copy() for name, value in trainer.model.state_dict().items()}


def close(one, other, most=1e-6):
    return max(float(np.abs(one[name] - other[name]).max()) for name in one) < most


def test_tables_of_one_family_are_kept_together():
    for admit, together in ((1, "words.weight"), (2, None)):  # pulls are counted for each table
        model = Net()
        model.words.weight.family = model.tags.weight.family = {"items": 40}
        served = ServedTables(
            Distributed(tables=Tables(admit=admit)), TrainSettings(epochs=1), Sums(), model, optim.SGD(model, lr=0.1)
        )
        assert [spec.family for spec in served.specs] == [together, together]


@pytest.mark.parametrize("compile", [True, False])
def test_the_weights_are_those_of_tables_here(served, tmp_path, compile):
    here, far = made(compile=compile), made(Tables(servers=3), tmp_path, compile=compile)
    far.hooks.append(Checkpoints(tmp_path / "checkpoints"))
    before = {id(a) for group in far.optimizer.param_groups for a in group["params"]}
    assert before == {id(p) for p in far.model.head.parameters()}
    here.fit(), far.fit()
    assert close(weights(here), weights(far))
    assert here.state.metrics == pytest.approx(far.state.metrics)
    assert far.model.words.weight.served is None  # and it is used as any other model
    kept = load_checkpoint(tmp_path / "checkpoints" / LAST)
    assert close(kept["model"], weights(far))
    assert kept["hooks"]["ServedTables"] == {
        "tag": "step-0000000024",
        "servers": 3,
    }
    (servers,) = served.values()
    assert sum(each.stats()["words.weight"]["rows"] for each in servers) == 39  # 0 is padding


class Stop(pdl.train.Hook):
    def on_step(self, trainer):
        if trainer.state.step == 11:
            trainer.interruption = KeyboardInterrupt("enough")


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_training_is_gone_on_with_where_dense_part_and_tables_were(served, tmp_path, mode):
    tables = Tables(servers=2, mode=mode, prefetch=False)  # rows that were asked for before are a step older
    whole = made(tables, tmp_path / "whole")
    whole.fit()
    first = made(tables, tmp_path / "run", [Stop(), Checkpoints(tmp_path / "checkpoints")])
    with pytest.raises(KeyboardInterrupt):
        first.fit()
    later = made(tables, tmp_path / "run")
    later.load_state_dict(load_checkpoint(tmp_path / "checkpoints" / LAST))
    later.fit()
    assert later.state.step == 24
    assert close(weights(later), weights(whole), 1e-7)
    other = made(Tables(servers=3), tmp_path / "run")
    with pytest.raises(UsageError, match="snapshots of 2 servers"):
        other.load_state_dict(load_checkpoint(tmp_path / "checkpoints" / LAST))


@pytest.mark.parametrize("mode", ["async", "ssp", "geo"])
def test_alone_the_other_modes_learn_alike(served, tmp_path, mode):
    here, far = made(), made(Tables(servers=2, mode=mode, staleness=1, merge=4), tmp_path)
    here.fit(), far.fit()
    loss, other = here.state.metrics["val/loss"], far.state.metrics["val/loss"]
    assert other < 1.3 * loss  # rows that are asked for before are a step old
    assert (mode != "geo") or close(weights(here), weights(far))


def test_rows_are_asked_for_while_the_batch_before_is_used():
    class Asked(list):
        prefetch = list.append

    seen = Asked()
    for batch in Ahead([1, 2, 3], seen):
        seen.append(f"use {batch}")
    assert seen == [None, 2, "use 1", 3, "use 2", None, "use 3"]


def test_what_does_not_go_together_is_said(served, tmp_path):
    with pytest.raises(UsageError, match=r"uses all rows of tags\.weight"):
        made(Tables(), tmp_path, full=True, compile=False).fit()
    with pytest.raises(UsageError, match="LAMB is no optimiser of rows"):
        made(Tables(), tmp_path, optimizer=optim.LAMB)
    with pytest.raises(UsageError, match=r"words.weight \(40, 6\) has 0 MB, more than whole_megabytes=0.0001"):
        made(Tables(whole_megabytes=1e-4), tmp_path)
    with pytest.raises(UsageError, match=r"train\.ema"):
        made(Tables(), tmp_path, ema=0.9)
    dense = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(UsageError, match="no lookup of Sequential is sparse"):
        ServedTables(Distributed(tables=Tables()), TrainSettings(), Sums(), dense, optim.SGD(dense))


RANKS = """
    import json, os, sys
    import numpy as np
    import pdl
    from pathlib import Path
    from pdl.distributed.group import world
    from pdl.train import Hook
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed, Tables
    from tests.framework.distributed.tables import test_training as here

    class Kill(Hook):
        def on_step(self, trainer):
            if trainer.state.step == 9 and world().rank == 0:
                import ray

                server = trainer.tables.client.lines[1].server.handle
                os.kill(ray.get(server.process.remote()), 9)

        def on_message(self, trainer, line):
            if "table server" in line:
                print(line, flush=True)

    group, settings = world(), Distributed(data=2, tables=Tables(servers=2))
    made = here.made
    def parallel(*args, **kwargs):
        return ParallelTrainer(group, settings, *args, **kwargs)
    here.Trainer = parallel
    real = here.ServedTables
    here.ServedTables = lambda *a: real(*a, group)
    trainer = made(settings.tables, Path("snapshots").absolute(), [Kill()])
    trainer.fit()
    assert trainer.model.words.weight.served is None
    if group.rank == 0:
        np.savez("weights.npz", **here.weights(trainer))
        token = os.environ["RAY_AUTH_TOKEN"]
        print("token", len(token))
"""


def test_two_processes_and_two_servers_one_of_which_is_killed(tmp_path):
    """On Ray: back from its snapshot or none, and what it lacks is pushed again by both; the weights are those of one
    process with tables of its own."""
    pytest.importorskip("ray")
    (tmp_path / "rank.py").write_text(textwrap.dedent(RANKS))
    places = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    line = [mpirun(), "-n", "2", *places, sys.executable, "-m", "mpi4py", "rank.py"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": path}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "table server 1 was lost" in done.stdout
    assert "token 64" in done.stdout
    here = made()
    here.fit()
    found = np.load(tmp_path / "weights.npz")
    assert close(weights(here), {name: found[name] for name in found.files}, 2e-6)
