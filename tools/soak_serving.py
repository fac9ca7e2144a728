"""`pdl serve` under load while its model is replaced, workers are killed, and clients are slow, broken or leave.

    python tools/soak_serving.py                       # 10 minutes, two workers
    python tools/soak_serving.py --seconds 30 --workers 3

Every request must be answered, or refused with a reason (429, 503, 504); a killed worker may take along what it was
answering, which its clients see as a closed connection, and no worker may end otherwise. The first worker is never
killed: its memory is that after the first tenth, but for `--growth` percent. Exit code 1 where any of it does not hold.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

REFUSED = (429, 503, 504)
USUAL = ("loaded", "draining", "drained", "worker ended")
BROKEN = (
    b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n{",
)  # fmt: skip


class Soak:
    """The load, and what it found."""

    def __init__(self, address: str, workers: int) -> None:
        self.host, port = address.split(":")
        self.port, self.workers = int(port), workers
        self.stop = threading.Event()
        self.counts: Counter[str] = Counter()
        tensor = {"name": "image", "shape": [1, 8, 8, 1], "datatype": "FP32", "data": [0.5] * 64}
        self.body = json.dumps({"inputs": [tensor]})
        self.wrong = json.dumps({"inputs": [{**tensor, "shape": [1, 9]}]})

    def client(self, seed: int) -> None:
        """Asks, and asks again; some requests are wrong."""
        chance, connection = random.Random(seed), None
        while not self.stop.is_set():
            wrong = chance.random() < 0.05
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
                connection.request("POST", "/v2/models/m/infer", self.wrong if wrong else self.body)
                answer = connection.getresponse()
                said = json.loads(answer.read())
            except (OSError, http.client.HTTPException):
                self.counts["closed"] += 1
                connection = None
                continue
            good = answer.status == (400 if wrong else 200) and ("error" in said) == wrong
            known = "answered" if good else "refused" if answer.status in REFUSED and "error" in said else "wrong"
            self.counts[known] += 1

    def disturber(self, seed: int) -> None:
        """Slow, broken, and gone."""
        chance, open_ones = random.Random(seed), []
        while not self.stop.is_set():
            try:
                one = socket.create_connection((self.host, self.port), 5)
                one.sendall(chance.choice([*BROKEN, self.body.encode()[:40], b""]))  # or nothing at all
            except OSError:
                continue
            open_ones.append(one)
            if len(open_ones) > 20 or chance.random() < 0.5:
                open_ones.pop(chance.randrange(len(open_ones))).close()
            self.counts["disturbed"] += 1
            time.sleep(0.05)


def children(pid: int) -> list[int]:
    """The worker processes."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def memory(pid: int) -> int:
    """Bytes that a process has for itself."""
    try:
        found = re.search(r"Pss_Anon:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError as error:
        raise SystemExit(f"the worker that nobody killed has ended: {error}") from None
    return 1024 * int(found[1]) if found else 0


def soak(seconds: float, workers: int, clients: int, growth: float) -> dict[str, Any]:
    """Run it; what was found."""
    import pdl.runtime

    source = pdl.runtime.load("cv/digits_lenet").name
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model.pdl"
        shutil.copy(source, place)
        words = [sys.executable, "-m", "pdl", "serve", f"m={place}", "--port", "0", "--timeout", "5"]
        words += ["--workers", str(workers)]
        environment = {**os.environ, "PDL_NUM_THREADS": "1"}
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://(\S+)", line)
        if address is None:
            raise SystemExit(f"it did not start: {line}")
        load, first = Soak(address[1], workers), min(children(process.pid)) if workers > 1 else process.pid
        threads = [threading.Thread(target=load.client, args=(i,)) for i in range(clients)]
        threads += [threading.Thread(target=load.disturber, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        began, before, kills, reloads = time.monotonic(), 0, 0, 0
        step = max(3.0, seconds / 40)
        while time.monotonic() - began < seconds:
            time.sleep(step)
            shutil.copy(source, place.with_suffix(".new"))
            place.with_suffix(".new").replace(place)
            process.send_signal(signal.SIGHUP)
            reloads += 1
            if workers > 1 and reloads % 4 == 0 and time.monotonic() - began < seconds - 2 * step:
                os.kill(random.choice([pid for pid in children(process.pid) if pid != first]), signal.SIGKILL)
                kills += 1
            if not before and time.monotonic() - began > seconds / 10:
                before = memory(first)
        after = memory(first)
        load.stop.set()
        for thread in threads:
            thread.join()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        process.stdout.close()
        lines = Path(f"{folder}/log").read_text().splitlines()
    said = [json.loads(line) if line.startswith("{") else {"event": line} for line in lines]
    odd = [each for each in said if each["event"] not in USUAL or each.get("code", -signal.SIGKILL) != -signal.SIGKILL]
    counts = dict(load.counts)
    most_closed = kills * clients  # each client may have had one request in the worker that was killed
    good = not counts.get("wrong") and counts.get("closed", 0) <= most_closed and code == 0
    good = good and after <= before * (1 + growth / 100) and not odd
    return {
        "seconds": seconds, "workers": workers, **counts, "reloads": reloads, "killed": kills, "exit_code": code,
        "mib_before": round(before / 2**20, 1), "mib_after": round(after / 2**20, 1), "odd_lines": odd[:5],
        "good": good,
    }  # fmt: skip


def main() -> int:
    """Run, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--growth", type=float, default=10.0, help="percent that memory may grow")
    given = parser.parse_args()
    found = soak(given.seconds, given.workers, given.clients, given.growth)
    print(json.dumps(found))
    return 0 if found["good"] else 1


if __name__ == "__main__":
    sys.exit(main())
