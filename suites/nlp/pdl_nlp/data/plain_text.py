"""Corpora of plain text, larger than memory if need be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pdl.data import IterableDataset, Sample, addresses, check_ratios, stable_split
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.data.randomness import SampleRandom
from pdl.data.store import under_roots
from pdl.errors import ConfigError, listed
from pdl.files import PACKED
from pdl.hints import Range
from pdl_nlp.data import standin
from pdl_nlp.data.base import drawn
from pdl_nlp.data.reading import Normal, kind_of, lines, locate, rows, text_of

ENDINGS = tuple(f"{end}{packed}" for end in (".txt", ".jsonl") for packed in ("", *PACKED))


class PlainText(IterableDataset):
    """A stream of texts, read line by line: {"text": str}, blank lines left out.

    path       of a file, of a folder (all its .txt and .jsonl files, by name, at any depth), a pattern ("law/*.txt.xz";
               ** is any depth, files by name), an address of such (s3://, https://, ...: `pdl.data.addresses`), or a
               list of these; .gz, .bz2 and .xz are unpacked, and a relative path also looked for below PDL_DATA
    text       the key of the text in JSON lines
    documents  a text is all between two blank lines, or a file; not a line
    buffer     texts held in memory, out of which the next one is drawn, a function of `seed` and epoch; 0: in order
    split      the part to take, where `ratios` cut the corpus by a hash of the text and `seed`
    normalise  a form of Unicode that texts are brought into, such as NFKC; by default they stay as they are written
    address    where missing data can be had, as `pdl.data.to_get` takes it
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        text: str = "text",
        documents: bool = False,
        buffer: Annotated[int, Range(0)] = 0,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        self.ratios = None if ratios is None else check_ratios("PlainText", ratios)
        if self.ratios is not None and split not in self.ratios:
            raise ConfigError(f"PlainText: split={split!r} is none of the ratios {listed(list(self.ratios))}")
        self.files = files_at(path, address)
        self.text, self.documents, self.buffer, self.seed = text, documents, buffer, seed
        self.split, self.normalise, self.epoch = split, normalise, 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass, whose order it decides."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Sample]:
        found = (text for text in self._texts() if self._chosen(text))
        rng = SampleRandom(self.seed, self.epoch, 0).fork("buffer")
        return ({"text": text} for text in (drawn(found, self.buffer, rng) if self.buffer else found))

    def _chosen(self, text: str) -> bool:
        if self.ratios is None or self.split is None:
            return True
        return len(stable_split([text], self.ratios, self.split, seed=self.seed)) == 1

    def _texts(self) -> Iterator[str]:
        for path in self.files:
            if kind_of(path) == "json":
                yield from (text_of(row, self.text, path, self.normalise) for row in rows(path))
            elif self.documents:
                yield from self._documents(path)
            else:
                yield from (line for _, line in lines(path, self.normalise))

    def _documents(self, path: Path) -> Iterator[str]:
        held, last = list[str](), 0
        for number, line in lines(path, self.normalise):
            if held and number > last + 1:
                yield "\n".join(held)
                held = []
            held.append(line)
            last = number
        if held:
            yield "\n".join(held)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_lines(folder, settings)
        return StandIn({"path": str(path)}, standin.WHAT)


def files_at(path: str | Path | Sequence[str | Path], address: str | None) -> list[Path]:
    """The files of texts that a path, a pattern or a list of these names."""
    given = [path] if isinstance(path, str | Path) else path
    return [file for each in given for place in _places(each, address) for file in _files(place)]


def _places(path: str | Path, address: str | None) -> list[Path]:
    """The files that a pattern names, by name; or the file or folder; of addresses their copies."""
    if addresses.is_address(path):
        return [addresses.local(each) for each in addresses.files_at(path, ENDINGS)]
    given = Path(path).expanduser()
    top = next((number for number, part in enumerate(given.parts) if set(part) & set("*?[")), None)
    if top is None or given.exists():
        return [locate(path, address)]
    folder, pattern = Path(*given.parts[:top]), "/".join(given.parts[top:])
    for place in (folder, *under_roots(folder)):
        if found := sorted(each for each in place.glob(pattern) if each.is_file()):
            return found
    return [locate(path, address)]


def _files(path: Path) -> list[Path]:
    """The file, or those of a folder."""
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.name.lower().endswith(ENDINGS) and each.is_file())
    if not found:
        raise fault(path, f"holds no texts (files ending in {', '.join(ENDINGS)})", "add some, or name the files")
    return found
