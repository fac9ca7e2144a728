"""ShuffleNetV2 in PyTorch, with torchvision's names."""

import torch
from torch import nn


def wide(cin, cout, k=1, s=1):
    return [nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]


def depthwise(c, s):
    return [nn.Conv2d(c, c, 3, s, 1, groups=c, bias=False), nn.BatchNorm2d(c)]


class Block(nn.Module):
    def __init__(self, cin, out, s):
        super().__init__()
        half = out // 2
        self.branch1 = nn.Sequential(*(depthwise(cin, s) + wide(cin, half) if s > 1 else []))
        self.branch2 = nn.Sequential(*wide(cin if s > 1 else half, half), *depthwise(half, s), *wide(half, half))
        self.stride = s

    def forward(self, x):
        a, b = (x, x) if self.stride > 1 else x.chunk(2, 1)
        n, _, h, w = (y := torch.cat([self.branch1(a), self.branch2(b)], 1)).shape
        return y.view(n, 2, -1, h, w).transpose(1, 2).reshape(n, -1, h, w)


class ShuffleNet(nn.Module):
    def __init__(self, widths, last):
        super().__init__()
        self.conv1, cin = nn.Sequential(*wide(3, 24, 3, 2)), 24
        for i, (n, c) in enumerate(zip((4, 8, 4), widths, strict=True)):
            setattr(self, f"stage{i + 2}", nn.Sequential(*(Block(c if j else cin, c, 1 if j else 2) for j in range(n))))
            cin = c
        self.conv5, self.fc = nn.Sequential(*wide(cin, last)), nn.Linear(last, 1000)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x), 3, 2, 1)
        return self.fc(self.conv5(self.stage4(self.stage3(self.stage2(x)))).mean((2, 3)))


NETS = {"shufflenet_v2_x0_5": lambda: ShuffleNet((48, 96, 192), 1024)}
