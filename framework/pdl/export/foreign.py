"""The runtime that a model of unknown origin was made for, ONNX Runtime, LiteRT or Paddle: in a process of its own,
with limits of time and memory.

A graph that crashes the runtime, or never ends in it, then costs that process and a line of explanation. Run as a
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
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np


class Runtime(NamedTuple):
    """A runtime: its name, the package to install, and the modules that have it, any of which will do."""

    name: str
    package: str
    modules: tuple[str, ...]

    def installed(self) -> bool:
        """Whether one of the modules is there."""
        return any(find_spec(module) is not None for module in self.modules)


#: by the domain of a model's own operators
RUNTIMES = {
    "": Runtime("ONNX Runtime", "onnxruntime", ("onnxruntime",)),
    "tflite": Runtime("LiteRT", "ai-edge-litert", ("ai_edge_litert", "tflite_runtime")),
    "paddle": Runtime("Paddle", "paddlepaddle", ("paddle",)),
}

SECONDS = 120.0
"""For loading a model and all its runs together."""

MEMORY = 8 << 30
"""Bytes of address space, and four times those of the model's weights; at most three quarters of the machine's."""


class Refused(Exception):
    """The runtime does not take the model, or these inputs; the message says why."""


class Ended(Refused):
    """The process is gone: it crashed, or took too much time or memory."""


class Foreign:
    """A model in the runtime of a domain, with so many bytes of weights: `run` it inside of a `with`."""

    def __init__(self, source: Path, weights: int = 0, domain: str = "") -> None:
        self.source, self.weights, self.domain = source, weights, domain

    def __enter__(self) -> Foreign:
        self.until = time.monotonic() + SECONDS
        self.folder = tempfile.TemporaryDirectory(prefix="pdl-foreign-")
        words = [str(self.source.resolve()), self.folder.name, str(_memory(self.weights)), self.domain]
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


def _onnx(source: str) -> Callable[[dict[str, Any]], list[Any]]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)  # type: ignore[no-any-return]


def _tflite(source: str) -> Callable[[dict[str, Any]], list[Any]]:
    """Inputs in the order of the graph."""
    module = next(name for name in RUNTIMES["tflite"].modules if find_spec(name) is not None)
    interpreter = import_module(f"{module}.interpreter").Interpreter(source, num_threads=1)

    def run(feeds: dict[str, Any]) -> list[Any]:
        inputs = interpreter.get_input_details()
        if len(inputs) != len(feeds):
            raise ValueError(f"it has {len(inputs)} inputs, not {len(feeds)}")
        for each, x in zip(inputs, feeds.values(), strict=True):
            interpreter.resize_tensor_input(each["index"], x.shape)
        interpreter.allocate_tensors()
        for each, x in zip(inputs, feeds.values(), strict=True):
            interpreter.set_tensor(each["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]

    return run


def _paddle(source: str) -> Callable[[dict[str, Any]], list[Any]]:
    inference = import_module("paddle.inference")
    config = inference.Config(source, str(Path(source).with_suffix(".pdiparams")))
    config.disable_gpu()
    config.disable_glog_info()
    config.disable_mkldnn()  # whose kernels lack some attributes of Paddle 3's programs
    config.switch_ir_optim(False)
    predictor = inference.create_predictor(config)

    def run(feeds: dict[str, Any]) -> list[Any]:
        for name, x in feeds.items():
            handle = predictor.get_input_handle(name)
            handle.reshape(x.shape)
            handle.copy_from_cpu(np.ascontiguousarray(x))
        predictor.run()
        return [predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()]

    return run


def _serve(source: str, folder: str, memory: str, domain: str) -> None:
    _limit(int(memory))
    answers = os.dup(1)
    os.dup2(2, 1)  # runtimes that write to standard output must not answer
    sys.stdout = os.fdopen(answers, "w")
    try:
        run = {"": _onnx, "tflite": _tflite, "paddle": _paddle}[domain](source)
    except Exception as error:  # whatever it finds wrong with a model is its own affair
        _say(f"no {type(error).__name__}: {error!s:.200}")
        return
    _say("ok")
    for _ in sys.stdin:
        try:
            with np.load(os.path.join(folder, "feeds.npz")) as held:
                feeds = {str(name): held[f"x{i}"] for i, name in enumerate(held["names"])}
            feeds = {name: x.astype(object) if x.dtype.kind == "U" else x for name, x in feeds.items()}
            outputs = run(feeds)
            np.savez(os.path.join(folder, "outputs.npz"), **{f"y{i}": _plain(y) for i, y in enumerate(outputs)})
        except Exception as error:
            _say(f"no {type(error).__name__}: {error!s:.200}")
        else:
            _say("ok")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
