"""The folder of a program for browsers: WebAssembly by Zig's C compiler (package ziglang), a module of JavaScript, a
page, and a test for Node.js."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pdl.dtype import Array
from pdl.errors import CheckError, PackageError
from pdl.export.c.model import Report
from pdl.export.c.project import COUNTERPART, assembly
from pdl.export.c.steps import Steps
from pdl.files import write_atomic

#: of wasm-ld: memory for the stack, before the constants, so that a stack too deep ends in a trap
STACK = 1 << 16
FLAGS = "-target wasm32-wasi -O3 -msimd128 -mbulk-memory -std=c99 -fno-strict-aliasing"
#: seconds that Zig may take; the first time it builds its C library where the net has exponentials and the like
PATIENCE = 900
_READ = """\
{name}: a model as WebAssembly, written by pdl {version}

  model.wasm   the net and its weights: {size:,} bytes; needs SIMD, as all browsers of today have it; imports nothing
  model.js     a module: load() and its run(){more}
{page}  test.mjs     a test and an example: one sample, and the runtime's answer to it: node test.mjs

{serve}In a page or program of your own:

  import {{ load }} from "./model.js";
  const model = await load();                       // or load(bytes), load("https://.../model.wasm")
  model.run({{ {arguments} }});  // {{ {answers} }}
{classify}
Arrays are row-major, images [N, H, W, C]. A model is for one thread: workers load their own.
"""
_PAGE = """\
  index.html   a page: {what}, see the classes; uses these files alone
"""
_SERVE = """\
Any web server of files shows the page (browsers run no modules of file: addresses):

  python -m http.server --directory . 8000          then http://localhost:8000

"""


def web_folder(
    folder: Path, made: Report, steps: Steps, sample: Mapping[str, Array], expected: Mapping[str, Array], *,
    exact: bool, unordered: bool, title: str, version: str,
) -> list[Path]:  # fmt: skip
    """Write model.wasm, model.js, test.mjs, README.txt, and index.html where the model names pictures; the files.

    Raises PackageError where ziglang is not installed, CheckError where it does not compile the program.
    """
    module = webassembly(made, picture=steps.picture is not None)
    picture = dict(zip(("input", "channels", "height", "width"), steps.picture, strict=True)) if steps.picture else None
    ranking = {"output": steps.ranked, "score": steps.score} if steps.score is not None else None
    about = {
        "name": made.name, "title": title, "inputs": _ports(made.inputs), "outputs": _ports(made.outputs),
        "picture": picture, "ranking": ranking, "labels": steps.labels if ranking else [],
    }  # fmt: skip
    test = {
        "inputs": {p.word: _packed(sample[p.name].astype(p.dtype)) for p in made.inputs},
        "outputs": {p.word: _packed(expected[p.name].astype(p.dtype)) for p in made.outputs},
        "tolerance": 0.0 if exact else 1e-5,
        "unordered": unordered,
        "counterpart": COUNTERPART,
    }
    shown = picture is not None and ranking is not None
    files: dict[str, str | bytes] = {
        "model.wasm": module,
        "model.js": _filled("model.js", ABOUT=_script(about), VERSION=version),
        "test.mjs": _filled("test.mjs", TEST=json.dumps(test), NAME=made.name),
        "README.txt": _readme(made, steps, len(module), version, shown),
    }
    if shown:
        files["index.html"] = _filled("index.html", TITLE=title.replace("&", "&amp;").replace("<", "&lt;"))
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write_atomic(folder / file, content)
    return [folder / file for file in files]


def webassembly(made: Report, *, picture: bool) -> bytes:
    """A program as a module of WebAssembly that exports memory, __heap_base, NAME_run and, for a `picture`,
    NAME_prepare; it imports nothing."""
    if find_spec("ziglang") is None:
        raise PackageError("--to wasm needs the compiler of ziglang: pip install 'pdl-core[wasm]'")
    name = made.name
    exports = [f"{name}_run", *([f"{name}_prepare"] if picture else [])]
    with TemporaryDirectory() as place:
        work = Path(place)
        (work / f"{name}.c").write_text(made.source)
        (work / f"{name}.h").write_text(made.header)
        objects = ["model.o"]
        _zig(["cc", *FLAGS.split(), "-c", "-o", "model.o", f"{name}.c"], work)
        if made.weights:
            (work / f"{name}.bin").write_bytes(made.weights)
            (work / "weights.S").write_text(assembly(name, len(made.weights)))
            _zig(["cc", *FLAGS.split()[:2], "-c", "-o", "weights.o", "weights.S"], work)
            objects.append("weights.o")
        asked = [f"--export={word}" for word in (*exports, "__heap_base")]
        try:  # without a C library first: few nets need one, and Zig takes a minute to build its own
            own = ["--no-entry", "--stack-first", "-z", f"stack-size={STACK}", "-s"]
            _zig(["wasm-ld", *own, *asked, "-o", "model.wasm", *objects], work)
        except CheckError as error:
            if "undefined symbol" not in str(error):
                raise
            own = [*FLAGS.split()[:3], "-mexec-model=reactor", "-s", *(f"-Wl,{word}" for word in asked)]
            _zig(["cc", *own, "-o", "model.wasm", *objects, "-lm"], work)
        return (work / "model.wasm").read_bytes()


def _zig(words: Sequence[str], folder: Path) -> None:
    command = [sys.executable, "-m", "ziglang", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise CheckError(f"ziglang {words[0]}: {(done.stderr or done.stdout).strip()[:2000]}")


def _ports(ports: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"name": p.word, "shape": list(p.shape), "dtype": p.dtype} for p in ports]


def _packed(array: Array) -> str:
    """The bytes of an array, little-endian, as base64."""
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()


def _script(value: Any) -> str:
    """JSON of plain ASCII that may stand in a script."""
    return json.dumps(value, indent=2).replace("<", "\\u003c")


def _filled(name: str, **words: str) -> str:
    """A template with {{WORD}} replaced."""
    text = resources.files(__package__).joinpath("templates", "web", name).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"{{{{{word}}}}}", value)
    return text


def _readme(made: Report, steps: Steps, size: int, version: str, shown: bool) -> str:
    takes, gives = (", ".join(f"{p.word}: {p.dtype}[{p.size}]" for p in ports) for ports in (made.inputs, made.outputs))
    more = ", prepare() of pixels" if steps.picture else ""
    more += ", classify() of a picture" if shown else ""
    classify = (
        "  model.classify(imageData, 5);                     // [{ label, index, score }, ...]\n" if shown else ""
    )
    what = "draw, or drop a picture" if steps.picture and steps.picture[1] == 1 else "drop a picture"
    return _READ.format(
        name=made.name, version=version, size=size, more=more, arguments=takes, answers=gives, classify=classify,
        page=_PAGE.format(what=what) if shown else "", serve=_SERVE if shown else "",
    )  # fmt: skip
