"""All inference passes on the shipped models: the values of eager mode at several batch sizes, and few nodes."""

from __future__ import annotations

import pytest

import pdl_cv
from tests.framework.program.rewriting import Net, check_net

IMAGE = (32, 32, 3)
GONE = ("BatchNormEval", "NormConv", "Relu", "Hardtanh", "Add", "Hardswish", "Hardsigmoid")
NETS = {
    "lenet": Net(pdl_cv.LeNet, (28, 28, 1), 8, GONE),
    "resnet20": Net(lambda: pdl_cv.CifarResNet(20), IMAGE, 25, GONE),
    "resnet18": Net(lambda: pdl_cv.ResNet(18), IMAGE, 23, GONE),
    "resnet50": Net(lambda: pdl_cv.ResNet(50), IMAGE, 56, GONE),
    "mobilenet_v1": Net(lambda: pdl_cv.MobileNetV1(width=0.25), IMAGE, 29, GONE),
    "mobilenet_v2": Net(lambda: pdl_cv.MobileNetV2(width=0.5), IMAGE, 54, GONE),
    "mobilenet_v3_small": Net(lambda: pdl_cv.MobileNetV3(size="small"), IMAGE, 73, GONE),
    "mobilenet_v3_large": Net(lambda: pdl_cv.MobileNetV3(size="large"), IMAGE, 81, GONE),
}


@pytest.mark.parametrize("name", NETS)
def test_values_of_eager_mode(name: str) -> None:
    check_net(NETS[name])
