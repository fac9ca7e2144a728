"""Data sets of texts: rows of tables and of JSON, folders of classes, words with tags, streams of plain text."""

from pdl_nlp.data.base import Texts
from pdl_nlp.data.correction_file import CorrectionFile
from pdl_nlp.data.plain_text import PlainText
from pdl_nlp.data.question_file import QuestionFile
from pdl_nlp.data.tagged_file import TaggedFile
from pdl_nlp.data.text_file import TextFile
from pdl_nlp.data.text_folder import TextFolder
