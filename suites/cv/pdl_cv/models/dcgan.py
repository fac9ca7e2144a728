"""Generative adversarial nets: Goodfellow et al., NIPS 2014 (arXiv 1406.2661), in the form of DCGAN (Radford, Metz,
Chintala, ICLR 2016, arXiv 1511.06434).

Conditional by an embedding of the class beside the noise, and a discriminator by projection (Miyato & Koyama, ICLR
2018, arXiv 1802.05637). Losses: the non-saturating one, hinge (Lim & Ye, arXiv 1705.02894), or the Wasserstein distance
with a penalty on gradients (WGAN-GP: Gulrajani et al., NIPS 2017, arXiv 1704.00028).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import pdl
from pdl import autograd, nn
from pdl.errors import UsageError
from pdl.hints import Range

Width = Annotated[int, Range(1)]
Size = tuple[Width, Width]
PENALTY = 10.0  # of WGAN-GP's paper
KERNEL: dict[str, Any] = {"stride": 2, "padding": 1}


class Generator(nn.Module):
    """Noise [N, noise] and class label [N] -> images [N, H, W, in_channels] in [-1, 1]: a linear layer to a small map,
    and transposed 4 x 4 convolutions, each of which doubles it."""

    def __init__(
        self, image_size: Size, in_channels: int, num_classes: int, noise: int, width: int, depth: int
    ) -> None:
        self.low = (image_size[0] >> depth, image_size[1] >> depth)
        channels = [width << level for level in reversed(range(depth))]
        self.label = nn.Embedding(num_classes, noise) if num_classes else None
        self.first = nn.Linear(noise * (2 if num_classes else 1), self.low[0] * self.low[1] * channels[0], bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(c) for c in channels])
        after = [*channels[1:], in_channels]
        self.up = nn.ModuleList(
            [nn.ConvTranspose2d(a, b, 4, bias=b == after[-1], **KERNEL) for a, b in zip(channels, after, strict=True)]
        )

    def forward(self, noise: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        if self.label is not None:
            noise = pdl.concat([noise, self.label(label)], axis=-1)
        x = pdl.reshape(self.first(noise), (noise.shape[0], *self.low, -1))
        for norm, up in zip(self.norms, self.up, strict=True):
            x = up(norm(x, activation="relu"))
        return pdl.tanh(x)


class Discriminator(nn.Module):
    """How real images [N, H, W, in_channels] of class label [N] look: logits [N]. 4 x 4 convolutions, each of which
    halves the image, a linear layer, and the product with an embedding of the class. `spectral`: with spectral norms;
    there are no others, by which images of a batch would see each other."""

    def __init__(
        self, image_size: Size, in_channels: int, num_classes: int, width: int, depth: int, *, spectral: bool
    ) -> None:
        def bound(layer: nn.Module) -> nn.Module:
            return nn.SpectralNorm(layer) if spectral else layer

        before = [in_channels, *(width << level for level in range(depth))]
        self.down = nn.ModuleList([bound(nn.Conv2d(a, b, 4, **KERNEL)) for a, b in pairwise(before)])
        features = before[-1] * (image_size[0] >> depth) * (image_size[1] >> depth)
        self.last = bound(nn.Linear(features, 1))
        self.label = nn.Embedding(num_classes, features) if num_classes else None
        if self.label is not None:
            nn.init.normal_(self.label.weight, std=features**-0.5)

    def forward(self, images: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        x = images
        for down in self.down:
            x = pdl.leaky_relu(down(x), negative_slope=0.2)
        x = pdl.flatten(x, start=1)
        logits = pdl.reshape(self.last(x), (-1,))
        if self.label is None:
            return logits
        return logits + pdl.sum(x * self.label(label), axis=-1)  # type: ignore[no-any-return]


class DCGAN(nn.Module):
    """Images from noise: noise float32 [N, noise], label int64 [N] -> images [N, *image_size, in_channels] in [-1, 1].
    Its players are `discriminator` and `generator`.

    image_size   height and width; multiples of 2^depth
    num_classes  that can be asked for; 0: there are none
    noise        numbers that a picture begins with
    width        channels at half the size of images; each halving doubles them
    depth        halvings
    gan_loss     hinge, non_saturating, or wasserstein: with a penalty of 10 (|gradient| - 1)^2 at images between real
                 and drawn ones, and several steps of the discriminator for each of the generator
                 (players.discriminator.steps: 5)
    spectral     whether the discriminator has spectral norms; by default where it has no penalty
    """

    players = ("discriminator", "generator")

    def __init__(
        self,
        *,
        image_size: Size = (32, 32),
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(0)] = 0,
        noise: Width = 64,
        width: Width = 64,
        depth: Annotated[int, Range(1, 6)] = 2,
        gan_loss: Literal["hinge", "non_saturating", "wasserstein"] = "hinge",
        spectral: bool | None = None,
    ) -> None:
        if image_size[0] % (1 << depth) or image_size[1] % (1 << depth):
            raise UsageError(f"DCGAN: image_size {tuple(image_size)} must be of multiples of {1 << depth} (2^depth)")
        self.noise_shape, self.num_classes, self.gan_loss = (noise,), num_classes, gan_loss
        self.generator = Generator(image_size, in_channels, num_classes, noise, width, depth)
        bounded = gan_loss != "wasserstein" if spectral is None else spectral
        self.discriminator = Discriminator(image_size, in_channels, num_classes, width, depth, spectral=bounded)

    def turn(
        self, player: str, images: pdl.Tensor, labels: pdl.Tensor
    ) -> tuple[pdl.Tensor, dict[str, float | pdl.Tensor]]:
        """The loss of a player for a batch of images [N, H, W, C] in [-1, 1] and labels [N], and its parts."""
        drawn = self.generator(pdl.noise((images.shape[0], *self.noise_shape)), labels)
        if player == "generator":
            looks = self.discriminator(drawn, labels)
            return pdl.mean(pdl.softplus(-looks) if self.gan_loss == "non_saturating" else -looks), {}
        drawn = drawn.detach()
        looks = self.discriminator(pdl.concat([images, drawn]), pdl.concat([labels, labels]))
        real, fake = pdl.chunk(looks, 2)
        if self.gan_loss == "hinge":
            return pdl.mean(pdl.relu(1.0 - real)) + pdl.mean(pdl.relu(1.0 + fake)), {}
        if self.gan_loss == "non_saturating":
            return pdl.mean(pdl.softplus(-real)) + pdl.mean(pdl.softplus(fake)), {}
        distance, penalty = pdl.mean(real) - pdl.mean(fake), self._penalty(images, drawn, labels)
        return PENALTY * penalty - distance, {"distance": distance.detach(), "penalty": penalty.detach()}

    def _penalty(self, images: pdl.Tensor, drawn: pdl.Tensor, labels: pdl.Tensor) -> pdl.Tensor:
        """The mean of (|gradient| - 1)^2 of the discriminator by the image, at random places between pairs."""
        share = pdl.rand((images.shape[0], 1, 1, 1))
        between = pdl.Tensor((share * images + (1.0 - share) * drawn).numpy(), requires_grad=True)
        looks = self.discriminator(between, labels)
        (slope,) = autograd.grad(pdl.sum(looks), between, create_graph=True)
        assert slope is not None
        size = pdl.sqrt(pdl.sum(pdl.square(slope), axis=(1, 2, 3)) + 1e-12)
        return pdl.mean(pdl.square(size - 1.0))

    def forward(self, noise: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        """See the class."""
        return self.generator(noise, label)  # type: ignore[no-any-return]

    def sampler(self) -> nn.Module:
        """What draws."""
        return self.generator


TASK = "generation"
VARIANTS: dict[str, dict[str, Any]] = {
    "dcgan": {"_target_": "pdl_cv.DCGAN"},
    "wgan_gp": {"_target_": "pdl_cv.DCGAN", "gan_loss": "wasserstein"},
}
