"""The thread pool: same results for any caller, counts from the environment, forks."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pdl.kernels.launch import Tape

import pdl
from pdl import threads
from pdl.cli import main
from pdl.errors import UsageError
from pdl.kernels import conv, gemm, runtime


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


def test_a_limit_is_that_of_one_thread() -> None:
    seen: list[int] = []
    with threads.num_threads(3):
        with threads.limit(2):
            assert threads.get_num_threads() == 2
            with threads.limit(5):
                assert threads.get_num_threads() == 5
            with threads.num_threads(4):
                assert threads.get_num_threads() == 2
            other = threading.Thread(target=lambda: seen.append(threads.get_num_threads()))
            other.start()
            other.join()
        assert threads.get_num_threads() == 3
    assert seen == [3]
    with pytest.raises(UsageError, match="at least 1"), threads.limit(0):
        pass


def both(seed: int) -> tuple[bytes, bytes]:
    return product(seed).tobytes(), weight_gradient(seed).tobytes()


def test_callers_with_counts_of_their_own_get_the_bits_of_their_count() -> None:
    counts = [1, 2, 3, 4, 1, 5, 2, 3]
    expected = {}
    for count in set(counts):
        with threads.num_threads(count):
            expected[count] = [both(seed) for seed in range(4)]
    assert len({tuple(found) for found in expected.values()}) > 1  # the count decides how sums are split

    def caller(count: int) -> bool:
        with threads.limit(count):
            return all([both(seed) for seed in range(4)] == expected[count] for _ in range(5))

    with threads.num_threads(2), ThreadPoolExecutor(len(counts)) as pool:
        assert all(pool.map(caller, counts))


def test_many_threads_replay_tapes_of_their_own() -> None:
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((64, 64), np.float32), rng.standard_normal((8, 64, 64), np.float32)
    expected = {}

    def replay(number: int) -> tuple[Tape, tuple[int, int], np.ndarray]:
        a, y, z = x[number].copy(), np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
        tape = Tape()
        for _ in range(20):
            for out, left in ((y, a), (z, y)):
                assert tape.record(partial(gemm.matmul, out, left, w, None, "tanh"), (a, w, y, z))
        return tape, (0, len(tape)), z

    made = [replay(number) for number in range(8)]
    for number, (tape, place, z) in enumerate(made):
        tape.run(*place)
        expected[number] = z.copy()
        z.fill(0)

    def caller(number: int) -> bool:
        tape, place, z = made[number]
        with threads.limit(1 + number % 3):
            for _ in range(50):
                assert tape.run(*place) == -1
        return bool((z == expected[number]).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(caller, range(8)))


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


DENORMAL = np.full(1000, 1e-40, np.float32)
QUIET_BODIES: list[Callable[[], object]] = [
    lambda: runtime.flushed(np.add, DENORMAL, DENORMAL),
    lambda: pdl.sin(pdl.Tensor(DENORMAL)).numpy(),
    lambda: pdl.square(pdl.Tensor(DENORMAL * 1e15)).numpy(),
    lambda: (pdl.Tensor(DENORMAL) + pdl.Tensor(DENORMAL)).numpy(),
    lambda: clipped(DENORMAL * 1e20),
]


def clipped(g: np.ndarray) -> np.ndarray:
    p = pdl.Tensor(np.zeros_like(g), requires_grad=True)
    p.grad = pdl.Tensor(g)
    pdl.optim.clip_grad_norm_(p, 1e-30)
    return p.grad.numpy()


@pytest.mark.parametrize("body", QUIET_BODIES)
def test_bodies_in_numpy_flush_denormals_too(body: Callable[[], object]) -> None:
    assert (body() == np.zeros(1000)).all()  # type: ignore[attr-defined]


def control_word() -> int:
    """What this thread's arithmetic does: rounding and flushing (x86-64: MXCSR less its flags; aarch64: FPCR)."""
    state = (ctypes.c_uint32 * 16)()
    ctypes.CDLL(None).fegetenv(state)
    return state[7] & 0xFFC0 if platform.machine() == "x86_64" else state[0]


def test_the_callers_floating_point_state_is_put_back() -> None:
    before = control_word()
    seen = runtime.flushed(control_word)
    assert seen != before, "the test reads the right word"
    for count in (1, 3):
        with threads.num_threads(count):
            product(0), weight_gradient(0), [body() for body in QUIET_BODIES]
            assert control_word() == before
            assert runtime.flushed(lambda: [product(0), control_word()][1]) == seen
    with pytest.raises(ZeroDivisionError):
        runtime.flushed(lambda: 1 / 0)
    assert control_word() == before


def test_zeros_leave_no_denormals_in_an_optimiser() -> None:
    """Averages of a gradient that has become 0 shrink to 0 and not to denormals."""
    p = pdl.Tensor(np.ones(100, np.float32), requires_grad=True)
    adam = pdl.optim.Adam([p], lr=1e-3, betas=(0.5, 0.5))
    for step in range(200):
        p.grad = pdl.Tensor(np.full(100, 1e-10 if step == 0 else 0, np.float32))
        adam.step()
    for state in adam.state.values():
        assert all((v == 0).all() for v in state.values() if isinstance(v, np.ndarray))


def cgroups(folder: Path, monkeypatch: pytest.MonkeyPatch, membership: str, files: dict[str, str]) -> None:
    """A machine whose cgroup files say so."""
    (folder / "membership").write_text(membership)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(threads, "_CGROUP", folder)
    monkeypatch.setattr(threads, "_MEMBERSHIP", folder / "membership")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


V1 = {"cpu/cpu.cfs_period_us": "100000", "cpu/docker/x/cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000"}, 1),
        ("0::/\n", {"cpu.max": "1600000 100000"}, 8),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "150000 100000"}, 2),
        ("0::/of/the/host\n", {"cpu.max": "400000 100000"}, 4),
        ("4:memory:/m\n3:cpu,cpuacct:/docker/x\n0::/\n", V1 | {"cpu/docker/x/cpu.cfs_quota_us": "250000"}, 3),
        ("3:cpu:/gone\n", V1 | {"cpu/cpu.cfs_quota_us": "100000"}, 1),
        ("3:cpu:/\n", V1 | {"cpu/cpu.cfs_quota_us": "-1"}, 8),
        ("0::/\n", {"cpu.max": "damaged"}, 8),
    ],
)
def test_the_quota_of_the_cgroup_bounds_the_count(
    membership: str, files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroups(tmp_path, monkeypatch, membership, files)
    assert threads.available_cores() == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity masks here")
def test_affinity_bounds_the_count_and_openmp_does_not() -> None:
    pin = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
    count = "from pdl import threads; print(threads.get_num_threads())"
    env = {k: v for k, v in os.environ.items() if k != "PDL_NUM_THREADS"} | {"OMP_NUM_THREADS": "7"}
    for text, cores in ((pin + count, 1), (count, threads.available_cores())):
        done = subprocess.run([sys.executable, "-c", text], env=env, text=True, capture_output=True, check=True)
        assert int(done.stdout) == cores


# -- Python's own threads ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("count", [1, 2, 5])
def test_calls_together_are_all_made(count: int) -> None:
    done: list[int] = []
    with threads.num_threads(count):
        threads.together([partial(done.append, i) for i in range(20)])
        threads.together([])
    assert sorted(done) == list(range(20))


def test_the_first_error_of_calls_together_ends_them() -> None:
    done: list[int] = []
    with threads.num_threads(1), pytest.raises(ZeroDivisionError):
        threads.together([partial(done.append, 0), lambda: 1 // 0, partial(done.append, 1)])
    assert done == [0]


def test_a_call_beside_gives_its_result_or_its_error() -> None:
    assert threads.beside(lambda: 3)() == 3
    wait = threads.beside(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        wait()
