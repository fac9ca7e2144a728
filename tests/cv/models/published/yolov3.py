"""Exact numbers of nets trained in Keras and PyTorch from the authors' files: 61,949,149 (62,001,757 with statistics of
norms) and 8.85 million. Those on MobileNets are nobody's figures but follow from PaddleDetection's definitions.
"""

from tests.cv.models.published import Fact

QUICK = "yolov3_tiny"
ULTRALYTICS = "github.com/ultralytics/yolov3, model summary"
PADDLE = "PaddleDetection 2.7, configs/yolov3 (counted here)"
FACTS = {
    "yolov3_darknet53": Fact(61_949_149, ULTRALYTICS, None, image=416, small=64, millions="61.95"),
    "yolov3_tiny": Fact(8_852_366, ULTRALYTICS, None, image=416, small=64, millions="8.85"),
    "yolov3_mobilenet_v1": Fact(24_571_197, PADDLE, None, image=416, small=64),
    "yolov3_mobilenet_v3": Fact(23_608_237, PADDLE, None, image=416, small=64),
}
