"""A well-known implementation with batch norms, for three channels and two classes."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {"unet": Fact(31_037_698, "milesial/Pytorch-UNet", None, 256)}
