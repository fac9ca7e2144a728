"""`pdl compress`: a trained run on bytes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.errors import UsageError
from pdl.ops.quant import QConv, QLinear
from pdl.workflow.compression import _Listening, compress
from tests.cv.test_classification import photos, recipe, run  # noqa: F401 - fixtures


def test_a_run_on_bytes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    assert main(["compress", str(run), "--samples", "5", "-o", str(tmp_path / "net.pdl"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    path = Path(said["path"])
    assert path == tmp_path / "net.pdl"
    assert said["samples"] == 5
    assert said["products"]["on_bytes"] == said["products"]["all"] > 0
    assert said["metrics"]["loss"]["after"] == pytest.approx(said["metrics"]["loss"]["before"], abs=0.05)
    assert all(noise < -30 for noise in said["noise_db"].values())
    assert set(said["milliseconds"]) == {"batch 1", "batch 32"}
    assert path.stat().st_size == said["bytes"]["after"] < said["bytes"]["before"]
    session = pdl.runtime.load(path)
    assert session.bundle is not None
    assert session.bundle.meta["about"]["precision"] == "int8"
    ops = [type(n.op) for n in session.bundle.build().nodes]
    assert sum(op in (QConv, QLinear) for op in ops) == said["products"]["all"]
    picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    assert session(picture)["label"] in session.bundle.labels


def test_what_stays_in_floats_is_stored_in_half_the_bytes_or_shares_values(run: Path, tmp_path: Path) -> None:  # noqa: F811
    whole, half, shared = (
        compress(run, tmp_path / f"{store}.pdl", samples=5, keep="both", store=store)
        for store in ("fp32", "bf16", "k6")
    )
    assert half.size.after < whole.size.after
    assert shared.size.after < whole.size.after
    picture = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    a, b, c = (pdl.runtime.load(made.path)(picture)["top"] for made in (whole, half, shared))
    assert a[0]["label"] == b[0]["label"]
    assert c[0]["score"] == pytest.approx(a[0]["score"], abs=0.1)
    with pytest.raises(UsageError, match="no form of --onnx, --store, --spare and --rounding"):
        compress(run, to="w8", store="bf16")


def test_tables_for_people(run: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    out = tmp_path / "small.pdl"
    pytest.importorskip("onnx")
    options = ["--images", str(photos), "--samples", "5", "--keep", "both", "--onnx", str(tmp_path / "small.onnx")]
    assert main(["compress", str(run), "-o", str(out), *options]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("accuracy", "size", "batch 32", "noisiest activations", "mse, 5 samples"))
    assert out.is_file()
    assert (tmp_path / "small.onnx").is_file()


def test_refusals(run: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(UsageError, match="--to int4: expected int8"):
        compress(run, to="int4")
    with pytest.raises(UsageError, match="no picture in it"):
        compress(run, images=tmp_path)
    with pytest.raises(UsageError, match="method='best'"):
        compress(run, method="best")
    assert main(["compress", str(tmp_path / "nowhere")]) == 2
    assert not (run / "model.int8.pdl").exists()


def test_a_net_that_is_listened_to_has_its_losses() -> None:
    class Own(pdl.nn.Module):
        def forward(self, x: pdl.Tensor) -> pdl.Tensor:
            return x

        def loss(self, x: pdl.Tensor) -> pdl.Tensor:
            return x.sum()

    heard = _Listening(Own())
    x = pdl.as_tensor(np.ones((2, 3), np.float32))
    heard(x)
    assert heard.loss(x).item() == 6
    assert [each[0].shape for each in heard.seen] == [(2, 3)]
    with pytest.raises(AttributeError):
        _ = heard.nothing
