"""The speech nets of the training race in PyTorch: the names of their weights are those of pdl's nets, and the same is
masked; images are channels first, or in PyTorch's channels last.

Deep Speech 2 normalises in front of its recurrent layers and not behind their products with the input, as PyTorch's own
GRU cannot be entered there; so do implementations for PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parent))
import turns

Tensor = torch.Tensor
BANDS = 5  # of sub-spectral norm


# -- lengths -----------------------------------------------------------------------------------------------------------
def halved(counts: Tensor) -> Tensor:
    """The steps that a layer of stride 2 makes."""
    return (counts + 1) // 2


def behind(x: Tensor, counts: Tensor) -> Tensor:
    """Which of the steps of x [N, T, ...] are padding: bool [N, T]."""
    return torch.arange(x.shape[1]) >= counts[:, None]


def masked(x: Tensor, counts: Tensor) -> Tensor:
    """x [N, C, T, bands] with 0 behind the end of each row."""
    return x.masked_fill((torch.arange(x.shape[2]) >= counts[:, None])[:, None, :, None], 0.0)


# -- front ends --------------------------------------------------------------------------------------------------------
class Front(nn.Module):
    """Waveforms [N, T] -> log-mel or cepstra [N, frames, channels], by torch.stft, as torchaudio has them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__()
        self.size, self.hop, self.facts = int(facts["n_fft"]), int(facts["hop"]), facts
        for name in ("window", "filters", "dct"):
            self.register_buffer(name, torch.tensor(facts[name]) if name in facts else None)

    def forward(self, x: Tensor) -> Tensor:
        """Waveforms [N, T] -> [N, frames, channels]."""
        spectra = torch.stft(x, self.size, self.hop, window=self.window, return_complex=True)
        mel = (spectra.real.square() + spectra.imag.square()).transpose(1, 2) @ self.filters
        y = mel.clamp(min=1e-10)
        if self.dct is None:
            return y.log()
        y = 10 * y.log10()
        return torch.maximum(y, y.amax((1, 2), keepdim=True) - 80) @ self.dct


# -- Deep Speech 2 -----------------------------------------------------------------------------------------------------
class DeepSpeech2(nn.Module):
    """Two convolutions, five recurrent layers of 768 in both directions, whose outputs are summed."""

    def __init__(self, channels: int = 80, hidden: int = 768, layers: int = 5) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv2d(before, 32, (11, wide), (stride, 2), (5, wide // 2), bias=False)
            for before, wide, stride in ((1, 41, 2), (32, 21, 1))
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(32) for _ in range(2))
        inner = [32 * -(-channels // 4), *[hidden] * (layers - 1)]
        self.inner_norms = nn.ModuleList(nn.BatchNorm1d(width) for width in inner)
        self.layers = nn.ModuleList(
            nn.GRU(width, hidden, bias=False, bidirectional=True, batch_first=True) for width in inner
        )
        self.norm = nn.BatchNorm1d(hidden)
        self.classifier = nn.Linear(hidden, 29)

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Features [N, frames, channels] and the frames of each -> logits and steps."""
        y, counts = x[:, None], halved(counts)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = masked(F.hardtanh(norm(conv(y)), 0.0, 20.0), counts)
        y = y.permute(0, 2, 3, 1).flatten(2)
        for norm, layer in zip(self.inner_norms, self.layers, strict=True):
            rows = norm(y.flatten(0, 1)).unflatten(0, y.shape[:2])
            packed = nn.utils.rnn.pack_padded_sequence(rows, counts, batch_first=True, enforce_sorted=False)
            both, _ = nn.utils.rnn.pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=y.shape[1])
            forth, back = both.chunk(2, 2)
            y = forth + back
        return self.classifier(self.norm(y.flatten(0, 1)).unflatten(0, y.shape[:2])), counts


# -- Conformer ---------------------------------------------------------------------------------------------------------
class Attention(nn.Module):
    """Attention with relative positions (arXiv 1901.02860)."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.query, self.key, self.value, self.last = (nn.Linear(dim, dim) for _ in range(4))
        self.position = nn.Linear(dim, dim, bias=False)
        self.u, self.v = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))

    def split(self, x: Tensor) -> Tensor:
        """[N, T, dim] -> [N, heads, T, size]."""
        return x.unflatten(2, (self.heads, self.size)).transpose(1, 2)

    def forward(self, x: Tensor, far: Tensor, padding: Tensor) -> Tensor:
        """x [N, T, dim], waves of the distances, bool [N, T] -> the shape of x."""
        q, k, v = self.query(x), self.split(self.key(x)), self.split(self.value(x))
        place = self.split(self.position(far)[None])
        scores = self.split(q + self.u) @ k.transpose(2, 3)
        moved = F.pad(self.split(q + self.v) @ place.transpose(2, 3), (1, 0))
        n, heads, steps, wide = moved.shape
        moved = moved.view(n, heads, wide, steps)[:, :, 1:].view(n, heads, steps, wide - 1)[..., :steps]
        scores = ((scores + moved) * self.size**-0.5).masked_fill(padding[:, None, None], -1e9)
        y = F.dropout(scores.softmax(3), 0.1, self.training) @ v
        return self.last(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Half of a macaron."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.first, self.last = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, T, dim] -> the same shape."""
        return x + 0.5 * self.dropout(self.last(self.dropout(F.silu(self.first(self.norm(x))))))


class Convolution(nn.Module):
    """The convolution of a block, over steps."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.first, self.last = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.depthwise = nn.Conv1d(dim, dim, 31, padding=15, groups=dim, bias=False)
        self.batch_norm = nn.BatchNorm1d(dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """x [N, T, dim], bool [N, T] -> the shape of x."""
        y = F.glu(self.first(self.norm(x))).masked_fill(padding[:, :, None], 0.0).transpose(1, 2)
        return x + self.dropout(self.last(F.silu(self.batch_norm(self.depthwise(y))).transpose(1, 2)))


class Block(nn.Module):
    """A block of the Conformer."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.before, self.behind = FeedForward(dim), FeedForward(dim)
        self.attention_norm, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention, self.convolution = Attention(dim, heads), Convolution(dim)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, far: Tensor, padding: Tensor) -> Tensor:
        """x [N, T, dim], waves of the distances, bool [N, T] -> the shape of x."""
        x = self.before(x)
        x = x + self.dropout(self.attention(self.attention_norm(x), far, padding))
        return self.norm(self.behind(self.convolution(x, padding)))


class Subsampling(nn.Module):
    """A step for four frames."""

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(before, dim, 3, 2, 1) for before in (1, dim))
        self.last = nn.Linear(dim * -(-channels // 4), dim)

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Features [N, frames, channels] -> [N, frames / 4, dim], and the steps of each."""
        y = x[:, None]
        for conv in self.convs:
            counts = halved(counts)
            y = masked(conv(y).relu(), counts)
        return self.last(y.permute(0, 2, 3, 1).flatten(2)), counts


class Conformer(nn.Module):
    """Conformer S."""

    def __init__(self, channels: int = 80, dim: int = 144, heads: int = 4, layers: int = 16) -> None:
        super().__init__()
        self.subsampling, self.dropout = Subsampling(channels, dim), nn.Dropout(0.1)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.classifier = nn.Linear(dim, 29)

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Features [N, frames, channels] and the frames of each -> logits and steps."""
        x, counts = self.subsampling(x, counts)
        x, padding = self.dropout(x), behind(x, counts)
        steps, half = x.shape[1], x.shape[2] // 2
        angles = torch.arange(steps - 1, -steps, -1.0)[:, None] * 10_000.0 ** -(torch.arange(half) / half)
        far = torch.cat([angles.sin(), angles.cos()], 1)
        for block in self.blocks:
            x = block(x, far, padding)
        return self.classifier(x), counts


# -- commands ----------------------------------------------------------------------------------------------------------
class Res8(nn.Module):
    """res8 (arXiv 1710.10361)."""

    def __init__(self, channels: int = 45) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(6))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels, affine=False) for _ in range(6))
        self.classifier = nn.Linear(channels, 12)

    def forward(self, x: Tensor) -> Tensor:
        """Features [N, frames, channels] -> logits."""
        x = before = F.avg_pool2d(self.stem(x[:, None]).relu(), (4, 3))
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), 1):
            x = conv(x).relu()
            if number % 2 == 0:
                x = before = x + before
            x = norm(x)
        return self.classifier(x.mean((2, 3)))


class SubSpectralNorm(nn.Module):
    """Batch norm of each band of frequencies."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(BANDS * channels)
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        """x [N, C, T, F] -> the same shape."""
        n, channels, time, bands = x.shape
        split = x.view(n, channels, time, BANDS, bands // BANDS).permute(0, 3, 1, 2, 4)
        normed = self.norm(split.reshape(n, BANDS * channels, time, bands // BANDS))
        return normed.view(n, BANDS, channels, time, bands // BANDS).permute(0, 2, 3, 1, 4).reshape(x.shape)


class ConvNorm(nn.Sequential):
    """Convolution, batch norm, ReLU."""

    def __init__(self, inner: int, outer: int, size: tuple[int, int], stride: int = 1, groups: int = 1) -> None:
        half = (size[0] // 2, size[1] // 2)
        conv = nn.Conv2d(inner, outer, size, stride, half, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outer), nn.ReLU())


class BroadcastBlock(nn.Module):
    """A block of BC-ResNet."""

    def __init__(self, inner: int, outer: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.changes = inner != outer
        self.widen = ConvNorm(inner, outer, (1, 1)) if self.changes else nn.Identity()
        self.frequency = nn.Sequential(
            nn.Conv2d(outer, outer, (1, 3), (1, stride), (0, 1), groups=outer, bias=False), SubSpectralNorm(outer)
        )
        self.time = nn.Sequential(
            nn.Conv2d(outer, outer, (3, 1), 1, (dilation, 0), (dilation, 1), groups=outer, bias=False),
            nn.BatchNorm2d(outer), nn.SiLU(), nn.Conv2d(outer, outer, 1, bias=False), nn.Dropout2d(0.1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x [N, C, T, F] -> [N, outer, T, F / stride]."""
        along = self.frequency(self.widen(x))
        y = along + self.time(along.mean(3, keepdim=True))
        return (y if self.changes else y + x).relu()


class BCResNet(nn.Module):
    """BC-ResNet (arXiv 2106.04140)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        base, channels = 8 * width, 16 * width
        self.stem = nn.Sequential(
            nn.Conv2d(1, channels, 5, (1, 2), 2, bias=False), nn.BatchNorm2d(channels), nn.ReLU()
        )  # fmt: skip
        blocks: list[nn.Module] = []
        for count, factor, stride, dilation in ((2, 1.0, 1, 1), (2, 1.5, 2, 2), (4, 2.0, 2, 4), (4, 2.5, 1, 8)):
            for number in range(count):
                outer = int(base * factor)
                blocks.append(BroadcastBlock(channels, outer, stride if number == 0 else 1, dilation))
                channels = outer
        self.blocks, last = nn.Sequential(*blocks), 4 * base
        self.neck = nn.Sequential(
            nn.Conv2d(channels, channels, 5, padding=(2, 0), groups=channels, bias=False),
            nn.Conv2d(channels, last, 1, bias=False), nn.BatchNorm2d(last), nn.ReLU(),
        )  # fmt: skip
        self.classifier = nn.Linear(last, 12)

    def forward(self, x: Tensor) -> Tensor:
        """Features [N, frames, channels] -> logits."""
        return self.classifier(self.neck(self.blocks(self.stem(x[:, None]))).mean((2, 3)))


class DSCNN(nn.Module):
    """DS-CNN S (arXiv 1711.07128)."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        layers = [ConvNorm(1, channels, (10, 4), 2)]
        for _ in range(4):
            layers += [ConvNorm(channels, channels, (3, 3), groups=channels), ConvNorm(channels, channels, (1, 1))]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(channels, 12))

    def forward(self, x: Tensor) -> Tensor:
        """Features [N, frames, channels] -> logits."""
        return self.classifier(self.layers(x[:, None]).mean((2, 3)))


NETS: dict[str, Callable[[], nn.Module]] = {
    "deep_speech_2": DeepSpeech2,
    "conformer_s": Conformer,
    "res8": Res8,
    "bc_resnet_1": lambda: BCResNet(1),
    "bc_resnet_8": lambda: BCResNet(8),
    "ds_cnn": DSCNN,
}


def side(name: str, mode: str, folder: Path, clip: float | None) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A pass over the batches that the folder holds, and what the net says before it learns."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = NETS[name]()
    with np.load(folder / "weights.npz") as weights:
        known = {key: torch.from_numpy(weights[key]) for key in weights.files}
    if name != "deep_speech_2":
        left, unknown = net.load_state_dict(known, strict=False)
        assert not unknown, unknown
        assert {key.rpartition(".")[2] for key in left} <= {"running_mean", "running_var", "num_batches_tracked"}, left
    if mode == "nhwc":
        net = net.to(memory_format=torch.channels_last)
    with np.load(folder / "front.npz") as made:
        front = Front(dict(made)) if made.files else None
    with np.load(folder / "batches.npz") as held:
        count = len({key.split(".")[0] for key in held.files})
        keys = [key.split(".")[1] for key in held.files if key.startswith("0.")]
        batches = [{key: torch.from_numpy(held[f"{i}.{key}"]) for key in keys} for i in range(count)]
    call = torch.compile(net, dynamic=False) if mode == "compiled" else net

    def loss_of(batch: dict[str, Tensor]) -> Tensor:
        x = batch["audio"] if front is None else front(batch["audio"])
        if "label" in batch:
            return F.cross_entropy(call(x), batch["label"])
        counts = batch["samples"] if front is None else batch["samples"] // front.hop + 1
        logits, steps = call(x.masked_fill(behind(x, counts)[:, :, None], 0.0), counts)
        logs = logits.log_softmax(2).transpose(0, 1)
        return F.ctc_loss(
            logs, batch["labels"].clamp(min=0), steps, batch["lengths"], reduction="none", zero_infinity=True
        ).mean()

    net.eval()
    with torch.no_grad():
        first = float(loss_of(batches[0]))
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def pass_over() -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss_of(batch).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(net.parameters(), clip, foreach=True)
            optimizer.step()

    return pass_over, {"loss": first, "parameters": sum(p.numel() for p in net.parameters())}


if __name__ == "__main__":
    name, mode, folder, clip = sys.argv[1:5]
    turns.serve(*side(name, mode, Path(folder), float(clip) or None), sys.argv[5])
