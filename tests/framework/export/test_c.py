"""Programs as C99: what a compiler of this machine makes of them computes what the runtime does."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.export.c import EMITTERS, to_c
from pdl.export.c.model import Report
from pdl.export.c.steps import Steps
from pdl.export.c.web import web_folder
from pdl.export.quantise import calibrate
from pdl.kernels import runtime
from pdl.ops.base import Spec
from pdl.ops.boxes import Suppression
from pdl.program import Program
from pdl.program.tracing import trace
from pdl.runtime.session import Session
from pdl.testing.ops import onnx_programs
from tests.framework.ops.test_ops import CASES

CC = next((found for word in ("cc", "gcc", "clang") if (found := shutil.which(word))), None)
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
#: cases of each op
MOST = 1
FLAGS = ["-std=c99", "-fPIC", "-shared", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror"]
FLAGS += ["-Wno-aggressive-loop-optimizations"]  # GCC sees loops that no size reaches


class Written(NamedTuple):
    """A program in C, the arrays that it is run on, and what the runtime answers."""

    made: Report
    given: Sequence[Array]
    wanted: Sequence[Array]


def written(program: Program, name: str, given: Sequence[Array], **more: Any) -> Written:
    session = Session.of(program, tune=False)
    names = [port.name for port in session.inputs]
    made = to_c(program, name, shapes=dict(zip(names, [a.shape for a in given], strict=True)), inputs=names, **more)
    return Written(made, given, list(session.run(dict(zip(names, given, strict=True))).values()))


def answers(folder: Path, all_of: Sequence[Written], *flags: str) -> Iterator[list[Array]]:
    """The outputs of each program, all compiled into one library."""
    for each in all_of:
        (folder / f"{each.made.name}.c").write_text(each.made.source)
        (folder / f"{each.made.name}.h").write_text(each.made.header)
    sources = [f"{each.made.name}.c" for each in all_of]
    subprocess.run([str(CC), *FLAGS, *flags, "-o", "all.so", *sources, "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "all.so"))
    for each in all_of:
        outs = [np.full(p.shape, 77, p.dtype) for p in each.made.outputs]
        arrays = [np.ascontiguousarray(a) for a in each.given] + outs
        library[f"{each.made.name}_run"](*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        yield outs


def difference(found: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The largest one, over the larger of 1 and the largest number."""
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        x, y = a.astype(np.float64), b.astype(np.float64)
        assert np.array_equal(np.isnan(x), np.isnan(y))
        same = (x == y) | np.isnan(x)
        apart = np.where(same, 0.0, np.abs(np.where(same, 0, x) - np.where(same, 0, y)))
        size = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        worst = max(worst, float(apart.max(initial=0.0)) / size)
    return worst


def test_every_op_that_has_a_kernel(tmp_path: Path) -> None:
    """The cases of the op tables: written and right, or refused with the name of the op."""
    names, found, kinds = [], list[Written](), Counter[type]()
    for case in CASES:
        if case.untraceable:
            continue
        for program, given in onnx_programs(case):
            values = [*program.inputs, *program.captures, *(v for node in program.nodes for v in node.outputs)]
            if any(v.spec.dtype.kind == "c" for v in values) or not {type(n.op) for n in program.nodes} <= set(
                EMITTERS
            ):
                continue
            if min((kinds[type(node.op)] for node in program.nodes), default=MOST) >= MOST:
                continue
            made = None
            with contextlib.suppress(UsageError):  # this setting of the op has no form
                made = written(program, f"k{len(found)}", given)
            if made is None:
                continue
            found.append(made)
            names.append(case.id)
            kinds.update({type(node.op) for node in program.nodes})
    assert len(kinds) > 90
    for name, each, outs in zip(names, found, answers(tmp_path, found, "-O0"), strict=True):
        assert difference(outs, each.wanted) <= 2e-5, name


# -- nets --------------------------------------------------------------------------------------------------------------
class Net(nn.Module):
    """A stem, a depthwise convolution, a residual, pooling: 3x3 taps between 16 channels, of an image 16 x 16."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.wide = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.each, self.mix = nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=16), nn.Conv2d(16, 21, 1)
        self.head = nn.Linear(21, 5)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        x = pdl.relu(self.stem(x))
        x = pdl.relu(self.wide(x) + x)
        x = pdl.max_pool(pdl.relu(self.each(x)), 2)
        return self.head(pdl.mean(pdl.relu(self.mix(x)), axis=(1, 2)))


def traced() -> Program:
    pdl.seed(1)
    return trace(Net().eval(), Spec((2, 16, 16, 3), pdl.float32))


def images() -> Array:
    return np.random.default_rng(2).standard_normal((2, 16, 16, 3)).astype(np.float32)


@pytest.mark.parametrize("flags", [("-O1",), ("-O1", "-march=native"), ("-O1", "-U__SSE2__")])
def test_a_net(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Direct sums and Winograd's filters, in vectors and in plain C."""
    made = [written(traced(), "direct", [images()]), written(traced(), "fast", [images()], fast=True)]
    assert "winograd" not in made[0].made.source
    assert "winograd" in made[1].made.source
    for each, outs in zip(made, answers(tmp_path, made, *flags), strict=True):
        assert difference(outs, each.wanted) <= 1e-5


class Windows(nn.Module):
    """Windows of all sorts: even and odd numbers of channels, alone and in groups, dilated, longer than high, moved by
    two, at the edge and not, of which some rows of bytes are no whole number of fours; hardswish; one pixel at last."""

    def __init__(self) -> None:
        self.stem, self.groups = nn.Conv2d(3, 36, (3, 5), stride=2, padding=(1, 2)), nn.Conv2d(36, 12, 3, groups=4)
        self.each = nn.Conv2d(36, 36, 3, padding=2, dilation=2, groups=36)
        self.apart = nn.Conv2d(12, 45, 2, padding=1, dilation=2)
        self.few, self.high = nn.Conv2d(45, 45, 3, groups=45), nn.Conv2d(45, 70, (3, 1), padding=(1, 0))
        self.head = nn.Linear(70, 37)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        x = pdl.hardswish(self.stem(x))
        x = self.apart(pdl.relu(self.groups(pdl.relu(self.each(x)) + x)))
        x = pdl.relu(self.high(pdl.relu(self.few(pdl.relu(x)))))
        return self.head(pdl.mean(x, axis=(1, 2)))


def vectors() -> list[tuple[str, ...]]:
    """Flags of compilers for the vectors that this machine may have, of each sort."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return [(), ("-march=native",)]
    own = runtime.isa()
    more = [("-mavx2", "-mfma")] if own != "baseline" else []
    more += [("-mavx2", "-mfma", "-mavx512vl", "-mavx512vnni")] if own in ("avx512_vnni", "avx512_bf16") else []
    return [(), *more, ("-march=native",), ("-U__SSE2__",)]


@pytest.mark.parametrize("flags", vectors(), ids=" ".join)
def test_bytes_are_the_same_integers(tmp_path: Path, flags: tuple[str, ...]) -> None:
    pdl.seed(1)
    nets = [traced(), trace(Windows().eval(), Spec((2, 16, 16, 3), pdl.float32))]
    made = [written(calibrate(net, [[images()]]).program, f"bytes{n}", [images()]) for n, net in enumerate(nets)]
    assert {"QConv", "QLinear", "QMaxPool"} <= set(made[0].made.ops)
    assert made[1].made.ops["QConv"] == 6
    for each, outs in zip(made, answers(tmp_path, made, "-O1", *flags), strict=True):
        assert np.array_equal(outs[0], each.wanted[0])


@pytest.mark.skipif(find_spec("ziglang") is None or not shutil.which("node"), reason="no ziglang, or no Node.js, here")
@pytest.mark.parametrize("fast", [False, True])
def test_a_net_as_webassembly(tmp_path: Path, fast: bool) -> None:
    """The folder's own test, in Node.js; no page, since no steps take pictures."""
    made, (given,), (wanted,) = written(traced(), "net", [images()], fast=fast, apart=True)
    steps = Steps("net", {"pre": {}, "post": {}}, [])
    sample, answer = {made.inputs[0].name: given}, {made.outputs[0].name: wanted}
    files = web_folder(tmp_path, made, steps, sample, answer, exact=False, unordered=False, title="net", version="1")
    assert [path.name for path in files] == ["model.wasm", "model.js", "test.mjs", "README.txt"]
    done = subprocess.run(["node", "test.mjs"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("net: largest difference")


def test_sizes_are_numbers_and_memory_is_planned() -> None:
    made = to_c(traced(), "1 net", shapes={"x": (2, 16, 16, 3)}, inputs=["x"])
    assert made.name == "m_1_net"
    assert "malloc" not in made.source
    assert made.arena < sum(n * 4 for n in (2 * 16 * 16 * 16, 2 * 16 * 16 * 16, 2 * 8 * 8 * 16)) + 4096
    with pytest.raises(ShapeError, match="3 sizes, but x is"):
        to_c(traced(), "net", shapes={"x": (2, 16, 16)}, inputs=["x"])
    with pytest.raises(UsageError, match="--shape y: the model has the inputs x"):
        to_c(traced(), "net", shapes={"y": (2,)}, inputs=["x"])


def test_an_op_without_a_kernel_is_named_with_its_line() -> None:
    program = trace(lambda x: pdl.sort(x, axis=0), Spec((3, 2), pdl.float32))
    with pytest.raises(UsageError, match=r"no C form:\n  .*test_c.py:\d+: \w+: it has no C kernel"):
        to_c(program, "net")


# -- boxes -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("each", [False, True])
def test_boxes_that_are_left(tmp_path: Path, each: bool) -> None:
    """Every kind of suppression answers with the runtime's boxes, scores, labels and anchors, in its order: of scores
    many of which are equal, more than there are candidates; and of none above the least."""
    rng = np.random.default_rng(4)
    anchors, classes = 90, 3
    corner = rng.uniform(0, 30, (2, anchors, *((classes,) if each else ()), 2))
    boxes = np.concatenate([corner, corner + rng.uniform(-1, 20, corner.shape)], axis=-1).astype(np.float32)
    scores = (rng.integers(0, 24, (2, anchors, classes)) / 24).astype(np.float32)
    scores[1, :, 1] = np.nan
    settings: list[dict[str, Any]] = [
        {"kind": kind, "per_class": apart, "candidates": few, "most": most}
        for kind in get_args(Suppression)
        for apart, few, most in ((True, 1000, 40), (False, 60, 100), (True, 1, 3))
    ]
    settings.append({"score_threshold": 1.0})
    found = []
    for number, setting in enumerate(settings):
        specs = (Spec(a.shape, pdl.float32) for a in (boxes, scores))
        program = trace(lambda b, s, k=setting: pdl.select_boxes(b, s, **k), *specs)
        found.append(written(program, f"boxes{number}", [boxes, scores]))
    for setting, each_of, outs in zip(settings, found, answers(tmp_path, found, "-O1"), strict=True):
        assert difference(outs, each_of.wanted) <= 1e-6, setting
