"""`Source`: C text as it grows, op by op: constants, tables, kernels that are called, and the body of the run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array, DType
from pdl.export.c.registry import Refused
from pdl.program.ir import Value
from pdl.program.memory import Plan

#: the C type of each dtype
TYPES = {
    "float32": "float", "uint8": "uint8_t", "int8": "int8_t", "bool": "uint8_t", "int32": "int32_t", "int64": "int64_t",
    "int16": "int16_t", "uint16": "uint16_t", "uint32": "uint32_t", "float64": "double",
}  # fmt: skip
WIDTH = 120
_SECTION = re.compile(r"^/\* == (\w+)(?: : ([\w ]+))? == \*/\n", re.MULTILINE)


class Section(NamedTuple):
    """A part of the templates: its text, and the names of those that must stand before it."""

    text: str
    needs: tuple[str, ...]


@cache
def sections() -> dict[str, Section]:
    """All sections of `templates/*.c`, by name, in their order."""
    found: dict[str, Section] = {}
    for name in ("dense.c", "layers.c", "boxes.c", "bytes.c", "spectra.c", "steps.c"):
        text = resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")
        _, *parts = _SECTION.split(text)
        for key, needs, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            found[key] = Section(body.strip("\n"), tuple((needs or "").split()))
    return found


def number(value: float) -> str:
    """A float32 as C writes it."""
    v = np.float32(value)
    if np.isnan(v):
        return "NAN"
    if np.isinf(v):
        return "INFINITY" if v > 0 else "-INFINITY"
    return f"{v!s}f"


def type_of(dtype: DType) -> str:
    """The C type of a dtype. Refused where there is none."""
    if dtype.name not in TYPES:
        raise Refused(f"{dtype.name} has no C type here")
    return TYPES[dtype.name]


def literals(array: Array) -> Iterator[str]:
    """The elements of an array as lines of C."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind == "f":  # nine digits name a float32, seventeen a float64, whatever they are read as on the way
        if not np.isfinite(flat).all():
            yield from wrapped([number(v) for v in flat])
            return
        form, per_line = ("%.9g,", 10) if array.dtype == np.float32 else ("%.17g,", 5)
    else:
        form, per_line = ("%dLL," if array.dtype == np.int64 else "%d,"), 30
        if array.dtype == np.int64 and (flat == np.iinfo(np.int64).min).any():
            raise Refused("the least int64 has no literal in C")
    for start in range(0, len(flat), per_line):
        part = flat[start : start + per_line].tolist()
        yield (form * len(part)) % tuple(part)


def wrapped(words: Iterable[str]) -> Iterator[str]:
    """Words between commas, as lines."""
    line = ""
    for word in words:
        if len(line) + len(word) + 2 > WIDTH:
            yield line
            line = ""
        line += word + ","
    yield line


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


class Strided(NamedTuple):
    """How a loop walks over an array: an expression of its first element, its C type, and strides in elements."""

    at: str
    kind: str
    strides: tuple[int, ...]


class Source:
    """The text of a program.

    plan     where its values lie; constants are written once, as arrays or into one block of bytes
    apart    weights go into a file beside the source instead of the source
    fast     speed is worth more than bytes of weights
    """

    def __init__(self, plan: Plan, names: Mapping[Value, str], *, apart: bool = False, fast: bool = False) -> None:
        self.plan, self.names, self.apart, self.fast = plan, names, apart, fast
        self.body: list[str] = []
        self.constants: list[str] = []
        self.blob = bytearray()
        self.kernels: dict[str, None] = {}
        self.room = 0
        self.most_inputs = 0
        self.constant_bytes = 0
        self._written: dict[Any, str] = {}
        self._copies: set[str] = set()
        self._depth = 0

    # -- values --------------------------------------------------------------------------------------------------------
    def at(self, value: Value | None) -> str:
        """A pointer to the first element of a value; "0" for none."""
        if value is None:
            return "0"
        if value in self.names:
            return self.names[value]
        if value.tensor is not None:
            return self.array(value.tensor._data)
        if value in self.plan.owner:
            return f"(({type_of(value.spec.dtype)} *)(arena + {self.plan.owner[value].offset}))"
        if value in self.plan.held:
            return self.names[self.plan.held[value]]
        assert value.node is not None  # a window on a constant
        return self.at(value.node.inputs[0])

    def constant(self, value: Value | None, what: str) -> Array:
        """The numbers of a constant value. Refused where it is computed."""
        if value is None or value.tensor is None:
            raise Refused(f"its {what} must be constant")
        return value.tensor._data

    def array(self, array: Array, kind: str = "") -> str:
        """A constant array; of one with the same bytes, the one that there is."""
        array = np.ascontiguousarray(array)
        kind = kind or type_of(array.dtype)
        key = (kind, array.tobytes())
        if key not in self._written:
            name = self._written[key] = f"c{len(self._written)}"
            self.constant_bytes += array.nbytes
            if self.apart and array.nbytes >= 64:
                self.blob += b"\0" * (-len(self.blob) % 16)
                self.constants.append(f"#define {name} ((const {kind} *)(WEIGHTS + {len(self.blob)}))")
                self.blob += array.tobytes()
            else:
                lines = "\n".join(literals(array)) or "0,"
                self.constants.append(f"static const {kind} {name}[{max(1, array.size)}] = {{\n{lines}\n}};")
        return self._written[key]

    def struct(self, kind: str, **fields: Any) -> str:
        """The address of a constant struct with these fields."""
        inner = ", ".join(f".{k} = {v}" for k, v in fields.items())
        key = (kind, inner)
        if key not in self._written:
            name = self._written[key] = f"c{len(self._written)}"
            self.constants.append(f"static const {kind} {name} = {{{inner}}};")
        return f"&{self._written[key]}"

    def scratch(self, nbytes: int) -> str:
        """Memory for this op alone, behind the arena."""
        self.room = max(self.room, nbytes)
        return f"(arena + {self.plan.arena_bytes})"

    # -- lines ---------------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        """A line of the body."""
        self.body.append("  " * (self._depth + 1) + text)

    def call(self, kernel: str, *arguments: Any) -> None:
        """A call of a kernel of the templates."""
        self.use(kernel)
        self.line(f"{kernel}({', '.join(map(str, arguments))});")

    def call_copy(self, kernel: str, window: str, *arguments: Any) -> None:
        """A call of a kernel whose last parameter is the address of a constant: of the copy of it for that constant."""
        self.use(kernel)
        name = f"{kernel}_{window.lstrip('&')}"
        if name not in self._copies:
            self._copies.add(name)
            found = re.search(rf"COPIED void {kernel}\((.*), const \w+ \*\w+\) {{", sections()[kernel].text)
            assert found is not None
            words = ", ".join(re.findall(r"(\w+)(?:,|$)", found[1]))
            self.constants.append(f"COPY void {name}({found[1]}) {{ {kernel}({words}, {window}); }}")
        self.line(f"{name}({', '.join(map(str, arguments))});")

    def use(self, kernel: str) -> None:
        """Include a section of the templates, and those that it needs."""
        if kernel not in self.kernels and kernel in sections():
            for other in sections()[kernel].needs:
                self.use(other)
            self.kernels[kernel] = None
        elif kernel not in self.kernels:
            self.kernels[kernel] = None

    def open(self, text: str) -> None:
        """A line that opens a block."""
        self.line(text + " {")
        self._depth += 1

    def close(self, blocks: int = 1) -> None:
        """The end of blocks."""
        for _ in range(blocks):
            self._depth -= 1
            self.line("}")

    def nest(self, shape: Sequence[int], arrays: Mapping[str, Strided], body: str) -> None:
        """``for`` each index of `shape`: `body`, in which {name} is the element of an array there."""
        sizes, strides = _collapsed(shape, [a.strides for a in arrays.values()])
        self.open("")
        for (name, array), _ in zip(arrays.items(), strides, strict=True):
            const = "" if name == "y" else "const "
            self.line(f"{const}{array.kind} *{name} = {array.at};")
        indices = [f"i{n}" for n in range(len(sizes))]
        for index, size in zip(indices, sizes, strict=True):
            self.open(f"for (long {index} = 0; {index} < {size}; {index}++)")
        elements = {name: f"{name}[{_offset(indices, own)}]" for name, own in zip(arrays, strides, strict=True)}
        self.line(body.format(**elements))
        self.close(len(sizes) + 1)

    def dense(self, value: Value | None, shape: Sequence[int] | None = None, offset: int = 0) -> Strided:
        """A value as a loop walks over it, broadcast to a shape where one is given."""
        assert value is not None
        own = tuple(map(int, value.spec.shape))
        strides: tuple[int, ...] = row_major(own)
        if shape is not None:
            missing = len(shape) - len(own)
            strides = (0,) * missing + tuple(0 if n == 1 else s for n, s in zip(own, strides, strict=True))
        at = self.at(value)
        return Strided(f"{at} + {offset}" if offset else at, type_of(value.spec.dtype), strides)


def _collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same walk over fewer, longer axes."""
    sizes: list[int] = []
    made: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        own = [s[axis] for s in strides]
        if sizes and all(m[-1] == s * n for m, s in zip(made, own, strict=True)):
            sizes[-1] *= n
            for m, s in zip(made, own, strict=True):
                m[-1] = s
        else:
            sizes.append(n)
            for m, s in zip(made, own, strict=True):
                m.append(s)
    return sizes, made


def _offset(indices: Sequence[str], strides: Sequence[int]) -> str:
    terms = [i if s == 1 else f"{i} * {s}" for i, s in zip(indices, strides, strict=True) if s]
    return " + ".join(terms) or "0"
