"""The authors' log of their nets for 256 x 256: a generator of 54.414 M parameters and a discriminator of 2.769 M."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {"pix2pix": Fact(54_413_955 + 2_768_705, "junyanz/pytorch-CycleGAN-and-pix2pix", None, 256)}
