"""Quantum circuits as ops of tensors: they stand between other layers, and gradients flow through.

Importing them loads NumPy, `pdl.ops` and `pdl_quantum.circuits`: what a bundle that holds one needs.
"""

from pdl_quantum.ops.circuit import circuit_expectation, circuit_state
from pdl_quantum.ops.pauli_words import pauli_words
