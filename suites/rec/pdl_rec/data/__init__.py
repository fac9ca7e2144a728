"""Data sets of the suite. They hold names until `bind` turns these into the numbers of a vocabulary."""

from pdl_rec.data.atomic import Atomic, AtomicSessions
from pdl_rec.data.check import check, check_recipe
from pdl_rec.data.click_file import ClickFile, ClickStream
from pdl_rec.data.interaction_file import InteractionFile
from pdl_rec.data.interactions import InteractionData, Interactions, interactions_of
from pdl_rec.data.pair_file import PairFile
from pdl_rec.data.session_file import SessionFile
from pdl_rec.data.sessions import SessionData, Sessions, bind, sessions_of, vocabulary_of
from pdl_rec.data.shipped import Adult, SyntheticClicks
