"""Target assignment for detectors: which ground truth each place of an image is to find, and what losses make of it."""

from pdl_cv.ops.assign import atss_assign, hungarian_assign, max_iou_assign, simota_assign, task_aligned_assign
from pdl_cv.ops.assigned import class_targets, hard_negatives, sample_assigned, take_assigned

__all__ = [
    "atss_assign", "class_targets", "hard_negatives", "hungarian_assign", "max_iou_assign", "sample_assigned",
    "simota_assign", "take_assigned", "task_aligned_assign",
]  # fmt: skip
