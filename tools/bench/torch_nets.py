"""The benchmark's nets in PyTorch, layer for layer those of pdl_cv."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of images [N, C, 28, 28]."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class Block(nn.Module):
    """Two 3x3 convolutions and a parameter-free shortcut (He et al. 2015, option A)."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(c_out), nn.BatchNorm2d(c_out)
        self.stride, self.more = stride, c_out - c_in

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """ReLU(x' + F(x))."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(x + y)


class ResNet20(nn.Module):
    """The CIFAR ResNet of depth 20."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        sizes = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1),
                 (64, 64, 1)]  # fmt: skip
        self.blocks = nn.Sequential(*[Block(*s) for s in sizes])
        self.fc = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of images [N, C, 32, 32]."""
        return self.fc(self.blocks(F.relu(self.bn(self.conv(x)))).mean((2, 3)))


NETS = {"lenet": LeNet, "resnet20": ResNet20}
