"""The models: one file per family."""

from pdl_nlp.models.base import CorrectionModel, MatchingModel, ReadingModel, Seq2SeqModel, TextModel
from pdl_nlp.models.bert import (
    BERT,
    BERTClassifier,
    BERTCorrector,
    BERTForPretraining,
    BERTReader,
    BERTTagger,
    SentenceEncoder,
)
from pdl_nlp.models.bidaf import BiDAF
from pdl_nlp.models.bow import BoW
from pdl_nlp.models.dpcnn import DPCNN
from pdl_nlp.models.ernie_gen import ERNIEGen
from pdl_nlp.models.esim import ESIM
from pdl_nlp.models.gpt import GPT, LanguageDecoder
from pdl_nlp.models.rnn_corrector import RNNCorrector
from pdl_nlp.models.rnn_seq2seq import RNNSeq2Seq
from pdl_nlp.models.rnn_tagger import RNNTagger, TaggingModel
from pdl_nlp.models.sim_net import SimNet
from pdl_nlp.models.text_cnn import TextCNN
from pdl_nlp.models.text_rnn import TextRNN
from pdl_nlp.models.transformer import Transformer
from pdl_nlp.models.word2vec import FastText, Word2Vec
