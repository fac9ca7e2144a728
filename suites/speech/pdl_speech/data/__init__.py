"""Data sets of recordings, samples {"audio": float32 [T], "label": int}, {"audio", "text": str} or
{"audio", "slots": int64 [S]}, each with the `rate` of its waveforms."""

from pdl_speech.data.an4 import AN4
from pdl_speech.data.digits import FSDD, SpokenDigits
from pdl_speech.data.folder import AudioFolder
from pdl_speech.data.orders import SpokenOrders
from pdl_speech.data.others import WithOthers
from pdl_speech.data.sequences import DigitSequences
from pdl_speech.data.speakers import Speakers
from pdl_speech.data.table import AudioTable
from pdl_speech.data.transcripts import Transcripts

__all__ = [
    "AN4",
    "FSDD",
    "AudioFolder",
    "AudioTable",
    "DigitSequences",
    "Speakers",
    "SpokenDigits",
    "SpokenOrders",
    "Transcripts",
    "WithOthers",
]
