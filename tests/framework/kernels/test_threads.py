"""The thread pool: same results for any caller, counts from the environment, forks."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pdl import threads
from pdl.cli import main
from pdl.errors import UsageError
from pdl.kernels import conv, gemm


def product(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = np.empty((300, 200), np.float32)
    gemm.matmul(out, rng.standard_normal((300, 400), np.float32), rng.standard_normal((400, 200), np.float32))
    return out


def weight_gradient(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x, g = rng.standard_normal((8, 1, 12, 12, 8), np.float32), rng.standard_normal((8, 1, 12, 12, 8), np.float32)
    dw = np.empty((1, 3, 3, 8, 8), np.float32)
    conv.dw(dw, x, g, (1, 1, 1), (0, 1, 1), (1, 1, 1), 1)
    return dw


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_callers_from_several_threads_get_the_same_bits(count: int) -> None:
    with threads.num_threads(count):
        expected = [(product(s), weight_gradient(s)) for s in range(6)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda s: (product(s), weight_gradient(s)), range(6)))
    for (p, w), (q, v) in zip(expected, found, strict=True):
        assert (p == q).all()
        assert (w == v).all()


def test_a_forked_child_has_a_pool_of_its_own() -> None:
    code = (
        "import os, numpy as np\nfrom pdl import threads\nfrom pdl.kernels import gemm\nthreads.set_num_threads(3)\n"
        "a = np.ones((400, 400), np.float32); out = np.empty_like(a)\ngemm.matmul(out, a, a)\n"
        "child = os.fork()\nout[:] = 0\ngemm.matmul(out, a, a)\nassert (out == 400).all()\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\nelse: os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(("value", "count"), [("3", 3), ("1", 1), ("", None)])
def test_the_environment_sets_the_count(value: str, count: int | None) -> None:
    code = "from pdl import threads; print(threads.get_num_threads())"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"PDL_NUM_THREADS": value}, text=True,
                          capture_output=True, check=True)  # fmt: skip
    assert int(done.stdout) == (count or threads.available_cores())


def test_a_bad_count_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        threads.set_num_threads(0)
    monkeypatch.setenv("PDL_NUM_THREADS", "many")
    assert main(["info"]) == 2
    assert capsys.readouterr().err.startswith("PDL_NUM_THREADS='many' must be a whole number")


def test_denormals_are_flushed_inside_kernels_only() -> None:
    tiny = np.full((64, 64), 1e-30, np.float32)
    out = np.empty((64, 64), np.float32)
    gemm.matmul(out, tiny, np.full((64, 64), 1e-12, np.float32))
    assert (out == 0).all()
    assert np.float32(1e-30) * np.float32(1e-12) > 0, "the caller's own arithmetic keeps denormals"
