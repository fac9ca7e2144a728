"""What nets that read lines of text have in common."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.runtime.sample import Sample
from pdl.runtime.steps.labels import Ctc, Softmax, Text, UntilEnd


class Decoding:
    """How logits [N, T, num_classes] become texts, and how they are learned. Class 0 is no character.

    reader  the runtime's step that does the same in bundles
    other   what class 0 is, in words
    """

    reader: ClassVar[type[Text]]
    other: ClassVar[str]

    @property
    def step(self) -> str:
        """The name of that step."""
        return self.reader.name

    def certainty(self, scores: Array) -> float:
        """How certain the text of scores [T, num_classes] is, from 0 to 1, as a bundle says."""
        sample = Sample()
        return float(self.reader()(Softmax()(scores, sample), sample)["score"])

    def classes(self, scores: Array) -> list[list[int]]:
        """The classes of the characters of scores [N, T, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define classes")

    def needed(self, labels: Array) -> int:
        """The fewest steps in which the characters int64 [U] can be written."""
        raise NotImplementedError(f"{type(self).__name__} must define needed")

    def loss(self, logits: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> pdl.Tensor:
        """The mean loss of logits [N, T, num_classes] for the characters int64 [N, U], -1 behind the end of a text, of
        which there are `lengths` int64 [N]."""
        raise NotImplementedError(f"{type(self).__name__} must define loss")


class CtcDecoding(Decoding):
    """Connectionist temporal classification (Graves et al., ICML 2006): the best class of each step, repeats and blanks
    (class 0) dropped. The loss is -log p(text), 0 where no path writes it (of evaluation: such lines are mistakes)."""

    reader = Ctc
    other = "the blank"

    def classes(self, scores: Array) -> list[list[int]]:
        return pdl.ctc_greedy_decode(scores)  # type: ignore[no-any-return]

    def needed(self, labels: Array) -> int:
        """Its characters, and a blank between equal ones."""
        return len(labels) + int((labels[1:] == labels[:-1]).sum())

    def loss(self, logits: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> pdl.Tensor:
        n, steps = logits.shape[:2]
        full = pdl.as_tensor(np.full(n, steps, np.int64))
        logs = pdl.log_softmax(logits)
        return pdl.ctc_loss(logs, labels, full, lengths, reduction="none", zero_infinity=True).mean()


class UntilEndDecoding(Decoding):
    """A step for each character: the best classes in front of the first end (class 0). The loss is the cross-entropy of
    the characters and the end, its mean over all of them; of texts longer than T that of their first T characters."""

    reader = UntilEnd
    other = "the end"

    def classes(self, scores: Array) -> list[list[int]]:
        best = np.asarray(scores).argmax(axis=2)
        lengths = (np.cumsum(best == 0, axis=1) == 0).sum(axis=1)
        return [row[:length].tolist() for row, length in zip(best, lengths, strict=True)]

    def needed(self, labels: Array) -> int:
        """Its characters and the end."""
        return len(labels) + 1

    def loss(self, logits: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> pdl.Tensor:
        return pdl.cross_entropy(logits, self.targets(labels, lengths, logits.shape[1]), ignore_index=-1)

    def targets(self, labels: pdl.Tensor, lengths: pdl.Tensor, steps: int) -> pdl.Tensor:
        """int64 [N, steps]: the characters, the end behind the last one, and -1 from there on."""
        n, longest = labels.shape
        if longest < steps:
            labels = pdl.concat([labels, pdl.full((n, steps - longest), -1, dtype=pdl.int64)], axis=1)
        ends = pdl.expand_dims(lengths, axis=1) == pdl.arange(steps)
        return pdl.where(ends, pdl.zeros((1, 1), dtype=pdl.int64), labels[:, :steps])


DECODINGS: dict[str, Decoding] = {each.step: each for each in (CtcDecoding(), UntilEndDecoding())}


class Recogniser(nn.Module):
    """Images of lines [N, H, W, C] -> logits [N, T, num_classes]; `decoding` says how these become texts: by default by
    CTC, one step for each `stride` columns from left to right, class 0 the blank."""

    decoding: ClassVar[Decoding] = CtcDecoding()
    stride: int
    """Columns of the image in a step: T = W / stride."""
    width: int | None = None
    """The width that images must have; None: any multiple of `stride`."""
    tolerance: ClassVar[float] = 1e-5
    """How far a bundle may be from the net, as a share of the largest output."""
    heights: ClassVar[tuple[int, ...]] = (32,)
    """Heights of images that the net takes."""
    lettered: ClassVar[dict[str, int]] = {"classifier.weight": 1, "classifier.bias": 0}
    """Parameters that have a row for each class, and the axis of these: with another dictionary those of characters
    that both have are kept."""

    def steps(self, width: int) -> int:
        """T of images of this width."""
        return width // self.stride

    def too_long(self) -> tuple[str, str]:
        """Why a text that needs more steps cannot be written, and what to do about it."""
        return (
            f"have more characters than their images have steps (one for {self.stride} columns), so that CTC cannot "
            "write them",
            "make the images wider (ResizeHeight, PadTo), or take a net with a smaller stride",
        )

    def loss(self, x: pdl.Tensor, labels: pdl.Tensor, lengths: pdl.Tensor) -> dict[str, pdl.Tensor]:
        """The parts of the training loss of images by name, which are summed; labels and lengths as in
        `Decoding.loss`."""
        return {self.decoding.step: self.decoding.loss(self(x), labels, lengths)}

    def check(self, x: pdl.Tensor) -> None:
        """ShapeError for images that the net does not take."""
        name = type(self).__name__
        if x.ndim != 4:
            raise ShapeError(f"{name}: x {x.shape} has {x.ndim} dimensions, expected 4: [N, H, W, C]")
        height, width = x.shape[1:3]
        if height not in self.heights:
            raise ShapeError(
                f"{name}: images are {height} pixels high, expected {' or '.join(map(str, self.heights))}: set the "
                "height of ResizeHeight"
            )
        if self.width is not None and width != self.width:
            raise ShapeError(f"{name}: images are {width} pixels wide, but the net was built for {self.width}")


def columns(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, h, T, C] -> the mean over the height [N, T, C]."""
    return x.mean(axis=1)
