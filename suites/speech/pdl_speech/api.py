"""The names of pdl_speech: `pdl_speech` exports all that this module imports, on first use."""

from pdl_speech.classification import AudioClassification
from pdl_speech.models import (
    DSCNN,
    PANN,
    AudioNet,
    BCResNet,
    Conformer,
    DeepSpeech2,
    MatchboxNet,
    QuartzNet,
    SileroVAD,
    SpeechNet,
    SpeechResNet,
)
from pdl_speech.recognition import SpeechRecognition
