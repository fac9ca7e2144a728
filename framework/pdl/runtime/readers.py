"""Steps that come first and say what an input is, where it is no picture; and steps that know of names by number.

A pipeline whose input begins with none of these decodes a picture. With a reader, the input is whatever the reader
takes: a session, a text, a mapping of fields. Several inputs of a model may each begin with a reader; all of them read
the same item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.steps import Step
from pdl.vocabulary import Vocabulary


class Reader(Step, table={}, name=""):
    """A step that makes an array of an input as people give it.

    takes   what an input is, in a word: "session", "text", "row"
    """

    takes: str = ""

    @property
    def accepts(self) -> tuple[str, ...]:
        """Kinds of input that are understood: `takes`, and others that stand for several of them."""
        return (self.takes,)

    def __call__(self, value: Any) -> Any:
        return self.read(value, {})

    def read(self, item: Any, told: dict[str, Any]) -> Array:
        """The array for an item, without a batch axis; what is worth knowing goes into `told`, and so into the answer.

        DataError where the item says nothing that the model knows.
        """
        raise UsageError(f"the step {self.name} does nothing")

    def called(self, item: Any) -> str:
        """An item as a name for its answer."""
        if isinstance(item, str):
            return item
        return csv_line(list(map(str, item))) if isinstance(item, Sequence) else str(item)

    def rows(self, path: str | Path) -> Iterator[tuple[str, Any]]:
        """(name, item) for everything in a file, or in standard input ("-")."""
        raise UsageError(f"{path}: this model takes a {self.takes} and reads none from files")

    def together(self, array: Array) -> Any:
        """Arrays for which this is the same go through the model together; `joined` must take them."""
        return array.shape

    def joined(self, arrays: Sequence[Array]) -> Array:
        """The batch [N, ...] of several arrays."""
        return np.stack(arrays)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """A batch of valid values of this shape, to measure speed with; `sizes` are those of the symbolic axes."""
        raise UsageError(f"the step {self.name} makes no inputs up; give arrays")


class Named(Step, table={}, name=""):
    """A step that knows the names of a vocabulary of the bundle; its argument `vocabulary` says of which."""

    vocabulary: str
    _known: Mapping[str, Vocabulary]

    def bind(self, labels: Sequence[str], vocabularies: Mapping[str, Vocabulary]) -> None:
        if self.vocabulary not in vocabularies:
            have = ", ".join(vocabularies) or "none"
            raise UsageError(f"{self.name}: no vocabulary {self.vocabulary!r:.60}; there are: {have}")
        self._known = vocabularies

    @property
    def names(self) -> Vocabulary:
        """The vocabulary, which is parsed when it is first asked for."""
        return self._known[self.vocabulary]


def csv_line(names: Sequence[str]) -> str:
    """Names as one text, which `split_names` takes apart again."""
    quoted = (f'"{name.replace(chr(34), chr(34) * 2)}"' if set(name) & set(',"\n\r') else name for name in names)
    return ",".join(quoted)


__all__ = ["Named", "Reader", "csv_line"]
