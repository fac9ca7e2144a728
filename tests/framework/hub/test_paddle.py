"""Paddle's weights: records written here as Paddle writes them, damaged ones, and names that Paddle2ONNX has lost."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError
from pdl.hub.paddle import named_as_in_paddle, read_paddle
from pdl.onnx import reader

ARRAYS = {
    "linear_0.w_0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "linear_0.b_0": np.array([1.5, -2, 0], np.float32),
    "conv2d_10.w_0": np.ones((1, 300, 1, 1), np.float32),
    "conv2d_9.w_0": np.array([[7]], np.int64),
    "step": np.float64(3),
}
KINDS = {"float32": 5, "int64": 3, "float64": 6}


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(x: np.ndarray) -> bytes:
    return field(1, KINDS[str(x.dtype)]) + b"".join(field(2, n) for n in x.shape)


def record(x: np.ndarray) -> bytes:
    message = tensor(x)
    return struct.pack("<IQIi", 0, 0, 0, len(message)) + message + x.tobytes()


def variable(name: str, kind: int, *, saved: bool) -> bytes:
    return field(3, field(1, name.encode()) + field(2, field(1, kind)) + field(3, int(saved)))


def write(folder: Path) -> Path:
    block = field(1, 0) + field(2, 0)
    block += b"".join(variable(name, 7, saved=True) for name in ARRAYS)
    block += variable("feed", 9, saved=True) + variable("fetch", 10, saved=True) + variable("relu_0", 7, saved=False)
    (folder / "inference.pdmodel").write_bytes(field(1, block) + varint(4 << 3 | 5) + b"1234" + field(5, 1))
    path = folder / "inference.pdiparams"
    path.write_bytes(b"".join(record(ARRAYS[name]) for name in sorted(ARRAYS)))
    return path


def test_records_have_the_names_of_the_program_in_their_order(tmp_path: Path) -> None:
    found = read_paddle(write(tmp_path))
    assert list(found) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)


def test_whatever_is_cut_off_is_missed(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    for length in (1, 7, 20, 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"no record of .* the file is damaged, or belongs to another program"):
            read_paddle(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DataError, match="1 bytes behind the last of the 5 parameters"):
        read_paddle(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read"):
        read_paddle(path)


def test_programs_that_are_none(tmp_path: Path) -> None:
    path = write(tmp_path)
    program = path.with_suffix(".pdmodel")
    whole = program.read_bytes()
    for content in (whole[:40], b"\xff" * 11, b"\x0a\xff\xff\xff\xff\x0f"):
        program.write_bytes(content)
        with pytest.raises(DataError, match="no program of Paddle, or a damaged one"):
            read_paddle(path)
    program.write_bytes(b"")
    with pytest.raises(DataError, match="no parameters"):
        read_paddle(path)
    program.unlink()
    with pytest.raises(DataError, match=r"inference\.pdmodel, which names what it holds, cannot be read"):
        read_paddle(path)


def test_a_byte_that_is_wrong_is_an_error_or_another_number(tmp_path: Path) -> None:
    """No other exception, and no more memory than the file has bytes."""
    path = write(tmp_path)
    generator = np.random.default_rng(0)
    for file in (path, path.with_suffix(".pdmodel")):
        whole = file.read_bytes()
        for _ in range(300):
            changed = bytearray(whole)
            changed[generator.integers(len(whole))] = generator.integers(256)
            file.write_bytes(changed)
            try:
                found = read_paddle(path)
            except DataError:
                continue
            assert sum(array.nbytes for array in found.values()) <= path.stat().st_size
        file.write_bytes(whole)


GRAPH = """<ir_version: 8, opset_import: ["" : 14]>
g (float[1, 3, 4, 4] x) => (float[1, 1, 8, 8] y)
{ w = Identity(conv2d_3.w_0)  c = Conv<pads = [1, 1, 1, 1]>(x, w)  d = Identity(c)
  s = Add(lost.0, d)  n = Mul(s, helper.reshape.2)  m = Add(n, helper.reshape.3)
  e = Conv(m, conv2d_1.w_0, lost.1)  r = Add(e, m)
  t = ConvTranspose<strides = [2, 2]>(r, lost.2)  y = Add(t, lost.3) }"""


def test_names_that_are_lost_in_onnx_are_found_by_the_graph() -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(GRAPH.replace(".", "_DOT_"))
    shapes = {
        "conv2d_3.w_0": (2, 3, 3, 3), "lost.0": (1, 2, 1, 1), "helper.reshape.2": (1,), "helper.reshape.3": (1,),
        "conv2d_1.w_0": (2, 2, 1, 1), "lost.1": (2,), "lost.2": (2, 1, 2, 2), "lost.3": (1, 1, 1, 1),
    }  # fmt: skip
    for number, (name, shape) in enumerate(shapes.items()):
        array = np.full(shape, number, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name.replace(".", "_DOT_")))
    for node in model.graph.node:
        node.input[:] = [name.replace("_DOT_", ".") for name in node.input]
    for held in model.graph.initializer:
        held.name = held.name.replace("_DOT_", ".")
    graph = reader.from_proto(model).graph
    found = named_as_in_paddle(graph, graph.initialisers)
    assert {name: int(array.flat[0]) for name, array in found.items()} == {
        "conv2d_3.w_0": 0, "conv2d_3.b_0": 1, "layer_norm_1.w_0": 2, "layer_norm_1.b_0": 3, "conv2d_1.w_0": 4,
        "conv2d_1.b_0": 5, "conv2d_transpose_0.w_0": 6, "conv2d_transpose_0.b_0": 7,
    }  # fmt: skip
    assert found["conv2d_3.b_0"].shape == (2,)
    others = {name.replace(".w_0", ".weight"): array for name, array in graph.initialisers.items()}
    assert named_as_in_paddle(graph, others) == others
