"""Reading comprehension: the piece of a paragraph that answers a question."""

from pdl_nlp.span_extraction.task import SpanExtraction
