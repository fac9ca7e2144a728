"""Plain texts, and pairs with classes beside them."""

from __future__ import annotations

from collections.abc import Iterator

from pdl.data import Dataset, IterableDataset, Sample


class WithPairs(IterableDataset):
    """A stream of texts that also holds pairs with classes, for pretraining with the objective "relevance": queries and
    titles, and whether these were clicked, shown or neither (ERNIE 2.0: Sun et al., arXiv 1907.12412, section 4.2.3).

    texts  the stream
    pairs  the data set of pairs, such as a `TextFile` with `pair`
    """

    def __init__(self, texts: IterableDataset, pairs: Dataset) -> None:
        self.texts, self.pairs, self.classes = texts, pairs, texts.classes

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass."""
        if hasattr(self.texts, "set_epoch"):
            self.texts.set_epoch(epoch)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self.texts)
