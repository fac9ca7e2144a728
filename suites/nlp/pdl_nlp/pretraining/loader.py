"""From texts to sequences of one length without padding between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, Dataset, IterableDataset, Sample
from pdl.data.dataset import digest
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.train.recipe import Data
from pdl_nlp.pretraining.masking import Kind, Masking
from pdl_nlp.pretraining.units import PHRASE, WORD, Tagger, Words, of_tags, of_tokens, samples_of
from pdl_nlp.tokenizers import Encodings, Tokenizer

BLOCK = 256  # texts that are tokenised together


class Packing:
    """Texts into sequences of one length: the token `cls`, then texts one behind another, each with `sep` at its end; a
    text that does not fit goes on in the next sequence. So every token stands in one sequence, and only the last one
    has padding (RoBERTa's full sentences, Liu et al., arXiv 1907.11692).

    tokenizer  with tokens for padding, `cls` and `sep`
    length     of the sequences
    kind       what is masked: of "token" the marks say nothing, of "ernie" they come from tagged words
    tagger     which finds the words of texts that are not tagged
    between    what stands between the words of tagged texts
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        *,
        kind: Kind = "token",
        tagger: Tagger | None = None,
        between: str = "",
    ) -> None:
        self.tokenizer, self.length, self.kind, self.tagger, self.between = tokenizer, length, kind, tagger, between
        for part in ("pad", "cls", "sep", "mask"):
            if getattr(tokenizer, part) is None:
                raise ConfigError(f"task.tokenizer: it has no token {part!r}; make one with `pdl vocab`, which has all")
        self.sep = int(tokenizer.sep or 0)

    def sequences(self, dataset: Any) -> Iterator[tuple[Array, Array]]:
        """Blocks of tokens int32 [n, length], and of their marks uint8 [n, length]."""
        tokenizer, room = self.tokenizer, self.length - 1
        ids, marks = np.zeros(0, np.int32), np.zeros(0, np.uint8)
        samples = samples_of(dataset)
        while block := list(islice(samples, BLOCK)):
            found, own = self._encoded(block, dataset.classes)
            ids, marks = np.concatenate([ids, found]), np.concatenate([marks, own])
            full = len(ids) // room
            if full:
                yield self._framed(ids[: full * room].reshape(full, room), marks[: full * room].reshape(full, room))
                ids, marks = ids[full * room :], marks[full * room :]
        if len(ids):
            more = room - len(ids)
            pad = np.full(more, tokenizer.pad, np.int32)
            edge = np.full(more, WORD | PHRASE, np.uint8)
            yield self._framed(np.concatenate([ids, pad])[None], np.concatenate([marks, edge])[None])

    def _framed(self, ids: Array, marks: Array) -> tuple[Array, Array]:
        first = np.full((len(ids), 1), self.tokenizer.cls, np.int32)
        edge = np.full((len(ids), 1), WORD | PHRASE, np.uint8)
        return np.concatenate([first, ids], axis=1), np.concatenate([edge, marks], axis=1)

    def _encoded(self, samples: Sequence[Sample], classes: Sequence[str]) -> tuple[Array, Array]:
        """The tokens of some texts, with `sep` behind each, and their marks."""
        _, made, marks = self.encoded(samples, classes)
        ends = made.starts[1:][np.diff(made.starts) > 0]
        ids = np.insert(made.ids, ends, np.int32(self.sep))
        return ids, np.insert(marks, ends, WORD | PHRASE)

    def encoded(self, samples: Sequence[Sample], classes: Sequence[str]) -> tuple[list[str], Encodings, Array]:
        """The texts of samples, their tokens, and the marks of these."""
        texts, words = self._texts(samples, classes)
        made = self.tokenizer.encode_many(texts)
        if words is not None:
            return texts, made, of_tokens(made, texts, words)
        marks = np.full(len(made.ids), WORD | PHRASE, np.uint8)
        again = made.words[1:] == made.words[:-1]
        edges = made.starts[(made.starts > 0) & (made.starts < len(made.ids))]
        again[edges - 1] = False
        marks[1:][again] = 0
        return texts, made, marks

    def _texts(self, samples: Sequence[Sample], classes: Sequence[str]) -> tuple[list[str], list[Words] | None]:
        """The texts of samples, and their words where these are known."""
        if "tokens" in samples[0]:
            names = ([classes[tag] for tag in each["tags"].tolist()] for each in samples)
            made = [of_tags(each["tokens"], tags, self.between) for each, tags in zip(samples, names, strict=True)]
            return [text for text, _ in made], [words for _, words in made]
        texts = texts_of(samples)
        if self.kind == "token":
            return texts, None
        if self.tagger is not None:
            return texts, self.tagger(texts)
        if self.kind == "ernie":
            raise ConfigError(
                "task.masking=ernie needs words with tags: data of TaggedFile, or task.tagger=RUN, a tagger that finds "
                "words with parts of speech (recipe people_daily_lac)"
            )
        return texts, None


def texts_of(samples: Sequence[Sample]) -> list[str]:
    """The texts of samples that are not tagged, second ones of pairs as texts of their own."""
    return [str(sample[part]) for sample in samples for part in ("text", "pair") if part in sample]


class Packed(Dataset):
    """The texts of a data set as sequences: sample i is {"tokens" int32 [T], "marks" uint8 [T]}."""

    def __init__(self, dataset: Any, packing: Packing) -> None:
        self.dataset, self.classes = dataset, dataset.classes
        blocks = list(packing.sequences(dataset))
        none = np.zeros((0, packing.length))
        self.tokens = np.concatenate([block[0] for block in blocks] or [none.astype(np.int32)])
        self.marks = np.concatenate([block[1] for block in blocks] or [none.astype(np.uint8)])

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> Sample:
        return {"tokens": self.tokens[index], "marks": self.marks[index]}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The same of some sequences, stacked."""
        return {"tokens": self.tokens[indices], "marks": self.marks[indices]}

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.tokens, self.marks)


class PackedStream(IterableDataset):
    """The texts of a stream as sequences; the same samples as of `Packed`."""

    def __init__(self, dataset: IterableDataset, packing: Packing) -> None:
        self.dataset, self.packing, self.classes = dataset, packing, dataset.classes

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass."""
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)

    def __iter__(self) -> Iterator[Sample]:
        for tokens, marks in self.packing.sequences(self.dataset):
            for row in range(len(tokens)):
                yield {"tokens": tokens[row], "marks": marks[row]}


def packed(dataset: Any, packing: Packing) -> Any:
    """The texts of a data set, or of a stream, as sequences."""
    return (PackedStream if isinstance(dataset, IterableDataset) else Packed)(dataset, packing)


def loader_of(sequences: Any, data: Data, masking: Masking, *, training: bool, seed: int) -> DataLoader:
    """Batches of sequences, masked; in training of data sets in a new order each epoch, of streams in theirs."""
    return DataLoader(
        sequences,
        batch_size=data.size(training=training),
        shuffle=training and not isinstance(sequences, IterableDataset),
        transforms=[masking],
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
    )
