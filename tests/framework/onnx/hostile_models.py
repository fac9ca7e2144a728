"""Models of TensorFlow Lite and of Paddle, damaged, by the number.

python -m tests.framework.onnx.hostile_models FIRST COUNT     try so many numbers; prints what came of them as JSON
python -m tests.framework.onnx.hostile_models NUMBER 1 one    show one, and run it in this process
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from pdl.errors import PdlError
from pdl.export.imported import packed, random_inputs
from pdl.onnx import graph, load_model, values
from pdl.onnx.importer import fixed
from pdl.runtime import load
from tests.fuzzing import main, say

from .flat import Lite
from .lite_nets import net, sparse_net
from .paddled import Paddled

#: bytes of an array and nodes of a run; numbers of all inputs
ROOM, STEPS, INPUTS = 2**27, 20_000, 1e6
Files = dict[str, bytes]
Damage = Callable[[bytes, random.Random], bytes]


# -- good ones ---------------------------------------------------------------------------------------------------------
def lite_moves() -> bytes:
    """Shapes, slices, padding, joins: numbers in the file that decide sizes."""
    lite = Lite()
    x, kinds = lite.tensor("x", (1, 4, 6, 3)), {"begin_mask": 1, "end_mask": 1, "ellipsis_mask": 0, "new_axis_mask": 0}

    def ints(name: str, *numbers: int) -> int:
        return lite.constant(name, np.array(numbers, np.int32))

    ends = [lite.tensor(name, shape) for name, shape in {
        "p": (1, 6, 7, 3), "s": (1, 5, 3, 3), "r": (1, 45), "a": (1, 15), "b": (1, 15), "c": (1, 15), "k": (1, 3, 15),
        "z": (1, 9, 8, 3), "t": (1, 12, 8, 4), "y": (2, 4, 6, 3)}.items()]  # fmt: skip
    p, s, r, a, b, c, k, z, t, y = ends
    pads = lite.constant("pads", np.array([[0, 0], [1, 1], [0, 1], [0, 0]], np.int32))
    lite.op("PAD", [x, pads], [p])
    lite.op("STRIDED_SLICE", [p, ints("i", 0, 1, -1, 0), ints("j", 1, 6, 0, 3), ints("l", 1, 1, -2, 1)], [s],
            shrink_axis_mask=0, offset=False, **kinds)  # fmt: skip
    lite.op("RESHAPE", [s, ints("to", 1, -1)], [r], new_shape=[1, -1])
    lite.op("SPLIT", [ints("one", 1), r], [a, b, c], num_splits=3)
    lite.op("PACK", [a, b, c], [k], axis=1)
    lite.op("RESIZE_BILINEAR", [x, ints("size", 9, 8)], [z], align_corners=False, half_pixel_centers=True)
    w = lite.constant("w", np.ones((4, 2, 2, 3), np.float32))
    lite.op("TRANSPOSE_CONV", [ints("shape", 1, 12, 8, 4), w, x], [t], padding="SAME", stride_h=3, stride_w=1,
            activation="RELU")  # fmt: skip
    lite.op("TILE", [x, ints("times", 2, 1, 1, 1)], [y])
    return lite.file([x], [k, z, t, y], {"inputs": {"x": x}, "outputs": {"k": k, "z": z, "t": t, "y": y}})


def paddle_net(form: str) -> Files:
    """A convolution, its norm, pooling, a slice of a reshaped row, in a form of program."""
    m, r = Paddled(), np.random.default_rng(0)
    x, old = m.feed("x", [1, 3, 8, 8]), form == ".pdmodel"
    w = m.weight("conv2d_0.w_0", r.normal(size=(4, 3, 3, 3)).astype(np.float32))
    stats = [m.weight(f"bn.{n}", r.uniform(1, 2, 4).astype(np.float32)) for n in "mvsb"]
    window = {"strides": [2, 2], "paddings": [1, 1], "dilations": [1, 1], "groups": 1, "data_format": "NCHW"}
    pool = {"strides": [2, 2], "paddings": [0, 0], "pooling_type": "max"}
    table = m.weight("table", r.normal(size=(16, 5)).astype(np.float32))
    if old:
        m.op("conv2d", {"Input": x, "Filter": w}, {"Output": "c"}, **window)
        inputs = zip(("X", "Mean", "Variance", "Scale", "Bias"), ("c", *stats), strict=True)
        m.op("batch_norm", dict(inputs), {"Y": "n"}, epsilon=1e-5)
        m.op("relu", {"X": "n"}, {"Out": "n"})
        m.op("pool2d", {"X": "n"}, {"Out": "p"}, ksize=[2, 2], **pool)
        m.op("reshape2", {"X": "p"}, {"Out": "f"}, shape=[0, -1])
        m.op("mul", {"X": "f", "Y": table}, {"Out": "s"}, x_num_col_dims=1, y_num_col_dims=1)
        m.op("slice", {"Input": "s"}, {"Out": "y"}, axes=[1], starts=[1], ends=[4], decrease_axis=[])
        return {"m.pdmodel": m.program(["y"]), "m.pdiparams": m.params()}
    m.op("conv2d", [x, w], ["c"], **window)
    m.op("batch_norm_", ["c", *stats], ["n", "", "", "", "", ""], epsilon=1e-5)
    for name, numbers in {"two": [2, 2], "row": [0, -1], "one": [1], "four": [4]}.items():
        m.op("full_int_array", [], [name], value=numbers)
    m.op("pool2d", ["n", "two"], ["p"], **pool)
    m.op("reshape", ["p", "row"], ["f"])
    m.op("matmul", ["f", table], ["s"])
    m.op("slice", ["s", "one", "four"], ["y"], axes=[1], decrease_axis=[])
    return {"m.json": m.pir(["y"], {"y": ("float32", [1, 3])}), "m.pdiparams": m.params()}


@cache
def good() -> list[Files]:
    """The files of models; the first of each is the one to name."""
    lite = [*map(net, ("float", "int8", "uint8", "half")), net(dynamic=True, signature=True)]
    lite += [lite_moves(), sparse_net()]
    return [{"m.tflite": data} for data in lite] + [paddle_net(".json"), paddle_net(".pdmodel")] * 3


# -- ways to damage one ------------------------------------------------------------------------------------------------
def bits(data: bytes, r: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(r.choice([1, 1, 3, 20]) if made else 0):
        made[r.randrange(len(made))] ^= 1 << r.randrange(8)
    return bytes(made)


def cut(data: bytes, r: random.Random) -> bytes:
    return data[: r.randrange(len(data) + 1)]


def moved(data: bytes, r: random.Random) -> bytes:
    """A piece taken out, put in again, or put where another was."""
    a, b = sorted(r.randrange(len(data) + 1) for _ in range(2))
    c = r.randrange(len(data) + 1)
    return r.choice([data[:a] + data[b:], data[:b] + data[a:b] + data[b:], data[:c] + data[a:b] + data[c + b - a :]])


def spliced(data: bytes, r: random.Random) -> bytes:
    """The beginning of one and the end of another."""
    other = r.choice([each for files in good() for each in files.values()])
    at = r.randrange(min(len(data), len(other)) + 1)
    return data[:at] + other[at:]


def numbers(data: bytes, r: random.Random) -> bytes:
    """A number of 1, 2, 4 or 8 bytes, mostly at a place of its size, near an end of its range; or digits of a text."""
    made, width = bytearray(data), r.choice([1, 2, 4, 4, 4, 8])
    if len(made) < 8:
        return data
    if data[:1] == b"{" and (places := [i for i, byte in enumerate(data) if 48 <= byte < 58]):
        at = r.choice(places)
        other = r.choice([b"-1", b"0", b"9", b"99999999999", b"1e9", b"null", b'"a"', b"[1]"])
        return data[:at] + other + data[at + 1 :]
    at = r.randrange(len(made) - width + 1) // width * width
    value = r.choice([0, 1, -1, 2, 2**31 - 1, 2**31, 2**40, 2**62, -2, 255, r.randrange(256)])
    made[at : at + width] = (value % 256**width).to_bytes(width, "little")
    return bytes(made)


DAMAGES: list[Damage] = [bits, bits, cut, moved, spliced, numbers, numbers, numbers]


def damaged(number: int) -> Files:
    """The files of a case."""
    r = random.Random(number)
    files = dict(r.choice(good()))
    for _ in range(r.choice([1, 1, 1, 2, 4])):
        name = r.choice(list(files))
        files[name] = r.choice(DAMAGES)(files[name], r)
    return files


# -- one case ----------------------------------------------------------------------------------------------------------
def run(files: Files) -> str:
    """ "ran", "large" (inputs that nobody gives), or an error."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        made = load_model(Path(folder, next(iter(files))))
        shapes = fixed(made.shapes, made.examples)
        sizes = ([n for n in shape or () if isinstance(n, int)] for shape in shapes.values())
        if any(np.prod(each, dtype=float) > INPUTS for each in sizes):
            return "large"
        feeds = random_inputs(made, shapes)
        load(packed(made, "fuzz", {}, [])).run(feeds)
    return "ran"


def outcome(number: int) -> str:
    """ "ran", "large", "refused" (pdl's own error, which says something) or "raw ..."."""
    try:
        return run(damaged(number))
    except PdlError as error:
        return "refused" if str(error) else "raw error that says nothing"
    except Exception as error:
        return f"raw {type(error).__name__}: {error}"


def show(number: int) -> None:
    """A case, with the traceback of what is none of pdl's own errors."""
    files = damaged(number)
    say({name: data[:300] for name, data in files.items()})
    try:
        say(run(files))
    except PdlError as error:
        say(repr(error))


if __name__ == "__main__":
    values.LARGEST, graph.MOST_STEPS, graph.MOST_TRACED = ROOM, STEPS, STEPS
    main(outcome, show)
