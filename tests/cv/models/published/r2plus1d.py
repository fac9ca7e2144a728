"""torchvision: `num_params` of R2Plus1D_18_Weights."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = None
FACTS = {"r2plus1d_18": Fact(31_505_325, TORCHVISION, None)}
