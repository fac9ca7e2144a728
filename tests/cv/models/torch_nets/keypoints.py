"""Nets of heatmaps in PyTorch: Simple Baselines and Lite-HRNet, with their authors' names; outputs channels last."""

import torch
from resnet import Bottleneck, ResNet
from torch import nn
from torch.nn import functional as F


class Baseline(ResNet):
    def __init__(self):
        super().__init__(Bottleneck, (3, 4, 6, 3), 4)
        del self.fc
        layers, cin = [], 2048
        for _ in range(3):
            layers += [nn.ConvTranspose2d(cin, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU()]
            cin = 256
        self.deconv_layers, self.final_layer = nn.Sequential(*layers), nn.Conv2d(256, 17, 1)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.final_layer(self.deconv_layers(x)).permute(0, 2, 3, 1)


class Unit(nn.Module):
    def __init__(self, cin, out, k=1, s=1, groups=1, act=None, norm=True):
        super().__init__()
        self.conv = nn.Conv2d(cin, out, k, s, k // 2, groups=groups, bias=not norm)
        self.bn = nn.BatchNorm2d(out) if norm else nn.Identity()
        self.act = act or nn.Identity()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


def wide(c, s=1):
    return Unit(c, c, 3, s, c)


def point(cin, out):
    return Unit(cin, out, act=nn.ReLU())


def shuffle(x):
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = Unit(3, 32, 3, 2, act=nn.ReLU())
        self.branch1 = nn.Sequential(wide(16, 2), point(16, 16))
        self.expand_conv, self.depthwise_conv, self.linear_conv = point(16, 32), wide(32, 2), point(32, 16)

    def forward(self, x):
        a, b = self.conv1(x).chunk(2, 1)
        return shuffle(torch.cat([self.branch1(a), self.linear_conv(self.depthwise_conv(self.expand_conv(b)))], 1))


class Cross(nn.Module):
    def __init__(self, channels):
        super().__init__()
        total = sum(channels)
        self.channels, self.conv1 = channels, point(total, total // 8)
        self.conv2 = Unit(total // 8, total, act=nn.Sigmoid())

    def forward(self, xs):
        low = xs[-1].shape[2:]
        y = self.conv2(self.conv1(torch.cat([F.adaptive_avg_pool2d(x, low) for x in xs], 1)))
        return [x * F.interpolate(part, x.shape[2:]) for x, part in zip(xs, y.split(self.channels, 1), strict=True)]


class Spatial(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = Unit(c, c // 4, act=nn.ReLU(), norm=False)
        self.conv2 = Unit(c // 4, c, act=nn.Sigmoid(), norm=False)

    def forward(self, x):
        return x * self.conv2(self.conv1(x.mean((2, 3), keepdim=True)))


class Weighting(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = [c // 2 for c in channels]
        self.cross_resolution_weighting = Cross(half)
        self.depthwise_convs = nn.ModuleList([wide(c) for c in half])
        self.spatial_weighting = nn.ModuleList([Spatial(c) for c in half])

    def forward(self, xs):
        left, right = zip(*(x.chunk(2, 1) for x in xs), strict=True)
        right = self.cross_resolution_weighting(right)
        rows = zip(left, right, self.depthwise_convs, self.spatial_weighting, strict=True)
        return [shuffle(torch.cat([a, s(d(b))], 1)) for a, b, d, s in rows]


class Shuffle(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.branch2 = nn.Sequential(point(c // 2, c // 2), wide(c // 2), point(c // 2, c // 2))

    def forward(self, x):
        a, b = x.chunk(2, 1)
        return shuffle(torch.cat([a, self.branch2(b)], 1))


def separable(cin, out, s, relu=True):
    conv, last = nn.Conv2d(cin, cin, 3, s, 1, groups=cin, bias=False), [nn.ReLU()] if relu else []
    return nn.Sequential(conv, nn.BatchNorm2d(cin), nn.Conv2d(cin, out, 1, bias=False), nn.BatchNorm2d(out), *last)


def fuse(cs, i, j):
    if j == i:
        return nn.Identity()
    if j > i:
        return nn.Sequential(
            nn.Conv2d(cs[j], cs[i], 1, bias=False), nn.BatchNorm2d(cs[i]), nn.Upsample(None, 2 ** (j - i))
        )
    return nn.Sequential(
        *(separable(cs[j], cs[j], 2) for _ in range(i - j - 1)), separable(cs[j], cs[i], 2, relu=False)
    )


class Module(nn.Module):
    def __init__(self, cs, weighting):
        super().__init__()
        n = range(len(cs))
        naive = nn.ModuleList([nn.Sequential(Shuffle(c), Shuffle(c)) for c in cs])
        self.weighting, self.layers = weighting, nn.Sequential(Weighting(cs), Weighting(cs)) if weighting else naive
        self.fuse_layers = nn.ModuleList([nn.ModuleList([fuse(cs, i, j) for j in n]) for i in n])

    def forward(self, xs):
        xs = self.layers(xs) if self.weighting else [f(x) for f, x in zip(self.layers, xs, strict=True)]
        xs, found = list(xs), []
        for i, row in enumerate(self.fuse_layers):
            y = xs[0] if i == 0 else row[0](xs[0])
            for j, layer in enumerate(row):
                y += xs[j] if i == j else layer(xs[j])  # in place: the first sum is what the others read
            found.append(torch.relu(y))
        return found


class LiteHRNet(nn.Module):
    def __init__(self, counts, weighting):
        super().__init__()
        self.stem, before, cs = Stem(), [32], [40, 80, 160, 320]
        for stage, count in enumerate(counts):
            now = cs[: stage + 2]
            same = [nn.Identity() if a == b else separable(a, b, 1) for a, b in zip(before, now, strict=False)]
            layers = nn.ModuleList([*same, nn.Sequential(separable(before[-1], now[-1], 2))])
            setattr(self, f"transition{stage}", layers)
            setattr(self, f"stage{stage}", nn.Sequential(*(Module(now, weighting) for _ in range(count))))
            before = now
        self.head_layer = Iterative(cs)
        self.final_layer = nn.Conv2d(40, 17, 1)

    def forward(self, x):
        xs = [self.stem(x)]
        for stage in range(3):
            layers = getattr(self, f"transition{stage}")
            xs = getattr(self, f"stage{stage}")([f(y) for f, y in zip(layers, [*xs, xs[-1]], strict=True)])
        return self.final_layer(self.head_layer(xs)).permute(0, 2, 3, 1)


class Iterative(nn.Module):
    def __init__(self, cs):
        super().__init__()
        pairs = [(c, cs[max(0, i - 1)]) for i, c in enumerate(cs)][::-1]
        self.projects = nn.ModuleList(
            [nn.ModuleDict({"depthwise_conv": wide(a), "pointwise_conv": point(a, b)}) for a, b in pairs]
        )

    def forward(self, xs):
        y = None
        for x, layers in zip(xs[::-1], self.projects, strict=True):
            x = x if y is None else x + F.interpolate(y, x.shape[2:], mode="bilinear", align_corners=True)
            y = layers["pointwise_conv"](layers["depthwise_conv"](x))
        return y


def paddle():
    """PP-TinyPose is the wider naive net; its names are PaddleDetection's."""
    net = LiteHRNet((2, 4, 2), weighting=False)
    own = net.state_dict

    def renamed():
        found = {}
        for name, value in own().items():
            name = name.replace(".bn.", ".norm.").replace("running_mean", "_mean").replace("running_var", "_variance")
            name = name.replace("final_layer", "final_conv")
            found[name if name.startswith("final") else f"backbone.{name}"] = value
        return found

    net.state_dict = renamed
    return net


NETS = {
    "simple_baseline_resnet50": Baseline,
    "lite_hrnet_18": lambda: LiteHRNet((2, 4, 2), weighting=True),
    "lite_hrnet_wider_naive_18": lambda: LiteHRNet((2, 4, 2), weighting=False),
    "pp_tinypose": paddle,
}
