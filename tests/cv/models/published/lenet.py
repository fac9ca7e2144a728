"""LeCun et al. give 60,000 for their sparse second layer; the full one, as in every tutorial since, has 61,706."""

from tests.cv.models.published import Fact

QUICK = "lenet_8"
BY_HAND = "counted by hand"
FACTS = {
    "lenet": Fact(
        (25 + 1) * 6 + (150 + 1) * 16 + (400 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10,
        BY_HAND,
        (784 * 25 * 6 + 100 * 150 * 16 + 400 * 120 + 120 * 84 + 84 * 10) / 1e6,
        image=28,
        small=28,
    ),
    "lenet_8": Fact(
        (9 + 1) * 16 + (144 + 1) * 32 + (128 + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10,
        BY_HAND,
        (64 * 9 * 16 + 16 * 144 * 32 + 128 * 120 + 120 * 84 + 84 * 10) / 1e6,
        image=8,
        small=8,
    ),
}
