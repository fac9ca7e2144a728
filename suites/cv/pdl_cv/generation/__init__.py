"""Generation: pictures that were never taken, of a class that is asked for."""

from pdl_cv.generation.task import Generation

__all__ = ["Generation"]
