"""Writing a text for one that is read, such as its translation."""

from pdl_nlp.seq2seq.task import Seq2Seq
