"""Who speaks."""

from pdl_speech.speakers.task import SpeakerVerification

__all__ = ["SpeakerVerification"]
