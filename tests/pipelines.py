"""Pipelines for tests of steps."""

from __future__ import annotations

import json
from typing import Any

from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources


def pipeline(pre: Any, post: Any = None, **resources: Any) -> Pipeline:
    """The pipeline of steps as they stand in a bundle, {"input": [steps]}, with what it has for them (`Resources`)."""
    steps = json.loads(json.dumps({"pre": pre, "post": post or {}}))
    made = Pipeline.read(steps, Resources(**resources), "x.pdl")
    assert made is not None
    return made
