"""Front ends against librosa, torchaudio and kaldi-native-fbank, where these are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl_speech.features import MFCC, PCEN, Deltas, Fbank, Features, KaldiMFCC, LogMel
from pdl_speech.features.filters import mel_filters

from .test_features import RATE, WAVES

WAVE = WAVES[0]
LIBROSA: dict[str, Any] = {
    "n_fft": 2048,
    "hop_length": 512,
    "mel_scale": "slaney",
    "norm": "slaney",
    "pad_mode": "constant",
}
SAME = {"rtol": 1e-4, "atol": 1e-4}


def found(features: Features) -> Any:
    return features(pdl.Tensor(WAVE[None])).numpy()[0]


def test_librosa() -> None:
    librosa = pytest.importorskip("librosa")
    expected = librosa.power_to_db(librosa.feature.melspectrogram(y=WAVE, sr=RATE)).T
    np.testing.assert_allclose(found(LogMel(n_mels=128, log="db", top_db=80.0, **LIBROSA)), expected, **SAME)
    expected = librosa.feature.mfcc(y=WAVE, sr=RATE, lifter=22).T
    np.testing.assert_allclose(found(MFCC(n_mfcc=20, n_mels=128, lifter=22, **LIBROSA)), expected, **SAME)
    energy = librosa.feature.melspectrogram(y=WAVE * 2**31, sr=RATE, power=1)
    expected = librosa.pcen(energy, sr=RATE).T
    np.testing.assert_allclose(found(PCEN(n_mels=128, start="one", **LIBROSA)), expected, **SAME)


def test_torchaudio() -> None:
    torch, audio = pytest.importorskip("torch"), pytest.importorskip("torchaudio")
    wave = torch.tensor(WAVE)
    for options in ({}, {"win_length": 320, "power": 1}, {"norm": "slaney", "mel_scale": "slaney", "center": False}):
        made = {"n_fft": 400, "hop_length": 160, "n_mels": 64, **options}
        expected = audio.transforms.MelSpectrogram(RATE, **made)(wave).T.numpy()
        # its filters are computed in float32: 4e-4 of small energies
        np.testing.assert_allclose(found(LogMel(log="none", **made)), expected, rtol=1e-3, atol=1e-4 * expected.max())
    filters = audio.functional.melscale_fbanks(257, 50.0, 7000.0, 40, RATE)
    np.testing.assert_allclose(filters, mel_filters(40, 512, RATE, f_min=50, f_max=7000), atol=2e-5)
    mel = found(LogMel(n_mels=40))
    first = audio.functional.compute_deltas(torch.tensor(mel.T.copy()))
    second = audio.functional.compute_deltas(first)
    made = found(LogMel(n_mels=40, then=[Deltas()]))
    np.testing.assert_allclose(made, np.concatenate([mel, first.T, second.T], axis=1), **SAME)


@pytest.mark.parametrize("snip_edges", [True, False])
def test_kaldi(snip_edges: bool) -> None:
    kaldi, audio = pytest.importorskip("kaldi_native_fbank"), pytest.importorskip("torchaudio.compliance.kaldi")
    import torch

    for window, name in (("povey", "povey"), ("hamming", "hamming"), ("hann", "hanning")):
        options = kaldi.FbankOptions()
        options.frame_opts.dither, options.frame_opts.snip_edges, options.frame_opts.window_type = 0, snip_edges, name
        options.mel_opts.num_bins = 80
        peer = kaldi.OnlineFbank(options)
        peer.accept_waveform(RATE, WAVE * 32768)
        peer.input_finished()
        expected = np.stack([peer.get_frame(i) for i in range(peer.num_frames_ready)])
        # a band of e^-20 of the loudest one's energy is what rounding in float32 leaves of it
        tolerance = {"rtol": 1e-4, "atol": 1e-4 * expected.max()}
        np.testing.assert_allclose(found(Fbank(snip_edges=snip_edges, window=window)), expected, **tolerance)
    options = {"num_mel_bins": 40, "high_freq": -400.0, "dither": 0.0, "snip_edges": snip_edges}
    expected = audio.fbank(torch.tensor(WAVE[None]) * 32768, **options).numpy()
    np.testing.assert_allclose(found(Fbank(snip_edges=snip_edges, n_mels=40, f_max=-400)), expected, **tolerance)


@pytest.mark.parametrize("snip_edges", [True, False])
@pytest.mark.parametrize("energy", ["raw", "windowed", None])
def test_cepstra_of_kaldi(energy: Any, snip_edges: bool) -> None:
    kaldi, audio = pytest.importorskip("kaldi_native_fbank"), pytest.importorskip("torchaudio.compliance.kaldi")
    import torch

    for bands, cepstra, lifter, mean in ((23, 13, 22.0, 0.0), (40, 40, 0.0, 0.1)):
        wave = WAVE + np.float32(mean)
        options = kaldi.MfccOptions()
        options.frame_opts.dither, options.frame_opts.snip_edges = 0, snip_edges
        options.mel_opts.num_bins, options.num_ceps, options.cepstral_lifter = bands, cepstra, lifter
        options.use_energy, options.raw_energy = energy is not None, energy == "raw"
        peer = kaldi.OnlineMfcc(options)
        peer.accept_waveform(RATE, wave * 32768)
        peer.input_finished()
        expected = np.stack([peer.get_frame(i) for i in range(peer.num_frames_ready)])
        net = KaldiMFCC(n_mels=bands, n_mfcc=cepstra, lifter=lifter, energy=energy, snip_edges=snip_edges)
        made = net(pdl.Tensor(wave[None])).numpy()[0]
        tolerance = {"rtol": 0, "atol": 1e-4 * np.abs(expected).max()}
        np.testing.assert_allclose(made, expected, **tolerance)
        given = {"num_mel_bins": bands, "num_ceps": cepstra, "cepstral_lifter": lifter, "dither": 0.0}
        given |= {"use_energy": energy is not None, "raw_energy": energy == "raw", "snip_edges": snip_edges}
        expected = audio.mfcc(torch.tensor(wave[None]) * 32768, energy_floor=0.0, **given).numpy()
        np.testing.assert_allclose(made, expected, **tolerance)


def test_transforms_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"n_fft": 512, "hop_length": 160, "win_length": 400}
    window = torch.hann_window(400)
    expected = torch.stft(torch.tensor(WAVE), window=window, return_complex=True, **options)
    made = pdl.stft(WAVE, **options)
    np.testing.assert_allclose(made.numpy(), expected.T, **SAME)
    back = pdl.istft(made, length=len(WAVE), **options).numpy()
    np.testing.assert_allclose(back, torch.istft(expected, window=window, length=len(WAVE), **options), **SAME)
    np.testing.assert_allclose(back, WAVE, **SAME)
