"""timm's net: parameters by its own count, multiply-adds (rounded to 100 M) from its model card, which holds for
299 x 299 pixels.
"""

from tests.cv.models.published import Fact

QUICK = "inception_v4"
TIMM = "timm 1.0.31"
CARD = "model card of timm/inception_v4.tf_in1k"
FACTS = {"inception_v4": Fact(42_679_816, TIMM, 12_300, image=299, counted_by=CARD, small=75, least=75)}
