"""The races: their nets have the known sizes, every mode of pdl runs, the tables are whole. Every run takes a race of
training and one of inference whole, -m slow the others, too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "tools" / "bench"
#: peers that this machine lacks, or that lack what is raced here
ABSENT = {"openvino fp32", "openvino bf16"}

#: parameters; multiply-adds of the forward pass a sample, in millions. Convolutional nets: the papers and torchvision
SIZES = {
    "lenet": (61_706, 0.4165),
    "resnet20": (269_722, 40.55),
    "resnet18": (11_173_962, 555.4),
    "resnet50": (25_557_032, 4089.2),
    "mobilenetv2": (3_504_872, 300.8),
    "transformer": (18_000 * 312 + 128 * 312 + 4 * (4 * 312 * 313 + 312 * 1201 + 1200 * 313) + 18 * 312 + 626, 623.6),
    "gru4rec": (37_000 * 201 + 2 * 300 * 101, 4.9),
    "crnn": (838_543, 71.4),
    "svtr_lcnet": (562_991, 57.0),
    "unet": (7_763_371, 184_512 * 192 * 240 / 1e6),  # a pixel, by hand
    "deeplab_v3_plus": (2_717_243, 976.8),
}


@pytest.fixture
def nets(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    import pdl_nets

    return pdl_nets


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "resnet50" else n for n in SIZES])
def test_the_nets_have_the_known_sizes(name: str, nets: Any) -> None:
    net = nets.net_of(name, nets.WORKLOADS[name])
    parameters, millions = SIZES[name]
    assert sum(p.size for p in net.parameters()) == parameters
    assert nets.WORKLOADS.keys() == SIZES.keys()
    ratio = nets.step_flops(name) / (2e6 * millions)
    assert 2.7 < ratio <= 3.001  # forward, and two gradients but for that of the images


def race(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, BENCH / "train.py", "--seconds", "0.01", "--rounds", "1", "--threads", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_race_without_peers(tmp_path: Path) -> None:
    done = race("--only", "lenet", "--json", str(tmp_path / "race.json"))
    assert done.returncode == 0, done.stderr
    messages = json.loads((tmp_path / "race.json").read_text())
    modes = messages["workloads"]["lenet"]["modes"]
    assert set(modes) == {"pdl fp32 eager", "pdl fp32 compiled"}
    for row in modes.values():
        assert row["parameters"] == SIZES["lenet"][0]
        assert row["samples_per_second"] > 0
        assert row["memory_peak"] > row["memory_after_import"] > 0
    best = messages["workloads"]["lenet"]["fp32"]
    share = modes[best["pdl"]]["samples_per_second"] * messages["workloads"]["lenet"]["flops_per_sample"] / 1e9
    assert best["pdl_share_of_fp32_peak"] == pytest.approx(share / messages["fp32_peak_gflops"])
    assert (best["peer"], messages["geometric_means"]) == (None, {})
    assert done.stdout.splitlines()[3].split()[:2] == ["lenet", "fp32"]


@pytest.mark.parametrize("mode", ["bf16 compiled", "fp32 eager sparse"])
def test_other_modes_run(mode: str, nets: Any) -> None:
    name = "resnet20" if "bf16" in mode else "gru4rec"
    assert mode in nets.modes(nets.WORKLOADS[name])
    side = nets.side(name, mode, 2)
    side.step()
    side.step()
    assert side.parameters == SIZES[name][0]


def test_a_peer_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    missing = tmp_path / "python"
    missing.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    missing.chmod(0o755)
    done = race("--only", "lenet", "--peer", "torch", "--torch-python", str(missing))
    assert done.returncode == 1
    assert "torch cannot run lenet" in done.stderr
    assert "No module named 'torch'" in done.stderr


def test_ratios_and_means_of_known_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import train as bench

    def row(rate: float) -> dict[str, Any]:
        return {
            "samples_per_second": rate,
            "rounds": [rate],
            "steps": 3,
            "memory_after_import": 0,
            "memory_peak": 2**20,
        }

    rows = {
        "pdl fp32 eager": row(10.0), "pdl fp32 compiled": row(30.0), "torch fp32 eager": row(20.0),
        "torch fp32 compile": {"error": "no compiler"}, "paddle fp32 eager": row(15.0),
    }  # fmt: skip
    found = bench.compare(rows, 1e9, 60.0)
    assert found["fp32"]["ratio"] == 1.5
    assert (found["fp32"]["pdl"], found["fp32"]["peer"]) == ("pdl fp32 compiled", "torch fp32 eager")
    assert found["fp32"]["pdl_share_of_fp32_peak"] == 0.5
    results = {
        "a": {"modes": rows, **found},
        "b": {"modes": rows, **bench.compare(rows | {"torch fp32 eager": row(5.0)}, 1e9, 60.0)},
    }
    assert bench.geometric_means(results)["fp32"] == pytest.approx((1.5 * 2.0) ** 0.5)
    text = bench.report(results, 60.0, 2)
    assert "geometric mean of the ratios: fp32 1.73" in text
    assert "no compiler" in text


# -- inference ---------------------------------------------------------------------------------------------------------
def test_an_inference_race(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    messages = tmp_path / "race.json"
    command = [sys.executable, BENCH / "infer.py", "--nets", "lenet", "--batches", "1", "3", "--seconds", "0.01",
               "--rounds", "1", "--threads", "1", "--json", messages]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    nets = json.loads(messages.read_text())["nets"]
    assert set(nets["lenet"]) == {"1", "3"}
    for rows in nets["lenet"].values():
        assert set(rows) == {"ort fp32", "openvino fp32", "pdl fp32", "openvino bf16", "pdl bf16"}
        assert {label for label, row in rows.items() if "error" in row} <= ABSENT, rows
        for row in (row for row in rows.values() if "error" not in row):
            assert 0 < row["min"] <= row["p50"] <= row["p90"] <= row["p99"]
            assert row["memory_peak"] > row["memory_after_import"] > 0
        assert rows["pdl fp32"]["off_by"] < 1e-5
        assert 0 < rows["pdl bf16"]["off_by"] < 0.05
        peer = rows[f"{rows['pdl fp32']['peer']} fp32"]
        assert rows["pdl fp32"]["ratio"] == pytest.approx(peer["p50"] / rows["pdl fp32"]["p50"])
    assert "geometric mean of the ratios: fp32 batch 1" in done.stdout


@pytest.mark.slow
def test_a_race_of_starts(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    messages = tmp_path / "starts.json"
    command = [sys.executable, BENCH / "start.py", "--nets", "lenet", "--rounds", "1", "--json", messages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sides = json.loads(messages.read_text())["nets"]["lenet"]
    assert set(sides) == {"pdl", "ort"}
    for row in sides.values():
        assert row["start"] == pytest.approx(row["load"] + row["first"])
        assert all(row[step] > 0 for step in ("import", "again", "new size", "then", "peak"))


def test_nets_of_the_inference_race_agree_with_onnx_runtime(tmp_path: Path, nets: Any) -> None:
    pytest.importorskip("onnxruntime")
    import infer_nets

    for name in ("resnet20", "gru4rec"):
        infer_nets.prepare(name, tmp_path)  # compares 2 samples, or raises
        for suffix in ("pdl", "onnx", "json"):
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 0


def test_what_fails_in_an_inference_race_is_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import infer

    row = {"p50": 0.002, "p90": 0.003, "p99": 0.004, "min": 0.001, "per_second": 500.0, "ratio": 2.0, "peer": "ort",
           "off_by": 1e-6, "memory_peak": 3 << 20, "memory_after_import": 1 << 20}  # fmt: skip
    results = {"a": {"1": {"ort fp32": {"error": "no such op"}, "pdl fp32": row}},
               "b": {"1": {"pdl fp32": {**row, "ratio": 0.5}}}}  # fmt: skip
    assert infer.geometric_means(results) == {"fp32 batch 1": pytest.approx(1.0)}
    text = infer.report(results, 2)
    assert "no such op" in text
    assert "2.000" in text
    assert infer.difference([np.array([2.0, -4.0])], [np.array([2.0, -3.0])]) == 0.25
    assert infer.difference([np.zeros(2)], [np.zeros(3)]) == float("inf")


@pytest.mark.slow
def test_the_nodes_of_a_net_on_both_sides() -> None:
    pytest.importorskip("onnxruntime")
    command = [sys.executable, BENCH / "infer_ops.py", "lenet", "--seconds", "0.01", "--threads", "1", "--top", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, theirs = done.stdout.split("\n\n")
    assert ours.startswith("pdl: ")
    assert theirs.startswith("ONNX Runtime: ")
    for part in (ours, theirs):
        _, titles, *nodes = part.strip().splitlines()
        assert titles.split() == ["makes", "op", "us"]
        assert len(nodes) == 2


# -- quantum circuits --------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_race_of_circuits(tmp_path: Path) -> None:
    messages = tmp_path / "race.json"
    parts = ["--only", "run", "gradient", "memory", "--qubits", "6", "--ansatz", "5", "--large", "22"]
    sizes = ["--seconds", "0.01", "--rounds", "1", "--threads", "1", "--json", messages]
    command = [sys.executable, BENCH / "quantum.py", *parts, *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run, gradient, memory = json.loads(messages.read_text())["rows"]
    assert (run["side"], run["qubits"], gradient["part"]) == ("pdl", 6, "gradient")
    assert run["ms"] >= run["fastest"] > 0
    assert memory["state"] == 16 << 22
    assert memory["peak"] >= memory["after_run"] >= memory["state"]
    assert memory["peak"] - memory["before"] < 1.1 * memory["state"]
    assert memory["distinct"] > 990  # of 1000 samples of four million states


def test_sides_that_differ_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import argparse

    import quantum

    def started(side: str, part: str, n: int, path: Path, args: argparse.Namespace) -> dict[str, Any]:
        np.save(path, np.zeros(4) if side == "pdl" else np.full(4, 2e-9))
        return {"ms": 1.0, "fastest": 0.5} if side != "aer" else {"fault": "no module"}

    monkeypatch.setattr(quantum, "started", started)
    args = argparse.Namespace(rounds=2, peer_python="python", peers=["aer"])
    own, aer = quantum.measured("run", 4, args, tmp_path)
    assert (own["pdl_is"], own["apart"], aer["fault"]) == (1.0, 0.0, "no module")
    args.peers = ["qulacs"]
    with pytest.raises(SystemExit, match="qulacs and pdl are 2e-09 apart"):
        quantum.measured("run", 4, args, tmp_path)


@pytest.mark.slow
def test_rates_of_detection_data(tmp_path: Path) -> None:
    options = ("--images", "6", "--size", "32", "--json", str(tmp_path / "x.json"))
    command = [sys.executable, BENCH / "detection_data.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["samples"] == 6
    assert all(value > 0 for row in found["rates"].values() for value in row.values())
    assert len(done.stdout.splitlines()) == 1 + len(found["rates"])


@pytest.mark.slow
def test_a_race_of_speech_nets(tmp_path: Path) -> None:
    messages = tmp_path / "race.json"
    sizes = ["--sides", "pdl", "--only", "ds_cnn", "--seconds", "0", "--turns", "1", "--json", messages]
    command = [sys.executable, BENCH / "speech_training.py", *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(messages.read_text())["nets"]["ds_cnn"]
    assert set(rows) == {"features", "waveforms"}
    for each in rows.values():
        row = each["rows"]["pdl"]
        assert row["parameters"] == 24_908 - 9 * 64 * 3
        assert row["samples_per_second"] == pytest.approx(64 / row["median"])
        assert abs(row["loss"] - np.log(12)) < 1


@pytest.mark.slow
def test_streaming_without_peers() -> None:
    """Its own side, the latency, and the memory of a stream; what is absent is a line of the table."""
    options = ["--length", "2", "--layers", "1", "--seconds", "0.01", "--turns", "1", "--minutes", "0.05"]
    command = [sys.executable, BENCH / "streaming.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("pdl ")] == ["0.0e+00", "0.0e+00"]
    for steps, heard in ((6, 242), (16, 642)):
        assert any(line.startswith(f"latency of the first {steps} steps: {heard} ms of sound") for line in lines)
    assert lines[-1].startswith("memory ")
