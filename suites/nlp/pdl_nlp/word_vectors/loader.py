"""From texts to pieces of a stream of words, and words drawn as what is no context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from pdl.data import Batch, Dataset, Sample
from pdl.data.negatives import Negatives
from pdl.data.randomness import SampleRandom
from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.steps.letters import Letters
from pdl_nlp.tokenizers import Tokenizer

BLOCK = 10_000  # texts that are tokenised together
POWER = 0.75  # of the counts, in proportion to which negatives are drawn (arXiv 1310.4546)


def texts_of(dataset: Iterable[Any]) -> Iterator[str]:
    """The texts of a data set or a stream; tokens of tagged ones with spaces between."""
    for sample in dataset if not isinstance(dataset, Dataset) else (dataset[i] for i in range(len(dataset))):
        yield sample["text"] if "text" in sample else " ".join(sample["tokens"])


class Windows(Dataset):
    """The known words of texts one after the other, with `window` times 0 between two texts, in pieces of `length`: a
    batch is {"tokens" int64 [N, length], "negatives" int64 [K]} and, where letters are read, "letters" int64 [N,
    length, L]. The words are held in memory, 4 bytes each.

    subsample  words with a share f of all are kept with the probability sqrt(subsample / f) + subsample / f, drawn anew
               for every epoch (word2vec's); None: all are
    negatives  how many, shared by a batch
    counts     how often each token occurs in training, int64 [V]; by default here
    """

    def __init__(
        self,
        dataset: Any,
        tokenizer: Tokenizer,
        *,
        window: int,
        length: int,
        subsample: float | None,
        negatives: int,
        seed: int,
        letters: Letters | None = None,
        counts: Array | None = None,
    ) -> None:
        self.dataset, self.length, self.k, self.seed, self.epoch = dataset, length, negatives, seed, 0
        self.ids = _numbers(dataset, tokenizer, window)
        size = len(tokenizer.tokens)
        self.counts = np.bincount(self.ids, minlength=size) if counts is None else counts
        self.counts[:2] = 0
        if not self.counts.any():
            what = "no text of a split has two tokens that are known"
            raise DataError(f"{what}; give it more texts, or lower task.min_count")
        self.kept = _chances(self.counts, subsample)
        self.negatives = Negatives(size - 1, counts=self.counts, alpha=POWER, seed=seed)
        self.spelled = None
        if letters is not None:
            self.spelled = letters.encode([token if i > 1 else "" for i, token in enumerate(tokenizer.tokens)])
        self.set_epoch(0)
        self.pieces = -(-len(self.stream) // length)

    def set_epoch(self, epoch: int) -> None:
        """Draw the words of an epoch, and the place where its stream begins."""
        self.epoch = epoch
        drawn = self.ids
        if self.kept is not None:
            rng = SampleRandom(self.seed, epoch, 0).generator()
            drawn = drawn[rng.random(len(drawn), np.float32) < self.kept[drawn]]
            # as many pieces in every epoch: what is too much is left out, another part each time
            drawn = np.roll(drawn, int(rng.integers(0, max(1, len(drawn)))))
        self.stream = drawn

    def __len__(self) -> int:
        return self.pieces

    def __getitem__(self, index: int) -> Sample:
        return {name: values[0] for name, values in self.get_batch(np.array([index])).items() if name != "negatives"}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The pieces with these numbers."""
        at = indices[:, None] * self.length + np.arange(self.length)
        tokens = np.where(at < len(self.stream), self.stream[np.minimum(at, len(self.stream) - 1)], 0).astype(np.int64)
        drawn = self.negatives.shared(self.k, epoch=self.epoch, step=int(indices[0]))
        found = {"tokens": tokens, "negatives": drawn}
        return found if self.spelled is None else {**found, "letters": self.spelled[tokens]}


def _numbers(dataset: Any, tokenizer: Tokenizer, window: int) -> Array:
    """int32 [M]: the words of all texts, unknown ones left out, with `window` times 0 behind each text."""
    waiting, found, end = texts_of(dataset), list[Array](), np.zeros(window, np.int32)
    while block := list(islice(waiting, BLOCK)):
        made = tokenizer.encode_many(block)
        for begin, stop in zip(made.starts[:-1].tolist(), made.starts[1:].tolist(), strict=True):
            own = made.ids[begin:stop]
            own = own[own != tokenizer.unknown]
            if len(own) > 1:  # a word alone has no context
                found += [own, end]
    return np.concatenate(found) if found else np.zeros(1, np.int32)


def _chances(counts: Array, subsample: float | None) -> Array | None:
    """With which probability each word is kept, float32 [V]; the gaps between texts always are."""
    if subsample is None:
        return None
    with np.errstate(divide="ignore"):
        ratio = subsample * counts.sum() / counts
    made = np.minimum(1, np.sqrt(ratio) + ratio).astype(np.float32)
    made[0] = 1
    return made
