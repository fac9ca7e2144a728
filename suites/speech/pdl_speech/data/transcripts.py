"""Recordings with what is said in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import Fault, fault, unreadable
from pdl.data.folders import split_folder
from pdl.data.splits import check_ratios, stable_split
from pdl.data.store import locate
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError, listed
from pdl.files import read_bytes
from pdl.hints import Range
from pdl_speech.audio.files import AUDIO_FILES, audio_info
from pdl_speech.data import standin
from pdl_speech.data.recordings import Rate, fault_of, read_recording
from pdl_speech.data.table import FILES, SPLITS, named_column, read_table

TEXTS = ("text", "sentence", "transcript", "transcription", "words", "utterance")
SPEAKERS = ("speaker", "speaker_id", "client_id", "spk", "speaker_name")
TABLES = (".tsv", ".csv")
BESIDE = (".txt", ".lab")  # of the file beside a recording that says what it says
LISTS = ".trans.txt"  # of LibriSpeech's
MOST_BYTES = 1 << 26


class Utterance(NamedTuple):
    """A recording's file, what is said in it, who says it ("": unknown), and its split ("": none is named)."""

    path: Path
    text: str
    speaker: str = ""
    split: str = ""


class Transcripts(Dataset):
    """Sample i is {"audio": float32 [T], "text": str, "speaker": str}, "" where nobody is named. Told apart by what is
    there:

    - a table (.csv, .tsv) with a header: a column of the files (path, file, audio, ...), one of the texts (text,
      sentence, transcript, ...), and where there are any, one of speakers and one of splits
    - a folder with tables train.tsv, val.tsv, test.tsv, or one table for all; files are relative to the folder of the
      table, or to clips/ in it, as of Common Voice
    - a folder with LibriSpeech's lists *.trans.txt, `ID text` on each line, beside recordings ID.flac; an ID begins
      with the speaker
    - a folder with recordings at any depth, each with a file of the same name beside it, .txt or .lab, that says what
      it says

    path    the table or the folder; a relative one is also looked for under PDL_DATA
    split   of a table's column, of folders or tables of this name; or, with `ratios`, the part that is cut out
    ratios  such as {train: 0.9, val: 0.1}: cut by a hash of the speakers, whose voices are then in one split alone, or
            of the files' names where no speaker is known; out of train where splits are told. Give all splits the same
    seed    of that cut
    rate    to which recordings are resampled (Hz); usually ${model.features.rate}
    """

    def __init__(
        self,
        path: str | Path,
        *,
        rate: Rate,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.path, self.rate = locate(path), rate
        if not self.path.exists():
            raise fault(self.path, "it is not there", "name a table or a folder of recordings with texts (path=)")
        self.utterances = _of_split(self.path, split, ratios, seed)

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Sample:
        each = self.utterances[index]
        wave = read_recording(str(each.path), self.rate, index)
        return {"audio": wave, "text": each.text, "speaker": each.speaker}

    @cached_property
    def texts(self) -> list[str]:
        """What is said."""
        return [each.text for each in self.utterances]

    @cached_property
    def speakers(self) -> list[str]:
        """Who says it; "" where that is not known."""
        return [each.speaker for each in self.utterances]

    @cached_property
    def lengths(self) -> Array:
        """int64 [N]: the samples of each at `rate`, by the headers of the files; 0 of those that cannot be read."""
        return np.array([samples_of(each.path, self.rate) for each in self.utterances], np.int64)

    def path_of(self, index: int) -> str:
        return str(self.utterances[index].path)

    def fault_of(self, index: int) -> Fault | None:
        return fault_of(self.path_of(index), index)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files' names and sizes, and of the texts; the recordings are not read."""
        sizes = [each.path.stat().st_size if each.path.is_file() else -1 for each in self.utterances]
        return digest(*(each.path.name for each in self.utterances), *self.texts, np.array(sizes, np.int64))

    def dealing(self, by: str | None = None) -> Dealing:
        """By speakers, where they are known."""
        if not all(self.speakers):
            return Dealing("at random")
        numbers = {name: i for i, name in enumerate(sorted(set(self.speakers)))}
        return Dealing("by speakers", groups=np.array([numbers[name] for name in self.speakers], np.int64))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path = standin.write_transcripts(folder)
        return StandIn({"path": str(path), "ratios": None}, "spoken digits, one behind the other")


def samples_of(path: Path, rate: int) -> int:
    """The samples of a recording at `rate`, by its header; 0 where it cannot be read."""
    try:
        info = audio_info(path)
    except (OSError, DataError):  # reported when the recording is read
        return 0
    return -(-info.frames * rate // info.rate)


# -- reading -----------------------------------------------------------------------------------------------------------
def _of_split(path: Path, split: str | None, ratios: Mapping[str, float] | None, seed: int) -> list[Utterance]:
    """The utterances of a split; DataError where there are none."""
    if ratios is not None and split is None:
        raise ConfigError("Transcripts: ratios are given but no split; add split=train (or val, test)")
    cut = ratios is not None and split in check_ratios("Transcripts", ratios)
    wanted = "train" if cut else split
    place, told = (path, False) if wanted is None else _place(path, wanted)
    found = list(read_utterances(place))
    splits = {each.split for each in found} - {""}
    if wanted is not None and not told and splits:
        found, told = [each for each in found if each.split == wanted], True
        if not found:
            raise fault(
                path, f"it has no recordings for split {wanted!r}, only for {listed(sorted(splits))}", "name one"
            )
    if wanted is not None and not told and not cut:
        advice = f"cut it: give every split the same ratios, such as {{train: 0.9, {split}: 0.1}}"
        raise fault(path, "nothing tells its splits: no column, and no folder or table of that name", advice)
    if cut and ratios is not None and split is not None:
        by_speaker = all(each.speaker for each in found)
        keys = [each.speaker if by_speaker else within(each.path, path) for each in found]
        found = [found[i] for i in stable_split(keys, ratios, split, seed=seed)]
    if not found:
        advice = "add some, or choose other ratios or another seed"
        raise fault(path, f"no recordings with texts{f' for split {split!r}' if split else ''} are there", advice)
    return found


def within(path: Path, folder: Path) -> str:
    """The name of a file in a folder, or in that of a table."""
    base = folder if folder.is_dir() else folder.parent
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def _place(path: Path, split: str) -> tuple[Path, bool]:
    """Where a split is, and whether that is its own place."""
    if path.is_dir():
        own = split_folder(path, split)
        tables = [path / f"{split}{ending}" for ending in TABLES]
        found = next((table for table in tables if table.is_file()), own)
        if found is not None:
            return found, True
    return path, False


def read_utterances(path: Path) -> Iterator[Utterance]:
    """All that is there, sorted by the files' names or in the order of the table."""
    if path.is_file():
        yield from _of_table(path)
        return
    tables = sorted(each for ending in TABLES for each in path.glob(f"*{ending}"))
    if len(tables) > 1:
        raise fault(path, f"several tables are there: {listed([each.name for each in tables])}", "name one (path=)")
    lists = sorted(path.rglob(f"*{LISTS}"))
    if tables:
        yield from _of_table(tables[0])
    elif lists:
        for each in lists:
            yield from _of_list(each)
    else:
        yield from _of_files(path)


def _of_table(path: Path) -> Iterator[Utterance]:
    lines, table = read_table(path)
    columns = list(table[0])
    file, text = named_column(path, columns, FILES, "path"), named_column(path, columns, TEXTS, "text")
    speaker, split = (_column(columns, names) for names in (SPEAKERS, SPLITS))
    inner = path.parent / "clips"
    base = inner if inner.is_dir() else path.parent
    for line, row in zip(lines, table, strict=True):
        if not (name := row[file].strip()):
            raise fault(path, "it names no file", "name the file of the recording", line=line)
        place = path.parent / name
        yield Utterance(
            place if base == path.parent or place.is_file() else base / name,
            row[text],
            row[speaker].strip() if speaker else "",
            row[split].strip() if split else "",
        )


def _column(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((column for name in names for column in columns if column.lower() == name), None)


def _of_list(path: Path) -> Iterator[Utterance]:
    """Of LibriSpeech: `1272-128104-0000 MISTER QUILTER IS THE APOSTLE ...`."""
    beside = {each.stem: each for each in sorted(path.parent.iterdir()) if each.suffix.lower() in AUDIO_FILES}
    for line, row in enumerate(_text(path).splitlines(), 1):
        name, _, text = row.strip().partition(" ")
        if not name:
            continue
        if name not in beside:
            raise fault(
                path, f"no recording is called {name!r}", "put it beside the list, or take the line out", line=line
            )
        yield Utterance(beside[name], text, name.partition("-")[0] if "-" in name else "")


def _of_files(path: Path) -> Iterator[Utterance]:
    for each in sorted(each for each in path.rglob("*") if each.suffix.lower() in AUDIO_FILES):
        said = next((text for ending in BESIDE if (text := each.with_suffix(ending)).is_file()), None)
        if said is None:
            names = " or ".join(f"{each.stem}{ending}" for ending in BESIDE)
            raise fault(
                each, f"nothing says what is said in it: there is no {names}", "write it, or move the recording"
            )
        yield Utterance(each, " ".join(_text(said).split()))


def _text(path: Path) -> str:
    try:
        return read_bytes(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise unreadable(str(path), error) from error
    except UnicodeDecodeError as error:
        raise fault(path, f"not UTF-8 text: {error}", "save it as UTF-8") from error
