"""The authors' weights for ADE20K (150 classes) ; table 1 of the paper: 3.8 and 13.7 million."""

from tests.cv.models.published import Fact

FACTS = {
    "segformer_b0": Fact(3_752_694, "nvidia/segformer-b0-finetuned-ade-512-512", None, 512),
    "segformer_b1": Fact(13_715_798, "nvidia/segformer-b1-finetuned-ade-512-512", None, 512),
}
