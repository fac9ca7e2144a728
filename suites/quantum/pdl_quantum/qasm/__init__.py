"""OpenQASM 2 and 3: circuits written as programs (`dumps`), and programs read (`loads`, `load`)."""

from pdl_quantum.qasm.read import load, loads
from pdl_quantum.qasm.write import dumps
