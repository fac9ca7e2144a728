"""Conversations with models that write: turns are kept, streamed and forgotten; the command reads pipes."""

from __future__ import annotations

import io
import json
from typing import ClassVar

import pytest

from pdl.cli import main
from pdl.errors import UsageError
from pdl.export.bundle import write
from pdl.runtime import load
from pdl.runtime.steps import registry
from pdl.workflow import Chat
from tests.framework.runtime.decoders import Attention, Digits, deployment, drawn

LETTERS = "abcdefghijk"


class Spoken(Digits):
    """Turns of letters, as the model writes them, or of numbers; those that have been said one behind the other."""

    heard: ClassVar[list[list[str]]] = []

    def parse(self, item, sample):
        numbers = [LETTERS.index(each) if each in LETTERS else int(each) for each in str(item).split()]
        return super().parse(" ".join(map(str, numbers)), sample)

    def conversation(self, turns):
        self.heard.append(list(turns))
        return " ".join(" ".join(turn) if turn.isalpha() else turn for turn in turns), ("d",)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.OWN, "digits", Spoken)
    monkeypatch.setattr(Spoken, "heard", [])
    made = tmp_path / "model.pdl"
    write(made, deployment(drawn(Attention(sources=False)), max_length=6))
    return made


def test_turns_are_kept_and_forgotten(path) -> None:
    session = load(path)
    chat = Chat(session)
    said = "".join(chat.stream("3 4"))
    assert said == session.with_options(stop=["d"])("3 4")["text"]
    assert "d" not in said
    assert chat.turns == ["3 4", said]
    assert chat.answer("5")["text"] == chat.turns[-1]
    assert Spoken.heard[-1] == ["3 4", said, "5"]
    chat.reset()
    assert chat.answer("3 4")["text"] == said
    short = Chat(session, {"--beam": ["2"]}, turns=1)
    assert "".join(short.stream("7")) == session.with_options(beams=2, stop=["d"])("7")["text"]
    list(short.stream("8 1"))
    assert Spoken.heard[-1] == ["8 1"]
    with pytest.raises(UsageError, match="turns=0"):
        Chat(session, turns=0)


def test_the_command_answers_lines(path, capsys, monkeypatch) -> None:
    chat = Chat(path)
    expected = ["".join(chat.stream(turn)) for turn in ("3 4", "5")]
    monkeypatch.setattr("sys.stdin", io.StringIO("3 4\n\n5\n/reset\n3 4\n"))
    assert main(["chat", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [*expected, expected[0]]
    assert main(["chat", str(path), "3 4", "5", "--json", "--max-length", "6"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["turn"], line["text"]) for line in lines] == list(zip(["3 4", "5"], expected, strict=True))
    assert main(["chat", str(path), "--help"]) == 0
    assert "--top-p P" in capsys.readouterr().out
    for words, message in (([], "pdl chat RUN"), ([str(path), "3", "--temperature", "2"], "add --sample")):
        assert main(["chat", *words]) == 2
        assert message in capsys.readouterr().err or not words


def test_models_that_cannot_answer_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(registry.OWN, "digits", Digits)
    write(tmp_path / "model.pdl", deployment(drawn(Attention(sources=False)), max_length=6))
    with pytest.raises(UsageError, match="one cannot talk with this model: it takes a text"):
        Chat(tmp_path / "model.pdl")
