"""Dialogues: turns of people who take turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pdl.data import IterableDataset, Sample, check_ratios, stable_split
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.runtime import tables
from pdl_nlp.data import standin
from pdl_nlp.data.base import Texts, drawn, part_of, require_some
from pdl_nlp.data.plain_text import files_at
from pdl_nlp.data.reading import Normal, Row, kind_of, locate, normalised, rows, value

TURN = "__eou__"
"""What ends a turn in DailyDialog's files."""
Turns = tuple[int, list[str], list[int]]
"""The number of a line, the turns of its dialogue, and who says each, from 0."""


class DialogueFile(IterableDataset):
    """A stream of dialogues: {"turns": [str], "roles": [int], "text": the turns in lines, "begins": where each begins
    in it}.

    path       as of `PlainText`. A line is a dialogue: turns, each with __eou__ behind it, of two people in turn
               (DailyDialog: Li et al., IJCNLP 2017, arXiv 1710.03957); or an object of JSON lines with a list of turns,
               texts of two people in turn, or objects {"text": str, "role": anything}. Roles count from 0 in the order
               in which people first speak
    turns      the key of that list
    text       the key of a turn's text
    role       the key of who says it
    buffer     dialogues held in memory, out of which the next one is drawn, a function of `seed` and epoch; 0: in order
    split      the part to take, where `ratios` cut the corpus by a hash of the dialogue and `seed`
    normalise  a form of Unicode that texts are brought into, such as NFKC; by default they stay as they are written
    address    where missing data can be had, as `pdl.data.to_get` takes it
    """

    def __init__(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        turns: str = "turns",
        text: str = "text",
        role: str = "role",
        buffer: Annotated[int, Range(0)] = 0,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        self.ratios = None if ratios is None else check_ratios("DialogueFile", ratios)
        if self.ratios is not None and split not in self.ratios:
            raise ConfigError(f"DialogueFile: split={split!r} is none of the ratios {listed(list(self.ratios))}")
        self.files, self.keys = files_at(path, address), (turns, text, role)
        self.buffer, self.split, self.seed, self.normalise, self.epoch = buffer, split, seed, normalise, 0

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next pass, whose order it decides."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Sample]:
        found = self._samples()
        rng = SampleRandom(self.seed, self.epoch, 0).fork("buffer")
        return drawn(found, self.buffer, rng) if self.buffer else found

    def _samples(self) -> Iterator[Sample]:
        for path in self.files:
            for _, turns, roles in dialogues(path, self.keys, self.normalise):
                text, begins = "\n".join(turns), [0]
                for turn in turns[:-1]:
                    begins.append(begins[-1] + len(turn) + 1)
                if self._chosen(text):
                    yield {"turns": turns, "roles": roles, "text": text, "begins": begins}

    def _chosen(self, text: str) -> bool:
        if self.ratios is None or self.split is None:
            return True
        return len(stable_split([text], self.ratios, self.split, seed=self.seed)) == 1

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        return StandIn({"path": str(standin.write_dialogues(folder, settings))}, standin.WHAT)


class Utterances(Texts):
    """The turns of dialogues, each with its class: what people say, and in which mood (DailyDialog).

    path       lines of turns, each with __eou__ behind it
    labels     a file with a line of numbers or names for each dialogue, one of each turn
    names      what the file's classes are called: {"0": none, "1": anger}
    classes    their names in the order of their numbers; by default those of `names`, or those that occur, sorted
    split      the part to take, where `ratios` cut the dialogues
    ratios     {train: 0.9, val: 0.1}: by a hash of the dialogue and `seed`, so all turns of one are in one split
    normalise  a form of Unicode that texts are brought into, such as NFKC; by default they stay as they are written
    address    where missing data can be had, as `pdl.data.to_get` takes it
    """

    def __init__(
        self,
        path: str | Path,
        labels: str | Path,
        *,
        names: Mapping[str, str] | None = None,
        classes: Sequence[str] | None = None,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        source, other = locate(path, address), locate(labels, address)
        spelled = {str(name): str(called) for name, called in (names or {}).items()}
        found = list(dialogues(source, ("turns", "text", "role"), normalise))
        with tables.opened(other) as file:
            said = {number: line.split() for number, line in enumerate(tables.lines_of(file, str(other)), 1)}
        for line, turns, _ in found:
            if len(said.get(line, ())) != len(turns):
                what = f"{len(turns)} turns, but {len(said.get(line, ()))} classes in {other.name}"
                raise fault(source, what, "give each turn its class, in the same line of the other file", line=line)
        kept = part_of("Utterances", ["\n".join(turns) for _, turns, _ in found], split, ratios, seed)
        chosen = found if kept is None else [found[i] for i in kept.tolist()]
        require_some(source, len(chosen), split)
        super().__init__(
            [turn for _, turns, _ in chosen for turn in turns],
            [spelled.get(name, name) for line, _, _ in chosen for name in said[line]],
            sources=source,
            lines=[line for line, turns, _ in chosen for _ in turns],
            classes=classes or (list(spelled.values()) or None),
        )
        self.split = split

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path, labels = standin.write_moods(folder, settings)
        return StandIn({"path": str(path), "labels": str(labels)}, standin.WHAT)


def dialogues(path: Path, keys: tuple[str, str, str], form: Normal | None) -> Iterator[Turns]:
    """The dialogues of a file, in order; blank lines left out."""
    if kind_of(path) == "json":
        yield from (_of_row(row, path, keys, form) for row in rows(path))
        return
    with tables.opened(path) as file:
        for number, line in enumerate(tables.lines_of(file, str(path)), 1):
            if not line.strip():
                continue
            parts = [normalised(part.strip(), form) for part in line.strip().split(TURN)]
            turns = parts[:-1] if not parts[-1] else parts
            if len(parts) < 2 or not all(turns):
                what = f"no turns, or an empty one: {line.strip()!r:.40}"
                raise fault(path, what, f"end each turn with {TURN}, or give JSON lines (*.jsonl)", line=number)
            yield number, turns, [at % 2 for at in range(len(turns))]


def _of_row(row: Row, path: Path, keys: tuple[str, str, str], form: Normal | None) -> Turns:
    key, text, role = keys
    given, advice = value(row, key, path), f'write {{"{key}": [{{"{text}": "Hello", "{role}": "Ada"}}, ...]}}, or texts'
    wrong = partial(fault, path, advice=advice, line=row[0])
    if not isinstance(given, list) or not given:
        raise wrong(f"{key} is {given!r:.40}, no list of turns")
    turns, roles, people = list[str](), list[int](), dict[str, int]()
    for at, turn in enumerate(given):
        said = turn.get(text) if isinstance(turn, dict) else turn
        who = turn.get(role) if isinstance(turn, dict) else str(at % 2)
        if not isinstance(said, str) or not said.strip() or who is None:
            raise wrong(f"turn {at + 1} is {turn!r:.40}, not a text with who says it")
        turns.append(normalised(said.strip(), form))
        roles.append(people.setdefault(str(who), len(people)))
    return row[0], turns, roles
