"""Parameters: torchvision's `num_params` for base and large, the counts of timm's nets for the rest.

Multiply-adds: torchvision's `_ops`, which count the two products of attention (2 L^2 dim a block) as this framework
does; for small and DeiT's base table 1 of Liu et al., arXiv 2103.14030, rounded to 0.1 G. (timm's model cards leave
attention out: 1.1 G for tiny, 16.9 G for base.)
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "deit_tiny_distilled_patch16_224"
TIMM = "timm 1.0.31"
SWIN_PAPER = "arXiv 2103.14030, table 1"
SMALL = (("image_size", 32),)
LARGE = (("image_size", 64),)


def fact(parameters: int, multiply_adds: float | None = None) -> Fact:
    return Fact(parameters, TIMM, multiply_adds, counted_by=SWIN_PAPER, small=32, options=SMALL)


FACTS = {
    "vit_tiny_patch16_224": fact(5_717_416),
    "vit_small_patch16_224": fact(22_050_664, 4600),
    "vit_base_patch16_224": Fact(86_567_656, TORCHVISION, 17564, options=SMALL),
    "vit_large_patch16_224": Fact(304_326_632, TORCHVISION, 61555, options=SMALL),
    "vit_small_patch32_224": Fact(22_878_952, TIMM, None, small=64, options=LARGE),
    "vit_base_patch32_224": Fact(88_224_232, TORCHVISION, 4409, small=64, options=LARGE),
    "vit_large_patch32_224": Fact(306_535_400, TORCHVISION, 15378, small=64, options=LARGE),
    "deit_tiny_patch16_224": fact(5_717_416),
    "deit_small_patch16_224": fact(22_050_664, 4600),
    "deit_base_patch16_224": fact(86_567_656, 17500),
    "deit_tiny_distilled_patch16_224": fact(5_910_800),
    "deit_small_distilled_patch16_224": fact(22_436_432),
    "deit_base_distilled_patch16_224": fact(87_338_192),
}
