"""Tokenizers: texts to the numbers of tokens, with the position of each token in the original text, and back."""

from pdl_nlp.tokenizers.base import BERT, BERT_PAIR, BERT_SINGLE, Encoding, Encodings, Tokenizer
from pdl_nlp.tokenizers.bpe import ByteLevelBPE
from pdl_nlp.tokenizers.characters import Characters
from pdl_nlp.tokenizers.reading import read
from pdl_nlp.tokenizers.sentencepiece import SentencePiece
from pdl_nlp.tokenizers.unigram import Unigram
from pdl_nlp.tokenizers.wordpiece import WordPiece
from pdl_nlp.tokenizers.words import Words
