"""Questions about paragraphs, with the pieces of these that answer them: JSON of SQuAD's form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from pdl.data import Dataset, Sample, digest
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.hints import Range
from pdl.runtime import tables
from pdl_nlp.data import standin
from pdl_nlp.data.base import part_of, require_some
from pdl_nlp.data.reading import locate


class Question(NamedTuple):
    """A question about a paragraph.

    name       what the file calls it (id)
    text       the question
    paragraph  the number of its paragraph
    answers    pieces of the paragraph that answer it; none where nothing there does
    starts     where each begins, in code points
    moved      the answers that the file says are elsewhere: (answer, where the file says, where it is)
    """

    name: str
    text: str
    paragraph: int
    answers: list[str]
    starts: list[int]
    moved: list[tuple[str, int, int]]


class QuestionFile(Dataset):
    """Questions about paragraphs: JSON of the form of SQuAD (Rajpurkar et al., arXiv 1606.05250 and 1806.03822), which
    CMRC 2018 and DRCD have, too. Sample i is {"question": str, "paragraph": str, "answers": list of str, "starts":
    int64 [A], where each begins in the paragraph, in code points}; no answers where the paragraph has none.

    An answer that is not at its `answer_start` is taken from the nearest place that has it, which `pdl check` reports;
    one that its paragraph does not have is an error.

    path     a relative one is also looked for below PDL_DATA; .gz, .bz2 and .xz are unpacked
    split    the part to take, where `ratios` cut the file
    ratios   {train: 0.9, val: 0.1}: by a hash of the paragraph and `seed`, so that no paragraph is in two splits
    address  where a missing file can be had, as `pdl.data.to_get` takes it
    """

    foldable = True
    classes: list[str] = []  # noqa: RUF012  of no kind

    def __init__(
        self,
        path: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        address: str | None = None,
    ) -> None:
        self.source, self.split = locate(path, address), split
        self.paragraphs, found = _read(self.source)
        keys = [self.paragraphs[each.paragraph] for each in found]
        kept = part_of("QuestionFile", keys, split, ratios, seed)
        self.questions = found if kept is None else [found[i] for i in kept.tolist()]
        require_some(self.source, len(self.questions), split)

    def __len__(self) -> int:
        return len(self.questions)

    def __getitem__(self, index: int) -> Sample:
        each = self.questions[index]
        text, starts = self.paragraphs[each.paragraph], np.array(each.starts, np.int64)
        return {"question": each.text, "paragraph": text, "answers": each.answers, "starts": starts}

    def path_of(self, index: int) -> str | None:
        return f"{self.source}, question {self.questions[index].name}"

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of questions, paragraphs and answers."""
        asked = (f"{each.text}\n{each.answers}\n{each.starts}" for each in self.questions)
        return digest(type(self).__name__, *asked, *(self.paragraphs[each.paragraph] for each in self.questions))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        return StandIn({"path": str(standin.write_questions(folder, settings))}, standin.WHAT)


def _read(path: Path) -> tuple[list[str], list[Question]]:
    with tables.opened(path) as file:
        whole = "".join(tables.lines_of(file, str(path)))
    try:
        tree = json.loads(whole)
    except ValueError as error:
        raise fault(
            path, f"no JSON ({error})", "give a file of SQuAD's form: {'data': [{'paragraphs': [...]}]}"
        ) from None
    paragraphs, questions = list[str](), list[Question]()
    for article in _part(tree, "data", list, path, ""):
        for paragraph in _part(article, "paragraphs", list, path, ""):
            text = _part(paragraph, "context", str, path, "")
            for each in _part(paragraph, "qas", list, path, ""):
                name = str(each.get("id", len(questions))) if isinstance(each, dict) else str(len(questions))
                asked = _part(each, "question", str, path, name)
                found = list(_answers(each, text, path, name))
                answers, starts = [answer for answer, _, _ in found], [start for _, start, _ in found]
                moved = [(answer, said, start) for answer, start, said in found if said != start]
                questions.append(Question(name, asked, len(paragraphs), answers, starts, moved))
            paragraphs.append(text)
    return paragraphs, questions


def _answers(question: Any, paragraph: str, path: Path, name: str) -> Iterator[tuple[str, int, int]]:
    """Each answer, where it is, and where the file says it is."""
    if question.get("is_impossible"):
        return
    for each in _part(question, "answers", list, path, name):
        answer, said = _part(each, "text", str, path, name), _part(each, "answer_start", int, path, name)
        if not answer:
            raise fault(path, f"question {name}: an empty answer", "give it a text, or no answer at all (answers: [])")
        start = said if said >= 0 and paragraph.startswith(answer, said) else _nearest(paragraph, answer, said)
        if start < 0:
            what = f"question {name}: its paragraph does not have the answer {answer!r:.60}"
            raise fault(path, what, "answers must be pieces of the paragraph, letter by letter: correct it")
        yield answer, start, said


def _nearest(text: str, part: str, place: int) -> int:
    """Where a part of a text begins, of several places the nearest one; -1 where it has none."""
    found, at = list[int](), text.find(part)
    while at >= 0:
        found.append(at)
        at = text.find(part, at + 1)
    return min(found, key=lambda start: abs(start - place), default=-1)


def _part(tree: Any, key: str, kind: type, path: Path, name: str) -> Any:
    """The value of a key of SQuAD's form, of this kind."""
    found = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        where = f"question {name}: " if name else ""
        what = f"{where}{key!r} is {'missing' if found is None else repr(found)[:40]}, expected {kind.__name__}"
        form = "{'data': [{'paragraphs': [{'context', 'qas': [{'question', 'answers': [{'text', 'answer_start'}]}]}]}]}"
        raise fault(path, what, f"SQuAD's form is {form}")
    return found
