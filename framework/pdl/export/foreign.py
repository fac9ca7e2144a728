"""ONNX Runtime on a model of unknown origin: in a process of its own, with limits of time and memory.

A graph that crashes ONNX Runtime, or never ends in it, then costs that process and a line of explanation. Run as a
script, this file is that process: it loads MODEL, and for each line of standard input it runs the arrays of
FOLDER/feeds.npz and leaves what came of it in FOLDER/outputs.npz; it answers "ok", or "no" and the reason.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

SECONDS = 120.0
"""For loading a model and all its runs together."""

MEMORY = 8 << 30
"""Bytes of address space, and four times those of the model's weights; at most three quarters of the machine's."""


class Refused(Exception):
    """ONNX Runtime does not take the model, or these inputs; the message says why."""


class Ended(Refused):
    """The process is gone: it crashed, or took too much time or memory."""


class Foreign:
    """A model in ONNX Runtime, with so many bytes of weights: `run` it inside of a `with`."""

    def __init__(self, source: Path, weights: int = 0) -> None:
        self.source, self.weights = source, weights

    def __enter__(self) -> Foreign:
        self.until = time.monotonic() + SECONDS
        self.folder = tempfile.TemporaryDirectory(prefix="pdl-foreign-")
        words = [str(self.source.resolve()), self.folder.name, str(_memory(self.weights))]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        # -P: this folder has modules that are called as others'
        self.process = subprocess.Popen([sys.executable, "-P", __file__, *words], text=True, **pipes)
        try:
            self._answer()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs, in the order of the model. Raises Refused."""
        from pdl.runtime.arrays import read_arrays

        if any(array.dtype.kind == "V" for array in feeds.values()):
            raise Refused("a dtype that NumPy's files do not have")
        plain = {f"x{i}": _plain(array) for i, array in enumerate(feeds.values())}
        np.savez(os.path.join(self.folder.name, "feeds.npz"), names=np.array(list(feeds)), **plain)
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("run\n")
            self.process.stdin.flush()
        except OSError:
            raise Ended(self._end(False)) from None
        self._answer()
        try:
            found = read_arrays(os.path.join(self.folder.name, "outputs.npz"))
        except (OSError, ValueError) as error:
            raise Refused(f"its outputs cannot be read ({error})") from None
        return [found[f"y{i}"] for i in range(len(found))]

    def _answer(self) -> None:
        late = threading.Event()

        def end() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(max(0.0, self.until - time.monotonic()), end)
        timer.daemon = True
        timer.start()
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        timer.cancel()
        if not said:
            raise Ended(self._end(late.is_set()))
        if said != "ok\n":
            raise Refused(said.removeprefix("no ").strip())

    def _end(self, late: bool) -> str:
        code = self.process.wait()
        if late:
            return f"it took more than {SECONDS:g} s"
        return f"it crashed (signal {-code})" if code < 0 else f"it ended with exit code {code}"


def _memory(weights: int) -> int:
    """Bytes of address space that the other process may take."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(MEMORY + 4 * weights, machine * 3 // 4)


# -- the other process -------------------------------------------------------------------------------------------------
def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _say(text: str) -> None:
    sys.stdout.write(" ".join(text.split())[:300] + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(str) if array.dtype.kind == "O" else array


def _serve(source: str, folder: str, memory: str) -> None:
    _limit(int(memory))
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever it finds wrong with a model is its own affair
        _say(f"no {type(error).__name__}: {error!s:.200}")
        return
    _say("ok")
    for _ in sys.stdin:
        try:
            with np.load(os.path.join(folder, "feeds.npz")) as held:
                feeds = {str(name): held[f"x{i}"] for i, name in enumerate(held["names"])}
            feeds = {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in feeds.items()}
            outputs: Sequence[Any] = session.run(None, feeds)
            np.savez(os.path.join(folder, "outputs.npz"), **{f"y{i}": _plain(y) for i, y in enumerate(outputs)})
        except Exception as error:
            _say(f"no {type(error).__name__}: {error!s:.200}")
        else:
            _say("ok")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
