"""Pipeline parallel: schedules, where programs are cut, and that a training in stages is that of one process."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import pdl
import pdl.config
from pdl import checkpoint, nn
from pdl.distributed.pipeline import Cutter, Runner, homes, layout
from pdl.distributed.schedule import makespan, most_under_way, orders
from pdl.errors import UsageError
from pdl.ops.sparse import SparseGrad
from pdl.program import trace
from pdl.tensor import Tensor
from pdl.train import Loss
from pdl.train.meshed import Sharding
from pdl.train.pipelined import Pipeline, micro_rows, pieces_of
from pdl.train.settings import Distributed
from pdl.workflow import Run, train
from tests.framework.distributed.conftest import Ranks
from tests.framework.distributed.test_tensor import NETS


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_schedules_do_all_and_wait_as_little_as_can_be(ranks: int, chunks: int) -> None:
    for micros in range(1, 2 * ranks + 2):
        made = orders(ranks, chunks, micros)
        for rank, order in enumerate(made):
            stages = range(rank, ranks * chunks, ranks)
            assert sorted(order) == [(f, s, m) for f in (False, True) for s in stages for m in range(micros)]
        taken = makespan(made, lambda action: 1.0)
        assert taken is not None
        if micros % ranks == 0:  # of 2 v m steps (P - 1) / (v m) more, of one without steps in between
            assert taken == 2 * chunks * micros + 2 * (ranks - 1)
        if chunks == 1:
            assert [max(most_under_way(o).values()) for o in made] == [min(ranks - r, micros) for r in range(ranks)]


CODE = (
    NETS
    + """
    import hashlib
    from dataclasses import replace

    class Drops(nn.Module):
        # a mask that all layers read, random numbers in all of them, a skip over all, and a loss of an early layer
        def __init__(self):
            self.a, self.b, self.c, self.d = nn.Linear(72, 32), nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 11)
            self.drop = nn.Dropout(0.3)

        def forward(self, batch):
            x = pdl.as_tensor(batch["x"])
            mask = (x[:, :32] > 0).astype("float32")
            first = pdl.relu(self.a(x))
            self.early = (first ** 2).mean()
            x = self.drop(pdl.relu(self.b(self.drop(first)))) * mask
            x = self.drop(pdl.relu(self.c(x))) * mask
            return self.d(x + first), pdl.as_tensor(batch["y"])

    class Early(Cls):
        def step(self, model, batch):
            one = super().step(model, batch)
            return replace(one, value=one.value + 0.01 * model.early, parts={"early": model.early.detach()})

    class Seeded(Trainer):
        # draws as the processes of a mesh do
        def gradients(self, batches):
            pdl.random.seed([self.settings.seed, self.state.step, 0])
            super().gradients(batches)

    group = world()
    size = 1 if group is None else group.size
    MICROS = 4

    def trained(make, saved=None, parallel=None, task=Cls, one=1, **settings):
        rng = np.random.default_rng(0)
        data = {"x": rng.normal(size=(53, 72)).astype("float32"), "y": rng.integers(0, 11, 53)}
        data["tokens"] = rng.integers(0, 149, (53, 9))
        with pdl.random.fork_seed(0):
            model = make()
        alone = group is None
        loaders = {"train": DataLoader(ArrayDataset(**data), batch_size=16 // (one if alone else 1), shuffle=True)}
        loaders["val"] = DataLoader(ArrayDataset(**data), batch_size=16)
        optimizer = optim.SGD(model, lr=0.05, momentum=0.9)
        accumulate = settings.pop("accumulate", 1) * (one if alone else 1)
        settings = TrainSettings(**{"epochs": 2, **settings}, accumulate=accumulate)
        kind = Seeded if alone else partial(MeshedTrainer, group, Distributed(**{"micro_batches": MICROS, **parallel}))
        trainer = kind(task(), model, optimizer, loaders, settings)
        trainer.hooks = [Snapshot()]
        if saved is not None:
            trainer.load_state_dict(saved)
        trainer.fit()
        return trainer

    # one: batches that one process adds up, where it must see the same pieces
    CASES = {
        "mlp": (MLP, dict(clip_norm=0.5, ema=0.9)), "mlp, batches": (MLP, dict(accumulate=2)),
        "conv": (Conv, dict(one=MICROS, ema=0.9)), "gpt": (GPT, dict(clip_norm=0.5)),
        "drops": (Drops, dict(one=MICROS, task=Early)),
    }
    INTERLEAVED = dict(pipeline=2, virtual_stages=2)
    MESHES = {
        1: [({}, list(CASES))],
        2: [(dict(pipeline=2), list(CASES)), (INTERLEAVED, ["gpt", "drops"])],
        4: [(dict(pipeline=2, zero=1), ["mlp", "conv"]), (dict(**INTERLEAVED, zero=2), ["gpt"]),
            (dict(pipeline=2, tensor=2), ["conv", "gpt"])],
    }

    def digest(arrays):
        return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

    for number, (mesh, names) in enumerate(MESHES[size]):
        found = {}
        for name in names:
            make, settings = CASES[name]
            trainer = trained(make, parallel=mesh, **settings)
            tree = trainer.hooks[0].tree
            for key, p in trainer.model.state_dict().items():
                found[f"{name} {key}"] = p.data
                found[f"{name} {key} at step 4"] = np.asarray(tree["model"][key])
            for key, state in tree["optimizer"]["state"].items():
                found[f"{name} {key} momentum"] = next(v for v in state.values() if isinstance(v, np.ndarray))
            for key, value in (trainer.ema.average if trainer.ema is not None else {}).items():
                found[f"{name} {key} average"] = value
            state = trainer.state
            found[f"{name} losses"] = np.array([state.loss, state.train_loss, state.metrics["val/loss"], state.samples])
            found[f"{name} parts"] = np.array(list(trainer.last.parts.values()))
            if group is not None:
                assert any(line.startswith("pipeline=2: ") for line in trainer.hooks[0].lines)
                assert len(set(group.texts(digest(found.values())))) == 1, f"{name}: ranks differ"
            if size == 2 and name == "gpt":
                again = trained(make, parallel=mesh, **settings)
                weights = [[p.data for p in t.model.parameters()] for t in (trainer, again)]
                assert digest(weights[0]) == digest(weights[1]), "another run, other bits"
            if size == 2 and name == "mlp":  # a checkpoint of any mesh is gone on with on this one
                again = trained(make, tree, mesh, **settings)
                for key, p in trainer.model.state_dict().items():
                    assert np.abs(again.model.state_dict()[key].data - p.data).max() < 1e-6, key
        if group is None or not group.rank:
            np.savez(f"found{size}-{number}.npz", **found)

    def refused(said, make=MLP, parallel=None, **settings):
        try:
            trained(make, parallel={"pipeline": 2, **(parallel or {})}, **settings)
        except UsageError as error:
            assert said in str(error), error
        else:
            raise AssertionError(said)

    class Reads(MLP):
        def forward(self, batch):
            scores, y = MLP.forward(self, batch)
            return (scores * 2 if float(scores.sum()) > 0 else scores), y

    if size == 2:
        refused("set train.compile=true", compile=False)
        refused("data.batch_size=16 cannot be divided by micro_batches=3", parallel={"micro_batches": 3})
        refused("pieces that can be apart, and there are to be 80 stages", parallel={"virtual_stages": 40})
        refused("distributed.zero: not beside distributed.pipeline", parallel={"zero": 3})
        refused("only a compiled step can be cut", Reads)
        print("refused")
"""
)


def test_stages_learn_what_one_process_learns(ranks: Ranks, tmp_path: Path) -> None:
    for n in (1, 2, 4):  # 4: data=2 x pipeline=2 with the state in shares, and pipeline=2 x tensor=2
        done = ranks(n, CODE)
        assert n != 2 or "refused" in done.stdout
    with np.load(tmp_path / "found1-0.npz") as arrays:
        alone = dict(arrays)
    files = sorted(tmp_path.glob("found[24]-*.npz"))
    assert len(files) == 5
    for file in files:
        with np.load(file) as arrays:
            for name, values in arrays.items():
                np.testing.assert_allclose(values, alone[name], rtol=1e-5, atol=1e-5, err_msg=f"{file.name} {name}")


class Words(nn.Module):
    """A table of rows that is read at both ends, a frozen layer, numbers that nobody learns."""

    def __init__(self, *, sparse: bool) -> None:
        self.words = nn.Embedding(40, 16, sparse=sparse)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=0.0) for _ in "ab"])
        self.norm, self.scale = nn.BatchNorm1d(16), nn.Parameter(np.float32(0.7))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x) * self.scale
        x = self.norm(pdl.reshape(x, (-1, 16)))
        return pdl.matmul(x, pdl.permute_dims(self.words.weight, (1, 0)))


@pytest.mark.parametrize("stages", [2, 5])
@pytest.mark.parametrize("kind", ["", "bf16", "sparse", "frozen"])
def test_gradients_in_stages_are_those_of_the_whole(kind: str, stages: int) -> None:
    with pdl.random.fork_seed(0):
        net, alone = Words(sparse=kind == "sparse"), Words(sparse=kind == "sparse")
    alone.load_state_dict(net.state_dict())
    for model in (net, alone) if kind == "frozen" else ():
        model.words.weight.requires_grad = False
        for p in model.layers[0].parameters():
            p.requires_grad = False

    def step(model: Words, tokens: Tensor) -> Loss:
        with pdl.autocast() if kind == "bf16" else nullcontext():
            y = model(tokens)
        return Loss(pdl.cross_entropy(pdl.astype(y, "float32"), pdl.reshape(tokens, (-1,))), float(tokens.size))

    pieces = [np.random.default_rng(i).integers(0, 40, (3, 7)) for i in range(3)]
    for piece in pieces:  # gradients add up
        step(alone, Tensor(piece)).value.backward()
    pipe = Pipeline(net, Distributed(pipeline=stages), Sharding(net, 1, 0, None, ()), 0, None)
    pipe.decide(partial(step, net), pieces[0])
    staged = pipe.staged(partial(step, net), (pieces[0],), "step", range(stages))
    runner = Runner()
    for _ in range(2):  # once more in the same memory
        for p in net.parameters():
            p.grad = None
        losses = runner.run([staged] * 3, [[x] for x in pieces], [[]] * 3, orders(1, stages, 3)[0])
    assert len(losses) == 3
    tolerance = 0.03 if kind == "bf16" else 2e-6
    for (name, p), q in zip(net.named_parameters(), alone.parameters(), strict=True):
        if q.grad is None:
            assert p.grad is None, name
            continue
        ours, theirs = (g.to_dense() if isinstance(g, SparseGrad) else g for g in (p.grad, q.grad))
        np.testing.assert_allclose(ours.data, theirs.data, atol=tolerance, rtol=tolerance, err_msg=name)
        assert isinstance(p.grad, SparseGrad) == isinstance(q.grad, SparseGrad)


def test_batches_are_divided_by_samples() -> None:
    class Loader:
        batch_size: int | None = 24

    def rows(**settings: int) -> tuple[int, int | None]:
        return micro_rows(Loader(), Distributed(pipeline=2, **settings))

    assert rows() == (8, 3)
    assert rows(data=2) == (6, 2)
    assert rows(data=2, micro_batches=3) == (3, 4)
    with pytest.raises(UsageError, match="24 cannot be divided by data=2 x micro_batches=5; make it a multiple of 10"):
        rows(data=2, micro_batches=5)
    Loader.batch_size = None  # of a sampler of its own
    assert rows(micro_batches=4) == (4, None)
    batch = {"x": np.arange(10).reshape(5, 2), "names": list("abcde"), "scale": 2.0}
    found = pieces_of(batch, 3, None)
    assert [piece["x"][:, 0].tolist() for piece in found] == [[0, 2], [4, 6], [8]]
    assert [piece["names"] for piece in found] == [["a", "b"], ["c", "d"], ["e"]]
    assert {piece["scale"] for piece in found} == {2.0}
    assert pieces_of(batch, 1, None) == [batch]
    with pytest.raises(UsageError, match=r"\(\(5, 2\), \(7,\)\) do not have one number of samples"):
        pieces_of({"x": np.zeros((5, 2)), "edges": np.zeros(7)}, 2, None)


def test_a_stage_has_its_weights_alone_and_masks_do_not_cross() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.words, self.layers = nn.Embedding(50, 8), nn.ModuleList([nn.Linear(8, 8) for _ in range(6)])

        def forward(self, tokens: Tensor) -> Tensor:
            mask = pdl.expand_dims((tokens > 0).astype("float32"), axis=-1)
            x = self.words(tokens)
            for layer in self.layers:
                x = pdl.tanh(layer(x)) * mask
            return pdl.matmul(x, pdl.permute_dims(self.words.weight, (1, 0)))

    net = Net()
    program = trace(lambda x: pdl.mean(net(x)), np.ones((64, 9), np.int64), modules=[net])
    loss = program.outputs[0]
    assert loss is not None
    cutter = Cutter(program, loss)
    laid = layout(program, homes(program, cutter.starts(3)), 3)
    assert [(c.source, c.target, c.value.spec.shape) for c in laid.crossings] == [
        (0, 1, (64, 9, 8)), (1, 2, (64, 9, 8)),
    ]  # fmt: skip
    owners = laid.owners({id(p): name for name, p in net.named_parameters()})
    assert owners.pop("words.weight") == [0, 2], "tied"
    assert set(map(len, owners.values())) == {1}
    known = {id(p): owners.get(name, [0, 2]) for name, p in net.named_parameters()}
    assert cutter.starts_by(known, 3) == cutter.starts(3)  # as a program of another shape is cut
    with pytest.raises(UsageError, match="pieces that can be apart, and there are to be 90 stages"):
        cutter.starts(90)


BASE = [
    "train.epochs=3", "train.ema=0.9", "train.report=false", "train.export=false", "train.clip_norm=1",
    "data.batch_size=256", "optim={_target_: SGD, lr: 0.1, momentum: 0.9}",
]  # fmt: skip
RESUMED = (
    f"""
    BASE = {BASE}
"""
    + """
    import shutil
    import pdl.config
    from pdl.distributed.group import world
    from pdl.train.hooks import Hook
    from pdl.workflow import train

    class Stop(Hook):
        def __init__(self, step):
            self.step = step

        def on_step(self, trainer):
            if trainer.state.step == self.step and not world().rank:
                trainer.interruption = KeyboardInterrupt()

    def go_on(run, until, *words, resume=True):
        recipe = pdl.config.load("cv/digits_lenet", [*BASE, *words])
        try:
            train(recipe, run=run, resume=resume, hooks=[Stop(until)], progress=False)
        except KeyboardInterrupt:
            assert until
        else:
            assert not until
        world().rest()

    PIPED, DATA = "distributed.pipeline=2", "distributed.data=2"
    go_on("run", 3, PIPED, resume=False)
    if not world().rank:
        shutil.copytree("run", "alone")  # one process makes the rest of it
    go_on("run", 7, DATA)
    go_on("run", 0, PIPED)
    go_on("zero", 4, DATA, "distributed.zero=3", resume=False)
    go_on("zero", 0, PIPED)
    go_on("shares", 0, DATA, "distributed.zero=3", resume=False)
"""
)


def test_a_run_is_gone_on_with_on_other_meshes(ranks: Ranks, tmp_path: Path) -> None:
    ranks(2, RESUMED)
    recipe = pdl.config.load("cv/digits_lenet", BASE)
    trees = {}
    for name in ("whole", "alone", "run", "zero", "shares"):
        if name in ("whole", "alone"):
            train(recipe, run=tmp_path / name, resume=name == "alone", progress=False)
        trees[name] = checkpoint.load(Run.open(tmp_path / name).checkpoints / checkpoint.LAST)
    want = trees.pop("whole")
    for name, tree in trees.items():
        assert tree["state"]["step"] == want["state"]["step"] == 15
        for found, wanted in ((tree["model"], want["model"]), (tree["ema"]["average"], want["ema"]["average"])):
            for key, values in wanted.items():
                np.testing.assert_allclose(found[key], values, rtol=1e-4, atol=1e-5, err_msg=f"{name} {key}")
