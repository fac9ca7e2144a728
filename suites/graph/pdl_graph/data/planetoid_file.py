"""The files ind.NAME.* of Planetoid, which are pickles of Python 2: sparse matrices, arrays and lists of neighbours.

They are read by the interpreter that reads state dicts (`pdl.hub.torch_pickle`): no class is looked up and no function
is called. The names below stand for arrays and dicts; any other name is refused.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.hub.torch_pickle import STEPS, Machine, Name

_MATRICES = ("scipy.sparse.csr.csr_matrix", "scipy.sparse._csr.csr_matrix")
_ARRAYS = ("numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct")
_DTYPE, _DICT, _OBJECT = "numpy.dtype", "collections.defaultdict", ("copy_reg._reconstructor", "copyreg._reconstructor")
_NAMES = (*_MATRICES, *_ARRAYS, *_OBJECT, _DTYPE, _DICT, "numpy.ndarray", "__builtin__.list", "__builtin__.object",
          "builtins.list", "builtins.object")  # fmt: skip
MAX_TEXT = 32  # characters of a number
_LINE_END = re.compile(rb"\n")


@dataclass
class _Array:
    """An array before and after its content comes."""

    value: np.ndarray = field(default_factory=lambda: np.empty(0))


@dataclass
class _Matrix:
    """A sparse matrix: what its attributes say."""

    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Kind:
    """A dtype: its letters, and its byte order once that is known."""

    text: str
    order: str = "<"


@dataclass(frozen=True)
class Sparse:
    """A matrix by rows (CSR): float32 values, their columns, where each row begins."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]


def read_pickle(path: Path) -> Any:
    """What one of the files holds: a `Sparse`, an array, or a dict of lists of whole numbers. DataFault for anything
    else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    found = _Reader(memoryview(data), str(path)).run()
    if isinstance(found, _Matrix):
        return _sparse(path, found.attributes)
    return found.value if isinstance(found, _Array) else found


def _sparse(path: Path, held: dict[str, Any]) -> Sparse:
    shape = held.get("_shape", held.get("shape"))
    parts = [held.get(name) for name in ("data", "indices", "indptr")]
    arrays = [each.value for each in parts if isinstance(each, _Array) and each.value.ndim == 1]
    if not isinstance(shape, tuple) or len(shape) != 2 or len(arrays) < len(parts):
        raise fault(path, "is no sparse matrix by rows", "get it again from its source")
    values, indices, indptr = arrays
    rows, columns = (int(n) for n in shape)
    whole = indices.dtype.kind in "iu" and indptr.dtype.kind in "iu" and len(indptr) == rows + 1
    ordered = whole and (np.diff(indptr) >= 0).all() and indptr[0] == 0 and indptr[-1] == len(indices) == len(values)
    if not ordered or (len(indices) and not 0 <= indices.min() <= indices.max() < columns):
        raise fault(path, "is a damaged sparse matrix", "get it again from its source")
    order = np.lexsort((indices, np.repeat(np.arange(rows), np.diff(indptr))))
    return Sparse(values[order].astype(np.float32), indices[order].astype(np.int64), indptr.astype(np.int64),
                  (rows, columns))  # fmt: skip


class _Reader(Machine):
    """The interpreter, with the names of NumPy and SciPy and the instructions of older pickles."""

    def run(self) -> Any:
        steps = {**STEPS, **_OLDER}
        while True:
            code = self.take(1)[0]
            if code == ord("."):
                return self.pop()
            step = steps.get(code)
            if step is None:
                self.refuse(f"it holds the pickle instruction 0x{code:02x}, which these files do not have")
            step(self)

    def refuse(self, what: str) -> NoReturn:
        raise fault(self.source, f"byte {self.at}: {what}", "get it again from its source")

    def name(self, module: Any, attribute: Any) -> None:
        text = f"{module}.{attribute}"
        if text not in _NAMES:
            self.refuse(f"it names {text[:100]}, which no file of Planetoid does, and nothing of it is run")
        self.push(Name(text))

    def called(self, function: str, arguments: tuple[Any, ...]) -> Any:
        if function in _ARRAYS:
            return _Array()
        if function == _DTYPE:
            self.require(arguments and isinstance(arguments[0], str), "a dtype without a name")
            return _Kind(arguments[0])
        if function == _DICT:
            return {}
        good = function in _MATRICES or (function in _OBJECT and arguments and _is_matrix(arguments[0]))
        self.require(good, f"a call of {function}")
        return _Matrix()

    def build(self) -> None:
        state = self.pop()
        made = self.top(object, "attributes")
        if isinstance(made, _Matrix):
            self.require(isinstance(state, dict), "a matrix without attributes")
            made.attributes = state
        elif isinstance(made, _Kind):
            self.require(isinstance(state, tuple) and len(state) > 1, "a dtype without its byte order")
            made.order = state[1]
        else:
            self.require(isinstance(made, _Array) and isinstance(state, tuple) and len(state) == 5, "no array")
            made.value = self.filled(*state[1:])

    def filled(self, shape: Any, kind: Any, fortran: Any, text: Any) -> np.ndarray:
        """The array that NumPy's state means: `text` are its bytes."""
        known = isinstance(kind, _Kind) and kind.order in ("<", ">", "|", "=") and kind.text[:1] in ("f", "i", "u", "b")
        self.require(known and kind.text[1:] in ("1", "2", "4", "8"), "an array of something that is no number")
        dtype = np.dtype(f"{kind.order}{kind.text}")
        good = isinstance(shape, tuple) and len(shape) <= 2 and all(type(n) is int and n >= 0 for n in shape)
        self.require(good and isinstance(text, str) and fortran in (False, 0), "an array without shape or content")
        data = text.encode("latin-1", "replace")
        self.require(len(data) == math.prod(shape) * dtype.itemsize, f"{len(data)} bytes for an array of {shape}")
        return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _is_matrix(value: Any) -> bool:
    return isinstance(value, Name) and value.text in _MATRICES


def _integer(m: Machine) -> int:
    text = m.line().removesuffix("L")
    good = len(text) <= MAX_TEXT and text.isascii() and text.removeprefix("-").isdecimal()
    m.require(good, "a number that is none")
    return int(text)


def _whole(m: Machine) -> None:
    word = bytes(m.data[m.at : m.at + 3])
    value = _integer(m)
    m.push({b"00\n": False, b"01\n": True}.get(word, value))


def _quoted(m: Machine) -> None:
    """A text between quotes, with Python's escapes."""
    end = _LINE_END.search(m.data, m.at)
    if end is None:
        m.refuse("a text without an end")
    try:
        found = ast.literal_eval("b" + m.take(end.end() - m.at).decode("latin-1").strip())
    except (ValueError, SyntaxError):
        found = None
    m.require(isinstance(found, bytes), "a text that is none")
    m.push(found.decode("latin-1"))


def _pairs(m: Machine) -> None:
    into: dict[Any, Any] = {}
    m.put(into, m.since_mark())
    m.push(into)


def _new(m: Machine) -> None:
    """An object of a class, without its attributes."""
    arguments, kind = m.pop(), m.pop()
    m.require(isinstance(kind, Name) and isinstance(arguments, tuple), "an object of no class")
    m.push(m.called(kind.text, arguments))


#: instructions of the first protocol, and objects; the names are pickletools'
_OLDER: dict[int, Callable[[Machine], None]] = {
    0x81: _new,  # NEWOBJ
    ord("I"): _whole,  # INT
    ord("L"): _whole,  # LONG
    ord("S"): _quoted,  # STRING
    ord("p"): lambda m: m.remember(_integer(m)),  # PUT
    ord("g"): lambda m: m.recall(_integer(m)),  # GET
    ord("l"): lambda m: m.push(m.since_mark()),  # LIST
    ord("d"): _pairs,  # DICT
}
