"""What a PyTorch state dict is made of, read out of its pickle stream without running anything.

A pickle is a program for a small stack machine. This is such a machine with the instructions that a dict of tensors
takes, as CPython's `Lib/pickletools.py` describes them (protocols 2 to 5), and nothing else: no class is looked up and
no function is called. A name in the stream (GLOBAL) is compared with the few below and stands for itself; any other
name, and any other instruction, is refused.
"""

from __future__ import annotations

import reprlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from pdl.dtype import DType, bfloat16
from pdl.errors import DataError

MAX_RANK = 16
MAX_STEPS = 600_000  # instructions, and values that they copy; a dict of 10,000 tensors takes 420,000
MAX_MEMO = 300_000
MAX_TEXT = 1 << 16  # bytes of a text: names of tensors and storages
MAX_INTEGER = 64  # bytes
#: PyTorch's storage classes by what they hold
STORAGES: dict[str, DType] = {
    "torch.DoubleStorage": np.dtype(np.float64), "torch.FloatStorage": np.dtype(np.float32),
    "torch.HalfStorage": np.dtype(np.float16), "torch.BFloat16Storage": bfloat16,
    "torch.LongStorage": np.dtype(np.int64), "torch.IntStorage": np.dtype(np.int32),
    "torch.ShortStorage": np.dtype(np.int16), "torch.CharStorage": np.dtype(np.int8),
    "torch.ByteStorage": np.dtype(np.uint8), "torch.BoolStorage": np.dtype(np.bool_),
}  # fmt: skip
_DICT, _PARAMETER = "collections.OrderedDict", "torch._utils._rebuild_parameter"
_TENSORS = {"torch._utils._rebuild_tensor_v2": (6, 7), "torch._utils._rebuild_tensor": (4,)}
ADVICE = "save the tensors alone: torch.save(model.state_dict(), FILE)"


@dataclass(frozen=True)
class Name:
    """A class or function that the stream names."""

    text: str


@dataclass(frozen=True)
class Storage:
    """A run of numbers in the file: `key` says which, and [begin, begin + size) which part of its `numel` numbers."""

    dtype: DType
    key: str
    numel: int
    begin: int
    size: int


@dataclass(frozen=True)
class StoredTensor:
    """A tensor over a storage; offset and strides count numbers."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Machine:
    """Runs one pickle that begins at `at`, in at most `steps` instructions; `source` names the file in errors."""

    def __init__(self, data: memoryview, source: str, at: int = 0, steps: int = MAX_STEPS) -> None:
        self.data, self.source, self.at, self.left = data, source, at, steps
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The value that the pickle holds; `at` is then the byte after it. DataError for everything unexpected."""
        while True:
            self.left -= 1
            if self.left < 0 or self.at >= len(self.data):
                self.spend(0)
                self.refuse("it has no end: the file is damaged, or no PyTorch file")
            code = self.data[self.at]
            self.at += 1
            if code == 0x2E:  # STOP
                value = self.pop()
                self.require(not self.stack and not self.marks, "it ends with values left over")
                return value
            step = STEPS.get(code)
            if step is None:
                name = REFUSED.get(code, f"0x{code:02x}")
                self.refuse(f"it holds the pickle instruction {name}, which no dict of tensors takes; {ADVICE}")
            step(self)

    # -- reading -------------------------------------------------------------------------------------------------------
    def refuse(self, what: str) -> NoReturn:
        """Raise DataError with the file and the place in it."""
        raise DataError(f"{self.source}: byte {self.at} of the pickle: {what}")

    def require(self, good: Any, what: str, value: Any = None) -> None:
        """Raise DataError unless `good`; what a {} in the text shows is the `value`, or the beginning of it."""
        if not good:
            self.refuse(f"{what.replace('{}', _BRIEF.repr(value))}: the file is damaged, or no PyTorch file")

    def spend(self, steps: int) -> None:
        """Count work that is done; DataError where it becomes too much."""
        self.left -= steps
        if self.left < 0:
            self.refuse(f"it takes more than {MAX_STEPS:,} instructions, which no dict of tensors does; {ADVICE}")

    def take(self, n: int) -> bytes:
        """The next n bytes."""
        self.require(n <= len(self.data) - self.at, "{} bytes are announced, which is more than are left", n)
        self.at += n
        return bytes(self.data[self.at - n : self.at])

    def number(self, n: int) -> int:
        """The next n bytes as a number without sign."""
        return int.from_bytes(self.take(n), "little")

    def line(self) -> str:
        """The text up to the next line break."""
        window = bytes(self.data[self.at : self.at + 512])
        length = window.find(b"\n")
        self.require(length >= 0, "a name without an end")
        return self.text(self.take(length + 1)[:-1])

    def text(self, data: bytes, encoding: str = "utf-8") -> str:
        """Bytes as text."""
        self.require(len(data) <= MAX_TEXT, "a text of {} bytes", len(data))
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            self.refuse(f"{data[:20]!r} is not {encoding}: the file is damaged")

    # -- the stack -----------------------------------------------------------------------------------------------------
    def push(self, value: Any) -> None:
        """Lay a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the last value, which must have been laid after the last mark."""
        self.require(len(self.stack) > (self.marks[-1] if self.marks else 0), "it takes more values than it has made")
        return self.stack.pop()

    def top(self, kind: type, what: str) -> Any:
        """The last value, which stays."""
        value = self.pop()
        if not isinstance(value, kind):
            self.require(False, f"{what} on a value that is no {kind.__name__}")
        self.push(value)
        return value

    def since_mark(self) -> list[Any]:
        """All values after the last mark, which is taken away too."""
        self.require(self.marks, "it takes values up to a mark that is not there")
        mark = self.marks.pop()
        values = self.stack[mark:]
        del self.stack[mark:]
        return values

    def remember(self, number: int) -> None:
        """Keep the last value under a number."""
        self.memo[number] = self.top(object, "a memo")
        self.require(len(self.memo) <= MAX_MEMO, "it keeps more than {} values", MAX_MEMO)

    def recall(self, number: int) -> None:
        """Lay the value of a number on the stack."""
        self.require(number in self.memo, "it recalls value {}, which it never kept", number)
        self.push(self.memo[number])

    # -- values --------------------------------------------------------------------------------------------------------
    def name(self, module: Any, attribute: Any) -> None:
        """A class or function: one of those known here, or the end."""
        text = f"{module}.{attribute}"
        if text not in (*STORAGES, *_TENSORS, _DICT, _PARAMETER):
            self.refuse(f"it names {text[:100]}, which no dict of tensors takes, and nothing of it is run; {ADVICE}")
        self.push(Name(text))

    def put(self, into: dict[Any, Any], values: list[Any]) -> None:
        """Key, value, key, value, ... into a dict."""
        self.require(len(values) % 2 == 0, "a key without a value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            self.require(key is None or isinstance(key, str | int | float), "a key {}", key)
            into[key] = value

    def build(self) -> None:
        """Attributes of a dict (PyTorch keeps versions of modules there), which are dropped."""
        state = self.pop()
        self.top(dict, "attributes")
        self.require(isinstance(state, dict), "attributes that are no dict")

    def reduce(self) -> None:
        """What one of the known functions makes of its arguments."""
        arguments, function = self.pop(), self.pop()
        self.require(
            isinstance(function, Name) and isinstance(arguments, tuple), "a call without function or arguments"
        )
        self.push(self.called(function.text, arguments))

    def called(self, function: str, arguments: tuple[Any, ...]) -> Any:
        """A dict, a tensor, or a parameter, which is its tensor."""
        if function == _DICT:
            return self._dict(arguments)
        if function == _PARAMETER:
            good = len(arguments) == 3 and isinstance(arguments[0], StoredTensor)
            self.require(good, "a parameter that is no tensor")
            return arguments[0]
        good = len(arguments) in _TENSORS.get(function, ())
        self.require(good, f"{function} with {{}} arguments", len(arguments))
        return self._tensor(*arguments[:4])

    def _dict(self, arguments: tuple[Any, ...]) -> dict[Any, Any]:
        pairs = arguments[0] if arguments else []
        good = len(arguments) <= 1 and isinstance(pairs, list)
        self.spend(len(pairs) if good else 0)
        self.require(good and all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs), "a dict of no pairs")
        made: dict[Any, Any] = {}
        self.put(made, [part for pair in pairs for part in pair])
        return made

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> StoredTensor:
        """Every element of it must be inside its storage."""
        self.require(isinstance(storage, Storage) and is_count(offset), "a tensor without storage or offset")
        axes = (shape, strides)
        good = all(isinstance(axis, tuple) and len(axis) <= MAX_RANK and all(map(is_count, axis)) for axis in axes)
        self.require(good and len(shape) == len(strides), "a tensor of shape {}", shape)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        inside = 0 in shape or last < storage.size
        self.require(inside, f"a tensor that reaches number {last} of the {storage.size} in its storage")
        return StoredTensor(storage, offset, shape, strides)

    def persistent(self) -> None:
        """("storage", class, key, device, numel), and in old files a part of it: None or (key, begin, size)."""
        given = self.pop()
        good = isinstance(given, tuple) and len(given) in (5, 6) and given[0] == "storage"
        self.require(good, "a reference to {}, not to a storage", given)
        kind, key, numel = given[1], given[2], given[4]
        if not isinstance(kind, Name) or kind.text not in STORAGES:
            self.refuse(f"a storage of {getattr(kind, 'text', type(kind).__name__)}, which pdl does not read")
        self.require(isinstance(key, str) and is_count(numel), "a storage without name or size")
        begin, size = 0, numel
        if len(given) == 6 and given[5] is not None:
            view = given[5]
            good = isinstance(view, tuple) and len(view) == 3 and is_count(view[1]) and is_count(view[2])
            self.require(good and view[1] + view[2] <= numel, "a part {} of a storage that is smaller", view)
            begin, size = view[1], view[2]
        self.push(Storage(STORAGES[kind.text], key, numel, begin, size))


#: values in messages: nested ones may share parts, and be too many to write down
_BRIEF = reprlib.Repr()
_BRIEF.maxlevel, _BRIEF.maxtuple, _BRIEF.maxlist, _BRIEF.maxdict = 2, 4, 4, 2


def is_count(value: Any) -> bool:
    """A whole number of 0 and more."""
    return type(value) is int and 0 <= value < 2**62


def _tuple(n: int) -> Callable[[Machine], None]:
    def step(m: Machine) -> None:
        values = [m.pop() for _ in range(n)]
        m.push(tuple(reversed(values)))

    return step


def _constant(value: Any) -> Callable[[Machine], None]:
    return lambda m: m.push(value)


def _bytes_as_text(width: int) -> Callable[[Machine], None]:
    """A text of Python 2."""
    return lambda m: m.push(m.text(m.take(m.number(width)), "latin-1"))


def _unicode(width: int) -> Callable[[Machine], None]:
    return lambda m: m.push(m.text(m.take(m.number(width))))


def _long(width: int) -> Callable[[Machine], None]:
    def step(m: Machine) -> None:
        size = m.number(width)
        m.require(size <= MAX_INTEGER, "a number of {} bytes", size)
        m.push(int.from_bytes(m.take(size), "little", signed=True))

    return step


def _protocol(m: Machine) -> None:
    version = m.number(1)
    m.require(2 <= version <= 5, "pickle protocol {}", version)


def _stack_global(m: Machine) -> None:
    attribute, module = m.pop(), m.pop()
    m.require(isinstance(attribute, str) and isinstance(module, str), "a name that is no text")
    m.name(module, attribute)


def _set_item(m: Machine) -> None:
    value, key = m.pop(), m.pop()
    m.put(m.top(dict, "an entry"), [key, value])


def _set_items(m: Machine) -> None:
    values = m.since_mark()
    m.put(m.top(dict, "entries"), values)


def _append(m: Machine) -> None:
    value = m.pop()
    m.top(list, "an item").append(value)


def _appends(m: Machine) -> None:
    values = m.since_mark()
    m.top(list, "items").extend(values)


#: instruction -> what it does; the names are pickletools'
STEPS: dict[int, Callable[[Machine], None]] = {
    0x80: _protocol,  # PROTO
    0x95: lambda m: m.require(m.number(8) <= len(m.data) - m.at, "a frame beyond the end"),  # FRAME
    ord("("): lambda m: m.marks.append(len(m.stack)),  # MARK
    ord("0"): lambda m: (m.pop(), None)[1],  # POP
    ord("1"): lambda m: (m.since_mark(), None)[1],  # POP_MARK
    ord("N"): _constant(None),  # NONE
    0x88: _constant(True),  # NEWTRUE
    0x89: _constant(False),  # NEWFALSE
    ord("K"): lambda m: m.push(m.number(1)),  # BININT1
    ord("M"): lambda m: m.push(m.number(2)),  # BININT2
    ord("J"): lambda m: m.push(int.from_bytes(m.take(4), "little", signed=True)),  # BININT
    0x8A: _long(1),  # LONG1
    0x8B: _long(4),  # LONG4
    ord("G"): lambda m: m.push(struct.unpack(">d", m.take(8))[0]),  # BINFLOAT
    ord("X"): _unicode(4),  # BINUNICODE
    0x8C: _unicode(1),  # SHORT_BINUNICODE
    0x8D: _unicode(8),  # BINUNICODE8
    ord("T"): _bytes_as_text(4),  # BINSTRING
    ord("U"): _bytes_as_text(1),  # SHORT_BINSTRING
    ord(")"): _constant(()),  # EMPTY_TUPLE
    ord("t"): lambda m: m.push(tuple(m.since_mark())),  # TUPLE
    0x85: _tuple(1),  # TUPLE1
    0x86: _tuple(2),  # TUPLE2
    0x87: _tuple(3),  # TUPLE3
    ord("]"): lambda m: m.push([]),  # EMPTY_LIST
    ord("a"): _append,  # APPEND
    ord("e"): _appends,  # APPENDS
    ord("}"): lambda m: m.push({}),  # EMPTY_DICT
    ord("s"): _set_item,  # SETITEM
    ord("u"): _set_items,  # SETITEMS
    ord("q"): lambda m: m.remember(m.number(1)),  # BINPUT
    ord("r"): lambda m: m.remember(m.number(4)),  # LONG_BINPUT
    0x94: lambda m: m.remember(len(m.memo)),  # MEMOIZE
    ord("h"): lambda m: m.recall(m.number(1)),  # BINGET
    ord("j"): lambda m: m.recall(m.number(4)),  # LONG_BINGET
    ord("c"): lambda m: m.name(m.line(), m.line()),  # GLOBAL
    0x93: _stack_global,  # STACK_GLOBAL
    ord("Q"): lambda m: m.persistent(),  # BINPERSID
    ord("R"): lambda m: m.reduce(),  # REDUCE
    ord("b"): lambda m: m.build(),  # BUILD
}
#: the instructions that are refused, by name
REFUSED = {
    ord("I"): "INT", ord("L"): "LONG", ord("S"): "STRING", ord("V"): "UNICODE", ord("F"): "FLOAT", ord("p"): "PUT",
    ord("g"): "GET", ord("l"): "LIST", ord("d"): "DICT", ord("P"): "PERSID", ord("2"): "DUP", ord("i"): "INST",
    ord("o"): "OBJ", ord("B"): "BINBYTES", ord("C"): "SHORT_BINBYTES", 0x81: "NEWOBJ", 0x82: "EXT1", 0x83: "EXT2",
    0x84: "EXT4", 0x8E: "BINBYTES8", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x92: "NEWOBJ_EX",
    0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}  # fmt: skip
