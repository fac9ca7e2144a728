"""What serving costs: `pdl serve` beside onnxruntime behind FastAPI, Starlette and Ray Serve, in one run.

    python tools/bench/serving.py --peer venv/bin/python     # has onnxruntime, fastapi, uvicorn, httptools, uvloop
    python tools/bench/serving.py --peer venv/bin/python --ray venv/bin/python     # has ray[serve], too
    python tools/bench/serving.py --only batching --cores 4

All servers run at once, on the first core (`--cores`: so many), with one thread of kernels on each, and are asked in
turns by a load generator on the others, so that whatever else the machine does disturbs all of them alike. Those of
onnxruntime take the same arrays and answer the same JSON; all but Ray Serve run the same uvicorn. The parts:

    latency     50 requests a second, one row each, by a client of sockets alone, in a process of its own. Milliseconds;
                "over_run" that of `session.run` at the same pace on the server's core; "over_echo" that of a loop
                (uvloop) which answers as many bytes without looking at a request: what the machine takes to wake a
                process and to pass on bytes. Differences are those of each turn, of which it is the median
    throughput  requests of cv/digits_lenet by 1 and by 16 connections that are kept: a second, and a second of the CPU
                time of the server with its processes, which is what a core would give that nobody else uses
    batching    requests a second with batches and with one row at a time (--batch 1) by as many connections as have a
                99th percentile of at most 20 ms, of a perceptron whose time goes into reading its 33 MB of weights, and
                of cv/cifar10_resnet20, whose time is arithmetic; "rows": milliseconds a row of `session.run`
"""

from __future__ import annotations

import argparse
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

CORES = sorted(os.sched_getaffinity(0))
LENET, RESNET = "cv/digits_lenet", "cv/cifar10_resnet20"
PATH = "/v2/models/m/infer"
START = 300.0  # seconds that a server may take to start
RATE, BUDGET = 50, 20.0  # requests a second, and milliseconds of the 99th percentile
SIZES = (1, 2, 4, 8, 16, 32)
CLIENT = """
import gc, socket, sys, time
rate, count, size = float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
data = sys.stdin.buffer.read(size)
gc.disable()
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times, begin = [], time.perf_counter()
for number in range(count):
    time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
    began = time.perf_counter()
    one.sendall(data)
    got = one.recv(65536)
    while True:
        head, found, rest = got.partition(b"\\r\\n\\r\\n")
        at = head.lower().find(b"content-length:")
        if found and at < 0 and rest.endswith(b"0\\r\\n\\r\\n"):
            break
        if found and at >= 0 and len(rest) >= int(head[at + 15:].split(b"\\r\\n", 1)[0]):
            break
        piece = one.recv(65536)
        assert piece, "the server closed the connection"
        got += piece
    times.append(time.perf_counter() - began)
    assert got[9:12] == b"200", got[:300]
print(*times)
"""
ECHO = """
import asyncio, sys, uvloop
size, answer = int(sys.argv[2]), b"HTTP/1.1 200 OK\\r\\ncontent-length: 300\\r\\n\\r\\n" + b" " * 300
class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport, self.got = transport, 0
    def data_received(self, data):
        self.got += len(data)
        if self.got >= size:
            self.got -= size
            self.transport.write(answer)
async def main():
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
uvloop.run(main())
"""
ANSWER = """
import os, sys, numpy as np, onnxruntime as ort
def opened(path):
    o = ort.SessionOptions(); o.inter_op_num_threads = 1; o.intra_op_num_threads = int(os.environ["PDL_NUM_THREADS"])
    s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    name = s.get_inputs()[0].name
    def answer(said):
        x = np.array(said["inputs"][0]["data"], np.float32).reshape(said["inputs"][0]["shape"])
        y = s.run(None, {name: x})[0]
        return {"model_name": "m", "outputs": [{"name": "y", "datatype": "FP32", "shape": list(y.shape),
                "data": y.ravel().tolist()}]}
    return answer
"""
STARLETTE = (
    ANSWER
    + """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
answer = opened(sys.argv[1])
async def infer(request): return JSONResponse(answer(await request.json()))
app = Starlette(routes=[Route(sys.argv[3], infer, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="error")
"""
)
FASTAPI = (
    ANSWER
    + """
import uvicorn
from fastapi import FastAPI, Request
answer, app = opened(sys.argv[1]), FastAPI()
@app.post(sys.argv[3])
async def infer(request: Request): return answer(await request.json())
uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="error")
"""
)
RAY = (
    ANSWER
    + """
import signal, ray
from ray import serve
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
@serve.deployment(max_ongoing_requests=256, logging_config={"enable_access_log": False})
class Model:
    def __init__(self, path): self.answer = opened(path)
    async def __call__(self, request): return self.answer(await request.json())
serve.run(Model.bind(sys.argv[1]), route_prefix=sys.argv[3])
signal.sigwait({signal.SIGTERM})
serve.shutdown(); ray.shutdown()
"""
)


def request(path: str, x: Any, *, binary: bool, name: str = "image") -> bytes:
    """A whole request of HTTP for an array."""
    entry: dict[str, Any] = {"name": name, "shape": list(x.shape), "datatype": "FP32"}
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
            length = head.find(b"content-length:")
            if length >= 0:
                self.need = at + 4 + int(head[length + 15 :].split(b"\r\n", 1)[0])
            elif self.got.endswith(b"\r\n0\r\n\r\n"):  # in chunks, of which that is the last
                self.need = len(self.got)
        return int(self.got[9:12]) if 0 <= self.need <= len(self.got) else None


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
    """So many requests a second by one connection, of a process that does nothing else: seconds of each."""
    words = [sys.executable, "-ISc", CLIENT, str(port), str(rate), str(max(1, int(rate * seconds))), str(len(data))]
    made = subprocess.run(words, input=data, capture_output=True)
    if made.returncode:
        raise ConnectionError(made.stderr.decode()[-500:])
    return [float(each) for each in made.stdout.split()]


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def cpu(pid: int) -> float:
    """Seconds of CPU time of a process and of those that it has started."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(each.name)] = int((each / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    total, left = 0, {pid}
    while left:
        for number in left:
            for task in Path(f"/proc/{number}/task").glob("*/schedstat"):
                try:
                    total += int(task.read_text().split()[0])
                except OSError:
                    continue
        left = {child for child, parent in parents.items() if parent in left}
    return total / 1e9


@contextmanager
def server(words: Sequence[str], port: int, data: bytes, cores: int = 1) -> Iterator[int]:
    """A server in a process of its own on the first cores, which answers `data`; its number."""
    environment = {**os.environ, "PDL_NUM_THREADS": str(cores), "OMP_NUM_THREADS": str(cores), "PDL_OFFLINE": "1"}
    environment |= {"RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryFile() as said:
        made = subprocess.Popen(
            words, env=environment, stdout=said, stderr=said, preexec_fn=lambda: os.sched_setaffinity(0, CORES[:cores])
        )
        try:
            end = time.monotonic() + START
            while not _answers(port, data):
                if made.poll() is not None or time.monotonic() > end:
                    said.seek(0)
                    raise SystemExit(f"a server did not start: {said.read().decode()[-3000:]}")
                time.sleep(0.2)
            yield made.pid
        finally:
            made.send_signal(signal.SIGTERM)
            try:
                made.wait(30)
            except subprocess.TimeoutExpired:
                made.kill()
                made.wait()


def _answers(port: int, data: bytes) -> bool:
    try:
        paced(port, data, 50, 0.02)
    except OSError:
        return False
    return True


def ours(model: str, port: int, *more: str) -> list[str]:
    """The command line of `pdl serve`."""
    return [sys.executable, "-m", "pdl", "serve", f"m={model}", "--port", str(port), *more]


class Servers:
    """All that are compared with a model: a name, its process, its port and the request that it is asked."""

    def __init__(self, model: str, given: argparse.Namespace, stack: ExitStack) -> None:
        x, self.up = sample(model), {}
        binary = request(PATH, x, binary=True)
        port = free_port()
        pid = stack.enter_context(server(ours(model, port), port, binary, given.cores))
        self.up = {"pdl, JSON": (pid, port, request(PATH, x, binary=False)), "pdl, binary": (pid, port, binary)}
        peers = {"onnxruntime + FastAPI": (given.peer, FASTAPI), "onnxruntime + Starlette": (given.peer, STARLETTE),
                 "onnxruntime + Ray Serve": (given.ray, RAY)}  # fmt: skip
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if given.peer or given.ray:
            from pdl.cli import main

            with redirect_stdout(io.StringIO()):
                assert main(["export", model, "--to", "onnx", "-o", f"{folder}/m.onnx"]) == 0
        data, port = self.up["pdl, JSON"][2], free_port()
        words = [sys.executable, "-c", ECHO, str(port), str(len(data))]
        self.up["echo"] = stack.enter_context(server(words, port, data, given.cores)), port, data
        data = request(PATH, np.ascontiguousarray(x.transpose(0, 3, 1, 2)), binary=False)
        for name, (python, script) in peers.items():
            if python:
                port = free_port()
                words = [python, "-c", script, f"{folder}/m.onnx", str(port), PATH]
                self.up[name] = stack.enter_context(server(words, port, data, given.cores)), port, data


def ms(times: Sequence[float], share: float) -> float:
    """A percentile in milliseconds."""
    return round(1e3 * float(np.percentile(times, share)), 3)


def window(pid: int, port: int, data: bytes, connections: int, seconds: float) -> tuple[list[float], float, float]:
    """Of so many seconds of load: seconds of each request, of the time, and of the server's CPU time."""
    before = cpu(pid)
    rate, times = closed(port, data, connections, seconds)
    return times, len(times) / rate, cpu(pid) - before


def summed(windows: Sequence[tuple[list[float], float, float]]) -> dict[str, Any]:
    """What several of them say together."""
    times = [took for each in windows for took in each[0]]
    seconds, used = sum(each[1] for each in windows), sum(each[2] for each in windows)
    return {
        "requests_per_second": round(len(times) / seconds), "of_cpu": round(len(times) / max(used, 0.01)),
        "p50_ms": ms(times, 50), "p99_ms": ms(times, 99),
    }  # fmt: skip


def input_of(model: str) -> str:
    """The name of its input."""
    import pdl.runtime

    return pdl.runtime.load(model).inputs[0].name


def sample(model: str, rows: int = 1) -> Any:
    """Rows for a model."""
    import pdl.runtime

    shape = pdl.runtime.load(model).inputs[0].shape
    assert shape is not None
    return np.random.default_rng(0).random([rows, *map(int, shape[1:])], np.float32)


def alone(model: str, rows: int, count: int, pause: float, cores: int) -> list[float]:
    """Seconds of `session.run` on the cores of the servers."""
    import pdl.runtime

    session = pdl.runtime.load(model, threads=cores)
    inputs, found = {session.inputs[0].name: sample(model, rows)}, []
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES[:cores])
    for _ in range(count + 3):
        time.sleep(pause)
        began = time.perf_counter()
        session.run(inputs)
        found.append(time.perf_counter() - began)
    os.sched_setaffinity(0, mine)
    return found[3:]


def latency(given: argparse.Namespace) -> dict[str, Any]:
    """At 50 requests a second."""
    found: dict[str, Any] = {}
    for model in (LENET, RESNET):
        turns: dict[str, list[list[float]]] = {}
        with ExitStack() as stack:
            servers = Servers(model, given, stack)
            for turn in range(given.turns + 1):
                run = alone(model, 1, int(RATE * given.seconds), 1 / RATE, given.cores)
                made = {n: paced(p, data, RATE, given.seconds) for n, (_, p, data) in servers.up.items()}
                for name, times in {"session.run": run, **made}.items():
                    turns.setdefault(name, []).extend([times] if turn else [])  # the first one warms up
        for name, each in turns.items():
            found[f"{model}, {name}"] = said = {}
            for share in (50, 99):
                said[f"p{share}_ms"] = ms([took for times in each for took in times], share)
                for key, other in (("over_run", "session.run"), ("over_echo", "echo")):
                    if name not in ("session.run", other):
                        pairs = zip(each, turns[other], strict=True)
                        said[f"{key}_p{share}"] = round(
                            float(np.median([ms(a, share) - ms(b, share) for a, b in pairs])), 3
                        )
    return found


def throughput(given: argparse.Namespace) -> dict[str, Any]:
    """Of a small bundle."""
    made: dict[str, list[Any]] = {}
    with ExitStack() as stack:
        servers = Servers(LENET, given, stack)
        for turn in range(given.turns + 1):
            for connections in (1, 16):
                for name, (pid, port, data) in servers.up.items():
                    each = window(pid, port, data, connections, given.seconds / 2)
                    made.setdefault(f"{name}, {connections} connections", []).extend([each] if turn else [])
    return {name: summed(windows) for name, windows in made.items()}


def perceptron(path: Path) -> str:
    """Write a bundle of a perceptron 1024-2048-2048-1000."""
    import pdl
    from pdl import nn

    net = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1000))
    pdl.Model(net).prepare().export(str(path), np.zeros((4, 1024), np.float32))
    return str(path)


def batching(given: argparse.Namespace) -> dict[str, Any]:
    """With and without batches, within the same 99th percentile."""
    found: dict[str, Any] = {}
    ways = {"batches": ("--budget", f"{BUDGET:g}"), "one by one": ("--batch", "1")}
    with tempfile.TemporaryDirectory() as folder:
        for model, place in (("perceptron", perceptron(Path(folder) / "perceptron.pdl")), (RESNET, RESNET)):
            data, best = request(PATH, sample(place), binary=True, name=input_of(place)), {}
            for name, more in ways.items():
                port = free_port()
                with server(ours(place, port, *more), port, data, given.cores) as pid:
                    tried: list[dict[str, Any]] = []
                    for connections in (1, 2, 4, 8, 12, 16, 24, 32):
                        window(pid, port, data, connections, 0.3)
                        made = summed([window(pid, port, data, connections, given.seconds)])
                        tried.append({"connections": connections, **made})
                        if made["p99_ms"] > BUDGET:
                            break
                good = [each for each in tried if each["p99_ms"] <= BUDGET] or tried[:1]
                best[name] = max(good, key=_rate)
                found[f"{model}, {name}"] = best[name]
            found[f"{model}, ratio"] = {
                key: round(best["batches"][key] / best["one by one"][key], 2)
                for key in ("requests_per_second", "of_cpu")
            }
            rows = {n: 1e3 * min(alone(place, n, 10, 0.0, given.cores)) / n for n in SIZES}
            found[f"{model}, rows"] = {str(n): round(each, 3) for n, each in rows.items()}
    return found


def _rate(tried: dict[str, Any]) -> int:
    return int(tried["requests_per_second"])


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"latency": latency, "throughput": throughput, "batching": batching}
    parser.add_argument("--only", choices=list(parts), action="append")
    parser.add_argument("--peer", metavar="PYTHON", help="that has onnxruntime, fastapi, uvicorn, httptools, uvloop")
    parser.add_argument("--ray", metavar="PYTHON", help="that has onnxruntime and ray[serve]")
    parser.add_argument("--cores", type=int, default=1, help="of each server")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--turns", type=int, default=2, help="through all servers")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {"cores": len(CORES)}
    os.sched_setaffinity(0, CORES[given.cores :] or CORES)  # the generator
    for name in given.only or parts:
        found[name] = parts[name](given)
        if not given.json:
            print(
                f"{name}\n" + "\n".join(f"  {key}: {_shown(value)}" for key, value in found[name].items()), flush=True
            )
    if given.json:
        print(json.dumps(found, indent=1))
    return 0


def _shown(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {each}" for key, each in value.items())


if __name__ == "__main__":
    sys.exit(main())
