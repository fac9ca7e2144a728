"""Programs: traced from Python, verified, rewritten by passes, planned in memory, run without allocation."""

from pdl.program.executor import Executable
from pdl.program.ir import Node, Program, Value
from pdl.program.step import CompiledStep
from pdl.program.tracing import Symbol, is_tracing, trace
from pdl.program.verify import verify

__all__ = ["CompiledStep", "Executable", "Node", "Program", "Symbol", "Value", "is_tracing", "trace", "verify"]
