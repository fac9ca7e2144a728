"""EfficientNets in PyTorch: b0 with torchvision's names, lite0 with timm's, and with TensorFlow's padding the names of
the package efficientnet_pytorch.
"""

import torch
from torch import nn
from torch.nn import functional as F

#: random statistics would let nothing of the image through this many gates
CALIBRATED = True
STAGES = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
          (6, 3, 1, 320, 1)]  # fmt: skip


def conv_norm(cin, cout, k=1, s=1, groups=1, act=True):
    layers = [nn.Conv2d(cin, cout, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout)]
    return nn.Sequential(*layers, *([nn.SiLU()] if act else []))


class Squeeze(nn.Module):
    def __init__(self, c, q):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, q, 1), nn.Conv2d(q, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.silu(self.fc1(x.mean((2, 3), keepdim=True)))))


class MBConv(nn.Module):
    def __init__(self, cin, t, k, s, out):
        super().__init__()
        h = cin * t
        expand = [conv_norm(cin, h)] if t > 1 else []
        gate = Squeeze(h, max(1, cin // 4))
        self.block = nn.Sequential(*expand, conv_norm(h, h, k, s, h), gate, conv_norm(h, out, act=False))
        self.residual = s == 1 and cin == out

    def forward(self, x):
        return x + self.block(x) if self.residual else self.block(x)


class B0(nn.Module):
    def __init__(self):
        super().__init__()
        stages, cin = [], 32
        for t, k, s, c, n in STAGES:
            stages.append(nn.Sequential(*(MBConv(c if i else cin, t, k, 1 if i else s, c) for i in range(n))))
            cin = c
        self.features = nn.Sequential(conv_norm(3, 32, 3, 2), *stages, conv_norm(320, 1280))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class LiteBlock(nn.Module):
    def __init__(self, cin, t, k, s, out):
        super().__init__()
        h, norms = cin * t, 1
        self.expanded, self.residual = t > 1, s == 1 and cin == out
        if self.expanded:
            self.conv_pw, self.bn1, norms = nn.Conv2d(cin, h, 1, bias=False), nn.BatchNorm2d(h), 2
        self.conv_dw = nn.Conv2d(h, h, k, s, k // 2, groups=h, bias=False)
        last = nn.Conv2d(h, out, 1, bias=False)
        setattr(self, f"bn{norms}", nn.BatchNorm2d(h))
        setattr(self, "conv_pwl" if self.expanded else "conv_pw", last)
        setattr(self, f"bn{norms + 1}", nn.BatchNorm2d(out))

    def forward(self, x):
        if self.expanded:
            y = F.relu6(self.bn1(self.conv_pw(x)))
            y = self.bn3(self.conv_pwl(F.relu6(self.bn2(self.conv_dw(y)))))
        else:
            y = self.bn2(self.conv_pw(F.relu6(self.bn1(self.conv_dw(x)))))
        return x + y if self.residual else y


class Lite0(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_stem, self.bn1 = nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
        stages, cin = [], 32
        for t, k, s, c, n in STAGES:
            stages.append(nn.Sequential(*(LiteBlock(c if i else cin, t, k, 1 if i else s, c) for i in range(n))))
            cin = c
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.bn2 = nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280)
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x):
        x = self.blocks(F.relu6(self.bn1(self.conv_stem(x))))
        return self.classifier(F.relu6(self.bn2(self.conv_head(x))).mean((2, 3)))


class Same(nn.Conv2d):
    """A convolution with TensorFlow's padding."""

    def forward(self, x):
        pads = []
        for size, k, s in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = max((-(-size // s) - 1) * s + k - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


def norm(c):
    return nn.BatchNorm2d(c, eps=1e-3, momentum=0.01)


class EarlyBlock(nn.Module):
    def __init__(self, cin, t, k, s, out):
        super().__init__()
        h = cin * t
        self.expanded, self.residual = t > 1, s == 1 and cin == out
        if self.expanded:
            self._expand_conv, self._bn0 = Same(cin, h, 1, bias=False), norm(h)
        self._depthwise_conv, self._bn1 = Same(h, h, k, s, groups=h, bias=False), norm(h)
        self._project_conv, self._bn2 = Same(h, out, 1, bias=False), norm(out)

    def forward(self, x):
        y = F.relu6(self._bn0(self._expand_conv(x))) if self.expanded else x
        y = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(y)))))
        return x + y if self.residual else y


class EarlyLite0(nn.Module):
    def __init__(self):
        super().__init__()
        self._conv_stem, self._bn0 = Same(3, 32, 3, 2, bias=False), norm(32)
        blocks, cin = [], 32
        for t, k, s, c, n in STAGES:
            blocks += [EarlyBlock(c if i else cin, t, k, 1 if i else s, c) for i in range(n)]
            cin = c
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = Same(320, 1280, 1, bias=False), norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x):
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return self._fc(F.relu6(self._bn1(self._conv_head(x))).mean((2, 3)))


NETS = {"efficientnet_b0": B0, "efficientnet_lite0": Lite0, "tf_efficientnet_lite0": EarlyLite0}
SIZES = {"tf_efficientnet_lite0": 70}
