"""What of a bundle's pipeline becomes C: pixels to the input of the net, outputs to a class and its name.

Steps that have no form in C are the caller's: the header says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.export.c.model import Port
from pdl.export.c.source import Source
from pdl.runtime.images import _table

_METHODS = ("auto", "area", "linear", "nearest")
_SCORES = ("softmax", "sigmoid")


class Steps:
    """The functions around NAME_run, for `to_c(extra=)`.

    pipeline, labels   pipeline.json of a bundle, and its labels
    picture            (parameter, channels, height, width) that NAME_prepare makes; None: it is not written
    score              what NAME_best makes of the numbers: "softmax", "sigmoid" or ""; None: it is not written
    ranked             the parameter that NAME_best reads
    notes              lines on what the caller has to do
    """

    def __init__(self, name: str, pipeline: Mapping[str, Any], labels: Sequence[str]) -> None:
        self.name, self.pipeline, self.labels = name, pipeline, list(labels)
        self.picture: tuple[str, int, int, int] | None = None
        self.score: str | None = None
        self.ranked = ""
        self.notes: list[str] = []

    def __call__(self, source: Source, ins: Sequence[Port], outs: Sequence[Port]) -> tuple[list[str], list[str]]:
        """Lines of the header, lines of the source."""
        header: list[str] = []
        body: list[str] = []
        for port in ins:
            self._input(source, port, self.pipeline["pre"].get(port.name, []), header, body)
        for port in outs:
            self._output(port, self.pipeline["post"].get(port.name, []), header, body)
        notes = ["", "/* To be done by the caller:", *(f"   {note}" for note in self.notes), "*/"] if self.notes else []
        return [*header, *notes], body

    # -- before the net ------------------------------------------------------------------------------------------------
    def _input(
        self, source: Source, port: Port, steps: Sequence[Mapping[str, Any]], header: list[str], body: list[str]
    ) -> None:
        if not steps:
            return
        done = _pixels(steps, port) if self.picture is None else None
        if done is None:
            shown = ", ".join(_said(step) for step in steps)
            self.notes.append(f"{port.word} [{', '.join(map(str, port.shape))}] is made by these steps: {shown}")
            return
        channels, (h, w), method, table, first = done
        self.picture = port.word, channels, h, w
        source.use("resample")
        values = source.array(table)
        signature = f"void {self.name}_prepare(float *{port.word}, const unsigned char *pixels, int height, int width)"
        kind = "grey" if channels == 1 else "red, green and blue"
        header += [
            "",
            f"/* {port.word} of a picture: bytes [height, width, {channels}] of {kind}, resized to {h} x {w} and",
            "   normalised; up to one grey level from what the runtime computes. */",
            f"{signature};",
        ]
        place = f"c * {h * w} + i * {w} + j" if first else f"(i * {w} + j) * {channels} + c"
        given = table.shape[1]
        body += [
            "", f"{signature} {{", f"  for (int i = 0; i < {h}; i++)", f"    for (int j = 0; j < {w}; j++)",
            f"      for (int c = 0; c < {channels}; c++) {{",
            f"        const int grey = resampled(pixels, height, width, {channels}, {h}, {w}, i, j, c, {method});",
            f"        {port.word}[{place}] = {values}[grey * {given} + {'c' if given > 1 else '0'}];", "      }", "}",
        ]  # fmt: skip

    # -- behind the net ------------------------------------------------------------------------------------------------
    def _output(self, port: Port, steps: Sequence[Mapping[str, Any]], header: list[str], body: list[str]) -> None:
        names = [step["step"] for step in steps]
        classes = port.shape[-1] if port.shape else 0
        score = names[0] if len(names) == 2 and names[0] in _SCORES else ""
        fits = port.size == classes and port.dtype == "float32" and len(self.labels) == classes
        if names[-1:] != ["top"] or not fits or self.score is not None or (len(names) > 1 and not score):
            if steps:
                self.notes.append(f"{port.word} is read by these steps: {', '.join(_said(step) for step in steps)}")
            return
        self.score, self.ranked = score, port.word
        signature = f"int {self.name}_best(const float *{port.word}, float *score)"
        meaning = {"softmax": "its probability (softmax)", "sigmoid": "its probability (sigmoid)"}.get(score, "it")
        header += [
            "", f"/* The class of the largest number of {port.word}, and {meaning};",
            f"   its name is {self.name}_names[class]. */", f"{signature};",
            f"extern const char *const {self.name}_names[{classes}];",
        ]  # fmt: skip
        quoted = ",\n".join(f"  {_quoted(label)}" for label in self.labels)
        final = {
            "softmax": [
                "  float sum = 0;",
                f"  for (int i = 0; i < {classes}; i++) sum += expf({port.word}[i] - {port.word}[best]);",
                "  *score = 1 / sum;",
            ],
            "sigmoid": [f"  *score = 1 / (1 + expf(-{port.word}[best]));"],
        }.get(score, [f"  *score = {port.word}[best];"])
        body += [
            "", f"const char *const {self.name}_names[{classes}] = {{", quoted, "};", "", f"{signature} {{",
            "  int best = 0;",
            f"  for (int i = 1; i < {classes}; i++)", f"    if ({port.word}[i] > {port.word}[best]) best = i;", *final,
            "  return best;", "}",
        ]  # fmt: skip


def _pixels(steps: Sequence[Mapping[str, Any]], port: Port) -> Any:
    """(channels, (height, width), method, table of grey levels [256, C or 1], channels first) of steps that C can take;
    None of others."""
    first, *others = steps
    if first["step"] != "image" or len(port.shape) != 4 or port.shape[0] != 1 or port.dtype != "float32":
        return None
    channels = 1 if first.get("mode", "rgb") == "gray" else 3
    order, size, method, table = "hwc", None, 0, None
    for step in others:
        kind = step["step"]
        if kind == "resize" and size is None and table is None:
            size, method = tuple(step["size"]), _METHODS.index(step.get("method", "auto"))
        elif kind == "normalize" and table is None:
            table = _table(tuple(map(float, step["mean"])), tuple(map(float, step["std"])))
        elif kind == "to_float" and table is None and set(step) == {"step"}:
            table = (np.arange(256, dtype=np.float64)[:, None] / 255).astype(np.float32)
        elif kind == "layout" and table is not None:
            order = step["order"]
        else:
            return None
    if size is None or table is None:
        return None
    made = (channels, *size) if order == "chw" else (*size, channels)
    return (channels, size, method, table, order == "chw") if made == port.shape[1:] else None


def _said(step: Mapping[str, Any]) -> str:
    """A step and its plain arguments, for people."""
    more = ", ".join(f"{k} {json.dumps(v)}" for k, v in step.items() if k != "step" and not isinstance(v, dict))
    return (f"{step['step']} ({more})" if more else str(step["step"])).replace("*/", "* /")


def _quoted(text: str) -> str:
    """A string of C: UTF-8 bytes beyond ASCII in octal, so that no compiler has to know them."""
    shown = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        shown.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(shown)}"'
