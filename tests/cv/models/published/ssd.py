"""torchvision's own counts, for 90 classes and the background; of the nets on MobileNets the authors print millions:
6.8 on V1 (arXiv 1704.04861, table 13), 5.1 and 4.3 of SSDLite on V1 and V2 (arXiv 1801.04381, table 6), for the 80
classes of COCO: 6,804,404, 5,100,661 and 4,337,013 here. SSD512 follows from the paper (arXiv 1512.02325).
"""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "ssdlite320_mobilenet_v3_large"
MOBILENETS = "arXiv 1801.04381, table 6 (80 classes, rounded there)"
FACTS = {
    "ssd300_vgg16": Fact(35_641_826, TORCHVISION, None, image=300),
    "ssd512_vgg16": Fact(37_513_116, "arXiv 1512.02325 (counted here)", None, image=512),
    "ssd300_mobilenet_v1": Fact(6_966_044, "arXiv 1704.04861, table 13 (80 classes, rounded there)", None, image=300),
    "ssdlite320_mobilenet_v1": Fact(5_246_911, MOBILENETS, None, image=320),
    "ssdlite320_mobilenet_v2": Fact(4_500_543, MOBILENETS, None, image=320),
    "ssdlite320_mobilenet_v3_large": Fact(3_440_060, TORCHVISION, None, image=320),
}
#: for 80 classes, as the papers count, in millions
PRINTED = {"ssd300_mobilenet_v1": "6.8", "ssdlite320_mobilenet_v1": "5.1", "ssdlite320_mobilenet_v2": "4.3"}
