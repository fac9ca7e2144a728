"""Data sets of the suite, and the readers that make graphs of files."""

__all__: list[str] = []
