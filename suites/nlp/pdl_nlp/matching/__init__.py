"""Matching: which class a pair of texts has, or how well texts fit a query."""

from pdl_nlp.matching.task import Matching
