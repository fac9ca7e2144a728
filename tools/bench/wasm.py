"""A model as WebAssembly beside onnxruntime-web, on one thread of the same headless Chromium: time of a run, in turns.

    npm install --prefix peers onnxruntime-web
    python tools/bench/wasm.py cv/cifar10_resnet20 --peer peers/node_modules/onnxruntime-web --runs 200

It is compiled with direct sums and with Winograd's filters (pdl compile --fast). Both get the same numbers; the page
compares the answers.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

from pdl.cli import main as pdl

PAGE = """<!doctype html><script type="module">
import * as ort from "./peer/ort.wasm.min.mjs";
import { load, about, sizeOf } from "./direct/model.js";
import { load as loadFast } from "./winograd/model.js";

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL("./peer/", location.href).href;
const said = { agent: navigator.userAgent };
try {
  const [port] = about.inputs, [n, h, w, c] = port.shape, size = sizeOf(port);
  const nhwc = Float32Array.from({ length: size }, (_, i) => Math.sin(12.9898 * i) * 1.5);
  const nchw = new Float32Array(size);
  for (let i = 0; i < size; i++) nchw[(i % c) * h * w + Math.floor(i / c)] = nhwc[i];
  const options = { executionProviders: ["wasm"], graphOptimizationLevel: "all" };
  const session = await ort.InferenceSession.create("net.onnx", options);
  const [name] = session.inputNames, [output] = session.outputNames;
  const direct = await load(), winograd = await loadFast();
  const feed = { [name]: new ort.Tensor("float32", nchw, [n, c, h, w]) };
  const sides = {
    direct: () => direct.run(nhwc)[about.outputs[0].name],
    winograd: () => winograd.run(nhwc)[about.outputs[0].name],
    "onnxruntime-web": async () => (await session.run(feed))[output].data,
  };
  const times = Object.fromEntries(Object.keys(sides).map((side) => [side, []])), answers = {};
  for (let run = -20; run < RUNS; run++) {
    for (const [side, call] of Object.entries(sides)) {
      const begin = performance.now();
      answers[side] = await call();
      if (run >= 0) times[side].push(performance.now() - begin);
    }
  }
  const peer = answers["onnxruntime-web"];
  const apart = (side) => Array.from(answers[side], (v, i) => Math.abs(v - peer[i]));
  said.difference = Math.max(...apart("direct"), ...apart("winograd"));
  for (const list of Object.values(times)) list.sort((a, b) => a - b);
  const shown = (list) => [list[0], list[list.length >> 1]];
  said.times = Object.fromEntries(Object.entries(times).map(([side, list]) => [side, shown(list)]));
} catch (error) {
  said.error = String(error.stack ?? error);
}
await fetch("/said", { method: "POST", body: JSON.stringify(said) });
</script>"""


class Handler(SimpleHTTPRequestHandler):
    """Files, isolated from other pages, so that clocks tick every 5 microseconds; answers go into a queue."""

    answers: Queue[Any] = Queue()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def end_headers(self) -> None:
        """The headers of isolation."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_POST(self) -> None:
        """What the page found."""
        self.answers.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


def main() -> None:
    """Compile, serve, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer", type=Path, required=True, help="the folder of the package onnxruntime-web")
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for side, more in (("direct", []), ("winograd", ["--fast"])):
            if pdl(["compile", given.model, "--to", "wasm", "--save", str(folder / side), *more]):
                raise SystemExit(1)
        if pdl(["export", given.model, "--to", "onnx", "-o", str(folder / "net.onnx")]):
            raise SystemExit(1)
        shutil.copytree(given.peer / "dist", folder / "peer", ignore=shutil.ignore_patterns("*.map"))
        (folder / "race.html").write_text(PAGE.replace("RUNS", str(given.runs)))
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=place)) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
            command += [f"--user-data-dir={place}/profile", f"http://127.0.0.1:{server.server_port}/race.html"]
            browser = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                said = Handler.answers.get(timeout=600)
            finally:
                browser.terminate()
                browser.wait()
                server.shutdown()
    if "error" in said:
        raise SystemExit(said["error"])
    print(f"{said['agent']}; difference {said['difference']:.1e}")
    peer, _ = said["times"]["onnxruntime-web"]
    for side, (least, median) in said["times"].items():
        print(f"{side:16} {least:8.3f} ms, median {median:8.3f} ms  {peer / least:5.2f} x onnxruntime-web's speed")


if __name__ == "__main__":
    main()
