"""Data sets of texts: tables, JSON, folders of classes, tagged words, translations, streams of plain text."""

from pdl_nlp.data.base import Texts
from pdl_nlp.data.corpus import Corpus
from pdl_nlp.data.correction_file import CorrectionFile
from pdl_nlp.data.dialogue_file import DialogueFile, Utterances
from pdl_nlp.data.parallel_text import ParallelText
from pdl_nlp.data.plain_text import PlainText
from pdl_nlp.data.question_file import QuestionFile
from pdl_nlp.data.tagged_file import TaggedFile
from pdl_nlp.data.text_file import TextFile
from pdl_nlp.data.text_folder import TextFolder
from pdl_nlp.data.with_pairs import WithPairs
