"""GoogLeNet in PyTorch."""

import torch
from torch import nn


class Unit(nn.Module):
    def __init__(self, cin, cout, k, s=1):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(cin, cout, k, s, k // 2, bias=False), nn.BatchNorm2d(cout, eps=0.001)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    def __init__(self, cin, a, b1, b2, c1, c2, d):
        super().__init__()
        self.branch1 = Unit(cin, a, 1)
        self.branch2 = nn.Sequential(Unit(cin, b1, 1), Unit(b1, b2, 3))
        self.branch3 = nn.Sequential(Unit(cin, c1, 1), Unit(c1, c2, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), Unit(cin, d, 1))

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.children()], 1)


class GoogLeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = Unit(3, 64, 7, 2), Unit(64, 64, 1), Unit(64, 192, 3)
        self.inception3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self.inception4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self.inception5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.fc = nn.Linear(1024, 1000)

    def forward(self, x):
        def pooled(x, k=3):
            return nn.functional.max_pool2d(x, k, 2, ceil_mode=True)

        x = pooled(self.conv3(self.conv2(pooled(self.conv1(x)))))
        x = pooled(self.inception3b(self.inception3a(x)))
        x = self.inception4e(self.inception4d(self.inception4c(self.inception4b(self.inception4a(x)))))
        return self.fc(self.inception5b(self.inception5a(pooled(x, 2))).mean((2, 3)))


NETS = {"googlenet": GoogLeNet}
SIZES = {"googlenet": 80}
