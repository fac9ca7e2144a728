"""The race's workloads in PyTorch, layer for layer those of pdl."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from workloads import ADAM, DROPOUT, FEED, HEADS, LAYERS, SESSION, SGD, UNET, WIDTH, WORKLOADS, Side, Workload


class LeNet(nn.Module):
    """LeNet-5 with ReLU and max pooling."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of images [N, C, 28, 28]."""
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class CifarBlock(nn.Module):
    """Two 3x3 convolutions and a parameter-free shortcut (He et al. 2015, option A)."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(c_in, c_out, 3, stride), nn.BatchNorm2d(c_out)
        self.conv2, self.bn2 = conv(c_out, c_out, 3), nn.BatchNorm2d(c_out)
        self.stride, self.more = stride, c_out - c_in

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """ReLU(x' + F(x))."""
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(x + y)


class CifarResNet(nn.Module):
    """The CIFAR ResNet of depth 20."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv, self.bn = conv(channels, 16, 3), nn.BatchNorm2d(16)
        sizes = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1),
                 (64, 64, 1)]  # fmt: skip
        self.blocks = nn.Sequential(*[CifarBlock(*s) for s in sizes])
        self.fc = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of images [N, C, 32, 32]."""
        return self.fc(self.blocks(F.relu(self.bn(self.conv(x)))).mean((2, 3)))


class Residual(nn.Module):
    """A basic block (expansion 1) or a bottleneck (4) of the ImageNet ResNets."""

    def __init__(self, c_in: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        out = width * expansion
        shapes = [(c_in, width, 3, stride), (width, width, 3, 1)]
        if expansion > 1:
            shapes = [(c_in, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        self.convs = nn.ModuleList(conv(*s) for s in shapes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(s[1]) for s in shapes)
        change = stride != 1 or c_in != out
        self.shortcut = nn.Sequential(conv(c_in, out, 1, stride), nn.BatchNorm2d(out)) if change else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """ReLU(x' + F(x))."""
        y = x
        for number, (c, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            y = norm(c(F.relu(y) if number else y))
        return F.relu(self.shortcut(x) + y)


class ResNet(nn.Module):
    """ResNet-18 and 50; `small` has a 3x3 stem without pooling."""

    def __init__(self, depth: int, classes: int, small: bool = False) -> None:
        super().__init__()
        counts, expansion = {18: ((2, 2, 2, 2), 1), 50: ((3, 4, 6, 3), 4)}[depth]
        self.small, self.stem, self.norm = small, conv(3, 64, 3) if small else conv(3, 64, 7, 2), nn.BatchNorm2d(64)
        blocks, c = [], 64
        for number, count in enumerate(counts):
            for k in range(count):
                blocks.append(Residual(c, 64 * 2**number, 2 if number and not k else 1, expansion))
                c = 64 * 2**number * expansion
        self.blocks, self.fc = nn.Sequential(*blocks), nn.Linear(c, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of images [N, 3, H, W]."""
        x = F.relu(self.norm(self.stem(x)))
        x = x if self.small else F.max_pool2d(x, 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


class Inverted(nn.Module):
    """MobileNetV2's block: expand, filter by depthwise 3x3, project."""

    def __init__(self, c_in: int, c_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = c_in * expansion
        expand = [conv(c_in, hidden, 1), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)] if expansion != 1 else []
        depthwise = [conv(hidden, hidden, 3, stride, hidden), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)]
        self.body = nn.Sequential(*expand, *depthwise, conv(hidden, c_out, 1), nn.BatchNorm2d(c_out))
        self.residual = stride == 1 and c_in == c_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [N, C, H, W] -> [N, c_out, H / stride, W / stride]."""
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV2(nn.Module):
    """Table 2 of arXiv 1801.04381."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                  (6, 320, 1, 1)]  # fmt: skip
        layers: list[nn.Module] = [conv(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU6(inplace=True)]
        c = 32
        for expansion, out, count, stride in stages:
            for k in range(count):
                layers.append(Inverted(c, out, 1 if k else stride, expansion))
                c = out
        layers += [conv(c, 1280, 1), nn.BatchNorm2d(1280), nn.ReLU6(inplace=True)]
        self.features, self.drop, self.fc = nn.Sequential(*layers), nn.Dropout(0.2), nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of images [N, 3, H, W]."""
        return self.fc(self.drop(self.features(x).mean((2, 3))))


class Transformer(nn.Module):
    """A classifier of token sequences."""

    def __init__(self, vocabulary: int, length: int, classes: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, WIDTH), nn.Parameter(torch.zeros(length, WIDTH))
        self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, FEED, DROPOUT, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes] of tokens [N, length]."""
        return self.head(self.encoder(self.drop(self.norm(self.tokens(tokens) + self.places)))[:, 0])


class GRU4Rec(nn.Module):
    """The next item of a session."""

    def __init__(self, items: int, sparse: bool) -> None:
        super().__init__()
        self.items = nn.Embedding(items, SESSION, sparse=sparse)
        self.gru, self.head = nn.GRU(SESSION, SESSION, batch_first=True), nn.Linear(SESSION, items)

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        """Logits [N, items] of items [N, length]."""
        return self.head(self.gru(self.items(items))[0][:, -1])


class CRNN(nn.Module):
    """The convolutions of arXiv 1507.05717 with norms, a quarter as wide; LSTMs in both directions; a linear layer."""

    def __init__(self, classes: int, hidden: int = 96) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        c = 3
        for out, pool in ((16, 2), (32, 2), (64, None), (64, (2, 1)), (128, None), (128, (2, 1)), (128, (2, 1))):
            layers += [conv(c, out, 3), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(pool, pool)] if pool else []
            c = out
        self.features = nn.Sequential(*layers)
        self.rnn = nn.LSTM(c, hidden, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, W / 4, classes] of images [N, 3, 32, W]."""
        return self.head(self.rnn(self.features(x).mean(2).transpose(1, 2))[0])


class Excite(nn.Module):
    """Squeeze and excite, the gate a hard sigmoid."""

    def __init__(self, c: int, squeezed: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, squeezed, 1), nn.Conv2d(squeezed, c, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The shape stays."""
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class SVTRLCNet(nn.Module):
    """PP-OCRv4's recogniser (arXiv 2206.03001) half as wide, with a step for four columns."""

    def __init__(self, classes: int, dim: int = 64) -> None:
        super().__init__()
        blocks = [(3, 32, 1, 0), (3, 64, 1, 0), (3, 64, 1, 0), (3, 128, (2, 1), 0), (3, 128, 1, 0), (3, 256, (1, 2), 0),
                  *[(5, 256, 1, 0)] * 4, (5, 512, (2, 1), 1), (5, 512, 1, 1), (5, 512, (2, 1), 0),
                  (5, 512, 1, 0)]  # fmt: skip
        layers: list[nn.Module] = [conv(3, 8, 3, 2), nn.BatchNorm2d(8), nn.Hardswish(inplace=True)]
        c = 8
        for kernel, base, stride, squeeze in blocks:
            layers += [conv(c, c, kernel, stride, c), nn.BatchNorm2d(c), nn.Hardswish(inplace=True)]
            layers += [Excite(c, max(8, (c // 4 + 4) // 8 * 8))] if squeeze else []
            layers += [conv(c, base // 2, 1), nn.BatchNorm2d(base // 2), nn.Hardswish(inplace=True)]
            c = base // 2
        self.features, narrow = nn.Sequential(*layers), c // 8

        def row(before: int, out: int, width: int) -> nn.Sequential:
            mixed = nn.Conv2d(before, out, (1, width), padding=(0, width // 2), bias=False)
            return nn.Sequential(mixed, nn.BatchNorm2d(out), nn.SiLU(inplace=True))

        self.enter = nn.Sequential(row(c, narrow, 3), row(narrow, dim, 1))
        layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, 0.1, F.silu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.leave = row(dim, c, 1)
        self.join = nn.Sequential(row(2 * c, narrow, 3), row(narrow, dim, 1))
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(dim, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, W / 4, classes] of images [N, 3, 32, W]."""
        y = self.features(x).mean(2, keepdim=True)
        mixed = self.encoder(self.enter(y).squeeze(2).transpose(1, 2))
        back = self.leave(mixed.transpose(1, 2).unsqueeze(2))
        return self.head(self.drop(self.join(torch.cat([y, back], 1)).squeeze(2).transpose(1, 2)))


class Double(nn.Sequential):
    """Two 3x3 convolutions with their norms."""

    def __init__(self, c_in: int, c_out: int) -> None:
        layers: list[nn.Module] = []
        for before in (c_in, c_out):
            layers += [conv(before, c_out, 3), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    """arXiv 1505.04597 with batch norms, of four levels."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        steps = [(width << k, width << k + 1) for k in range(4)]
        self.first, self.down = Double(3, width), nn.ModuleList(Double(a, b) for a, b in steps)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(steps))
        self.join = nn.ModuleList(Double(b, a) for a, b in reversed(steps))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes, H, W] of images [N, 3, H, W]."""
        maps = [self.first(x)]
        for block in self.down:
            maps.append(block(F.max_pool2d(maps[-1], 2)))
        y = maps.pop()
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat([maps.pop(), up(y)], 1))
        return self.head(y)


class DeepLabV3Plus(nn.Module):
    """arXiv 1802.02611 on a MobileNetV2 of stride 16."""

    def __init__(self, classes: int, c: int = 256, low: int = 48) -> None:
        super().__init__()
        features = MobileNetV2(1).features[:20]
        for place, block in enumerate(features[16:]):  # those that would have a stride of 32
            depthwise: Any = block.body[3]
            depthwise.stride = (1, 1)
            if place:
                depthwise.dilation = depthwise.padding = (2, 2)
        self.begin, self.end = features[:6], features[6:]

        def point(before: int, after: int) -> nn.Sequential:
            return nn.Sequential(conv(before, after, 1), nn.BatchNorm2d(after), nn.ReLU(inplace=True))

        def separable(before: int, after: int, rate: int = 1) -> nn.Sequential:
            depthwise = nn.Conv2d(before, before, 3, padding=rate, dilation=rate, groups=before, bias=False)
            return nn.Sequential(depthwise, nn.BatchNorm2d(before), nn.ReLU(inplace=True), *point(before, after))

        self.branches = nn.ModuleList([point(320, c), *(separable(320, c, rate) for rate in (6, 12, 18))])
        self.pooled, self.project, self.drop = point(320, c), point(5 * c, c), nn.Dropout(0.1)
        self.low, self.decoder = point(24, low), nn.Sequential(separable(c + low, c), separable(c, c))
        self.head = nn.Conv2d(c, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits [N, classes, H / 4, W / 4] of images [N, 3, H, W]."""
        fine = self.begin(x)
        y = self.end(fine)
        pooled = self.pooled(y.mean((2, 3), keepdim=True)).expand(-1, -1, *y.shape[2:])
        y = self.drop(self.project(torch.cat([*(branch(y) for branch in self.branches), pooled], 1)))
        y = F.interpolate(y, fine.shape[2:], mode="bilinear", align_corners=False)
        return self.head(self.decoder(torch.cat([self.low(fine), y], 1)))


def conv(c_in: int, c_out: int, kernel: int, stride: Any = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size at stride 1."""
    return nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)


def net_of(name: str, work: Workload, sparse: bool) -> nn.Module:
    """The net of a workload with fresh weights."""
    made: dict[str, Callable[[], nn.Module]] = {
        "lenet": lambda: LeNet(1, work.classes),
        "resnet20": lambda: CifarResNet(3, work.classes),
        "resnet18": lambda: ResNet(18, work.classes, small=True),
        "resnet50": lambda: ResNet(50, work.classes),
        "mobilenetv2": lambda: MobileNetV2(work.classes),
        "transformer": lambda: Transformer(work.vocabulary, work.length, work.classes),
        "gru4rec": lambda: GRU4Rec(work.vocabulary, sparse),
        "crnn": lambda: CRNN(work.classes),
        "svtr_lcnet": lambda: SVTRLCNet(work.classes),
        "unet": lambda: UNet(UNET, work.classes),
        "deeplab_v3_plus": lambda: DeepLabV3Plus(work.classes),
    }
    return made[name]()


def loss_of(logits: torch.Tensor, labels: torch.Tensor, work: Workload) -> torch.Tensor:
    """Cross-entropy, of logits enlarged to the image where its pixels have labels, or CTC where labels are texts."""
    if work.pixels:
        return F.cross_entropy(
            F.interpolate(logits, labels.shape[1:], mode="bilinear", align_corners=False).float(), labels
        )
    if not work.text:
        return F.cross_entropy(logits, labels)
    logs = F.log_softmax(logits.float(), -1).transpose(0, 1)
    lengths = (torch.full((len(labels),), size) for size in (logs.shape[0], work.text))
    return F.ctc_loss(logs, labels, *lengths)


def modes(work: Workload) -> list[str]:
    """How PyTorch can train it: images in both memory layouts."""
    layouts = [" nchw", " nhwc"] if work.image else [""]
    kinds = ["fp32 eager", "fp32 compile", *(["bf16 autocast"] if work.bf16 else [])]
    return [kind + layout for kind in kinds for layout in layouts] + (["fp32 eager sparse"] if work.sparse else [])


def optimizers_of(net: nn.Module, work: Workload, sparse: bool) -> list[torch.optim.Optimizer]:
    """In the fused form, PyTorch's fastest; sparse gradients need an optimiser of their own."""
    if work.optimizer == "sgd":
        return [torch.optim.SGD(net.parameters(), **SGD, fused=True)]
    if not sparse:
        return [torch.optim.Adam(net.parameters(), **ADAM, fused=True)]
    table = net.items.weight
    dense = [p for p in net.parameters() if p is not table]
    return [torch.optim.SparseAdam([table], **ADAM), torch.optim.Adam(dense, **ADAM, fused=True)]


def side(name: str, mode: str, threads: int) -> Side:
    """A whole training step of a workload in one of `modes`."""
    work, sparse = WORKLOADS[name], "sparse" in mode
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layout = torch.channels_last if "nhwc" in mode else torch.contiguous_format
    net = net_of(name, work, sparse).to(memory_format=layout)
    optimizers = optimizers_of(net, work, sparse)
    x, labels = map(torch.from_numpy, work.arrays())
    if work.image:
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=layout)
    run: Any = torch.compile(net) if "compile" in mode else net
    bf16 = "bf16" in mode

    def step() -> None:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            loss = loss_of(run(x), labels, work)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    return Side(step, sum(p.numel() for p in net.parameters()))
