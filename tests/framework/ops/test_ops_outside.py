"""Ops of another package: the same checks at import and in tables, in training, programs, bundles and ONNX; a bundle
imports what it names and nothing else, and says what is missing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn, packages
from pdl.dtype import bfloat16, float32
from pdl.errors import UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.export.onnx import missing, to_onnx
from pdl.ops.base import OPS, Op, Spec
from pdl.ops.cost import multiply_adds
from pdl.program import CompiledStep, trace
from pdl.testing import Case, draws, op_checks, op_faults

OPS_PY = '''
from __future__ import annotations

import numpy as np

from pdl.ops.base import Fused, Op, Spec, apply, not_differentiable, not_exported
from pdl.ops.checks import check_floating


class Scale(Fused):
    """y = factor x."""

    factor: float = 1.0

    def infer(self, x: Spec) -> Spec:
        check_floating("scale", x=x)
        return x

    def cpu(self, outs, ins):
        np.multiply(ins[0], self.factor, out=outs[0])

    def compose(self, x):
        return x * self.factor


class Mix(Op):
    """y = x w for a square w, which autocast rounds to bfloat16."""

    autocast = "narrow"

    def infer(self, x: Spec, w: Spec) -> Spec:
        return x

    def cpu(self, outs, ins):
        np.matmul(ins[0], ins[1], out=outs[0])

    def vjp(self, g, y, x, w):
        return lambda: g @ w.T, lambda: x.T @ g

    def multiply_adds(self, ins, outs):
        return int(np.prod(ins[0].shape)) * ins[1].shape[1]

    def onnx(self, g, x, w):
        return g.node("MatMul", g.plain(x), g.plain(w))


class Hidden(Op):
    """y = x, and ONNX shall not know."""

    onnx = not_exported("it is a secret")

    def infer(self, x: Spec) -> Spec:
        return x

    def cpu(self, outs, ins):
        outs[0][...] = ins[0]

    def vjp(self, g, y, x):
        return g


def scale(x, factor):
    return apply(Scale(factor), x)


def mix(x, w):
    return apply(Mix(), x, w)


def hidden(x):
    return apply(Hidden(), x)
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the distribution acme-ops is: the package acme with its ops."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "acme").mkdir()
    (folder / "acme/__init__.py").write_text("")
    (folder / "acme/ops.py").write_text(OPS_PY)
    info = folder / "acme_ops-1.0.dist-info"
    info.mkdir()
    about = ["Metadata-Version: 2.1", "Name: acme-ops", "Version: 1.0", "Requires-Dist: pdl-core>=0.1", ""]
    (info / "METADATA").write_text("\n".join(about))
    entries = [f"acme.{name} = acme.ops:{name}" for name in ("Scale", "Mix", "Hidden")]
    (info / "entry_points.txt").write_text("\n".join(["[pdl.ops]", *entries, ""]))
    return folder


@pytest.fixture(scope="module")
def acme(site: Path) -> Iterator[ModuleType]:
    """Its module of ops."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        packages.read.cache_clear()
        yield importlib.import_module("acme.ops")
    packages.read.cache_clear()
    for name in [name for name in OPS if name.startswith("acme.")]:
        del OPS[name]
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


class Net(nn.Module):
    """Both kinds of ops between layers."""

    def __init__(self, ops: ModuleType) -> None:
        self.ops, self.first, self.w = ops, nn.Linear(3, 4), nn.Parameter(np.eye(4, dtype=np.float32))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.ops.scale(self.ops.mix(self.first(x), self.w), 0.5)  # type: ignore[no-any-return]


def cases(acme: ModuleType) -> list[Case]:
    f, _ = draws(3)
    return [
        Case(acme.scale, [f(3, 4)], lambda x, factor: x * factor, {"factor": 1.5}),
        Case(acme.mix, [f(3, 4), f(4, 4)], lambda x, w: x @ w),
        Case(acme.hidden, [f(3)], lambda x: x),
    ]


def test_its_name_is_that_of_its_package_and_class(acme: ModuleType) -> None:
    assert acme.Mix.op_name == "acme.Mix"
    assert Op.from_dict(json.loads(json.dumps(acme.Scale(2.0).to_dict()))) == acme.Scale(2.0)
    assert {"acme.Mix", "acme.Scale"} <= OPS.keys()


def test_the_tables_take_it(acme: ModuleType) -> None:
    checks = op_checks(cases(acme))
    kinds = {str(check).split("-")[0] for check in checks}
    assert kinds >= {"value", "gradients", "narrow_dtypes", "program", "gradient_program", "replay"}
    for check in checks:
        check()


def test_a_fault_of_an_op_is_found(acme: ModuleType) -> None:
    f, _ = draws(3)
    value, *_ = op_checks([Case(acme.mix, [f(3, 4), f(4, 4)], lambda x, w: x @ w.T)])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        value()


def test_what_a_package_leaves_out_is_told(acme: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert op_faults("acme", cases(acme)) == []
    assert op_faults("acme", cases(acme)[1:]) == ["acme.Scale: no case runs it"]
    monkeypatch.setattr(packages, "provided", lambda group, name: None)
    monkeypatch.setattr(acme.Mix, "onnx", None)
    said = " | ".join(op_faults("acme", cases(acme)))
    assert 'lacks [project.entry-points."pdl.ops"] "acme.Mix" = "acme.ops:Mix"' in said
    assert "acme.Mix: neither compose nor onnx" in said


LACKS = {
    "a docstring": "infer = cpu = None; vjp = not_differentiable('-')",
    "infer, cpu, vjp": "'B.'",
    "annotations": "'B.'; infer = cpu = None; vjp = not_differentiable('-'); n: int",
    "autocast is 'bf16'": "'B.'; infer = cpu = None; vjp = not_differentiable('-'); autocast = 'bf16'",
}


@pytest.mark.parametrize("says", LACKS)
def test_a_class_that_lacks_a_part_fails_at_import(says: str) -> None:
    code = compile(f"from pdl.ops.base import *\nclass Bad(Op): {LACKS[says]}", "bad", "exec", dont_inherit=True)
    with pytest.raises(TypeError, match=f"op Bad.*{says}"):
        exec(code, {"__name__": "acme_bad"})
    assert "acme_bad.Bad" not in OPS


def test_it_trains_and_is_compiled(acme: ModuleType) -> None:
    net, eager = Net(acme), Net(acme)
    eager.load_state_dict(net.state_dict())
    x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    step = CompiledStep(lambda x: (net(x) ** 2).mean(), net, notify=pytest.fail)
    step(pdl.tensor(x))
    (eager(pdl.tensor(x)) ** 2).mean().backward()
    for ours, theirs in zip(net.parameters(), eager.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), atol=1e-6)


def test_autocast_and_cost_ask_the_op(acme: ModuleType) -> None:
    x, w = pdl.ones((2, 4)), pdl.ones((4, 4))
    with pdl.autocast():
        assert acme.mix(x, w).dtype == bfloat16
        assert acme.scale(x, 2.0).dtype == float32
    assert multiply_adds(acme.Mix(), [x, w], [x]) == 2 * 4 * 4


def test_onnx_by_compose_by_its_emitter_or_a_reason(acme: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net, x = Net(acme).eval(), np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    made = to_onnx(trace(net, Spec(x.shape, x.dtype)), tmp_path / "net.onnx", samples=[[x]])
    assert made.difference is not None
    assert made.difference < 1e-6
    refused = trace(acme.hidden, Spec(x.shape, x.dtype))
    assert [what for what, _ in missing(refused)] == ["acme.Hidden: it is a secret"]


# -- bundles -----------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bundle(acme: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    x = np.ones((1, 3), np.float32)
    deployment = Deployment(
        module=Net(acme).eval(), inputs={"x": Spec((1, 3), np.dtype(np.float32))}, outputs=("y",), pre={}, post={},
        samples=[x], prepare=lambda sample: {"x": sample[0]},
    )  # fmt: skip
    return write(folder / "net.pdl", deployment).path


def run(code: str, path: list[str]) -> subprocess.CompletedProcess[str]:
    """Code in a fresh interpreter that has what the core depends on and nothing else."""
    absent = ("hydra", "omegaconf", "cv2", "yaml", "rich", "typer", "scipy")
    begin = f"import sys; sys.path[:0] = {path!r}; sys.modules.update(dict.fromkeys({absent!r}))\n"
    return subprocess.run([sys.executable, "-c", begin + code], capture_output=True, text=True, check=False)


def test_a_bundle_names_what_it_requires_and_loads_that_alone(bundle: Path, site: Path) -> None:
    done = run(
        f"import pdl.runtime, numpy\nsession = pdl.runtime.load({str(bundle)!r})\n"
        "print(session.bundle.meta['requires'], session.run({'x': numpy.ones((1, 3), 'f')})['y'].shape)\n"
        "print(sorted(name for name in sys.modules if name.startswith('acme')))\n",
        [str(site)],
    )
    assert done.stdout.splitlines() == ["['acme-ops'] (1, 4)", "['acme', 'acme.ops']"], done.stderr


def test_a_missing_distribution_is_one_line(bundle: Path) -> None:
    done = run(f"import pdl.runtime\npdl.runtime.load({str(bundle)!r})", [])
    line = done.stderr.splitlines()[-1]
    assert line == (
        f"pdl.errors.PackageError: {bundle} needs the op 'acme.Mix' of acme-ops, which is not installed: "
        "pip install acme-ops"
    )


def test_an_op_without_an_entry_point_goes_into_no_bundle(
    acme: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "provided", lambda group, name: None)
    deployment: Any = Deployment(
        module=Net(acme).eval(), inputs={"x": Spec((1, 3), np.dtype(np.float32))}, outputs=("y",), pre={}, post={},
        samples=[np.ones((1, 3), np.float32)], prepare=lambda sample: {"x": sample[0]},
    )  # fmt: skip
    with pytest.raises(UsageError, match=r'"acme\.Mix" = "acme\.ops:Mix"'):
        write(tmp_path / "net.pdl", deployment)
    assert not list(tmp_path.iterdir())
