"""Vectors of texts: those that mean the same lie near each other."""

from pdl_nlp.embedding.task import Embedding
