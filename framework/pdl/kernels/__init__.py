"""The native kernels: arithmetic on NumPy arrays, outputs first. No tensors in here."""
