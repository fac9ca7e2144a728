"""The models: one file per family."""

from pdl_speech.models.audio_net import AudioNet
from pdl_speech.models.audio_vgg import AudioVGG
from pdl_speech.models.bc_resnet import BCResNet
from pdl_speech.models.conformer import Conformer
from pdl_speech.models.crepe import CREPE
from pdl_speech.models.d_vector import DVector
from pdl_speech.models.deep_speech_2 import DeepSpeech2
from pdl_speech.models.ds_cnn import DSCNN
from pdl_speech.models.ecapa_tdnn import ECAPATDNN
from pdl_speech.models.fast_speech import FastSpeech2
from pdl_speech.models.matchbox_net import MatchboxNet
from pdl_speech.models.panns import PANN
from pdl_speech.models.quartz_net import QuartzNet
from pdl_speech.models.res8 import SpeechResNet
from pdl_speech.models.silero_vad import SileroVAD
from pdl_speech.models.slot_net import SlotNet
from pdl_speech.models.speaker_net import SpeakerNet
from pdl_speech.models.speech_net import SpeechNet
from pdl_speech.models.wave_cnn import WaveCNN
from pdl_speech.models.x_vector import XVector

__all__ = [
    "CREPE", "ECAPATDNN", "PANN", "AudioNet", "AudioVGG", "BCResNet", "Conformer", "DSCNN", "DVector", "DeepSpeech2",
    "FastSpeech2", "MatchboxNet", "QuartzNet", "SileroVAD", "SlotNet", "SpeakerNet", "SpeechNet", "SpeechResNet",
    "WaveCNN", "XVector",
]  # fmt: skip
