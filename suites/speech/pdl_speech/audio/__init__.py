"""Recordings: reading, writing and resampling, with NumPy alone for WAV and `soundfile` for other formats."""

from pdl_speech.audio.files import AUDIO_FILES, AudioInfo, audio_info, read_audio, write_audio
from pdl_speech.audio.resample import Resampler, resample

__all__ = ["AUDIO_FILES", "AudioInfo", "Resampler", "audio_info", "read_audio", "resample", "write_audio"]
