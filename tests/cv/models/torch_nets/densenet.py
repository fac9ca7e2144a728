"""DenseNet-BC in PyTorch."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, cin, growth):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(cin), nn.Conv2d(cin, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(torch.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.norm2(y)))], 1)


class DenseNet(nn.Module):
    def __init__(self, growth, counts, width):
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, width, 7, 2, 3, bias=False))
        self.features.add_module("norm0", nn.BatchNorm2d(width))
        self.features.add_module("relu0", nn.ReLU())
        self.features.add_module("pool0", nn.MaxPool2d(3, 2, 1))
        for number, count in enumerate(counts, 1):
            block = nn.Sequential()
            for layer in range(count):
                block.add_module(f"denselayer{layer + 1}", Layer(width, growth))
                width += growth
            self.features.add_module(f"denseblock{number}", block)
            if number < len(counts):
                half = nn.Sequential()
                half.add_module("norm", nn.BatchNorm2d(width))
                half.add_module("relu", nn.ReLU())
                half.add_module("conv", nn.Conv2d(width, width // 2, 1, bias=False))
                half.add_module("pool", nn.AvgPool2d(2))
                self.features.add_module(f"transition{number}", half)
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, 1000)

    def forward(self, x):
        return self.classifier(torch.relu(self.features(x)).mean((2, 3)))


NETS = {"densenet121": lambda: DenseNet(32, (6, 12, 24, 16), 64)}
