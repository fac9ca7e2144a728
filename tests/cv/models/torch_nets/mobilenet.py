"""MobileNets in PyTorch."""

import torch
from torch import nn


def conv_norm(cin, cout, k=3, s=1, groups=1, act=nn.ReLU, **norm):
    layers = [nn.Conv2d(cin, cout, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout, **norm)]
    return nn.Sequential(*layers, *([act()] if act else []))


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


NETS = {"mobilenet_v2": v2, "mobilenet_v3_small": v3_small}
