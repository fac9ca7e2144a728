"""Observables as questions: Pauli words and names in, the numbers of their letters out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl_quantum.steps.pauli_words import PARTS, PauliWordInput
from tests.pipelines import pipeline as made

PRE = {part: [{"step": "pauli_word", "part": part, "num_qubits": 3, "names": ["energy"]}] for part in PARTS}


def pipeline() -> Pipeline:
    return made(PRE)


@pytest.mark.parametrize(
    ("item", "word", "named"),
    [
        ("Z0 X2", [3, 0, 1], 0),
        ("Y1Z0", [3, 2, 0], 0),
        ("XIY", [1, 0, 2], 0),
        ("I2", [0, 0, 0], 0),
        (" energy ", [0, 0, 0], 1),
    ],
)
def test_words_and_names_become_numbers(item: str, word: list[int], named: int) -> None:
    found = pipeline().prepare(item)
    assert (found["word"].tolist(), found["named"].tolist()) == (word, named)


@pytest.mark.parametrize("item", ["Z3", "Z0 X0", "A0", "ZZ", "", "Z0 + X1", "enrgy"])
def test_what_is_no_word_is_refused(item: str) -> None:
    with pytest.raises(DataError, match="no product of Pauli matrices on 3 qubits"):
        pipeline().prepare(item)


def test_a_file_has_a_word_a_line(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Z0\n\nX0 X1\n")
    (tmp_path / "words.csv").write_text("word,note\nZ0,a\nenergy,b\n")
    step = PauliWordInput("word", 3, ["energy"])
    assert [each.item for each in step.file(tmp_path / "words.txt")] == ["Z0", "X0 X1"]
    assert [each.item for each in step.file(tmp_path / "words.csv")] == ["Z0", "energy"]
    assert [flag.name for flag in step.flags] == ["--word"]


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="must be one of word, named"):
        PauliWordInput("letters", 3)
    with pytest.raises(UsageError, match="num_qubits=0"):
        PauliWordInput("word", 0)
