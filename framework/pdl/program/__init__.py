"""Programs: traced from Python, verified, rewritten by passes, planned in memory, run without allocation."""

from pdl.program import control as _control  # noqa: F401 - its ops, for `Op.from_dict`
from pdl.program.block import Block
from pdl.program.executor import Executable
from pdl.program.ir import Node, Program, Value
from pdl.program.specialise import bind, specialise
from pdl.program.step import CompiledForward, CompiledStep, Feeder, Receiver, StepProgram
from pdl.program.tracing import Symbol, is_tracing, trace
from pdl.program.verify import verify

__all__ = [
    "Block", "CompiledForward", "CompiledStep", "Executable", "Feeder", "Node", "Program", "Receiver", "StepProgram",
    "Symbol", "Value", "bind", "is_tracing", "specialise", "trace", "verify",
]  # fmt: skip
