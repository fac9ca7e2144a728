"""torchvision where it has the net, otherwise timm: parameters by its own count, multiply-adds, rounded to 10 M, from
its results (model_benchmark_amp_nchw_rtx3090.csv). For CIFAR He et al. (arXiv 1512.03385), table 6: 0.27 M, 0.46 M,
0.66 M, 0.85 M and 1.7 M, with shortcut A. Paddle calls the ResNet-D nets "vd".
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "resnet20_cifar"
PAPER = "arXiv 1512.03385, table 6 (rounded there)"
TIMM = "timm 1.0.31"
D = {
    18: Fact(11_708_744, TIMM, 2060),
    34: Fact(21_816_904, TIMM, 3910),
    50: Fact(25_576_264, TIMM, 4350),
    101: Fact(44_568_392, TIMM, 8080),
    152: Fact(60_212_040, TIMM, 11800),
}
FACTS = {
    "resnet18": Fact(11_689_512, TORCHVISION, 1814),
    "resnet34": Fact(21_797_672, TORCHVISION, 3664),
    "resnet50": Fact(25_557_032, TORCHVISION, 4089),
    "resnet101": Fact(44_549_160, TORCHVISION, 7801),
    "resnet152": Fact(60_192_808, TORCHVISION, 11514),
    "resnext50_32x4d": Fact(25_028_904, TORCHVISION, 4230),
    "resnext101_32x4d": Fact(44_177_704, TIMM, 8010),
    "resnext101_32x8d": Fact(88_791_336, TORCHVISION, 16414),
    "resnext101_64x4d": Fact(83_455_272, TORCHVISION, 15460),
    "wide_resnet50_2": Fact(68_883_240, TORCHVISION, 11398),
    "wide_resnet101_2": Fact(126_886_696, TORCHVISION, 22753),
    "seresnet18": Fact(11_779_624, TIMM, 1820),
    "seresnet34": Fact(21_960_416, TIMM, 3670),
    "seresnet50": Fact(28_088_024, TIMM, 4110),
    "seresnet101": Fact(49_326_872, TIMM, None),
    "seresnet152": Fact(66_821_848, TIMM, None),
    "seresnext50_32x4d": Fact(27_559_896, TIMM, 4260),
    "seresnext101_32x4d": Fact(48_955_416, TIMM, 8020),
    "seresnext101_32x8d": Fact(93_569_048, TIMM, None),
    **{f"resnet{depth}d": fact for depth, fact in D.items()},
    **{f"resnet{depth}_vd": fact for depth, fact in D.items()},
    **{
        f"resnet{depth}_cifar": Fact(parameters, PAPER, None, image=32, small=16)
        for depth, parameters in [(20, 269_722), (32, 464_154), (44, 658_586), (56, 853_018), (110, 1_727_962)]
    },
}
