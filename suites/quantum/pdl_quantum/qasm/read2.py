"""OpenQASM 2 (Cross et al., arXiv 1707.03429), read strictly: no file is opened, nothing is evaluated as Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pdl.errors import DataError, PdlError
from pdl_quantum.circuits import Circuit, Gate
from pdl_quantum.qasm.names import BUILT_IN_2, QELIB, QELIB_SINCE, Meaning
from pdl_quantum.qasm.program import Condition, Program, together
from pdl_quantum.qasm.values import MOST_DEPTH, OF_TWO, Value, binary, call, finite, lookup, negative

TOKEN = re.compile(
    r"(?P<skip>[ \t\r]+|//[^\n]*)|(?P<line>\n)|(?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)"
    r"|(?P<whole>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<text>\"[^\"\n]*\")|(?P<sign>->|==|[-+*/^(){}\[\];,])"
)
MOST_DIGITS = 30  # of a whole number
Expression = Callable[[Mapping[str, Value]], Value]
T = TypeVar("T")


@dataclass(frozen=True)
class Token:
    """A word of the program."""

    kind: str
    text: str
    line: int


@dataclass(frozen=True)
class Call:
    """A statement in the body of a gate."""

    name: str
    angles: tuple[Expression, ...]
    qubits: tuple[str, ...]
    line: int


def read(text: str) -> Circuit:
    """The circuit of an OpenQASM 2 program; DataError with the line where it is none."""
    return Reader(tokens(text)).read()


def tokens(text: str) -> list[Token]:
    """The words of a program."""
    made, at, line = list[Token](), 0, 1
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise DataError(f"OpenQASM line {line}: {text[at]!r} has no meaning here")
        kind = str(found.lastgroup)
        if kind == "line":
            line += 1
        elif kind != "skip":
            made.append(Token(kind, found[0], line))
        at = found.end()
    return [*made, Token("end", "the end of the program", line)]


class Reader:
    """Statement by statement."""

    def __init__(self, words: Sequence[Token]) -> None:
        self.words, self.at, self.depth = words, 0, 0
        self.program = Program(BUILT_IN_2, strict=False)

    def read(self) -> Circuit:
        """All of it."""
        line = 1
        try:
            self._head()
            while self.words[self.at].kind != "end":
                line = self.words[self.at].line
                self._statement()
            return self.program.circuit()
        except PdlError as error:
            said = str(error)
            raise DataError(said if said.startswith("OpenQASM") else f"OpenQASM line {line}: {said}") from None

    # -- words ---------------------------------------------------------------------------------------------------------
    def _next(self, kind: str = "", text: str = "") -> Token:
        token = self.words[self.at]
        if (kind and token.kind != kind) or (text and token.text != text):
            wanted = repr(text) if text else {"name": "a name", "whole": "a whole number"}.get(kind, kind)
            raise DataError(f"OpenQASM line {token.line}: expected {wanted}, not {token.text!r}")
        self.at += token.kind != "end"
        return token

    def _is(self, *texts: str) -> bool:
        if self.words[self.at].text in texts:
            self.at += 1
            return True
        return False

    def _number(self) -> int:
        token = self._next("whole")
        if len(token.text) > MOST_DIGITS:
            raise DataError(f"a whole number of {len(token.text)} digits")
        return int(token.text)

    # -- statements ----------------------------------------------------------------------------------------------------
    def _head(self) -> None:
        self._next("name", "OPENQASM")
        version = self._next()
        if version.text not in ("2.0", "2"):
            raise DataError(f"version {version.text!r}; this reads 2.0")
        self._next("sign", ";")

    def _statement(self) -> None:
        word = self.words[self.at].text
        special = {"include": self._include, "qreg": self._register, "creg": self._register, "gate": self._define,
                   "opaque": self._opaque, "barrier": self._barrier, "if": self._if}  # fmt: skip
        if word in special:
            self.at += 1
            special[word]()
        else:
            self._operation(())

    def _include(self) -> None:
        name = self._next("text").text.strip('"')
        if name != "qelib1.inc":
            raise DataError(f'include {name!r}: only "qelib1.inc" is known, and no file is opened')
        self.program.library(QELIB, QELIB_SINCE)
        self._next("sign", ";")

    def _register(self) -> None:
        kind = "qubit" if self.words[self.at - 1].text == "qreg" else "bit"
        name = self._next("name").text
        self._next("sign", "[")
        self.program.register(kind, name, self._number())
        self._next("sign", "]")
        self._next("sign", ";")

    def _if(self) -> None:
        self._next("sign", "(")
        name = self._next("name").text
        self._next("sign", "==")
        number = self._number()
        self._next("sign", ")")
        bits = self._found(self.program.bits, name, "classical register")
        if number >= 1 << len(bits):
            raise DataError(f"{name} has {len(bits)} bits, and is never {number}")
        self._operation(tuple((bit, number >> k & 1) for k, bit in enumerate(bits)))

    def _operation(self, condition: Condition) -> None:
        name = self._next("name").text
        program = self.program
        if name == "measure":
            qubits = self._operand(program.qubits, "quantum register")
            self._next("sign", "->")
            bits = self._operand(program.bits, "classical register")
            if set(bits) & {bit for bit, _ in condition}:
                raise DataError("a measurement writes the bits of its own condition")
            program.measure(qubits, bits, condition)
        elif name == "reset":
            program.reset(self._operand(program.qubits, "quantum register"), condition)
        else:
            angles = [angle({}) for angle in self._angles()]
            for each in together(self._list(lambda: self._operand(program.qubits, "quantum register"))):
                program.add(program.call(name, angles, each), condition)
        self._next("sign", ";")

    def _barrier(self) -> None:
        said = self._list(lambda: self._operand(self.program.qubits, "quantum register"))
        self.program.barrier([q for each in said for q in each])
        self._next("sign", ";")

    def _operand(self, registers: Mapping[str, list[int]], what: str) -> list[int]:
        name = self._next("name").text
        held = self._found(registers, name, what)
        if not self._is("["):
            return held
        index = self._number()
        self._next("sign", "]")
        if index >= len(held):
            raise DataError(f"{name}[{index}]: {name} has {len(held)} entries")
        return [held[index]]

    @staticmethod
    def _found(registers: Mapping[str, list[int]], name: str, what: str) -> list[int]:
        if name not in registers:
            raise DataError(f"there is no {what} {name!r}")
        return registers[name]

    def _list(self, one: Callable[[], T]) -> list[T]:
        made = [one()]
        while self._is(","):
            made.append(one())
        return made

    # -- definitions ---------------------------------------------------------------------------------------------------
    def _signature(self) -> tuple[str, list[str], list[str]]:
        name, angles = self._next("name").text, list[str]()
        if self._is("(") and not self._is(")"):
            angles = self._list(lambda: self._next("name").text)
            self._next("sign", ")")
        qubits = self._list(lambda: self._next("name").text)
        if len(set(angles)) < len(angles) or len(set(qubits)) < len(qubits):
            raise DataError(f"gate {name}: a name stands twice")
        return name, angles, qubits

    def _opaque(self) -> None:
        name, _, _ = self._signature()
        self.program.opaque.add(name)
        self._next("sign", ";")

    def _define(self) -> None:
        name, angles, qubits = self._signature()
        self._next("sign", "{")
        body = list[Call]()
        while not self._is("}"):
            line = self.words[self.at].line
            inner = self._next("name").text
            if inner == "barrier":
                self._list(lambda: self._local(qubits))
            else:
                said = tuple(self._angles(angles))
                body.append(Call(inner, said, tuple(self._list(lambda: self._local(qubits))), line))
                self.program.fits(inner, len(said), body[-1].qubits)  # so no gate calls itself
            self._next("sign", ";")
        self.program.define(name, Meaning(len(angles), len(qubits), self._maker(name, angles, qubits, body)))

    def _local(self, qubits: Sequence[str]) -> str:
        name = self._next("name").text
        if name not in qubits:
            raise DataError(f"the gate has no qubit {name!r}, only {', '.join(qubits)}")
        return name

    def _maker(self, name: str, angles: Sequence[str], qubits: Sequence[str], body: Sequence[Call]) -> Callable[
        [Sequence[Value], Sequence[int]], list[Gate]
    ]:  # fmt: skip
        def make(values: Sequence[Value], numbers: Sequence[int]) -> list[Gate]:
            known, place = dict(zip(angles, values, strict=True)), dict(zip(qubits, numbers, strict=True))
            made = list[Gate]()
            for each in body:
                said = [angle(known) for angle in each.angles]
                made += self.program.call(each.name, said, [place[q] for q in each.qubits])
            return made

        return make

    # -- expressions ---------------------------------------------------------------------------------------------------
    def _angles(self, known: Sequence[str] = ()) -> list[Expression]:
        if not self._is("(") or self._is(")"):
            return []
        made = self._list(lambda: self._sum(known))
        self._next("sign", ")")
        return made

    def _sum(self, known: Sequence[str]) -> Expression:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise DataError(f"an expression with more than {MOST_DEPTH} brackets inside each other")
        made = self._chain(("+", "-"), lambda: self._chain(("*", "/"), lambda: self._negative(known)))
        self.depth -= 1
        return made

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        parts, between = [part()], list[str]()
        while self._is(*signs):
            between.append(self.words[self.at - 1].text)
            parts.append(part())
        if not between:
            return parts[0]

        def value(known: Mapping[str, Value]) -> Value:
            found = parts[0](known)
            for sign, each in zip(between, parts[1:], strict=True):
                found = binary(sign, found, each(known))
            return found

        return value

    def _negative(self, known: Sequence[str]) -> Expression:
        turns = 0
        while self._is("-", "+"):
            turns += self.words[self.at - 1].text == "-"
        made = self._power(known)
        return (lambda names: negative(made(names))) if turns % 2 else made

    def _power(self, known: Sequence[str]) -> Expression:
        base = self._single(known)
        if not self._is("^"):
            return base
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise DataError(f"an expression with more than {MOST_DEPTH} powers inside each other")
        exponent = self._negative(known)
        self.depth -= 1
        return lambda names: binary("^", base(names), exponent(names))

    def _single(self, known: Sequence[str]) -> Expression:
        token = self._next()
        if token.text == "(":
            made = self._sum(known)
            self._next("sign", ")")
            return made
        if token.kind in ("real", "whole"):
            real = token.kind == "real" or len(token.text) > MOST_DIGITS
            value = finite(float(token.text)) if real else int(token.text)
            return lambda names: value
        if token.kind != "name":
            raise DataError(f"OpenQASM line {token.line}: expected a number or a name, not {token.text!r}")
        if self._is("("):
            inner = self._sum(known)
            self._next("sign", ")")
            call(token.text, [0.5], OF_TWO)
            return lambda names: call(token.text, [inner(names)], OF_TWO)
        lookup(token.text, dict.fromkeys(known, 0.0))
        return lambda names: lookup(token.text, names)
