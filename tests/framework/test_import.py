"""What importing loads: nothing that is not needed yet."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(code: str) -> set[str]:
    """The modules that a fresh interpreter has after `code`."""
    return set(run(f"{code}\nimport sys\nprint('\\n'.join(sys.modules))").split())


@pytest.fixture(scope="module")
def numpys() -> set[str]:
    return modules("import numpy, ml_dtypes")


def test_the_package_alone_loads_no_numpy() -> None:
    found = modules("import pdl")
    assert "numpy" not in found
    assert {name for name in found if name.startswith("pdl")} == {
        "pdl", "pdl.errors", "pdl.habits", "pdl.kernels", "pdl.kernels._cython", "pdl.kernels.runtime", "pdl.names",
        "pdl.threads", "pdl.version",
    }  # fmt: skip


def test_the_runtime_loads_numpy_and_no_ops(numpys: set[str]) -> None:
    found = modules("import pdl.runtime")
    assert "pdl.ops" not in found
    assert "pdl.autograd" not in found
    assert {name for name in found - numpys if name.startswith("pdl")} <= {
        "pdl", "pdl.dtype", "pdl.errors", "pdl.habits", "pdl.kernels", "pdl.kernels._cython", "pdl.kernels.runtime",
        "pdl.limits", "pdl.names", "pdl.runtime", "pdl.runtime.session", "pdl.tensor", "pdl.threads", "pdl.version",
    }  # fmt: skip
    heavy = {"asyncio", "multiprocessing", "pathlib", "urllib.parse", "zipfile", "logging", "argparse", "email"}
    assert not heavy & (found - numpys)


@pytest.mark.parametrize("code", ["pdl.conv2d", "pdl.Tensor", "pdl.tensor([1.0]) + 1", "from pdl import softmax"])
def test_the_first_name_brings_the_ops(code: str) -> None:
    found = modules(f"import pdl\n{code}")
    assert {"pdl.ops", "pdl.ops.methods", "pdl.autograd"} <= found
    assert not {"pdl.nn", "pdl.train", "pdl.program", "pdl.runtime", "cv2", "hydra", "onnx", "onnxruntime"} & found


def test_names_are_the_same_in_whatever_order_they_come() -> None:
    run(
        "import pdl.runtime\nassert pdl.tensor([1.0, 2.0]).sum().item() == 3\n"
        "import pdl.tensor\nassert pdl.tensor(2.0).item() == 2\nfrom pdl.tensor import Tensor\n"
        "assert Tensor is pdl.Tensor and pdl.sort is pdl.ops.sort and callable(pdl.norm)"
    )


def test_star_and_dir_know_every_public_name() -> None:
    run(
        "from pdl import *\nassert conv2d and Tensor and Model and nn and tensor(1.0).item() == 1\n"
        "import pdl\nassert set(pdl.__all__) <= set(dir(pdl))\n"
        "assert [n for n in dir(pdl) if not hasattr(pdl, n)] == []\n"
        "assert set(pdl.ops.__all__) <= set(pdl.__all__)"
    )
    assert {"conv2d", "Tensor", "nn", "__version__"} <= set(run("import pdl; print('\\n'.join(dir(pdl)))").split())


def test_unknown_names_are_unknown() -> None:
    run(
        "import pdl\nassert not hasattr(pdl, '__wrapped__')\ntry:\n    pdl.nothing\nexcept AttributeError as e:\n"
        "    assert str(e) == \"module 'pdl' has no attribute 'nothing'\"\nelse:\n    raise SystemExit(1)"
    )
