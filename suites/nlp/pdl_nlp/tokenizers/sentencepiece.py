"""SentencePiece, unigram and BPE, by the library of that name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, PackageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers.base import BERT, BERT_PAIR, BERT_SINGLE, FIRST, SECOND, Encodings, Tokenizer

SPACE = "\u2581"
"""How pieces write a space."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class SentencePiece(Tokenizer):
    """A model of SentencePiece (Kudo & Richardson, arXiv 1808.06226): numbers and offsets are the library's, which
    normalises texts as the model says. A word begins with a piece that begins with a space.

    model   uint8: the bytes of its .model file; its pieces are the tokens
    """

    kind = "sentencepiece"

    def __init__(self, tokens: Iterable[str], model: Array, **common: Any) -> None:
        super().__init__(tokens, **common)
        self.model = np.ascontiguousarray(model, np.uint8)
        self._processor = processor(self.model.tobytes(), "the constant 'model'")
        if pieces(self._processor) != list(self.tokens):
            raise DataError(f"sentencepiece: the {len(self.tokens):,} tokens are not the pieces of the model")
        self._begins = np.array([token.startswith(SPACE) for token in self.tokens], np.uint8)

    @classmethod
    def read(cls, model: bytes, source: str) -> SentencePiece:
        """From the bytes of a .model file. [CLS] and [SEP] are put around a text where the model has both."""
        found = processor(model, source)
        tokens = pieces(found)
        special = {"unknown": tokens[found.unk_id()]}
        special |= {"pad": tokens[found.pad_id()]} if found.pad_id() >= 0 else {}
        special |= {part: BERT[part] for part in ("cls", "sep", "mask") if BERT[part] in tokens}
        whole = {"cls", "sep"} <= special.keys()
        single, pair = (BERT_SINGLE, BERT_PAIR) if whole else (((FIRST, 0),), ((FIRST, 0), (SECOND, 1)))
        return cls(tokens, np.frombuffer(model, np.uint8), special=special, single=single, pair=pair)

    def encode_many(self, texts: Sequence[str]) -> Encodings:
        given = [_SURROGATES.sub("\ufffd", text) for text in texts]
        one = len(given) == 1  # the library takes lists slowly
        messages = self._processor.encode(given[0] if one else given, out_type="serialized_proto", num_threads=1)
        return Encodings(*kernels.sentencepiece([messages] if one else messages, self._begins))

    def joined(self, tokens: Sequence[str]) -> str:
        return str(self._processor.decode_pieces(list(tokens)))

    def arrays(self) -> dict[str, Array]:
        return {"model": self.model}


def library() -> Any:
    """The module `sentencepiece`; PackageError where it is not installed."""
    try:
        import sentencepiece
    except ImportError as error:
        said = "a SentencePiece model needs the library sentencepiece; type: pip install 'pdl-nlp[sentencepiece]'"
        raise PackageError(said) from error
    return sentencepiece


def processor(model: bytes, source: str) -> Any:
    """The library's processor of a model; DataError for bytes that are none."""
    found = library().SentencePieceProcessor()
    try:
        found.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise DataError(f"{source}: no model of SentencePiece ({' '.join(str(error).split())[:200]})") from None
    return found


def pieces(found: Any) -> list[str]:
    """The pieces of a processor by number."""
    return [found.id_to_piece(number) for number in range(found.get_piece_size())]
