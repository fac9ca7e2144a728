"""Video classification: one class for each clip, or sequence of skeletons."""

from pdl_cv.video.task import VideoClassification

__all__ = ["VideoClassification"]
