"""b0 to b7: torchvision, at the sizes of its weights. lite0 to lite4: timm, whose counts round to the authors' 4.7,
5.4, 6.1, 8.2 and 13.0 M (tpu/models/official/efficientnet/lite). The authors' multiply-adds are those of TensorFlow's
profiler, which counts norms too; three for each of their values agrees with all five. The tf_ nets differ in padding
and norms, not in size. Images of 32 pixels would end as one, whose statistics over a batch of eight say too little.
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "efficientnet_lite0"
TIMM = "timm 1.0.31"
AUTHORS = "tpu/models/official/efficientnet/lite, README"
BASE = {
    "b0": Fact(5_288_548, TORCHVISION, 386, image=224, small=64),
    "b1": Fact(7_794_184, TORCHVISION, 687, image=240, small=64),
    "b2": Fact(9_109_994, TORCHVISION, 1088, image=288, small=64),
    "b3": Fact(12_233_232, TORCHVISION, 1827, image=300, small=64),
    "b4": Fact(19_341_616, TORCHVISION, 4394, image=380, small=64),
    "b5": Fact(30_389_784, TORCHVISION, 10266, image=456, small=64),
    "b6": Fact(43_040_704, TORCHVISION, 19068, image=528, small=64),
    "b7": Fact(66_347_960, TORCHVISION, 37746, image=600, small=64),
    "lite0": Fact(4_652_008, TIMM, 407, image=224, small=64, counted_by=AUTHORS, norms=3),
    "lite1": Fact(5_416_680, TIMM, 631, image=240, small=64, counted_by=AUTHORS, norms=3),
    "lite2": Fact(6_092_072, TIMM, 899, image=260, small=64, counted_by=AUTHORS, norms=3),
    "lite3": Fact(8_197_096, TIMM, 1440, image=280, small=64, counted_by=AUTHORS, norms=3),
    "lite4": Fact(13_006_568, TIMM, 2640, image=300, small=64, counted_by=AUTHORS, norms=3),
}
FACTS = {
    **{f"efficientnet_{size}": fact for size, fact in BASE.items()},
    **{f"tf_efficientnet_{size}": fact for size, fact in BASE.items()},
}
