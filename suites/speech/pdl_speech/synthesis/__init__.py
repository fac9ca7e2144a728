"""Speech synthesis: texts are said."""

from pdl_speech.synthesis.task import SpeechSynthesis

__all__ = ["SpeechSynthesis"]
