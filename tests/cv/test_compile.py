"""`pdl compile`: packaged models as C, with their steps; in a browser, and on a microcontroller."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, ClassVar

import cv2
import numpy as np
import pytest

import pdl.runtime
from pdl.cli import main
from pdl.data.optdigits import optdigits
from pdl.dims import Dim
from pdl.errors import PackageError, UsageError
from pdl.export.bundle import to_bytes
from pdl.export.c import to_c
from pdl.export.c.arduino import COMPILER, arduino_folder
from pdl.export.c.project import write_project
from pdl.export.c.running import CPUS, InC, difference
from pdl.export.c.steps import Steps
from pdl.export.c.web import web_folder
from pdl.export.deployment import Deployment
from pdl.export.quantise import calibrate
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.program import Program
from pdl.runtime.bundle import Bundle, read
from pdl.runtime.session import Session
from pdl.workflow.compiling import compile_model
from pdl_cv.detection.deploy import Found
from pdl_cv.models.detector import Backbone
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.yolov3 import YOLOv3

WEIGHTS = Path(__file__).parents[2] / "suites"
CC = shutil.which("cc") or shutil.which("gcc")
NODE, BROWSER = shutil.which("node"), shutil.which("chromium")
needs_wasm = pytest.mark.skipif(find_spec("ziglang") is None or NODE is None, reason="no ziglang, or no Node.js, here")
needs_board = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which("qemu-system-arm") is None,
    reason="no compiler for Cortex-M, or no QEMU, here",
)
#: packaged models that have no C form, and why
REFUSED = {
    "nuclei": "ArgTopK",
    "ud_ewt": "CrfDecode",
    "tatoeba_en_zh": "decoder",
}


@pytest.mark.parametrize("path", sorted(WEIGHTS.glob("*/pdl_*/weights/*.pdl")), ids=lambda path: path.stem)
def test_packaged_models(path: Path) -> None:
    """Each is written, or refused by name."""
    bundle = read(path)
    reason = REFUSED.get(path.stem)
    if bundle.program["kind"] != "program":
        assert bundle.program["kind"] == reason
        return
    ports = {"inputs": bundle.program["inputs"], "outputs": bundle.program["outputs"]}
    if reason is not None:
        with pytest.raises(UsageError, match=rf"no C form:(?s:.*){reason}"):
            to_c(bundle.build(), path.stem, apart=True, **ports)
        return
    made = to_c(bundle.build(), path.stem, apart=True, **ports)
    assert made.weights
    assert len(made.source) < 300_000


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
def test_a_picture_to_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's folder: its test passes, and a picture gets the name that the runtime gives it."""
    folder = tmp_path / "c"
    assert main(["compile", "cv/digits_lenet", "--save", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["difference"] <= 1e-5
    assert said["ram"] <= 20_000
    command = [str(CC), "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", "lib.so"]
    subprocess.run([*command, "digits_lenet.c", "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "lib.so"))
    session = pdl.runtime.load("cv/digits_lenet")
    assert session.pipeline is not None
    names = (ctypes.c_char_p * 10).in_dll(library, "digits_lenet_names")
    rng = np.random.default_rng(0)
    for size in ((8, 8), (16, 24), (33, 20), (6, 7), (5, 40)):
        pixels = rng.integers(0, 256, (*size, 1), dtype=np.uint8)
        image, logits, score = np.empty((8, 8, 1), np.float32), np.empty(10, np.float32), ctypes.c_float()
        at = [a.ctypes.data_as(ctypes.c_void_p) for a in (image, logits, pixels)]
        library.digits_lenet_prepare(at[0], at[2], *size)
        assert np.abs(image - session.pipeline.prepare(pixels)["image"]).max() <= 1.001 / 255 / 0.3761
        library.digits_lenet_run(at[0], at[1])
        best = library.digits_lenet_best(at[1], ctypes.byref(score))
        wanted = session.run({"image": image[None]})["logits"][0]
        assert best == wanted.argmax()
        assert (names[best] or b"").decode() == session.bundle.labels[best]  # type: ignore[union-attr]
        assert score.value == pytest.approx(1 / np.exp(wanted - wanted.max()).sum(), rel=1e-5)


@pytest.mark.skipif(CC is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("on_bytes", [False, True])
def test_a_picture_to_objects(tmp_path: Path, on_bytes: bool) -> None:
    """A detector's boxes, scores and labels are the runtime's in their order; a picture is laid into the net's input as
    the runtime does, and its objects are those of the bundle, in pixels of the picture; main.c compares rows."""
    pdl.seed(3)
    net = YOLOv3("tiny", num_classes=3, backbone=Backbone(MobileNetV2(width=0.25), strides=(16, 32)), width=0.1).eval()
    net.selection = replace(net.selection, score=0.001)
    for last in net.yolo_output:  # scores far from one another
        last.load_state_dict({"weight": last.weight.data * 40, "bias": last.bias.data})
    pictures = [np.random.default_rng(5).integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((40, 90), (96, 64))]
    pre: list[dict[str, Any]] = [
        {"step": "image", "mode": "rgb"}, {"step": "letterbox", "size": [64, 96], "fill": [114, 10, 0]},
        {"step": "normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]},
    ]  # fmt: skip
    deployment = Deployment(
        module=Found(net), inputs={"image": Spec((Dim.symbol("n", 2), 64, 96, 3), pdl.float32)},
        outputs=("boxes", "scores", "labels"), pre={"image": pre}, samples=pictures, labels=["one", "two", "three"],
        post={"boxes": [{"step": "detections", "score": 0.004, "k": 20}]},
    )  # fmt: skip
    program, _ = trace_symbolic(deployment.module, deployment.inputs)
    if on_bytes:
        seen = np.random.default_rng(6).standard_normal((4, 64, 96, 3), np.float32)
        program = calibrate(program, [[seen]]).program
    (tmp_path / "net.pdl").write_bytes(to_bytes(program, deployment, name="net"))
    cv2.imwrite(str(tmp_path / "picture.png"), pictures[0])
    made = compile_model(tmp_path / "net.pdl", tmp_path / "c", sample=tmp_path / "picture.png")
    assert made.difference is not None
    assert 0 < made.difference <= 1e-5
    command = [str(CC), "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", "lib.so", "net.c"]
    subprocess.run([*command, "-lm"], cwd=tmp_path / "c", check=True)
    library = ctypes.CDLL(str(tmp_path / "c" / "lib.so"))
    session = pdl.runtime.load(tmp_path / "net.pdl")
    assert session.pipeline is not None
    names = (ctypes.c_char_p * 3).in_dll(library, "net_names")
    kind = np.dtype([("label", np.int32), ("score", np.float32), ("box", np.float32, 4)])
    with InC(tmp_path / "c", made.report, session) as piped:
        for picture in pictures:
            image = np.empty((1, 64, 96, 3), np.float32)
            outs = [np.empty(port.shape, port.dtype) for port in made.report.outputs]
            at = [a.ctypes.data_as(ctypes.c_void_p) for a in (image, *outs, picture)]
            library.net_prepare(at[0], at[-1], *picture.shape[:2])
            assert np.abs(image[0] - session.pipeline.prepare(picture)["image"]).max() <= 1.001 / 255 / 0.2
            library.net_run(*at[:-1])
            wanted = session.run({"image": image})
            assert (wanted["labels"] >= 0).any()
            found = dict(zip(wanted, outs, strict=True))
            assert difference(found, wanted, unordered=True).worst <= 1e-5
            assert difference(piped.run({"image": image}), wanted, unordered=True).worst <= 1e-5
            listed = np.empty(20, kind)
            count = library.net_objects(listed.ctypes.data_as(ctypes.c_void_p), *at[1:-1], *picture.shape[:2])
            first = {name: a[0] for name, a in wanted.items()}
            answer = session.pipeline.finish(first, session.pipeline.parse(picture))
            assert count == len(answer["detections"]) > 0
            for mine, theirs in zip(listed, answer["detections"], strict=False):
                assert (names[mine["label"]] or b"").decode() == theirs["label"]
                assert mine["score"] == pytest.approx(theirs["score"], abs=1e-5)
                assert mine["box"] == pytest.approx(theirs["box"], abs=0.02)
    bare = replace(deployment, pre={}, post={}, samples=())
    (tmp_path / "bare.pdl").write_bytes(to_bytes(program, bare, name="bare"))
    with pytest.raises(UsageError, match=r"its steps make no image \[1, 64, 96, 3\]"):
        compile_model(tmp_path / "bare.pdl", tmp_path / "no", sample=pictures[0])


def test_what_cannot_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, says in (
        (["--to", "fortran"], "--to fortran: choose c, wasm or arduino"),
        (["--to", "arduino", "--apart"], "--apart: Arduino's tools assemble no weights"),
        (["--shape", "image"], "--shape image: write the name of an input and its sizes"),
        (["--shape", "image=1,0"], "--shape image=1,0: write"),
        (["--shape", "photo=1,8,8,1"], "--shape photo: the model has the inputs image"),
        (["--cpu", "arm64"], "--cpu arm64: choose aarch64, arm or riscv64"),
        (["--cpu", "arm", "--to", "wasm"], "--cpu arm: wasm is for a machine of its own"),
    ):
        assert main(["compile", "cv/digits_lenet", "--save", str(tmp_path / "c"), *more]) == UsageError.exit_code
        assert says in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


# -- WebAssembly -------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `pdl compile cv/digits_lenet --to wasm`, with a digit of each class as a picture."""
    folder = tmp_path_factory.mktemp("wasm") / "site"
    assert main(["compile", "cv/digits_lenet", "--to", "wasm", "--save", str(folder), "--json"]) == 0
    for number, digit in enumerate(digits()):
        cv2.imwrite(str(folder / f"{number}.png"), np.repeat(np.repeat(digit, 7, 0), 5, 1))
    return folder


def digits() -> np.ndarray[Any, Any]:
    """A digit of each class: bytes [10, 8, 8, 1]."""
    images, labels = optdigits()
    return np.stack([images[np.flatnonzero(labels == n)[3]] for n in range(10)]).reshape(10, 8, 8, 1)


def in_node(folder: Path, script: str) -> Any:
    """What a script prints as JSON."""
    (folder / "asked.mjs").write_text(script)
    done = subprocess.run([str(NODE), "asked.mjs"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@needs_wasm
def test_a_picture_in_node(site: Path) -> None:
    """The module's input and classes of coloured pictures are the runtime's; wrong arrays are refused."""
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (*size, 4), dtype=np.uint8) for size in ((8, 8), (16, 24), (33, 20), (6, 7))]
    given = [{"data": p.ravel().tolist(), "width": p.shape[1], "height": p.shape[0]} for p in pictures]
    found = in_node(
        site,
        f"""
        import {{ load }} from "./model.js";
        const model = await load(), given = {json.dumps(given)}, trouble = [];
        for (const wrong of [new Float32Array(3), {{}}])
          try {{ model.run(wrong); }} catch (error) {{ trouble.push(error.message); }}
        const found = given.map((p) => [[...model.prepare(p)], model.classify(p, 10)]);
        console.log(JSON.stringify({{ trouble, found }}));
        """,
    )
    assert found["trouble"] == [
        "input image has 3 elements; it needs 64, [1,8,8,1]", "input image is missing; it needs 64, [1,8,8,1]",
    ]  # fmt: skip
    session = pdl.runtime.load("cv/digits_lenet")
    assert session.pipeline is not None
    for picture, (image, classes) in zip(pictures, found["found"], strict=True):
        made = np.array(image, np.float32).reshape(8, 8, 1)
        wanted = session.pipeline.prepare(np.ascontiguousarray(picture[..., :3]))["image"]
        assert np.abs(made - wanted).max() <= 1.001 / 255 / 0.3761
        logits = session.run({"image": made[None]})["logits"][0].astype(np.float64)
        chances = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        assert [c["index"] for c in classes] == np.argsort(-chances, kind="stable").tolist()
        assert [c["score"] for c in classes] == pytest.approx(np.sort(chances)[::-1], rel=1e-4)
        assert classes[0]["label"] == str(classes[0]["index"])


class Watched(SimpleHTTPRequestHandler):
    """Serves a folder and a page that watches index.html; puts what that page says into a queue."""

    page: ClassVar[str] = ""
    said: ClassVar[Queue[Any]] = Queue()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """A file, or the page."""
        if self.path != "/watch.html":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page.encode())
        return None

    def do_POST(self) -> None:
        """What the page found."""
        self.said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


#: shows each picture in index.html, then draws a stroke there
WATCH = """<!doctype html><iframe id="page" width="900" height="700"></iframe><script type="module">
const page = document.getElementById("page"), answers = [];
async function shown() {
  for (let i = 0; i < 400; i++) {
    const found = page.contentDocument?.querySelector("#classes li");
    if (found) return found.innerText;
    await new Promise((done) => setTimeout(done, 25));
  }
  return page.contentDocument?.getElementById("said")?.innerText ?? "no page";
}
for (const n of [0, 4, 7]) {
  page.src = `index.html?picture=${n}.png`;
  await new Promise((done) => { page.onload = done; });
  answers.push(await shown());
}
const inside = page.contentDocument, canvas = inside.getElementById("picture"), box = canvas.getBoundingClientRect();
inside.getElementById("clear").click();
const cleared = inside.querySelectorAll("#classes li").length;
const stroke = (kind, x, y) => canvas.dispatchEvent(new page.contentWindow.PointerEvent(kind,
  { clientX: box.left + x * box.width, clientY: box.top + y * box.height, bubbles: true }));
stroke("pointerdown", 0.4, 0.25);
for (const [x, y] of [[0.55, 0.1], [0.55, 0.9]]) stroke("pointermove", x, y);
stroke("pointerup", 0.55, 0.9);
await fetch("/said", { method: "POST", body: JSON.stringify({ answers, cleared, drawn: await shown() }) });
</script>"""


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where `site` is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Watched, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@needs_wasm
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_the_page(site: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of digits, and one that is drawn, in a browser."""
    monkeypatch.setattr(Watched, "page", WATCH)
    command = f"{BROWSER} --headless --no-sandbox --disable-gpu --remote-debugging-port=0".split()
    command += [f"--user-data-dir={tmp_path}", f"{address}/watch.html"]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        said = Watched.said.get(timeout=120)
    except Empty:
        pytest.fail("the browser says nothing within two minutes")
    finally:
        browser.terminate()
        browser.wait()
    assert [answer.split()[0] for answer in said["answers"]] == ["0", "4", "7"]
    assert said["cleared"] == 0
    assert said["drawn"].split()[0] == "1"


def test_without_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl.export.c.web.find_spec", lambda _: None)
    assert main(["compile", "cv/digits_lenet", "--to", "wasm", "--save", str(tmp_path / "w")]) == PackageError.exit_code
    assert not (tmp_path / "w").exists()


# -- bytes, everywhere -------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def quantised() -> tuple[Bundle, Program]:
    """LeNet of digits on bytes."""
    bundle = read(WEIGHTS / "cv" / "pdl_cv" / "weights" / "digits_lenet.pdl")
    session = pdl.runtime.load("cv/digits_lenet")
    assert session.pipeline is not None
    images = np.stack([session.pipeline.prepare(digit)["image"] for digit in digits()])
    return bundle, calibrate(bundle.build(), [[images]]).program


def compiled(quantised: tuple[Bundle, Program], **more: Any) -> tuple[Any, ...]:
    """What the folders are made of: report, steps, sample, answer."""
    bundle, program = quantised
    steps = Steps("lenet8", bundle.pipeline, bundle.labels)
    ports = {"inputs": bundle.program["inputs"], "outputs": bundle.program["outputs"]}
    made = to_c(program, "lenet8", extra=steps, **ports, **more)
    sample = {"image": np.random.default_rng(1).standard_normal((1, 8, 8, 1)).astype(np.float32)}
    (logits,) = Session.of(program, tune=False).run(sample).values()
    return made, steps, sample, {"logits": logits}


@needs_wasm
def test_bytes_in_node(tmp_path: Path, quantised: tuple[Bundle, Program]) -> None:
    """The same integers as the runtime's, so the same floats."""
    made, steps, sample, answer = compiled(quantised, apart=True)
    web_folder(tmp_path, made, steps, sample, answer, exact=True, unordered=False, title="LeNet", version="1")
    subprocess.run([str(NODE), "test.mjs"], cwd=tmp_path, check=True)


@needs_board
def test_bytes_on_a_microcontroller(tmp_path: Path, quantised: tuple[Bundle, Program]) -> None:
    """The same floats on an emulated Cortex-M4; flash and RAM; the sketch compiles."""
    made, steps, sample, answer = compiled(quantised)
    _, found = arduino_folder(
        tmp_path, made, steps, sample, answer, exact=True, unordered=False, title="LeNet", version="1"
    )
    assert found is not None
    assert found.difference == 0
    assert found.flash <= 100_000
    assert made.ram + found.stack <= 20_000
    sketch = tmp_path / "examples" / "lenet8_example" / "lenet8_example.ino"
    arduino = (
        "struct Port { void begin(long); operator bool(); template <class T> void print(T); template <class T>"
        " void print(T, int); template <class T> void println(T); } extern Serial;\n"
        "unsigned long millis(); unsigned long micros(); void delay(unsigned long);\n"
    )
    subprocess.run(
        ["arm-none-eabi-g++", "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path / 'src'}",
         f"-I{sketch.parent}", "-"], input=arduino + sketch.read_text(), text=True, check=True,
    )  # fmt: skip


@pytest.mark.parametrize("cpu", CPUS)
def test_bytes_on_another_cpu(tmp_path: Path, quantised: tuple[Bundle, Program], cpu: str) -> None:
    """The same floats in QEMU."""
    if shutil.which(CPUS[cpu].emulator) is None or shutil.which(CPUS[cpu].gcc.split()[0]) is None:
        pytest.skip(f"no compiler for {cpu}, or no QEMU, here")
    made, _, sample, answer = compiled(quantised)
    write_project(tmp_path, made, sample, answer, exact=True, unordered=False, version="1")
    with InC(tmp_path, made, Session.of(quantised[1], tune=False), cpu) as emulated:
        assert np.array_equal(emulated.run(sample)["logits"], answer["logits"])
