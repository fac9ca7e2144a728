"""Gibbs states."""

from pdl_quantum.gibbs.task import GibbsPreparation

__all__ = ["GibbsPreparation"]
