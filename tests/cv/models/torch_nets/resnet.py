"""Residual networks in PyTorch."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, cin, width, s, down):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, s, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = down

    def forward(self, x):
        y = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        return torch.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


class Basic(nn.Module):
    def __init__(self, cin, width, s, down):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 3, s, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = down

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block, counts, expansion):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        cin = 64
        for i, n in enumerate(counts):
            width, s = 64 * 2**i, 1 if i == 0 else 2
            out, blocks = width * expansion, []
            for j in range(n):
                down = (
                    nn.Sequential(nn.Conv2d(cin, out, 1, s, bias=False), nn.BatchNorm2d(out))
                    if j == 0 and (s > 1 or cin != out)
                    else None
                )
                blocks.append(block(cin, width, s if j == 0 else 1, down))
                cin = out
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(cin, 1000)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


NETS = {
    "resnet18": lambda: ResNet(Basic, (2, 2, 2, 2), 1),
    "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3), 4),
}
