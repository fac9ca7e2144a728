"""Nets of circuits, one family in a file."""

from pdl_quantum.models.kernel import KernelClassifier
from pdl_quantum.models.variational_classifier import VariationalClassifier
from pdl_quantum.models.vsql import VSQL
