"""Several threads and processes that want one file: one fetches, the others wait, and a death holds nobody up."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pdl import hub
from pdl.hub.cache import PART
from tests.framework.hub.conftest import CONTENT, Offer, files
from tests.framework.hub.server import Server, held, whole


def test_threads_fetch_once(server: Server, offer: Offer, messages: list[str]) -> None:
    server.answers["/file"] = [held(CONTENT, 10)]
    offer(sources=[{"url": f"{server.url}/file"}])
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(hub.resolve("demo/net"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(messages) == 2)
    server.gate.set()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 1
    assert [path.read_bytes() for path in found] == [CONTENT] * 3
    assert messages == ["demo/net: another process is fetching it; waiting"] * 2


def wait_for(condition: Any) -> None:
    """Until it holds, looking every millisecond; an hour is too long."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


RESOLVE = "from pdl import hub; print(hub.resolve('demo/net_small'))"
HELLO = b"hello world"
ADDRESS = "/b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9/net_small.safetensors"


@pytest.fixture
def child(server: Server, demo_env: dict[str, str], cache: Path) -> Any:
    """Starts a process that resolves demo/net_small, which only the server has."""
    env = demo_env | {"PDL_HUB": server.url, "PDL_CACHE": str(cache.parent), "PYTHONWARNINGS": "always"}
    env["PDL_OFFLINE"] = "0"  # the server is on this machine

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", RESOLVE], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def test_processes_fetch_once(server: Server, child: Any, cache: Path) -> None:
    server.answers[ADDRESS] = [held(HELLO, 5)]
    with child() as one:
        wait_for(lambda: server.seen)
        with child() as two:
            assert "another process is fetching it; waiting" in two.stderr.readline()
            server.gate.set()
            assert one.communicate()[0] == two.communicate()[0] == f"{cache}{ADDRESS}\n"
    assert len(server.seen) == 1
    assert files(cache) == {"net_small.safetensors": HELLO}


@pytest.mark.skipif(sys.platform == "win32", reason="kills a process the POSIX way")
def test_a_killed_process_holds_nobody_up(server: Server, child: Any, cache: Path) -> None:
    server.answers[ADDRESS] = [held(HELLO, 5), whole(HELLO)]
    with child() as one:
        wait_for(lambda: [path.stat().st_size for path in cache.rglob(f"*{PART}")] == [5])
        one.send_signal(signal.SIGKILL)
        one.communicate()
    with child() as two:
        assert two.communicate()[0] == f"{cache}{ADDRESS}\n"
    assert [request[1] for request in server.seen] == [None, "bytes=5-"]
    assert files(cache) == {"net_small.safetensors": HELLO}
