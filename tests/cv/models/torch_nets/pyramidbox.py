"""PyramidBox in PyTorch, from arXiv 1803.07737 and the layers of PaddlePaddle/models, with pdl's names."""

import torch
from _detection import cells, rows
from torch import nn
from torch.nn import functional as F

STRIDES = (4, 8, 16, 32, 64, 128)


def norm(cin, cout, k=1, act=True):
    layers = [nn.Conv2d(cin, cout, k, padding=k // 2, bias=False), nn.BatchNorm2d(cout, eps=1e-3)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


def conv(cin, cout, k=3):
    return nn.Conv2d(cin, cout, k, padding=k // 2)


class Context(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.shortcut = norm(c, 1024, act=False)
        self.body = nn.Sequential(norm(c, 256), norm(256, 256, 3), norm(256, 1024, act=False))
        self.near, self.narrow, self.middle = conv(1024, 256), conv(1024, 128), conv(128, 128)
        self.far = nn.Sequential(conv(128, 128), nn.ReLU(), conv(128, 128))

    def forward(self, x):
        x = F.relu(self.body(x) + self.shortcut(x))
        y = F.relu(self.narrow(x))
        return F.relu(torch.cat([self.near(x), self.middle(y), self.far(y)], 1))


class Length(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.full((512,), float(n)))

    def forward(self, x):
        return F.normalize(x, dim=1) * self.weight[:, None, None]


class PyramidBox(nn.Module):
    def __init__(self):
        super().__init__()
        features, c = [], 3
        for n, width in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
            for _ in range(n):
                features += [conv(c, width), nn.ReLU()]
                c = width
            features.append(nn.MaxPool2d(2))
        self.backbone = nn.Module()
        self.backbone.net = nn.Module()
        self.backbone.net.features = nn.Sequential(*features)
        self.backbone.fc = nn.Sequential(conv(512, 1024), nn.ReLU(), conv(1024, 1024, 1), nn.ReLU())
        self.extra = nn.ModuleList()
        for a, b, d in ((1024, 256, 512), (512, 128, 256)):
            self.extra.append(nn.Sequential(conv(a, b, 1), nn.ReLU(), nn.Conv2d(b, d, 3, 2, 1), nn.ReLU()))
        self.down = nn.ModuleList([conv(a, b, 1) for a, b in ((1024, 512), (512, 512), (512, 256))])
        self.across = nn.ModuleList([conv(a, a, 1) for a in (512, 512, 256)])
        self.context = nn.ModuleList([Context(a) for a in (256, 512, 512, 1024, 512, 256)])
        self.lengths = nn.ModuleList([Length(n) for n in (10, 8, 5)])
        self.classes, self.boxes = (nn.ModuleList([conv(512, 4) for _ in STRIDES]) for _ in range(2))
        self.region_classes = nn.ModuleList([nn.ModuleList([conv(512, 2) for _ in STRIDES]) for _ in range(2)])
        self.region_boxes = nn.ModuleList([nn.ModuleList([conv(512, 4) for _ in STRIDES]) for _ in range(2)])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, images):
        x, maps = images, []
        for layer in self.backbone.net.features:
            if isinstance(layer, nn.MaxPool2d):
                maps.append(x)
            x = layer(x)
        c3, c4, c5 = maps[2:]
        fc = self.backbone.fc(x)
        fused, above = [], fc
        for down, across, c in zip(self.down, self.across, (c5, c4, c3), strict=True):
            up = F.interpolate(F.relu(down(above)), size=c.shape[2:], mode="bilinear", align_corners=False)
            above = up * F.relu(across(c))
            fused.insert(0, above)
        c6 = self.extra[0](fc)
        maps = [module(y) for module, y in zip(self.context, [*fused, fc, c6, self.extra[1](c6)], strict=True)]
        maps[:3] = [length(y) for length, y in zip(self.lengths, maps[:3], strict=True)]
        scores = []
        for i, (layer, y) in enumerate(zip(self.classes, maps, strict=True)):
            z = layer(y)
            pair = (z[:, :3].amax(1), z[:, 3]) if i == 0 else (z[:, 0], z[:, 1:].amax(1))
            scores.append(torch.stack(pair, 1))
        scores = rows(scores).softmax(-1)[..., 1:]
        middles, stride = cells(maps, STRIDES)
        side = 4 * stride
        shifts = rows([layer(y) for layer, y in zip(self.boxes, maps, strict=True)])
        middle = middles + shifts[..., :2] / 10 * side
        half = side / 2 * torch.exp(shifts[..., 2:] / 5)
        size = images.shape[2]
        boxes = torch.cat([middle - half, middle + half], -1).clamp(0, size)
        return torch.cat([boxes, scores], -1)


NETS = {"pyramidbox": PyramidBox}
