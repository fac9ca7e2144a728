"""Front ends of nets: waveforms in, frames of features out, as modules that are part of the net and of its program."""

from pdl_speech.features.augment import VTLP, SpecAugment
from pdl_speech.features.base import Features, FrameLayer
from pdl_speech.features.cepstra import MFCC, KaldiMFCC
from pdl_speech.features.deltas import Deltas
from pdl_speech.features.fbank import Fbank
from pdl_speech.features.given import Given
from pdl_speech.features.mel import LogMel, Spectrogram
from pdl_speech.features.normalisation import CMVN, GlobalCMVN
from pdl_speech.features.pcen import PCEN
from pdl_speech.features.samples import Samples

__all__ = [
    "CMVN", "MFCC", "PCEN", "VTLP", "Deltas", "Fbank", "Features", "FrameLayer", "Given", "GlobalCMVN", "KaldiMFCC",
    "LogMel", "Samples", "SpecAugment", "Spectrogram",
]  # fmt: skip
