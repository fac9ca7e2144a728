"""A classifier that another one is to answer like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdl.dtype import Array
from pdl.errors import ConfigError, UsageError, listed
from pdl_nlp import checkpoints

TOKENS = 4096  # that a net sees at once


class Teacher:
    """The logits of a classifier of texts, whatever tokens it reads.

    source   a run, bundle or name of the hub
    classes  in the order in which its logits are wanted
    """

    def __init__(self, source: str | Path, classes: Sequence[str]) -> None:
        from pdl.runtime import load
        from pdl.runtime.bundle import read

        file = checkpoints.bundle_at(source)
        bundle = read(file)
        own, pre = list(bundle.labels), bundle.pipeline["pre"].get("tokens", [])
        post = [step["step"] for each in bundle.pipeline["post"].values() for step in each]
        if "softmax" not in post or not pre or pre[0]["step"] != "tokens":
            raise UsageError(f"task.teacher={source}: it puts no texts into one class each; give a run that does")
        if sorted(own) != sorted(classes):
            raise ConfigError(f"task.teacher={source}: it has the classes {listed(own)}, the data {listed(classes)}")
        self.order = [own.index(name) for name in classes]
        self.tokenizer, self.max_length = checkpoints.tokenizer(file), pre[0].get("max_length")
        self.session = load(file)

    def logits(self, texts: Sequence[str]) -> Array:
        """float32 [N, C], texts of about one length together."""
        made = self.tokenizer.framed(texts, max_length=self.max_length)
        counts = np.diff(made.starts)
        found, pad = np.zeros((len(texts), len(self.order)), np.float32), self.tokenizer.pad or 0
        order, at = np.argsort(counts, kind="stable"), 0
        while at < len(order):
            end = at + 1
            while end < len(order) and (end - at + 1) * max(counts[order[end]], 1) <= TOKENS:
                end += 1
            rows = order[at:end]
            ids = np.full((len(rows), max(int(counts[rows].max()), 1)), pad, np.int64)
            for row, text in zip(ids, rows, strict=True):
                row[: counts[text]] = made.ids[made.starts[text] : made.starts[text + 1]]
            (logits,) = self.session.run({"tokens": ids}).values()
            found[rows] = logits[:, self.order]
            at = end
        return found
