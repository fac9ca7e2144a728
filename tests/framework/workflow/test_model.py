"""`pdl.Model`: the same loop from Python, with arrays."""

from __future__ import annotations

from inspect import currentframe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.errors import UsageError
from pdl.train import Hook, Trainer
from pdl.train.metrics import Accuracy
from tests.framework.train.toy import weights_hash

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3)).astype(np.float32)
Y = (X.sum(axis=1) > 0).astype(np.int64)


def prepared() -> pdl.Model:
    pdl.seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    return pdl.Model(net).prepare(
        optimizer=optim.Adam(net.parameters(), lr=0.02), loss=pdl.cross_entropy, metrics={"accuracy": Accuracy}
    )


def test_fit_evaluate_predict(tmp_path: Path) -> None:
    model = prepared()
    history = model.fit((X[:90], Y[:90]), val={"x": X[90:], "y": Y[90:]}, epochs=15, batch_size=16, progress=False)
    assert len(history) == 15
    assert history[-1]["val/accuracy"] > 0.85
    assert history[-1]["train/loss"] < history[0]["train/loss"]
    measured = model.evaluate((X[90:], Y[90:]))
    assert measured["accuracy"] == pytest.approx(history[-1]["val/accuracy"])
    outputs = model.predict(X[90:], batch_size=7)
    assert (outputs.argmax(axis=1) == Y[90:]).mean() == pytest.approx(measured["accuracy"])
    model.save(tmp_path / "net.safetensors")
    again = prepared().load(tmp_path / "net.safetensors")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert "Linear" in model.summary((1, 3))


class Listener(Hook):
    """What training says, and the programs that it runs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.programs = 0

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.lines.append(line)

    def on_end(self, trainer: Trainer) -> None:
        assert trainer.compiled is not None
        self.programs = sum(program is not None for program in trainer.compiled.programs.values())


def test_fit_is_compiled_and_gives_what_eager_gives() -> None:
    hashes = []
    for compile in (True, False):
        model, listener = prepared(), Listener()
        hooks = [listener] if compile else []
        model.fit((X, Y), val=(X, Y), epochs=2, batch_size=40, hooks=hooks, progress=False, compile=compile)
        assert not listener.lines
        assert listener.programs == compile
        hashes.append([p.data for p in model.net.parameters()])
    for compiled, eager in zip(*hashes, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-7)


def test_several_outputs_are_compiled_too() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
            return self.a(x), self.b(x)

    net, listener = Two(), Listener()

    def loss(outputs: tuple[pdl.Tensor, pdl.Tensor], target: pdl.Tensor) -> pdl.Tensor:
        return pdl.cross_entropy(outputs[0], target) + pdl.cross_entropy(outputs[1], 1 - target)

    model = pdl.Model(net).prepare(optimizer=optim.SGD(net.parameters(), lr=0.1), loss=loss)
    model.fit((X, Y), batch_size=40, hooks=[listener], progress=False)
    assert not listener.lines
    assert listener.programs == 1


@pytest.mark.parametrize(("net", "file"), [
    (lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, momentum=None)), "pdl/nn/norm.py:"),
    (lambda: nn.Sequential(nn.Linear(3, 2), Reading()), "test_model.py:"),
])  # fmt: skip
def test_the_notice_names_the_code_that_stops_the_trace_not_the_call_of_fit(net: Any, file: str) -> None:
    made, listener = net(), Listener()
    model = pdl.Model(made).prepare(optimizer=optim.SGD(made.parameters(), lr=0.1), loss=pdl.cross_entropy)
    model.fit((X, Y), batch_size=40, hooks=[listener], progress=False)
    here = currentframe().f_lineno - 1
    (line,) = listener.lines
    assert file in line
    assert f"test_model.py:{here} " not in line


class Reading(nn.Module):
    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return x if float(x.sum()) > 0 else x * 2


def test_export(tmp_path: Path) -> None:
    model = prepared()
    written = model.export(tmp_path / "m.pdl", X[:5], names=["features"], licence="CC0-1.0")
    session = pdl.runtime.load(written.path)
    np.testing.assert_allclose(session.run({"features": X})["y"], model.predict(X), rtol=1e-5, atol=1e-6)
    assert session.bundle.meta["licence"] == "CC0-1.0"
    with pytest.raises(UsageError, match="N >= 1; got none"):
        model.export(tmp_path / "n.pdl")


def test_resume_in_a_run_folder(tmp_path: Path) -> None:
    whole, parts = prepared(), prepared()
    whole.fit((X, Y), epochs=4, run=tmp_path / "whole", progress=False)
    parts.fit((X, Y), epochs=2, run=tmp_path / "parts", progress=False)
    parts = prepared()
    history = parts.fit((X, Y), epochs=4, run=tmp_path / "parts", resume=True, progress=False)
    assert len(history) == 4
    assert weights_hash(parts.net) == weights_hash(whole.net)


def test_one_fit_at_a_time_writes_into_a_folder(tmp_path: Path) -> None:
    class Again(Hook):
        def on_epoch(self, trainer: Any) -> None:
            with pytest.raises(UsageError, match="something else is training into this folder"):
                prepared().fit((X, Y), run=tmp_path / "run", progress=False)

    assert len(prepared().fit((X, Y), epochs=2, run=tmp_path / "run", hooks=[Again()], progress=False)) == 2


def test_what_is_missing_is_said() -> None:
    model = pdl.Model(nn.Linear(3, 2))
    with pytest.raises(UsageError, match=r"prepare\(optimizer"):
        model.fit((X, Y))
    with pytest.raises(UsageError, match=r"prepare\(loss"):
        model.evaluate((X, Y))
    with pytest.raises(UsageError, match=r"generator can be iterated over once only"):
        model.evaluate(x for x in X)


class Pairs:
    """A data set as PyTorch has them: a length, and (x, y) by index."""

    def __len__(self) -> int:
        return 120

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return X[index], int(Y[index])


def test_parts_by_short_name() -> None:
    pdl.seed(0)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    model = pdl.Model(net).prepare(
        optimizer={"_target_": "adam", "lr": 0.02}, loss="cross_entropy", metrics=["accuracy"], schedule="cosine"
    )
    assert repr(model) == (
        "Model(Sequential, optimizer=Adam, loss=CrossEntropyLoss, schedule=Cosine, metrics=[accuracy])"
    )
    assert model.optimizer is not None
    assert model.optimizer.param_groups[0]["lr"] == 0.02
    history = model.fit((X, Y), epochs=10, progress=False)
    assert history[-1]["train/loss"] < history[0]["train/loss"]
    assert model.evaluate((X, Y))["accuracy"] > 0.8


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"optimizer": "adamm"}, "did you mean 'adam'"),
        ({"loss": "cross_entropi"}, "did you mean 'cross_entropy'"),
        ({"metrics": ["acuracy"]}, "did you mean 'accuracy'"),
        ({"metrics": ["confusion_matrix"]}, r"lambda: ConfusionMatrix\(num_classes=...\)"),
        ({"optimizer": {"_target_": "sgd", "nosuch": 1}}, "nosuch"),
    ],
)
def test_unknown_short_names(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        pdl.Model(nn.Linear(3, 2)).prepare(**given)


def test_data_sets_of_tuples() -> None:
    x, y = next(iter(pdl.data.DataLoader(Pairs(), batch_size=8)))
    assert np.array_equal(x, X[:8])
    assert np.array_equal(y, Y[:8])
    by_arrays, by_pairs, by_list = (
        prepared().fit(data, epochs=2, progress=False) for data in ((X, Y), Pairs(), [Pairs()[i] for i in range(120)])
    )
    assert by_arrays == by_pairs == by_list
    assert prepared().predict(Pairs()).shape == (120, 2)
    loader = pdl.data.DataLoader(X, batch_size=50)
    assert [tuple(batch[0].shape) for batch in loader] == [(50, 3), (50, 3), (20, 3)]
    with pytest.raises(UsageError, match="int is no data set"):
        pdl.data.DataLoader(3, batch_size=1)
    with pytest.raises(UsageError, match="sample 1 has 1 items, sample 0 has 2"):
        list(pdl.data.DataLoader([(1, 2), (1,)], batch_size=2))


def test_weights_are_named_for_their_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"name it net\.safetensors"):
        prepared().save(tmp_path / "net.pth")


def test_reprs() -> None:
    assert repr(pdl.data.ArrayDataset(x=X, label=Y)) == "ArrayDataset(x=float32[120, 3], label=int64[120])"
    assert repr(pdl.data.as_dataset(Pairs())) == "TupleDataset(120 samples)"
    assert repr(pdl.runtime.load("cv/digits_lenet")).endswith(
        "digits_lenet.pdl: image float32[n, 8, 8, 1] -> logits float32[n, 10])"
    )


def test_bundles_by_name() -> None:
    assert pdl.runtime.load("digits_lenet").inputs[0].name == "image"
    with pytest.raises(UsageError, match="did you mean 'cv/digits_lenet'"):
        pdl.runtime.load("cv/digits_lenett")
    with pytest.raises(pdl.errors.DataError):
        pdl.runtime.load("./nothing.pdl")
