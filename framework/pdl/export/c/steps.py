"""What of a bundle's pipeline becomes C: pixels to the input of the net, outputs to a class or to objects.

Steps that have no form in C are the caller's: the header says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.export.c.model import Port
from pdl.export.c.source import Source, number
from pdl.runtime.images import _table
from pdl.runtime.steps import PostStep
from pdl.runtime.steps.outputs import Objects
from pdl.runtime.steps.registry import find

_METHODS = ("auto", "area", "linear", "nearest")
_SCORES = ("softmax", "sigmoid")


class Pixels(NamedTuple):
    """Steps that make the input of a net of pixels.

    method  of resizing: a number of `_METHODS`
    table   values of grey levels [256, C or 1]
    first   channels before height and width
    kept    proportions are: {fill, centre, enlarge} of a letterbox
    """

    channels: int
    size: tuple[int, int]
    method: int
    table: Array
    first: bool
    kept: Mapping[str, Any] | None


class Steps:
    """The functions around NAME_run, for `to_c(extra=)`.

    pipeline, labels   pipeline.json of a bundle, and its labels
    picture            (parameter, channels, height, width) that NAME_prepare makes; None: it is not written
    score              what NAME_best makes of the numbers: "softmax", "sigmoid" or ""; None: it is not written
    ranked             the parameter that NAME_best reads
    objects            whether NAME_objects is written
    notes              lines on what the caller has to do
    """

    def __init__(self, name: str, pipeline: Mapping[str, Any], labels: Sequence[str]) -> None:
        self.name, self.pipeline, self.labels = name, pipeline, list(labels)
        self.picture: tuple[str, int, int, int] | None = None
        self.score: str | None = None
        self.ranked = ""
        self.objects = False
        self._pixels: Pixels | None = None
        self._named = False
        self.notes: list[str] = []

    def __call__(self, source: Source, ins: Sequence[Port], outs: Sequence[Port]) -> tuple[list[str], list[str]]:
        """Lines of the header, lines of the source."""
        header: list[str] = []
        body: list[str] = []
        for port in ins:
            self._input(source, port, self.pipeline["pre"].get(port.name, []), header, body)
        for port in outs:
            self._output(source, port, outs, header, body)
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
        channels, (h, w), method, table, first, kept = self._pixels = done
        self.picture = port.word, channels, h, w
        source.use("resample")
        values = source.array(table)
        signature = f"void {self.name}_prepare(float *{port.word}, const unsigned char *pixels, int height, int width)"
        kind = "grey" if channels == 1 else "red, green and blue"
        how = f"resized to {h} x {w}" if kept is None else f"resized into {h} x {w} with its proportions kept"
        header += [
            "",
            f"/* {port.word} of a picture: bytes [height, width, {channels}] of {kind}, {how} and",
            "   normalised; up to one grey level from what the runtime computes. */",
            f"{signature};",
        ]
        place = f"c * {h * w} + i * {w} + j" if first else f"(i * {w} + j) * {channels} + c"
        given = table.shape[1]
        body += ["", f"{signature} {{"]
        grey = f"resampled(pixels, height, width, {channels}, {h}, {w}, i, j, c, {method})"
        if kept is not None:
            body.append(f"  const Place at = {self._place(source, h, w, kept)};")
            fill = np.broadcast_to(np.asarray(kept["fill"], np.uint8), channels)
            outside = str(int(fill[0])) if (fill == fill[0]).all() else f"{source.array(fill)}[c]"
            inside = "i >= at.top && i < at.top + at.height && j >= at.left && j < at.left + at.width"
            grey = grey.replace(f"{h}, {w}, i, j", "at.height, at.width, i - at.top, j - at.left")
            grey = f"{inside}\n          ? {grey} : {outside}"
        body += [
            f"  for (int i = 0; i < {h}; i++)", f"    for (int j = 0; j < {w}; j++)",
            f"      for (int c = 0; c < {channels}; c++) {{", f"        const int grey = {grey};",
            f"        {port.word}[{place}] = {values}[grey * {given} + {'c' if given > 1 else '0'}];", "      }", "}",
        ]  # fmt: skip

    def _place(self, source: Source, h: int, w: int, kept: Mapping[str, Any]) -> str:
        """Where the picture lies in the net's input."""
        source.use("letterboxed")
        return f"letterboxed(height, width, {h}, {w}, {int(kept['centre'])}, {int(kept['enlarge'])})"

    # -- behind the net ------------------------------------------------------------------------------------------------
    def _output(
        self, source: Source, port: Port, outs: Sequence[Port], header: list[str], body: list[str]
    ) -> None:
        steps: Sequence[Mapping[str, Any]] = self.pipeline["post"].get(port.name, [])
        listed = _objects(steps, port, outs)
        if listed is not None and self._pixels is not None and not self.objects:
            return self._list(source, port, *listed, header, body)
        names = [step["step"] for step in steps]
        classes = port.shape[-1] if port.shape else 0
        score = names[0] if len(names) == 2 and names[0] in _SCORES else ""
        fits = port.size == classes and port.dtype == "float32" and len(self.labels) == classes
        if names[-1:] != ["top"] or not fits or self.score is not None or (len(names) > 1 and not score):
            if steps:
                self.notes.append(f"{port.word} is read by these steps: {', '.join(_said(step) for step in steps)}")
            return None
        self.score, self.ranked = score, port.word
        signature = f"int {self.name}_best(const float *{port.word}, float *score)"
        meaning = {"softmax": "its probability (softmax)", "sigmoid": "its probability (sigmoid)"}.get(score, "it")
        header += [
            "", f"/* The class of the largest number of {port.word}, and {meaning};",
            f"   its name is {self.name}_names[class]. */", f"{signature};",
        ]  # fmt: skip
        self._names(header, body)
        final = {
            "softmax": [
                "  float sum = 0;",
                f"  for (int i = 0; i < {classes}; i++) sum += expf({port.word}[i] - {port.word}[best]);",
                "  *score = 1 / sum;",
            ],
            "sigmoid": [f"  *score = 1 / (1 + expf(-{port.word}[best]));"],
        }.get(score, [f"  *score = {port.word}[best];"])
        body += [
            "", f"{signature} {{", "  int best = 0;",
            f"  for (int i = 1; i < {classes}; i++)", f"    if ({port.word}[i] > {port.word}[best]) best = i;", *final,
            "  return best;", "}",
        ]  # fmt: skip
        return None

    def _list(
        self, source: Source, boxes: Port, scores: Port, labels: Port, given: Objects, header: list[str],
        body: list[str],
    ) -> None:  # fmt: skip
        """NAME_objects: boxes in pixels of the picture, with scores and classes."""
        assert self._pixels is not None
        (h, w), kept, count = self._pixels.size, self._pixels.kept, boxes.shape[1]
        self.objects = True
        if kept is None:
            at = f"const struct {{ int height, width, top, left; }} at = {{{h}, {w}, 0, 0}}"
        else:
            at = f"const Place at = {self._place(source, h, w, kept)}"
        signature = (
            f"int {self.name}_objects({self.name}_object *found, const float *{boxes.word}, const float "
            f"*{scores.word}, const int64_t *{labels.word}, int height, int width)"
        )
        header += [
            "", f"/* An object: its class, whose name is {self.name}_names[label], its score, and its box x1, y1, x2,",
            "   y2 in pixels of the picture; pixel (0, 0) covers the square 0..1. */",
            f"typedef struct {{\n  int label;\n  float score, box[4];\n}} {self.name}_object;", "",
            f"/* The objects of a picture [height, width] with a score of {given.score:g} and more, best first: how",
            f"   many, at most {min(count, given.most)}; found has room for so many. */", f"{signature};",
        ]  # fmt: skip
        self._names(header, body)
        body += [
            "", f"{signature} {{", f"  {at};",
            "  const double scale[2] = {(double)width / at.width, (double)height / at.height};",
            "  int count = 0;", f"  for (int k = 0; k < {count} && count < {given.most}; k++) {{",
            f"    {self.name}_object one = {{(int){labels.word}[k], {scores.word}[k], {{0}}}};",
            f"    if (one.label < 0 || one.score < {number(given.score)}) continue;",
            "    for (int side = 0; side < 4; side++) {",
            "      const int axis = side % 2, most = axis ? height : width;",
            f"      const double place = ({boxes.word}[4 * k + side] - (axis ? at.top : at.left)) * scale[axis];",
            "      one.box[side] = (float)(place < 0 ? 0 : place > most ? most : place);", "    }",
            "    if (one.box[2] > one.box[0] && one.box[3] > one.box[1]) found[count++] = one;", "  }",
            "  return count;", "}",
        ]  # fmt: skip

    def _names(self, header: list[str], body: list[str]) -> None:
        """NAME_names, once."""
        if self._named:
            return
        self._named = True
        header.append(f"extern const char *const {self.name}_names[{len(self.labels)}];")
        quoted = ",\n".join(f"  {_quoted(label)}" for label in self.labels)
        body += ["", f"const char *const {self.name}_names[{len(self.labels)}] = {{", quoted, "};"]


def _objects(
    steps: Sequence[Mapping[str, Any]], port: Port, outs: Sequence[Port]
) -> tuple[Port, Port, Objects] | None:
    """The outputs with scores and labels of boxes that the only step of an output lists; None where none does."""
    if len(steps) != 1:
        return None
    (given,) = steps
    kind: Any = find(given["step"], "the model", "pipeline.json")
    made = kind(**{key: value for key, value in given.items() if key != "step"})
    listed = made.objects if isinstance(made, PostStep) else None
    if listed is None:
        return None
    ports = {each.name: each for each in outs}
    scores, labels = ports.get(listed.scores), ports.get(listed.labels)
    rows = port.shape[:2]
    fits = scores is not None and labels is not None and scores.shape == labels.shape == rows and rows[:1] == (1,)
    kinds = (port.dtype, scores.dtype if scores else "", labels.dtype if labels else "")
    if not fits or port.shape[2:] != (4,) or kinds != ("float32", "float32", "int64"):
        return None
    assert scores is not None
    assert labels is not None
    return scores, labels, listed


def _pixels(steps: Sequence[Mapping[str, Any]], port: Port) -> Pixels | None:
    """Steps that C can take; None of others."""
    first, *others = steps
    taken = first["step"] == "image" and first.get("tall") is None
    if not taken or len(port.shape) != 4 or port.shape[0] != 1 or port.dtype != "float32":
        return None
    channels = 1 if first.get("mode", "rgb") == "gray" else 3
    order, size, method, table, kept = "hwc", None, 0, None, None
    for step in others:
        kind = step["step"]
        if kind in ("resize", "letterbox") and size is None and table is None:
            size, method = tuple(step["size"]), _METHODS.index(step.get("method", "auto"))
            if kind == "letterbox":
                kept = {"fill": step.get("fill", [114]), **{k: step.get(k, True) for k in ("centre", "enlarge")}}
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
    return Pixels(channels, size, method, table, order == "chw", kept) if made == port.shape[1:] else None


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
