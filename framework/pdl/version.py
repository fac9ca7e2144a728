"""The version of pdl."""

__version__ = "0.1.0"
