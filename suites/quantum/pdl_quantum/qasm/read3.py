"""OpenQASM 3 (Cross et al., arXiv 2104.14722): the syntax tree of the package `openqasm3`, walked into a circuit."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pdl.errors import DataError, PackageError, PdlError
from pdl_quantum.circuits import Angle, Circuit, Gate, Parameter
from pdl_quantum.qasm.conditions import Bits, condition_of
from pdl_quantum.qasm.evaluate import evaluate, number_of
from pdl_quantum.qasm.modifiers import controlled, inverse, power
from pdl_quantum.qasm.names import BUILT_IN_3, STDGATES, Meaning, phase
from pdl_quantum.qasm.program import Condition, Program, together
from pdl_quantum.qasm.scope import Scope, bounds, picked
from pdl_quantum.qasm.values import Value

MOST_STEPS = 1_000_000
"""Statements that are run, those of loops once for each round."""


def read(text: str) -> Circuit:
    """The circuit of an OpenQASM 3 program; DataError with the line where it is none, PackageError without parser."""
    tree = _parsed(text)
    try:
        return Reader().read(tree)
    except RecursionError:
        raise DataError("the OpenQASM program has expressions or definitions nested too deeply") from None


def _parsed(text: str) -> Any:
    try:
        import openqasm3
    except ImportError as error:
        raise PackageError(
            f"OpenQASM 3 is read with the package openqasm3, which is not here ({error}); pip install "
            "'pdl-quantum[qasm]'. OpenQASM 2 needs none"
        ) from error
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # where ANTLR would print what the error says
            return openqasm3.parse(text)
    except openqasm3.parser.QASM3ParsingError as error:
        raise DataError(_complaint(error)) from None
    except RecursionError:
        raise DataError("the OpenQASM program has expressions or blocks nested too deeply") from None
    except AttributeError:  # the package looks for the place of what is not there
        raise DataError("the OpenQASM program is empty, or cut off") from None


def _complaint(error: Exception) -> str:
    """Line and word, from the parser's own error or from the one that it stands for."""
    found = re.match(r"L(\d+):C\d+: (.*)", str(error), re.DOTALL)
    if found:
        return f"OpenQASM line {found[1]}: {found[2]}"
    inner = error.__cause__.args[0] if error.__cause__ is not None and error.__cause__.args else None
    token = getattr(inner, "offendingToken", None)
    if token is None:
        return "this is no OpenQASM 3 program"
    word = "the end of the program" if token.type == -1 else repr(token.text)
    return f"OpenQASM line {token.line}: {word} does not belong here"


class Reader:
    """Statement by statement."""

    def __init__(self) -> None:
        self.program, self.steps = Program(BUILT_IN_3, strict=True), 0
        self.top = Scope(qubits=self.program.qubits)

    def read(self, tree: Any) -> Circuit:
        """All of it."""
        line = 1
        try:
            for statement in tree.statements:
                line = statement.span.start_line
                self._statement(statement, self.top, ())
            return self.program.circuit()
        except PdlError as error:
            said = str(error)
            raise DataError(said if said.startswith("OpenQASM") else f"OpenQASM line {line}: {said}") from None

    # -- statements ----------------------------------------------------------------------------------------------------
    def _statement(self, node: Any, scope: Scope, condition: Condition) -> None:
        kind = type(node).__name__
        self._step()
        try:
            if kind in DECLARATIONS:
                if condition or scope is not self.top:
                    raise DataError("a declaration inside of a block")
                DECLARATIONS[kind](self, node)
            elif kind in STATEMENTS:
                STATEMENTS[kind](self, node, scope, condition)
            elif kind in ("QuantumGate", "QuantumPhase"):
                self.program.add(self._gates(node, scope), condition)
            else:
                raise DataError(f"{_words(kind)}: a circuit cannot hold it")
        except PdlError as error:
            said = str(error)
            raise DataError(
                said if said.startswith("OpenQASM") else f"OpenQASM line {node.span.start_line}: {said}"
            ) from None

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise DataError(f"the program runs more than {MOST_STEPS:,} statements")

    def _include(self, node: Any) -> None:
        if node.filename != "stdgates.inc":
            raise DataError(f'include {node.filename!r}: only "stdgates.inc" is known, and no file is opened')
        self.program.library(STDGATES, {})

    def _qubits(self, node: Any) -> None:
        self.program.register("qubit", node.qubit.name, self._size(node.size))

    def _classical(self, node: Any) -> None:
        self._declared(node.type, node.identifier.name, node.init_expression)

    def _declared(self, said: Any, name: str, start: Any) -> None:
        """Bits; other variables are constants, since nothing may assign to them."""
        kind = type(said).__name__
        if kind == "BitType":
            self.program.register("bit", name, self._size(said.size))
            if type(start).__name__ == "QuantumMeasurement":
                self.program.measure(self._operand(start.qubit, self.top), self.program.bits[name])
            elif start is not None:
                raise DataError(f"bit {name} starts with a value; bits of a circuit start as 0")
        elif kind not in ("IntType", "UintType", "FloatType", "AngleType", "BoolType"):
            raise DataError(f"{name} is of {_words(kind)}; known are bits, int, uint, float, angle and bool")
        elif start is not None:
            self._new(name, evaluate(start, self.top.values))

    def _constant(self, node: Any) -> None:
        self._new(node.identifier.name, evaluate(node.init_expression, self.top.values))

    def _input(self, node: Any) -> None:
        name, kind = node.identifier.name, node.type
        if node.io_identifier.name == "output":
            self._declared(kind, name, None)
            return
        shape: tuple[int, ...] = ()
        if type(kind).__name__ == "ArrayType":
            shape = tuple(self._size(each) for each in kind.dimensions)
            kind = kind.base_type
        if type(kind).__name__ not in ("AngleType", "FloatType"):
            raise DataError(f"input {name}: inputs are angles or floats, and arrays of these")
        parameter = Parameter(name, shape)
        self._new(name, parameter if shape else Angle(name, -1))
        self.program.parameters[name] = parameter

    def _new(self, name: str, value: Value | Parameter) -> None:
        if name in self.top.values or name in self.program.qubits or name in self.program.bits:
            raise DataError(f"{name} is declared twice")
        self.top.values[name] = value

    def _alias(self, node: Any) -> None:
        name = node.target.name
        if name in self.program.qubits or name in self.top.values:
            raise DataError(f"{name} is declared twice")
        self.program.alias(name, self._aliased(node.value))

    def _aliased(self, node: Any) -> list[int]:
        if type(node).__name__ == "Concatenation":
            return [*self._aliased(node.lhs), *self._aliased(node.rhs)]
        if type(node).__name__ == "IndexExpression":
            return self._indexed(node.collection.name, node.index, self.top)
        return list(self._operand(node, self.top))

    def _define(self, node: Any) -> None:
        name, angles = node.name.name, [each.name for each in node.arguments]
        qubits = [each.name for each in node.qubits]
        if len({*angles, *qubits}) < len(angles) + len(qubits):
            raise DataError(f"gate {name}: a name stands twice")
        for inner in node.body:
            self._fits(inner)
        constants = {key: value for key, value in self.top.values.items() if not isinstance(value, Angle | Parameter)}

        def make(values: Sequence[Value], numbers: Sequence[int]) -> list[Gate]:
            said = dict(zip(angles, values, strict=True))
            held = {key: [number] for key, number in zip(qubits, numbers, strict=True)}
            scope = Scope({**constants, **said}, held)
            return [gate for inner in node.body for gate in self._gates(inner, scope)]

        self.program.define(name, Meaning(len(angles), len(qubits), make))

    def _fits(self, node: Any) -> None:
        """What a definition calls must be there before it; so no gate calls itself."""
        if type(node).__name__ == "QuantumGate" and node.name.name not in self.program.names:
            self.program.fits(node.name.name, 0, ())
        for inner in getattr(node, "block", ()):
            self._fits(inner)

    # -- gates ---------------------------------------------------------------------------------------------------------
    def _gates(self, node: Any, scope: Scope) -> list[Gate]:
        """Those of a statement that may stand in a definition."""
        kind = type(node).__name__
        if kind == "ForInLoop":
            rounds = list(self._rounds(node, scope))
            return [gate for inner in rounds for each in node.block for gate in self._gates(each, inner)]
        if kind == "QuantumBarrier":
            return []
        if kind not in ("QuantumGate", "QuantumPhase"):
            raise DataError(f"OpenQASM line {node.span.start_line}: {_words(kind)} in the definition of a gate")
        self._step()
        operands = [self._operand(each, scope) for each in node.qubits]
        if kind == "QuantumPhase":
            said = [evaluate(node.argument, scope.values)]
        else:
            said = [evaluate(each, scope.values) for each in node.arguments]
        return [gate for qubits in together(operands) for gate in self._modified(node, said, qubits, scope)]

    def _modified(self, node: Any, angles: Sequence[Value], qubits: Sequence[int], scope: Scope) -> list[Gate]:
        modifiers = [(each.modifier.name, each.argument) for each in node.modifiers]
        counts = [
            (1 if argument is None else number_of(argument, scope.values, "the number of controls"))
            if name.endswith("ctrl") else 0
            for name, argument in modifiers
        ]  # fmt: skip
        at = sum(counts)
        if min(counts, default=0) < 0 or at > len(qubits):
            raise DataError(f"{at} controls among {len(qubits)} qubits")
        if type(node).__name__ == "QuantumPhase":
            if len(qubits) > at or len(set(qubits)) < at:
                raise DataError(f"gphase takes no qubits but those of its {at} controls, each once")
            gates = [phase(angles[0])]
        else:
            if len(set(qubits)) < len(qubits):
                raise DataError(f"{node.name.name}: a qubit stands twice")
            gates = self.program.call(node.name.name, angles, qubits[at:])
        for (name, argument), count in zip(reversed(modifiers), reversed(counts), strict=True):
            if name == "inv":
                gates = inverse(gates)
            elif name == "pow":
                k = evaluate(argument, scope.values)
                if isinstance(k, Angle):
                    raise DataError(f"pow({k}): a power is a number")
                gates = power(gates, float(k))
            else:
                gates, at = controlled(gates, qubits[at - count : at], int(name == "ctrl")), at - count
            self.program.count(len(gates) if name == "pow" else 0)
        return gates

    # -- what is no gate -----------------------------------------------------------------------------------------------
    def _measure(self, node: Any, scope: Scope, condition: Condition) -> None:
        if node.target is None:
            raise DataError("a measurement names the bits that it writes: c[0] = measure q[0];")
        qubits, bits = self._operand(node.measure.qubit, scope), self._bits(node.target, scope)
        if set(bits) & {bit for bit, _ in condition}:
            raise DataError("a measurement writes the bits of its own condition")
        self.program.measure(qubits, bits, condition)

    def _reset(self, node: Any, scope: Scope, condition: Condition) -> None:
        self.program.reset(self._operand(node.qubits, scope), condition)

    def _barrier(self, node: Any, scope: Scope, condition: Condition) -> None:
        said = [q for each in node.qubits for q in self._operand(each, scope)]
        self.program.barrier(said or range(self.program.size["qubit"]))

    def _branch(self, node: Any, scope: Scope, condition: Condition) -> None:
        found = condition_of(node.condition, Bits(self.program.bits, scope.values))
        if isinstance(found, bool):
            for inner in node.if_block if found else node.else_block:
                self._statement(inner, scope, condition)
            return
        for inner in node.if_block:
            self._statement(inner, scope, _both(condition, found.yes))
        if node.else_block and found.no is None:
            raise DataError("else behind a condition on several bits; write the other cases as conditions of their own")
        for inner in node.else_block:
            self._statement(inner, scope, _both(condition, found.no or ()))

    def _loop(self, node: Any, scope: Scope, condition: Condition) -> None:
        for inner in self._rounds(node, scope):
            for each in node.block:
                self._statement(each, inner, condition)

    def _rounds(self, node: Any, scope: Scope) -> Any:
        said = node.set_declaration
        if type(said).__name__ == "DiscreteSet":
            values: Sequence[Value] = [evaluate(each, scope.values) for each in said.values]
        elif type(said).__name__ == "RangeDefinition":
            values = bounds(said, scope, None)
        else:
            raise DataError("loops run over a range with constant bounds, or over a set of numbers")
        for value in values:
            self._step()
            yield scope.with_value(node.identifier.name, value)

    # -- operands ------------------------------------------------------------------------------------------------------
    def _operand(self, node: Any, scope: Scope) -> list[int]:
        if type(node).__name__ == "IndexedIdentifier":
            if len(node.indices) != 1:
                raise DataError(f"{node.name.name} has one index")
            return self._indexed(node.name.name, node.indices[0], scope)
        return list(self._held(scope.qubits, node.name, "qubit"))

    def _indexed(self, name: str, index: Any, scope: Scope) -> list[int]:
        return picked(name, self._held(scope.qubits, name, "qubit"), index, scope)

    def _bits(self, node: Any, scope: Scope) -> list[int]:
        if type(node).__name__ == "IndexedIdentifier":
            held = self._held(self.program.bits, node.name.name, "bit")
            return picked(node.name.name, held, node.indices[0], scope)
        return list(self._held(self.program.bits, node.name, "bit"))

    @staticmethod
    def _held(table: Mapping[str, Sequence[int]], name: str, what: str) -> Sequence[int]:
        if name not in table:
            raise DataError(f"there is no {what} {name!r}")
        return table[name]

    def _size(self, node: Any) -> int:
        return 1 if node is None else number_of(node, self.top.values, "a size")


DECLARATIONS = {
    "Include": Reader._include, "QubitDeclaration": Reader._qubits, "ClassicalDeclaration": Reader._classical,
    "ConstantDeclaration": Reader._constant, "IODeclaration": Reader._input, "AliasStatement": Reader._alias,
    "QuantumGateDefinition": Reader._define,
}  # fmt: skip
STATEMENTS = {
    "QuantumMeasurementStatement": Reader._measure, "QuantumReset": Reader._reset, "QuantumBarrier": Reader._barrier,
    "BranchingStatement": Reader._branch, "ForInLoop": Reader._loop,
}  # fmt: skip


def _both(a: Condition, b: Condition) -> Condition:
    held = dict(a)
    for bit, value in b:
        if held.setdefault(bit, value) != value:
            raise DataError(f"bit {bit} would have to be 0 and 1")
    return tuple(sorted(held.items()))


def _words(kind: str) -> str:
    """The class of a statement as words: "WhileLoop" is "while loop"."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()
