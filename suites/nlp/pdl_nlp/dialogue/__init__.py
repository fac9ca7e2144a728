"""Dialogues: of several replies the one that belongs to the turns before it."""

from pdl_nlp.dialogue.task import Dialogue
