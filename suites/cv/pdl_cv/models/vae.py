"""Variational auto-encoder: Kingma & Welling, Auto-encoding variational Bayes, ICLR 2014 (arXiv 1312.6114); of a class
that is given to encoder and decoder: Sohn, Lee, Yan, NIPS 2015."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm
from pdl_cv.models.dcgan import Generator

Width = Annotated[int, Range(1)]


class VAE(nn.Module):
    """Images from noise: noise float32 [N, noise], label int64 [N] -> images [N, *image_size, in_channels] in [-1, 1].

    image_size   height and width; multiples of 2^depth
    num_classes  that can be asked for; 0: there are none
    noise        numbers that a picture is encoded in
    width        channels at half the size of images; each halving doubles them
    depth        halvings
    beta         weight of the divergence from normal noise (beta-VAE: Higgins et al., ICLR 2017)

    The loss is the negative evidence bound by a pixel: the cross-entropy of pixels, as probabilities of white, and the
    divergence.
    """

    def __init__(
        self,
        *,
        image_size: tuple[Width, Width] = (32, 32),
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(0)] = 0,
        noise: Width = 32,
        width: Width = 32,
        depth: Annotated[int, Range(1, 6)] = 2,
        beta: Annotated[float, Range(above=0)] = 1.0,
    ) -> None:
        if image_size[0] % (1 << depth) or image_size[1] % (1 << depth):
            raise UsageError(f"VAE: image_size {tuple(image_size)} must be of multiples of {1 << depth} (2^depth)")
        self.noise_shape, self.num_classes, self.beta = (noise,), num_classes, beta
        channels = [in_channels, *(width << level for level in range(depth))]
        self.encoder = nn.Sequential(*[ConvNorm(a, b, 3, stride=2) for a, b in pairwise(channels)])
        features = channels[-1] * (image_size[0] >> depth) * (image_size[1] >> depth)
        self.label = nn.Embedding(num_classes, features) if num_classes else None
        self.moments = nn.Linear(features, 2 * noise)
        self.generator = Generator(image_size, in_channels, num_classes, noise, width, depth)

    def loss(self, images: pdl.Tensor, labels: pdl.Tensor) -> tuple[pdl.Tensor, dict[str, float | pdl.Tensor]]:
        """The loss for images [N, H, W, C] in [-1, 1] and labels [N]; see the class."""
        x = pdl.flatten(self.encoder(images), start=1)
        if self.label is not None:
            x = x + self.label(labels)
        mean, spread = pdl.chunk(pdl.astype(self.moments(x), pdl.float32), 2, axis=-1)
        drawn = self.generator(mean + pdl.exp(0.5 * spread) * pdl.noise(mean.shape), labels)
        pixels = images.size // images.shape[0]
        # tanh is 2 sigmoid - 1 of twice its argument, so white has probability (1 + drawn) / 2
        drawn = pdl.astype(drawn, pdl.float32)  # bfloat16 has nothing between 0.996 and 1, whose logarithm is 0
        white, truth = pdl.clip(0.5 * drawn + 0.5, 1e-6, 1 - 1e-6), 0.5 * images + 0.5
        entropy = -pdl.mean(truth * pdl.log(white) + (1.0 - truth) * pdl.log(1.0 - white))
        divergence = -0.5 * pdl.mean(pdl.sum(1.0 + spread - pdl.square(mean) - pdl.exp(spread), axis=-1)) / pixels
        return entropy + self.beta * divergence, {"entropy": entropy.detach(), "divergence": divergence.detach()}

    def forward(self, noise: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        return self.generator(noise, label)  # type: ignore[no-any-return]

    def sampler(self) -> nn.Module:
        """What draws."""
        return self.generator


TASK = "generation"
VARIANTS: dict[str, dict[str, Any]] = {"vae": {"_target_": "pdl_cv.VAE"}}
