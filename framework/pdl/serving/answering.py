"""`POST /predict`: inputs as people have them, a file or JSON, and the answers of `pdl predict --json`."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pdl.errors import PdlError, UsageError
from pdl.files import sealed
from pdl.report.answers import svg
from pdl.runtime import headers
from pdl.runtime.predict import Prediction, predict
from pdl.runtime.steps.inputs import Input, InputStep
from pdl.serving.errors import bad
from pdl.serving.models import Batched, Version
from pdl.serving.tensors import loads

OPTIONS: dict[str, tuple[type, ...]] = {"topk": (int,), "score": (int, float), "tiles": (int,)}
TABLES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".npy")
"""Endings of files of inputs that are read as `pdl predict` reads them."""
_KINDS = {"text/csv": ".csv", "text/tab-separated-values": ".tsv"}
_NAMED = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")


@dataclass
class Asked:
    """What is asked of `POST /predict`.

    items    plain values, or files as (name, content)
    options  of `OPTIONS`
    draw     whether answers are drawn, too
    """

    items: list[Any] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    version: str = ""
    draw: bool = False


@dataclass(frozen=True)
class File:
    """A file that was sent."""

    name: str
    content: bytes


def asked(kind: str, body: bytes, query: Mapping[str, str], most: int) -> Asked:
    """What a body of this content type asks for; `query` is that of the address, `most` inputs there may be.

    JSON is {"inputs": [item, ...]} with "model", "version", "topk", "score", "tiles" beside; an item that is a file is
    {"content": base64, "name": ...}. A body of another type is a file; so are the files of multipart/form-data, whose
    fields are options.
    """
    made = Asked()
    word, _, rest = kind.partition(";")
    word = word.strip().lower()
    _set(made, query)
    if word == "application/json":
        said = loads(body)
        if not isinstance(said, dict):
            raise bad('expected {"inputs": [item, ...]}')
        given = said.pop("inputs", None)
        if given is None and "input" in said:
            given = [said.pop("input")]
        if not isinstance(given, list):
            raise bad('expected {"inputs": [item, ...]}, each an item as the model takes it (GET /predict)')
        made.items = [_item(each) for each in given]
        _set(made, said)
    elif word == "multipart/form-data":
        for name, filename, content in multipart(body, rest):
            if filename is None:
                _set(made, {name: content.decode("utf-8", "replace")})
            else:
                made.items.append(File(_plain_name(filename), content))
    elif word == "application/x-www-form-urlencoded":
        raise bad('say what the body is: -H "Content-Type: application/json", or image/png, text/plain, ... of a file')
    elif word == "text/plain" and "name" not in query:
        made.items = [_text(body)]
    elif body:
        made.items = [File(_plain_name(query.get("name", "bytes 0" + _KINDS.get(word, ""))), body)]
    if not 1 <= len(made.items) <= most:
        raise bad(f"{len(made.items)} inputs; expected 1 to {most}")
    return made


def _set(made: Asked, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in ("model", "version"):
            if not isinstance(value, str) or len(value) > 100:
                raise bad(f"{name} must be a text")
            setattr(made, name, value)
        elif name == "draw":
            made.draw = value in (True, "1", "true")
        elif name in OPTIONS:
            if isinstance(value, str):  # of an address, or a form
                try:
                    value = OPTIONS[name][-1](value)
                except ValueError:
                    raise bad(f"{name}={value!r:.40} is no number") from None
            if type(value) not in OPTIONS[name]:
                raise bad(f"{name} is {value!r:.40}, expected a number")
            made.options[name] = value
        elif name != "name":
            raise bad(f"unknown option {name!r:.40}; there are model, version, draw, {', '.join(OPTIONS)}")


def _item(given: Any) -> Any:
    if isinstance(given, dict) and isinstance(given.get("content"), str) and set(given) <= {"content", "name"}:
        name = given.get("name", "bytes 0")
        try:
            content = base64.b64decode(given["content"], validate=True)
        except (binascii.Error, ValueError):
            raise bad("content is no base64") from None
        return File(_plain_name(name), content)
    return given


def _plain_name(name: Any) -> str:
    """The last part of a name that a browser, or somebody else, gives a file."""
    last = re.split(r"[/\\]", name)[-1] if isinstance(name, str) else ""
    if _NAMED.fullmatch(last) is None:
        raise bad(f"{name!r:.60} is no name of a file")
    return last


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise bad("the text is not UTF-8") from None


def multipart(body: bytes, parameters: str) -> Iterator[tuple[str, str | None, bytes]]:
    """Name, name of the file (None: a field) and content of each part of multipart/form-data (RFC 7578)."""
    found = re.search(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', parameters)
    if found is None:
        raise bad("multipart/form-data lacks its boundary")
    line = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    parts = (b"\r\n" + body).split(b"\r\n" + line)
    if len(parts) < 2 or parts[0].strip() or not parts[-1].startswith(b"--"):
        raise bad("multipart/form-data is cut off")
    for part in parts[1:-1]:
        head, empty, content = part.partition(b"\r\n\r\n")
        if not empty or len(head) > 4096:
            raise bad("multipart/form-data: a part has no head")
        said = re.search(r"^content-disposition:\s*form-data;(.*)$", head.decode("utf-8", "replace"), re.I | re.M)
        words = dict(re.findall(r'\b(name|filename)="([^"]*)"', said[1] if said else ""))
        if "name" not in words:
            raise bad("multipart/form-data: a part has no name")
        yield words["name"], words.get("filename"), content


# -- answers -----------------------------------------------------------------------------------------------------------
def answers(version: Version, wanted: Asked, seconds: float, pixels: int) -> list[dict[str, Any]]:
    """The answers, as `pdl predict --json` prints them; with "drawing" and "rows" where they are drawn. Errors of an
    input are those of its answer, where there are several inputs."""
    if version.pipeline is None:
        raise bad(f"{version.name} has no pipeline, so it takes arrays alone: POST /v2/models/{version.name}/infer")
    step = version.pipeline.input
    with ExitStack() as held:
        folder = "/nowhere"
        if not step.takes_content and any(isinstance(item, File) for item in wanted.items):
            folder = held.enter_context(TemporaryDirectory(prefix="pdl-serve-"))
        held.enter_context(sealed(folder))
        held.enter_context(headers.at_most(pixels))
        inputs = [each for n, item in enumerate(wanted.items) for each in _inputs(step, item, n, Path(folder))]
        predictor = Batched(version, seconds)
        found = predict(
            predictor, inputs, **wanted.options, skip_errors=True if len(inputs) > 1 else None, timeout=seconds
        )
        made = []
        for prediction in found:
            if prediction.error is not None and len(inputs) == 1:
                raise bad(prediction.error)
            said = {k: v for k, v in prediction.to_dict().items() if k not in prediction.pipeline.unprinted}
            made.append(jsonable({**said, **(_drawn(prediction) if wanted.draw else {})}))
    return made


def _inputs(step: InputStep, item: Any, number: int, folder: Path) -> Iterator[Input]:
    """The inputs that one of the things sent stands for, with the names that `pdl predict` gives them."""
    if isinstance(item, File):
        if step.takes_content:
            for each in step.expand(item.content, number):
                yield replace(each, name=each.name.replace(f"bytes {number}", item.name, 1))
            return
        suffix = os.path.splitext(item.name)[1].lower()
        if suffix not in TABLES:
            raise bad(
                f"{item.name}: this model takes {step.about or f'a {step.takes}'}; send it as JSON, or a file named "
                f"*{', *'.join(TABLES)} (?name=FILE)"
            )
        path = folder / f"{number}{suffix}"
        path.write_bytes(item.content)
        try:
            yield from step.file(path)
        except PdlError as error:
            raise bad(str(error).replace(str(path), item.name)) from None
        return
    if step.takes_content and isinstance(item, str):
        raise bad(
            f'a {step.takes} is sent as the content of a file: {{"content": base64, "name": ...}}, or as the body'
        )
    if isinstance(item, Mapping) and isinstance(item.get("graph"), str):
        raise bad("a graph is a folder of the server, which a request does not name")
    yield from step.expand(item, number)


def _drawn(prediction: Prediction) -> dict[str, Any]:
    """The drawing of an answer as an SVG, and its rows; no drawing where there is none."""
    more: dict[str, Any] = {"rows": prediction.rows()}
    try:
        drawing = prediction.draw()
        more["drawing"] = drawing.svg if drawing.image is None else svg(drawing.image, drawing.marks, drawing.caption)
    except UsageError:
        pass  # nothing of it is drawn
    return more


def jsonable(value: Any) -> Any:
    """A value as JSON has them: arrays are lists, NaN and infinity null."""
    if isinstance(value, dict):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(each) for each in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and value - value != 0:
        return None
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def to_json(value: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
