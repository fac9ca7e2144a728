"""The authors print 20 million; the exact number is that of their definition, without the embedding of noisy queries,
which is for training alone.
"""

from tests.cv.models.published import Fact

QUICK = None  # 20 million parameters: half a minute
FACTS = {
    "rt_detr_r18": Fact(20_163_728, "github.com/lyuwenyu/RT-DETR, README", None, image=640, small=64, millions="20")
}
