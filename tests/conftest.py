"""Property tests judge what code does and not how long it takes: a busy machine fails no test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("pdl", deadline=None)
settings.load_profile("pdl")
