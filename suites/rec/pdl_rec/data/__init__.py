"""Data sets of the suite."""
