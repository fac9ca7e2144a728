"""The answer step of nets that write: the text of the tokens that a search has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pdl.runtime.steps import Resources
from pdl.runtime.steps.arguments import check, text
from pdl.runtime.steps.writing import Writes
from pdl_nlp.tokenizers.base import Tokenizer


class WrittenText(Writes):
    """The text that tokens of a tokenizer stand for, special ones left out; see `pdl.runtime.steps.writing.Writes`.

    vocabulary   of the numbers; arrays of the tokenizer are the constants NAME.ARGUMENT
    tokenizer    its plain settings; see `pdl_nlp.steps.tokens.held`
    strip        whether white space around the text is left out
    """

    name = "written_text"

    def __init__(self, vocabulary: str, tokenizer: Mapping[str, Any], strip: bool = False) -> None:
        check(isinstance(tokenizer, Mapping), f"tokenizer={tokenizer!r:.60} must be its settings")
        check(type(strip) is bool, f"strip={strip!r:.20} must be true or false")
        self.vocabulary, self.settings, self.strip = text("vocabulary", vocabulary), dict(tokenizer), strip

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        start = f"{self.vocabulary}."
        arrays = {k.removeprefix(start): v for k, v in resources.constants.items() if k.startswith(start)}
        self.tokenizer = Tokenizer.of(self.settings, {"tokens": resources.vocabularies[self.vocabulary]}, arrays)

    def text(self, tokens: Sequence[int]) -> str:
        found = self.tokenizer.decode(tokens)
        return found.strip() if self.strip else found
