"""pdl-nlp: text for pdl. Tokenizers are in `pdl_nlp.tokenizers`, data sets in `pdl_nlp.data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_nlp.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_nlp.OldName": "pdl_nlp.NewName"}; recipes with the old ones keep working."""

INIT = {
    "classification": "pdl_nlp.classification.init:write_recipe",
    "dialogue": "pdl_nlp.dialogue.init:write_recipe",
    "embedding": "pdl_nlp.embedding.init:write_recipe",
    "correction": "pdl_nlp.correction.init:write_recipe",
    "language_modelling": "pdl_nlp.language_modelling.init:write_recipe",
    "matching": "pdl_nlp.matching.init:write_recipe",
    "pretraining": "pdl_nlp.pretraining.init:write_recipe",
    "seq2seq": "pdl_nlp.seq2seq.init:write_recipe",
    "span_extraction": "pdl_nlp.span_extraction.init:write_recipe",
    "tagging": "pdl_nlp.tagging.init:write_recipe",
    "word_vectors": "pdl_nlp.word_vectors.init:write_recipe",
}
"""What `pdl init nlp.<task>` calls."""

VOCAB = dict.fromkeys(
    ("characters", "words", "wordpiece", "bpe", "unigram", "sentencepiece_bpe"),
    "pdl_nlp.tokenizers.command:write_vocabulary",
)
"""What `pdl vocab <kind>` calls."""

__getattr__, __dir__ = names_of("pdl_nlp.api")
