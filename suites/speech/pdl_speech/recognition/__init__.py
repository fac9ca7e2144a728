"""Speech recognition: what is said."""

from pdl_speech.recognition.task import SpeechRecognition

__all__ = ["SpeechRecognition"]
