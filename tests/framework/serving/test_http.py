"""The protocol over HTTP, in this process: what is asked, what is answered, what is refused."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.runtime import load
from pdl.runtime.session import Port
from pdl.serving import tensors
from pdl.serving.batching import Batching
from pdl.serving.errors import Refused
from pdl.serving.metrics import Metrics, Shared
from pdl.serving.service import Log, Settings
from pdl.serving.tensors import DTYPES, from_bytes, from_data, parse
from tests.framework.serving.asking import LENET, Asked, infer, picture, served


@pytest.fixture(scope="module")
def app() -> Asked:
    return Asked(served())


def run(call: Any) -> Any:
    return asyncio.run(call)


def test_arrays_as_json_and_as_binary_tensors_give_what_the_session_gives(app: Asked) -> None:
    x = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    want = load(LENET).run({"image": x})["logits"]

    async def both() -> None:
        tensor = {"name": "image", "shape": [3, 8, 8, 1], "datatype": "FP32"}
        flat, nested = ({**tensor, "data": data} for data in (x.ravel().tolist(), x.tolist()))
        for each in (flat, nested):
            status, said = await app.json("POST", "/v2/models/m/infer", {"id": "a", "inputs": [each]})
            assert (status, said["id"], said["model_name"], said["model_version"]) == (200, "a", "m", "1")
            (output,) = said["outputs"]
            assert (output["name"], output["datatype"], output["shape"]) == ("logits", "FP32", [3, 10])
            np.testing.assert_allclose(np.reshape(output["data"], (3, 10)), want, rtol=1e-5, atol=1e-6)
        head = {"inputs": [{**tensor, "parameters": {"binary_data_size": x.nbytes}}],
                "outputs": [{"name": "logits", "parameters": {"binary_data": True}}]}  # fmt: skip
        text = json.dumps(head).encode()
        status, headers, body = await app.ask(
            "POST", "/v2/models/m/versions/1/infer", text + x.tobytes(), chunk=100,
            inference_header_content_length=str(len(text)),
        )  # fmt: skip
        size = int(headers["inference-header-content-length"])
        assert status == 200
        assert json.loads(body[:size])["outputs"][0]["parameters"] == {"binary_data_size": 120}
        np.testing.assert_allclose(np.frombuffer(body[size:], "<f4").reshape(3, 10), want, rtol=1e-5, atol=1e-6)

    run(both())


WRONG = {
    "no JSON": b"{", "no object": b"[]", "deep": b"[" * 100_000, "no inputs": b'{"inputs": []}',
    "a name": {"name": "photo"}, "a dtype": {"datatype": "FP64"}, "no dtype": {"datatype": "float"},
    "a shape": {"shape": [1, 8, 8, 2]}, "a rank": {"shape": [64]}, "a size of 0": {"shape": [0, 8, 8, 1]},
    "a huge shape": {"shape": [2**40, 8, 8, 1]}, "a bool as size": {"shape": [True, 8, 8, 1]},
    "too few": {"data": [0.0] * 63}, "no numbers": {"data": ["x"] * 64}, "ragged": {"data": [[1.0], [1.0, 2.0]]},
    "none": {"data": None}, "bytes that are not there": {"parameters": {"binary_data_size": 256}},
    "a class": {"data": {"a": 1}},
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_requests_that_do_not_fit_the_model_are_refused_with_a_reason(what: str, app: Asked) -> None:
    wrong = WRONG[what]
    body = wrong if isinstance(wrong, bytes) else json.dumps(infer(**wrong)).encode()
    status, _, said = run(app.ask("POST", "/v2/models/m/infer", body))
    assert status == 400
    assert len(json.loads(said)["error"]) > 10


def test_tensors_of_all_dtypes() -> None:
    for dtype in DTYPES.values():
        port = Port("x", (Dim.symbol("n", 2), 2), dtype)
        want = np.array([[0, 1], [1, 0]]).astype(dtype)
        np.testing.assert_array_equal(from_bytes("x", dtype, (2, 2), want.tobytes()), want)
        np.testing.assert_array_equal(from_data(port, "x", dtype, (2, 2), [0, 1, 1, 0]), want)
    for name, data in (("UINT8", [256]), ("INT8", [1.5]), ("INT64", [2**63]), ("FP32", [1e39])):
        with pytest.raises(Exception, match="data is not"):
            from_data(Port("x", (1,), DTYPES[name]), "x", DTYPES[name], (1,), data)
    with pytest.raises(Exception, match="0 or 1"):
        from_bytes("x", DTYPES["BOOL"], (1,), b"\x02")
    body = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}] * 2}).encode()
    with pytest.raises(Exception, match="twice"):
        parse(body, None, [Port("x", (1,), float32)], [])


@pytest.mark.parametrize("quick", [True, False])
def test_answers_are_the_same_json_with_and_without_orjson(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if quick:
        pytest.importorskip("orjson")
    else:
        monkeypatch.setattr(tensors, "orjson", None)
    for dtype in DTYPES.values():
        y = np.array([[0, 1], [1, 0]]).astype(dtype)
        assert json.loads(tensors.dumps({"id": "\ud800", "y": tensors.plain(y)})) == {"id": "\ud800", "y": [0, 1, 1, 0]}
        assert json.loads(tensors.dumps(tensors.plain(y.T))) == [0, 1, 1, 0]
        if dtype.kind in "fV":
            odd = np.array([np.nan, np.inf, -np.inf, 0.5]).astype(dtype)
            assert json.loads(tensors.dumps(tensors.plain(odd))) == [None, None, None, 0.5]
    assert math.isnan(tensors.loads(b"[NaN]")[0])
    with pytest.raises(Refused, match="no JSON"):
        tensors.loads(b'{"a": 1')


def test_files_and_json_are_answered_as_pdl_predict_does(
    app: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = picture()
    Path("x.png").write_bytes(data)
    assert main(["predict", LENET, "x.png", "--json", "--topk", "2"]) == 0
    want = json.loads(capsys.readouterr().out)
    form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="x.png"\r\n\r\n' + data
    form += b'\r\n--B\r\nContent-Disposition: form-data; name="topk"\r\n\r\n2\r\n--B--\r\n'
    sent = {"inputs": [{"name": "x.png", "content": base64.b64encode(data).decode()}], "topk": 2}

    async def all_ways() -> None:
        for path, body, kind in (
            ("/predict?name=x.png&topk=2", data, "image/png"),
            ("/predict", form, "multipart/form-data; boundary=B"),
            ("/predict?model=m", json.dumps(sent).encode(), "application/json"),
        ):
            status, _, said = await app.ask("POST", path, body, content_type=kind)
            assert (status, json.loads(said)) == (200, want)
        several = {"inputs": [sent["inputs"][0], {"content": "AAAA", "name": "y.png"}]}
        status, said = await app.json("POST", "/predict", several)  # one that cannot be read stops no other
        assert status == 200
        assert said[0]["label"] == want[0]["label"]
        assert "not an image" in said[1]["error"]
        status, said = await app.json("POST", "/predict?draw=1", sent)
        assert said[0]["drawing"].startswith("<svg")
        assert said[0]["rows"][0]["label"] == want[0]["label"]

    run(all_ways())


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b'{"inputs": ["/etc/passwd"]}', "application/json", "content of a file"),
        (b'{"inputs": []}', "application/json", "0 inputs"),
        (b'{"inputs": [1], "rows": 1}', "application/json", "unknown option"),
        (b'{"inputs": [{"content": "?"}]}', "application/json", "base64"),
        (b"x", "application/x-www-form-urlencoded", "Content-Type"),
        (b"x", "multipart/form-data", "boundary"),
        (b"--B\r\n\r\nx", "multipart/form-data; boundary=B", "cut off"),
        (picture()[:60], "image/png", "cut off"),
        (picture(size=80), "image/png", "more than the limit of 4096"),
    ],
)
def test_inputs_that_are_refused(body: bytes, kind: str, why: str) -> None:
    app = Asked(MODELS, Settings(pixels=4096))
    status, _, said = run(app.ask("POST", "/predict", body, content_type=kind))
    assert status == 400
    assert why in json.loads(said)["error"]


MODELS = served()


def test_no_file_of_the_server_is_opened_for_a_request(tmp_path: Path) -> None:
    from pdl.files import read_bytes, sealed

    (tmp_path / "own").mkdir()
    for path in (tmp_path / "secret", tmp_path / "own/sent"):
        path.write_text("x")
    (tmp_path / "own/link").symlink_to(tmp_path / "secret")
    with sealed(tmp_path / "own"):
        assert read_bytes(tmp_path / "own/sent") == b"x"
        for path in (tmp_path / "secret", tmp_path / "own/link", tmp_path / "own/../secret"):
            with pytest.raises(OSError, match="name of a file where its content belongs"):
                read_bytes(path)
    assert read_bytes(tmp_path / "secret") == b"x"


def test_limits_tokens_hosts_and_origins() -> None:
    async def all_of_them() -> None:
        small = Asked(MODELS, Settings(request=1000, held=1500))
        body = json.dumps(infer(4)).encode()
        status, headers, said = await small.ask("POST", "/v2/models/m/infer", body)
        assert (status, headers["connection"]) == (413, "close")
        assert "--max-request" in json.loads(said)["error"]
        assert (await small.ask("POST", "/v2/models/m/infer", body, chunk=100, content_length="0"))[0] == 413
        small.service.held = 1400
        assert (await small.ask("POST", "/v2/models/m/infer", json.dumps(infer()).encode()))[0] == 429
        assert (await small.ask("POST", "/v2/models/m/infer", b"x", content_encoding="gzip"))[0] == 415
        assert small.service.held == 1400
        small.service.under_way = 1024
        status, headers, said = await small.ask("POST", "/v2/models/m/infer", b"x")
        assert (status, headers["retry-after"]) == (503, "1")
        assert "1024 requests are under way" in json.loads(said)["error"]
        assert (await small.ask("GET", "/v2/health/live"))[0] == 200
        token = "0123456789abcdef"
        closed = Asked(MODELS, Settings(tokens=(token,), hosts=("localhost", "127.0.0.1")))
        for path in ("/v2/models/m", "/metrics", "/predict", "/v2"):
            assert (await closed.json("GET", path))[0] == 401
            assert (await closed.json("GET", path, authorization=f"Bearer {token[:-1]}"))[0] == 401
            assert (await closed.ask("GET", path, authorization=f"Bearer {token}"))[0] == 200
        for path in ("/", "/v2/health/live", "/v2/health/ready"):
            assert (await closed.ask("GET", path))[0] == 200
        assert (await closed.json("GET", "/v2/health/live", host="evil.example:8000"))[0] == 403
        assert (await closed.json("GET", "/v2/health/live", host="localhost:8000"))[0] == 200
        assert (await closed.json("GET", "/v2/health/live", origin="https://evil.example"))[0] == 403

    run(all_of_them())


def test_metadata_health_metrics_and_what_is_not_there(app: Asked) -> None:
    async def all_of_them() -> None:
        _, said = await app.json("GET", "/v2/models/m")
        assert said["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 8, 8, 1]}]
        assert (said["name"], said["versions"], said["platform"]) == ("m", ["1"], "pdl")
        assert (await app.json("GET", "/v2"))[1]["name"] == "pdl"
        assert (await app.json("POST", "/v2/repository/index"))[1][0]["state"] == "READY"
        assert (await app.json("GET", "/v2/models/m/ready"))[0] == 200
        assert (await app.json("GET", "/predict"))[1][0]["takes"] == "image"
        for method, path, want in (
            ("GET", "/v2/models/other", 404), ("GET", "/v2/models/m/versions/7", 404), ("GET", "/nothing", 404),
            ("POST", "/v2/models/other/infer", 404), ("DELETE", "/v2", 405),
            ("POST", "/v2/repository/models/m/load", 403),
        ):  # fmt: skip
            assert (await app.json(method, path))[0] == want
        await app.json("POST", "/v2/models/m/infer", infer())
        lines = (await app.ask("GET", "/metrics"))[2].decode().splitlines()
        assert any(
            line.startswith('pdl_requests_total{model="m",version="1",way="infer",status="200"}') for line in lines
        )
        assert any(line.startswith('pdl_refused_total{way="infer",reason="unknown_model"}') for line in lines)
        app.service.draining = True
        assert (await app.json("GET", "/v2/health/ready"))[0] == 503
        assert (await app.json("GET", "/v2/health/live"))[0] == 200
        assert (await app.ask("GET", "/v2"))[1]["connection"] == "close"
        app.service.draining = False

    run(all_of_them())


class Stuck:
    """Holds the runs of a model until it is let go."""

    def __init__(self, app: Asked) -> None:
        (self.version,) = app.models
        self.gate, self.run = threading.Event(), self.version.batcher._call
        self.version.batcher._call = self  # type: ignore[assignment]
        self.version.batcher._costs = {1: 1.0}  # a long run is no run of the loop
        self.count = 0

    def __call__(self, arrays: Any, seconds: float | None) -> Any:
        self.count += 1
        assert self.gate.wait(60)
        return self.run(arrays, None)


def test_queues_deadlines_and_those_who_leave() -> None:
    app = Asked(served(policy=Batching(waiting=2)), Settings(seconds=60.0))
    stuck = Stuck(app)

    async def all_of_them() -> None:
        def ask(**more: Any) -> Any:
            return asyncio.ensure_future(app.ask("POST", "/v2/models/m/infer", json.dumps(infer()).encode(), **more))

        first = ask()
        while not stuck.count:
            await asyncio.sleep(0.001)
        late = asyncio.ensure_future(
            app.json("POST", "/v2/models/m/infer", {**infer(), "parameters": {"timeout": 20_000}})
        )
        gone = asyncio.Event()
        leaves = ask(gone=gone)
        await asyncio.sleep(0)
        status, headers, said = await ask()
        assert (status, headers["retry-after"]) == (429, "1")
        assert "2 requests are waiting" in json.loads(said)["error"]
        assert (await late)[0] == 504
        gone.set()
        assert (await leaves)[0] == 0  # nobody is told
        stuck.gate.set()
        assert (await first)[0] == 200
        assert (await ask())[0] == 200
        assert stuck.count == 2  # neither the late one ran, nor the one who left
        assert app.service.under_way == 0

    run(all_of_them())
    text = app.service.metrics_text()
    for reason in ("queue_full", "deadline", "cancelled"):
        assert f'pdl_refused_total{{way="infer",reason="{reason}"}} 1' in text


def test_an_error_of_the_server_is_logged_and_not_told(app: Asked) -> None:
    log = io.StringIO()
    broken = Asked(served(), Settings(requests=True), Log(log, worker=3))
    (version,) = broken.models
    version.batcher._call = lambda arrays, seconds: {}["secret"]  # type: ignore[assignment]
    status, said = run(broken.json("POST", "/v2/models/m/infer", {**infer(), "id": "q7"}))
    assert status == 500
    assert "secret" not in said["error"]
    error, request = map(json.loads, log.getvalue().splitlines())
    assert "KeyError: 'secret'" in error["trace"]
    assert (request["event"], request["id"], request["status"], request["worker"]) == ("request", "q7", 500, 3)
    assert request["time"].endswith("Z")


def test_requests_are_traced() -> None:
    seen: list[Any] = []

    class Tracer:
        def begin(self, name: str, carrier: Any) -> Any:
            return name, dict(carrier)

        def end(self, span: Any, facts: Any) -> None:
            seen.append((span, facts["model"], facts["status"]))

    app = Asked(MODELS, tracing=Tracer())
    run(app.json("POST", "/v2/models/m/infer", infer(), traceparent="00-ab-cd-01"))
    assert seen == [(("pdl infer", {"traceparent": "00-ab-cd-01"}), "m", 200)]


def test_metrics_of_workers_are_summed_and_outlive_them() -> None:
    shared = Shared(2)
    one, two = Metrics(shared, 0), Metrics(shared, 1)
    one.count("pdl_refused_total", reason='a"b\n')
    two.count("pdl_refused_total", 2, reason='a"b\n')
    one.gauge("pdl_under_way", 5)
    seconds = two.histogram("pdl_queue_seconds", model="m")
    for value in (0.0004, 0.3, 99.0):
        seconds.see(value)
    one = Metrics(shared, 0)  # the worker was started again
    one.count("pdl_refused_total", reason='a"b\n')
    lines = two.text().splitlines()
    assert 'pdl_refused_total{reason="a\\"b\\n"} 4' in lines
    assert "pdl_under_way 0" in lines
    assert 'pdl_queue_seconds_bucket{model="m",le="0.0005"} 1' in lines
    assert 'pdl_queue_seconds_bucket{model="m",le="0.5"} 2' in lines
    assert 'pdl_queue_seconds_bucket{model="m",le="+Inf"} 3' in lines
    assert 'pdl_queue_seconds_count{model="m"} 3' in lines
    began = time.perf_counter()
    for number in range(5000):
        one.count("pdl_refused_total", reason=number)  # more than there is room for
    assert time.perf_counter() - began < 5
    assert len(one.text()) < 1 << 20
