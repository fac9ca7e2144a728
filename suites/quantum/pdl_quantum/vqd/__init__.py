"""Variational quantum deflation."""

from pdl_quantum.vqd.task import VQD
