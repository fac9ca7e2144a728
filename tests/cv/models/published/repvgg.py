"""The nets as they are trained: timm counts parameters exactly, and multiply-adds, rounded to 10 M, in its results
(model_benchmark_amp_nchw_rtx3090.csv; a0, a1: OpenMMLab's mmpretrain, configs/repvgg). DEPLOYED: table 4 of arXiv
2101.03697, parameters in millions.
"""

from tests.cv.models.published import Fact

QUICK = "repvgg_a0"
TIMM = "timm 1.0.31"
FACTS = {
    "repvgg_a0": Fact(9_108_968, TIMM, 1520),
    "repvgg_a1": Fact(14_092_264, TIMM, 2640),
    "repvgg_a2": Fact(28_210_600, TIMM, 5700),
    "repvgg_b0": Fact(15_817_960, TIMM, 3410),
    "repvgg_b1": Fact(57_415_016, TIMM, 13160),
    "repvgg_b1g4": Fact(39_966_056, TIMM, 8150),
    "repvgg_b2": Fact(89_022_376, TIMM, 20450),
    "repvgg_b2g4": Fact(61_758_376, TIMM, 12630),
    "repvgg_b3": Fact(123_085_288, TIMM, 29160),
    "repvgg_b3g4": Fact(83_825_128, TIMM, 17890),
}
DEPLOYED = {
    "repvgg_a0": 8.30, "repvgg_a1": 12.78, "repvgg_a2": 25.49, "repvgg_b0": 14.33, "repvgg_b1": 51.82,
    "repvgg_b1g4": 36.12, "repvgg_b2": 80.31, "repvgg_b2g4": 55.77, "repvgg_b3": 110.96, "repvgg_b3g4": 75.62,
}  # fmt: skip
