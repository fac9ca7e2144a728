"""Short-time Fourier transforms against NumPy's, frame by frame."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.ops.base import apply
from pdl.ops.spectral import OverlapAdd

from .case import Case, draws

f, _ = draws(31)


def framed(
    x, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", padding=None,
    remove_dc=False, preemphasis=0.0,
):  # fmt: skip
    """Windowed frames [..., frames, n_fft]."""
    size = win_length or n_fft
    hop = hop_length or size // 4
    window = np.hanning(size + 1)[:-1] if window is None else window
    if padding is None:
        before = (n_fft - size) // 2
        window = np.pad(window, (before, n_fft - size - before))
        padding = (n_fft // 2,) * 2 if center else (0, 0)
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [padding], pad_mode)
    frames = np.lib.stride_tricks.sliding_window_view(x, len(window), axis=-1)[..., ::hop, :]
    frames = frames - frames.mean(-1, keepdims=True) if remove_dc else frames
    frames = frames - preemphasis * np.concatenate([frames[..., :1], frames[..., :-1]], -1)
    shaped = frames * window
    return np.concatenate([shaped, np.zeros((*shaped.shape[:-1], n_fft - len(window)))], -1)


def stft(x, window=None, **options):
    return np.fft.rfft(framed(x, window=window, **options))


def spectrogram(x, window=None, power=2, **options):
    return np.abs(stft(x, window, **options)) ** power


def mel_spectrogram(x, filters, window=None, log_floor=0.0, log_scale=1.0, **options):
    made = spectrogram(x, window, **options) @ filters
    return np.log(np.maximum(made, log_floor)) * log_scale if log_floor else made


def istft(x, window=None, *, n_fft, hop_length=None, win_length=None, center=True, length=None):
    size = win_length or n_fft
    hop = hop_length or size // 4
    before = (n_fft - size) // 2
    window = np.pad(np.hanning(size + 1)[:-1] if window is None else window, (before, n_fft - size - before))
    frames = np.fft.irfft(x, n_fft) * window
    whole = np.zeros((*x.shape[:-2], (x.shape[-2] - 1) * hop + n_fft))
    weights = np.zeros(whole.shape[-1])
    for i in range(x.shape[-2]):
        whole[..., i * hop : i * hop + n_fft] += frames[..., i, :]
        weights[i * hop : i * hop + n_fft] += window**2
    whole = np.where(weights > 1e-6, whole / np.where(weights > 1e-6, weights, 1), 0)
    start = n_fft // 2 if center else 0
    return whole[..., start : start + length if length else whole.shape[-1] - start]


def with_window(function):
    """The window as a second input, and its gradient."""

    def call(x, window, **options):
        return function(x, window=window, **options)

    call.__name__ = function.__name__
    return call


def with_filters(x, filters, window, **options):
    return pdl.mel_spectrogram(x, filters, window=window, **options)


def overlap_add(x, window, *, samples, n_fft, hop, padding, mode, remove_dc=False, preemphasis=0.0):
    op = OverlapAdd(n_fft, hop, padding, mode, remove_dc, preemphasis, samples)
    return apply(op, x, window)


def adjoint(x, window, *, samples, n_fft, hop, padding, mode, remove_dc=False, preemphasis=0.0):
    """Re <X, stft(e_i)> for each unit signal e_i."""
    basis = stft(
        np.eye(samples), window, n_fft=n_fft, win_length=len(window), hop_length=hop, padding=padding, pad_mode=mode,
        remove_dc=remove_dc, preemphasis=preemphasis,
    )  # fmt: skip
    return np.einsum("...fk,ifk->...i", x.conj(), basis).real


def z(*shape):
    return f(*shape) + 1j * f(*shape)


S, M = with_window(pdl.stft), with_window(pdl.spectrogram)
KALDI = {"padding": (3, 4), "pad_mode": "symmetric", "remove_dc": True, "preemphasis": 0.97}
WIDE = {"bf16": None, "why": "windows are float32 at least"}
CASES = [
    Case(pdl.stft, [f(2, 19)], stft, {"n_fft": 8}, bf16=8e-2),
    Case(S, [f(21), f(8)], stft, {"n_fft": 8, "hop_length": 3, "center": False}, bf16=8e-2),
    Case(S, [f(1, 2, 17), f(5)], stft, {"n_fft": 7, "win_length": 5, "hop_length": 2, "pad_mode": "constant"},
         bf16=8e-2),
    Case(S, [f(2, 23), f(6)], stft, {"n_fft": 10, "win_length": 6, "hop_length": 8, **KALDI}, bf16=8e-2),
    *(Case(M, [f(2, 20), f(9)], spectrogram, {"n_fft": 12, "win_length": 9, "hop_length": 4, "power": p, "pad_mode": m},
           bf16=8e-2) for p, m in ((1, "edge"), (2, "reflect"))),
    Case(pdl.spectrogram, [f(40)], spectrogram, {"n_fft": 22, "hop_length": 30}, bf16=8e-2),
    Case(pdl.mel_spectrogram, [f(3, 30), f(5, 3)], mel_spectrogram, {"n_fft": 8, "hop_length": 3}, bf16=8e-2),
    Case(with_filters, [f(2, 26), np.tril(f(9, 10), 2) * np.tri(9, 10, 4).T[::-1, ::-1].T, f(12)], mel_spectrogram,
         {"n_fft": 16, "win_length": 12, "hop_length": 5, "power": 1, **KALDI}, bf16=8e-2),
    Case(pdl.mel_spectrogram, [f(2, 30), np.abs(f(5, 3))], mel_spectrogram,
         {"n_fft": 8, "hop_length": 3, "log_floor": 0.05, "log_scale": 2.0}, bf16=8e-2),
    Case(pdl.istft, [z(2, 5, 5)], istft, {"n_fft": 8}),
    Case(with_window(pdl.istft), [z(4, 5), f(6) + 2], istft,
         {"n_fft": 9, "win_length": 6, "hop_length": 3, "center": False, "length": 14}),
    Case(overlap_add, [z(2, 6, 6), f(7)], adjoint,
         {"n_fft": 10, "hop": 3, "padding": (4, 3), "mode": "reflect", "samples": 15, "preemphasis": 0.5}, **WIDE),
    Case(overlap_add, [z(4, 5), f(9)], adjoint,
         {"n_fft": 9, "hop": 4, "padding": (5, 5), "mode": "edge", "samples": 12, "remove_dc": True}, **WIDE),
]  # fmt: skip
