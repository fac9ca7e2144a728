"""PicoDet-S in PyTorch, with PaddleDetection's names (ppdet/modeling: backbones/lcnet, necks/lc_pan,
heads/pico_head).
"""

import torch
from _detection import from_distances, rows, run, unit, up
from torch import nn
from torch.nn import functional as F


class DepthwiseSeparable(nn.Module):
    def __init__(self, cin, cout, k, s=1, se=False):
        super().__init__()
        self.dw_conv, self.pw_conv = unit(cin, cin, k, s, cin), unit(cin, cout)
        if se:
            self.se = nn.ModuleDict({"conv1": nn.Conv2d(cin, cin // 4, 1), "conv2": nn.Conv2d(cin // 4, cin, 1)})

    def forward(self, x):
        x = run(self.dw_conv, x, F.hardswish)
        if hasattr(self, "se"):
            x = x * F.hardsigmoid(self.se["conv2"](F.relu(self.se["conv1"](x.mean((2, 3), keepdim=True)))))
        return run(self.pw_conv, x, F.hardswish)


class LCNet(nn.Module):
    #: width 0.75
    def __init__(self):
        super().__init__()
        self.conv1 = unit(3, 16, 3, 2)
        c, stages = 16, {2: [(3, 24, 1)], 3: [(3, 48, 2), (3, 48, 1)], 4: [(3, 96, 2), (3, 96, 1)],
                         5: [(3, 192, 2), *[(5, 192, 1)] * 5], 6: [(5, 384, 2), (5, 384, 1)]}  # fmt: skip
        for number, layers in stages.items():
            blocks = []
            for k, out, s in layers:
                blocks.append(DepthwiseSeparable(c, out, k, s, number == 6))
                c = out
            setattr(self, f"blocks{number}", nn.Sequential(*blocks))

    def forward(self, x):
        x = self.blocks3(self.blocks2(run(self.conv1, x, F.hardswish)))
        c3 = self.blocks4(x)
        c4 = self.blocks5(c3)
        return c3, c4, self.blocks6(c4)


class DP(nn.Module):
    def __init__(self, cin, cout, s=1):
        super().__init__()
        self.dwconv, self.bn1 = nn.Conv2d(cin, cout, 5, s, 2, groups=cout, bias=False), nn.BatchNorm2d(cout)
        self.pwconv, self.bn2, self.last = nn.Conv2d(cout, cout, 1, bias=False), nn.BatchNorm2d(cout), cout == 1

    def forward(self, x):
        y = self.bn2(self.pwconv(F.hardswish(self.bn1(self.dwconv(x)))))
        return y if self.last else F.hardswish(y)


class LCPAN(nn.Module):
    def __init__(self, cin, c):
        super().__init__()
        self.conv_t = nn.ModuleDict({"convs": nn.ModuleList(unit(i, c) for i in cin)})
        self.first_top_conv, self.second_top_conv = DP(c, c, 2), DP(c, c, 2)
        two = [DepthwiseSeparable(2 * c, 2 * c, 5), DepthwiseSeparable(2 * c, c, 5)]
        self.top_down_blocks, self.bottom_up_blocks = (
            nn.ModuleList(
                nn.Sequential(*(DepthwiseSeparable(2 * c, o, 5) for o in (2 * c, c))) for _ in range(len(two))
            )
            for _ in range(2)
        )
        self.downsamples = nn.ModuleList(DP(c, c, 2) for _ in range(2))

    def forward(self, maps):
        c3, c4, c5 = (run(layer, x, F.hardswish) for layer, x in zip(self.conv_t["convs"], maps, strict=True))
        p4 = self.top_down_blocks[0](torch.cat([up(c5), c4], 1))
        p3 = self.top_down_blocks[1](torch.cat([up(p4), c3], 1))
        n4 = self.bottom_up_blocks[0](torch.cat([self.downsamples[0](p3), p4], 1))
        n5 = self.bottom_up_blocks[1](torch.cat([self.downsamples[1](n4), c5], 1))
        return p3, n4, n5, self.first_top_conv(c5) + self.second_top_conv(n5)


class PicoSE(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc, self.conv = nn.Conv2d(c, c, 1), unit(c, c, norm="norm")


class PicoHead(nn.Module):
    def __init__(self, c, n, classes=80):
        super().__init__()
        self.conv_feat = nn.Module()
        for i in range(4):
            for kind, k, groups in (("dw", 5, c), ("pw", 1, 1)):
                layers = nn.ModuleList(unit(c, c, k, groups=groups, norm="norm") for _ in range(n))
                setattr(self.conv_feat, f"cls_conv_{kind}{i}", layers)
            setattr(self, f"head_cls{i}", nn.Conv2d(c, classes, 1))
            setattr(self, f"head_reg{i}", nn.Conv2d(c, 32, 1))
        self.conv_feat.se = nn.ModuleList(PicoSE(c) for _ in range(4))
        self.cls_align = nn.ModuleList(DP(c, 1) for _ in range(4))

    def forward(self, maps):
        scores, distances = [], []
        for i, x in enumerate(maps):
            feat = self.conv_feat
            for dw, pw in zip(getattr(feat, f"cls_conv_dw{i}"), getattr(feat, f"cls_conv_pw{i}"), strict=True):
                x = run(pw, run(dw, x, F.hardswish, "norm"), F.hardswish, "norm")
            gate = feat.se[i].fc(x.mean((2, 3), keepdim=True)).sigmoid()
            gated = run(feat.se[i].conv, x * gate, F.hardswish, "norm")
            both = getattr(self, f"head_cls{i}")(gated).sigmoid() * self.cls_align[i](x).sigmoid()
            scores.append((both + 1e-9).sqrt())
            distances.append(getattr(self, f"head_reg{i}")(gated))
        return torch.cat([from_distances(distances, maps, (8, 16, 32, 64)), rows(scores)], -1)


class PicoDet(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.neck, self.head = LCNet(), LCPAN((96, 192, 384), 96), PicoHead(96, 2)

    def forward(self, x):
        return self.head(self.neck(self.backbone(x)))


NETS = {"picodet_s": PicoDet}
CALIBRATED = True
