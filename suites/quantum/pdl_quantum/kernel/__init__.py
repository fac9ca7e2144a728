"""Which class numbers or images are of, by a quantum kernel."""

from pdl_quantum.kernel.task import QuantumKernel
