"""LSTM, GRU and RNN with sizes that are known only at run time: one program, and ONNX Runtime's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.onnx import load_model
from pdl.runtime.session import Session
from tests.framework.onnx.building import model, node, port

runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto  # noqa: E402

HIDDEN, WIDTH = 5, 3
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
USUAL = {"LSTM": {}, "GRU": {"linear_before_reset": 1}, "RNN": {}}
WAYS = ("forward", "reverse", "bidirectional")


def layer(cell: str, direction: str, axes: tuple[Any, Any], inputs: str, **attributes: Any) -> bytes:
    """One layer over x [L, N, 3]; `inputs` names what it takes beside x and weights: l, h, c, p."""
    r = np.random.default_rng(0)
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[cell]
    shapes = {"w": (ways, gates * HIDDEN, WIDTH), "r": (ways, gates * HIDDEN, HIDDEN), "b": (ways, 2 * gates * HIDDEN)}
    if "p" in inputs:
        shapes["p"] = (ways, 3 * HIDDEN)
    weights = {name: r.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    state = [ways, axes[1], HIDDEN]
    beside = {"l": port("l", [axes[1]], TensorProto.INT32), "h": port("h", state), "c": port("c", state)}
    ports = [port("x", [*axes, WIDTH]), *(beside[i] for i in inputs if i in beside)]
    names = ["x", "w", "r", "b", *(i if i in inputs else "" for i in ("lhcp" if cell == "LSTM" else "lh"))]
    outputs = ["y", "h1", "c1"][: 3 if cell == "LSTM" else 2]
    made = node(cell, names, outputs, direction=direction, hidden_size=HIDDEN, **attributes)
    return model([made], ports, outputs, weights)


def agrees(source: bytes, sizes: list[tuple[int, int]], *, program: bool = True) -> None:
    """pdl's values are ONNX Runtime's at these (steps, samples)."""
    imported = load_model(source)
    assert (imported.program is not None) is program, imported.notes
    session = None if imported.program is None else Session.of(imported.program)
    other = runtime.InferenceSession(source, providers=["CPUExecutionProvider"])
    r = np.random.default_rng(1)
    for steps, samples in sizes:
        arrays = {}
        for p in other.get_inputs():
            if p.name == "l":
                arrays["l"] = r.integers(1, steps + 1, samples).astype(np.int32)
                continue
            shape = (steps, samples, WIDTH) if p.name == "x" else (p.shape[0], samples, HIDDEN)
            arrays[p.name] = r.standard_normal(shape).astype(np.float32)
        found = list(imported.graph.run(arrays).values()) if session is None else list(session.run(arrays).values())
        for mine, theirs in zip(found, other.run(None, arrays), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inputs", ["", "l", "h", "lhc"])
@pytest.mark.parametrize("direction", WAYS)
@pytest.mark.parametrize("cell", GATES)
def test_layers_of_any_length_and_batch_are_one_program(cell, direction, inputs):
    inputs = inputs if cell == "LSTM" else inputs.replace("c", "")
    source = layer(cell, direction, ("t", "n"), inputs, **USUAL[cell])
    agrees(source, [(1, 1), (4, 3), (9, 2)])


@pytest.mark.parametrize(
    ("cell", "inputs", "options"),
    [
        ("LSTM", "p", {}),
        ("LSTM", "lhcp", {"clip": 0.7}),
        ("LSTM", "hc", {"input_forget": 1}),
        ("LSTM", "", {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
        ("GRU", "l", {"linear_before_reset": 0}),
        ("GRU", "h", {"linear_before_reset": 1, "clip": 0.5}),
        ("RNN", "l", {"activations": ["Relu"]}),
        ("RNN", "h", {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}),
    ],
)
def test_other_cells_of_any_batch_are_one_program(cell, inputs, options):
    agrees(layer(cell, "forward", (4, "n"), inputs, **options), [(4, 1), (4, 3)])


def test_states_of_zeros_that_a_graph_makes_for_its_batch_are_no_reason_to_keep_it():
    shapes = {"w": (1, 4 * HIDDEN, WIDTH), "r": (1, 4 * HIDDEN, HIDDEN)}
    r = np.random.default_rng(0)
    weights: dict[str, Any] = {name: r.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    weights |= {"one": np.array([1]), "wide": np.array([HIDDEN]), "at": np.array([1])}
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "at"], ["n"]),
        node("Concat", ["one", "n", "wide"], ["state"], axis=0),
        node("ConstantOfShape", ["state"], ["h"]),
        node("LSTM", ["x", "w", "r", "", "", "h", "h"], ["y", "h1", "c1"], hidden_size=HIDDEN),
    ]
    agrees(model(nodes, [port("x", ["t", "n", WIDTH])], ["y", "h1", "c1"], weights), [(2, 4), (3, 1)])
