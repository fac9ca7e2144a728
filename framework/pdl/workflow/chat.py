"""A conversation: turns of a person and, behind each, what a model writes or finds for an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdl.errors import UsageError
from pdl.runtime.decoding.writer import streamed
from pdl.runtime.predict import Configured, Predictor, pipeline_of
from pdl.workflow.prediction import open_model


class Chat:
    """A conversation with a run, a bundle, a name of the hub, or what `open_model` gave. The model writes (a language
    model, or one that writes a text for a text), or ranks texts (those of `--search`), of which the best one answers.

    values   options of the model by name, as `pdl predict` has them: {"--temperature": ["0.7"], "--sample": ["yes"]}
    turns    how many of the last turns it reads, both sides counted; by default as many as fit, of a model that was
             made for dialogues or goes on with a text, and one of others

    UsageError for a model that has no answer to a text.
    """

    def __init__(
        self,
        model: str | Path | Predictor,
        values: Mapping[str, Sequence[str]] | None = None,
        *,
        turns: int | None = None,
    ) -> None:
        if turns is not None and turns < 1:
            raise UsageError(f"turns={turns}: the model reads at least the last one")
        predictor: Any = open_model(model) if isinstance(model, str | Path) else model
        pipeline, given = pipeline_of(predictor), dict(values or {})
        _, ends = pipeline.input.conversation(["?"])  # refuses what takes no text, before anything is said
        if pipeline.writes is not None and ends:
            given["--stop"] = [*predictor.writing.options.stop, *given.get("--stop", ()), *ends]
        self.predictor = Configured.of(predictor, given) if given else predictor
        self.pipeline, self.most = pipeline_of(self.predictor), turns
        self.turns: list[str] = []
        finds = any(steps[-1].finds_text for steps in self.pipeline.post.values() if steps)
        if self.pipeline.writes is None and not finds:
            if any(flag.name == "--search" for flag in self.pipeline.flags):
                raise UsageError("this model writes nothing, but finds the best of other texts: --search FILE")
            raise UsageError("one cannot talk with this model: it neither writes text nor ranks texts; use pdl predict")

    def stream(self, text: str) -> Iterator[str]:
        """The answer to a text, bit by bit where the model writes without beams; else at once. Both are turns of the
        conversation once it is complete."""
        item, pieces = self._item(text), list[str]()
        for piece in self._pieces(item):
            pieces.append(piece)
            yield piece
        self.turns += [text, "".join(pieces).strip()]

    def answer(self, text: str) -> dict[str, Any]:
        """The answer to a text: {"text": str, "score": float, ...}, a turn of the conversation as `stream` makes it."""
        found = self._best(self._item(text))
        self.turns += [text, str(found["text"]).strip()]
        return found

    def reset(self) -> None:
        """Begin anew: the model reads none of what was said."""
        self.turns = []

    def _item(self, text: str) -> Any:
        said = [*self.turns, text]
        return self.pipeline.input.conversation(said if self.most is None else said[-self.most :])[0]

    def _pieces(self, item: Any) -> Iterator[str]:
        if self.pipeline.writes is not None and self.predictor.writing.options.rows == 1:
            yield from streamed(self.predictor, item)
        else:
            yield str(self._best(item)["text"])

    def _best(self, item: Any) -> dict[str, Any]:
        (answer,) = self.pipeline.answers([item], self.predictor.run)
        rows = self.pipeline.rows(answer)
        return rows[0] if rows else {"text": ""}
