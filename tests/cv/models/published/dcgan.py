"""Layers of arXiv 1511.06434 (figure 1) at 32 x 32, two of its four halvings, counted by hand. Without norms the
discriminator has biases."""

from tests.cv.models.published import Fact

QUICK = None
GENERATOR = 64 * 8 * 8 * 128 + 2 * (128 + 64) + 16 * 128 * 64 + 16 * 64 * 3 + 3
DISCRIMINATOR = 16 * 3 * 64 + 64 + 16 * 64 * 128 + 128 + 8 * 8 * 128 + 1
FACTS = {name: Fact(GENERATOR + DISCRIMINATOR, "arXiv 1511.06434, by hand", None) for name in ("dcgan", "wgan_gp")}
