"""The version of pdl, of which all that is read and written elsewhere tells."""

__version__ = "0.1.0"
