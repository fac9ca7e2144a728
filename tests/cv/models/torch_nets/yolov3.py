"""YOLOv3 in PyTorch, with PaddleDetection's names (ppdet/modeling: backbones/darknet, necks/yolo_fpn,
heads/yolo_head).
"""

import torch
from _detection import run, unit, up
from torch import nn
from torch.nn import functional as F


def dark(cin, cout, k=1, s=1):
    return unit(cin, cout, k, s, norm="batch_norm")


def leaky(layer, x):
    return run(layer, x, lambda y: F.leaky_relu(y, 0.1), "batch_norm")


class Two(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.conv2 = dark(c, c // 2), dark(c // 2, c, 3)

    def forward(self, x):
        return x + leaky(self.conv2, leaky(self.conv1, x))


def nested(root, path, module):
    """Put a module at a dotted path, as Paddle's names of sublayers may have dots."""
    *names, last = path.split(".")
    for name in names:
        if name not in root._modules:
            root.add_module(name, nn.Module())
        root = root._modules[name]
    for name, child in module.named_children():
        (root._modules[last] if last in root._modules else _new(root, last)).add_module(name, child)


def _new(root, name):
    root.add_module(name, nn.Module())
    return root._modules[name]


class YOLOv3(nn.Module):
    def __init__(self, classes=80):
        super().__init__()
        self.backbone, self.neck, self.yolo_head = nn.Module(), nn.Module(), nn.Module()
        self.plan = []  # modules of the backbone in order, and after which of them a map is taken
        self.add("backbone.conv0", dark(3, 32, 3), leaky)
        self.add("backbone.downsample0.conv_bn_layer", dark(32, 64, 3, 2), leaky)
        for i, n in enumerate((1, 2, 8, 8, 4)):
            c = 64 * 2**i
            self.add(f"backbone.stage.{i}.basicblock0", Two(c), None)
            for j in range(1, n):
                self.add(f"backbone.stage.{i}.stage.{i}.{j}", Two(c), None)
            self.plan.append("map")
            if i < 4:
                self.add(f"backbone.stage.{i}.downsample.conv_bn_layer", dark(c, 2 * c, 3, 2), leaky)
        self.neck.yolo_block, self.neck.yolo_transition = nn.ModuleList(), nn.ModuleList()
        self.yolo_head.yolo_output = nn.ModuleList()
        for cin, c in ((1024, 512), (768, 256), (384, 128)):
            pairs = [("conv0", cin, c, 1), ("conv1", c, 2 * c, 3), ("conv2", 2 * c, c, 1), ("conv3", c, 2 * c, 3),
                     ("route", 2 * c, c, 1)]  # fmt: skip
            layers = nn.ModuleDict({name: dark(a, b, k) for name, a, b, k in pairs})
            self.neck.yolo_block.append(nn.ModuleDict({"conv_module": layers, "tip": dark(c, 2 * c, 3)}))
            self.yolo_head.yolo_output.append(nn.Conv2d(2 * c, 3 * (5 + classes), 1))
            if c > 128:
                self.neck.yolo_transition.append(dark(c, c // 2))

    def add(self, path, module, how):
        nested(self, path, module)
        self.plan.append((module, how))

    def forward(self, x):
        maps, found = [], []
        for step in self.plan:
            if step == "map":
                maps.append(x)
            else:
                x = step[1](step[0], x) if step[1] else step[0](x)
        anchors = [[(116, 90), (156, 198), (373, 326)], [(30, 61), (62, 45), (59, 119)], [(10, 13), (16, 30), (33, 23)]]
        route = None
        for i, y in enumerate(maps[:1:-1]):
            if i:
                y = torch.cat([up(leaky(self.neck.yolo_transition[i - 1], route)), y], 1)
            block = self.neck.yolo_block[i]
            for layer in block["conv_module"].values():
                y = leaky(layer, y)
            route, stride = y, 32 // 2**i
            z = self.yolo_head.yolo_output[i](leaky(block["tip"], y))
            n, _, h, w = z.shape
            z = z.reshape(n, 3, -1, h * w).permute(0, 3, 1, 2)
            corner = torch.stack([torch.arange(w).repeat(h), torch.arange(h).repeat_interleave(w)], -1)[:, None]
            middle = (z[..., :2].sigmoid() + corner) * stride
            half = z[..., 2:4].exp() * torch.tensor(anchors[i]) / 2
            scores = z[..., 4:5].sigmoid() * z[..., 5:].sigmoid()
            found.append(torch.cat([middle - half, middle + half, scores], -1).flatten(1, 2))
        return torch.cat(found, 1)


NETS = {"yolov3_darknet53": YOLOv3}
CALIBRATED = True
