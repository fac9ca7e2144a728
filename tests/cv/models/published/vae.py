"""Two convolutions with norms, the moments of 32 numbers, and the generator of DCGAN, counted by hand."""

from tests.cv.models.published import Fact

QUICK = None
ENCODER = 9 * 3 * 32 + 2 * 32 + 9 * 32 * 64 + 2 * 64 + (8 * 8 * 64 + 1) * 2 * 32
DECODER = 32 * 8 * 8 * 64 + 2 * (64 + 32) + 16 * 64 * 32 + 16 * 32 * 3 + 3
FACTS = {"vae": Fact(ENCODER + DECODER, "by hand", None)}
