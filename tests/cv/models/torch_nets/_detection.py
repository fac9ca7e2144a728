"""What the detectors share. Their output is boxes (x1, y1, x2, y2) in pixels and scores [N, A, 4 + C], before any is
left out.
"""

import torch
from torch import nn
from torch.nn import functional as F


def unit(cin, cout, k=1, s=1, groups=1, *, norm="bn", eps=1e-5):
    names = {"conv": nn.Conv2d(cin, cout, k, s, k // 2, groups=groups, bias=False), norm: nn.BatchNorm2d(cout, eps=eps)}
    return nn.ModuleDict(names)


def run(layer, x, act=None, norm="bn"):
    y = layer[norm](layer["conv"](x))
    return act(y) if act else y


def cells(maps, strides):
    """Middles [A, 2] in pixels and strides [A, 1]."""
    middles, sides = [], []
    for x, s in zip(maps, strides, strict=True):
        rows, columns = torch.meshgrid(torch.arange(x.shape[2]), torch.arange(x.shape[3]), indexing="ij")
        middles.append((torch.stack([columns, rows], -1).reshape(-1, 2) + 0.5) * s)
        sides.append(torch.full((len(middles[-1]), 1), float(s)))
    return torch.cat(middles), torch.cat(sides)


def rows(maps):
    return torch.cat([x.flatten(2).transpose(1, 2) for x in maps], 1)


def from_distances(distances, maps, strides):
    """Boxes from logits of distances, maps [N, 4 bins, h, w]."""
    middles, sides = cells(maps, strides)
    d = rows(distances)
    d = d.reshape(*d.shape[:2], 4, -1).softmax(-1)
    d = (d * torch.arange(d.shape[-1])).sum(-1) * sides
    return torch.cat([middles - d[..., :2], middles + d[..., 2:]], -1)


def up(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")
