"""What serving costs: `pdl serve` against onnxruntime behind an ASGI framework, with a load generator of its own.

    python tools/bench/serving.py                          # both servers, LeNet and ResNet-20
    python tools/bench/serving.py --only overhead
    python tools/bench/serving.py --seconds 5 --json

Server and generator have a core each (where there are two), one thread of kernels. Both servers run uvicorn with the
same parser and loop; the other one is FastAPI where it is installed, else Starlette, whose handler calls onnxruntime
with the same arrays and answers the same JSON. The parts:

    overhead    50 requests a second, one row each as binary tensors: latency less that of `session.run` measured in the
                same process as the server is ("over"), milliseconds
    lenet       requests a second of cv/digits_lenet, JSON and binary, keep-alive, by connections
    batching    requests a second of cv/cifar10_resnet20 with batches and with one row at a time (--batch 1), at most
                as many connections as have a 99th percentile below 20 ms
    compared    both servers in turns: LeNet, latency by one connection and throughput by 16

"of CPU" are requests a second of the server's own CPU time: what an idle core would give.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

CORES = sorted(os.sched_getaffinity(0))
LENET, RESNET = "cv/digits_lenet", "cv/cifar10_resnet20"
PEER = """
import sys, numpy as np, onnxruntime as ort
o = ort.SessionOptions(); o.intra_op_num_threads = 1; o.inter_op_num_threads = 1
s = ort.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
name = s.get_inputs()[0].name
def answer(said):
    x = np.array(said["inputs"][0]["data"], np.float32).reshape(said["inputs"][0]["shape"])
    y = s.run(None, {name: x})[0]
    return {"model_name": "m", "outputs": [{"name": "y", "datatype": "FP32", "shape": list(y.shape),
            "data": y.ravel().tolist()}]}
try:
    from fastapi import FastAPI, Request
    app = FastAPI()
    @app.post("/v2/models/m/infer")
    async def infer(request: Request): return answer(await request.json())
    what = "FastAPI"
except ImportError:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route
    async def infer(request): return JSONResponse(answer(await request.json()))
    app = Starlette(routes=[Route("/v2/models/m/infer", infer, methods=["POST"])])
    what = "Starlette"
import uvicorn, importlib.util
print(what, flush=True)
uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="error")
"""


def request(path: str, x: Any, *, binary: bool) -> bytes:
    """A whole request of HTTP for an array."""
    entry: dict[str, Any] = {"name": "image", "shape": list(x.shape), "datatype": "FP32"}
    said: dict[str, Any] = {"inputs": [entry]}
    more, tail = "", b""
    if binary:
        tail = x.tobytes()
        entry["parameters"] = {"binary_data_size": len(tail)}
        said["parameters"] = {"binary_data_output": True}
    else:
        entry["data"] = [round(float(v), 4) for v in x.ravel()]
    head = json.dumps(said).encode()
    if binary:
        more = f"Inference-Header-Content-Length: {len(head)}\r\n"
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
    return f"{lines}Content-Length: {len(head) + len(tail)}\r\n\r\n".encode() + head + tail


class Connection:
    """A connection that has at most one request under way."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.got, self.need, self.began = bytearray(), -1, 0.0

    def send(self, data: bytes) -> None:
        """Begin a request."""
        self.began = time.perf_counter()
        self.got.clear()
        self.need = -1
        sent = self.sock.send(data)
        if sent < len(data):
            self.sock.setblocking(True)
            self.sock.sendall(data[sent:])
            self.sock.setblocking(False)

    def read(self) -> int | None:
        """The status, once the answer is there as a whole."""
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise ConnectionError("the server closed a connection")
        self.got += piece
        if self.need < 0:
            at = self.got.find(b"\r\n\r\n")
            if at < 0:
                return None
            head = bytes(self.got[:at]).lower()
            begin = head.index(b"content-length:") + 15
            self.need = at + 4 + int(head[begin:].split(b"\r\n", 1)[0])
        return int(self.got[9:12]) if len(self.got) >= self.need else None


def closed(port: int, data: bytes, connections: int, seconds: float) -> tuple[float, list[float]]:
    """Each connection asks again as soon as it is answered: requests a second, and seconds of each."""
    pool = [Connection(port) for _ in range(connections)]
    selector = selectors.DefaultSelector()
    times: list[float] = []
    for each in pool:
        selector.register(each.sock, selectors.EVENT_READ, each)
        each.send(data)
    began = time.perf_counter()
    end = began + seconds
    while time.perf_counter() < end:
        for key, _ in selector.select(1.0):
            status = key.data.read()
            if status is not None:
                assert status == 200, bytes(key.data.got[:300])
                times.append(time.perf_counter() - key.data.began)
                key.data.send(data)
    took = time.perf_counter() - began
    for each in pool:
        each.sock.close()
    return len(times) / took, times


def paced(port: int, data: bytes, rate: float, seconds: float) -> list[float]:
    """So many requests a second by one connection: seconds of each."""
    one, times = Connection(port), []
    selector = selectors.DefaultSelector()
    selector.register(one.sock, selectors.EVENT_READ)
    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        wait = begin + number / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        one.send(data)
        while True:
            if selector.select(1.0) and one.read() is not None:
                break
        times.append(time.perf_counter() - one.began)
    one.sock.close()
    return times


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def server(words: Sequence[str], port: int) -> Iterator[int]:
    """A server in a process of its own on the first core; its number."""
    environment = {**os.environ, "PDL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PDL_OFFLINE": "1"}
    made = subprocess.Popen(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.sched_setaffinity(made.pid, CORES[:1])
    try:
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if made.poll() is not None or time.monotonic() > end:
                    raise SystemExit(f"a server did not start: {made.stderr.read().decode()[-2000:]}") from None
                time.sleep(0.1)
        yield made.pid
    finally:
        made.send_signal(signal.SIGTERM)
        try:
            made.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            made.kill()
            made.communicate()


def ours(model: str, port: int, *more: str) -> list[str]:
    """The command line of `pdl serve`."""
    return [sys.executable, "-m", "pdl", "serve", f"m={model}", "--port", str(port), *more]


def cpu(pid: int) -> float:
    """Seconds of CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ms(times: Sequence[float], share: float) -> float:
    """A percentile in milliseconds."""
    return round(1e3 * float(np.percentile(times, share)), 3)


def load(pid: int, port: int, data: bytes, connections: int, seconds: float) -> dict[str, Any]:
    """Throughput and latency, and throughput by the server's CPU time."""
    paced(port, data, 50, 0.1)  # it may still be loading
    closed(port, data, connections, min(1.0, seconds / 3))
    before = cpu(pid)
    rate, times = closed(port, data, connections, seconds)
    used = cpu(pid) - before
    return {
        "connections": connections, "requests_per_second": round(rate), "of_cpu": round(len(times) / max(used, 0.01)),
        "p50_ms": ms(times, 50), "p99_ms": ms(times, 99),
    }  # fmt: skip


def sample(model: str) -> Any:
    """A row for a model."""
    import pdl.runtime

    session = pdl.runtime.load(model)
    shape = [1, *map(int, session.inputs[0].shape[1:])]
    return np.random.default_rng(0).random(shape, np.float32)


def overhead(seconds: float) -> dict[str, Any]:
    """Latency at 50 requests a second beside that of the session alone."""
    import pdl.runtime

    found: dict[str, Any] = {}
    for model in (LENET, RESNET):
        x, port = sample(model), free_port()
        session = pdl.runtime.load(model, threads=1)
        alone = []
        for _ in range(int(50 * seconds)):
            time.sleep(0.02)
            began = time.perf_counter()
            session.run({session.inputs[0].name: x})
            alone.append(time.perf_counter() - began)
        with server(ours(model, port), port):
            data = request("/v2/models/m/infer", x, binary=True)
            paced(port, data, 50, 1.0)
            times = paced(port, data, 50, seconds)
        found[model] = {
            **{f"p{p}_ms": ms(times, p) for p in (50, 99)}, **{f"session_p{p}_ms": ms(alone, p) for p in (50, 99)},
            **{f"over_p{p}_ms": round(ms(times, p) - ms(alone, p), 3) for p in (50, 99)},
        }  # fmt: skip
    return found


def lenet(seconds: float) -> list[dict[str, Any]]:
    """Throughput of a small bundle."""
    x, port, found = sample(LENET), free_port(), []
    with server(ours(LENET, port), port) as pid:
        for binary in (False, True):
            data = request("/v2/models/m/infer", x, binary=binary)
            for connections in (1, 8, 32):
                found.append({"binary": binary, **load(pid, port, data, connections, seconds)})
    return found


def batching(seconds: float) -> dict[str, Any]:
    """Throughput of ResNet-20 with and without batches, whose p99 is below 20 ms."""
    x, found = sample(RESNET), {}
    data = request("/v2/models/m/infer", x, binary=True)
    for name, more in (("batches", ("--budget", "20")), ("one_by_one", ("--batch", "1"))):
        port, best = free_port(), None
        with server(ours(RESNET, port, *more), port) as pid:
            for connections in (1, 2, 4, 8, 16, 32):
                made = load(pid, port, data, connections, seconds)
                if best is None or (made["p99_ms"] <= 20 and made["of_cpu"] > best["of_cpu"]):
                    best = made
        found[name] = best
    found["ratio"] = round(found["batches"]["of_cpu"] / found["one_by_one"]["of_cpu"], 2)
    return found


def compared(seconds: float, rounds: int = 2) -> dict[str, Any]:
    """Both servers, in turns, LeNet and ResNet-20, JSON."""
    from pdl.cli import main

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in (LENET, RESNET):
            x, onnx = sample(model), f"{folder}/{model.replace('/', '_')}.onnx"
            assert main(["export", model, "--to", "onnx", "-o", onnx]) == 0
            path = "/v2/models/m/infer"
            bodies = {"pdl": request(path, x, binary=False)}
            bodies["onnxruntime"] = request(path, np.ascontiguousarray(x.transpose(0, 3, 1, 2)), binary=False)
            for turn in range(rounds):
                for name in ("pdl", "onnxruntime"):
                    port = free_port()
                    words = [sys.executable, "-c", PEER, onnx, str(port)] if name != "pdl" else ours(model, port)
                    with server(words, port) as pid:
                        for connections in (1, 16):
                            made = load(pid, port, bodies[name], connections, seconds)
                            found[f"{model} {name} {connections} connections, turn {turn + 1}"] = made
    return found


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"overhead": overhead, "lenet": lenet, "batching": batching, "compared": compared}
    parser.add_argument("--only", choices=list(parts), action="append")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {"cores": len(CORES)}
    for name in given.only or parts:
        os.sched_setaffinity(0, CORES[1:] or CORES)  # the generator; servers take the first core
        found[name] = parts[name](given.seconds)
        os.sched_setaffinity(0, CORES)
        if not given.json:
            made = found[name] if isinstance(found[name], dict) else dict(enumerate(found[name]))
            print(f"{name}\n" + "\n".join(f"  {key}: {value}" for key, value in made.items()), flush=True)
    if given.json:
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
