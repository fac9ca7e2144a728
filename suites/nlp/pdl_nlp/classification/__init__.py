"""Text classification: one class, or any number of them, for each text."""

from pdl_nlp.classification.task import TextClassification
