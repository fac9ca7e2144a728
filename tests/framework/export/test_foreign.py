"""ONNX Runtime in a process of its own: what it computes comes back, and its crashes and waits are one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pdl.errors import CheckError
from pdl.export import foreign
from pdl.export.foreign import Ended, Foreign, Refused
from pdl.export.imported import import_model


def saved(folder: Path, kind: int = TensorProto.FLOAT, size: int | str = "n") -> Path:
    """x + x."""
    ports = [helper.make_tensor_value_info(name, kind, [size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx")
    return folder / "m.onnx"


def test_values_come_back(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with Foreign(saved(tmp_path)) as other:
        for n in (3, 0, 5):
            x = np.arange(n, dtype=np.float32)
            (y,) = other.run({"x": x})
            np.testing.assert_array_equal(y, x + x)
        with pytest.raises(Refused, match=r"INVALID_ARGUMENT|InvalidArgument"):
            other.run({"x": np.zeros(3)})
        np.testing.assert_array_equal(other.run({"x": np.ones(1, np.float32)})[0], [2])


def test_a_model_that_it_does_not_load(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(Refused, match=r"InvalidProtobuf|Fail"), Foreign(tmp_path / "m.onnx"):
        pass


#: a stand-in for onnxruntime -> what is said
RUNTIMES = {
    "a crash": ("import os\nos.abort()", r"it crashed \(signal 6\)"),
    "a crash of a run": (
        "def set_default_logger_severity(n): pass\n"
        "class InferenceSession:\n"
        "    def __init__(self, *a, **k): pass\n"
        "    def run(self, *a): import os; os.abort()\n",
        r"it crashed \(signal 6\)",
    ),
    "an end": ("raise SystemExit(3)", "it ended with exit code 3"),
    "all memory": (
        "def set_default_logger_severity(n): pass\n"
        "class InferenceSession:\n"
        "    def __init__(self, *a, **k): self.held = bytearray(1 << 44)\n",
        "MemoryError",
    ),
}


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a module onnxruntime first."""

    def put(text: str) -> None:
        (tmp_path / "first").mkdir()
        (tmp_path / "first" / "onnxruntime.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"), prepend=":")

    return put


@pytest.mark.parametrize("name", RUNTIMES)
def test_whatever_it_does_is_one_line(name: str, tmp_path: Path, pretended: Callable[[str], None]) -> None:
    text, said = RUNTIMES[name]
    pretended(text)
    (note,) = import_model(saved(tmp_path), tmp_path / "m.pdl")["notes"]
    assert note.startswith("not compared: ONNX Runtime does not run it (")
    with pytest.raises(Refused, match=said), Foreign(tmp_path / "m.onnx") as other:
        other.run({"x": np.ones(2, np.float32)})


def test_it_has_only_so_much_time(
    tmp_path: Path, pretended: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "SECONDS", 0.05)
    pretended("import threading\nthreading.Event().wait()")
    with pytest.raises(Ended, match=r"it took more than 0.05 s"), Foreign(saved(tmp_path)):
        pass


def test_inputs_without_bounds_are_not_made(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    made = import_model(saved(tmp_path, size=2**28), tmp_path / "m.pdl")
    assert made["checks"] == []
    assert made["notes"] == ["not compared: ONNX Runtime takes none of the sizes tried; give some with --size"]


#: a stand-in for onnxruntime that runs x + x and adds something
ADDING = """
import numpy as np
def set_default_logger_severity(n): pass
class InferenceSession:
    def __init__(self, *a, **k): pass
    def run(self, names, feeds):
        x = feeds["x"]
        return [x + x + {what}]
"""


def test_results_as_uncertain_as_the_difference_are_no_fault(
    tmp_path: Path, pretended: Callable[[str], None]
) -> None:
    """Where the last bit of an input decides, no two engines agree."""
    pretended(ADDING.format(what="(x.view(np.int32) & 1)"))
    made = import_model(saved(tmp_path), tmp_path / "m.pdl")
    worst = max(made["checks"], key=lambda check: check["relative"])
    assert worst["relative"] > 0.1
    assert worst["sensitivity"] > 0.1
    assert "as uncertain" in made["notes"][0]


def test_a_difference_that_rounding_does_not_explain(tmp_path: Path, pretended: Callable[[str], None]) -> None:
    pretended(ADDING.format(what="1"))
    with pytest.raises(CheckError, match=r"whose results change by .*e-0[4-7] of it where inputs change in their last"):
        import_model(saved(tmp_path), tmp_path / "m.pdl")
    made = import_model(saved(tmp_path), tmp_path / "m.pdl", check=False)
    assert made["notes"] == ["not compared with ONNX Runtime, as asked"]
