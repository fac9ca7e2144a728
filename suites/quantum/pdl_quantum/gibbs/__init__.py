"""Gibbs states."""

from pdl_quantum.gibbs.task import GibbsPreparation
