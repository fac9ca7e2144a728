"""What `pdl_nlp` exports: tasks and models, by which recipes name them."""

from pdl_nlp.classification import TextClassification
from pdl_nlp.correction import Correction
from pdl_nlp.dialogue import Dialogue
from pdl_nlp.embedding import Embedding
from pdl_nlp.language_modelling import LanguageModel
from pdl_nlp.matching import Matching
from pdl_nlp.models import *
from pdl_nlp.pretraining import MaskedLanguageModel
from pdl_nlp.seq2seq import Seq2Seq
from pdl_nlp.span_extraction import SpanExtraction
from pdl_nlp.tagging import Tagging
from pdl_nlp.word_vectors import WordVectors
