"""Language models: texts are written token by token, each from those before it."""

from pdl_nlp.language_modelling.task import LanguageModel
