"""FastSpeech 2: Ren et al., FastSpeech 2: fast and high-quality end-to-end text to speech, 2020 (arXiv 2006.04558). How
long characters are is learned with it: Badlani et al., One TTS alignment to rule them all, 2021 (arXiv 2108.10447)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.decoder import positions
from pdl_speech.features import LogMel
from pdl_speech.models.audio_net import AudioNet
from pdl_speech.models.conformer import waves
from pdl_speech.ops import monotonic_alignment

Width = Annotated[int, Range(1)]
Odd = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
NEVER = -1e4
SHARPNESS = 0.1  # of alignments: what squared distances are multiplied by, as neighbouring bands are alike
SEMITONE = 1 / 12  # of an octave
DROPOUT = 0.5  # of predictors, as in the paper


class Block(nn.Module):
    """Attention, then two convolutions, each with dropout, in front of it a layer norm, around it a residual."""

    def __init__(self, dim: int, heads: int, hidden: int, kernel: int, dropout: float) -> None:
        self.attention = nn.MultiHeadAttention(dim, heads, dropout=dropout)
        self.first = nn.Conv1d(dim, hidden, kernel, padding=kernel // 2)
        self.last = nn.Linear(hidden, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, there: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, dim] -> the same shape; `there`, bool [N, T], says what is no padding."""
        mask = there.reshape(there.shape[0], 1, 1, there.shape[1])
        x = x + self.dropout(self.attention(self.norms[0](x), mask=mask))
        y = pdl.relu(self.first(masked(self.norms[1](x), there)))
        return x + self.dropout(self.last(self.dropout(y)))


class Blocks(nn.Module):
    """Positions as sines are added, then come blocks and a layer norm."""

    def __init__(self, count: int, dim: int, heads: int, hidden: int, kernel: int, dropout: float) -> None:
        self.blocks = nn.ModuleList(Block(dim, heads, hidden, kernel, dropout) for _ in range(count))
        self.scale = nn.Parameter(pdl.ones((1,)))
        self.norm, self.dropout = nn.LayerNorm(dim), nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, there: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, dim] -> the same shape, 0 where nothing is there (bool [N, T])."""
        x = self.dropout(x + self.scale * waves(pdl.astype(steps(x), pdl.float32).reshape(-1, 1), x.shape[2]))
        for block in self.blocks:
            x = block(x, there)
        return masked(self.norm(x), there)


class Predictor(nn.Module):
    """A number for each character: two convolutions, each with ReLU, layer norm and dropout, and a linear layer."""

    def __init__(self, dim: int, hidden: int, kernel: int, dropout: float) -> None:
        self.convs = nn.ModuleList(nn.Conv1d(width, hidden, kernel, padding=kernel // 2) for width in (dim, hidden))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2))
        self.dropout, self.last = nn.Dropout(dropout), nn.Linear(hidden, 1)

    def forward(self, x: pdl.Tensor, there: pdl.Tensor) -> pdl.Tensor:
        """x [N, U, dim] -> [N, U], 0 where nothing is there (bool [N, U])."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = self.dropout(norm(pdl.relu(conv(masked(x, there)))))
        return masked(self.last(x)[..., 0], there)


class Aligner(nn.Module):
    """Scores of frames and characters: the negative squared distance of a frame's energies from those that two
    convolutions say of a character and its neighbours, which are normal around them."""

    def __init__(self, dim: int, channels: int) -> None:
        self.first, self.last = nn.Conv1d(dim, 2 * dim, 3, padding=1), nn.Linear(2 * dim, channels)

    def forward(self, mel: pdl.Tensor, characters: pdl.Tensor) -> pdl.Tensor:
        """mel [N, T, channels], characters [N, U, dim] -> [N, T, U]."""
        means = self.last(pdl.relu(self.first(characters)))
        near = mel @ pdl.permute_dims(means, (0, 2, 1))
        far = pdl.sum(mel * mel, axis=2, keepdims=True) + pdl.expand_dims(pdl.sum(means * means, axis=2), axis=1)
        return SHARPNESS * (2.0 * near - far)


class Spoken(NamedTuple):
    """What a net says of texts [N, U] for their recordings, and what it is to say.

    mel, heard                          float32 [N, T, channels], normalised
    duration, pitch, energy             float32 [N, U]: ln frames, and numbers of mean 0 and variance 1
    durations                           int64 [N, U]: frames of each character
    pitch_heard, energy_heard           float32 [N, U]
    alignment                           float32 [N]: -ln of the probability of all alignments, by frames and bands
    frames, characters                  int64 [N]: the real ones
    """

    mel: pdl.Tensor
    heard: pdl.Tensor
    duration: pdl.Tensor
    pitch: pdl.Tensor
    energy: pdl.Tensor
    durations: pdl.Tensor
    pitch_heard: pdl.Tensor
    energy_heard: pdl.Tensor
    alignment: pdl.Tensor
    frames: pdl.Tensor
    characters: pdl.Tensor


class FastSpeech2(AudioNet):
    """Texts, int [N, U] (0: none), -> logarithms of mel energies, float32 [N, T, channels], and the frames of each.
    Characters are embedded and read by blocks, which say how long each is, how high and how loud; they are repeated for
    as many frames, and further blocks make spectra of these. Recipes give

    features    a `pdl_speech.features.LogMel` with natural logarithms, and nothing behind it
    characters  how many there are, 0 included
    dim         width of the blocks (the paper: 256)
    heads       of attention (2)
    encoder     blocks of characters (4)
    decoder     blocks of frames (4)
    hidden      channels of their convolutions (1024)
    kernel      characters or frames of these, odd (9)
    dropout     behind each part of a block (0.1); predictors have 0.5
    pretrained  a name of the hub, a bundle or a file of weights

    Alignments are the forward sum of Badlani et al., with their prior. But a frame goes with the character whose
    energies it is nearest to (as in Kim et al., arXiv 2005.11129), not by learned embeddings of both with a softmax
    over characters: of a quarter of an hour of one voice, these leave nearly all frames to the spaces. Pitch and energy
    are embedded by a convolution over characters (Łańcucki, arXiv 2006.06873) rather than in 256 classes, of which few
    recordings fill few. Layer norms stand in front of attention and convolutions, not behind them.
    """

    features: LogMel
    head: ClassVar[str] = "embedding"

    def __init__(
        self,
        *,
        features: LogMel,
        characters: Annotated[int, Range(2)] = 64,
        dim: Width = 256,
        heads: Width = 2,
        encoder: Width = 4,
        decoder: Width = 4,
        hidden: Width = 1024,
        kernel: Odd = 9,
        dropout: Rate = 0.1,
        pretrained: str | None = None,
    ) -> None:
        if dim % heads or dim % 2:
            raise ConfigError(f"FastSpeech2: dim={dim} must be even, and a multiple of heads={heads}")
        if kernel % 2 == 0:
            raise ConfigError(f"FastSpeech2: kernel={kernel} must be odd, so that it has a middle")
        plain = isinstance(features, LogMel) and features.log == "log" and features.center and features.top_db is None
        if not plain or len(features.then):
            raise ConfigError(
                "FastSpeech2: features must be a pdl_speech.features.LogMel with log: log and center: true, without "
                "top_db and `then`, so that sounds can be made of them"
            )
        self.features, channels = features, features.channels
        self.embedding = nn.Embedding(characters, dim)
        self.encoder = Blocks(encoder, dim, heads, hidden, kernel, dropout)
        self.decoder = Blocks(decoder, dim, heads, hidden, kernel, dropout)
        self.duration, self.pitch, self.energy = (Predictor(dim, dim, 3, DROPOUT) for _ in range(3))
        self.high, self.loud = (nn.Conv1d(1, dim, 3, padding=1) for _ in range(2))
        self.last = nn.Linear(dim, channels)
        self.aligner = Aligner(dim, channels)
        self.mean, self.std = (nn.Buffer(np.full(channels, x, np.float32), exact=True) for x in (0, 1))
        #: mean and deviation of pitch (octaves above 1 Hz) and of energy, frames of a character
        self.voice = nn.Buffer(np.array([7.5, 0.3, 0.0, 1.0, 8.0], np.float32), exact=True)
        self.finish_init(pretrained)

    mean: pdl.Tensor
    std: pdl.Tensor
    voice: pdl.Tensor

    # -- texts to spectra ----------------------------------------------------------------------------------------------
    def forward(  # type: ignore[override]
        self, texts: pdl.Tensor, manner: pdl.Tensor | None = None, places: pdl.Tensor | None = None
    ) -> tuple[pdl.Tensor, pdl.Tensor]:
        """texts int [N, U] -> ln mel energies [N, T, channels], those of silence behind the last frame, and how many
        frames each text has, int64 [N].

        manner  float32 [N, 2]: how many times as fast, and how many semitones higher
        places  int64 [N, T], 0 to T - 1, for so many frames at most, which T says alone; by default `room`
        """
        said = texts > 0
        x = self.encoder(self.embedding(texts), said)
        long = pdl.exp(pdl.clip(self._long(x, said), -1.0, 6.0))
        high = self.pitch(x, said)
        if manner is not None:
            long, high = long / manner[:, :1], high + manner[:, 1:] * SEMITONE / self.voice[1]
        durations = pdl.maximum(pdl.astype(pdl.round(long), pdl.int64), 1)
        durations = pdl.where(said, durations, 0)
        x = self._voiced(x, said, high)
        x = self._loud(x, said, self.energy(x, said))
        frames = pdl.sum(durations, axis=1)
        if places is None:
            places = pdl.expand_dims(pdl.arange(room(texts.shape[1])), axis=0)
        mel = self._spectra(expand(x, durations, places), places < pdl.expand_dims(frames, axis=1))
        return mel * self.std + self.mean, frames

    def _long(self, x: pdl.Tensor, said: pdl.Tensor) -> pdl.Tensor:
        """ln frames of each character."""
        return masked(self.duration(x, said) + pdl.log(self.voice[4]), said)

    def _voiced(self, x: pdl.Tensor, said: pdl.Tensor, high: pdl.Tensor) -> pdl.Tensor:
        return x + self.high(pdl.expand_dims(masked(high, said), axis=2))  # type: ignore[no-any-return]

    def _loud(self, x: pdl.Tensor, said: pdl.Tensor, loud: pdl.Tensor) -> pdl.Tensor:
        return x + self.loud(pdl.expand_dims(masked(loud, said), axis=2))  # type: ignore[no-any-return]

    def _spectra(self, x: pdl.Tensor, there: pdl.Tensor) -> pdl.Tensor:
        """Normalised mel energies [N, T, channels] of frames [N, T, dim]."""
        return self.last(self.decoder(x, there))  # type: ignore[no-any-return]

    # -- spectra of recordings -----------------------------------------------------------------------------------------
    def heard(self, sounds: pdl.Tensor, samples: pdl.Tensor) -> pdl.Tensor:
        """ln mel energies [N, T, channels] of recordings [N, samples]."""
        return self.features(sounds, samples)  # type: ignore[no-any-return]

    def align(self, texts: pdl.Tensor, heard: pdl.Tensor, prior: pdl.Tensor) -> pdl.Tensor:
        """ln p(frame, character) [N, T, U], but for a constant, of normalised mel energies [N, T, channels]."""
        scores = self.aligner(heard, self.embedding(texts)) + prior
        return pdl.where(pdl.expand_dims(texts > 0, axis=1), scores, NEVER)

    def learn(
        self, texts: pdl.Tensor, sounds: pdl.Tensor, samples: pdl.Tensor, prior: pdl.Tensor, contour: pdl.Tensor
    ) -> Spoken:
        """texts int64 [N, U] and their recordings, float32 [N, samples] with the samples of each, the `prior` of their
        alignments, ln, float32 [N, T, U], and the pitch of each frame in octaves above 1 Hz (0: none), float32 [N,
        T]."""
        n, u = texts.shape
        frames, said = self.features.frames(samples), texts > 0
        characters = pdl.sum(pdl.astype(said, pdl.int64), axis=1)
        mel = self.heard(sounds, samples).detach()
        places = pdl.expand_dims(steps(mel), axis=0)
        there = places < pdl.expand_dims(frames, axis=1)
        loud = masked(0.5 * pdl.logsumexp(mel, axis=2), there)
        heard = masked((mel - self.mean) / self.std, there)

        scores = self.align(texts, heard, prior)
        blank = pdl.full((n, scores.shape[1], 1), NEVER)  # every frame is of a character
        logs = pdl.concat([blank, scores], axis=2)
        numbers = pdl.expand_dims(pdl.arange(1, u + 1), axis=0) * pdl.astype(said, pdl.int64)
        alignment = pdl.ctc_loss(logs, numbers, frames, characters, reduction="none", zero_infinity=True)
        durations = monotonic_alignment(scores.detach(), frames, characters)

        path = paths(durations, places)
        each = pdl.astype(pdl.maximum(durations, 1), pdl.float32)
        two = pdl.stack([pdl.where(contour > 0, contour, self.voice[0]), loud], axis=2)
        two = pdl.permute_dims(path, (0, 2, 1)) @ two / pdl.expand_dims(each, axis=2)
        high = masked((two[..., 0] - self.voice[0]) / self.voice[1], said)
        strong = masked((two[..., 1] - self.voice[2]) / self.voice[3], said)

        x = self.encoder(self.embedding(texts), said)
        long, pitch = self._long(x, said), self.pitch(x, said)
        x = self._voiced(x, said, high)
        energy = self.energy(x, said)
        x = self._loud(x, said, strong)
        made = self._spectra(path @ x, there)
        alignment = alignment / (pdl.astype(frames, pdl.float32) * (SHARPNESS * heard.shape[2]))
        return Spoken(
            made, heard, long, pitch, energy, durations, high, strong, alignment, frames, characters
        )  # fmt: skip

    def fit(self, recordings: Iterable[tuple[Array, Array, int]]) -> None:
        """Set what is normalised by: mean and deviation of mel energies, pitch and energy, and how long a character is,
        of recordings, each a waveform [T], its pitch by frame in octaves (NaN: none) and how many characters it has."""
        mels, highs, count = list[Array](), list[Array](), 0
        for wave, high, characters in recordings:
            samples = pdl.as_tensor(np.array([len(wave)]))
            mels.append(self.heard(pdl.as_tensor(wave[None]), samples).numpy()[0].astype(np.float64))
            highs.append(high[np.isfinite(high)].astype(np.float64))
            count += characters
        mel, high = np.concatenate(mels), np.concatenate(highs)
        loud = 0.5 * np.log(np.exp(mel).sum(axis=1))
        mean, std = mel.mean(axis=0), np.maximum(mel.std(axis=0), 0.1)
        octave = (high.mean(), max(high.std(), 0.05)) if len(high) else (7.5, 0.3)
        voice = [*octave, loud.mean(), max(loud.std(), 0.1), len(mel) / max(1, count)]
        self.mean, self.std = (nn.Buffer(x.astype(np.float32), exact=True) for x in (mean, std))
        self.voice = nn.Buffer(np.array(voice, np.float32), exact=True)


def masked(x: pdl.Tensor, there: pdl.Tensor) -> pdl.Tensor:
    """x [N, T, ...] where something is there (bool [N, T]), elsewhere 0."""
    return pdl.where(there.reshape(*there.shape, *(1,) * (x.ndim - 2)), x, 0.0)


def steps(x: pdl.Tensor) -> pdl.Tensor:
    """0, 1, ..., T - 1 of x [N, T, D], int64 [T], for any T of a program."""
    return positions(x[:1, :, 0], pdl.zeros((1,), dtype=pdl.int64)).reshape(-1)


def room(characters: Any) -> Any:
    """Frames that there are for a text of so many characters, unless said otherwise: an int or a symbolic size."""
    return 64 + 16 * characters


def paths(durations: pdl.Tensor, places: pdl.Tensor) -> pdl.Tensor:
    """float32 [N, T, U]: 1 where frame `places[n, t]` is one of character u, whose durations are int64 [N, U]."""
    ends = pdl.expand_dims(pdl.cumulative_sum(durations, axis=1), axis=1)
    begins = ends - pdl.expand_dims(durations, axis=1)
    t = pdl.expand_dims(places, axis=2)
    return pdl.astype((t >= begins) & (t < ends), pdl.float32)


def expand(x: pdl.Tensor, durations: pdl.Tensor, places: pdl.Tensor) -> pdl.Tensor:
    """The length regulator: x [N, U, D], each character as often as its duration says, int64 [N, U], one behind the
    other, at `places` int64 [N, T] or [1, T] -> [N, T, D], 0 behind the last."""
    return paths(durations, places) @ x


TASK = "speech_synthesis"
VARIANTS = {"fast_speech_2": {"_target_": "pdl_speech.FastSpeech2"}}
