"""timm's net, and its results table: 12.28 GMACs at 299 x 299, pooling counted too."""

from tests.cv.models.published import Fact

QUICK = "inception_v4"
TIMM = "timm 1.0, inception_v4.tf_in1k"
FACTS = {"inception_v4": Fact(42_679_816, TIMM, 12_280, image=299, small=75, least=75)}
