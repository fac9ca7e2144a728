"""Pretraining of encoders: masked tokens, words, phrases and entities are found from what stands around them."""

from pdl_nlp.pretraining.task import MaskedLanguageModel
