"""Vectors of words, learned of texts alone."""

from pdl_nlp.word_vectors.task import WordVectors
