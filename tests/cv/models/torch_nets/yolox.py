"""YOLOX in PyTorch, with the authors' names (yolox/models)."""

import torch
from _detection import cells, rows, up
from torch import nn
from torch.nn import functional as F


class Base(nn.Module):
    def __init__(self, cin, cout, k, s=1, groups=1):
        super().__init__()
        self.conv, self.bn = (
            nn.Conv2d(cin, cout, k, s, k // 2, groups=groups, bias=False),
            nn.BatchNorm2d(cout, eps=1e-3),
        )

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Depthwise(nn.Module):
    def __init__(self, cin, cout, k, s=1):
        super().__init__()
        self.dconv, self.pconv = Base(cin, cin, k, s, cin), Base(cin, cout, 1)

    def forward(self, x):
        return self.pconv(self.dconv(x))


class Neck(nn.Module):
    def __init__(self, c, shortcut, conv):
        super().__init__()
        self.conv1, self.conv2, self.shortcut = Base(c, c, 1), conv(c, c, 3), shortcut

    def forward(self, x):
        y = self.conv2(self.conv1(x))
        return x + y if self.shortcut else y


class CSP(nn.Module):
    def __init__(self, cin, cout, n, shortcut, conv):
        super().__init__()
        h = cout // 2
        self.conv1, self.conv2, self.conv3 = Base(cin, h, 1), Base(cin, h, 1), Base(2 * h, cout, 1)
        self.m = nn.Sequential(*(Neck(h, shortcut, conv) for _ in range(n)))

    def forward(self, x):
        return self.conv3(torch.cat([self.m(self.conv1(x)), self.conv2(x)], 1))


class SPP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.conv2 = Base(c, c // 2, 1), Base(2 * c, c, 1)

    def forward(self, x):
        x = self.conv1(x)
        return self.conv2(torch.cat([x, *(F.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13))], 1))


class Focus(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = Base(12, c, 3)

    def forward(self, x):
        corners = [x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]]
        return self.conv(torch.cat(corners, 1))


class Darknet(nn.Module):
    def __init__(self, depth, width, conv):
        super().__init__()
        b, n = int(width * 64), max(round(depth * 3), 1)
        self.stem = Focus(b)
        self.dark2 = nn.Sequential(conv(b, 2 * b, 3, 2), CSP(2 * b, 2 * b, n, True, conv))
        self.dark3 = nn.Sequential(conv(2 * b, 4 * b, 3, 2), CSP(4 * b, 4 * b, 3 * n, True, conv))
        self.dark4 = nn.Sequential(conv(4 * b, 8 * b, 3, 2), CSP(8 * b, 8 * b, 3 * n, True, conv))
        self.dark5 = nn.Sequential(conv(8 * b, 16 * b, 3, 2), SPP(16 * b), CSP(16 * b, 16 * b, n, False, conv))


class PAFPN(nn.Module):
    def __init__(self, depth, width, conv):
        super().__init__()
        c3, c4, c5 = (int(c * width) for c in (256, 512, 1024))
        n = round(3 * depth)
        self.backbone = Darknet(depth, width, conv)
        self.lateral_conv0, self.C3_p4 = Base(c5, c4, 1), CSP(2 * c4, c4, n, False, conv)
        self.reduce_conv1, self.C3_p3 = Base(c4, c3, 1), CSP(2 * c3, c3, n, False, conv)
        self.bu_conv2, self.C3_n3 = conv(c3, c3, 3, 2), CSP(2 * c3, c4, n, False, conv)
        self.bu_conv1, self.C3_n4 = conv(c4, c4, 3, 2), CSP(2 * c4, c5, n, False, conv)

    def forward(self, x):
        b = self.backbone
        c3 = b.dark3(b.dark2(b.stem(x)))
        c4 = b.dark4(c3)
        high = self.lateral_conv0(b.dark5(c4))
        middle = self.reduce_conv1(self.C3_p4(torch.cat([up(high), c4], 1)))
        p3 = self.C3_p3(torch.cat([up(middle), c3], 1))
        p4 = self.C3_n3(torch.cat([self.bu_conv2(p3), middle], 1))
        return p3, p4, self.C3_n4(torch.cat([self.bu_conv1(p4), high], 1))


class YOLOXHead(nn.Module):
    def __init__(self, width, conv, classes=80):
        super().__init__()
        h = int(256 * width)
        lists = [nn.ModuleList(nn.Sequential(conv(h, h, 3), conv(h, h, 3)) for _ in range(3)) for _ in range(2)]
        self.cls_convs, self.reg_convs = lists
        self.cls_preds, self.reg_preds, self.obj_preds = (
            nn.ModuleList(nn.Conv2d(h, c, 1) for _ in range(3)) for c in (classes, 4, 1)
        )
        self.stems = nn.ModuleList(Base(int(c * width), h, 1) for c in (256, 512, 1024))


class YOLOX(nn.Module):
    def __init__(self, depth, width, depthwise=False):
        super().__init__()
        conv = Depthwise if depthwise else Base
        self.backbone, self.head = PAFPN(depth, width, conv), YOLOXHead(width, conv)

    def forward(self, x):
        h, maps, found = self.head, self.backbone(x), []
        for i, y in enumerate(maps):
            stem = h.stems[i](y)
            c, r = h.cls_preds[i](h.cls_convs[i](stem)), h.reg_convs[i](stem)
            found.append(torch.cat([h.reg_preds[i](r), h.obj_preds[i](r).sigmoid() * c.sigmoid()], 1))
        middles, sides = cells(maps, (8, 16, 32))
        y = rows(found)
        middle = y[..., :2] * sides + middles - sides / 2
        half = y[..., 2:4].exp() * sides / 2
        return torch.cat([middle - half, middle + half, y[..., 4:]], -1)


NETS = {"yolox_nano": lambda: YOLOX(0.33, 0.25, True), "yolox_tiny": lambda: YOLOX(0.33, 0.375)}
CALIBRATED = True
