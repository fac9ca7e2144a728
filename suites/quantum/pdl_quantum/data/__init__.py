"""Data of quantum tasks: problems of chemistry."""

from pdl_quantum.data.molecule import DissociationCurve, Molecule

__all__ = ["DissociationCurve", "Molecule"]
