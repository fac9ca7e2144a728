"""The nets of the inference race, each written as a bundle for pdl and as an ONNX file for ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Race:
    """A net and its inputs. `work`: its name among the training workloads; `image`: (H, W, C) of a picture, None for
    token numbers; `bf16`: it is raced in bfloat16 too.
    """

    work: str
    image: tuple[int, int, int] | None = None
    bf16: bool = True

    def inputs(self, batch: int) -> Array:
        """Images [N, H, W, C] float32 or tokens [N, length] int64, the same for everyone."""
        from workloads import WORKLOADS

        rng, work = np.random.default_rng(1), WORKLOADS[self.work]
        if self.image is not None:
            return rng.standard_normal((batch, *self.image), dtype=np.float32)
        return rng.integers(0, work.vocabulary, (batch, work.length))


NETS = {
    "lenet": Race("lenet", (28, 28, 1)),
    "resnet20": Race("resnet20", (32, 32, 3)),
    "resnet18_32": Race("resnet18", (32, 32, 3)),
    "resnet18_224": Race("resnet18", (224, 224, 3)),
    "mobilenetv2": Race("mobilenetv2", (224, 224, 3)),
    "resnet50": Race("resnet50", (224, 224, 3)),
    "transformer": Race("transformer"),
    "gru4rec": Race("gru4rec", bf16=False),
}
#: an imported file: its input, [N, C, H, W]
IMPORTED = (3, 48, 320)


def prepare(name: str, folder: Path) -> None:
    """Write NAME.pdl, NAME.onnx and NAME.json, which says what the inputs and outputs are called."""
    import pdl
    from pdl.dims import Dim
    from pdl.export.onnx import to_onnx
    from pdl.ops.base import Spec
    from pdl.program import trace

    race = NETS[name]
    pdl.seed(0)
    net = net_of(name)
    settle(net, race)
    x = race.inputs(2)
    program = trace(net.eval(), Spec((Dim.symbol("n", 3), *x.shape[1:]), x.dtype), name=name)
    report = to_onnx(program, folder / f"{name}.onnx", samples=[[x]], inputs=["x"], outputs=["y"])
    write_bundle(program, folder / f"{name}.pdl", ["x"], ["y"])
    facts = {"input": "x", "channels_first": report.inputs[0].channels_first}
    (folder / f"{name}.json").write_text(json.dumps(facts))


def net_of(name: str) -> Any:
    """The net of the training race with fresh weights; ResNet-18 at 224 pixels has another stem."""
    import pdl_nets
    from workloads import WORKLOADS

    import pdl_cv

    if name == "resnet18_224":
        return pdl_cv.ResNet(18)
    return pdl_nets.net_of(NETS[name].work, WORKLOADS[NETS[name].work])


def settle(net: Any, race: Race) -> None:
    """Give batch norms the statistics of a batch of inputs, so that activations have the sizes of a trained net's."""
    import pdl
    from pdl import nn

    norms = [m for _, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)]
    if norms:
        kept = [m.momentum for m in norms]
        for m in norms:
            m.momentum = 1.0
        net.train()
        with pdl.no_grad():
            net(pdl.Tensor(race.inputs(4)))
        for m, momentum in zip(norms, kept, strict=True):
            m.momentum = momentum


def write_bundle(program: Any, path: Path, inputs: list[str], outputs: list[str]) -> None:
    """A bundle without a pipeline."""
    from pdl.runtime.bundle import pack

    program = program.copy()
    names = program.names()
    for value in program.captures:
        value.name = names[value]
    arrays = {names[v]: v.tensor._data for v in program.captures}
    content = {"kind": "program", "program": program.to_dict(), "inputs": inputs, "outputs": outputs}
    path.write_bytes(pack(content, arrays, name=path.stem))


def prepare_import(source: Path, name: str, folder: Path) -> None:
    """The same three files for an ONNX file of somebody else's: pdl imports it, ONNX Runtime reads it as it is."""
    from pdl.export.imported import import_model

    import_model(source, folder / f"{name}.pdl", force=True)
    (folder / f"{name}.onnx").write_bytes(source.read_bytes())
    (folder / f"{name}.json").write_text(json.dumps({"input": None, "channels_first": False}))


def arrays_of(name: str, batch: int) -> Array:
    """The input of a run, in pdl's layout; an imported net has its own."""
    if name in NETS:
        return NETS[name].inputs(batch)
    return np.random.default_rng(1).standard_normal((batch, *IMPORTED), dtype=np.float32)


# -- the sides ---------------------------------------------------------------------------------------------------------
Call = Callable[[], list[Array]]
#: imports the framework; makes a call of the net
Side = tuple[Callable[[], None], Callable[[], Call]]


def pdl_side(folder: Path, name: str, batch: int, precision: str, threads: int) -> Side:
    """pdl's runtime on the bundle."""

    def ready() -> None:
        import pdl.runtime  # noqa: F401

    def make() -> Call:
        from pdl.runtime import load

        session = load(folder / f"{name}.pdl", threads=threads, precision=precision)
        feed = {session.inputs[0].name: arrays_of(name, batch)}
        return lambda: list(session.run(feed).values())

    return ready, make


def ort_side(folder: Path, name: str, batch: int, precision: str, threads: int) -> Side:
    """ONNX Runtime on the ONNX file, in float32: its kernels for CPUs know no bfloat16."""

    def ready() -> None:
        import onnxruntime  # noqa: F401

    def make() -> Call:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
        x = arrays_of(name, batch)
        if json.loads((folder / f"{name}.json").read_text())["channels_first"]:
            x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        feed = {session.get_inputs()[0].name: x}
        return lambda: session.run(None, feed)

    return ready, make


SIDES = {"pdl": pdl_side, "ort": ort_side}
