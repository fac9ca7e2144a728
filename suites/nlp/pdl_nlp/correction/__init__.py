"""Correction of spelling, character by character."""

from pdl_nlp.correction.task import Correction
