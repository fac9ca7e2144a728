"""What users of PyTorch, NumPy and timm write: taken, or answered with what to write here."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import habits
from pdl.errors import PdlError

x = pdl.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))

TAKEN = [
    ("x.to('cpu')", (2, 3)),
    ("pdl.nn.Linear(2, 3).to('cpu').weight", (2, 3)),
    ("pdl.flatten(x, 1)", (2, 3)),
    ("x.flatten(1)", (2, 3)),
    ("x.argmax(-1)", (2,)),
    ("x.sum(1)", (2,)),
    ("x.mean((0, 1), keepdims=True)", (1, 1)),
    ("pdl.concat([x, x], 1)", (2, 6)),
    ("pdl.stack([x, x], -1)", (2, 3, 2)),
    ("pdl.softmax(x, 1)", (2, 3)),
    ("x.cumsum(0)", (2, 3)),
    ("x.split(1, 0)[0]", (1, 3)),
    ("x.expand_dims(0)", (1, 2, 3)),
    ("pdl.zeros(2, 3)", (2, 3)),
    ("pdl.zeros((2, 3), device='cpu')", (2, 3)),
    ("x.to(x.device)", (2, 3)),
    ("pdl.empty(2, 3, dtype=pdl.bool)", (2, 3)),
    ("pdl.ones((2, 3))", (2, 3)),
    ("pdl.ones([2])", (2,)),
    ("pdl.rand(4)", (4,)),
    ("pdl.randn(2, 3, dtype='float64')", (2, 3)),
    ("x.reshape(3, -1)", (3, 2)),
    ("x.permute_dims(1, 0)", (3, 2)),
    ("x.T", (3, 2)),
    ("pdl.where(x > 0)[1]", (5,)),
    ("pdl.diff(x, 2)", (2, 1)),
]


@pytest.mark.parametrize(("code", "shape"), TAKEN)
def test_calls_that_are_taken(code: str, shape: tuple[int, ...]) -> None:
    assert eval(code).shape == shape


ANSWERED = [
    ("x.cuda()", "pdl computes on the CPU; leave it out"),
    ("x.to('cuda:0')", "pdl computes on the CPU"),
    ("x.cpu()", "leave it out"),
    ("x.view(3, 2)", r"write x.reshape\(...\)"),
    ("x.permute(1, 0)", r"write x.permute_dims\(...\)"),
    ("x.unsqueeze(0)", r"write x.expand_dims\(axis=0\)"),
    ("x.add_(1)", "not changed in place"),
    ("x.exp_()", "not changed in place"),
    ("x.meen()", "did you mean 'mean'"),
    ("x.sum(dim=1)", "write axis=1"),
    ("x.sum(1, keepdim=True)", "write keepdims=True"),
    ("pdl.softmax(x, dim=-1)", "write axis=-1"),
    ("pdl.flatten(x, start_dim=1)", "write start=1"),
    ("pdl.zeros((2, 3), device='cuda')", "leave it out"),
    ("pdl.randint(0, 3, size=(2,))", r"write shape=\(2,\)"),
    ("pdl.zeros((2, 3), 'float32')", "dtype=..."),
    ("pdl.max(x, x)", "pdl.maximum"),
    ("pdl.max_pool2d", "write pdl.max_pool"),
    ("pdl.cat", "write pdl.concat"),
    ("pdl.creat_model", "did you mean 'create_model'"),
    ("pdl.nn.Linaer", "did you mean 'Linear'"),
    ("pdl.nn.functional", "pdl.relu"),
    ("pdl.ops.unsqueeze", "write pdl.expand_dims"),
    ("pdl.optim.StepLR", "write pdl.optim.Step"),
    ("pdl.data.TensorDataset", "write pdl.data.ArrayDataset"),
]


@pytest.mark.parametrize(("code", "said"), ANSWERED)
def test_calls_that_are_answered(code: str, said: str) -> None:
    with pytest.raises((PdlError, AttributeError), match=said):
        eval(code)


def test_wrong_arguments_of_no_habit_stay_python_s() -> None:
    with pytest.raises(TypeError, match="nosuch"):
        pdl.sum(x, nosuch=1)  # type: ignore[call-arg]
    assert not hasattr(x, "nosuch")
    assert not hasattr(pdl, "nosuch")


def _resolves(path: str) -> bool:
    root, *names = path.split(".")
    found: Any = importlib.import_module(root)
    for name in names:
        found = getattr(found, name, None) or importlib.import_module(f"{root}.{name}")
    return found is not None


@pytest.mark.parametrize("module", habits.MODULES)
def test_modules_lack_what_is_answered_and_have_what_is_advised(module: str) -> None:
    for name, meant in habits.MODULES[module].items():
        with pytest.raises(AttributeError, match=re.escape(meant)):
            getattr(importlib.import_module(module), name)
        assert all(_resolves(path) for path in re.findall(r"pdl(?:_cv)?(?:\.\w+)+", meant)), meant


def test_tensors_lack_what_is_answered_and_have_what_is_advised() -> None:
    for name, meant in habits.TENSOR.items():
        with pytest.raises(AttributeError, match=re.escape(meant)):
            getattr(x, name)
        assert all(hasattr(pdl.Tensor, word) for word in re.findall(r"\bx\.(\w+)", meant)), meant
        assert all(_resolves(path) for path in re.findall(r"pdl(?:\.\w+)+", meant)), meant


def test_type_checkers_know_every_method() -> None:
    """The signatures that tensor.py states for them are those of the functions."""
    from pdl.ops import methods

    source = inspect.getsource(importlib.import_module("pdl.tensor"))
    stated = dict(re.findall(r"^        def (\w+)\(self(?:, )?(.*?)\) -> ", source, re.MULTILINE))
    for module, names in methods._METHODS.items():
        for name in names:
            _, *taken = inspect.signature(getattr(module, name)).parameters
            assert re.findall(r"(\w+): ", stated[name]) == taken
