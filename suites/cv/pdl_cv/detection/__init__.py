"""Object detection: boxes with classes."""
