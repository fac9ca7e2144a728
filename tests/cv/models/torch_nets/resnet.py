"""Residual networks in PyTorch."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, cin, width, s, down):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, s, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample, self.se = down, None

    def forward(self, x):
        y = torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))
        y = self.bn3(self.conv3(y))
        y = y if self.se is None else self.se(y)
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class Basic(nn.Module):
    def __init__(self, cin, width, s, down):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, width, 3, s, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample, self.se = down, None

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        y = y if self.se is None else self.se(y)
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


class Gate(nn.Module):
    """timm's, of a sixteenth of the channels, in eights."""

    def __init__(self, c):
        super().__init__()
        q = max(8, int(c / 16 + 4) // 8 * 8)
        self.fc1, self.fc2 = nn.Conv2d(c, q, 1), nn.Conv2d(q, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(torch.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


def blocks(net):
    return [module for module in net.modules() if isinstance(module, Basic | Bottleneck)]


def gated(net):
    """Squeeze-and-excite behind every block."""
    for block in blocks(net):
        block.se = Gate((block.conv3 if isinstance(block, Bottleneck) else block.conv2).out_channels)
    return net


def grouped(net, groups, width):
    """ResNeXt."""
    for block in blocks(net):
        first, second, third = block.conv1, block.conv2, block.conv3
        inner = first.out_channels * width // 64 * groups
        block.conv1 = nn.Conv2d(first.in_channels, inner, 1, bias=False)
        block.conv2 = nn.Conv2d(inner, inner, 3, second.stride, 1, groups=groups, bias=False)
        block.conv3 = nn.Conv2d(inner, third.out_channels, 1, bias=False)
        block.bn1, block.bn2 = nn.BatchNorm2d(inner), nn.BatchNorm2d(inner)
    return net


def deep(net):
    """ResNet-D: three convolutions as stem, and an average where a shortcut has a stride."""
    stem = [(3, 32, 2), (32, 32, 1)]
    layers = [
        layer for a, b, s in stem for layer in (nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
    ]
    net.conv1 = nn.Sequential(*layers, nn.Conv2d(32, 64, 3, 1, 1, bias=False))
    for block in blocks(net):
        if block.downsample is not None:
            conv, norm = block.downsample
            pool = nn.AvgPool2d(2, 2, ceil_mode=True, count_include_pad=False) if conv.stride[0] > 1 else nn.Identity()
            conv = nn.Conv2d(conv.in_channels, conv.out_channels, 1, bias=False)
            block.downsample = nn.Sequential(pool, conv, norm)
    return net


NETS = {
    "resnet18": lambda: ResNet(Basic, (2, 2, 2, 2), 1),
    "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3), 4),
    "resnext50_32x4d": lambda: grouped(ResNet(Bottleneck, (3, 4, 6, 3), 4), 32, 4),
    "seresnet18": lambda: gated(ResNet(Basic, (2, 2, 2, 2), 1)),
    "resnet18d": lambda: deep(ResNet(Basic, (2, 2, 2, 2), 1)),
}
SIZES = {"resnet18d": 70}
