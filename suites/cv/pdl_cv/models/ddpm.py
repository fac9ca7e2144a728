"""Denoising diffusion: Ho, Jain, Abbeel, Denoising diffusion probabilistic models, NeurIPS 2020 (arXiv 2006.11239).

With the cosine schedule of Nichol & Dhariwal (ICML 2021, arXiv 2102.09672), samples in few steps without noise by DDIM
(Song, Meng, Ermon, ICLR 2021, arXiv 2010.02502), and guidance without a classifier (Ho & Salimans, arXiv 2207.12598).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range

Width = Annotated[int, Range(1)]
GROUPS = 8  # of group norms
MOST_BETA = 0.999


class Residual(nn.Module):
    """shortcut(x) + conv(silu(scale norm(conv(silu(norm(x)))) + shift)); scale and shift are of the embedding e of time
    and class."""

    def __init__(self, in_channels: int, channels: int, embedding: int) -> None:
        self.norm1, self.conv1 = _norm(in_channels), nn.Conv2d(in_channels, channels, 3, padding=1)
        self.embed = nn.Linear(embedding, 2 * channels)
        self.norm2, self.conv2 = _norm(channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(in_channels, channels, 1) if in_channels != channels else None
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: pdl.Tensor, e: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels], e [N, embedding] -> [N, H, W, channels]."""
        y = self.conv1(pdl.silu(self.norm1(x)))
        scale, shift = pdl.chunk(pdl.reshape(self.embed(e), (x.shape[0], 1, 1, -1)), 2, axis=-1)
        y = self.conv2(pdl.silu(self.norm2(y) * (scale + 1.0) + shift))
        return y + (x if self.shortcut is None else self.shortcut(x))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """x + attention of every place to all, of normed x."""

    def __init__(self, channels: int, heads: int) -> None:
        self.norm, self.attention = _norm(channels), nn.MultiHeadAttention(channels, heads)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, channels] -> the same."""
        n, h, w, c = x.shape
        y = pdl.reshape(self.norm(x), (n, h * w, c))
        return x + pdl.reshape(self.attention(y, y, y), (n, h, w, c))  # type: ignore[no-any-return]


class Denoiser(nn.Module):
    """The noise in x [N, H, W, C] at time t [N], of class label [N] (num_classes: of none) -> [N, H, W, C].

    A U-Net over patches of the image: two residual blocks a level (one down, one up), attention on the lowest one.
    """

    def __init__(
        self, in_channels: int, num_classes: int, width: int, multipliers: Sequence[int], patch: int, steps: int
    ) -> None:
        self.steps, embedding = steps, 4 * width
        channels = [width * m for m in multipliers]
        self.time = nn.Sequential(nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.label = nn.Embedding(num_classes + 1, embedding) if num_classes else None
        self.fold, self.unfold = nn.PixelUnshuffle(patch), nn.PixelShuffle(patch)
        self.stem = nn.Conv2d(in_channels * patch**2, width, 3, padding=1)
        self.down, self.shrink, self.up, self.grow = (nn.ModuleList() for _ in range(4))
        for level, (before, now) in enumerate(zip([width, *channels], channels, strict=False)):
            self.down.append(Residual(before, now, embedding))
            self.up.append(Residual(2 * now, now, embedding))
            if level + 1 < len(channels):
                self.shrink.append(nn.Conv2d(now, now, 3, stride=2, padding=1))
                self.grow.append(nn.ConvTranspose2d(channels[level + 1], now, 2, stride=2))
        low = channels[-1]
        self.first, self.attention = Residual(low, low, embedding), Attention(low, max(1, low // 64))
        self.second = Residual(low, low, embedding)
        self.norm, self.head = _norm(channels[0]), nn.Conv2d(channels[0], in_channels * patch**2, 3, padding=1)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: pdl.Tensor, t: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        e = self.time(self.waves(t))
        if self.label is not None:
            e = e + self.label(label)
        e, y, across = pdl.silu(e), self.stem(self.fold(x)), []
        for level, block in enumerate(self.down):
            y = block(y, e)
            across.append(y)
            if level < len(self.shrink):
                y = self.shrink[level](y)
        y = self.second(self.attention(self.first(y, e)), e)
        for level in reversed(range(len(self.up))):
            if level < len(self.grow):
                y = self.grow[level](y)
            y = self.up[level](pdl.concat([y, across[level]], axis=-1), e)
        return self.unfold(self.head(pdl.silu(self.norm(y))))  # type: ignore[no-any-return]

    def waves(self, t: pdl.Tensor) -> pdl.Tensor:
        """Sines and cosines of t in waves of 2 pi to 2 pi 10,000 steps of a thousand: [N, width]."""
        half = self.stem.out_channels // 2
        rates = (1000.0 / self.steps * np.exp(-math.log(10_000) * np.arange(half) / half)).astype(np.float32)
        angles = pdl.reshape(t, (-1, 1)).astype(pdl.float32) * pdl.as_tensor(rates)
        return pdl.concat([pdl.sin(angles), pdl.cos(angles)], axis=-1)


class DDPM(nn.Module):
    """Images from noise: noise float32 [N, H, W, in_channels], label int64 [N] -> images in [-1, 1], the same shape.

    image_size      height and width; multiples of patch 2^(levels - 1)
    num_classes     that can be asked for; 0: there are none
    width           channels of the first level
    multipliers     of `width`, by level, each of which halves the size
    patch           pixels a side that are one place to the net
    steps           of the noise, in training
    sampling_steps  of them that a sample takes
    guidance        w: samples follow (1 + w) e(x, label) - w e(x), where e is the noise that the net sees
    unlabelled      share of the training images whose class the net is not told, so that there is an e(x)
    """

    players = ()

    def __init__(
        self,
        *,
        image_size: tuple[Width, Width] = (32, 32),
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(0)] = 0,
        width: Annotated[int, Range(8)] = 64,
        multipliers: Sequence[Width] = (1, 2),
        patch: Width = 1,
        steps: Annotated[int, Range(2)] = 1000,
        sampling_steps: Width = 25,
        guidance: Annotated[float, Range(0)] = 0.5,
        unlabelled: Annotated[float, Range(0, below=1)] = 0.1,
    ) -> None:
        least = patch << len(multipliers) - 1
        if width % GROUPS or image_size[0] % least or image_size[1] % least:
            raise UsageError(
                f"DDPM: image_size {tuple(image_size)} must be of multiples of {least} (patch 2^(levels - 1)), width "
                f"{width} of {GROUPS}"
            )
        if sampling_steps > steps:
            raise UsageError(f"DDPM: sampling_steps={sampling_steps} is more than steps={steps}")
        if num_classes and guidance and not unlabelled:
            raise UsageError(f"DDPM: guidance={guidance} needs unlabelled above 0, for a net without class")
        self.noise_shape = (*image_size, in_channels)
        self.num_classes, self.steps, self.sampling_steps = num_classes, steps, sampling_steps
        self.guidance, self.unlabelled = guidance if num_classes else 0.0, unlabelled
        self.net = Denoiser(in_channels, num_classes, width, multipliers, patch, steps)

    def sampler(self) -> nn.Module:
        """What draws."""
        return self

    def loss(self, images: pdl.Tensor, labels: pdl.Tensor) -> tuple[pdl.Tensor, dict[str, pdl.Tensor]]:
        """The mean square of the error of the net in the noise, for images [N, H, W, C] in [-1, 1] and labels [N], each
        at a time of its own."""
        if images.shape[1:] != self.noise_shape:
            raise ShapeError(f"DDPM: images {images.shape} are to be [N, {', '.join(map(str, self.noise_shape))}]")
        n = images.shape[0]
        t = (_uniform((n,)) * self.steps).astype(pdl.int64)
        if self.num_classes and self.unlabelled:
            labels = pdl.where(_uniform((n,)) < self.unlabelled, self.num_classes, labels)
        noise = pdl.noise(images.shape)
        kept = pdl.reshape(pdl.take(pdl.as_tensor(kept_shares(self.steps).astype(np.float32)), t, axis=0), (n, 1, 1, 1))
        mixed = pdl.sqrt(kept) * images + pdl.sqrt(1.0 - kept) * noise
        return pdl.mean(pdl.square(self.net(mixed, t, labels) - noise)), {}

    def forward(self, noise: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """DDIM without noise (eta = 0) from time steps - 1 down to 0; see the class."""
        times = np.linspace(self.steps - 1, 0, self.sampling_steps).round().astype(np.int64)
        shares = kept_shares(self.steps)[times]
        now, after = (pdl.as_tensor(x.astype(np.float32)) for x in (shares, np.append(shares[1:], 1.0)))
        moments = pdl.as_tensor(times)

        def step(i: pdl.Tensor, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
            share, later = pdl.take(now, i, axis=0), pdl.take(after, i, axis=0)
            e = self._noise_in(x, label * 0 + pdl.take(moments, i, axis=0), label)
            image = pdl.clip((x - pdl.sqrt(1.0 - share) * e) / pdl.sqrt(share), -1.0, 1.0)
            e = (x - pdl.sqrt(share) * image) / pdl.sqrt(1.0 - share)  # of the image within its bounds
            return i + 1, pdl.sqrt(later) * image + pdl.sqrt(1.0 - later) * e

        first = pdl.as_tensor(np.zeros((1,), np.int64))
        return pdl.jit.while_loop(lambda i, _: pdl.sum(i) < self.sampling_steps, step, (first, noise))[1]  # type: ignore[no-any-return]

    def _noise_in(self, x: pdl.Tensor, t: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """The noise that samples follow, with guidance."""
        if not self.guidance:
            return self.net(x, t, label)  # type: ignore[no-any-return]
        labelled = self.net(x, t, label)
        return (1.0 + self.guidance) * labelled - self.guidance * self.net(x, t, label * 0 + self.num_classes)


def kept_shares(steps: int) -> Any:
    """The share of the image in the variance at times 0 to steps - 1: float64 [steps]. arXiv 2102.09672, equation 17,
    with 1 - share(t) / share(t - 1) of at most 0.999."""
    s = 0.008
    cosine = np.cos((np.arange(steps + 1) / steps + s) / (1 + s) * np.pi / 2) ** 2
    return np.cumprod(np.maximum(cosine[1:] / cosine[:-1], 1 - MOST_BETA))


def _uniform(shape: tuple[Any, ...]) -> pdl.Tensor:
    """Numbers in [0, 1), in a program new ones at every run."""
    return pdl.minimum(0.5 * pdl.erf(pdl.noise(shape) * 0.5**0.5) + 0.5, 1 - 2.0**-24)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(GROUPS, channels), channels)


TASK = "generation"
VARIANTS: dict[str, dict[str, Any]] = {"ddpm": {"_target_": "pdl_cv.DDPM"}}
