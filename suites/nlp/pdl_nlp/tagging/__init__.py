"""Tagging: a tag for each token, or the words and names that a text consists of."""

from pdl_nlp.tagging.task import Tagging
