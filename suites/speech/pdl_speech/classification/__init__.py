"""Classes of recordings."""

from pdl_speech.classification.task import AudioClassification

__all__ = ["AudioClassification"]
