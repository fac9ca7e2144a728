"""Evaluations that ranks share: every metric is to the bit that of one process, and what cannot be shared is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.tensor import Tensor
from pdl.train import Loss
from pdl.train.shared_evaluation import packed, unpacked
from tests.framework.distributed.conftest import Ranks, ranks

__all__ = ["ranks"]

OUTPUTS: tuple[Any, ...] = (
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3))[:, 1:],
    np.array(7, np.int8), np.float32(1.1), np.zeros((0, 4), np.complex128), ["a\ud800ß", ("b", None, True, 1 << 70)],
    {"k": [np.array([True])], "list": []}, Tensor(np.array([1.5, np.nan])), (), float("inf"),
)  # fmt: skip


def test_what_is_sent_is_what_comes() -> None:
    loss = Loss(Tensor(np.float32(0.3)), np.int64(4), OUTPUTS, {"part": 0.1, "other": Tensor(np.ones(1))}, known=False)
    data = packed(loss)
    assert data is not None
    again = unpacked(np.frombuffer(data, np.uint8))
    assert repr(again) == repr(loss)
    for mine, other in zip(OUTPUTS, again.outputs, strict=True):
        assert type(mine) is type(other)
        if isinstance(mine, np.ndarray):
            assert (mine.dtype, mine.shape, mine.tobytes()) == (other.dtype, other.shape, other.tobytes())
            assert other.flags.writeable


@pytest.mark.parametrize("other", [object(), np.array([None]), np.array(["x"]), {1: 2}, {1}, Path("x")])
def test_what_is_no_array_number_or_text_is_not_sent(other: Any) -> None:
    assert packed(Loss(Tensor(np.float32(0)), 1.0, (other,))) is None


CODE = """
    import numpy as np
    import pdl
    from pdl import nn, optim
    from pdl.data import ArrayDataset, DataLoader
    from pdl.distributed.group import world
    from pdl.train import Loss, Task, TrainSettings
    from pdl.train.loop import evaluate
    from pdl.train.metrics import Metric, class_metrics
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed

    group = world()
    rng = np.random.default_rng(0)
    data = ArrayDataset(x=rng.normal(size=(75, 6)).astype(np.float32), y=rng.integers(0, 3, 75))

    class Order(Metric):
        def __init__(self):
            self.total = np.float32(0)

        def update(self, scores, *rest):
            for score in scores.astype(np.float32).ravel():
                self.total = self.total * np.float32(0.9) + score  # hangs on the order

        def compute(self):
            return float(self.total)

    class Classes(Task):
        calls = 0

        def step(self, model, batch):
            x, y = pdl.as_tensor(batch["x"]), pdl.as_tensor(batch["y"])
            return Loss(pdl.cross_entropy(model(x), y), len(batch["y"]), (model(x), batch["y"]))

        def evaluate(self, model, batch):
            self.calls += 1
            return self.step(model, batch)

        def metrics(self):
            return {**class_metrics(3), "order": Order()}

        def update_metrics(self, metrics, loss, batch):
            for metric in metrics.values():
                metric.update(*loss.outputs[:2])

    class Drawing(Classes):
        def evaluate(self, model, batch):
            found = super().evaluate(model, batch)
            found.outputs = (found.outputs[0].data + pdl.randn(found.outputs[0].shape).data, found.outputs[1])
            return found

    class Others(Classes):
        def evaluate(self, model, batch):
            found = super().evaluate(model, batch)
            found.outputs = (*found.outputs, {1, 2})
            return found

    class LaterOthers(Classes):
        def evaluate(self, model, batch):
            found = super().evaluate(model, batch)
            if batch["index"][0] >= 40:
                found.outputs = (*found.outputs, {1, 2})
            return found

    class Alone(Classes):
        shares_evaluation = False

    def calls(task, size, limit=None):
        loaders = {split: DataLoader(data, batch_size=size) for split in ("train", "val")}
        with pdl.random.fork_seed(0):
            model = nn.Linear(6, 3)
        settings = TrainSettings(epochs=1)
        trainer = ParallelTrainer(group, Distributed(), task, model, optim.SGD(model, lr=0.1), loaders, settings)
        trainer.limit = limit
        mine = trainer.evaluate("val")
        count = task.calls
        with pdl.random.fork_seed(0):
            one = evaluate(task, model, loaders["val"], split="val", limit=limit)
        assert mine.metrics == one.metrics, (type(task), mine.metrics, one.metrics)
        assert (mine.details["confusion"] == one.details["confusion"]).all()
        return group.rows(np.array([count]))[:, 0].tolist()

    assert calls(Classes(), 10) == [4, 3, 3]  # the first of 8 each, 7 shared
    assert calls(Classes(), 75) == [1, 1, 1]
    assert calls(Classes(), 10, limit=2) == [2, 1, 1]
    assert calls(Drawing(), 10) == calls(Others(), 10) == calls(Alone(), 10) == [8, 8, 8]
    assert calls(LaterOthers(), 10) == [7, 7, 7]  # 1 of all, 1 of 3, 1 of 3 that fail and all of them, and 1
"""


def test_metrics_are_those_of_one_process(ranks: Ranks) -> None:
    ranks(3, CODE)
