"""Conformer: Gulati et al., Conformer: convolution-augmented transformer for speech recognition, 2020 (arXiv
2005.08100)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.decoder import positions
from pdl_speech.features import Features
from pdl_speech.models.audio_net import as_image
from pdl_speech.models.speech_net import Real, SpeechNet

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
PERIOD = 10_000.0  # of the slowest wave of positions, over 2 pi
NEVER = -1e9


class Subsampling(nn.Module):
    """Two convolutions of 3 x 3 with stride 2 over time and frequency, and a linear layer."""

    def __init__(self, in_channels: int, dim: int) -> None:
        self.convs = nn.ModuleList(nn.Conv2d(before, dim, 3, stride=2, padding=1) for before in (1, dim))
        self.out = dim * -(-in_channels // 4)
        self.last = nn.Linear(self.out, dim)

    def forward(self, x: pdl.Tensor, real: Real) -> tuple[pdl.Tensor, Real]:
        """x [N, T, in_channels] -> [N, T / 4, dim]."""
        y = as_image(x)
        for conv in self.convs:
            real = real.every(2)
            y = real.mask(pdl.relu(conv(y)))
        return self.last(y.reshape(y.shape[0], y.shape[1], self.out)), real


def distances(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, T, D] -> float32 [2 T - 1, D]: sine and cosine of the distances T - 1, ... 0, ... 1 - T in D / 2 waves
    (Dai et al., arXiv 1901.02860)."""
    width = x.shape[2] // 2
    places = positions(x[:1, :, 0], pdl.zeros((1,), dtype=pdl.int64))
    up = pdl.astype(places, pdl.float32).reshape(-1, 1)  # 0 ... T - 1
    far = pdl.concat([pdl.flip(up, axis=0), -up[1:]], axis=0)
    angles = far * pdl.as_tensor((PERIOD ** -(np.arange(width) / width)).astype(np.float32))
    return pdl.concat([pdl.sin(angles), pdl.cos(angles)], axis=1)


class RelativeAttention(nn.Module):
    """Attention of `heads` heads in which scores are ((q_i + u) k_j + (q_i + v) p_(i - j)) / sqrt(size): p is a
    projection of sines of the distance, u and v are learned (Dai et al., arXiv 1901.02860)."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        self.heads, self.size = heads, dim // heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.position = nn.Linear(dim, dim, bias=False)
        self.u, self.v = (nn.Parameter(pdl.zeros((dim,))) for _ in range(2))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(dim, dim)

    def _split(self, x: pdl.Tensor) -> pdl.Tensor:
        """[N, T, dim] -> [N, heads, T, size]."""
        return pdl.permute_dims(x.reshape(x.shape[0], x.shape[1], self.heads, self.size), (0, 2, 1, 3))

    def forward(self, x: pdl.Tensor, far: pdl.Tensor, kept: pdl.Tensor | None) -> pdl.Tensor:
        """x [N, T, dim], `distances` [2 T - 1, dim], bool [N, T] (False: not looked at) -> [N, T, dim]."""
        q, k, v = self.query(x), self._split(self.key(x)), self._split(self.value(x))
        place = self._split(pdl.expand_dims(self.position(far), axis=0))
        scores = self._split(q + self.u) @ pdl.permute_dims(k, (0, 1, 3, 2))
        scores = scores + shifted(self._split(q + self.v) @ pdl.permute_dims(place, (0, 1, 3, 2)))
        scores = scores * self.size**-0.5
        if kept is not None:
            scores = pdl.where(kept.reshape(kept.shape[0], 1, 1, kept.shape[1]), scores, NEVER)
        y = self.dropout(pdl.softmax(scores)) @ v
        return self.last(pdl.permute_dims(y, (0, 2, 1, 3)).reshape(*x.shape))  # type: ignore[no-any-return]


def shifted(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, H, T, 2 T - 1] -> y [N, H, T, T], y[..., i, j] = x[..., i, T - 1 - i + j]: each row from its distance 0 on.
    One more column in front, the numbers as 2 T rows of T, the first row left out: all is where it belongs."""
    n, heads, steps, wide = x.shape
    y = pdl.pad(x, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(n, heads, wide + 1, steps)
    return y[:, :, 1:].reshape(n, heads, steps, wide)[..., :steps]


class FeedForward(nn.Module):
    """Half of a macaron: x + dropout(W2 dropout(swish(W1 norm(x)))) / 2."""

    def __init__(self, dim: int, dropout: float) -> None:
        self.norm = nn.LayerNorm(dim)
        self.first, self.last = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [..., dim] -> the same shape."""
        return x + 0.5 * self.dropout(self.last(self.dropout(pdl.silu(self.first(self.norm(x))))))


class Convolution(nn.Module):
    """x + dropout(W2 swish(norm(depthwise(glu(W1 norm(x)))))): what lies near."""

    def __init__(self, dim: int, kernel: int, dropout: float) -> None:
        self.norm = nn.LayerNorm(dim)
        self.first, self.last = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim, bias=False)
        self.batch_norm = nn.BatchNorm1d(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, real: Real) -> pdl.Tensor:
        """x [N, T, dim] -> the same shape."""
        y = real.mask(pdl.glu(self.first(self.norm(x))))
        return x + self.dropout(self.last(self.batch_norm(self.depthwise(y), activation="silu")))


class Block(nn.Module):
    """Half a feed-forward layer, attention, convolution, the other half, a norm (section 2.4)."""

    def __init__(self, dim: int, heads: int, kernel: int, dropout: float) -> None:
        self.before, self.behind = FeedForward(dim, dropout), FeedForward(dim, dropout)
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = RelativeAttention(dim, heads, dropout)
        self.convolution = Convolution(dim, kernel, dropout)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: pdl.Tensor, far: pdl.Tensor, kept: pdl.Tensor | None, real: Real) -> pdl.Tensor:
        """x [N, T, dim] -> the same shape."""
        x = self.before(x)
        x = x + self.dropout(self.attention(self.attention_norm(x), far, kept))
        return self.norm(self.behind(self.convolution(x, real)))  # type: ignore[no-any-return]


class Conformer(SpeechNet):
    """The paper's encoder, S by default (8.7 M parameters; 10.3 M with the transducer's decoder, in whose place CTC is
    here): a step for four frames. The paper's features are 80 mel bands of 25 ms every 10 ms.

    dim, heads, layers  of the blocks: 144, 4, 16 of S; 256, 4, 16 of M; 512, 8, 17 of L
    kernel              steps of the depthwise convolutions, odd (the paper: 32)
    dropout             behind each part of a block, and of weights of attention
    All else is as in `SpeechNet`.
    """

    head: ClassVar[str] = "classifier"

    def __init__(
        self,
        *,
        features: Features,
        num_classes: Annotated[int, Range(2)] = 29,
        dim: Width = 144,
        heads: Width = 4,
        layers: Width = 16,
        kernel: Annotated[int, Range(3)] = 31,
        dropout: Rate = 0.1,
        pretrained: str | None = None,
    ) -> None:
        if dim % heads or dim % 2:
            raise ConfigError(f"Conformer: dim={dim} must be even, and a multiple of heads={heads}")
        if kernel % 2 == 0:
            raise ConfigError(f"Conformer: kernel={kernel} must be odd, so that it has a middle")
        self.features = features
        self.strides = (2, 2)
        self.subsampling = Subsampling(features.channels, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(dim, heads, kernel, dropout) for _ in range(layers))
        self.classifier = nn.Linear(dim, num_classes)
        self.finish_init(pretrained)

    def encode(self, features: pdl.Tensor, real: Real) -> tuple[pdl.Tensor, Real]:
        """features [N, frames, channels] -> [N, frames / 4, dim]."""
        x, real = self.subsampling(features, real)
        x = self.dropout(x)
        far, kept = distances(x), real.there(x)
        for block in self.blocks:
            x = block(x, far, kept, real)
        return x, real


SIZES = {"s": (144, 4, 16), "m": (256, 4, 16), "l": (512, 8, 17)}
TASK = "speech_recognition"
VARIANTS = {
    f"conformer_{size}": {"_target_": "pdl_speech.Conformer", "dim": dim, "heads": heads, "layers": layers}
    for size, (dim, heads, layers) in SIZES.items()
}
