"""`pdl serve` as a process: signals, workers, gRPC and standard clients, TLS, slow clients, the page in a browser."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

from pdl.cli import main
from pdl.runtime import load
from tests.framework.serving.asking import LENET, ask, infer, picture, running, until

Capture = pytest.CaptureFixture[str]
INFER = json.dumps(infer()).encode()


def metric(address: str, name: str, **headers: str) -> float:
    lines = ask(address, "GET", "/metrics", **headers)[1].decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.partition("{")[0].partition(" ")[0] == name)


@pytest.mark.filterwarnings("ignore")  # of the clients' packages
def test_standard_clients_ask_over_http_and_grpc() -> None:
    grpc_client = pytest.importorskip("tritonclient.grpc")
    http_client = pytest.importorskip("tritonclient.http")
    token = "a-token-of-the-tests"
    x = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    want = load(LENET).run({"image": x})["logits"]
    with running(f"m={LENET}", "--grpc", "0", "--log-requests", token=token) as (process, address):
        said = {"authorization": f"Bearer {token}"}
        sides = ((http_client, address), (grpc_client, process.grpc))
        for module, place in sides:
            client = module.InferenceServerClient(place)
            assert client.is_server_live()
            assert client.is_server_ready()
            with pytest.raises(module.InferenceServerException, match="token is needed"):
                client.get_model_metadata("m")
            assert client.is_model_ready("m", headers=dict(said))
            tensor = module.InferInput("image", [3, 8, 8, 1], "FP32").set_data_from_numpy(x)
            answer = client.infer("m", [tensor], request_id="q", headers=dict(said))
            np.testing.assert_allclose(answer.as_numpy("logits"), want, rtol=1e-5, atol=1e-6)
            wrong = module.InferInput("image", [1, 2], "FP32").set_data_from_numpy(np.zeros((1, 2), np.float32))
            with pytest.raises(module.InferenceServerException, match=r"shape \[1, 2\], the model takes image"):
                client.infer("m", [wrong], headers=dict(said))
            with pytest.raises(module.InferenceServerException, match="no model 'other'"):
                client.infer("other", [tensor], headers=dict(said))
            client.close()
    assert any('"way": "grpc", "model": "m"' in line and '"status": 200' in line for line in process.logged)


def test_the_messages_are_the_published_ones() -> None:
    published = pytest.importorskip("tritonclient.grpc.service_pb2").DESCRIPTOR.message_types_by_name
    from pdl.serving.messages import MESSAGES, messages

    ours = messages()
    for name in MESSAGES:
        outer, _, inner = name.partition(".")
        theirs = published[outer].nested_types_by_name[inner] if inner else published[outer]
        for field in getattr(ours, name.replace(".", "_")).DESCRIPTOR.fields:
            other = theirs.fields_by_name[field.name]
            kind = field.message_type.full_name if field.message_type is not None else ""
            assert (field.number, field.type, kind) == (
                other.number, other.type, other.message_type.full_name if other.message_type is not None else "",
            ), f"{name}.{field.name}"  # fmt: skip


def test_slow_and_broken_clients_disturb_nobody_and_sigterm_answers_what_was_asked() -> None:
    # no time limit of the server can pass while this runs: `test_connections` has a request that comes too slowly
    head = "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n"
    with ExitStack() as stack:
        process, address = stack.enter_context(running(f"m={LENET}", "--timeout", "600", "--drain", "600"))
        host, port = address.split(":")
        slow, cut, broken, gone, half = (
            stack.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(5)
        )
        slow.sendall(head.format(500).encode() + b"{")
        cut.sendall(b"GET / HTTP/1.1\r\nHos")
        broken.sendall(b"\x16\x03\x01 no HTTP \x00\xff\r\n\r\n")
        gone.sendall(head.format(99).encode() + b"{")
        until(lambda: metric(address, "pdl_under_way") == 3)  # slow, gone, and who asks for the metrics
        gone.close()
        for _ in range(5):
            assert ask(address, "POST", "/v2/models/m/infer", INFER)[0] == 200
        assert broken.recv(100)[:12] in (b"HTTP/1.1 400", b"")
        until(lambda: metric(address, "pdl_under_way") == 2)
        slow.close()
        until(lambda: metric(address, "pdl_under_way") == 1)
        half.sendall(head.format(len(INFER)).encode() + INFER[:50])
        until(lambda: metric(address, "pdl_under_way") == 2)
        process.send_signal(signal.SIGTERM)
        until(lambda: any('"draining"' in line for line in process.logged))
        with pytest.raises(OSError, match="refused"):
            ask(address, "GET", "/v2/health/live")
        half.sendall(INFER[50:])
        answer = stack.enter_context(closing(http.client.HTTPResponse(half)))
        answer.begin()
        assert (answer.status, answer.getheader("connection")) == (200, "close")
        assert json.loads(answer.read())["model_name"] == "m"
        assert process.wait(60) == 0


def test_workers_share_the_port_and_one_that_is_killed_comes_back(tmp_path: Path) -> None:
    with running(f"m={LENET}", "--workers", "2") as (process, address):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        first = children.read_text().split()
        assert len(first) == 2
        counts = {200: 0}
        stop = threading.Event()

        def many() -> None:
            while not stop.is_set():
                try:
                    counts[ask(address, "POST", "/v2/models/m/infer", INFER)[0]] += 1
                except (OSError, http.client.HTTPException):
                    counts.setdefault(0, 0)  # of the killed worker, which was answering it
                    counts[0] += 1

        threads = [threading.Thread(target=many) for _ in range(2)]
        with ExitStack() as stack:
            for thread in threads:
                thread.start()
                stack.callback(thread.join)
            stack.callback(stop.set)
            until(lambda: counts[200] > 20)
            os.kill(int(first[0]), signal.SIGKILL)
            until(lambda: len(children.read_text().split()) == 2 and children.read_text().split() != first)
            process.send_signal(signal.SIGHUP)
            many_more = counts[200] + 20
            until(lambda: counts[200] > many_more)
            os.kill(int(first[1]), signal.SIGKILL)  # those that were started again answer alone
            many_more = counts[200] + 20
            until(lambda: counts[200] > many_more)
        assert counts.get(0, 0) <= 2 * len(threads)
        until(lambda: metric(address, "pdl_restarts_total") == 2)
        ended = [json.loads(line) for line in process.logged if '"worker ended"' in line]
        assert [each["code"] for each in ended] == [-signal.SIGKILL] * 2
        assert metric(address, "pdl_workers") == 2
        # a request is counted when its answer has been sent: those of a worker killed in between are not
        assert metric(address, "pdl_requests_total") >= counts[200] - 2 * len(threads)
    assert not children.exists()


def test_workers_end_when_their_parent_is_killed() -> None:
    left: list[str] = []
    with suppress(AssertionError), running(f"m={LENET}", "--workers", "2") as (process, _):  # it does not end well
        left = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert len(left) == 2
    until(lambda: not any(Path(f"/proc/{each}").exists() for each in left))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2"]
    more = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*words, *more], check=True, capture_output=True)
    with running(f"m={LENET}", "--tls-cert", str(cert), "--tls-key", str(key)) as (_, address):
        context = ssl.create_default_context(cafile=str(cert))
        with urlopen(f"https://{address}/v2/health/ready", context=context) as answer:
            assert json.loads(answer.read()) == {"ready": True}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "which model"),
        (["no/such.pdl"], "no such run folder or bundle"),
        ([LENET, "--save", "x"], "--to k8s"),
        ([LENET, "--to", "k8s"], "--image NAME"),
        ([LENET, "--tls-cert", __file__], "--tls-key"),
        ([LENET, "--split", "digits_lenet=7:1"], "there is no digits_lenet:7"),
        ([LENET, "--delay", "50"], "within the budget"),
        ([LENET, "--workers", "2", "--grpc", "0"], "a port that is named"),
        ([LENET, "--token-file", "/dev/null"], "not a regular file"),
    ],
)
def test_what_cannot_be_served_is_said_with_what_to_do(words: list[str], why: str, capsys: Capture) -> None:
    assert main(["serve", "--port", "0", *words]) in (2, 3)
    assert why in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", LENET, "--port", str(port)]) == 2
    assert f"--port {port}: cannot listen there" in capsys.readouterr().err


# -- the page ----------------------------------------------------------------------------------------------------------
class Browser:
    """Chromium, told by its driver (W3C WebDriver)."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.process = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
        self.place = f"http://127.0.0.1:{port}"
        until(lambda: self._is_there(port))
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--user-data-dir={folder}"]  # fmt: skip
        options = {"args": arguments}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{made['sessionId']}"

    @staticmethod
    def _is_there(port: int) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    def call(self, method: str, path: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        asked = Request(f"{self.place}{self.session}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def run(self, script: str) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def type(self, selector: str, text: str) -> None:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{next(iter(found.values()))}/value", {"text": text})

    def close(self) -> None:
        self.call("DELETE", "")
        self.process.terminate()
        self.process.wait()


@pytest.mark.skipif(shutil.which("chromedriver") is None, reason="Chromium and its driver are not installed")
def test_the_page_asks_a_model_and_draws_its_answer(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(picture())
    token = "a-token-of-the-tests"
    with running(f"digits={LENET}", "nlp/clinc150", token=token) as (_, address):
        browser = Browser(tmp_path / "profile")
        try:
            browser.call("POST", "/url", {"url": f"http://{address}/"})
            until(lambda: "token is needed" in browser.run("return document.getElementById('error').textContent"))
            browser.type("#token", f"{token}\n")
            until(lambda: browser.run("return document.body.dataset.ready") == "yes")
            browser.type("#file", str(tmp_path / "x.png"))
            browser.type("#topk", "2")
            browser.run("document.getElementById('send').click()")
            until(lambda: browser.run("return document.querySelectorAll('#answers tr').length") == 3)
            assert browser.run("return document.querySelector('#answers td').textContent") == "1"
            drawn = "const i = document.querySelector('img.drawing'); return i && i.complete && i.naturalWidth > 0"
            until(lambda: browser.run(drawn))
            assert browser.run("return document.querySelector('#preview img').naturalWidth") == 16
            choose = "const m = document.getElementById('model'); m.value = 1; m.dispatchEvent(new Event('change'))"
            browser.run(choose)
            browser.type("#text", "what is the weather like today")
            browser.run("document.getElementById('send').click()")
            until(lambda: "weather" in browser.run("return document.getElementById('answers').textContent"))
            faults = [
                each for each in browser.call("POST", "/se/log", {"type": "browser"}) if each["level"] == "SEVERE"
            ]
            assert [each["message"] for each in faults if "401" not in each["message"]] == []
        finally:
            browser.close()
