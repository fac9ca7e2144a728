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
from pdl.nn.streaming import WHOLE, Past
from pdl_speech.features import Features
from pdl_speech.models.attention_decoder import AttentionDecoder
from pdl_speech.models.audio_net import as_image
from pdl_speech.models.speech_net import Real, SpeechNet
from pdl_speech.models.waves import waves

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]
NEVER = -1e9


class Subsampling(nn.Module):
    """Two convolutions of 3 x 3 with stride 2 over time and frequency, and a linear layer."""

    def __init__(self, in_channels: int, dim: int) -> None:
        self.convs = nn.ModuleList(nn.Conv2d(before, dim, 3, stride=2, padding=1) for before in (1, dim))
        self.out = dim * -(-in_channels // 4)
        self.last = nn.Linear(self.out, dim)

    def forward(self, x: pdl.Tensor, real: Real, past: Past) -> tuple[pdl.Tensor, Real]:
        """x [N, T, in_channels] -> [N, T / 4, dim]."""
        y = as_image(x)
        for conv in self.convs:
            assert isinstance(conv, nn.Conv2d)
            real = real.every(2)
            padding = (1, 1) if past is WHOLE else ((0, 0), (1, 1))  # of even numbers of frames none behind is read
            y = y if past is WHOLE else past.extended(y, 1)
            y = real.mask(pdl.relu(pdl.conv2d(y, conv.weight, conv.bias, stride=2, padding=padding)))
        return self.last(y.reshape(y.shape[0], y.shape[1], self.out)), real


def distances(x: pdl.Tensor) -> pdl.Tensor:
    """x [N, T, D] -> float32 [2 T - 1, D]: `waves` of the distances T - 1, ... 0, ... 1 - T."""
    places = positions(x[:1, :, 0], pdl.zeros((1,), dtype=pdl.int64))
    up = pdl.astype(places, pdl.float32).reshape(-1, 1)  # 0 ... T - 1
    far = pdl.concat([pdl.flip(up, axis=0), -up[1:]], axis=0)
    return waves(far, x.shape[2])


class RelativeAttention(nn.Module):
    """Attention of `heads` heads in which scores are ((q_i + u) k_j + (q_i + v) p_(i - j)) / sqrt(size): p is a
    projection of sines of the distance, u and v are learned (Dai et al., arXiv 1901.02860)."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.position = nn.Linear(dim, dim, bias=False)
        self.u, self.v = (nn.Parameter(pdl.zeros((dim,))) for _ in range(2))
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(dim, dim)

    def forward(
        self, x: pdl.Tensor, far: pdl.Tensor, kept: pdl.Tensor | None, chunks: Chunked | None = None
    ) -> pdl.Tensor:
        """x [N, T, dim], `distances` [2 T - 1, dim], bool [N, T] (False: not looked at) -> [N, T, dim]; within chunks,
        those of `Chunked.seen`."""
        q, k, v = self.query(x), self.key(x), self.value(x)
        if chunks is not None:
            q, k, v = chunks.queries(q), chunks.keys(k), chunks.keys(v)
        mask = None if kept is None else pdl.where(kept.reshape(kept.shape[0], 1, 1, kept.shape[1]), 0.0, NEVER)
        y = pdl.relative_attention(
            q + self.u, q + self.v, k, v, self.position(far), heads=self.heads, mask=mask,
            dropout_p=self.dropout.p if self.training else 0.0,
        )  # fmt: skip
        return self.last(y if chunks is None else chunks.past.joined(y, x))  # type: ignore[no-any-return]


class Chunked:
    """Attention within chunks of x [N, T, dim]: each step looks at its own chunk of `chunk` steps, and at the `left`
    chunks before."""

    def __init__(self, past: Past, chunk: int, left: int) -> None:
        self.past, self.chunk, self.left = past, chunk, left

    def seen(self, x: pdl.Tensor, real: Real) -> tuple[pdl.Tensor, pdl.Tensor]:
        """`waves` of the distances of a chunk, and at which keys its steps look, bool [N chunks, S]."""
        span = np.arange((self.left + 1) * self.chunk - 1, -self.chunk, -1, dtype=np.float32)
        there = real.there(x)
        every = pdl.equal(x[..., 0], x[..., 0]) if there is None else there  # True, for any size of a program
        return waves(pdl.as_tensor(span[:, None]), x.shape[2]), self.keys(every)

    def queries(self, x: pdl.Tensor) -> pdl.Tensor:
        """Its chunks [N chunks, chunk, dim]."""
        return self.past.queries(x, self.chunk)

    def keys(self, x: pdl.Tensor) -> pdl.Tensor:
        """The same with those before [N chunks, S, dim], S = (left + 1) chunk."""
        return self.past.blocks(x, self.chunk, self.left)


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
    """x + dropout(W2 swish(norm(depthwise(glu(W1 norm(x)))))): what lies near, or, `causal`, near and before."""

    def __init__(self, dim: int, kernel: int, dropout: float, causal: bool) -> None:
        self.norm = nn.LayerNorm(dim)
        self.first, self.last = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.before = kernel - 1 if causal else 0
        around = 0 if causal else kernel // 2
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=around, groups=dim, bias=False)
        self.batch_norm = nn.BatchNorm1d(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: pdl.Tensor, real: Real, past: Past) -> pdl.Tensor:
        """x [N, T, dim] -> the same shape."""
        y = past.extended(real.mask(pdl.glu(self.first(self.norm(x)))), self.before)
        return x + self.dropout(self.last(self.batch_norm(self.depthwise(y), activation="silu")))


class Block(nn.Module):
    """Half a feed-forward layer, attention, convolution, the other half, a norm (section 2.4)."""

    def __init__(self, dim: int, heads: int, kernel: int, dropout: float, causal: bool) -> None:
        self.before, self.behind = FeedForward(dim, dropout), FeedForward(dim, dropout)
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = RelativeAttention(dim, heads, dropout)
        self.convolution = Convolution(dim, kernel, dropout, causal)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(
        self,
        x: pdl.Tensor,
        far: pdl.Tensor,
        kept: pdl.Tensor | None,
        real: Real,
        past: Past = WHOLE,
        chunks: Chunked | None = None,
    ) -> pdl.Tensor:
        """x [N, T, dim] -> the same shape."""
        x = self.before(x)
        x = x + self.dropout(self.attention(self.attention_norm(x), far, kept, chunks))
        return self.norm(self.behind(self.convolution(x, real, past)))  # type: ignore[no-any-return]


class Conformer(SpeechNet):
    """The paper's encoder, S by default (8.7 M parameters; 10.3 M with the transducer's decoder, in whose place CTC is
    here): a step for four frames. The paper's features are 80 mel bands of 25 ms every 10 ms.

    dim, heads, layers  of the blocks: 144, 4, 16 of S; 256, 4, 16 of M; 512, 8, 17 of L
    kernel              steps of the depthwise convolutions, odd (the paper: 32)
    dropout             behind each part of a block, and of weights of attention
    chunk               so many steps at once, for streaming: a step looks at its chunk and at `left` chunks before, and
                        convolutions look back alone (Zhang et al., arXiv 2012.05481); null: at the whole sound
    left                chunks before. What is said is known when its chunk has been heard: with chunk 6, within 240 ms
                        (left 10: by 2.4 s before it); with 16 within 640 ms (left 4), where steps see more of what
                        follows, for about two thirds of the computing
    decoder             layers of an `AttentionDecoder` of the same width, which learns beside CTC and judges the most
                        probable texts (`pdl export --form rescoring`; 2012.05481: 6); null: there is none
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
        chunk: Width | None = None,
        left: Annotated[int, Range(0)] = 4,
        decoder: Width | None = None,
        pretrained: str | None = None,
    ) -> None:
        if dim % heads or dim % 2:
            raise ConfigError(f"Conformer: dim={dim} must be even, and a multiple of heads={heads}")
        if kernel % 2 == 0:
            raise ConfigError(f"Conformer: kernel={kernel} must be odd, so that it has a middle")
        self.features, self.chunk, self.left = features, chunk, left
        if chunk is not None:
            features.framing  # noqa: B018 - says why, of features that cannot be streamed
        self.strides = (2, 2)
        self.subsampling = Subsampling(features.channels, dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(dim, heads, kernel, dropout, chunk is not None) for _ in range(layers))
        self.classifier = nn.Linear(dim, num_classes)
        if decoder is not None:
            self.decoder = AttentionDecoder(num_classes, dim, heads, decoder, dropout)
        self.finish_init(pretrained)

    def encode(self, features: pdl.Tensor, real: Real, past: Past = WHOLE) -> tuple[pdl.Tensor, Real]:
        """features [N, frames, channels] -> [N, frames / 4, dim]."""
        x, real = self.subsampling(features, real, past)
        x = self.dropout(x)
        chunks = None if self.chunk is None else Chunked(past, self.chunk, self.left)
        far, kept = (distances(x), real.there(x)) if chunks is None else chunks.seen(x, real)
        for block in self.blocks:
            x = block(x, far, kept, real, past, chunks)
        return x, real


SIZES = {"s": (144, 4, 16), "m": (256, 4, 16), "l": (512, 8, 17)}
TASK = "speech_recognition"
VARIANTS = {
    f"conformer_{size}": {"_target_": "pdl_speech.Conformer", "dim": dim, "heads": heads, "layers": layers}
    for size, (dim, heads, layers) in SIZES.items()
}
