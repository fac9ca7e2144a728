"""Texts as they are written, with their line ends, for models that write such texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pdl.data import Dataset, Sample, check_ratios
from pdl.data.dataset import StandIn, digest
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.runtime import tables
from pdl_nlp.data import standin
from pdl_nlp.data.base import require_some
from pdl_nlp.data.plain_text import _files
from pdl_nlp.data.reading import Normal, kind_of, locate, normalised, rows, text_of


class Corpus(Dataset):
    """Whole texts: sample i is {"text": str}, a file as it is written, or the text of a row of JSON lines.

    path       of a file, of a folder (all its .txt and .jsonl files, by name, at any depth), or a list of these; packed
               ones are unpacked, and a relative one also looked for below PDL_DATA
    text       the key of the text in JSON lines
    split      the part to take, where `ratios` cut all texts, one behind the other, by the number of characters: with
               {train: 0.9, val: 0.1} the first nine tenths are "train". A text may be cut in two
    most       characters that are taken of what is left; None: all
    normalise  a form of Unicode that texts are brought into, such as NFKC; by default they stay as they are written
    address    where missing data can be had, as `pdl.data.to_get` takes it
    """

    unfoldable = "a text is one, and is cut into windows that stand one behind the other; draw splits by ratios"

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        text: str = "text",
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        most: Annotated[int, Range(1)] | None = None,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        shares = None if ratios is None else check_ratios("Corpus", ratios)
        if shares is not None and split not in shares:
            raise ConfigError(f"Corpus: split={split!r} is none of the ratios {listed(list(shares))}")
        given = [path] if isinstance(path, str | Path) else path
        files = [file for each in given for file in _files(locate(each, address))]
        read = [(each, file) for file in files for each in _texts(file, text, normalise)]
        if shares is not None:
            read = _cut(read, shares, str(split))
        read = [(each, file) for each, file in _first(read, most) if each]
        require_some(files[0], len(read), split)
        self.texts, self.sources = [each for each, _ in read], [file for _, file in read]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Sample:
        return {"text": self.texts[index]}

    def path_of(self, index: int) -> str | None:
        return str(self.sources[index])

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of the texts."""
        return digest(type(self).__name__, *self.texts)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_lines(folder, settings)
        return StandIn({"path": str(path)}, standin.WHAT)


def _texts(path: Path, key: str, form: Normal | None) -> list[str]:
    if kind_of(path) == "json":
        return [text_of(row, key, path, form) for row in rows(path)]
    with tables.opened(path) as file:
        return [normalised("".join(tables.lines_of(file, str(path))), form)]


def _cut(read: list[tuple[str, Path]], shares: Mapping[str, float], split: str) -> list[tuple[str, Path]]:
    """What lies in a split's part of all characters."""
    names = list(shares)
    before = sum(shares[name] for name in names[: names.index(split)])
    total = sum(len(text) for text, _ in read)
    begin, end = (int(round(share, 9) * total) for share in (before, before + shares[split]))
    found, at = [], 0
    for text, path in read:
        found.append((text[max(0, begin - at) : max(0, end - at)], path))
        at += len(text)
    return found


def _first(read: list[tuple[str, Path]], most: int | None) -> list[tuple[str, Path]]:
    """The first `most` characters of all texts."""
    found, left = list[tuple[str, Path]](), most
    for text, path in read:
        found.append((text if left is None else text[:left], path))
        left = None if left is None else left - len(found[-1][0])
    return found
