"""The names of pdl_speech: `pdl_speech` exports all that this module imports, on first use."""

from pdl_speech.classification import AudioClassification
from pdl_speech.models import (
    DSCNN,
    ECAPATDNN,
    PANN,
    AudioNet,
    BCResNet,
    Conformer,
    DeepSpeech2,
    DVector,
    FastSpeech2,
    MatchboxNet,
    QuartzNet,
    SileroVAD,
    SpeakerNet,
    SpeechNet,
    SpeechResNet,
    XVector,
)
from pdl_speech.recognition import SpeechRecognition
from pdl_speech.speakers import SpeakerVerification
from pdl_speech.synthesis import SpeechSynthesis
