"""`pdl.Model`: the same loop from Python, with arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import nn, optim
from pdl.errors import UsageError
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


def test_what_is_missing_is_said() -> None:
    model = pdl.Model(nn.Linear(3, 2))
    with pytest.raises(UsageError, match=r"prepare\(optimizer"):
        model.fit((X, Y))
    with pytest.raises(UsageError, match=r"prepare\(loss"):
        model.evaluate((X, Y))
    with pytest.raises(UsageError, match=r"generator can be iterated over once only"):
        model.evaluate(x for x in X)
