"""RepVGG in PyTorch, as it is trained, with timm's names."""

import torch
from torch import nn


class Branch(nn.Module):
    def __init__(self, cin, out, k, s):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(cin, out, k, s, k // 2, bias=False), nn.BatchNorm2d(out)

    def forward(self, x):
        return self.bn(self.conv(x))


class Block(nn.Module):
    def __init__(self, cin, out, s):
        super().__init__()
        self.identity = nn.BatchNorm2d(cin) if s == 1 and cin == out else None
        self.conv_kxk, self.conv_1x1 = Branch(cin, out, 3, s), Branch(cin, out, 1, s)

    def forward(self, x):
        y = self.conv_kxk(x) + self.conv_1x1(x)
        return torch.relu(y if self.identity is None else y + self.identity(x))


class Head(nn.Module):
    def __init__(self, cin):
        super().__init__()
        self.fc = nn.Linear(cin, 1000)

    def forward(self, x):
        return self.fc(x.mean((2, 3)))


class RepVGG(nn.Module):
    def __init__(self, counts, widths):
        super().__init__()
        cin = min(64, widths[0])
        self.stem, stages = Block(3, cin, 2), []
        for n, c in zip(counts, widths, strict=True):
            stages.append(nn.Sequential(*(Block(c if i else cin, c, 1 if i else 2) for i in range(n))))
            cin = c
        self.stages, self.head = nn.Sequential(*stages), Head(cin)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)))


NETS = {"repvgg_a0": lambda: RepVGG((2, 4, 14, 1), (48, 96, 192, 1280))}
