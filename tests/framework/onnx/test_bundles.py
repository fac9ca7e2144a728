"""`pdl import`: ONNX files as bundles, compared with ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl.runtime
from pdl.cli import main
from pdl.errors import CheckError, DataError, ShapeError, UsageError
from pdl.export import imported
from pdl.export.imported import difference, import_model
from pdl.onnx.reader import read

from .building import INT64, conv_net, loop_model, model, node, onnx, port

R = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    path.write_bytes(conv_net())
    return path


def test_a_bundle_runs_as_the_file_did(net: Path) -> None:
    pytest.importorskip("onnxruntime", reason="compares with onnxruntime")
    facts = import_model(net)
    assert facts["kind"] == "program"
    assert [c["sizes"] for c in facts["checks"]] == [{"n": 1, "h": 96, "w": 160}, {"n": 3, "h": 192, "w": 320}]
    assert all(c["relative"] < 1e-5 for c in facts["checks"])
    session = pdl.runtime.load(net.with_suffix(".pdl"))
    assert [str(p) for p in session.inputs] == ["x float32[n, 3, h, w]"]
    x = floats(2, 3, 11, 20)
    np.testing.assert_allclose(session.run({"x": x})["y"], read(net).graph.run({"x": x})["y"], rtol=1e-4, atol=1e-4)


def of_fixed_sizes(path: Path) -> Path:
    """The net, as a tool writes it that keeps the sizes of its example."""
    made = onnx.load_from_string(conv_net())
    for axis, size in zip(made.graph.input[0].type.tensor_type.shape.dim, (4, 3, 16, 24), strict=True):
        axis.dim_value = size
    path.write_bytes(made.SerializeToString())
    return path


def test_fixed_sizes_of_a_file_are_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime holds to the file: it is compared at the sizes that this has."""
    path = of_fixed_sizes(tmp_path / "fixed.onnx")
    assert main(["import", str(path), "--shape", "x=n,3,h,w"]) == 0
    session = pdl.runtime.load(path.with_suffix(".pdl"))
    assert [str(p) for p in session.inputs] == ["x float32[n, 3, h, w]"]
    x = floats(2, 3, 11, 20)
    wanted = read(conv_net()).graph.run({"x": x})["y"]
    np.testing.assert_allclose(session.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)
    pytest.importorskip("onnxruntime", reason="compares with onnxruntime")
    assert "n=4, h=16, w=24: difference" in capsys.readouterr().out
    assert import_model(path, sizes={"n": 2}, shapes={"x": ["n", 3, "h", "w"]})["inputs"] == ["x float32[2, 3, h, w]"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("z=n,3,h,w", "no input is called z; there are x"),
        ("x=n,3,h", "which [n, 3, h] does not describe"),
        ("x=n,4,h,w", "which [n, 4, h, w] does not describe"),
        ("x=n,3,-1,w", "[n, 3, -1, w]: an axis is a number or a name"),
        ("x=n,3,0*h,w", "or a multiple: 32*h"),
        ("x=n,3,5*h,w", "5*h: it is 16 in the file, no multiple of 5"),
        ("x=n,3,h,2*h", "h and 2*h: a size has one factor"),
        ("x", "--shape x: expected an input and its axes"),
    ],
)
def test_sizes_that_the_file_contradicts_are_not_opened(
    tmp_path: Path, given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(of_fixed_sizes(tmp_path / "fixed.onnx")), "--shape", given]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_sizes_that_are_multiples(net: Path) -> None:
    """Detectors whose pyramids only meet at multiples of 32 are programs when they are told."""
    facts = import_model(net, shapes={"x": ["n", 3, "4*h", "2*w"]})
    assert (facts["kind"], facts["inputs"]) == ("program", ["x float32[n, 3, 4*h, 2*w]"])
    session = pdl.runtime.load(net.with_suffix(".pdl"))
    for height, width in ((8, 6), (12, 20), (32, 36)):
        x = floats(2, 3, height, width)
        np.testing.assert_allclose(session.run({"x": x})["y"], read(net).graph.run({"x": x})["y"], rtol=1e-4, atol=1e-4)
    with pytest.raises(ShapeError, match=r"dimension 2 must be 4\*h"):
        session.run({"x": floats(2, 3, 10, 8)})


def test_a_graph_with_a_loop_becomes_a_bundle(tmp_path: Path) -> None:
    path, out = tmp_path / "loop.onnx", tmp_path / "made" / "loop.pdl"
    path.write_bytes(loop_model())
    facts = import_model(path, out)
    assert facts["kind"] == "graph"
    x = floats(3)
    found = pdl.runtime.load(out.read_bytes()).run({"turns": np.array(2), "x": x})
    np.testing.assert_array_equal(found["y"], x * 4)


def test_weights_are_stored_once(tmp_path: Path) -> None:
    """Two products with one weight share it, in the bundle too."""
    path = tmp_path / "shared.onnx"
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    path.write_bytes(model(nodes, [port("x", ["n", 256])], [port("y", ["n", 256])], {"w": floats(256, 256) / 16}))
    assert import_model(path)["size"] < 1.1 * 256 * 256 * 4


def test_a_difference_is_an_error_unless_forced(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"sizes": {"n": 1}, "difference": 0.5, "relative": 0.25, "sensitivity": 0.0}
    monkeypatch.setattr(imported, "compare", lambda *_: [entry])
    with pytest.raises(CheckError, match=r"0\.25 of the spread"):
        import_model(net)
    assert not net.with_suffix(".pdl").exists()
    import_model(net, force=True)
    assert net.with_suffix(".pdl").exists()


def test_difference() -> None:
    y = np.array([0, 1, np.nan, np.inf], np.float32)
    assert difference(y, y) == (0.0, 0.0)
    assert difference(y, np.array([0, 1, 0, np.inf]))[0] == float("inf")
    assert difference(np.zeros(3), np.zeros(4))[0] == float("inf")
    apart, relative = difference(np.array([0, 10.5]), np.array([0, 10.0]))
    assert (apart, relative) == (0.5, pytest.approx(0.05))


def test_labels_and_pipeline(net: Path, tmp_path: Path) -> None:
    proto = onnx.ModelProto.FromString(net.read_bytes())
    proto.metadata_props.add(key="character", value="a\nb\nc\nd")
    net.write_bytes(proto.SerializeToString())
    steps = {
        "pre": {
            "x": [
                {"step": "image", "mode": "rgb"},
                {"step": "resize", "size": [8, 8]},
                {"step": "to_float"},
                {"step": "layout", "order": "chw"},
            ]
        },
        "post": {"y": [{"step": "softmax"}, {"step": "top", "k": 2}]},
    }
    file = tmp_path / "steps.json"
    file.write_text(json.dumps(steps))
    import_model(net, pipeline=file, labels="metadata:character")
    session = pdl.runtime.load(net.with_suffix(".pdl"))
    assert session.bundle is not None
    assert session.bundle.labels == ["a", "b", "c", "d"]
    assert len(session(np.zeros((20, 30, 3), np.uint8))["top"]) == 2
    with pytest.raises(UsageError, match="character"):
        import_model(net, labels="metadata:letters")
    for wrong, says in (({"x": [{"step": "evil"}]}, "unknown step"), ({"z": []}, "pre names z")):
        file.write_text(json.dumps({"pre": wrong}))
        with pytest.raises((DataError, UsageError), match=says):
            import_model(net, pipeline=file)
    file.write_text("[1, 2]")
    with pytest.raises(DataError, match="no pipeline"):
        import_model(net, pipeline=file)


def run(arguments: list[str], capsys: Any) -> tuple[int, str, str]:
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command(net: Path, capsys: Any) -> None:
    code, out, _ = run(["import", str(net), "--size", "h=16,w=24"], capsys)
    assert code == 0
    assert "x float32[n, 3, 16, 24]" in out
    code, out, _ = run(["import", str(net), "--json", "-o", str(net.with_name("b.pdl"))], capsys)
    assert code == 0
    assert json.loads(out)["kind"] == "program"
    assert run(["import", str(net), "--size", "h"], capsys)[0] == 2
    net.write_bytes(b"damaged")
    code, _, err = run(["import", str(net)], capsys)
    assert code == 2
    assert "no ONNX model" in err


def rated() -> bytes:
    """y = x * rate / 16000, one row for each 8000 of the rate."""
    weights = {"slow": np.int64(8000), "one": np.array([1]), "flat": np.array([-1]), "fast": np.float32(16000)}
    nodes = [
        node("Div", ["rate", "slow"], ["rows"]),
        node("Reshape", ["rows", "flat"], ["rows1"]),
        node("Concat", ["rows1", "one"], ["shape"], axis=0),
        node("Cast", ["rate"], ["f"], to=1),
        node("Div", ["f", "fast"], ["by"]),
        node("Mul", ["x", "by"], ["z"]),
        node("Expand", ["z", "shape"], ["y"]),
    ]
    return model(nodes, [port("x", ["n"]), port("rate", [], INT64)], ["y"], weights)


def test_an_input_that_decides_becomes_a_constant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    net = tmp_path / "net.onnx"
    net.write_bytes(rated())
    assert main(["import", str(net), "--value", "rate=16000", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "program"
    assert facts["inputs"] == ["x float32[n]"]
    assert facts["checks"]
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(pdl.runtime.load(tmp_path / "net.pdl").run({"x": x})["y"], [x, x])


@pytest.mark.parametrize(
    ("value", "said"),
    [("rate=0.5", "rate is int64, which does not hold 0.5"), ("sr=1", "no input of numbers is called sr"),
     ("rate", "expected NAME=NUMBER, as in sr=16000")],
)  # fmt: skip
def test_values_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str, said: str) -> None:
    net = tmp_path / "net.onnx"
    net.write_bytes(rated())
    assert main(["import", str(net), "--value", value]) == UsageError.exit_code
    assert said in capsys.readouterr().err


def test_bench_takes_values_and_asks_for_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    nodes = [node("Reshape", ["x", "shape"], ["y"])]
    net = tmp_path / "net.onnx"
    net.write_bytes(model(nodes, [port("x", ["n", 4]), port("shape", [2], INT64)], ["y"]))
    import_model(net)
    place = str(tmp_path / "net.pdl")
    assert main(["bench", place, "--seconds", "0.01"]) != 0
    assert "made-up values went into shape int64[2]" in capsys.readouterr().err
    assert main(["bench", place, "--seconds", "0.01", "--batch", "4", "--value", "shape=4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == {"x": [4, 4], "shape": [2]}


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    net = tmp_path / "net.onnx"
    net.write_bytes(rated())
    import_model(net)
    with pytest.raises(UsageError, match=r"takes the inputs x, rate; got x; without rate int64\[\]"):
        pdl.runtime.load(tmp_path / "net.pdl").run({"x": np.zeros(2, np.float32)})
