"""SqueezeNet in PyTorch."""

import torch
from torch import nn


class Fire(nn.Module):
    def __init__(self, cin, squeezed, out):
        super().__init__()
        self.squeeze = nn.Conv2d(cin, squeezed, 1)
        self.expand1x1, self.expand3x3 = nn.Conv2d(squeezed, out, 1), nn.Conv2d(squeezed, out, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.relu(torch.cat([self.expand1x1(x), self.expand3x3(x)], 1))


class SqueezeNet(nn.Module):
    def __init__(self, stem, *layers):
        super().__init__()
        pools = [nn.MaxPool2d(3, 2, ceil_mode=True) if layer is None else Fire(*layer) for layer in layers]
        self.features = nn.Sequential(stem, nn.ReLU(), *pools)
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(512, 1000, 1), nn.ReLU())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight)

    def forward(self, x):
        return self.classifier(self.features(x)).mean((2, 3))


NETS = {
    "squeezenet1_0": lambda: SqueezeNet(
        nn.Conv2d(3, 96, 7, 2), None, (96, 16, 64), (128, 16, 64), (128, 32, 128), None, (256, 32, 128),
        (256, 48, 192), (384, 48, 192), (384, 64, 256), None, (512, 64, 256),
    ),
    "squeezenet1_1": lambda: SqueezeNet(
        nn.Conv2d(3, 64, 3, 2), None, (64, 16, 64), (128, 16, 64), None, (128, 32, 128), (256, 32, 128), None,
        (256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256),
    ),
}  # fmt: skip
SIZES = {"squeezenet1_0": 21, "squeezenet1_1": 76}
