"""The authors print millions (README of github.com/Megvii-BaseDetection/YOLOX); the exact numbers are those of their
definition, which `tests/cv/models/torch_nets/yolox.py` writes again.
"""

from tests.cv.models.published import Fact

QUICK = "yolox_nano"
AUTHORS = "github.com/Megvii-BaseDetection/YOLOX, README"
COUNTED = [
    ("nano", 912_159, "0.91", 416), ("tiny", 5_055_855, "5.06", 416), ("s", 8_968_255, "9.0", 640),
    ("m", 25_326_495, "25.3", 640), ("l", 54_208_895, "54.2", 640), ("x", 99_071_455, "99.1", 640),
]  # fmt: skip
FACTS = {
    f"yolox_{size}": Fact(parameters, AUTHORS, None, image=image, small=64, millions=millions)
    for size, parameters, millions, image in COUNTED
}
