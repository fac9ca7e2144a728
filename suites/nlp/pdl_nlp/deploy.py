"""What bundles of all tasks on texts begin with: a few texts to compare answers on, and one to show."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pdl.data import Sample
from pdl.train import Deployer

SAMPLES, LETTERS = 8, 60


class TextDeployer(Deployer):
    """A deployer of a task that has a `tokenizer`; `numbers` is the class that makes numbers of its texts."""

    numbers: ClassVar[type[Any]]

    def text_of(self, sample: Sample) -> str:
        """The text of a sample of the data set."""
        return str(sample["text"])

    def samples(self, dataset: Any) -> list[str]:
        """A few texts of the data, spread over it; made up of tokens where there is none."""
        tokenizer = self.task.tokenizer
        source = dataset.dataset if isinstance(dataset, self.numbers) else dataset
        if source is None or not len(source):
            special = set(tokenizer.special.values())
            rng, names = np.random.default_rng(0), [name for name in tokenizer.tokens if name not in special] or ["?"]
            return [tokenizer.joined(rng.choice(names, length).tolist()) for length in (1, 2, 5, 12)]
        count = min(SAMPLES, len(source))
        texts = [self.text_of(source[int(row)]) for row in np.arange(count) * len(source) // count]
        return [text for text in texts if tokenizer.tokenize(text)]

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The beginning of a text of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        text = " ".join(self.text_of(loaders[split].dataset.dataset[0])[:LETTERS].split())
        return shlex.quote(text or "some text")
