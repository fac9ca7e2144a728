"""Which images show the same: embeddings by metric learning."""

from pdl_cv.retrieval.task import Retrieval

__all__ = ["Retrieval"]
