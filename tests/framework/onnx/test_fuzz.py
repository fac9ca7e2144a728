"""Damaged ONNX files: each gives a clear error or runs; none crashes, hangs, or takes the machine's memory.

Files are damaged in a child process of bounded memory, which says which case it is at: a crash or a hang names it.
`python -m tests.framework.onnx.test_fuzz 7 100` runs the cases 7 to 106 by hand.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzzing import seed

from .building import FLOAT, INT64, conv_net, graph, loop_model, model, node, onnx, port

CASES, BATCH = 2000, 250
SECONDS, MEMORY = 20, 6 << 30  # of CPU time for one case; of the child, address space
PATIENCE = 3600  # seconds for a child, should it wait for what never comes
ROOM, STEPS = 2**27, 20_000  # bytes of an array and nodes of a run, in the child


# -- good models to damage ---------------------------------------------------------------------------------------------
def shapes_model() -> bytes:
    """Shape arithmetic, slices, padding, tiling, gathering, ranges: values that decide sizes."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "one", "two"], ["tail"]),
        node("Concat", ["tail", "minus"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["r"]),
        node("Pad", ["r", "pads"], ["p"]),
        node("Tile", ["p", "twice"], ["t"]),
        node("Gather", ["t", "places"], ["g"], axis=0),
        node("ConstantOfShape", ["wide"], ["ones"]),
        node("Range", ["first", "last", "step"], ["range"]),
        node("Cast", ["range"], ["line"], to=FLOAT),
        node("Expand", ["line", "wide"], ["lines"]),
        node("ReduceSum", ["lines", "one"], ["sum"]),
        node("OneHot", ["places", "depth", "onoff"], ["hot"]),
        node("Einsum", ["hot", "hot"], ["squares"], equation="ij,kj->ik"),
        node("ReduceMean", ["g"], ["mean"], keepdims=0),
        node("Add", ["sum", "ones"], ["a"]),
        node("Add", ["a", "mean"], ["y"]),
    ]
    ints = {
        "one": [1], "two": [2], "minus": [-1], "pads": [0, 1, 1, 0], "twice": [2, 1], "places": [0, 2], "wide": [3, 4],
    }  # fmt: skip
    weights: dict[str, Any] = {name: np.array(v, np.int64) for name, v in ints.items()}
    weights |= {"first": np.int64(0), "last": np.int64(4), "step": np.int64(1), "depth": np.int64(5)}
    weights["onoff"] = np.array([0, 1], np.float32)
    outputs = [port("y"), port("squares")]
    return model(nodes, [port("x", ["n", 6])], outputs, weights, opset=13)


def recurrent_model() -> bytes:
    """An LSTM and a GRU, a layer norm, a softmax, TopK."""
    r = np.random.default_rng(0)
    sizes = {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32), "gw": (2, 12, 4), "gr": (2, 12, 4), "scale": (8,)}
    weights: dict[str, Any] = {name: r.standard_normal(shape).astype(np.float32) for name, shape in sizes.items()}
    weights |= {"k": np.array([2]), "flat": np.array([0, 0, -1])}
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["h"], hidden_size=4),
        node("Squeeze", ["h", "axis"], ["hs"]),
        node("GRU", ["hs", "gw", "gr"], ["g"], hidden_size=4, direction="bidirectional"),
        node("Transpose", ["g"], ["gt"], perm=[0, 2, 1, 3]),
        node("Reshape", ["gt", "flat"], ["f"]),
        node("LayerNormalization", ["f", "scale"], ["l"], axis=-1),
        node("Softmax", ["l"], ["p"], axis=-1),
        node("TopK", ["p", "k"], ["best", "where"]),
    ]
    weights["axis"] = np.array([1])
    return model(nodes, [port("x", ["t", "n", 3])], [port("best"), port("where", None, INT64)], weights)


def image_model() -> bytes:
    """Resize, transposed and dilated convolution, pools, depth to space, a quantised pair, a branch."""
    r = np.random.default_rng(0)
    weights: dict[str, Any] = {
        "w": r.standard_normal((4, 8, 2, 2)).astype(np.float32), "scales": np.array([1, 1, 2, 2], np.float32),
        "v": r.standard_normal((4, 8, 3, 3)).astype(np.float32), "step": np.float32(0.1), "zero": np.uint8(128),
        "limit": np.float32(0),
    }  # fmt: skip
    then = graph([node("Neg", ["a"], ["yes"])], [], [port("yes")])
    other = graph([node("Abs", ["a"], ["no"])], [], [port("no")])
    nodes = [
        node("Resize", ["x", "", "scales"], ["big"], mode="linear"),
        node("ConvTranspose", ["big", "w"], ["up"], strides=[2, 2], pads=[0, 1, 0, 1]),
        node("Conv", ["up", "v"], ["c"], dilations=[2, 2], auto_pad="SAME_UPPER"),
        node("AveragePool", ["c"], ["m"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1]),
        node("DepthToSpace", ["m"], ["d"], blocksize=2),
        node("QuantizeLinear", ["d", "step", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "step", "zero"], ["a"]),
        node("ReduceMax", ["a"], ["top"], keepdims=0),
        node("Greater", ["top", "limit"], ["cond"]),
        node("If", ["cond"], ["y"], then_branch=then, else_branch=other),
    ]
    return model(nodes, [port("x", [1, 4, "h", "w"])], [port("y")], weights, opset=17)


GOOD = {
    "conv": conv_net, "loop": loop_model, "shapes": shapes_model, "recurrent": recurrent_model, "image": image_model,
}  # fmt: skip
HUGE = [-1, 0, 1, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1, -7, 3]


# -- ways to damage one ------------------------------------------------------------------------------------------------
def bits(data: bytes, r: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(r.choice([1, 1, 3, 20])):
        made[r.randrange(len(made))] ^= 1 << r.randrange(8)
    return bytes(made)


def cut(data: bytes, r: random.Random) -> bytes:
    return data[: r.randrange(len(data))]


def moved(data: bytes, r: random.Random) -> bytes:
    """A piece of the file taken out, or put in a second time."""
    a, b = sorted(r.randrange(len(data)) for _ in range(2))
    return data[:a] + data[b:] if r.random() < 0.5 else data[:b] + data[a:b] + data[b:]


def with_proto(change: Any) -> Any:
    def damage(data: bytes, r: random.Random) -> bytes:
        proto = onnx.ModelProto.FromString(data)
        for _ in range(r.choice([1, 1, 2, 4])):
            change(proto, r)
        return bytes(proto.SerializeToString())

    damage.__name__ = change.__name__
    return damage


def tensors(proto: Any, r: random.Random) -> None:
    """Values, dims, dtype or bytes of an initialiser."""
    t = r.choice(proto.graph.initializer) if proto.graph.initializer else proto.graph.initializer.add(name="new")
    how = r.randrange(5)
    if how == 0:
        t.data_type = r.randrange(-1, 30)
    elif how == 1 and t.dims:
        t.dims[r.randrange(len(t.dims))] = r.choice(HUGE)
    elif how == 2:
        other = r.choice(proto.graph.initializer)
        t.raw_data, other.raw_data = other.raw_data, t.raw_data
    elif how == 3 and t.data_type == INT64 and len(t.raw_data) >= 8:
        values = np.frombuffer(t.raw_data[: len(t.raw_data) // 8 * 8], np.int64).copy()
        values[r.randrange(len(values))] = r.choice(HUGE)
        t.raw_data = values.tobytes()
    else:
        t.dims.append(r.choice(HUGE))


def attributes(proto: Any, r: random.Random) -> None:
    """An attribute of a node: a number, its type, or gone."""
    n = r.choice(proto.graph.node)
    if not n.attribute:
        n.attribute.add(name=r.choice(["axis", "perm", "alpha", "to"]), type=2, i=r.choice(HUGE))
        return
    a = r.choice(n.attribute)
    how = r.randrange(4)
    if how == 0:
        n.attribute.remove(a)
    elif how == 1:
        a.type = r.randrange(0, 15)
    elif a.ints:
        a.ints[r.randrange(len(a.ints))] = r.choice(HUGE)
    else:
        a.i = r.choice(HUGE)


def wiring(proto: Any, r: random.Random) -> None:
    """A node that reads or makes another name: cycles, names nobody makes, names made twice."""
    n = r.choice(proto.graph.node)
    names = [x for m in proto.graph.node for x in (*m.input, *m.output)] + ["", "nowhere"]
    side = r.choice([n.input, n.output])
    if side:
        side[r.randrange(len(side))] = r.choice(names)


def ops(proto: Any, r: random.Random) -> None:
    """Another op, opset, domain, order, or a node more or less."""
    nodes = proto.graph.node
    n = r.choice(nodes)
    how = r.randrange(6)
    if how == 0:
        n.op_type = r.choice(nodes).op_type
    elif how == 1:
        proto.opset_import[0].version = r.choice([0, 1, 7, 9, 11, 12, 13, 18, 22, 99, -1])
    elif how == 2:
        n.domain = r.choice(["com.microsoft", "ai.onnx.ml", "nobody"])
    elif how == 3:
        n.input.append(r.choice(nodes).output[0] if r.choice(nodes).output else "")
    elif how == 4 and len(n.input):
        del n.input[-1]
    elif len(nodes) > 1:
        del nodes[r.randrange(len(nodes))]


def ports(proto: Any, r: random.Random) -> None:
    """The declaration of an input."""
    info = r.choice(proto.graph.input).type.tensor_type
    if r.random() < 0.5:
        info.elem_type = r.randrange(0, 30)
    elif info.shape.dim:
        d = r.choice(info.shape.dim)
        d.dim_value = r.choice(HUGE)
    else:
        info.shape.dim.add(dim_value=r.choice(HUGE))


DAMAGES = [bits, cut, moved, *map(with_proto, (tensors, attributes, wiring, ops, ports))]


def damaged(number: int) -> bytes:
    """The file of a case."""
    r = random.Random(number)
    return bytes(r.choice(DAMAGES)(GOOD[r.choice(list(GOOD))](), r))


# -- the child ---------------------------------------------------------------------------------------------------------
def attempt(data: bytes) -> str:
    """What came of a file: "error" (a clear one) or "ran"; raises what is none of the two."""
    from pdl.errors import PdlError
    from pdl.export.imported import packed, random_inputs
    from pdl.onnx import load_model
    from pdl.onnx.axes import named_axes
    from pdl.onnx.importer import fixed
    from pdl.runtime import load

    try:
        made = load_model(data)
        sizes = {n: 8 for shape in named_axes(made.graph.inputs).values() for n in shape or () if isinstance(n, str)}
        shapes = fixed(made.shapes, {**sizes, **made.examples})
        if sum(np.prod([int(n) for n in shape or ()], dtype=float) for shape in shapes.values()) > 1e6:
            return "large"
        feeds = random_inputs(made, shapes)
        session = load(packed(made, "fuzz", {}, []))
        first = session.run(feeds)
    except PdlError as error:
        if not str(error):
            raise AssertionError("an error that says nothing") from error
        return "error"
    for name, want in made.graph.run(feeds).items():
        if isinstance(want, np.ndarray) and want.dtype.kind in "fiub":
            np.testing.assert_allclose(first[name], want, rtol=1e-2, atol=1e-2)
    return "ran"


def _late(*_: Any) -> None:
    raise BaseException("it hangs")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(begin: int, count: int) -> int:
    """Run cases; every line of output is a case begun or what came of it."""
    from pdl.onnx import graph, values

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, _late)
    values.LARGEST, graph.MOST_STEPS, graph.MOST_TRACED = ROOM, STEPS, STEPS
    bad = 0
    for number in range(begin, begin + count):
        say(f"case {number}")
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            say(attempt(damaged(number)))
        except BaseException:
            bad += 1
            say(f"FAILED {number}: {traceback.format_exc(limit=-6)}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    held = Path("/proc/self/status").read_text().split("VmHWM:")[1]  # ru_maxrss would count the parent's memory, too
    say(f"peak {int(held.split()[0]) >> 10} MiB")
    return bad


def in_child(begin: int, count: int) -> None:
    root = Path(__file__).parents[3]
    paths = [str(root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore", "PDL_LOG": ""}
    command = [sys.executable, "-m", __name__, str(begin), str(count)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=root, env=environment, timeout=PATIENCE
    )
    said = done.stdout[done.stdout.find("FAILED") :] if "FAILED" in done.stdout else done.stdout[-300:]
    assert done.returncode == 0, f"exit {done.returncode}\n{said}\n{done.stderr[-2000:]}"
    peak = int(done.stdout.rsplit("peak ", 1)[1].split()[0])
    assert peak < 3000, f"the child took {peak} MiB"
    assert "ran" in done.stdout
    assert "error" in done.stdout


@pytest.mark.parametrize("name", GOOD)
def test_good_models_run(name: str) -> None:
    assert attempt(GOOD[name]()) == "ran"


def test_damaged_files() -> None:
    in_child(0, 60)


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(0, CASES, BATCH))
def test_many_damaged_files(begin: int) -> None:
    """Other files every day; the number of one that fails is said."""
    in_child(seed() * CASES + begin, BATCH)


if __name__ == "__main__":
    raise SystemExit(min(1, main(int(sys.argv[1]), int(sys.argv[2]))))
