"""The names of pdl_speech: `pdl_speech` exports all that this module imports, on first use."""

from pdl_speech.classification import AudioClassification
from pdl_speech.diarisation import Diariser
from pdl_speech.models import (
    CREPE,
    DSCNN,
    ECAPATDNN,
    PANN,
    AudioNet,
    AudioVGG,
    BCResNet,
    Conformer,
    DeepSpeech2,
    DVector,
    FastSpeech2,
    MatchboxNet,
    QuartzNet,
    SileroVAD,
    SlotNet,
    SpeakerNet,
    SpeechNet,
    SpeechResNet,
    WaveCNN,
    XVector,
)
from pdl_speech.recognition import SpeechRecognition
from pdl_speech.rescoring import Rescorer
from pdl_speech.slots import SlotFilling
from pdl_speech.speakers import SpeakerVerification
from pdl_speech.synthesis import SpeechSynthesis
from pdl_speech.transcription import Transcriber
