"""The models: one file per family."""

from pdl_nlp.models.base import TextModel
from pdl_nlp.models.bert import BERT, BERTClassifier, SentenceEncoder
from pdl_nlp.models.bow import BoW
from pdl_nlp.models.dpcnn import DPCNN
from pdl_nlp.models.rnn_tagger import RNNTagger, TaggingModel
from pdl_nlp.models.text_cnn import TextCNN
from pdl_nlp.models.text_rnn import TextRNN
