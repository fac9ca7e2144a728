"""The authors' weights for ADE20K (150 classes); table 1 of the paper: 3.8, 13.7 and 27.5 million."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {
    "segformer_b0": Fact(3_752_694, "nvidia/segformer-b0-finetuned-ade-512-512", None, 512),
    "segformer_b1": Fact(13_715_798, "nvidia/segformer-b1-finetuned-ade-512-512", None, 512),
    "segformer_b2": Fact(27_461_974, "arXiv 2105.15203, table 1", None, 512, millions="27.5"),
}
