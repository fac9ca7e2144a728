"""Keypoints of objects."""
