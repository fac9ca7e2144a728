"""PP-LCNet in PyTorch, with timm's names."""

import torch
from torch import nn
from torch.nn import functional as F

#: kernel, channels at width 0.5, stride, gate
STAGES = [[(3, 16, 1, 0)], [(3, 32, 2, 0), (3, 32, 1, 0)], [(3, 64, 2, 0), (3, 64, 1, 0)],
          [(3, 128, 2, 0), (5, 128, 1, 0)], [(5, 128, 1, 0)] * 4, [(5, 256, 2, 1), (5, 256, 1, 1)]]  # fmt: skip


class Gate(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv_reduce, self.conv_expand = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.conv_expand(torch.relu(self.conv_reduce(x.mean((2, 3), keepdim=True)))))


class Block(nn.Module):
    def __init__(self, cin, k, out, s, gate):
        super().__init__()
        self.conv_dw, self.bn1 = nn.Conv2d(cin, cin, k, s, k // 2, groups=cin, bias=False), nn.BatchNorm2d(cin)
        self.se = Gate(cin) if gate else nn.Identity()
        self.conv_pw, self.bn2 = nn.Conv2d(cin, out, 1, bias=False), nn.BatchNorm2d(out)

    def forward(self, x):
        return F.hardswish(self.bn2(self.conv_pw(self.se(F.hardswish(self.bn1(self.conv_dw(x)))))))


class LCNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_stem, self.bn1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        stages, cin = [], 8
        for rows in STAGES:
            blocks = []
            for k, c, s, gate in rows:
                blocks.append(Block(cin, k, c, s, gate))
                cin = c
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.classifier = nn.Conv2d(cin, 1280, 1), nn.Linear(1280, 1000)

    def forward(self, x):
        x = self.blocks(F.hardswish(self.bn1(self.conv_stem(x))))
        return self.classifier(F.hardswish(self.conv_head(x.mean((2, 3), keepdim=True))).flatten(1))


NETS = {"lcnet_050": LCNet}
CALIBRATED = True
