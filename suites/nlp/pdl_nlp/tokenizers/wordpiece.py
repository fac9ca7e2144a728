"""WordPiece after BERT's basic tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers.base import BERT, BERT_PAIR, BERT_SINGLE, Encodings, Tokenizer, added_tokens
from pdl_nlp.tokenizers.unicode import bert_plan

LONGEST = 100
CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"),
    (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip
"""What decoding writes otherwise."""


class WordPiece(Tokenizer):
    """Words of the longest pieces that the vocabulary has (Devlin et al., arXiv 1810.04805); equal to HF `tokenizers`.

    Texts are normalised (see `pdl_nlp.tokenizers.unicode.bert_plan`: `clean`, `chinese`, `strip_accents`, `lower`) and
    split at white space and around punctuation. A word without pieces, or longer than `longest_word` characters, is the
    unknown token. Offsets are those of the text before normalisation.

    strip_accents   None: where letters are lowered
    prefix          what tokens begin with that go on in a word
    added           tokens that are found in a text before all else, with whether they take the white space on their
                    left and on their right: [["[MASK]", False, False], ...]; None: the special tokens
    """

    kind = "wordpiece"

    def __init__(
        self,
        tokens: Iterable[str],
        *,
        lower: bool = True,
        strip_accents: bool | None = None,
        clean: bool = True,
        chinese: bool = True,
        prefix: str = "##",
        longest_word: int = LONGEST,
        added: Sequence[Sequence[Any]] | None = None,
        special: Mapping[str, str] = BERT,
        single: Sequence[Sequence[Any]] = BERT_SINGLE,
        pair: Sequence[Sequence[Any]] = BERT_PAIR,
    ) -> None:
        super().__init__(tokens, special=special, single=single, pair=pair)
        self.lower, self.clean, self.chinese = bool(lower), bool(clean), bool(chinese)
        self.strip_accents = self.lower if strip_accents is None else bool(strip_accents)
        self.prefix, self.longest_word = str(prefix), int(longest_word)
        self.added = added_tokens(self, added)
        self._kernel = kernels.WordPiece(
            list(self.tokens),
            *bert_plan(self.lower, self.strip_accents, self.clean, self.chinese),
            prefix=self.prefix,
            unknown=self._needed("unknown", "a word without pieces"),
            longest=self.longest_word,
            added=[(token, self.number(token), left, right) for token, left, right in self.added],
        )

    def encode_many(self, texts: Sequence[str]) -> Encodings:
        return Encodings(*self._kernel.encode(texts))

    def joined(self, tokens: Sequence[str]) -> str:
        """Pieces joined to words, and these with a space between them but before punctuation."""
        return "".join(self._written(token, first=i == 0) for i, token in enumerate(tokens))

    def _written(self, token: str, *, first: bool) -> str:
        if first:
            return self._cleaned(token)
        if self.prefix and token.startswith(self.prefix):
            return self._cleaned(token.removeprefix(self.prefix))
        return self._cleaned(f" {token}")

    def _cleaned(self, token: str) -> str:
        for long, short in CLEANED:
            token = token.replace(long, short)
        return token

    def settings(self) -> dict[str, Any]:
        own = ("lower", "strip_accents", "clean", "chinese", "prefix", "longest_word")
        added = [list(each) for each in self.added]
        return {**{name: getattr(self, name) for name in own}, "added": added, **super().settings()}
