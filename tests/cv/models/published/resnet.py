"""torchvision for ImageNet; He et al. (arXiv 1512.03385), table 6, for CIFAR: 0.27 M, 0.46 M, 0.66 M, 0.85 M and 1.7 M,
with shortcut A.
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "resnet20_cifar"
PAPER = "arXiv 1512.03385, table 6 (rounded there)"
FACTS = {
    "resnet18": Fact(11_689_512, TORCHVISION, 1814),
    "resnet34": Fact(21_797_672, TORCHVISION, 3664),
    "resnet50": Fact(25_557_032, TORCHVISION, 4089),
    "resnet101": Fact(44_549_160, TORCHVISION, 7801),
    "resnet152": Fact(60_192_808, TORCHVISION, 11514),
    **{
        f"resnet{depth}_cifar": Fact(parameters, PAPER, None, image=32, small=16)
        for depth, parameters in [(20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018), (110, 1_727_962)]
    },
}
