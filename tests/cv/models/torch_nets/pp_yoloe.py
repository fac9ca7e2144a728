"""PP-YOLOE+-s in PyTorch, with PaddleDetection's names (ppdet/modeling: backbones/cspresnet, necks/custom_pan,
heads/ppyoloe_head).
"""

import torch
from _detection import from_distances, rows, run, unit, up
from torch import nn
from torch.nn import functional as F


class Rep(nn.Module):
    def __init__(self, c, alpha):
        super().__init__()
        self.conv1, self.conv2 = unit(c, c, 3), unit(c, c)
        if alpha:
            self.alpha = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return F.silu(run(self.conv1, x) + getattr(self, "alpha", 1) * run(self.conv2, x))


class Basic(nn.Module):
    def __init__(self, c, shortcut):
        super().__init__()
        self.conv1, self.conv2, self.shortcut = unit(c, c, 3), Rep(c, shortcut), shortcut

    def forward(self, x):
        y = self.conv2(run(self.conv1, x, F.silu))
        return x + y if self.shortcut else y


class ResStage(nn.Module):
    def __init__(self, cin, cout, n):
        super().__init__()
        m = (cin + cout) // 2
        self.conv_down, self.conv1, self.conv2 = unit(cin, m, 3, 2), unit(m, m // 2), unit(m, m // 2)
        self.blocks = nn.Sequential(*(Basic(m // 2, True) for _ in range(n)))
        self.attn, self.conv3 = nn.ModuleDict({"fc": nn.Conv2d(m, m, 1)}), unit(m, cout)

    def forward(self, x):
        x = run(self.conv_down, x, F.silu)
        y = torch.cat([run(self.conv1, x, F.silu), self.blocks(run(self.conv2, x, F.silu))], 1)
        return run(self.conv3, y * F.hardsigmoid(self.attn["fc"](y.mean((2, 3), keepdim=True))), F.silu)


class Pools(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = unit(4 * c, c)

    def forward(self, x):
        return run(self.conv, torch.cat([x, *(F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13))], 1), F.silu)


class Stage(nn.Module):
    def __init__(self, cin, cout, spp=False):
        super().__init__()
        h = cout // 2
        self.conv1, self.conv2, self.conv3 = unit(cin, h), unit(cin, h), unit(2 * h, cout)
        self.convs = nn.Sequential()
        self.convs.add_module("0", Basic(h, False))
        if spp:
            self.convs.add_module("spp", Pools(h))

    def forward(self, x):
        y = torch.cat([run(self.conv1, x, F.silu), self.convs(run(self.conv2, x, F.silu))], 1)
        return run(self.conv3, y, F.silu)


class ESE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc, self.conv = nn.Conv2d(c, c, 1), unit(c, c)

    def forward(self, x):
        return run(self.conv, x * self.fc(x.mean((2, 3), keepdim=True)).sigmoid(), F.silu)


class PPYOLOE(nn.Module):
    #: of size s
    def __init__(self, classes=80):
        super().__init__()
        stem = {"conv1": unit(3, 16, 3, 2), "conv2": unit(16, 16, 3), "conv3": unit(16, 32, 3)}
        widths = ((32, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 1))
        self.backbone, self.neck, self.yolo_head = nn.Module(), nn.Module(), nn.Module()
        self.backbone.stem = nn.ModuleDict(stem)
        self.backbone.stages = nn.ModuleList(ResStage(*each) for each in widths)
        fpn = [(512, 384, True), (256 + 192, 192), (128 + 96, 96)]
        self.neck.fpn_stages = nn.ModuleList(nn.Sequential(Stage(*each)) for each in fpn)
        self.neck.fpn_routes = nn.ModuleList([unit(384, 192), unit(192, 96)])
        self.neck.pan_stages = nn.ModuleList(
            nn.Sequential(Stage(*each)) for each in [(384 + 192, 384), (192 + 96, 192)]
        )
        self.neck.pan_routes = nn.ModuleList([unit(192, 192, 3, 2), unit(96, 96, 3, 2)])
        wide = (384, 192, 96)
        self.yolo_head.stem_cls, self.yolo_head.stem_reg = (nn.ModuleList(map(ESE, wide)) for _ in range(2))
        for name, c in (("pred_cls", classes), ("pred_reg", 68)):
            setattr(self.yolo_head, name, nn.ModuleList(nn.Conv2d(w, c, 3, padding=1) for w in wide))
        self.yolo_head.proj_conv = nn.Conv2d(17, 1, 1, bias=False)

    def forward(self, x):
        for layer in self.backbone.stem.values():
            x = run(layer, x, F.silu)
        maps = []
        for stage in self.backbone.stages:
            x = stage(x)
            maps.append(x)
        n, h = self.neck, self.yolo_head
        p5 = n.fpn_stages[0](maps[3])
        p4 = n.fpn_stages[1](torch.cat([up(run(n.fpn_routes[0], p5, F.silu)), maps[2]], 1))
        p3 = n.fpn_stages[2](torch.cat([up(run(n.fpn_routes[1], p4, F.silu)), maps[1]], 1))
        n4 = n.pan_stages[1](torch.cat([run(n.pan_routes[1], p3, F.silu), p4], 1))
        n5 = n.pan_stages[0](torch.cat([run(n.pan_routes[0], n4, F.silu), p5], 1))
        maps = n5, n4, p3
        scores = [h.pred_cls[i](h.stem_cls[i](y) + y).sigmoid() for i, y in enumerate(maps)]
        distances = [h.pred_reg[i](h.stem_reg[i](y)) for i, y in enumerate(maps)]
        return torch.cat([from_distances(distances, maps, (32, 16, 8)), rows(scores)], -1)


NETS = {"ppyoloe_plus_s": PPYOLOE}
CALIBRATED = True
