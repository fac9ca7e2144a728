"""The nets of the inference race, each written as a bundle for pdl and as an ONNX file for the other engines."""

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
#: height and width of images where a file leaves both open, and the width where it leaves that alone open
OPEN_SIZE, OPEN_WIDTH = 640, 320
#: the opset whose DequantizeLinear takes a scale per channel
PER_CHANNEL = 13


def prepare_missing(name: str, source: Path | None, folder: Path) -> None:
    """Write the files of a net, or of the ONNX file `source`, unless they are there."""
    if (folder / f"{name}.json").exists():
        return
    if source is None:
        prepare(name, folder)
    else:
        prepare_import(source, name, folder)


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
    facts = {"channels_first": report.inputs[0].channels_first}
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
    """The same three files for an ONNX file of somebody else's: pdl imports it, the others read it as it is."""
    import onnx

    from pdl.export.imported import import_model

    import_model(source, folder / f"{name}.pdl", force=True)
    model = onnx.load(source)
    onnx.save(model, folder / f"{name}.onnx")
    given = {value.name for value in model.graph.initializer}
    entry = next(value for value in model.graph.input if value.name not in given)
    shape = [d.dim_value or None for d in entry.type.tensor_type.shape.dim]
    (folder / f"{name}.json").write_text(json.dumps({"shape": shape, "channels_first": False}))


def prepare_int8(name: str, folder: Path) -> None:
    """NAME-int8.*: the net quantised by ONNX Runtime (QDQ, a scale per channel of weights), one file for all."""
    import onnx.version_converter
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    x, facts = onnx_input(name, 1, folder), facts_of(name, folder)

    class Noise(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = 4

        def get_next(self) -> dict[str, Array] | None:
            self.left -= 1
            return {input_name(folder / f"{name}.onnx"): x} if self.left >= 0 else None

    ready, made = folder / f"{name}-ready.onnx", folder / f"{name}-int8.onnx"
    model = onnx.load(folder / f"{name}.onnx")
    if next(o.version for o in model.opset_import if not o.domain) < PER_CHANNEL:
        model = onnx.version_converter.convert_version(model, PER_CHANNEL)
    onnx.save(model, ready)
    quant_pre_process(ready, ready, skip_symbolic_shape=True)
    quantize_static(ready, made, Noise(), per_channel=True, weight_type=QuantType.QInt8)
    ready.unlink()
    prepare_import(made, f"{name}-int8", folder)
    shape = facts.get("shape") or [None, *x.shape[1:]]
    (folder / f"{name}-int8.json").write_text(json.dumps({"shape": shape, "channels_first": False}))


def facts_of(name: str, folder: Path) -> dict[str, Any]:
    """What was written about a net: the shape of its input (None: open, or the shape of `NETS`) and its layout."""
    return dict(json.loads((folder / f"{name}.json").read_text()))


def input_name(path: Path) -> str:
    """The first input of an ONNX file."""
    import onnxruntime

    return str(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()[0].name)


def arrays_of(name: str, batch: int, folder: Path) -> Array:
    """The input of a run as pdl takes it; an imported net takes what its file says."""
    shape = facts_of(name, folder).get("shape")
    if shape is None:
        return NETS[name].inputs(batch)
    height = OPEN_SIZE if len(shape) > 2 and shape[-2] is None else OPEN_WIDTH
    sizes = [shape[0] or batch, *[n or height for n in shape[1:]]]
    return np.random.default_rng(1).standard_normal(sizes, dtype=np.float32)


def onnx_input(name: str, batch: int, folder: Path) -> Array:
    """The input of a run as the ONNX file takes it."""
    x = arrays_of(name, batch, folder)
    if facts_of(name, folder)["channels_first"]:
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x


# -- the sides ---------------------------------------------------------------------------------------------------------
Call = Callable[[], list[Array]]
#: imports the framework; makes a call of the net
Side = tuple[Callable[[], None], Callable[[], Call]]


def file_of(folder: Path, name: str, precision: str, suffix: str) -> Path:
    """The file that is run: int8 has one of its own."""
    return folder / f"{name}{'-int8' * (precision == 'int8')}.{suffix}"


def pdl_side(folder: Path, name: str, batch: int, precision: str, threads: int) -> Side:
    """pdl's runtime on the bundle."""

    def ready() -> None:
        import pdl.runtime  # noqa: F401

    def make() -> Call:
        from pdl.runtime import load

        stored = "fp32" if precision == "int8" else precision
        session = load(file_of(folder, name, precision, "pdl"), threads=threads, precision=stored)
        x = onnx_input(name, batch, folder) if precision == "int8" else arrays_of(name, batch, folder)
        feed = {session.inputs[0].name: x}
        return lambda: list(session.run(feed).values())

    return ready, make


def ort_side(folder: Path, name: str, batch: int, precision: str, threads: int) -> Side:
    """ONNX Runtime on the ONNX file; its kernels for CPUs know no bfloat16."""

    def ready() -> None:
        import onnxruntime  # noqa: F401

    def make() -> Call:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 3
        path = file_of(folder, name, precision, "onnx")
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feed = {session.get_inputs()[0].name: onnx_input(name, batch, folder)}
        return lambda: session.run(None, feed)

    return ready, make


def openvino_side(folder: Path, name: str, batch: int, precision: str, threads: int) -> Side:
    """OpenVINO on the ONNX file, compiled for the shape of the input."""

    def ready() -> None:
        import openvino  # noqa: F401

    def make() -> Call:
        import openvino

        core, x = openvino.Core(), onnx_input(name, batch, folder)
        if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            raise SystemExit("no bfloat16 on this CPU")
        model = core.read_model(file_of(folder, name, precision, "onnx"))
        model.reshape({model.input(0): x.shape})
        compiled = core.compile_model(model, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
        })  # fmt: skip
        request = compiled.create_infer_request()
        return lambda: list(request.infer([x]).values())

    return ready, make


SIDES = {"pdl": pdl_side, "ort": ort_side, "openvino": openvino_side}
