"""Tensor parallel: how programs are cut, and that a training on a mesh is that of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.distributed.tensor import Cut, Cutting
from pdl.program import trace
from pdl.tensor import Tensor
from tests.framework.distributed.conftest import Ranks


def cutting(
    model: nn.Module, *inputs: Any, parts: int = 2, whole: tuple[str, ...] = ()
) -> tuple[dict[str, Cut], Cutting]:
    """The cuts of a model's parameters, by name."""
    program = trace(lambda *xs: pdl.mean(model(*xs)), *inputs, modules=[model])
    named = list(model.named_parameters())
    found = Cutting(program, parts, named, whole=whole)
    return {name: found.cuts[id(p)] for name, p in named if id(p) in found.cuts}, found


class Attention(nn.Module):
    """Heads side by side: one product for queries, keys and values."""

    def __init__(self, heads: int = 4) -> None:
        self.heads = heads
        self.into, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = pdl.split(self.into(x), 32, axis=-1)
        apart = [pdl.permute_dims(pdl.reshape(y, (*y.shape[:2], self.heads, -1)), (0, 2, 1, 3)) for y in (q, k, v)]
        y = pdl.permute_dims(pdl.scaled_dot_product_attention(*apart), (0, 2, 1, 3))
        return self.out(pdl.reshape(y, x.shape))


def test_products_are_cut_by_columns_then_by_rows() -> None:
    x = np.zeros((4, 16), np.float32)
    net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 6), nn.Linear(6, 4))
    found, _ = cutting(net, x)
    pair = {"0.weight": Cut(1), "0.bias": Cut(0), "2.weight": Cut(0)}
    assert found == {**pair, "3.weight": Cut(1), "3.bias": Cut(0)}  # the last by columns, of which a mean is a sum
    assert "0.weight" not in cutting(net, x, whole=("0.*",))[0]


def test_heads_are_cut_in_blocks_of_queries_keys_and_values() -> None:
    x = np.zeros((4, 8, 32), np.float32)
    assert cutting(Attention(), x)[0] == {"into.weight": Cut(1, 3), "into.bias": Cut(0, 3), "out.weight": Cut(0)}
    found, left = cutting(Attention(heads=1), x)
    assert found == {"out.weight": Cut(1), "out.bias": Cut(0)}, "one head cannot be cut"
    assert "into.weight (ScaledDotProductAttention needs all of what it makes)" in left.summary()


def test_channels_of_a_flattened_image_are_cut_in_blocks() -> None:
    net = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(256, 8))
    found, _ = cutting(net, np.zeros((2, 4, 4, 8), np.float32))
    assert found["0.weight"] == Cut(3)
    assert found["1.weight"] == Cut(0)
    assert found["4.weight"] == Cut(0, 16)


def test_what_has_no_rule_leaves_weights_whole() -> None:
    class Sorted(nn.Module):
        def __init__(self) -> None:
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(pdl.sort(self.a(x), axis=-1))

    found, left = cutting(Sorted(), np.zeros((4, 16), np.float32))
    assert found == {"b.weight": Cut(1), "b.bias": Cut(0)}
    assert "a.weight (ArgSort needs all of what it makes)" in left.summary()


#: nets, a task and a hook
NETS = """
    import json
    from functools import partial
    from pathlib import Path
    import numpy as np
    import pdl
    from pdl import checkpoint, nn, optim
    from pdl.data import ArrayDataset, DataLoader
    from pdl.distributed.group import world
    from pdl.errors import UsageError
    from pdl.train import Hook, Loss, Task, Trainer, TrainSettings
    from pdl.train.meshed import MeshedTrainer
    from pdl.train.settings import Distributed

    class MLP(nn.Module):
        def __init__(self):
            self.a, self.b, self.c = nn.Linear(72, 32), nn.Linear(32, 16), nn.Linear(16, 11)

        def forward(self, batch):
            x = pdl.as_tensor(batch["x"])
            return self.c(pdl.tanh(self.b(pdl.relu(self.a(x))))), pdl.as_tensor(batch["y"])

    class Conv(nn.Module):
        def __init__(self):
            self.a, self.n, self.b = nn.Conv2d(2, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 3, padding=1)
            self.c, self.d = nn.Conv2d(16, 32, 3, stride=2, bias=False), nn.Conv2d(32, 32, 3, padding=1, groups=32)
            self.h = nn.Linear(128, 11)

        def forward(self, batch):
            x = pdl.reshape(pdl.as_tensor(batch["x"]), (-1, 6, 6, 2))
            x = pdl.relu(self.n(self.a(x)))
            x = pdl.relu(self.d(pdl.relu(self.c(x + pdl.relu(self.b(x))))))
            return self.h(pdl.reshape(x, (x.shape[0], -1))), pdl.as_tensor(batch["y"])

    class GPT(nn.Module):
        # 149 words are no two equal parts; the table is read at both ends
        def __init__(self):
            self.words = nn.Embedding(149, 32)
            layers = [nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.0) for _ in range(2)]
            self.layers = nn.ModuleList(layers)

        def forward(self, batch):
            tokens = pdl.as_tensor(batch["tokens"])
            x = self.words(tokens)
            for layer in self.layers:
                x = layer(x)
            scores = pdl.matmul(x, pdl.permute_dims(self.words.weight, (1, 0)))
            return pdl.reshape(scores[:, :-1], (-1, 149)), pdl.reshape(tokens[:, 1:], (-1,))

    class Cls(Task):
        def step(self, model, batch):
            scores, y = model(batch)
            loss = pdl.cross_entropy(scores, y, label_smoothing=0.1, ignore_index=3)
            return Loss(loss, (y != 3).astype("float32").sum().detach())

        def metrics(self):
            return {}

    class Snapshot(Hook):
        def __init__(self):
            self.lines = []

        def on_message(self, trainer, line):
            self.lines.append(line)

        def on_step(self, trainer):
            if trainer.state.step == 4:
                file = Path(f"checkpoint{size}-{0 if group is None else group.rank}.safetensors")
                checkpoint.save(file, trainer.state_dict())
                self.tree = checkpoint.load(file)
"""

CODE = (
    NETS
    + """
    group = world()
    size = 1 if group is None else group.size
    mesh = {"tensor": min(size, 2)}

    def trained(make, saved=None, parallel=mesh, **settings):
        rng = np.random.default_rng(0)
        data = {"x": rng.normal(size=(49, 72)).astype("float32"), "y": rng.integers(0, 11, 49)}
        data["tokens"] = rng.integers(0, 149, (49, 9))
        with pdl.random.fork_seed(0):
            model = make()
        loaders = {"train": DataLoader(ArrayDataset(**data), batch_size=8, shuffle=True)}
        loaders["val"] = DataLoader(ArrayDataset(**data), batch_size=16)
        optimizer = optim.SGD(model, lr=0.05, momentum=0.9)
        kind = Trainer if group is None else partial(MeshedTrainer, group, Distributed(**parallel))
        trainer = kind(Cls(), model, optimizer, loaders, TrainSettings(**{"epochs": 2, **settings}))
        trainer.hooks = [Snapshot()]
        if saved is not None:
            trainer.load_state_dict(saved)
        trainer.fit()
        return trainer

    found = {}
    zero = {} if size < 4 else {"zero": 1}
    CASES = [
        ("mlp", MLP, {}, {"clip_norm": 0.5, "ema": 0.9}), ("mlp, batches", MLP, {}, {"accumulate": 2}),
        ("conv", Conv, {}, {}), ("gpt", GPT, zero, {"clip_norm": 0.5}),
    ]
    for name, make, more, settings in CASES:
        trainer = trained(make, parallel={**mesh, **more}, **settings)
        tree = trainer.hooks[0].tree
        for key, p in trainer.model.state_dict().items():
            found[f"{name} {key}"] = p.data
            found[f"{name} {key} at step 4"] = np.asarray(tree["model"][key])
        for key, state in tree["optimizer"]["state"].items():
            found[f"{name} {key} momentum"] = next(v for v in state.values() if isinstance(v, np.ndarray))
        state = trainer.state
        found[f"{name} losses"] = np.array([state.loss, state.train_loss, state.metrics["val/loss"], state.samples])
        if group is not None:
            told = next(line for line in trainer.hooks[0].lines if line.startswith("tensor="))
            assert float(told.partition("%")[0].split()[-1]) > 80, told
        if name == "mlp":  # a checkpoint of any mesh is gone on with on this one
            again = trained(make, tree, **settings)
            for key, p in trainer.model.state_dict().items():
                assert np.abs(again.model.state_dict()[key].data - p.data).max() < 1e-6
    if size == 2:
        for wrong, said in [({"compile": False}, "set train.compile=true"), ({"nan_check": True}, "nan_check=false")]:
            try:
                trained(MLP, **wrong)
            except UsageError as error:
                assert said in str(error), error
            else:
                raise AssertionError(wrong)

        class Reads(MLP):
            def forward(self, batch):
                scores, y = MLP.forward(self, batch)
                return (scores * 2 if float(scores.sum()) > 0 else scores), y

        try:
            trained(Reads)
        except UsageError as error:
            assert "only a compiled step can be cut" in str(error)
            print("refused")
    if group is None or group.rank == 0:
        np.savez(f"found{size}.npz", **found)
"""
)


def test_a_mesh_learns_what_one_process_learns(ranks: Ranks, tmp_path: Path) -> None:
    found = []
    for n in (1, 2, 4):  # 4: data=2 x tensor=2
        done = ranks(n, CODE)
        assert n != 2 or "refused" in done.stdout
        with np.load(tmp_path / f"found{n}.npz") as arrays:
            found.append(dict(arrays))
    alone, *several = found
    for other in several:
        assert other.keys() == alone.keys()
        for name, values in alone.items():
            np.testing.assert_allclose(other[name], values, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_parts_drop_numbers_of_their_own(p: float) -> None:
    from pdl.distributed.tensor import rewritten

    net = nn.Sequential(nn.Linear(16, 64), nn.Dropout(p), nn.Linear(64, 8))
    _, found = cutting(net, np.ones((4, 16), np.float32))
    ops = []
    for part in (0, 1):
        own = [(q, q.data) for q in net.parameters()]
        try:
            for _, q in net.named_parameters():
                if id(q) in found.cuts:
                    q._data = np.array(np.split(q.data, 2, axis=found.cuts[id(q)].axis)[part])
            recorder, _ = rewritten(found, part, None, "step", {})
        finally:
            for q, data in own:
                q._data = data
        ops.append([type(node.op).__name__ for node in recorder.program.nodes])
    assert ("BitwiseXor" in ops[1]) == (p > 0)
    assert "BitwiseXor" not in ops[0]
