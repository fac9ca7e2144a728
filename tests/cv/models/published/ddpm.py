"""The U-Net of arXiv 2006.11239 (appendix B) with one residual block a level, and two levels of 64 and 128 channels,
counted by hand."""

from tests.cv.models.published import Fact

QUICK = None
EMBEDDING = 256


def block(a: int, b: int) -> int:
    """Norms, two convolutions, scale and shift of the embedding, and a shortcut where channels differ."""
    return 2 * a + (9 * a + 1) * b + (EMBEDDING + 1) * 2 * b + 2 * b + (9 * b + 1) * b + ((a + 1) * b if a != b else 0)


TIME = (64 + 1) * EMBEDDING + (EMBEDDING + 1) * EMBEDDING
SIDES = block(64, 64) + (9 * 64 + 1) * 64 + block(64, 128) + block(256, 128) + 4 * 128 * 64 + 64 + block(128, 64)
MIDDLE = 2 * block(128, 128) + 2 * 128 + (128 + 1) * 4 * 128
ENDS = (9 * 3 + 1) * 64 + 2 * 64 + (9 * 64 + 1) * 3
FACTS = {"ddpm": Fact(TIME + SIDES + MIDDLE + ENDS, "arXiv 2006.11239, by hand", None)}
