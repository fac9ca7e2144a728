"""Small vocabularies, made by hand."""

from __future__ import annotations

from typing import Any

from pdl_nlp.tokenizers import BERT, ByteLevelBPE, WordPiece
from pdl_nlp.tokenizers.bpe import ALPHABET

#: the vocabulary of BERT's own test (google-research/bert, tokenization_test.py), behind the special tokens
PIECES = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", ","]
MERGES = [("l", "o"), ("lo", "w"), ("Ġ", "low"), ("e", "r"), ("Ġlow", "er"), ("Ġ", "Ġ"), ("ä", "\xb8"), ("ä\xb8", "Ń")]


def wordpiece(tokens: list[str] = PIECES, **settings: Any) -> WordPiece:
    return WordPiece([*BERT.values(), *tokens], **settings)


def bpe(merges: list[tuple[str, str]] = MERGES, **settings: Any) -> ByteLevelBPE:
    tokens = dict.fromkeys(["<s>", "</s>", "<mask>", *ALPHABET.values(), *(a + b for a, b in merges)])
    special = {"cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    return ByteLevelBPE.read(list(tokens), merges, special=special, **settings)
