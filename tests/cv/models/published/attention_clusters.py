"""Counted by the formulas of the paper (arXiv 1711.09550, section 3): 16 units on 512 features of ResNet-18 without its
head, a weight for each feature and a bias, alpha and beta each; and the last layer.
"""

from tests.cv.models.published import Fact

QUICK = None
NET, UNITS, CLASSES = 11_689_512 - 1000 * 513, 16, 400
FACTS = {
    "attention_clusters_resnet18": Fact(
        NET + UNITS * (513 + 2) + (UNITS * 512 + 1) * CLASSES, "arXiv 1711.09550, section 3", None
    )
}
