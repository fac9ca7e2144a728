"""Streams: a sequence in any pieces gives what it gives whole, and what a reader refuses."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.decoder_state import Framing
from pdl.dims import Dim
from pdl.errors import CheckError, DataError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.nn.streaming import WHOLE, Past, Streaming
from pdl.ops.base import Spec
from pdl.runtime import bundle, load
from pdl.runtime.streams import run_whole


class Smoothed(Streaming):
    """Means of frames of 6 samples, every 4; a convolution that looks back, and a recurrent layer, both on chunks of
    6 frames, of which every second is kept."""

    framing = Framing(size=6, shift=4, chunk=6, stride=2, before=2, after=3)

    def __init__(self) -> None:
        self.conv = nn.Conv1d(1, 3, 4)
        self.gates = nn.Linear(3, 15)
        self.weight = nn.Parameter(pdl.as_tensor(np.random.default_rng(0).standard_normal((5, 15)).astype("f")))

    def frames(self, x: pdl.Tensor, count: int) -> pdl.Tensor:
        parts = [pdl.mean(x[:, i : i + 4 * (count - 1) + 1 : 4, None], axis=2, keepdims=True) for i in range(6)]
        return pdl.mean(pdl.concat(parts, axis=2), axis=2, keepdims=True)

    def behind(self, y: pdl.Tensor, past: Past) -> pdl.Tensor:
        y = self.conv(past.extended(y, 3))
        gates = self.gates(y)

        def run(h: pdl.Tensor | None) -> tuple[pdl.Tensor, ...]:
            return pdl.gru_from_gates(gates, self.weight, initial=h)

        return past.recurrent(y.shape[0], [(5,)], run)[:, ::2]

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        padded = pdl.pad(x, ((0, 0), (2, 3)))
        return self.behind(self.frames(padded, (x.shape[1] - 1) // 4 + 1), WHOLE)

    def step(self, x: pdl.Tensor, counts: pdl.Tensor, past: Past) -> pdl.Tensor:
        return self.behind(self.frames(x, 6), past)


def deployed() -> Deployment:
    pdl.random.seed(0)
    net = Smoothed().eval()
    samples = [np.random.default_rng(i).standard_normal(n).astype(np.float32) for i, n in enumerate((64, 39, 7))]
    inputs = {"x": Spec((Dim.symbol("n", 3), Dim.symbol("t", 64)), pdl.float32)}
    return Deployment(net, inputs, ("y",), {}, {}, samples, lambda x: {"x": x}, stream=net)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "model.pdl"
    assert not write(path, deployed()).notes
    return path


@pytest.mark.parametrize("length", [1, 22, 23, 24, 25, 48, 311])
def test_any_pieces_give_what_the_whole_gives(length: int, written: Path) -> None:
    session = load(written)
    x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    whole = session.run({"x": x[None]})["y"][0]
    first = np.concatenate(run_whole(session.stream(), x, (length,)))
    assert first.shape == whole.shape
    assert np.abs(first - whole).max() < 1e-5
    for pieces in ((1,), (7, 1, 40), (24,)):
        assert (np.concatenate(run_whole(session.stream(), x, pieces)) == first).all()


def test_streams_are_apart_and_end(written: Path) -> None:
    session = load(written)
    x = np.random.default_rng(1).standard_normal((2, 100)).astype(np.float32)
    streams = [session.stream(), session.stream()]
    found: list[list[Any]] = [[], []]
    for at in range(0, 100, 10):
        for made, stream, row in zip(found, streams, x, strict=True):
            made += stream.push(row[at : at + 10])
    for made, stream, row in zip(found, streams, x, strict=True):
        made += stream.finish()
        assert (np.concatenate(made) == np.concatenate(run_whole(session.stream(), row, (33,)))).all()
    with pytest.raises(UsageError, match="this stream has ended"):
        streams[0].push(x[0])
    assert session.stream().finish() == []
    with pytest.raises(UsageError, match=r"takes pieces \['T'\], got \(2, 100\)"):
        session.stream().push(x)


def test_a_stream_that_differs_is_not_written(tmp_path: Path) -> None:
    other = Smoothed().eval()
    with pytest.raises(CheckError, match="a stream of the bundle differs from the model"):
        write(tmp_path / "model.pdl", replace(deployed(), stream=other))
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="cannot be streamed"):
        replace(deployed(), stream=None).begin_stream(None)


DAMAGE: dict[str, tuple[Any, str]] = {
    "framing": (lambda s: s["framing"].update(shift=0), "framing"),
    "window": (lambda s: s["framing"].update(chunk=8), "has f32"),
    "stride": (lambda s: s["framing"].update(stride=4), "framing"),
    "state": (lambda s: s["state"].pop(), "inputs"),
    "kind": (lambda s: s["state"][0].update(carried=[9, 9]), "expected f32"),
    "begins": (lambda s: s["state"][0].update(memory=0), "does not begin with 0"),
    "huge": (lambda s: s["state"][0].update(carried=[1 << 24] * 8), "program.json: state"),
    "extra": (lambda s: s.update(more=1), "has more"),
    "program": (lambda s: s["program"].update(nodes=[]), "program.json"),
    "no program": (lambda s: s.update(program=[]), "captures|program"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused(what: str, written: Path) -> None:
    change, said = DAMAGE[what]
    given = bundle.read(written)
    program = json.loads(zipfile.ZipFile(written).read("program.json"))
    change(program["stream"])
    data = bundle.pack(program, given.weights)
    with pytest.raises(DataError, match=said):
        load(data).stream()
