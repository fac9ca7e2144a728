"""Data sets of the suite. They hold names until `bind` turns these into the numbers of a vocabulary."""

from pdl_rec.data.pair_file import PairFile
from pdl_rec.data.session_file import SessionFile
from pdl_rec.data.sessions import SessionData, Sessions, bind, sessions_of, vocabulary_of

__all__ = ["PairFile", "SessionData", "SessionFile", "Sessions", "bind", "sessions_of", "vocabulary_of"]
