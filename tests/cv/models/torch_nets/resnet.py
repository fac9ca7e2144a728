"""The reference nets in PyTorch, written from torchvision's definitions: run with a Python that has torch, not with
pdl's.

python torch_models.py FOLDER     writes FOLDER/<name>.npz: random weights and statistics, an input, and torch's output
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn


def conv_norm(cin, cout, k=3, s=1, groups=1, act=nn.ReLU, **norm):
    layers = [nn.Conv2d(cin, cout, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout, **norm)]
    return nn.Sequential(*layers, *([act()] if act else []))


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


class V2Block(nn.Module):
    def __init__(self, cin, out, s, t):
        super().__init__()
        h = cin * t
        expand = [conv_norm(cin, h, 1, act=nn.ReLU6)] if t != 1 else []
        self.conv = nn.Sequential(
            *expand, conv_norm(h, h, 3, s, h, nn.ReLU6), nn.Conv2d(h, out, 1, bias=False), nn.BatchNorm2d(out)
        )
        self.residual = s == 1 and cin == out

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class Squeeze(nn.Module):
    def __init__(self, c, q):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, q, 1), nn.Conv2d(q, c, 1)

    def forward(self, x):
        return x * nn.functional.hardsigmoid(self.fc2(torch.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class V3Block(nn.Module):
    def __init__(self, cin, k, h, out, se, hs, s):
        super().__init__()
        act, norm = nn.Hardswish if hs else nn.ReLU, {"eps": 0.001, "momentum": 0.01}
        layers = [conv_norm(cin, h, 1, act=act, **norm)] if h != cin else []
        layers.append(conv_norm(h, h, k, s, h, act, **norm))
        if se:
            q = max(8, (h // 4 + 4) // 8 * 8)
            layers.append(Squeeze(h, q + 8 if q < 0.9 * (h // 4) else q))
        self.block = nn.Sequential(*layers, conv_norm(h, out, 1, act=None, **norm))
        self.residual = s == 1 and cin == out

    def forward(self, x):
        return x + self.block(x) if self.residual else self.block(x)


class Mobile(nn.Module):
    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = features, classifier

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def v2():
    layers, cin = [conv_norm(3, 32, 3, 2, act=nn.ReLU6)], 32
    for t, c, n, s in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for i in range(n):
            layers.append(V2Block(cin, c, s if i == 0 else 1, t))
            cin = c
    return Mobile(
        nn.Sequential(*layers, conv_norm(320, 1280, 1, act=nn.ReLU6)),
        nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000)),
    )


def v3_small():
    rows = [
        (3, 16, 16, 1, 0, 2),
        (3, 72, 24, 0, 0, 2),
        (3, 88, 24, 0, 0, 1),
        (5, 96, 40, 1, 1, 2),
        (5, 240, 40, 1, 1, 1),
        (5, 240, 40, 1, 1, 1),
        (5, 120, 48, 1, 1, 1),
        (5, 144, 48, 1, 1, 1),
        (5, 288, 96, 1, 1, 2),
        (5, 576, 96, 1, 1, 1),
        (5, 576, 96, 1, 1, 1),
    ]
    norm, layers, cin = {"eps": 0.001, "momentum": 0.01}, [], 16
    for k, h, out, se, hs, s in rows:
        layers.append(V3Block(cin, k, h, out, se, hs, s))
        cin = out
    body = nn.Sequential(
        conv_norm(3, 16, 3, 2, act=nn.Hardswish, **norm), *layers, conv_norm(96, 576, 1, act=nn.Hardswish, **norm)
    )
    return Mobile(body, nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000)))


NETS = {
    "resnet18": lambda: ResNet(Basic, (2, 2, 2, 2), 1),
    "resnet50": lambda: ResNet(Bottleneck, (3, 4, 6, 3), 4),
    "mobilenet_v2": v2,
    "mobilenet_v3_small": v3_small,
}


def main(folder: Path) -> None:
    torch.manual_seed(0)
    for name, make in NETS.items():
        net = make().eval()
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.1)
                nn.init.normal_(module.running_mean, std=0.1)
                nn.init.uniform_(module.running_var, 0.5, 1.5)
        x = torch.randn(2, 3, 64, 64)
        with torch.no_grad():
            y = net(x)
        state = {f"state/{k}": v.numpy() for k, v in net.state_dict().items()}
        np.savez(folder / f"{name}.npz", x=x.permute(0, 2, 3, 1).numpy(), y=y.numpy(), **state)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
