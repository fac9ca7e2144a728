"""Recordings: reading, writing and resampling, with NumPy alone for WAV and `soundfile` for other formats; the pitch of
voices, and waveforms from spectra."""

from pdl_speech.audio.files import AUDIO_FILES, AudioInfo, audio_info, read_audio, write_audio
from pdl_speech.audio.griffin_lim import GriffinLim, MelVocoder, Unmel
from pdl_speech.audio.pitch import pitch
from pdl_speech.audio.resample import Resampler, resample

__all__ = [
    "AUDIO_FILES", "AudioInfo", "GriffinLim", "MelVocoder", "Resampler", "Unmel", "audio_info", "pitch", "read_audio",
    "resample", "write_audio",
]  # fmt: skip
