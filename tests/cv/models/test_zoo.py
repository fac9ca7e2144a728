"""Every variant of every model family against its published facts; classifiers also through everything a model can be
asked: training, saving, bundles, ONNX and the layouts of PyTorch.

The variant that a family calls QUICK does the arithmetic in every run, the others where `-m slow` asks for them.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
import pdl_cv
from pdl import nn
from pdl.config.signature import TARGET
from pdl.dims import Dim
from pdl.errors import ShapeError
from pdl.export.bundle import to_bytes
from pdl.export.deployment import Deployment
from pdl.export.onnx import to_onnx
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.ops.batchnorm import BatchNormEval
from pdl.ops.norm_conv import NormConv
from pdl.program import trace
from pdl.suites import locate
from tests.cv.models.published import Fact, facts, families, table

ALL = facts(None)
FACTS = facts()
VARIANTS = [
    pytest.param(name, marks=() if name == getattr(table(family), "QUICK", None) else pytest.mark.slow)
    for name, (family, _) in FACTS.items()
]
F32 = np.dtype(np.float32)


def make(name: str, **options: Any) -> Any:
    """A variant of the zoo; parts of it that its table names are built, but for those among the options."""
    arguments = families(None)[ALL[name][0]].VARIANTS[name]
    given = {key: _built(value) for key, value in arguments.items() if key != TARGET and key not in options}
    return locate(arguments[TARGET])(**given, **options)


def _built(value: Any) -> Any:
    """What a table describes in place of a part."""
    if not isinstance(value, dict):
        return value
    return locate(value[TARGET])(**{key: _built(each) for key, each in value.items() if key != TARGET})


def small(name: str) -> tuple[nn.Module, int]:
    """A variant for images of two channels and three classes, and their side.

    It is not as it was born, when half of a net may pass for another: scales and shifts are random, and the running
    statistics are those of a batch, so that what the image shows reaches the end. Norms are shifted so far that most
    rectifiers let everything pass: a deep random net would else make a hundred of one rounding error.
    """
    fact = FACTS[name][1]
    pdl.seed(0)
    net = make(name, in_channels=2, num_classes=3, **dict(fact.options))
    for parameter in net.parameters():
        if parameter.ndim == 1:
            parameter._data += 0.1 * pdl.randn(parameter.shape).data
    if not any(isinstance(module, nn.BatchNorm2d | nn.LayerNorm) for module in net.modules()):
        for module in net.modules():  # nothing keeps up the signal but the weights, and many heads start near 0
            if isinstance(module, nn.Linear):
                nn.init.lecun_normal_(module.weight)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
        if norm.bias is not None:
            norm.bias._data += 1
    with pdl.no_grad():
        net(pdl.tensor(pictures(8, fact.small)))
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
    return net, fact.small


def pictures(count: int, size: int) -> Any:
    return np.random.default_rng(count).standard_normal((count, size, size, 2)).astype(np.float32)


# -- facts -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("family", families(None))
def test_every_variant_has_its_facts(family: str) -> None:
    found = table(family)
    assert found is not None, f"write tests/cv/models/published/{family}.py"
    assert set(found.FACTS) == set(families(None)[family].VARIANTS)
    assert found.QUICK is None or found.QUICK in found.FACTS
    for name, fact in found.FACTS.items():
        assert isinstance(fact, Fact)
        assert fact.source, name


def test_names_are_unique() -> None:
    names = [name for family in families(None).values() for name in family.VARIANTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ALL)
def test_parameters_and_multiply_adds(name: str) -> None:
    fact = ALL[name][1]
    with nn.init.skipped():
        net = make(name)
    assert sum(p.size for p in net.parameters()) == fact.parameters
    if fact.multiply_adds is not None:
        channels = inspect.signature(type(net)).parameters.get("in_channels")
        height, width = fact.image if isinstance(fact.image, tuple) else (fact.image, fact.image)
        shape = (1, height, width, 3 if channels is None else channels.default)
        found = nn.summary(net, shape)
        assert found.multiply_adds is not None
        counted = found.multiply_adds + fact.norms * normalised(net, shape)
        assert counted / 1e6 == pytest.approx(fact.multiply_adds, rel=0.01, abs=0.5)  # the small ones are rounded


def normalised(net: nn.Module, shape: tuple[int, ...]) -> int:
    """How many values leave the batch norms of a net."""
    with pdl.no_grad():
        nodes = trace(net.eval(), Spec(shape, F32)).nodes
    norms = [n for n in nodes if isinstance(n.op, BatchNormEval) or (isinstance(n.op, NormConv) and n.inputs[1])]
    return sum(math.prod(n.inputs[0].spec.shape) for n in norms if n.inputs[0] is not None)


@pytest.mark.parametrize("name", FACTS)
def test_head_and_stem_are_what_depends_on_classes_and_channels(name: str) -> None:
    with nn.init.skipped():
        net, others, wider = make(name), make(name, num_classes=7), make(name, in_channels=5)
    for changed, layers in [(others, net.head), (wider, net.stem)]:
        paths = (layers,) if isinstance(layers, str) else layers
        shapes, theirs = shapes_of(net), shapes_of(changed)
        differ = {key for key in shapes.keys() | theirs.keys() if shapes.get(key) != theirs.get(key)}
        assert {key.rpartition(".")[0] for key in differ} == set(paths)


def shapes_of(net: nn.Module) -> dict[str, tuple[int, ...]]:
    return {key: value.shape for key, value in net.state_dict().items()}


@pytest.mark.parametrize("name", [name for name in FACTS if FACTS[name][1].least])
def test_the_least_picture(name: str) -> None:
    least = FACTS[name][1].least
    assert least is not None
    with nn.init.skipped():
        net = make(name)
    assert nn.summary(net, (1, least, least + 5, 3)).rows[-1].output_shape == (1, 1000)
    for height, width in [(least - 1, least), (least, least - 1)]:
        with pytest.raises(ShapeError, match=f"{height} x {width} vanish .* takes {least} x {least} at least"):
            nn.summary(net, (1, height, width, 3))


@pytest.mark.parametrize("name", [v for v in VARIANTS if FACTS[str(v.values[0])][1].least])
def test_a_bundle_takes_every_size_from_the_least_on(name: str) -> None:
    fact = FACTS[name][1]
    with nn.init.skipped():
        net = make(name, **dict(fact.options))
    size = (fact.least or 0) + 40
    symbols = [Dim.symbol("n", 3), Dim.symbol("h", size), Dim.symbol("w", size + 14)]
    program, notes = trace_symbolic(net, {"image": Spec((*symbols, 3), F32)})
    assert not notes
    assert list(program.sizes()) == ["n", "h", "w"]


# -- arithmetic --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", VARIANTS)
def test_forward_backward_and_state(name: str) -> None:
    net, size = small(name)
    x = pictures(4, size)
    loss = pdl_cv.Classification().step(net, {"image": x, "label": np.array([0, 1, 2, 0])})
    assert loss.outputs[0].shape == (4, 3)
    loss.value.backward()
    for path, parameter in net.named_parameters():
        assert parameter.grad is not None, path
        assert np.isfinite(parameter.grad.data).all(), path
    with nn.init.skipped():
        other = make(name, in_channels=2, num_classes=3, **dict(FACTS[name][1].options))
    other.load_state_dict(net.state_dict())
    with pdl.no_grad():
        mine, theirs = net.eval()(pdl.tensor(x)).data, other.eval()(pdl.tensor(x)).data
    assert np.ptp(mine, axis=0).max() > 1e-3 * np.abs(mine).max(), "the answer does not depend on the image"
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", VARIANTS)
def test_bundle_and_onnx(name: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net, size = small(name)
    net.eval()
    inputs = {"image": Spec((Dim.symbol("n", 3), size, size, 2), F32)}
    program, notes = trace_symbolic(net, inputs)
    assert not notes
    deployment = Deployment(net, inputs, ("logits",), {}, {}, (), lambda sample: sample)
    session = pdl.runtime.load(to_bytes(program, deployment))
    for count in (1, 5):
        x = pictures(count, size)
        exact, allowed = in_float64(net, x)
        ours = session.run({"image": x})["logits"]
        assert np.abs(ours - exact).max() < allowed * max(1.0, np.abs(exact).max())
    x = pictures(2, size)
    allowed = 4 * in_float64(net, x)[1]  # ONNX Runtime rounds otherwise too; 8e-5 of a net that magnifies nothing
    made = to_onnx(program, tmp_path / "net.onnx", samples=[[x]], tolerance=allowed)
    assert made.difference is not None


def in_float64(net: nn.Module, x: Any) -> tuple[Any, float]:
    """The logits in float64, and how far from them a program may be in float32: folded norms round otherwise, so five
    times as far as the net itself, whose random weights may magnify every error.
    """
    with pdl.no_grad():
        y = net(pdl.tensor(x)).data
        exact = net.to("float64")(pdl.tensor(x.astype(np.float64))).data
    net.to("float32")
    return exact, 2e-5 + 5 * float(np.abs(y - exact).max() / max(1.0, np.abs(exact).max()))


@pytest.mark.parametrize("name", VARIANTS)
def test_remap_undoes_torch_s_layout(name: str) -> None:
    family = families()[FACTS[name][0]]
    if not hasattr(family, "remap"):
        pytest.skip("no checkpoints of this family are read")
    net, _ = small(name)
    with nn.init.skipped():
        other = make(name, in_channels=2, num_classes=3, **dict(FACTS[name][1].options))
    state = nn.to_torch(net)
    state |= {f"{key.rpartition('.')[0]}.num_batches_tracked": np.array(0) for key in state if "running_mean" in key}
    other.load_state_dict(family.remap(other, state))
    theirs = other.state_dict()
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.data, theirs[key].data)
